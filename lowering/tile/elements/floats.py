"""Arithmetic on blocks of floats, as formulas of several operations write it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import OpResult, SSAValue

from ....graph.ops.denormal_results import DENORMAL_BELOW
from ...tt.builder.block_builder import BlockBuilder
from ...tt.facts import IN_RANGE, REDUCED
from ...tt.types import F32, F64, I32, elem
from .conversions import like

Operand = SSAValue | float
"""A block, or a number that becomes one."""


class Floats:
    """Arithmetic on blocks of the shape and type of `x`; Python numbers become constants."""

    def __init__(self, b: BlockBuilder, x: SSAValue) -> None:
        self.b, self.x = b, x

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return float(np.finfo(np.float64 if elem(self.x.type) == F64 else np.float32).max)

    def c(self, value: Operand) -> SSAValue:
        return like(self.b, value, self.x) if isinstance(value, float) else value

    def add(self, x: Operand, y: Operand) -> SSAValue:
        return self.b.binary("arith.addf", self.c(x), self.c(y))

    def sub(self, x: Operand, y: Operand) -> SSAValue:
        return self.b.binary("arith.subf", self.c(x), self.c(y))

    def mul(self, x: Operand, y: Operand) -> SSAValue:
        return self.b.binary("arith.mulf", self.c(x), self.c(y))

    def div(self, x: Operand, y: Operand) -> SSAValue:
        return self.b.binary("arith.divf", self.c(x), self.c(y))

    def fma(self, x: Operand, y: Operand, z: Operand) -> SSAValue:
        return self.b.ternary("math.fma", self.c(x), self.c(y), self.c(z))

    def neg(self, x: SSAValue) -> SSAValue:
        return self.b.unary("arith.negf", x)

    def abs(self, x: SSAValue) -> SSAValue:
        return self.b.unary("math.absf", x)

    def exp(self, x: SSAValue) -> SSAValue:
        return self.b.unary("math.exp", x)

    def where(self, predicate: str, x: Operand, y: Operand, then: Operand, otherwise: Operand) -> SSAValue:
        return self.select(self.compare(predicate, x, y), then, otherwise)

    def compare(self, predicate: str, x: Operand, y: Operand) -> SSAValue:
        return self.b.cmpf(predicate, self.c(x), self.c(y))

    def select(self, condition: SSAValue, then: Operand, otherwise: Operand) -> SSAValue:
        return self.b.select(condition, self.c(then), self.c(otherwise))

    def at_most(self, x: Operand, limit: float) -> SSAValue:
        """Emits min(x, limit); NaN stays."""
        return self.where("ogt", x, limit, limit, x)

    def at_least(self, x: Operand, limit: Operand) -> SSAValue:
        return self.where("olt", x, limit, limit, x)

    def normal(self, name: str, x: SSAValue, value: SSAValue, zero: Operand = -0.0) -> SSAValue:
        """Emits the value of a function at x, or `zero`, which is -0 there, for large negative x whose result is denormal."""
        return self.where("olt", x, -self.end(name, x), zero, value)

    def end(self, name: str, x: SSAValue) -> float:
        """Returns the magnitude of the least x with a normal result: nothing below is computed, which would be denormal there,
        and takes processors as long as to read it."""
        return -DENORMAL_BELOW[name]["float64" if elem(x.type) == F64 else "float32"]

    def poly(self, x: Operand, coefficients: Sequence[float]) -> SSAValue:
        value = self.c(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            value = self.fma(value, x, coefficient)
        return value

    def product(self, x: Operand, y: Operand) -> tuple[SSAValue, SSAValue]:
        """Emits x · y as a sum of two numbers."""
        high = self.mul(x, y)
        return high, self.fma(x, y, self.neg(high))

    def sum(self, x: Operand, y: Operand) -> tuple[SSAValue, SSAValue]:
        """Emits x + y as a sum of two numbers (Knuth)."""
        total = self.add(x, y)
        other = self.sub(total, x)
        return total, self.add(self.sub(x, self.sub(total, other)), self.sub(y, other))

    def in_range(self, x: Operand, y: Operand) -> SSAValue:
        """Emits x / y for 0 <= x <= 2 and 1 <= y <= 2^24, or x = 1 and 2^-40 <= y <= 2^120."""
        result = self.div(x, y)
        assert isinstance(result, OpResult)
        result.op.attributes[IN_RANGE] = UnitAttr()
        return result

    # -- powers of two, float32 ---------------------------------------------------------------------------------------------

    def exp2(self, w: SSAValue) -> SSAValue:
        """Emits 2^w for |w| <= 0.5005."""
        result = self.b.unary("math.exp2", w)
        assert isinstance(result, OpResult)
        result.op.attributes[REDUCED] = UnitAttr()
        return result

    def bits(self, x: SSAValue) -> SSAValue:
        return self.b.cast("arith.bitcast", x, I32)

    def float_of(self, bits: SSAValue) -> SSAValue:
        return self.b.cast("arith.bitcast", bits, F32)

    def integer(self, name: str, x: SSAValue, y: SSAValue | int) -> SSAValue:
        return self.b.binary(name, x, like(self.b, y, x) if isinstance(y, int) else y)

    def power(self, bits: SSAValue) -> SSAValue:
        """Emits 2^(n - 127) from the low bits n of an integer."""
        return self.float_of(self.integer("arith.shli", bits, 23))

    def turned(self, x: SSAValue, *counts: SSAValue) -> SSAValue:
        """Emits x · 2^k for positive normal x and result, where k is the sum of the low bits of the counts,
        as `rounded` leaves them. This is an integer addition, where a product would wait for the multipliers.
        NaN becomes an arbitrary number, which the caller has to multiply by a NaN."""
        total = self.bits(counts[0])
        for count in counts[1:]:
            total = self.integer("arith.addi", total, self.bits(count))
        return self.float_of(self.integer("arith.addi", self.bits(x), self.integer("arith.shli", total, 23)))

    def rounded(self, x: Operand, factor: tuple[float, float], offset: Operand) -> tuple[SSAValue, SSAValue]:
        """Emits x · factor = k + w, with an integer k: returns a float that has k + offset - ROUNDER in its
        low bits, and w. The factor is a sum of two float32, of which the first decides k."""
        shifted = self.fma(x, factor[0], offset)
        k = self.sub(shifted, offset)
        return shifted, self.fma(x, factor[1], self.fma(x, factor[0], self.neg(k)))
