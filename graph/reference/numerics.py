"""Rounds and converts between dtypes in NumPy: the bottom of the numeric contract.

Everything an op computes goes through `to_dtype` (results of arithmetic) or `convert` (the op `cast`). Arrays
of a dtype are NumPy arrays of `dtype.numpy`; a tensor_float32 array is a float32 array whose values have 10
mantissa bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...promotion.arrays import Array
from ...promotion.dtype import DType, tensor_float32
from ...promotion.errors import UnsupportedError
from ..constants import scalar_array

_NARROW = ("float16", "bfloat16")


def round_tensor_float32(values: Array) -> Array:
    """Round float32 values to 10 mantissa bits, to nearest even; NaN, infinities and signs are kept."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    rounded = (bits + (np.uint32(0x0FFF) + ((bits >> np.uint32(13)) & np.uint32(1)))) & np.uint32(0xFFFFE000)
    return np.where(np.isnan(values), values, rounded.view(np.float32)).astype(np.float32)


def round_float64(values: Array, dtype: DType, *, saturate: bool = False, toward_zero: bool = False) -> Array:
    """Round float64 values once to the values of a float `dtype`; the result is still float64.

    The default is to nearest even. Beyond the largest finite value the result is infinity, NaN in formats
    without infinity, or with `saturate` the largest finite value (also for infinities). The spacing around x
    is 2**(exponent of x − mantissa bits), and never below that of the subnormals, so rounding to integers
    after scaling by it does the work.
    """
    _, exponent = np.frexp(values)  # |values| in [2**(exponent-1), 2**exponent)
    spacing = np.maximum(exponent - 1, dtype.min_exponent) - dtype.mantissa_bits
    scaled = np.ldexp(values, -spacing)
    rounded = np.ldexp(np.trunc(scaled) if toward_zero else np.rint(scaled), spacing)
    rounded = np.where(np.isfinite(values), rounded, values)
    if not dtype.is_signed:  # float8_e8m0fnu: powers of two only, neither zero nor negative numbers
        rounded = np.where(values > 0, np.maximum(rounded, dtype.min_value), np.nan)
    magnitude = np.abs(rounded)
    if saturate:
        outside = np.copysign(dtype.max_value, rounded)
    elif toward_zero:
        finite = np.copysign(dtype.max_value, rounded)
        outside = np.where(np.isinf(values), rounded if dtype.has_infinity else np.nan, finite)
    else:
        outside = np.copysign(np.inf, rounded) if dtype.has_infinity else np.full_like(rounded, np.nan)
    return np.where(magnitude > dtype.max_value, outside, rounded)


def to_dtype(values: Array, dtype: DType) -> Array:
    """Return results of arithmetic as an array of `dtype`.

    float64 results go through float32 on the way to 16 bits, because 16-bit arithmetic is float32 arithmetic
    rounded once. Integer results wrap; a bool is true where the result is not zero.
    """
    values = np.asarray(values)
    if dtype.kind == "bool":
        return values.astype(np.bool_)
    if dtype.name in _NARROW:
        return values.astype(np.float32).astype(dtype.numpy)
    if dtype is tensor_float32:
        return round_tensor_float32(values.astype(np.float32))
    return values.astype(dtype.numpy)


def working(values: Array, dtype: DType) -> Array:
    """Return an operand in its type for arithmetic: float32 for 16-bit floats, int64 for bool, or its own."""
    if dtype.kind == "bool":
        return values.astype(np.int64)
    return values.astype(np.float32) if dtype.name in _NARROW else values


def in_range(values: Array, dtype: DType) -> Array:
    """Give float64 values the range of the type in which composites of `dtype` are computed.

    Values beyond the largest float32 become infinite, and those below the smallest normal one keep only the
    digits that float32 has there. For float64 nothing changes.
    """
    if dtype.name == "float64":
        return values
    single = values.astype(np.float32)
    magnitude = np.abs(single)
    return np.where((magnitude < np.finfo(np.float32).tiny) | np.isinf(magnitude), single.astype(np.float64), values)


def double(values: Array) -> Array:
    """Return values as float64; exact for every float dtype."""
    return values.astype(np.float64)


def convert(
    values: Array, source: DType, target: DType, *, rounding: str = "nearest", saturate: bool = True
) -> Array:
    """Compute the op `cast` with one rounding, whatever the two types are.

    To bool: x != 0 (so NaN is true); integer → integer wraps; float → integer truncates, saturates, NaN
    becomes 0; to float rounds to nearest even, or with rounding="toward_zero" to the nearer value in the
    direction of zero. `saturate` applies to 8-bit floats: values beyond the largest finite one become that
    (else infinity or NaN). float4_e2m1fn, which has neither, always saturates, and NaN becomes -0.0, as in ml_dtypes.
    Raises `UnsupportedError` for storage-only dtypes and other roundings.
    """
    if source.storage_only or target.storage_only:
        raise UnsupportedError(
            f"cast from {source} to {target}: values of storage-only dtypes cannot be converted"
        )
    if rounding not in ("nearest", "toward_zero"):
        raise UnsupportedError(f'cast: rounding {rounding!r}; known: "nearest", "toward_zero"')
    if target.kind == "bool":
        return np.asarray((values.astype(np.float32) if source.bits < 32 else values) != 0)
    if target.is_integer:
        return _to_integer(values, source, target)
    if source is target:
        return values
    if target.name == "float64":
        return (
            values.astype(np.float64) if rounding == "nearest" or source.is_float else _towards_zero64(values)
        )
    wide = _exact_or_odd(values, source)
    stops = (saturate and target.bits == 8) or target.bits < 8
    rounded = round_float64(wide, target, saturate=stops, toward_zero=rounding == "toward_zero")
    if not target.has_nan:
        rounded = np.where(np.isnan(rounded), -0.0, rounded)
    if target is tensor_float32:
        return rounded.astype(np.float32)
    return rounded.astype(np.float32).astype(target.numpy)  # exact: both steps hold the rounded value


def _exact_or_odd(values: Array, source: DType) -> Array:
    """Return values as float64 that round to at most 24 significant bits as the exact values do.

    64-bit integers beyond 2**53 are rounded to odd: the low eleven bits are folded into a sticky bit (Boldo &
    Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd",
    2008).
    """
    if not source.is_integer or source.bits < 64:
        return values.astype(np.float64)
    low = values.dtype.type(0x7FF)
    sticky = (values & ~low) | np.where(values & low != 0, values.dtype.type(0x800), values.dtype.type(0))
    large = (values > 2**53) | (values < -(2**53)) if source.kind == "int" else values > 2**53
    return np.where(large, sticky, values).astype(np.float64)


def _towards_zero64(values: Array) -> Array:
    """Truncate integers to float64: one step back where rounding to nearest went away from zero."""
    nearest = values.astype(np.float64)
    top = 2.0**64 if values.dtype.kind == "u" else 2.0**63
    back = np.where(nearest < top, nearest, 0.0).astype(values.dtype)
    away = (nearest >= top) | ((values > 0) & (back > values)) | ((values < 0) & (back < values))
    return np.where(away, np.nextafter(nearest, 0.0), nearest)


def _to_integer(values: Array, source: DType, target: DType) -> Array:
    if not source.is_float:
        return _wrap(values, target)
    wide = np.trunc(values.astype(np.float64))
    low, high = int(target.min_value), int(target.max_value)
    inside = np.where((wide >= low) & (wide <= high), wide, 0.0)
    # float(high) may be 2**63 or 2**64, which is out of range: saturate on >=, where equality is exact or
    # rounded up.
    container = np.uint64 if target.kind == "uint" else np.int64
    limit = np.float64(high)
    below = np.where(wide >= limit, 0.0, inside).astype(container)
    result = np.where(wide >= limit, container(high), below)
    result = np.where(wide < low, container(low), result)
    result = np.where(np.isnan(wide), container(0), result)
    return _wrap(result, target)


def _wrap(values: Array, target: DType) -> Array:
    """Reduce integers or bools modulo 2**bits."""
    return values.astype(target.numpy) if target.bits >= 8 else _low_bits(values, target)


def _low_bits(values: Array, target: DType) -> Array:
    """Return integers of fewer than 8 bits from the low bits of others."""
    low = values.astype(np.int64) & ((1 << target.bits) - 1)
    return np.where((low > target.max_value) & (target.kind == "int"), low - (1 << target.bits), low).astype(target.numpy)


def bitcast(values: Array, source: DType, target: DType) -> Array:
    """Return the same bits as another dtype of the same width; bool's one byte counts as eight bits."""
    if (
        1 not in (source.bits, target.bits) and source.bits != target.bits
    ) or source.itemsize != target.itemsize:
        raise UnsupportedError(f"bitcast from {source} ({source.bits} bits) to {target} ({target.bits} bits)")
    values = np.array(values, order="C", copy=None)  # contiguous, and of rank 0 if it was
    if target.kind == "bool":
        return np.not_equal(values.view(np.uint8), 0)
    if source.bits in (2, 4):  # one per byte, whose upper bits are not part of the value
        bits = values.astype(np.int64) if source.is_integer else values.view(np.uint8)
        return (
            _low_bits(bits, target) if target.is_integer else (bits & 15).astype(np.uint8).view(target.numpy)
        )
    return values.view(target.numpy)


def literal(value: complex, dtype: DType) -> Any:
    """Return a Python scalar (already checked to fit) as a NumPy scalar of `dtype`."""
    exact = np.asarray(value)
    if dtype.storage_only:
        return scalar_array(value, dtype)[()]
    return convert(exact, DType.from_numpy(exact.dtype), dtype, saturate=False)[()]
