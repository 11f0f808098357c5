"""Emits the operators that take more than one operation of the block IR, and so spells out the numeric
contract.

An emitter gets the builder, its operands (scalars or blocks of one shape) and their dtype, and returns the
result. Integers wrap; nothing traps: divisors of 0 and -1 and shifts past the width are replaced before they
reach an operation that does not define them. Emitters of floats see float32 or float64; `scalar.emit` widens
16-bit operands and rounds the result once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import OpResult, SSAValue

from ....promotion.dtype import DType
from ...tt.builder.block_builder import BlockBuilder
from ...tt.facts import IN_RANGE, SHORT, WEIGHT
from ...tt.transforms.folding import constant_of
from ...tt.types import I1, I64, elem, shape_of
from .conversions import like

Emitter = Callable[[BlockBuilder, Sequence[SSAValue], DType], SSAValue]

MAX_UNROLLED_POWER = 64
"""Integer powers with a known exponent up to this become a chain of multiplications."""


class _Division:
    """Integer division with a divisor that is safe to divide by."""

    def __init__(self, b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> None:
        self.b = b
        self.a, self.divisor = operands
        self.zero, one = like(b, 0, self.a), like(b, 1, self.a)
        self.signed = dtype.kind == "int"
        known = constant_of(self.divisor)
        self.known = None if known == 0 or (self.signed and known == -1) else known
        self.safe = self.divisor
        if self.known is None:
            self.by_zero = unsafe = b.cmpi("eq", self.divisor, self.zero)
            if self.signed:
                self.by_minus_one = b.cmpi("eq", self.divisor, like(b, -1, self.a))
                unsafe = b.binary("arith.ori", unsafe, self.by_minus_one)
            self.safe = b.select(unsafe, one, self.divisor)

    def shift(self) -> int | None:
        """Returns the power of two that the divisor is known to be; None if it is none."""
        known = self.known
        return None if known is None or known <= 0 or known & (known - 1) else known.bit_length() - 1

    def quotient(self) -> SSAValue:
        return self.b.binary("arith.divsi" if self.signed else "arith.divui", self.a, self.safe)

    def remainder(self, quotient: SSAValue) -> SSAValue:
        product = self.b.binary("arith.muli", quotient, self.safe)
        return self.b.binary("arith.subi", self.a, product)

    def differs_in_sign(self, remainder: SSAValue) -> SSAValue:
        """Emits whether a remainder is not 0 and has another sign than the divisor."""
        b, zero = self.b, self.zero
        if self.known is not None:
            return b.cmpi("slt" if self.known > 0 else "sgt", remainder, zero)
        differ = b.cmpi("slt", b.binary("arith.xori", remainder, self.safe), zero)
        return b.binary("arith.andi", b.cmpi("ne", remainder, zero), differ)

    def finish_quotient(self, quotient: SSAValue) -> SSAValue:
        b = self.b
        if self.known is not None:
            return quotient
        if self.signed:
            quotient = b.select(self.by_minus_one, b.binary("arith.subi", self.zero, self.a), quotient)
        return b.select(self.by_zero, self.zero, quotient)

    def finish_remainder(self, remainder: SSAValue) -> SSAValue:
        return remainder if self.known is not None else self.b.select(self.by_zero, self.a, remainder)


def trunc_div_integer(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    division = _Division(b, operands, dtype)
    return division.finish_quotient(division.quotient())


def rem_integer(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    division = _Division(b, operands, dtype)
    return division.finish_remainder(division.remainder(division.quotient()))


def floor_div_integer(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    division = _Division(b, operands, dtype)
    if (shift := division.shift()) is not None:
        return b.binary("arith.shrsi" if division.signed else "arith.shrui", division.a, like(b, shift, division.a))
    quotient = division.quotient()
    if division.signed:
        down = division.differs_in_sign(division.remainder(quotient))
        quotient = b.select(down, b.binary("arith.subi", quotient, like(b, 1, quotient)), quotient)
    return division.finish_quotient(quotient)


def mod_integer(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    division = _Division(b, operands, dtype)
    if (shift := division.shift()) is not None:
        return b.binary("arith.andi", division.a, like(b, (1 << shift) - 1, division.a))
    remainder = division.remainder(division.quotient())
    if division.signed:
        up = division.differs_in_sign(remainder)
        remainder = b.select(up, b.binary("arith.addi", remainder, division.safe), remainder)
    return division.finish_remainder(remainder)


def mod_float(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    """Emits Python's %: the result has the sign of the divisor, also if it is zero; NaN for a divisor of
    zero."""
    a, divisor = operands
    return _float_mod(b, a, divisor)


def _float_mod(b: BlockBuilder, a: SSAValue, divisor: SSAValue) -> SSAValue:
    zero = like(b, 0.0, a)
    remainder = b.binary("arith.remf", a, divisor)
    negative = b.cmpf("olt", remainder, zero)
    below = b.cmpf("olt", divisor, zero)
    left = b.cmpf("une", remainder, zero)
    up = b.binary("arith.andi", left, b.binary("arith.xori", negative, below))
    moved = b.select(up, b.binary("arith.addf", remainder, divisor), remainder)
    return b.select(left, moved, b.binary("math.copysign", zero, divisor))


def floor_div_float(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    """Emits Python's //: (a - a % b) / b to the nearest integer; a / b for a divisor of zero."""
    a, divisor = operands
    zero, one = like(b, 0.0, a), like(b, 1.0, a)
    true_quotient = b.binary("arith.divf", a, divisor)
    remainder = b.binary("arith.remf", a, divisor)
    quotient = b.binary("arith.divf", b.binary("arith.subf", a, remainder), divisor)
    negative, below = b.cmpf("olt", remainder, zero), b.cmpf("olt", divisor, zero)
    left = b.cmpf("une", remainder, zero)
    down = b.binary("arith.andi", left, b.binary("arith.xori", negative, below))
    quotient = b.select(down, b.binary("arith.subf", quotient, one), quotient)
    whole = b.unary("math.floor", quotient)
    over = b.cmpf("ogt", b.binary("arith.subf", quotient, whole), like(b, 0.5, a))
    whole = b.select(over, b.binary("arith.addf", whole, one), whole)
    signed_zero = b.binary("math.copysign", zero, true_quotient)
    whole = b.select(b.cmpf("une", quotient, zero), whole, signed_zero)
    return b.select(b.cmpf("oeq", divisor, zero), true_quotient, whole)


def trunc_div_float(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    """Emits (a - fmod(a, b)) / b to the nearest integer; a / b for an infinite a or a divisor of zero."""
    a, divisor = operands
    true_quotient = b.binary("arith.divf", a, divisor)
    exact = b.binary("arith.divf", b.binary("arith.subf", a, b.binary("arith.remf", a, divisor)), divisor)
    whole = b.binary("math.copysign", b.unary("math.roundeven", exact), true_quotient)
    infinite = b.cmpf("oeq", b.unary("math.absf", a), like(b, math.inf, a))
    plain = b.binary("arith.ori", infinite, b.cmpf("oeq", divisor, like(b, 0.0, a)))
    return b.select(plain, true_quotient, whole)


def pow_integer(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    """Emits a power by squaring and multiplying. A negative exponent truncates 1 / x**n, with 1 / 0 = 0."""
    base, exponent = operands
    zero, one = like(b, 0, base), like(b, 1, base)
    signed = dtype.kind == "int"
    left = b.binary("arith.maxsi", exponent, zero) if signed else exponent
    bits = dtype.bits - 1 if signed else dtype.bits
    low, step = b.const(0, I64), b.const(1, I64)
    with b.for_(low, b.const(bits, I64), step, [one, base, left]) as loop:
        result, square, remaining = loop.args
        odd = b.cmpi("ne", b.binary("arith.andi", remaining, one), zero)
        loop.yield_([
            b.select(odd, b.binary("arith.muli", result, square), result),
            b.binary("arith.muli", square, square),
            b.binary("arith.shrui", remaining, one),
        ])  # fmt: skip
    power = loop.results[0]
    if not signed:
        return power
    minus_one = like(b, -1, base)
    odd = b.cmpi("ne", b.binary("arith.andi", exponent, one), zero)
    alternating = b.select(odd, minus_one, one)
    unit = b.select(b.cmpi("eq", base, minus_one), alternating, zero)
    unit = b.select(b.cmpi("eq", base, one), one, unit)
    return b.select(b.cmpi("slt", exponent, zero), unit, power)


def known_power(b: BlockBuilder, base: SSAValue, exponent: int) -> SSAValue:
    """Emits base ** exponent of integers for 0 <= exponent <= MAX_UNROLLED_POWER."""
    result, square = None, base
    while exponent:
        if exponent & 1:
            result = square if result is None else b.binary("arith.muli", result, square)
        exponent >>= 1
        if exponent:
            square = b.binary("arith.muli", square, square)
    return like(b, 1, base) if result is None else result


def pow_float(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    return b.binary("math.powf", operands[0], operands[1])


def sum_of_four(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType, count: int = 4) -> SSAValue:
    """Emits the sum of up to four products with the bytes of the last operand, in the form that hosts look for."""
    *xs, packed = operands
    total: SSAValue | None = None
    for number, x in enumerate(xs[:count]):
        high = packed if number == 3 else b.binary("arith.shli", packed, like(b, 24 - 8 * number, packed))
        product = b.binary("arith.muli", x, b.binary("arith.shrsi", high, like(b, 24, high)))
        total = product if total is None else b.binary("arith.addi", total, product)
    assert total is not None
    return total


def shift_left(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    """Emits a left shift, which is 0 for an amount outside [0, width). As an unsigned number a negative
    amount is large."""
    a, amount = operands
    if _is_in_range(amount, dtype):
        return b.binary("arith.shli", a, amount)
    outside = b.cmpi("uge", amount, like(b, dtype.bits, amount))
    zero = like(b, 0, a)
    return b.select(outside, zero, b.binary("arith.shli", a, b.select(outside, like(b, 0, amount), amount)))


def shift_right(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    """Emits a right shift, arithmetic for signed integers, where shifting by width - 1 leaves the sign, as
    every larger amount does."""
    a, amount = operands
    if _is_in_range(amount, dtype):
        return b.binary("arith.shrsi" if dtype.kind == "int" else "arith.shrui", a, amount)
    outside = b.cmpi("uge", amount, like(b, dtype.bits, amount))
    if dtype.kind == "int":
        return b.binary("arith.shrsi", a, b.select(outside, like(b, dtype.bits - 1, amount), amount))
    shifted = b.binary("arith.shrui", a, b.select(outside, like(b, 0, amount), amount))
    return b.select(outside, like(b, 0, a), shifted)


def _is_in_range(amount: SSAValue, dtype: DType) -> bool:
    """Returns whether the amount of a shift is a constant from 0 to less than the width."""
    known = constant_of(amount)
    return known is not None and 0 <= known < dtype.bits


def negate_integer(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    (a,) = operands
    return b.binary("arith.subi", like(b, 0, a), a)


def bitwise_not(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    (a,) = operands
    return b.binary("arith.xori", a, like(b, True if dtype.is_bool else -1, a))


def sign_float(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    """Emits -1 or 1 by the sign; zeros keep their sign and NaN stays."""
    (a,) = operands
    zero = like(b, 0.0, a)
    up = b.select(b.cmpf("ogt", a, zero), like(b, 1.0, a), a)
    return b.select(b.cmpf("olt", a, zero), like(b, -1.0, a), up)


def sign_signed(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    (a,) = operands
    return b.binary("arith.minsi", b.binary("arith.maxsi", a, like(b, -1, a)), like(b, 1, a))


def sign_unsigned(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    (a,) = operands
    return b.binary("arith.minui", a, like(b, 1, a))


def relu_float(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    (a,) = operands
    return b.binary("arith.maximumf", a, like(b, 0.0, a))


def relu_signed(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    (a,) = operands
    return b.binary("arith.maxsi", a, like(b, 0, a))


def sigmoid(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    """Emits e / (1 + e) with e = exp(x) below 0, and 1 / (1 + exp(-x)) above, so that nothing overflows and
    small results keep their digits."""
    (a,) = operands
    one = like(b, 1.0, a)
    decay = b.unary("math.exp", b.unary("arith.negf", b.unary("math.absf", a)))
    above = b.cmpf("oge", a, like(b, 0.0, a))
    result = b.binary("arith.divf", b.select(above, one, decay), b.binary("arith.addf", one, decay))
    assert isinstance(result, OpResult)
    result.op.attributes[IN_RANGE] = UnitAttr()
    return result


def is_nan_float(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    (a,) = operands
    return b.cmpf("uno", a, a)


def false(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    return b.const(False, I1, shape_of(operands[0].type))


def identity(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    return operands[0]


def exp_weight(b: BlockBuilder, x: SSAValue) -> SSAValue:
    """Emits exp of numbers up to 0, for weights that are divided by their sum: relative error 2^-22 + |x|
    2^-23 on GPUs, less elsewhere; 0 below -88."""
    result = b.unary("math.exp", x)
    assert isinstance(result, OpResult)
    result.op.attributes |= {SHORT: UnitAttr(), WEIGHT: UnitAttr()}
    return result


def div_approximate(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    """Emits x · (1 / y): the reciprocal is computed where y varies, the product where x does."""
    del dtype
    x, y = operands
    one = b.const(1.0, elem(y.type), shape_of(y.type))
    return b.binary("arith.mulf", x, b.binary("arith.divf", one, y))
