"""Defines how the interpreter computes: NumPy element types, rounding and one NumPy function per elementwise
operation.

Integers are stored signed and reinterpreted by the operations that read them unsigned; i1 is `bool`. 16-bit
and 8-bit floats are computed in float32 and rounded once; float32 arithmetic is IEEE; elementary functions of
float32 are computed in float64 and rounded, so that the interpreter can serve as the witness for functions
that are only correct to some units in the last place.

Integer corner cases follow joinery's numeric contract: x / 0 = 0, x % 0 = x, MIN / -1 = MIN, shifts by the
width or more give 0 (-1 for the arithmetic right shift of a negative number).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import numpy as np

from ....graph.reference.elementary import FUNCTIONS
from ....promotion.arrays import Array, NumpyDType

Function = Callable[..., Array]


def is_wide(dtype: NumpyDType) -> bool:
    """Returns whether arithmetic runs in the float type itself (float32, float64)."""
    return dtype == np.float32 or dtype == np.float64


# Rounding


def round_to_odd_float32(values: Array) -> Array:
    """Rounds float64 to odd in float32, after which rounding to 22 bits or fewer is as if done once.

    Source: S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
    rounding to odd".
    """
    wide = np.asarray(values, np.float64)
    near = wide.astype(np.float32)
    back = near.astype(np.float64)
    bits = near.view(np.int32)
    # The neighbour toward zero when rounding went away from it; then the last bit records that digits were
    # lost.
    truncated = np.where(np.abs(back) > np.abs(wide), bits - 1, bits)
    lost = (back != wide) & np.isfinite(wide)
    return np.where(lost, truncated | 1, bits).astype(np.int32).view(np.float32)


def round_float(values: Array, dtype: NumpyDType) -> Array:
    """Rounds float32 or float64 values to `dtype` once, to nearest even. Values beyond the range of 8-bit
    floats saturate only in `convert_float`."""
    array = np.asarray(values)
    if array.dtype == dtype:
        return array
    if array.dtype == np.float64 and not is_wide(dtype) and dtype != np.float16:
        array = round_to_odd_float32(array)
    return array.astype(dtype)


def convert_float(values: Array, dtype: NumpyDType, toward_zero: bool = False) -> Array:
    """Converts floats as `tt.fp_to_fp` does: 8-bit results saturate at the largest finite value (infinities
    too), as in the hardware's conversions."""
    array = np.asarray(values)
    wide = array if is_wide(array.dtype) else array.astype(np.float32)
    if dtype.itemsize == 1:
        limit = float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
        wide = np.where(np.isnan(wide), wide, np.clip(wide, -limit, limit)).astype(wide.dtype)
    near = round_float(wide, dtype)
    if not toward_zero:
        return near
    away = np.abs(near.astype(np.float64)) > np.abs(wide.astype(np.float64))
    bits = near.view(np.dtype(f"i{dtype.itemsize}"))
    return np.where(away & np.isfinite(wide), bits - 1, bits).astype(bits.dtype).view(dtype)


def round_to_tf32(values: Array) -> Array:
    """Rounds float32 to 10 mantissa bits, to nearest even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), rounded.view(np.float32), values).astype(np.float32)


# Integers as signed or unsigned numbers


def signed(x: Array) -> Array:
    """Returns the integers as signed numbers; i1 true is -1."""
    return -np.asarray(x).astype(np.int8) if x.dtype == np.bool_ else x


def unsigned(x: Array) -> Array:
    """Returns the same bits as unsigned numbers."""
    x = np.asarray(x)
    return x.astype(np.uint8) if x.dtype == np.bool_ else x.view(np.dtype(f"u{x.dtype.itemsize}"))


def as_integer(x: Array, dtype: NumpyDType) -> Array:
    """Converts integers to `dtype`, keeping the low bits."""
    x = np.asarray(x)
    return (x & 1).astype(np.bool_) if dtype == np.bool_ else x.astype(dtype, copy=False)


def low_bits(x: Array, dtype: NumpyDType) -> Array:
    """Converts unbounded integers (objects) to `dtype`, keeping the low bits."""
    bits = 1 if dtype == np.bool_ else 8 * dtype.itemsize
    return as_integer(np.asarray(x & ((1 << bits) - 1)).astype(np.uint64), dtype)


def integer_power(x: int, n: int) -> int:
    """Returns the low 64 bits of x to the n; for n < 0 truncated toward zero, and 0 if x is 0."""
    if n >= 0:
        return pow(x, n, 1 << 64)
    return 0 if abs(x) != 1 else x if n % 2 else 1


def _truncating_division(x: Array, y: Array) -> Array:
    safe = np.where(y == 0, np.ones_like(y), y)
    quotient = np.floor_divide(x, safe)
    remainder = x - quotient * safe
    quotient = quotient + ((remainder != 0) & ((x < 0) != (safe < 0)))
    result: Array = np.where(y == 0, np.zeros_like(quotient), quotient).astype(x.dtype)
    return result


def _truncating_remainder(x: Array, y: Array) -> Array:
    result: Array = x - _truncating_division(x, y) * y
    return result


def _ceiling_division(x: Array, y: Array) -> Array:
    quotient = _truncating_division(x, y)
    result: Array = quotient + ((quotient * y != x) & ((x < 0) == (y < 0)) & (y != 0)).astype(x.dtype)
    return result


def _floor_division(x: Array, y: Array) -> Array:
    quotient = _truncating_division(x, y)
    result: Array = quotient - ((quotient * y != x) & ((x < 0) != (y < 0)) & (y != 0)).astype(x.dtype)
    return result


def _shift(function: Function, x: Array, y: Array) -> Array:
    """Shifts x by y, which is read as unsigned; at the width and beyond every bit is shifted out."""
    width = x.dtype.itemsize * 8
    amount = unsigned(y)
    outside = amount >= width
    legal = np.minimum(amount, amount.dtype.type(width - 1)).astype(x.dtype)
    found: Array = function(x, legal)
    if function is np.right_shift and x.dtype.kind == "i":
        return found  # width - 1 already leaves only the sign
    return np.where(outside, np.zeros_like(x), found)


def _high_product(x: Array, y: Array) -> Array:
    if x.dtype.itemsize < 8:
        width = x.dtype.itemsize * 8
        return ((x.astype(np.uint64) * y.astype(np.uint64)) >> np.uint64(width)).astype(x.dtype)
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x_low, x_high, y_low, y_high = x & mask, x >> half, y & mask, y >> half
    middle = x_high * y_low + ((x_low * y_low) >> half)
    carry = (middle & mask) + x_low * y_high
    return np.asarray(x_high * y_high + (middle >> half) + (carry >> half))


def _leading_zeros(x: Array) -> Array:
    """Counts the zeros above the highest set bit; the width for 0."""
    bits = x.astype(np.uint64)
    count = np.zeros(bits.shape, np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        empty = bits < (np.uint64(1) << np.uint64(64 - step))
        count = count + np.where(empty, step, 0)
        bits = np.where(empty, bits << np.uint64(step), bits)
    count = np.where(bits == 0, 64, count)
    return np.asarray(count - (64 - x.dtype.itemsize * 8)).astype(x.dtype)


def _trailing_zeros(x: Array) -> Array:
    lowest = x & (~x + x.dtype.type(1))
    width = x.dtype.itemsize * 8
    return np.where(x == 0, width, width - 1 - _leading_zeros(lowest).astype(np.int64)).astype(x.dtype)


def _bit_count(x: Array) -> Array:
    return np.bitwise_count(x).astype(x.dtype)


SIGNED: dict[str, Function] = {
    "arith.addi": lambda x, y: x + y,
    "arith.subi": lambda x, y: x - y,
    "arith.muli": lambda x, y: x * y,
    "arith.andi": lambda x, y: x & y,
    "arith.ori": lambda x, y: x | y,
    "arith.xori": lambda x, y: x ^ y,
    "arith.divsi": _truncating_division,
    "arith.remsi": _truncating_remainder,
    "arith.ceildivsi": _ceiling_division,
    "arith.floordivsi": _floor_division,
    "arith.shli": lambda x, y: _shift(np.left_shift, x, y),
    "arith.shrsi": lambda x, y: _shift(np.right_shift, x, y),
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "math.absi": np.abs,
}
UNSIGNED: dict[str, Function] = {
    "arith.divui": _truncating_division,
    "arith.remui": _truncating_remainder,
    "arith.ceildivui": _ceiling_division,
    "arith.shrui": lambda x, y: _shift(np.right_shift, x, y),
    "arith.maxui": np.maximum,
    "arith.minui": np.minimum,
    "tt.mulhiui": _high_product,
    "math.ctlz": _leading_zeros,
    "math.cttz": _trailing_zeros,
    "math.ctpop": _bit_count,
}

# Floats


def _maximum(x: Array, y: Array) -> Array:
    """Returns the IEEE 754-2019 maximum: NaN wins, +0 is above -0."""
    return np.where(x == y, np.where(np.signbit(x), y, x), np.maximum(x, y))


def _minimum(x: Array, y: Array) -> Array:
    return np.where(x == y, np.where(np.signbit(x), x, y), np.minimum(x, y))


def _maxnum(x: Array, y: Array) -> Array:
    """Returns `maximum`, but a number wins against NaN."""
    return np.where(x == y, np.where(np.signbit(x), y, x), np.fmax(x, y))


def _minnum(x: Array, y: Array) -> Array:
    return np.where(x == y, np.where(np.signbit(x), x, y), np.fmin(x, y))


def clamp(x: Array, low: Array, high: Array, propagate_nan: bool) -> Array:
    """Returns min(max(x, low), high); a NaN x stays NaN or becomes `low`."""
    return _minimum(_maximum(x, low), high) if propagate_nan else _minnum(_maxnum(x, low), high)


def fused_multiply_add(x: Array, y: Array, z: Array) -> Array:
    """Returns x·y + z with one rounding, for float32 and float64.

    It uses the error-free transformations by Dekker (product) and Knuth (sum), and rounds the part below the
    result to odd (S. Boldo, G. Melquiond). For float64 these are error-free if nothing overflows and no error
    term is denormal; elsewhere the result is computed with fractions.
    """
    x, y, z = np.broadcast_arrays(x, y, z)
    if x.dtype != np.float64:
        total, error = _two_sum(x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64))
        return _to_odd(total, error).astype(x.dtype)
    # right where an operand is zero, infinite or NaN: a product of finite numbers is finite
    plain = np.where(np.isfinite(x) & np.isfinite(y) & np.isinf(z), z, x * y + z)
    return _exact_fma(x, y, z, plain)[()]


def _exact_fma(x: Array, y: Array, z: Array, plain: Array) -> Array:
    product, low = _two_product(x, y)
    upper, rest = _two_sum(z, low)
    total, error = _two_sum(product, upper)
    near = total + _to_odd(*_two_sum(error, rest))
    factors = (x != 0) & (y != 0) & np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    inside = (_is_between(x, 400) & _is_between(y, 400)) & (np.abs(z) <= 2.0**900)
    result = np.where(factors & inside, near, plain)
    for at in np.argwhere(factors & ~inside):
        here = tuple(at)
        result[here] = _fma_of_fractions(float(x[here]), float(y[here]), float(z[here]))
    return result


def _is_between(values: Array, exponent: int) -> Array:
    return (np.abs(values) >= 2.0**-exponent) & (np.abs(values) <= 2.0**exponent)


def _fma_of_fractions(x: float, y: float, z: float) -> float:
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _to_odd(total: Array, error: Array) -> Array:
    """Rounds to odd a float64 sum of which the rounding error is known."""
    bits = np.asarray(total).view(np.int64)
    inexact = (error != 0) & np.isfinite(total)
    toward_zero = np.where(inexact & ((error < 0) != (total < 0)), bits - 1, bits)
    return np.where(inexact, toward_zero | 1, bits).view(np.float64)


def _two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    total = x + y
    shadow = total - x
    return total, (x - (total - shadow)) + (y - shadow)


def _two_product(x: Array, y: Array) -> tuple[Array, Array]:
    product = x * y
    x_high, x_low = _halves(x)
    y_high, y_low = _halves(y)
    return product, ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low


def _halves(x: Array) -> tuple[Array, Array]:
    scaled = x * 134217729.0  # 2**27 + 1
    high = scaled - (scaled - x)
    return high, x - high


FLOAT: dict[str, Function] = {
    "arith.addf": lambda x, y: x + y,
    "arith.subf": lambda x, y: x - y,
    "arith.mulf": lambda x, y: x * y,
    "arith.divf": lambda x, y: x / y,
    "tt.precise_divf": lambda x, y: x / y,
    "tt.approx_divf": lambda x, y: x / y,
    "arith.remf": np.fmod,
    "arith.negf": np.negative,
    "arith.maximumf": _maximum,
    "arith.minimumf": _minimum,
    "arith.maxnumf": _maxnum,
    "arith.minnumf": _minnum,
    "math.fma": fused_multiply_add,
    "math.sqrt": np.sqrt,
    "tt.precise_sqrt": np.sqrt,
    "math.floor": np.floor,
    "math.ceil": np.ceil,
    "math.trunc": np.trunc,
    "math.roundeven": np.rint,
    "math.round": lambda x: np.copysign(np.floor(np.abs(x)) + (np.abs(x) - np.floor(np.abs(x)) >= 0.5), x),
    "math.absf": np.abs,
    "math.copysign": np.copysign,
}
ELEMENTARY: dict[str, Function] = {f"math.{name}": function for name, function in FUNCTIONS.items()}
"""The elementary functions, which are computed in float64."""

# Comparisons


def _ordered(function: Function) -> Function:
    return lambda x, y: function(x, y) & ~(np.isnan(x) | np.isnan(y))


def _unordered(function: Function) -> Function:
    return lambda x, y: function(x, y) | np.isnan(x) | np.isnan(y)


_RELATIONS: dict[str, Function] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
}
FLOAT_RELATIONS: dict[str, Function] = {
    "false": lambda x, y: np.zeros(np.broadcast_shapes(np.shape(x), np.shape(y)), np.bool_),
    "true": lambda x, y: np.ones(np.broadcast_shapes(np.shape(x), np.shape(y)), np.bool_),
    "ord": lambda x, y: ~(np.isnan(x) | np.isnan(y)),
    "uno": lambda x, y: np.isnan(x) | np.isnan(y),
    **{f"o{name}": _ordered(_RELATIONS[name]) for name in ("eq", "gt", "ge", "lt", "le")},
    **{f"u{name}": _unordered(_RELATIONS[name]) for name in ("eq", "gt", "ge", "lt", "le")},
    "one": _ordered(np.not_equal),
    "une": _unordered(np.not_equal),
}


def integer_relation(predicate: str) -> Function:
    """Returns the comparison of `arith.cmpi`: eq, ne, or s/u followed by a relation."""
    view = unsigned if predicate[0] == "u" else signed
    function = _RELATIONS[predicate if predicate in ("eq", "ne") else predicate[1:]]
    return lambda x, y: function(view(x), view(y))


# Conversions between kinds


def float_to_integer(values: Array, dtype: NumpyDType, is_signed: bool) -> Array:
    """Converts floats to integers, toward zero, saturating at the type's range; NaN becomes 0. i1 holds -1 …
    0 signed, 0 … 1 unsigned."""
    array = np.asarray(values)
    wide = np.trunc(array.astype(np.float64))
    width = 1 if dtype == np.bool_ else dtype.itemsize * 8
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if is_signed else (0, (1 << width) - 1)
    inside = (wide >= low) & (wide < float(high + 1))  # high itself may round up to high + 1
    number: NumpyDType = np.dtype(np.int64 if is_signed else np.uint64)
    result = np.where(inside, wide, 0.0).astype(number)
    result = np.where(~inside & (wide > 0), number.type(high), result)
    result = np.where(~inside & (wide < 0), number.type(low), result)
    return as_integer(result, dtype)


def integer_to_float(values: Array, dtype: NumpyDType, is_signed: bool) -> Array:
    """Converts integers to floats, rounding once to nearest even."""
    number = signed(values) if is_signed else unsigned(values)
    number = np.asarray(number)
    if is_wide(dtype):
        return number.astype(dtype)
    if number.dtype.itemsize == 8:
        # Bits that float64 would round away become one sticky bit, which the rounding to a few bits then sees.
        low, kind = number.dtype.type(0xFFF), number.dtype.type
        large = (number >= kind(1 << 52)) | ((number < kind(0)) & (~number >= kind(1 << 52)))
        number = np.where(large, (number & ~low) | (((number & low) != 0).astype(number.dtype) << kind(12)), number)
    return round_float(number.astype(np.float64), dtype)
