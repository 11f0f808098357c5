"""Passes tensors between PyTorch and NumPy without copies, and maps dtypes and sizes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from ...graph.aten.program import Condition
from ...graph.dims.dim import Extent, at_most, dim, maximum, minimum
from ...promotion.arrays import Array
from ...promotion.dtype import DType
from ...promotion.errors import UnsupportedError, UserError

_CARRIERS = {1: "uint8", 2: "int16"}
"""Bytes of an element → the dtype of PyTorch as which NumPy takes formats that it does not have itself."""


def dtype_of(dtype: Any) -> DType:
    """Return the dtype of a `torch.dtype`. Raises `UnsupportedError` for those that joinery does not have."""
    name = str(dtype).removeprefix("torch.")
    try:
        return DType(name)
    except UserError:
        raise UnsupportedError(f"dtype {dtype} is not supported; fix: convert it before it enters the model") from None


def torch_dtype(dtype: DType) -> Any:
    """Return the `torch.dtype` of a dtype."""
    found = getattr(torch, dtype.name, None)
    if not isinstance(found, torch.dtype):
        raise UnsupportedError(f"PyTorch has no dtype {dtype}; fix: cast the output")
    return found


def require_plain(tensor: Any, what: str) -> None:
    """Raise `UnsupportedError` for tensors that are no strided tensors of the CPU."""
    if tensor.device.type != "cpu":
        raise UnsupportedError(f"{what} is on device {tensor.device}; fix: move the model and its inputs to the CPU")
    if str(tensor.layout) != "torch.strided" or tensor.is_quantized:
        kind = "quantised" if tensor.is_quantized else str(tensor.layout).removeprefix("torch.")
        raise UnsupportedError(f"{what} is {kind}; fix: a dense tensor")


def to_array(tensor: Any) -> Array:
    """Return a tensor of the CPU as an array over the same memory, with its strides. Elements that memory does not have as they
    are (negated views, zeros without memory) are written first."""
    plain = tensor.detach() if tensor.requires_grad else tensor
    if plain.is_neg():
        plain = plain.resolve_neg()
    if plain.is_conj():
        plain = plain.resolve_conj()
    if plain._is_zerotensor():  # it has no memory
        plain = torch.zeros(plain.shape, dtype=plain.dtype)
    dtype = plain.dtype
    own = dtype_of(dtype)
    if dtype is torch.bfloat16 or str(dtype).startswith("torch.float8"):
        carrier: Array = plain.view(getattr(torch, _CARRIERS[own.itemsize])).numpy()
        return carrier.view(own.numpy)
    array: Array = plain.numpy()
    return array


def checked_array(tensor: Any) -> Array:
    """Return `to_array` of what the user gives. Raises `UserError` for what is no dense tensor of the CPU."""
    if not isinstance(tensor, torch.Tensor):
        raise UserError(f"to_array: expected a tensor of PyTorch, got {type(tensor).__name__}; fix: numpy.asarray")
    if tensor.device.type != "cpu":
        raise UserError(f"to_array: the tensor is on device {tensor.device}; fix: one with elements, tensor.cpu()")
    if tensor.is_nested:
        raise UserError("to_array: the tensor is nested; fix: tensor.to_padded_tensor(0), or each of tensor.unbind()")
    if tensor.layout is not torch.strided:
        kind = str(tensor.layout).removeprefix("torch.")
        raise UserError(f"to_array: the tensor has the layout {kind}; fix: tensor.to_dense()")
    if tensor.is_quantized:
        raise UserError("to_array: the tensor is quantised; fix: tensor.dequantize(), or tensor.int_repr()")
    try:
        return to_array(tensor)
    except (RuntimeError, TypeError) as error:  # subclasses, and tensors of tracers, have no memory that NumPy may see
        problem = str(error).partition("\n")[0]
        raise UserError(f"to_array: {type(tensor).__name__} gives no array ({problem}); fix: a torch.Tensor") from None


def checked_tensor(array: Any) -> Any:
    """Return `to_tensor` of what the user gives. Raises `UserError` for what no tensor has the memory of."""
    if not isinstance(array, np.ndarray):
        raise UserError(f"to_tensor: expected an array of NumPy, got {type(array).__name__}; fix: numpy.asarray")
    try:
        return to_tensor(array)
    except (TypeError, ValueError) as error:  # negative strides, other byte orders
        raise UserError(f"to_tensor: {str(error).partition('.')[0]}; fix: array.copy()") from None


def to_tensor(array: Array, dtype: DType | None = None) -> Any:
    """Return an array as a tensor over the same memory, of a read-only one over a copy. dtype: that of the array."""
    if not array.flags.writeable:  # PyTorch has no tensors that may not be written
        array = array.copy()
    dtype = DType.from_numpy(array.dtype) if dtype is None else dtype
    wanted = torch_dtype(dtype)
    if wanted is torch.bfloat16 or str(wanted).startswith("torch.float8"):
        return torch.from_numpy(array.view(_NUMPY_CARRIERS[dtype.itemsize])).view(wanted)
    return torch.from_numpy(array)


_NUMPY_CARRIERS = {1: np.uint8, 2: np.int16}


def decided_sizes(values: Iterable[Any]) -> set[str]:
    """Return the names of sizes of tensors that data decides."""
    shapes = [value.shape for value in values if hasattr(value, "shape")]
    return {str(size) for shape in shapes for size in shape if not isinstance(size, int) and re.fullmatch(r"u\d+", str(size))}


_CONDITIONS = {"Equality": "equal", "Unequality": "not_equal", "StrictLessThan": "less", "LessThan": "less_equal",
               "StrictGreaterThan": "greater", "GreaterThan": "greater_equal", "And": "and", "Or": "or",
               "Not": "not"}  # fmt: skip


def condition_of(expression: Any, names: Mapping[str, str]) -> Condition | bool:
    """Return a condition on sizes."""
    kind = type(expression).__name__
    if kind in ("BooleanTrue", "BooleanFalse"):
        return kind == "BooleanTrue"
    if kind not in _CONDITIONS:
        raise UnsupportedError(f"the condition {expression} is not supported; fix: compare sizes by == != < <= > >=")
    of_sizes = _CONDITIONS[kind] not in ("and", "or", "not")
    parts = [expression_of(part, names) if of_sizes else condition_of(part, names) for part in expression.args]
    return Condition(_CONDITIONS[kind], tuple(parts))


def extent_of(size: Any, names: Mapping[str, str]) -> Extent:
    """Return a size of PyTorch, an int or a `SymInt`; `names` renames its symbols."""
    return size if isinstance(size, int) else expression_of(size.node.expr, names)


def expression_of(expression: Any, names: Mapping[str, str]) -> Extent:
    """Return an expression of sizes. names: new names of symbols, and names of expressions that have no form.

    Raises `UnsupportedError` for sizes that data decides, and functions unknown here.
    """
    if expression.is_Integer:
        return int(expression)
    if expression.is_Symbol:
        name = str(expression)
        if name.startswith(("u", "zuf")) and name not in names:
            raise UnsupportedError(f"the size {name} is decided by data, which is not supported; fix: use torch.where")
        return dim(names.get(name, name))
    try:
        return _composed(expression, names)
    except UnsupportedError:
        if (known := names.get(str(expression))) is not None:
            return dim(known)
        raise


def _composed(expression: Any, names: Mapping[str, str]) -> Extent:
    """Return a function of sizes."""
    kind = type(expression).__name__
    if kind in _ROUNDINGS and (found := _rounded(kind, expression.args[0], names)) is not None:
        return found
    parts = [expression_of(part, names) for part in expression.args]
    if kind == "Add":
        return sum(parts[1:], parts[0])
    if kind == "Mul":
        result = parts[0]
        for part in parts[1:]:
            result = result * part
        return result
    if kind == "Pow" and isinstance(parts[1], int) and parts[1] >= 0 and not isinstance(parts[0], int):
        return parts[0] ** parts[1]
    if kind in ("FloorDiv", "CleanDiv"):
        return parts[0] // parts[1]
    if kind in ("PythonMod", "Mod"):
        return parts[0] % parts[1]
    if kind == "ModularIndexing":
        return (parts[0] // parts[1]) % parts[2]
    if kind in ("Max", "Min"):
        return (maximum if kind == "Max" else minimum)(*parts)
    raise UnsupportedError(f"the function {kind} in the size {expression} is not supported; fix: sizes of + * // % max min")


_ROUNDINGS = frozenset({"FloorToInt", "CeilToInt", "TruncToInt"})
_DIGITS = 1 << 20
"""The largest part of a fraction as a factor of sizes: products with any size are exact in float64."""


def _rounded(kind: str, value: Any, names: Mapping[str, str]) -> Extent | None:
    """Return a real number made of sizes, rounded to an integer; None where PyTorch's float64 may round before."""
    fraction = _fraction(value, names)
    if fraction is None:
        return None
    above, below = fraction
    if kind == "CeilToInt":
        return (above + below - 1) // below
    return above // below if kind == "FloorToInt" or at_most(0, above) else None


def _fraction(value: Any, names: Mapping[str, str]) -> tuple[Extent, Extent] | None:
    """Return a real number made of sizes as a fraction that float64 has, or that it rounds to no other integer."""
    if type(value).__name__ == "IntTrueDiv":  # a quotient is closer to an integer than its float64 only if it is one
        above, below = (expression_of(each, names) for each in value.args)
        return (above, below) if at_most(1, below) and at_most(0, above) else None
    return _exact(value, names)


def _exact(value: Any, names: Mapping[str, str]) -> tuple[Extent, int] | None:
    """Return a real number made of sizes that float64 has without rounding, over a power of two."""
    kind = type(value).__name__
    if value.is_Float:
        above, below = float(value).as_integer_ratio()
        return (above, below) if max(abs(above), below) <= _DIGITS else None
    if value.is_Integer:
        return int(value), 1
    if kind == "ToFloat":
        return expression_of(value.args[0], names), 1
    if kind == "IntTrueDiv" and value.args[1].is_Integer and int(value.args[1]) in _POWERS:
        return expression_of(value.args[0], names), int(value.args[1])
    if kind not in ("Mul", "Add"):
        return None
    parts = [_exact(part, names) for part in value.args]
    if any(part is None for part in parts):
        return None
    known = [part for part in parts if part is not None]
    total, under = known[0]
    for part, size in known[1:]:
        total = total * part if kind == "Mul" else total * size + part * under
        under *= size
    return (total, under) if under <= _DIGITS else None


_POWERS = frozenset(1 << digit for digit in range(21))
