"""Rounds float64 results correctly to narrower formats, over whole arrays.

A sum or fused product that is not exact in float64 is first rounded to odd there (the last bit tells that bits were lost),
after which one more rounding to at most 51 bits is the correct one (Boldo and Melquiond, "Emulation of a FMA and correctly
rounded sums: proved algorithms using rounding to odd", IEEE Transactions on Computers 57(4), 2008).
"""

from __future__ import annotations

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dtype import BY_PTX_NAME

_ROUND = {"rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil}


def odd_sum(x: Array, y: Array) -> Array:
    """Returns x + y in float64, rounded to odd."""
    total = x + y
    shadow = total - x
    error = (x - (total - shadow)) + (y - shadow)
    lost = (error != 0) & np.isfinite(total)
    if not np.count_nonzero(lost):
        return np.asarray(total)
    bits = np.asarray(total).view(np.int64)
    toward_zero = np.where((error < 0) != (total < 0), bits - 1, bits)
    return np.where(lost, toward_zero | 1, bits).view(np.float64)


def narrowed(x: Array, format_: str, mode: str) -> Array:
    """Rounds float64 to a format, subnormal results included; the result is still float64."""
    dtype = BY_PTX_NAME[format_]
    precision, least, largest = dtype.mantissa_bits + 1, dtype.min_exponent, dtype.max_value
    exponent = np.maximum(np.frexp(x)[1] - 1, least) - (precision - 1)
    found = np.ldexp(_ROUND[mode](np.ldexp(x, -exponent)), exponent)
    over = np.abs(found) > largest
    if np.count_nonzero(over):
        to_infinity = {"rn": True, "rz": False, "rp": x > 0, "rm": x < 0}[mode]
        limit = np.where(to_infinity | np.isinf(x), np.inf, largest)
        found = np.where(over, np.copysign(limit, x), found)
    return np.where(np.isfinite(x), np.copysign(found, x), x)


def fused_float32(x: Array, y: Array, z: Array) -> Array:
    """Returns x·y + z of float32 with one rounding to nearest even.

    The product is exact in float64. Double rounding of the float64 sum is wrong only where that lies exactly halfway between
    two float32 numbers.
    """
    product = np.multiply(x, y, dtype=np.float64)
    total = np.asarray(product + z)
    result = total.astype(np.float32)
    half = (total.view(np.uint64) & np.uint64(0x1FFFFFFF)) == np.uint64(0x10000000)
    small = (result.view(np.uint32) & np.uint32(0x7F800000)) == 0
    if np.count_nonzero(half) or np.count_nonzero(small):
        return odd_sum(product, np.asarray(z, np.float64)).astype(np.float32)
    return result


def _split(x: Array) -> tuple[Array, Array]:
    """Splits float64 into two halves of 26 bits (Veltkamp)."""
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    return high, x - high


def fused_float64(x: Array, y: Array, z: Array) -> tuple[Array, Array]:
    """Returns x·y + z of float64 with one rounding to nearest even, and for which lanes that is proven (no
    overflow or underflow)."""
    product = x * y
    (xh, xl), (yh, yl) = _split(x), _split(y)
    error = ((xh * yh - product) + xh * yl + xl * yh) + xl * yl
    low = z + error
    shadow = low - z
    low_error = (z - (low - shadow)) + (error - shadow)
    high = product + low
    shadow = high - product
    high_error = (product - (high - shadow)) + (low - shadow)
    result = high + odd_sum(np.asarray(low_error), np.asarray(high_error))
    sizes = [np.abs(v) for v in (x, y, z, product)]
    safe = np.ones(np.shape(result), np.bool_)
    for size in sizes:
        safe &= (size == 0) | ((size > 2.0**-400) & (size < 2.0**400))
    # the sign of an exact zero, and of zero plus zero, is that of the plain sum
    plain = product + z
    return np.where((product == 0) | (result == 0), plain, result), safe & (
        (product != 0) | (x == 0) | (y == 0)
    )
