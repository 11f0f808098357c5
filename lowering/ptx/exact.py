"""Exact arithmetic on floats, rounded once in any of the four directions: with Python's rationals, one number at a time."""

from __future__ import annotations

import math
from fractions import Fraction

from ...promotion.dataclass import dataclass
from ...promotion.dtype import BY_PTX_NAME, DType

SQRT_BITS = 140
"""The bits of a square root before the sticky one."""


@dataclass(frozen=True, slots=True)
class Format:
    """A binary float format: precision in bits, exponent of the smallest normal number, largest finite number."""

    precision: int
    least: int
    largest: Fraction


def _format(dtype: DType) -> Format:
    return Format(dtype.mantissa_bits + 1, dtype.min_exponent, Fraction(dtype.max_value))


FORMATS = {name: _format(BY_PTX_NAME[name]) for name in ("f16", "bf16", "f32", "f64")}


def rounded(value: Fraction, format_: str, mode: str) -> float:
    """Rounds a number that is not zero to the format; the result may be zero, of the number's sign, or infinite."""
    f = FORMATS[format_]
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    quantum = Fraction(2) ** (max(exponent, f.least) - f.precision + 1)
    steps, rest = divmod(size, quantum)
    away = {"rz": False, "rp": value > 0, "rm": value < 0}.get(mode)
    if away is None:
        away = rest * 2 > quantum or (rest * 2 == quantum and steps % 2 == 1)
    result = (steps + (1 if away and rest else 0)) * quantum
    if result > f.largest:
        infinite = mode == "rn" or (mode == "rp" and value > 0) or (mode == "rm" and value < 0)
        return math.copysign(math.inf if infinite else float(f.largest), float(1 if value > 0 else -1))
    return math.copysign(float(result), float(1 if value > 0 else -1))


def _sum(x: float, y: float, format_: str, mode: str, total: Fraction) -> float:
    if total == 0:
        both = x == 0 and y == 0 and math.copysign(1, x) == math.copysign(1, y)
        return x if both else (-0.0 if mode == "rm" else 0.0)
    return rounded(total, format_, mode)


def add(x: float, y: float, format_: str, mode: str) -> float:
    if not (math.isfinite(x) and math.isfinite(y)):
        return x + y
    return _sum(x, y, format_, mode, Fraction(x) + Fraction(y))


def multiply(x: float, y: float, format_: str, mode: str) -> float:
    if not (math.isfinite(x) and math.isfinite(y)) or x == 0 or y == 0:
        return x * y
    return rounded(Fraction(x) * Fraction(y), format_, mode)


def fused(x: float, y: float, z: float, format_: str, mode: str) -> float:
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        return x * y + z if math.isfinite(z) or not (math.isfinite(x) and math.isfinite(y)) else z
    if format_ == "f64" and mode == "rn":
        return _fused_nearest(x, y, z)
    sign = math.copysign(1, x) * math.copysign(1, y)
    product = Fraction(x) * Fraction(y)
    near = math.copysign(0.0, sign) if product == 0 else sign
    return _sum(near, z, format_, mode, product + Fraction(z))


def _fused_nearest(x: float, y: float, z: float) -> float:
    """Computes x·y + z of finite float64 with one rounding to nearest even, which is how Python divides integers."""
    (x_over, x_under), (y_over, y_under), (z_over, z_under) = (v.as_integer_ratio() for v in (x, y, z))
    over, under = x_over * y_over * z_under + z_over * x_under * y_under, x_under * y_under * z_under
    if over == 0:
        return x * y + z if x * y == 0 else 0.0  # zeros of one sign keep it
    try:
        return over / under
    except OverflowError:
        return math.inf if over > 0 else -math.inf


def divide(x: float, y: float, format_: str, mode: str) -> float:
    if not (math.isfinite(x) and math.isfinite(y)) or x == 0 or y == 0:
        if y == 0 and not math.isnan(x):
            return math.nan if x == 0 else math.copysign(math.inf, math.copysign(1, x) * math.copysign(1, y))
        return x / y if y else math.nan
    return rounded(Fraction(x) / Fraction(y), format_, mode)


def square_root(x: float, format_: str, mode: str) -> float:
    if x == 0 or math.isnan(x) or x == math.inf:
        return x
    if x < 0:
        return math.nan
    return root_of(Fraction(x), format_, mode)


def root_of(value: Fraction, format_: str, mode: str) -> float:
    """Computes the square root of a positive number, rounded once."""
    shift = SQRT_BITS * 2 + 2200
    scaled = (value.numerator << shift) // value.denominator
    root = math.isqrt(scaled)
    exact = root * root == scaled and (value.numerator << shift) % value.denominator == 0
    return rounded(Fraction(2 * root + (not exact), 2 << (shift // 2)), format_, mode)


def narrow(x: float, format_: str, mode: str) -> float:
    """Rounds a float of any format to another one."""
    return x if x == 0 or not math.isfinite(x) else rounded(Fraction(x), format_, mode)


def from_integer(x: int, format_: str, mode: str) -> float:
    return 0.0 if x == 0 else rounded(Fraction(x), format_, mode)
