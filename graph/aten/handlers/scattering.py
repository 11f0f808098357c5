"""Handles writes at positions that are data. Sums are the same in every run."""

from __future__ import annotations

import math

import numpy as np

from ....promotion.dtype import DType, bool_, float32, int64
from ...construction import primitives
from ...dims.dim import Extent, product
from ...functions import reductions
from ...functions.building import apply
from ...functions.ordered import scattering
from ...symbol import Symbol
from ..node import Node, Number
from ..registry import handles
from .indexing import Indexed, indexed, is_mask
from .shaping import cut, strided_positions

_REDUCTIONS = {"add": "add", "multiply": "mul", "sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "add"}
"""ATen's names of reductions → those of `scatter`."""


def written(x: Symbol, positions: Symbol, values: Symbol, axis: int, reduction: str = "none") -> Symbol:
    """Return a tensor with values written along an axis; 16-bit floats are summed in float32, and bools as integers."""
    if reduction == "none" or (x.dtype is not bool_ and x.dtype.bits > 16):
        return scattering.scatter(x, values, positions, axis, reduction)
    wide = float32 if x.dtype.is_float else int64
    found = scattering.scatter(x.cast(wide), values.cast(wide), positions, axis, reduction)
    return found.cast(x.dtype)


def _with_axis(x: Symbol) -> Symbol:
    return x if x.shape else primitives.reshape(x, (1,))


def _part(x: Symbol, shape: tuple[Extent, ...]) -> Symbol:
    """Return the first elements of a tensor along each axis."""
    for axis, extent in enumerate(shape):
        x = cut(x, axis, 0, extent)
    return x


def _scattered(
    node: Node, x: Symbol, dim: int, index: Symbol, src: Symbol | Number, reduction: str = "none", *, mean: bool = False,
    keeps: bool = True,
) -> Symbol:  # fmt: skip
    """Write along an axis. keeps: whether what was there takes part in a reduction."""
    if 0 in index.shape:
        return x
    data, at = _with_axis(x), _with_axis(index)
    axis = node.axis(dim, len(data.shape))
    if isinstance(src, Symbol):
        values = _part(_with_axis(src).cast(x.dtype), at.shape)
    else:
        values = node.broadcast(node.number(src, x.dtype), at.shape)
    if not keeps:
        start = node.number(_neutral(reduction, x.dtype), x.dtype)
        data = written(data, at, node.broadcast(start, at.shape), axis)
    found = written(data, at, values, axis, reduction)
    if mean:
        ones = node.broadcast(node.number(1, int64), at.shape)
        counts = written(node.broadcast(node.number(int(keeps), int64), data.shape), at, ones, axis, "add")
        counts = counts if keeps else apply("maximum", counts, node.number(1, int64))
        found = _divided(found, counts)
    return node.shaped(found)


def _divided(x: Symbol, counts: Symbol) -> Symbol:
    """Return sums divided by counts, those of integers rounded down."""
    if not x.dtype.is_float:
        return apply("floor_div", x.cast(int64), counts).cast(x.dtype)
    wide = x.cast(float32) if x.dtype.bits == 16 else x
    return apply("div", wide, counts.cast(wide.dtype)).cast(x.dtype)


def _neutral(reduction: str, dtype: DType) -> Number:
    """Return what a reduction begins with."""
    if reduction in ("add", "mul"):
        return int(reduction == "mul")
    if dtype is bool_:
        return reduction == "min"
    if dtype.is_float:
        return math.inf if reduction == "min" else -math.inf
    return int(dtype.max_value if reduction == "min" else dtype.min_value)


@handles("scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce")
def scatter(node: Node, x: Symbol, dim: int, index: Symbol, src: Symbol | Number, reduce: str = "none") -> Symbol:
    """Write elements, or one number, at positions of an axis; or add them there, or multiply by them."""
    return _scattered(node, x, dim, index, src, _REDUCTIONS.get(reduce, "none"))


@handles("scatter_add.default")
def scatter_add(node: Node, x: Symbol, dim: int, index: Symbol, src: Symbol) -> Symbol:
    """Add elements at positions of an axis."""
    return _scattered(node, x, dim, index, src, "add")


@handles("scatter_reduce.two")
def scatter_reduce(
    node: Node, x: Symbol, dim: int, index: Symbol, src: Symbol, reduce: str, include_self: bool = True
) -> Symbol:
    """Combine elements at positions of an axis, with what was there or without."""
    return _scattered(node, x, dim, index, src, _REDUCTIONS[reduce], mean=reduce == "mean", keeps=include_self)


# -- slices ------------------------------------------------------------------------------------------------------------


def _rows(x: Symbol, axis: int, index: Symbol, shape: tuple[Extent, ...]) -> Symbol:
    """Return positions of slices of an axis, one for each element of the slices."""
    count = index.shape[0]
    return primitives.broadcast_to(primitives.reshape(index, (count, *(1,) * (len(x.shape) - 1 - axis))), shape)


def _slices(
    node: Node, x: Symbol, dim: int, index: Symbol, source: Symbol, reduction: str = "none", *, mean: bool = False,
    keeps: bool = True,
) -> Symbol:  # fmt: skip
    data, at = _with_axis(x), _with_axis(index)
    axis = node.axis(dim, len(data.shape))
    shape = (*data.shape[:axis], at.shape[0], *data.shape[axis + 1 :])
    values = source.cast(x.dtype)
    values = node.broadcast(values, shape) if not values.shape else node.shaped(values, shape)
    return _scattered(node, x, axis, _rows(data, axis, at, shape), values, reduction, mean=mean, keeps=keeps)


@handles("index_copy.default")
def index_copy(node: Node, x: Symbol, dim: int, index: Symbol, source: Symbol) -> Symbol:
    """Replace slices of an axis."""
    return _slices(node, x, dim, index, source)


@handles("index_add.default")
def index_add(node: Node, x: Symbol, dim: int, index: Symbol, source: Symbol, alpha: Number = 1) -> Symbol:
    """Add slices, times a number, to those of an axis."""
    wide = source.cast(float32) if source.dtype.is_float and source.dtype.bits == 16 else source
    scaled = wide if alpha == 1 else apply("mul", wide, node.number(alpha, wide.dtype))
    return _slices(node, x, dim, index, scaled.cast(x.dtype), "add")


@handles("index_reduce.default")
def index_reduce(
    node: Node, x: Symbol, dim: int, index: Symbol, source: Symbol, reduce: str, include_self: bool = True
) -> Symbol:
    """Combine slices with those of an axis, or put the former's combinations in their place."""
    return _slices(node, x, dim, index, source, _REDUCTIONS[reduce], mean=reduce == "mean", keeps=include_self)


@handles("diagonal_scatter.default")
def diagonal_scatter(node: Node, x: Symbol, src: Symbol, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Symbol:
    """Return a tensor with diagonals of two axes replaced."""
    shape = node.static(x.shape, "a tensor whose diagonal is replaced")
    at = np.arange(math.prod(shape)).reshape(shape).diagonal(offset, dim1, dim2).ravel()
    flat = primitives.reshape(x, (math.prod(shape),))
    values = primitives.reshape(node.broadcast(src.cast(x.dtype), src.shape), (at.size,))
    return node.shaped(written(flat, node.graph.constant(at.astype(np.int64)), values, 0)) if at.size else x


@handles("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(node: Node, x: Symbol, dim: int, index: Symbol, value: Symbol | Number) -> Symbol:
    """Fill slices of an axis with one number."""
    number = value.cast(x.dtype) if isinstance(value, Symbol) else node.number(value, x.dtype)
    return _slices(node, x, dim, index, primitives.reshape(number, ()))


# -- several axes at once ----------------------------------------------------------------------------------------------


@handles("index_put.default", "_unsafe_index_put.default", "_index_put_impl.default")
def index_put(
    node: Node, x: Symbol, indices: tuple[Symbol | None, ...], values: Symbol, accumulate: bool = False, unsafe: bool = False
) -> Symbol:
    """Replace elements at positions of several axes, or add to them; a mask is true where its elements are replaced."""
    given = [(axis, each) for axis, each in enumerate(indices) if each is not None]
    value = values.cast(x.dtype)
    if not given:
        return apply("add", x, node.broadcast(value)) if accumulate else node.broadcast(value)
    if any(is_mask(each) for _, each in given):
        if len(given) > 1:
            node.unsupported("writing by a mask and positions", "torch.where, or masks alone")
        return _by_mask(node, x, *given[0], value, accumulate)
    selected = indexed(node, x, given)
    count = product(selected.shape)
    shape = (*selected.before, *selected.shape, *selected.after)
    before, after = product(selected.before), product(selected.after)
    source = primitives.reshape(primitives.broadcast_to(value, shape), (before, count, after))
    at = primitives.broadcast_to(primitives.reshape(selected.positions, (1, count, 1)), (before, count, after))
    table = primitives.reshape(selected.moved, (before, selected.extent, after))
    if 0 in (before, count, after):
        return x
    return _moved_back(written(table, at, source, 1, "add" if accumulate else "none"), selected)


def _moved_back(x: Symbol, selected: Indexed) -> Symbol:
    found = primitives.reshape(x, selected.moved.shape)
    back = tuple([selected.order.index(axis) for axis in range(len(selected.order))])
    return found if back == tuple(range(len(back))) else apply("permute", found, axes=back)


def _by_mask(node: Node, x: Symbol, axis: int, mask: Symbol, values: Symbol, accumulate: bool) -> Symbol:
    """Replace slices where a mask of the axes from one on holds: by one, or by the next of several."""
    covered = len(mask.shape)
    rest = x.shape[axis + covered :]
    rank = len(x.shape) - covered + 1
    mask = mask if mask.dtype is bool_ else apply("not_equal", mask, node.number(0, mask.dtype))
    wide = primitives.reshape(mask, (*mask.shape, *(1,) * len(rest)))
    if len(values.shape) == rank and values.shape[axis] != 1:
        flat = primitives.reshape(mask, (product(mask.shape),))
        number = apply("sub", reductions.cumsum(flat, 0, dtype=int64), node.number(1, int64))
        at = apply("maximum", number, node.number(0, int64))
        if values.shape[axis] == 0:
            return x
        values = apply("gather", values, at, axis=axis)
        values = primitives.reshape(values, (*values.shape[:axis], *mask.shape, *values.shape[axis + 1 :]))
    elif len(values.shape) >= 1 + len(rest):
        first = len(values.shape) - len(rest) - 1
        ones = (1,) * (covered - 1)
        values = primitives.reshape(values, (*values.shape[:first], *ones, *values.shape[first:]))
    value = node.broadcast(values, x.shape)
    return apply("where", wide, apply("add", x, value) if accumulate else value, x)


@handles("masked_scatter.default")
def masked_scatter(node: Node, x: Symbol, mask: Symbol, source: Symbol) -> Symbol:
    """Replace elements where a mask holds by the next ones of a source."""
    wide = node.broadcast(x)
    holds = node.broadcast(mask)
    flat = primitives.reshape(holds, (product(holds.shape),))
    number = apply("sub", reductions.cumsum(flat, 0, dtype=int64), node.number(1, int64))
    elements = primitives.reshape(source, (product(source.shape),))
    if elements.shape == (0,):
        return wide
    at = apply("maximum", number, node.number(0, int64))
    value = primitives.reshape(apply("gather", elements, at, axis=0), holds.shape)
    return apply("where", holds, value, wide)


@handles("put.default")
def put(node: Node, x: Symbol, index: Symbol, source: Symbol, accumulate: bool = False) -> Symbol:
    """Replace elements at positions in row-major order, or add to them."""
    count = product(index.shape)
    if count == 0:
        return x
    flat = primitives.reshape(x, (product(x.shape),))
    at, values = (primitives.reshape(each, (count,)) for each in (index, source.cast(x.dtype)))
    return node.shaped(written(flat, at.cast(int64), values, 0, "add" if accumulate else "none"))


@handles("as_strided_scatter.default")
def as_strided_scatter(
    node: Node, x: Symbol, src: Symbol, size: tuple[Extent, ...], stride: tuple[Extent, ...],
    storage_offset: Extent | None = None,
) -> Symbol:  # fmt: skip
    """Replace the elements of a view by strides, of a tensor in row-major order from the beginning of its storage."""
    at = strided_positions(node, size, stride, storage_offset)
    if not at.size:
        return x
    flat = primitives.reshape(x, (product(x.shape),))
    positions = node.graph.constant(at.reshape(-1))
    return node.shaped(written(flat, positions, primitives.reshape(src.cast(x.dtype), (at.size,)), 0))
