"""Checks of what users pass to a model: any array layout is accepted, anything else is explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...lowering.artifact import TensorSpec
from ...promotion.dtype import DType
from ...promotion.errors import UserError
from ..gpu import DeviceArray
from .dim_expressions import Size, parse_size

Array = np.ndarray[Any, Any]
_BUILD_BY_VIEW = {1: "uint8", 2: "uint16"}


@dataclass(frozen=True, slots=True)
class InputSpec:
    """An input with its shape parsed. `shape` entries are extents, dim names (a `str`), or expressions
    (`Size`)."""

    name: str
    dtype: DType
    shape: tuple[int | str | Size, ...]
    text: str

    @staticmethod
    def of(spec: TensorSpec) -> InputSpec:
        return InputSpec(spec.name, DType(spec.dtype), tuple(map(parse_entry, spec.shape)), describe(spec))


def parse_entry(entry: int | str) -> int | str | Size:
    """A shape entry: an extent, the name of a symbolic dim, or a parsed expression over such names."""
    if isinstance(entry, int):
        return entry
    if not any(character in "+-*/%^() ," for character in entry) and not entry.isdigit():
        return entry
    size = parse_size(entry)
    if isinstance(size.node, (int, str)):
        return size.node
    return size


def describe(spec: TensorSpec) -> str:
    """`x: float32[batch, 784]`."""
    return f"{spec.name}: {spec.dtype}[{', '.join(map(str, spec.shape))}]"


def _pattern(shape: Sequence[int | str | Size]) -> str:
    entries = [entry.text if isinstance(entry, Size) else str(entry) for entry in shape]
    return f"({', '.join(entries)}{',' if len(entries) == 1 else ''})"


def convert(spec: InputSpec, value: object, model: str) -> Array:
    """The value as a native, aligned, C-contiguous array of the input's dtype, copied only when it is not one
    already.

    Raises `UserError` for what is no array, for another dtype, and for another rank or extent; dims are bound
    by `bind_dims`.
    """
    what = f"{model}: input {spec.name!r}"
    expected = spec.dtype.numpy
    if isinstance(value, np.ma.MaskedArray):
        raise UserError(f"{what} is a masked array; joinery has no masks; fix: {spec.name}.filled(0)")
    if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
        array = _from_scalar(spec, value, what)
    elif isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
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
        if array.dtype.newbyteorder("=") != expected:
            raise UserError(_dtype_message(spec, array, what))
        array = array.astype(expected)
    if array.ndim != len(spec.shape):
        raise UserError(
            f"{what} expects shape {_pattern(spec.shape)} of rank {len(spec.shape)}, got {array.shape} of "
            f"rank {array.ndim}" + _rank_fix(spec, array)
        )
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = np.array(array, order="C", copy=True)
    return array


def check_device_array(spec: InputSpec, array: DeviceArray, model: str) -> DeviceArray:
    """An array on a device, which must have the input's dtype and rank as it is. Raises `UserError`."""
    what = f"{model}: input {spec.name!r}"
    if array.dtype != spec.dtype.numpy:
        raise UserError(
            f"{what} expects {spec.dtype}, got {array.dtype} with shape {array.shape} on the device; fix: convert it there, or "
            "pass a NumPy array"
        )
    if len(array.shape) != len(spec.shape):
        raise UserError(
            f"{what} expects shape {_pattern(spec.shape)} of rank {len(spec.shape)}, got {array.shape} of rank "
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
    """A Python number as a rank-0 array, when its kind is not higher than the input's and the value fits."""
    if spec.shape:
        raise UserError(
            f"{what} expects an array of shape {_pattern(spec.shape)}, got the number {value!r}; "
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
    """Extents of all symbolic dims the inputs mention. Raises `UserError` naming the input and axis that
    disagree."""
    dims: dict[str, int] = {}
    origin: dict[str, str] = {}
    expressions: list[tuple[InputSpec, int, Size, int]] = []
    for spec, array in zip(specs, arrays, strict=True):
        for axis, (entry, extent) in enumerate(zip(spec.shape, array.shape, strict=True)):
            if isinstance(entry, int):
                if entry != extent:
                    raise UserError(
                        f"{model}: input {spec.name!r} expects shape {_pattern(spec.shape)}, got "
                        f"{array.shape}: "
                        f"axis {axis} is {extent}, not {entry}"
                    )
            elif isinstance(entry, Size):
                expressions.append((spec, axis, entry, extent))
            elif entry not in dims:
                dims[entry] = extent
                origin[entry] = f"input {spec.name!r} axis {axis}"
            elif dims[entry] != extent:
                raise UserError(
                    f"{model}: {entry} is {dims[entry]} from {origin[entry]} but {extent} from "
                    f"{spec.name!r} axis {axis}; "
                    f"fix: pass inputs whose {entry!r} axes agree, or give one of them another name in the "
                    "graph"
                )
    _solve(expressions, dims, origin)
    for spec, axis, size, extent in expressions:
        unknown = [name for name in size.names if name not in dims]
        if unknown:
            raise UserError(
                f"{model}: input {spec.name!r} axis {axis} is {extent}, but {size.text} does not determine "
                f"{unknown[0]!r}; "
                f"fix: an input that has {unknown[0]!r} itself as an axis, or an extent that {size.text} "
                "can take"
            )
        value = size.evaluate(dims)
        if value != extent:
            known = ", ".join(f"{name} = {dims[name]} from {origin[name]}" for name in size.names)
            raise UserError(
                f"{model}: input {spec.name!r} axis {axis} must be {size.text} = {value} ({known}), got "
                f"{extent}"
            )
    return dims


def _solve(
    expressions: Sequence[tuple[InputSpec, int, Size, int]], dims: dict[str, int], origin: dict[str, str]
) -> None:
    """Binds dims that appear only inside expressions, such as `2*batch`, as long as one can be found."""
    found = True
    while found:
        found = False
        for spec, axis, size, extent in expressions:
            solution = size.solve(extent, dims)
            if solution is not None:
                dims[solution[0]] = solution[1]
                origin[solution[0]] = f"{size.text} = {extent}, input {spec.name!r} axis {axis}"
                found = True
