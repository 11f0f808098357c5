"""Emits the Fourier transforms of few numbers, which stay in registers: a lane has a number of each of many transforms.

A transform of r · m numbers is r transforms of m, rotations, and m transforms of r (Cooley and Tukey, "An algorithm for the
machine calculation of complex Fourier series", 1965); r is 4 or a prime. Prime lengths take sums and differences of the
numbers as far from both ends, so that products of a cosine and of a sine serve two results. Every product is added by a fused
operation, in an order that depends on the length alone: all hosts get the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...ir import Function
from ...values import V, const
from .waves import wave


class Number(NamedTuple):
    """Complex numbers, one a lane."""

    real: V
    imaginary: V


class Lanes:
    """Emits sums and products of complex numbers. sign: that of the exponents of the transforms, -1 or 1."""

    def __init__(self, f: Function, sign: int) -> None:
        self.f, self.sign = f, sign

    def add(self, a: Number, b: Number) -> Number:
        f = self.f
        return Number(f.binary("fadd", a.real, b.real), f.binary("fadd", a.imaginary, b.imaginary))

    def sub(self, a: Number, b: Number) -> Number:
        f = self.f
        return Number(f.binary("fsub", a.real, b.real), f.binary("fsub", a.imaginary, b.imaginary))

    def turned(self, a: Number, cos: V, sin: V) -> Number:
        """Returns a · (cos + i sin)."""
        f = self.f
        real = f.fma(f.fneg(a.imaginary), sin, f.binary("fmul", a.real, cos))
        return Number(real, f.fma(a.real, sin, f.binary("fmul", a.imaginary, cos)))

    def quarter(self, a: Number, count: int) -> Number:
        """Returns a turned by so many quarters."""
        f, count = self.f, count % 4
        if count == 0:
            return a
        if count == 2:
            return Number(f.fneg(a.real), f.fneg(a.imaginary))
        return Number(f.fneg(a.imaginary), a.real) if count == 1 else Number(a.imaginary, f.fneg(a.real))

    def wave(self, a: Number, count: int, length: int) -> Number:
        """Returns a · e^(sign · 2πi · count / length)."""
        if 4 * count % length == 0:
            return self.quarter(a, self.sign * (4 * count // length))
        cos, sin = wave(count, length)
        type_ = a.real.type
        return self.turned(a, const(cos, type_), const(self.sign * sin, type_))

    # -- transforms ----------------------------------------------------------------------------------------------------

    def transform(self, x: Sequence[Number]) -> list[Number]:
        """Returns the transform of as many numbers as there are."""
        length = len(x)
        if length == 1:
            return list(x)
        if length == 2:
            return [self.add(*x), self.sub(*x)]
        if length == 4:
            return self._four(x)
        outer = 4 if length % 4 == 0 else next(number for number in range(2, length + 1) if length % number == 0)
        if outer == length:
            return self._prime(x)
        inner = length // outer
        parts = [self.transform(x[first::outer]) for first in range(outer)]
        found: list[Number] = [parts[0][0]] * length
        for k in range(inner):
            column = [self.wave(part[k], first * k, length) for first, part in enumerate(parts)]
            found[k::inner] = self.transform(column)
        return found

    def _four(self, x: Sequence[Number]) -> list[Number]:
        even, odd = self.add(x[0], x[2]), self.add(x[1], x[3])
        first, second = self.sub(x[0], x[2]), self.quarter(self.sub(x[1], x[3]), self.sign)
        return [self.add(even, odd), self.add(first, second), self.sub(even, odd), self.sub(first, second)]

    def _prime(self, x: Sequence[Number]) -> list[Number]:
        f, length, type_ = self.f, len(x), x[0].real.type
        half = range(1, (length + 1) // 2)
        sums = [self.add(x[j], x[length - j]) for j in half]
        differences = [self.sub(x[j], x[length - j]) for j in half]
        total = x[0]
        for each in sums:
            total = self.add(total, each)
        found: list[Number] = [total] * length
        for k in half:
            (real, imaginary), turned = x[0], None
            for j, both, apart in zip(half, sums, differences, strict=True):
                cos, sin = (const(part, type_) for part in wave(j * k, length))
                real, imaginary = f.fma(both.real, cos, real), f.fma(both.imaginary, cos, imaginary)
                if turned is None:
                    turned = Number(f.binary("fmul", apart.real, sin), f.binary("fmul", apart.imaginary, sin))
                else:
                    turned = Number(f.fma(apart.real, sin, turned.real), f.fma(apart.imaginary, sin, turned.imaginary))
            assert turned is not None
            side = self.quarter(turned, self.sign)
            found[k] = self.add(Number(real, imaginary), side)
            found[length - k] = self.sub(Number(real, imaginary), side)
        return found
