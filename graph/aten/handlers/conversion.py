"""Handles conversions, copies, and statements about tensors, which are checked while importing or mean nothing."""

from __future__ import annotations

from typing import Any

from ....promotion.dtype import DType, bool_, float64, int64
from ....promotion.errors import UserError
from ...construction import primitives
from ...dims.dim import Dim, Extent, maximum, minimum
from ...functions.building import apply
from ...functions.complex.parts import Complex
from ...functions.conversion import bitcast
from ...functions.host import data_sized
from ...symbol import Symbol
from ..node import Node, Number
from ..registry import handles, handles_complex


@handles("_to_copy.default", "to.dtype")
def to_copy(node: Node, x: Symbol, dtype: DType | None = None, non_blocking: bool = False, copy: bool = False) -> Symbol:
    """Convert to a dtype, as the model asks for."""
    return x if dtype is None else x.cast(dtype)


@handles("convert_element_type.default", namespace="prims")
def convert_element_type(node: Node, x: Symbol, dtype: DType) -> Symbol:
    """Convert to a dtype, as PyTorch's own rules do with numbers that data decides."""
    return x.cast(dtype)


@handles("clone.default", "alias.default", "detach.default", "lift_fresh_copy.default", "contiguous.default",
         "lift_fresh.default")  # fmt: skip
def same(node: Node, x: Symbol) -> Symbol:
    """Return the tensor: values have no storage that could be shared."""
    return x


@handles("view.dtype")
def view_dtype(node: Node, x: Symbol, dtype: DType) -> Symbol:
    """Reinterpret the bits of a tensor as another dtype of the same width."""
    if dtype.itemsize != x.dtype.itemsize:
        node.unsupported(f"the bits of {x.dtype} as {dtype}, of another width", "view it as a dtype of the same width")
    return bitcast(x, dtype)


@handles("copy.default")
def copy(node: Node, x: Symbol, source: Symbol, non_blocking: bool = False) -> Symbol:
    """Return what overwrites a tensor, in its dtype and shape."""
    return node.broadcast(source.cast(x.dtype))


@handles_complex("_assert_tensor_metadata.default")
@handles("_assert_tensor_metadata.default")
def assert_tensor_metadata(
    node: Node, x: Symbol | Complex, size: tuple[Extent, ...] | None = None, stride: tuple[Extent, ...] | None = None,
    dtype: DType | None = None,
) -> tuple[()]:  # fmt: skip
    """Check what the model states of a tensor."""
    if dtype is not None and dtype is not x.dtype:
        raise UserError(f"the model states {dtype} of a tensor of {x.dtype}; fix: export the model again")
    for axis, (own, stated) in enumerate(zip(x.shape, size or x.shape, strict=True)):
        node.graph.shape_checks.add(own, stated, f"axis {axis} must have the size {stated}, as the model states")
    return ()


@handles("of_numbers.default", namespace="number")
def of_numbers(node: Node, row: str, *values: Symbol | Dim | Number) -> Symbol:
    """Compute a float that sizes decide, in float64, as Python does."""
    wide = [value.cast(float64) if isinstance(value, Symbol) else node.operand(value, float64) for value in values]
    return wide[0] if row == "cast" else apply(row, *wide)


@handles("_assert_async.default", "_assert_async.msg", alone=True)
def assert_async(node: Node, x: Symbol, assert_msg: str = "a tensor must hold, as the model states") -> tuple[()]:
    """Require a tensor to hold, when the graph has run as far as that."""
    holds = apply("not_equal", primitives.reshape(x, ()), node.number(0, x.dtype))
    node.hold(data_sized.size_of(holds.cast(int64)), assert_msg)
    return ()


@handles("asserted.default", namespace="number", alone=True)
def asserted(node: Node, condition: Any, message: str) -> tuple[()]:
    """Require a condition on numbers: rows and what they are applied to, nested; numbers that data decides are tensors."""
    holds = _indicator(condition)
    if holds is None:
        holds = data_sized.size_of(_number_of(node, condition).cast(int64))
    if isinstance(holds, Dim):
        node.hold(holds, message)
    else:
        node.require(holds == 1, message, "export the model again")
    return ()


def _indicator(value: Any) -> Extent | None:
    """Return 1 or 0 for a condition on sizes alone, a size for what is not one; None where a tensor is part of it."""
    if not isinstance(value, tuple):
        return value if isinstance(value, (int, Dim)) else None
    row, *parts = value
    extents = [_indicator(part) for part in parts]
    if any(each is None for each in extents):
        return None
    first, second = [each for each in extents if each is not None][:2] if len(extents) > 1 else (extents[0], 0)
    assert first is not None
    match row:
        case "equal" | "not_equal":
            differs = minimum((first - second) * (first - second), 1)
            return differs if row == "not_equal" else 1 - differs
        case "greater" | "less_equal":
            more = minimum(maximum(first - second, 0), 1)
            return more if row == "greater" else 1 - more
        case "less" | "greater_equal":
            more = minimum(maximum(second - first, 0), 1)
            return more if row == "less" else 1 - more
        case "logical_and" | "mul":
            return first * second
        case "logical_or":
            return maximum(first, second)
        case "logical_not":
            return 1 - first
        case "add":
            return first + second
        case "sub":
            return first - second
    return None


def _number_of(node: Node, value: Any) -> Symbol:
    """Return a number without axes; of whole numbers alone, in int64."""
    if isinstance(value, tuple):
        row, *parts = value
        operands = [_number_of(node, part) for part in parts]
        if row.startswith("logical"):
            return apply(row, *operands)
        wide = float64 if any(each.dtype.is_float for each in operands) else int64
        return apply(row, *[each.cast(wide) for each in operands])
    if isinstance(value, Symbol):
        return primitives.reshape(value, ())
    return node.operand(value, bool_ if isinstance(value, bool) else float64 if isinstance(value, float) else int64)


@handles("_local_scalar_dense.default")
def item(node: Node, x: Symbol) -> Symbol:
    """Return the number that a tensor holds, without axes; or, where it is a size, a tensor of this size without elements."""
    single = primitives.reshape(x, ())
    if not node.shape:
        return single.cast(node.dtype)
    size, _ = node.shape
    assert isinstance(size, Dim)
    data_sized.host("empty_rows", single.cast(int64), sizes=(size,))
    return node.broadcast(node.number(False, bool_))
