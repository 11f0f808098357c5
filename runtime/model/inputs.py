"""Checks what users pass to a model: any memory layout is accepted, and anything else that differs is explained."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph.dims import binding
from ...graph.dims.binding import ArrayShape, parse_extent, shape_pattern
from ...graph.dims.dim import Extent
from ...lowering.artifact import TensorSpec
from ...promotion.arrays import Array, DeviceArray, is_masked
from ...promotion.dataclass import dataclass
from ...promotion.dtype import DType
from ...promotion.errors import UserError, printable
from ..host.dlpack import host_array, is_exported

_BUILD_BY_VIEW = {1: "uint8", 2: "uint16"}


@dataclass(frozen=True, slots=True)
class InputSpec:
    """An input or output with its shape parsed."""

    name: str
    dtype: DType
    shape: tuple[Extent, ...]
    text: str

    @staticmethod
    def of(spec: TensorSpec) -> InputSpec:
        return InputSpec(spec.name, DType(spec.dtype), tuple(map(parse_extent, spec.shape)), describe(spec))


def describe(spec: TensorSpec) -> str:
    """Formats a tensor's name, dtype and shape: `x: float32[batch, 784]`."""
    return printable(f"{spec.name}: {spec.dtype}[{', '.join(map(str, spec.shape))}]")


def convert(spec: InputSpec, value: object, model: str) -> Array:
    """Returns the value as a native, aligned, C-contiguous array of the input's dtype, copied only where it
    is not one already.

    Raises `UserError` for values that are not arrays, and for another dtype or rank; `bind_dims` checks the extents.
    """
    what = f"{model}: input {spec.name!r}"
    expected = spec.dtype.numpy
    if is_masked(value):
        raise UserError(f"{what} is a masked array; joinery has no masks; fix: {spec.name}.filled(0)")
    if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
        array = _from_scalar(spec, value, what)
    elif isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
    elif is_exported(value):
        array = host_array(value, what)
    else:
        given = f"a {type(value).__name__}" if value is not None else "None"
        if value is None:
            fix = "pass an array"
        elif hasattr(value, "numpy") and not hasattr(value, "__array__"):  # jn.Buffer
            fix = f"fix: {spec.name}.numpy(), or device='cuda' for the model"
        else:
            fix = f"fix: numpy.asarray({spec.name}, dtype={_dtype_code(spec.dtype)})"
        raise UserError(f"{what} expects an array ({spec.text}), got {given}; {fix}")
    if array.dtype != expected:
        if array.dtype.isnative or array.dtype.newbyteorder("=") != expected:
            raise UserError(_dtype_message(spec, array, what))
        array = array.astype(expected)
    if array.ndim != len(spec.shape):
        raise UserError(
            f"{what} expects shape {shape_pattern(spec.shape)} of rank {len(spec.shape)}, got {array.shape} of "
            f"rank {array.ndim}" + _rank_fix(spec, array)
        )
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = np.array(array, order="C", copy=True)
    return array


def check_device_array(spec: InputSpec, array: DeviceArray, model: str) -> DeviceArray:
    """Returns an array on a device. Raises `UserError` unless it has the input's dtype and rank: it is not
    converted."""
    what = f"{model}: input {spec.name!r}"
    if array.dtype != spec.dtype.numpy:
        raise UserError(
            f"{what} expects {spec.dtype}, got {array.dtype} with shape {array.shape} on the device; fix: convert it there, or "
            "pass a NumPy array"
        )
    if len(array.shape) != len(spec.shape):
        raise UserError(
            f"{what} expects shape {shape_pattern(spec.shape)} of rank {len(spec.shape)}, got {array.shape} of rank "
            f"{len(array.shape)}"
        )
    return array


def _rank_fix(spec: InputSpec, array: Array) -> str:
    missing = len(spec.shape) - array.ndim
    if missing == 1:
        return f"; fix: {spec.name}[None] adds a leading axis"
    if missing == -1 and array.shape[0] == 1:
        return f"; fix: {spec.name}[0] drops the leading axis"
    return f"; fix: {spec.name}.reshape(...) to rank {len(spec.shape)}"


def _dtype_code(dtype: DType) -> str:
    module = dtype.numpy.type.__module__.partition(".")[0]
    return f"{module}.{dtype.numpy.name}" if module == "ml_dtypes" else f"numpy.{dtype.numpy.name}"


def _dtype_message(spec: InputSpec, array: Array, what: str) -> str:
    given = f"{array.dtype} with shape {array.shape}"
    code = _dtype_code(spec.dtype)
    if array.dtype.kind in "OSUVMmT" and array.dtype.kind != spec.dtype.numpy.kind:
        kind = "an object array" if array.dtype.kind == "O" else f"an array of {array.dtype}"
        fix = (
            f"numpy.array({spec.name}.tolist(), dtype={code})"
            if array.dtype.kind == "O"
            else f"pass numbers of {code}"
        )
        return f"{what} expects {spec.dtype}, got {kind} with shape {array.shape}; fix: {fix}"
    size = spec.dtype.itemsize
    if code.startswith("ml_dtypes") and array.dtype.kind in "ui" and array.dtype.itemsize == size:
        raw = _BUILD_BY_VIEW.get(size, array.dtype.name)
        return (
            f"{what} expects {spec.dtype}, got {given}; fix: {spec.name}.view({code}) if these are the raw "
            f"bits ({raw}), "
            f"{spec.name}.astype({code}) if they are numbers"
        )
    return f"{what} expects {spec.dtype}, got {given}; fix: {spec.name}.astype({code})"


def _from_scalar(spec: InputSpec, value: complex, what: str) -> Array:
    """Returns a Python number as a rank-0 array. Raises `UserError` if its kind is higher than the input's or
    the value does not fit."""
    if spec.shape:
        raise UserError(
            f"{what} expects an array of shape {shape_pattern(spec.shape)}, got the number {value!r}; "
            f"fix: numpy.full(shape, {value!r}, {_dtype_code(spec.dtype)})"
        )
    rank = {"bool": 0, "int": 1, "uint": 1, "float": 2, "complex": 3}[spec.dtype.kind]
    given = (
        0
        if isinstance(value, bool)
        else 1
        if isinstance(value, int)
        else 2
        if isinstance(value, float)
        else 3
    )
    if given > rank:
        raise UserError(
            f"{what} expects {spec.dtype}, got the {type(value).__name__} {value!r}; "
            f"fix: numpy.asarray({value!r}).astype({_dtype_code(spec.dtype)})"
        )
    if isinstance(value, int) and spec.dtype.is_integer and not spec.dtype.contains_integer(value):
        raise UserError(
            f"{what}: {value} does not fit {spec.dtype} ({spec.dtype.min_value} … {spec.dtype.max_value}); "
            "fix: a smaller value"
        )
    try:
        return (
            np.asarray(value).astype(spec.dtype.numpy)
            if not isinstance(value, int)
            else np.array(value, spec.dtype.numpy)
        )
    except OverflowError as error:
        raise UserError(f"{what}: {value} does not fit {spec.dtype}; fix: a smaller value") from error


def bind_dims(specs: Sequence[InputSpec], arrays: Sequence[Array | DeviceArray], model: str) -> dict[str, int]:
    """Returns the sizes of all dims that the inputs mention. Raises `UserError`, which names the input and
    the axis that disagree."""
    pairs = zip(specs, arrays, strict=True)
    return binding.bind_dims((ArrayShape(spec.name, spec.shape, array.shape) for spec, array in pairs), model)
