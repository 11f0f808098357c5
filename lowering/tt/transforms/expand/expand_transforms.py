"""Expands tt.fft into gathers, products and sums, for targets whose threads share out a block.

A step does the transforms of r numbers each, r a prime factor of the length, in the order that needs no reversal of digits (see
`lowering/llvm/host/fourier/passes.py`). With n what is left of the length before it and s the product of the factors before,
element q + s (r p + k) becomes

    Σ x[q + s (p + j n / r)] · e^(± 2πi k (p + j n / r) / n), j < r,

whose waves are computed from exact fractions of a turn. What lies beyond the results is a copy of other elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.ir import SSAValue

from ... import types as t
from ...dialect.compute import FftOp
from ...dialect.functions import FuncOp
from ..function_pass import FunctionPass
from ..rewriting import Rewriter


class _Numbers(NamedTuple):
    """Blocks of real and of imaginary parts."""

    real: SSAValue
    imaginary: SSAValue


def factors(length: int) -> list[int]:
    """Returns the prime factors of a length, the least first."""
    found, rest, prime = [], length, 2
    while rest > 1:
        while rest % prime == 0:
            found.append(prime)
            rest //= prime
        prime += 1
    return found


class _Expansion:
    """Emits the steps of one operation."""

    def __init__(self, op: FftOp) -> None:
        self.b, self.axis, self.shape = Rewriter(op), op.axis.value.data, t.shape_of(op.src.type)
        self.kind, self.length = op.kind.data, op.length.value.data
        self.is_of_parts, self.elem = op.is_of_parts, t.F64 if op.is_of_parts else t.F32
        self.sign = 1 if self.kind.endswith("inverse") else -1
        here = self.b.arange(self.shape[self.axis])
        for position in range(len(self.shape)):
            if position != self.axis:
                here = self.b.expand_dims(here, position)
        self.position = self.here = self.b.broadcast(here, self.shape)
        if self.is_of_parts:  # two elements compute the same number
            self.here = self._i("divsi", self.position, 2)
        self.source = op.src

    # -- integers and numbers of all elements --------------------------------------------------------------------------

    def _int(self, number: int) -> SSAValue:
        return self.b.const(number, t.I32, self.shape)

    def _i(self, name: str, a: SSAValue, b: SSAValue | int) -> SSAValue:
        return self.b.binary(f"arith.{name}", a, self._int(b) if isinstance(b, int) else b)

    def _f(self, name: str, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.b.binary(f"arith.{name}", a, b)

    def _gathered(self, x: _Numbers, at: SSAValue) -> _Numbers:
        if not self.is_of_parts:
            return _Numbers(*[self.b.gather(part, at, self.axis) for part in x])
        first = self._i("muli", at, 2)
        offset = 0 if x.real is not x.imaginary else 1  # as they came, or both parts in both elements of a number
        return _Numbers(
            self.b.gather(x.real, first, self.axis), self.b.gather(x.imaginary, self._i("addi", first, offset), self.axis)
        )

    def _waves(self, counts: SSAValue, length: int) -> _Numbers:
        """Returns cosines and signed sines of 2π counts / length, counts being below it, from angles in the first eighth."""
        b = self.b
        eighths = self._i("muli", counts, 8)
        octant, rest = self._i("divsi", eighths, length), self._i("remsi", eighths, length)
        is_odd = b.cmpi("eq", self._i("andi", octant, 1), self._int(1))
        part = b.select(is_odd, self._i("subi", self._int(length), rest), rest)
        angle = self._f("mulf", b.cast("arith.sitofp", part, self.elem), b.const(math.pi / 4 / length, self.elem, self.shape))
        near, far = b.unary("math.cos", angle), b.unary("math.sin", angle)
        is_swapped = b.cmpi("eq", self._i("andi", self._i("addi", octant, 1), 2), self._int(2))
        cos, sin = b.select(is_swapped, far, near), b.select(is_swapped, near, far)
        is_left = b.cmpi("eq", self._i("andi", self._i("addi", octant, 2), 4), self._int(4))
        is_below = b.cmpi("slt" if self.sign < 0 else "sge", octant, self._int(4))
        return _Numbers(
            b.select(is_left, b.unary("arith.negf", cos), cos), b.select(is_below, b.unary("arith.negf", sin), sin)
        )

    def _product(self, a: _Numbers, b: _Numbers) -> _Numbers:
        real = self._f("subf", self._f("mulf", a.real, b.real), self._f("mulf", a.imaginary, b.imaginary))
        return _Numbers(real, self._f("addf", self._f("mulf", a.real, b.imaginary), self._f("mulf", a.imaginary, b.real)))

    def _sum(self, a: _Numbers, b: _Numbers, name: str = "addf") -> _Numbers:
        return _Numbers(self._f(name, a.real, b.real), self._f(name, a.imaginary, b.imaginary))

    # -- steps ---------------------------------------------------------------------------------------------------------

    def emitted(self) -> SSAValue:
        """Emits all steps, and returns the results."""
        x = self._parts()
        if self.length == 1 and self.is_of_parts and not self.kind.startswith("real"):
            return self.source
        if self.kind == "real_inverse":
            x = self._halves(x)
        left, stride = self.length, 1
        for count in factors(self.length):
            x = self._step(x, left, stride, count)
            left, stride = left // count, stride * count
        if self.kind == "real":
            x = self._halves(x)
        return self._whole(x)

    def _parts(self) -> _Numbers:
        b = self.b
        if self.is_of_parts:
            return _Numbers(self.source, self.source)
        high = b.binary("arith.shrui", self.source, b.const(32, t.I64, self.shape))
        low, high = (b.cast("arith.trunci", each, t.I32) for each in (self.source, high))
        return _Numbers(b.cast("arith.bitcast", low, t.F32), b.cast("arith.bitcast", high, t.F32))

    def _whole(self, x: _Numbers) -> SSAValue:
        b = self.b
        if self.is_of_parts:
            is_first = b.cmpi("eq", self._i("andi", self.position, 1), self._int(0))
            return b.select(is_first, x.real, x.imaginary)
        low, high = (b.cast("arith.extui", b.cast("arith.bitcast", part, t.I32), t.I64) for part in x)
        return b.binary("arith.ori", b.binary("arith.shli", high, b.const(32, t.I64, self.shape)), low)

    def _step(self, x: _Numbers, left: int, stride: int, count: int) -> _Numbers:
        blocks = left // count
        here = self._i("minsi", self.here, self.length - 1)
        row, above = self._i("remsi", here, stride), self._i("divsi", here, stride)
        k, block = self._i("remsi", above, count), self._i("divsi", above, count)
        found: _Numbers | None = None
        for number in range(count):
            at = self._i("addi", block, number * blocks)
            term = self._gathered(x, self._i("addi", row, self._i("muli", at, stride)))
            if number or blocks > 1:
                term = self._product(term, self._waves(self._i("remsi", self._i("muli", k, at), left), left))
            found = term if found is None else self._sum(found, term)
        assert found is not None
        return found

    def _halves(self, x: _Numbers) -> _Numbers:
        """Makes half the transform of real numbers of that of their pairs, or that of pairs, times 2, of such a half."""
        b, m = self.b, self.length
        here = self._i("minsi", self.here, m)
        value, other = (self._gathered(x, each) for each in self._mirrored(here))
        if self.kind == "real_inverse":  # the ends are real, whatever their other parts are
            is_end = b.cmpi("eq", self._i("remsi", here, m), self._int(0))
            nothing = b.const(0.0, self.elem, self.shape)
            value, other = (_Numbers(each.real, b.select(is_end, nothing, each.imaginary)) for each in (value, other))
        else:  # before sums, which are twice the results otherwise
            half = b.const(0.5, self.elem, self.shape)
            value, other = (_Numbers(*[self._f("mulf", part, half) for part in each]) for each in (value, other))
        other = _Numbers(other.real, b.unary("arith.negf", other.imaginary))
        turned = self._product(self._sum(value, other, "subf"), self._waves(self._i("remsi", here, 2 * m), 2 * m))
        quarter = _Numbers(b.unary("arith.negf", turned.imaginary), turned.real)
        return self._sum(self._sum(value, other), quarter, "addf" if self.sign > 0 else "subf")

    def _mirrored(self, here: SSAValue) -> Sequence[SSAValue]:
        """Returns where the number of each element is, and that as far from the other end."""
        away = self._i("subi", self._int(self.length), here)
        if self.kind == "real_inverse":
            return here, away
        return self._i("remsi", here, self.length), self._i("remsi", away, self.length)


@dataclass(frozen=True)
class ExpandTransforms(FunctionPass):
    """Writes `tt.fft` as steps of gathers, products and sums."""

    name = "expand-transforms"

    def run(self, function: FuncOp) -> None:
        for op in list(function.walk()):
            if isinstance(op, FftOp):
                expansion = _Expansion(op)
                expansion.b.replace([expansion.emitted()])
