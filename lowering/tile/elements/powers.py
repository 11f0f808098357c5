"""Emits powers of floats whose exponent is a known number, as products and square roots, or whose base is, as powers of two.

Integer powers are products, those of halves a square root as well. In float32 and float64 each product takes along what its
rounding lost, as a second number that the sum at the end adds: the result is within 0.6 ulp of the exact one (Graillat,
"Accurate floating-point product and exponentiation", 2009), or 1.5 near denormal ones, where what roundings lost underflows;
x^-0.5 is `math.rsqrt`, within 1.5; x³ and x^-2, which much is computed of, are plain products, within 1.3 and 1.92. A longer
chain of products would be off by half an ulp for each, and twice what it was before for each square. 16-bit floats are
multiplied in float32, which holds many more bits than they do.

A power of a base b is 2^(x log2 b). The product takes along what its rounding lost, by which the power of two is multiplied:
it is within 0.6 ulp of what `math.exp2` is within.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
from xdsl.ir import SSAValue

from ....promotion.dtype import DType
from ...tt.builder.block_builder import BlockBuilder
from ...tt.types import F32, F64, elem
from ..blocks import register_type
from .floats import Floats

MAX_POWER = 64
"""The largest magnitude of an exponent whose power is multiplied out: up to 11 products."""
MAX_ROOT_POWER = 16.5
"""The largest exponent that is a half, 3/2 and so on whose power is multiplied out."""
SMALLEST_BASE, LARGEST_BASE = 2.0**-64, 2.0**64
"""The bases of powers that are powers of two."""
Pair = tuple[SSAValue, SSAValue | None]
"""A number as the sum of two, of which the second is the rounding error of the first; None for 0."""


def is_multiplied_out(exponent: float) -> bool:
    """Returns whether x ** exponent is emitted here: integers from -64 to 64 without 0, and 1/2, 3/2, ... 33/2, and -1/2."""
    if not abs(exponent) <= MAX_POWER:  # NaN too
        return False
    if exponent == int(exponent):
        return exponent != 0
    return exponent == -0.5 or (0 < exponent <= MAX_ROOT_POWER and 2 * exponent == int(2 * exponent))


def known_power(b: BlockBuilder, x: SSAValue, exponent: float, dtype: DType) -> SSAValue:
    """Emits x ** exponent for an exponent that `is_multiplied_out`, with C's results for zeros, infinities and NaN."""
    if dtype.name in ("float16", "bfloat16"):
        wide = _power(Floats(b, x := b.cast("arith.extf", x, F32)), x, exponent, is_wide=True)
        return b.cast("arith.truncf", wide, register_type(dtype))
    return _power(Floats(b, x), x, exponent, is_wide=dtype.name == "tensor_float32")


def has_logarithm(base: float) -> bool:
    """Returns whether base ** x is emitted here: for numbers from 2^-64 to 2^64 that differ from 1 by 2^-10 at least."""
    return SMALLEST_BASE <= base <= LARGEST_BASE and abs(base - 1) >= 2.0**-10


def power_of_known(b: BlockBuilder, base: float, x: SSAValue, dtype: DType) -> SSAValue:
    """Emits base ** x for a base that `has_logarithm`, with C's results for zeros, infinities and NaN."""
    if dtype.name in ("float16", "bfloat16"):
        wide = _power_of_two(Floats(b, x := b.cast("arith.extf", x, F32)), base, x, is_wide=True)
        return b.cast("arith.truncf", wide, register_type(dtype))
    return _power_of_two(Floats(b, x), base, x, is_wide=dtype.name == "tensor_float32")


def _power_of_two(f: Floats, base: float, x: SSAValue, is_wide: bool) -> SSAValue:
    high, low = _logarithm(base, is_float64=elem(x.type) == F64)
    if low == 0 and math.frexp(high)[0] == 0.5:  # a power of two changes the exponent only
        return f.b.unary("math.exp2", x if high == 1 else f.mul(x, high))
    if is_wide:
        return f.b.unary("math.exp2", f.mul(x, high))
    limit = 2048 / abs(high)
    x = f.at_most(f.at_least(x, -limit), limit)
    exponent = f.mul(x, high)
    lost = f.fma(x, low * math.log(2), f.mul(f.fma(x, high, f.neg(exponent)), math.log(2)))
    power = f.b.unary("math.exp2", exponent)
    return f.where("oeq", power, float("inf"), power, f.fma(power, lost, power))


def _logarithm(base: float, is_float64: bool) -> tuple[float, float]:
    """Returns log2(base) as the sum of a number of the dtype and the rest."""
    with localcontext() as context:
        context.prec = 40
        exact = Decimal(base).ln() / Decimal(2).ln()
        high = float(exact) if is_float64 else float(np.float32(exact))
        return high, float(exact - Decimal(high))


def _power(f: Floats, x: SSAValue, exponent: float, is_wide: bool) -> SSAValue:
    """Emits the power; `is_wide` where the result has fewer bits than x's type, so that roundings need not be kept."""
    if exponent in (-1.0, 2.0):  # rounded once
        return f.div(1.0, x) if exponent < 0 else f.mul(x, x)
    if exponent == 3.0:
        return f.mul(f.mul(x, x), x)
    if exponent == -2.0:
        inverse = f.div(1.0, x)
        return f.mul(inverse, inverse)
    if exponent != int(exponent):
        return _power_of_root(f, x, exponent, is_wide)
    base: Pair = (x, None)
    if exponent < 0:
        inverse = f.div(1.0, x)
        base = inverse, None if is_wide else f.mul(f.fma(f.neg(inverse), x, 1.0), inverse)
    return _product(f, *_factors(f, base, int(abs(exponent)), is_wide), is_wide)


def _power_of_root(f: Floats, x: SSAValue, exponent: float, is_wide: bool) -> SSAValue:
    """Emits √x · xⁿ. The root of -0 is -0, its power 0; that of -inf is NaN, its power inf, or 0."""
    positive = f.add(x, 0.0)
    if exponent < 0:
        return f.where("oeq", x, float("-inf"), 0.0, f.b.unary("math.rsqrt", positive))
    root = f.b.unary("math.sqrt", positive)
    result = root
    if exponent > 1:
        # √x is root + (x - root²) / 2 root, so x √x is x root + (x - root²) root / 2.
        rest = None if is_wide else f.mul(f.fma(f.neg(root), root, positive), f.mul(root, 0.5))
        factors: tuple[Pair, Pair | None] = (positive, None), (root, None)
        if exponent > 2:
            first = _times(f, (positive, None), (root, None), is_wide, rest)
            factors, rest = _factors(f, (positive, None), int(exponent) - 1, is_wide, first), None
        result = _product(f, *factors, is_wide, rest)
    return f.where("oeq", x, float("-inf"), float("inf"), result)


def _factors(f: Floats, base: Pair, exponent: int, is_wide: bool, result: Pair | None = None) -> tuple[Pair, Pair | None]:
    """Emits what result · base ** exponent is the product of, by squaring and multiplying; no second factor of base itself."""
    while True:
        if exponent & 1:
            if exponent == 1:
                return (base, None) if result is None else (result, base)
            result = base if result is None else _times(f, result, base, is_wide)
        exponent >>= 1
        if exponent == 1 and result is None:
            return base, base
        base = _times(f, base, base, is_wide)


def _times(f: Floats, x: Pair, y: Pair, is_wide: bool, rest: SSAValue | None = None) -> Pair:
    """Emits a product, with `rest` added to its rounding error."""
    high = f.mul(x[0], y[0])
    return high, None if is_wide else _lost(f, x, y, high, rest)


def _lost(f: Floats, x: Pair, y: Pair, high: SSAValue, rest: SSAValue | None) -> SSAValue:
    """Emits x · y + rest - high, for a product x[0] · y[0] that is nearly `high`."""
    low = f.fma(x[0], y[0], f.neg(high))
    if rest is not None:
        low = f.add(low, rest)
    if x is y:
        return low if x[1] is None else f.fma(f.add(x[0], x[0]), x[1], low)
    for number, error in ((x[0], y[1]), (y[0], x[1])):
        if error is not None:
            low = f.fma(number, error, low)
    return low


def _product(f: Floats, x: Pair, y: Pair | None, is_wide: bool, rest: SSAValue | None = None) -> SSAValue:
    """Emits the product as one number.

    One that is rounded to infinity may be less than that with what its factors' roundings lost: these are added to the largest
    number then. The first number is the result where the sum is NaN, at infinities, or 0, which has a sign.
    """
    if y is None:
        return x[0]
    plain = f.mul(x[0], y[0])
    if is_wide:
        return plain
    largest = f.largest
    high = f.where("ogt", plain, largest, largest, f.where("olt", plain, -largest, -largest, plain))
    total = f.add(high, _lost(f, x, y, high, rest))
    return f.where("one", total, 0.0, total, plain)
