"""Handles values known when the graph is built: accepts arrays, and rounds Python scalars to a dtype."""

from __future__ import annotations

import hashlib
import json
import math

import numpy as np

from ..promotion.arrays import Array, is_masked
from ..promotion.dtype import DType, tensor_float32
from ..promotion.errors import UserError
from ..promotion.float_modes import default_modes
from ..promotion.literals import Scalar
from .errors import describe

_INLINE_BYTES = 64
MAX_TEXT_BYTES = 1 << 30
"""The most that the strings of one tensor may take: their lengths are data, so shapes and dtypes bound nothing."""
TEXT_ENTRY = 64
"""The bytes of a string without its characters, which count one each."""


def nearest(value: int | float, dtype: DType) -> float:
    """Round a Python number to the nearest value of a float `dtype`, ties to even, in one rounding.

    The number must be in range.
    """
    if value == 0 or (isinstance(value, float) and not math.isfinite(value)):
        return float(value)
    numerator, denominator = abs(value).as_integer_ratio()
    exponent = numerator.bit_length() - denominator.bit_length()
    if (numerator << max(-exponent, 0)) < (denominator << max(exponent, 0)):
        exponent -= 1
    last_place = max(exponent, dtype.min_exponent) - dtype.mantissa_bits
    numerator <<= max(-last_place, 0)
    denominator <<= max(last_place, 0)
    quotient, rest = divmod(numerator, denominator)
    if 2 * rest > denominator or (2 * rest == denominator and quotient & 1):
        quotient += 1
    return math.copysign(math.ldexp(quotient, last_place), value)


def scalar_array(value: Scalar, dtype: DType) -> Array:
    """Return a Python scalar that fits (see `promotion.literals`) as a read-only rank-0 array of `dtype`."""
    with default_modes():  # subnormals would be lost if the caller's modes flush them
        exact = nearest(value, dtype) if dtype.is_float and not isinstance(value, complex) else value
        array = np.asarray(exact, dtype=np.float64 if dtype.is_float else None).astype(dtype.numpy)
    array.flags.writeable = False
    return array


def as_array(value: object, what: str) -> tuple[Array, DType]:
    """Return a NumPy array or scalar as an array of native byte order, and its dtype.

    Raises `UserError` for anything else: only arrays carry a dtype.
    """
    if is_masked(value):
        raise UserError(
            f"{what}: a masked array would lose its mask; fix: pass value.filled(…), and the mask as an array of its own"
        )
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        if array.dtype.hasobject or array.dtype.names:
            raise UserError(
                f"{what}: arrays of {array.dtype} hold no numbers; fix: convert with numpy.asarray(value, dtype=…)"
            )
        if not array.dtype.isnative:  # byte order is storage only; compiled code reads native order
            array = array.astype(array.dtype.newbyteorder("="))
        return array, DType.from_numpy(array.dtype)
    if isinstance(value, (list, tuple)):
        raise UserError(
            f"{what}: a {type(value).__name__} has no dtype, so it could not be promoted; "
            "fix: numpy.array(value, dtype=…), or graph.constant(numpy.array(…))"
        )
    is_array = hasattr(value, "__array__") or hasattr(value, "__dlpack__")
    fix = "numpy.asarray(value)" if is_array else "pass a tensor of the graph, an array or a number"
    raise UserError(f"{what}: expected a Symbol, a NumPy array or a Python scalar, not {describe(value)}; fix: {fix}")


def as_texts(value: object, what: str) -> Array:
    """Return strings as an array of objects: a string, or an array of them. Raises `UserError` for anything else."""
    array = np.asarray(value) if isinstance(value, (str, np.ndarray, np.generic)) else None
    if array is not None and array.dtype.kind in "UT":
        array = array.astype(object)
    if array is None or not array.dtype.hasobject or not all(type(entry) is str for entry in array.reshape(-1).tolist()):
        raise UserError(f"{what}: expected strings, not {describe(value)}; fix: numpy.array(['a', 'b'], dtype=object)")
    return array


def text_options(value: object) -> str | None:
    """Return the attribute of a constant of strings; None for a value that holds no strings."""
    kind = value.dtype.kind if isinstance(value, (np.ndarray, np.generic)) else "U" if isinstance(value, str) else ""
    if kind not in ("U", "T") and not (kind == "O" and isinstance(value, np.ndarray) and _all_texts(value)):
        return None
    array = as_texts(value, "constant")
    require_few_texts("constant", text_bytes(array))
    return json.dumps({"shape": list(array.shape), "texts": array.reshape(-1).tolist()})


def text_bytes(array: Array) -> int:
    """Return about how much memory the strings of an array take; those that stand in it several times count each time.

    Of an array whose elements alone are too many the strings are not looked at.
    """
    entries = array.size * TEXT_ENTRY
    if entries > MAX_TEXT_BYTES:
        return entries
    return entries + sum([len(entry) for entry in array.reshape(-1).tolist() if type(entry) is str])


def require_few_texts(op: str, nbytes: int) -> None:
    """Raise `UserError` where strings would take more memory than any tensor of them may."""
    if nbytes > MAX_TEXT_BYTES:
        problem = f"its strings would take {nbytes} bytes, the most is {MAX_TEXT_BYTES}"
        raise UserError(f"{op}: {problem}; fix: shorter strings, or fewer at a time")


def _all_texts(array: Array) -> bool:
    return array.size > 0 and all(type(entry) is str for entry in array.reshape(-1).tolist())


def frozen(array: Array) -> Array:
    """Return a read-only C-contiguous array of equal values, copied unless nothing can write to `array`."""
    if not array.flags.writeable and array.flags.c_contiguous and _base_is_read_only(array):
        return array
    result = np.array(array, order="C", copy=True)
    result.flags.writeable = False
    return result


def _base_is_read_only(array: Array) -> bool:
    base = array.base
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return False
        base = base.base
    return base is None or isinstance(base, bytes)


def typed(array: Array, own: DType, dtype: DType | None, what: str) -> DType:
    """Return the dtype of a constant: its own, or one of the same storage (index, address, tensor_float32).

    Raises `UserError` for other dtypes, and for values that tensor_float32 would round.
    """
    if dtype is None or dtype is own:
        return own
    if dtype.numpy != array.dtype:
        raise UserError(
            f"{what}: the array is {own}, not {dtype}; fix: convert it first, or use graph.constant(array).cast({dtype})"
        )
    if dtype is tensor_float32 and np.any(array.view(np.uint32) & np.uint32(0x1FFF)):
        raise UserError(
            f"{what}: some values have more than the 10 mantissa bits of tensor_float32; "
            "fix: graph.constant(array).cast(tensor_float32), which rounds"
        )
    return dtype


def identity_key(array: Array, dtype: DType) -> tuple[DType, tuple[int, ...], bytes]:
    """Return a key that is equal for arrays of equal dtype, shape and bits.

    Values do not count: 0.0 is not -0.0, and NaN equals itself.
    """
    data = array.tobytes() if array.nbytes <= _INLINE_BYTES else array_digest(array).digest()
    return (dtype, array.shape, data)


def array_digest(array: Array) -> hashlib._Hash:
    """Return the SHA-256 hash of the bytes in row-major order."""
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
