"""Emits powers of floats whose exponent is a known number, as products and square roots.

Integer powers are products, those of halves a square root as well. In float32 and float64 each product takes along what its
rounding lost, as a second number that the sum at the end adds: the result is within 0.6 ulp of the exact one (Graillat,
"Accurate floating-point product and exponentiation", 2009), or 1.5 near denormal ones, where what roundings lost underflows. A
chain of products would be off by half an ulp for each, and twice what it was before for each square. 16-bit floats are
multiplied in float32, which holds many more bits than they do.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from ....promotion.dtype import DType
from ...tt.builder.block_builder import BlockBuilder
from ...tt.types import F32
from ..blocks import register_type
from .floats import Floats

MAX_POWER = 64
"""The largest magnitude of an exponent whose power is multiplied out: up to 11 products."""
MAX_ROOT_POWER = 16.5
"""The largest exponent that is a half, 3/2 and so on whose power is multiplied out."""
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


def _power(f: Floats, x: SSAValue, exponent: float, is_wide: bool) -> SSAValue:
    """Emits the power; `is_wide` where the result has fewer bits than x's type, so that roundings need not be kept."""
    if exponent in (-1.0, 2.0):  # rounded once
        return f.div(1.0, x) if exponent < 0 else f.mul(x, x)
    if exponent != int(exponent):
        return _power_of_root(f, x, exponent, is_wide)
    base: Pair = (x, None)
    if exponent < 0:
        inverse = f.div(1.0, x)
        base = inverse, None if is_wide else f.mul(f.fma(f.neg(inverse), x, 1.0), inverse)
    return _sum(f, _raised(f, base, int(abs(exponent)), is_wide))


def _power_of_root(f: Floats, x: SSAValue, exponent: float, is_wide: bool) -> SSAValue:
    """Emits √x · xⁿ. The root of -0 is -0, its power 0; that of -inf is NaN, its power inf, or 0."""
    positive = f.add(x, 0.0)
    if exponent < 0:
        return f.where("oeq", x, float("-inf"), 0.0, f.b.unary("math.rsqrt", positive))
    root = f.b.unary("math.sqrt", positive)
    result = root
    if exponent > 1:
        # √x is root + (x - root²) / 2 root, so x √x is x root + (x - root²) root / 2.
        high, low = _times(f, (positive, None), (root, None), is_wide)
        if low is not None:
            low = f.fma(f.fma(f.neg(root), root, positive), f.mul(root, 0.5), low)
        result = _sum(f, _raised(f, (positive, None), int(exponent) - 1, is_wide, (high, low)))
    return f.where("oeq", x, float("-inf"), float("inf"), result)


def _raised(f: Floats, base: Pair, exponent: int, is_wide: bool, result: Pair | None = None) -> Pair:
    """Emits result · base ** exponent by squaring and multiplying, for an exponent above 0, or 0 with a result."""
    while exponent:
        if exponent & 1:
            result = base if result is None else _times(f, result, base, is_wide)
        exponent >>= 1
        if exponent:
            base = _times(f, base, base, is_wide)
    assert result is not None
    return result


def _times(f: Floats, x: Pair, y: Pair, is_wide: bool) -> Pair:
    if is_wide:
        return f.mul(x[0], y[0]), None
    high, low = f.product(x[0], y[0])
    if x is y:
        return high, low if x[1] is None else f.fma(f.add(x[0], x[0]), x[1], low)
    for number, rest in ((x[0], y[1]), (y[0], x[1])):
        if rest is not None:
            low = f.fma(number, rest, low)
    return high, low


def _sum(f: Floats, pair: Pair) -> SSAValue:
    """Emits the sum, or the first number where that is NaN, at infinities and overflow, or 0, which has a sign."""
    high, low = pair
    if low is None:
        return high
    total = f.add(high, low)
    return f.where("one", total, 0.0, total, high)
