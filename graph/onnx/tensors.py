"""Decodes tensors of a model: every dtype from every field that may hold it, with lengths checked before anything is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...promotion.arrays import Array
from ...promotion.dtype import DTYPES, DType, string
from ...promotion.errors import UnsupportedError, UserError
from ..checks import MAX_SIZE
from ..types import MAX_RANK
from .limits import OnnxLimits

_FIELDS = {
    "float32": "float_data", "complex64": "float_data", "float64": "double_data", "complex128": "double_data",
    "int64": "int64_data", "uint32": "uint64_data", "uint64": "uint64_data",
}  # fmt: skip
"""Name of a dtype → the field that holds its values; for the others `int32_data`, floats as bits."""
_ALL_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")
_UNNAMED = ("index", "address", "tensor_float32")

ReadExternal = Callable[[Any, int, str], bytes]
"""Reads the external data of a tensor (its message and its number of bytes)."""


def dtype_of_code(code: int, what: str) -> DType:
    """Return the dtype of a number of ONNX's `TensorProto.DataType`."""
    for dtype in DTYPES.values():
        if dtype.names.onnx == code and dtype.name not in _UNNAMED:
            return dtype
    if code == string.names.onnx:
        return string
    raise UserError(f"{what}: {code} is no tensor data type; fix: export the model again")


def code_of_dtype(dtype: DType) -> int:
    """Return ONNX's number of a dtype that came from ONNX."""
    code = dtype.names.onnx
    if code is None:
        raise UnsupportedError(f"{dtype} is no tensor data type of ONNX; fix: cast to float32")
    return code


def known_elements(shape: Iterable[object]) -> int:
    """Return how many elements a tensor of a shape has as far as it is known. Sizes of 0 count as 1: NumPy has no array of
    0 elements whose other sizes are too large."""
    return math.prod([size for size in shape if isinstance(size, int) and size])


def is_addressable(shape: Iterable[object], itemsize: int) -> bool:
    """Return whether an array may have a shape, of elements of so many bytes."""
    return known_elements(shape) * itemsize < MAX_SIZE


def decoded(tensor: Any, read_external: ReadExternal, limits: OnnxLimits, what: str) -> Array:
    """Return the array of a `TensorProto`, read-only. Raises `UserError` where sizes and data do not agree."""
    where, what = what, f"{what} tensor {tensor.name!r}" if tensor.name else what
    dtype = dtype_of_code(tensor.data_type, what)
    shape = tuple(tensor.dims)
    if (len(shape) > MAX_RANK or any(size < 0 for size in shape) or known_elements(shape) > limits.elements
            or not is_addressable(shape, np.dtype(dtype.numpy).itemsize)):  # fmt: skip
        raise UserError(f"{what}: the shape {list(shape)[:80]} is negative or too large; fix: export the model again")
    if tensor.HasField("segment"):
        raise UnsupportedError(f"{what}: the data is in segments; fix: save the tensor whole")
    count = math.prod(shape)
    if dtype is string:
        return _texts(tensor, count, limits, what).reshape(shape)
    nbytes = -(-count * dtype.bits // 8) if dtype.bits < 8 and not dtype.is_bool else count * dtype.itemsize
    filled = [field for field in _ALL_FIELDS if len(getattr(tensor, field))]
    external = tensor.data_location == 1
    if len(filled) + tensor.HasField("raw_data") + external > 1:
        raise UserError(f"{what}: more than one field holds data; fix: export the model again")
    if external or tensor.HasField("raw_data"):
        data = read_external(tensor, nbytes, where) if external else tensor.raw_data
        if len(data) != nbytes:
            raise UserError(f"{what}: {len(data)} bytes for {dtype} {list(shape)}, which takes {nbytes}; fix: export it again")
        array = _from_bytes(data, dtype, count)
    else:
        field = _FIELDS.get(dtype.name, "int32_data")
        if filled and filled != [field]:
            raise UserError(f"{what}: {dtype} in {filled[0]}; expected {field}; fix: export the model again")
        array = _from_numbers(getattr(tensor, field), dtype, count, what)
    array = array.reshape(shape)
    array.flags.writeable = False
    return array


def _texts(tensor: Any, count: int, limits: OnnxLimits, what: str) -> Array:
    """Return strings, which have a field of their own."""
    if tensor.data_location == 1 or tensor.HasField("raw_data") or len(tensor.string_data) != count:
        raise UserError(f"{what}: {len(tensor.string_data)} strings for {count} elements; fix: export the model again")
    array: Array = np.empty(count, object)
    for position, data in enumerate(tensor.string_data):
        if len(data) > limits.name_bytes:
            raise UserError(f"{what}: a string of {len(data)} bytes; fix: limits=OnnxLimits(name_bytes=…) if you trust it")
        array[position] = data.decode("utf-8", "surrogateescape")
    array.flags.writeable = False
    return array


def _from_bytes(data: bytes, dtype: DType, count: int) -> Array:
    if dtype.bits < 8 and not dtype.is_bool:
        return _unpacked(np.frombuffer(data, np.uint8), dtype, count)
    storage = np.dtype(dtype.numpy)
    if dtype.is_bool:
        return np.frombuffer(data, np.uint8).astype(np.bool_)
    if storage.byteorder == "=" and storage.isbuiltin == 1:
        return np.frombuffer(data, storage.newbyteorder("<")).astype(storage, copy=False)
    bits = np.frombuffer(data, np.dtype(f"<u{dtype.itemsize}"))
    return bits.astype(bits.dtype.newbyteorder("="), copy=False).view(storage)


def _unpacked(packed: Array, dtype: DType, count: int) -> Array:
    """Return the elements of fewer than 8 bits in bytes, lowest bits first."""
    per_byte = 8 // dtype.bits if dtype.bits in (2, 4) else 0
    if not per_byte:
        raise UnsupportedError(f"tensors of {dtype} are not supported; fix: store them as a wider dtype")
    shifts = np.arange(per_byte, dtype=np.uint8) * dtype.bits
    codes = ((packed[:, None] >> shifts) & ((1 << dtype.bits) - 1)).reshape(-1)[:count].astype(np.uint8)
    if dtype.kind == "int":
        sign = 1 << (dtype.bits - 1)
        return ((codes ^ sign).astype(np.int8) - np.int8(sign)).astype(dtype.numpy)
    return codes.astype(dtype.numpy) if dtype.kind == "uint" else codes.view(dtype.numpy)


def _from_numbers(values: Any, dtype: DType, count: int, what: str) -> Array:
    packed = dtype.bits < 8 and not dtype.is_bool
    expected = -(-count * dtype.bits // 8) if packed else 2 * count if dtype.is_complex else count
    if len(values) != expected:
        raise UserError(f"{what}: {len(values)} values for {count} elements of {dtype}; fix: export the model again")
    field = _FIELDS.get(dtype.name, "int32_data")
    if field in ("float_data", "double_data"):
        return np.array(values, np.float32 if field == "float_data" else np.float64).view(dtype.numpy)
    numbers = np.array(values, np.uint64 if field == "uint64_data" else np.int64)
    if packed:
        return _unpacked(numbers.astype(np.uint8), dtype, count)
    if dtype.is_float:
        return numbers.astype(f"u{dtype.itemsize}").view(dtype.numpy)
    if dtype.is_bool:
        return numbers.astype(np.bool_)
    low, high = int(dtype.min_value), int(dtype.max_value)
    if count and not (low <= int(numbers.min()) and int(numbers.max()) <= high):
        raise UserError(f"{what}: values outside {dtype}; fix: export the model again")
    return numbers.astype(dtype.numpy)
