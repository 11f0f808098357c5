"""Handles views and copies of elements: the shapes of results are those that PyTorch states, so that sizes need no guess."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dtype import int64
from ...dims.dim import Dim, Extent, lower_bound, maximum, minimum, product
from ...functions.building import apply
from ...functions.joining import concat as concatenated
from ...functions.joining import roll as rolled
from ...functions.joining import stack as stacked
from ...functions.positions import counting
from ...symbol import Symbol
from ..node import Node, Number
from ..registry import handles

MAX_POSITIONS = 1 << 24
"""Up to this many positions of elements are a constant."""


@handles("view.default", "_unsafe_view.default", "reshape.default", "flatten.using_ints", "unflatten.int", "squeeze.default",
         "squeeze.dim", "squeeze.dims", "unsqueeze.default", "_reshape_copy.default", "view_copy.default",
         "squeeze_copy.dims", "unsqueeze_copy.default")  # fmt: skip
def reshape(node: Node, x: Symbol, *arguments: object) -> Symbol:
    """Return the elements in row-major order under the declared shape: an error never, whatever the strides were."""
    return node.shaped(x)


@handles("expand.default", "expand_copy.default", "broadcast_to.default")
def expand(node: Node, x: Symbol, size: tuple[Extent, ...], implicit: bool = False) -> Symbol:
    """Repeat a tensor along axes."""
    return node.broadcast(x)


@handles("permute.default", "permute_copy.default")
def permute(node: Node, x: Symbol, dims: tuple[int, ...]) -> Symbol:
    """Reorder axes."""
    axes = tuple([node.axis(number, len(x.shape)) for number in dims])
    return x if axes == tuple(range(len(axes))) else apply("permute", x, axes=axes)


@handles("transpose.int", "t.default", "numpy_T.default", "transpose_copy.int")
def transpose(node: Node, x: Symbol, dim0: int = 0, dim1: int = 1) -> Symbol:
    """Swap two axes."""
    if len(x.shape) < 2:
        return x
    order = list(range(len(x.shape)))
    first, second = node.axis(dim0, len(order)), node.axis(dim1, len(order))
    order[first], order[second] = order[second], order[first]
    return permute(node, x, tuple(order))


def cut(x: Symbol, axis: int, start: Extent, stop: Extent, step: int = 1) -> Symbol:
    """Return a slice of one axis, within its size."""
    extents = x.shape
    if start == 0 and stop == extents[axis] and step == 1:
        return x
    starts = tuple([start if a == axis else 0 for a in range(len(extents))])
    stops = tuple([stop if a == axis else extent for a, extent in enumerate(extents)])
    steps = tuple([step if a == axis else 1 for a in range(len(extents))])
    return apply("slice", x, starts=starts, stops=stops, steps=steps)


_OPEN = 2**62
"""Ends of slices from which on they stand for the end of an axis."""


def _counts_from_the_end(x: Symbol, position: Dim) -> bool:
    """Return whether a symbolic position is negative, by bounds or by what the model was exported for; sizes that are symbols
    are never 0."""
    least = lower_bound(-position)
    is_stated = x.graph.shape_checks.decide(minimum(-position - 1, 0), 0) is True
    return is_stated or (least is not None and least >= 0)


def bounds(
    x: Symbol, axis: int, start: Extent | None, length: Extent, step: int, end: Extent | None = 0
) -> tuple[Extent, Extent]:
    """Return the first position of a slice and the one after its last, of a declared length.

    end: where the model ends it, which is looked at for whether that is the end of the axis.
    """
    extent = x.shape[axis]
    first: Extent = 0 if start is None else start
    is_from_the_end = isinstance(first, Dim) or (first < 0 and isinstance(extent, Dim))
    if is_from_the_end and step == 1 and (end is None or end == extent or (isinstance(end, int) and end >= _OPEN)):
        first = extent - length
    elif is_from_the_end and step == 1 and isinstance(end, int) and end < 0:
        first = extent + end - length
    elif isinstance(first, Dim):
        if _counts_from_the_end(x, first):
            first = maximum(extent + first, 0)
    elif isinstance(first, int):
        if first < 0:
            first = max(first + extent, 0) if isinstance(extent, int) else extent + first
        elif isinstance(extent, int):
            first = min(first, extent)
    if length == 0:
        return 0, 0
    return first, first + (length - 1) * step + 1


@handles("slice.Tensor", "slice_copy.Tensor")
def slice_(
    node: Node, x: Symbol, dim: int = 0, start: Extent | None = None, end: Extent | None = None, step: int = 1
) -> Symbol:
    """Take every `step`-th position of an axis, from `start` on, as many as PyTorch states."""
    axis = node.axis(dim, len(x.shape))
    return cut(x, axis, *bounds(x, axis, start, node.shape[axis], step, end), step)


@handles("select.int", "select_copy.int")
def select(node: Node, x: Symbol, dim: int, index: Extent) -> Symbol:
    """Take one position of an axis, which disappears."""
    axis = node.axis(dim, len(x.shape))
    at = _position(x, axis, index)
    return node.shaped(cut(x, axis, at, at + 1))


def _position(x: Symbol, axis: int, index: Extent) -> Extent:
    """Return a position of an axis, counted from its beginning."""
    is_negative = index < 0 if isinstance(index, int) else _counts_from_the_end(x, index)
    return x.shape[axis] + index if is_negative else index


@handles("narrow.default", "narrow_copy.default")
def narrow(node: Node, x: Symbol, dim: int, start: Extent, length: Extent) -> Symbol:
    """Take `length` positions of an axis."""
    axis = node.axis(dim, len(x.shape))
    return cut(x, axis, *bounds(x, axis, start, length, 1))


def inserted(x: Symbol, source: Symbol, axis: int, start: Extent, stop: Extent) -> Symbol:
    """Return a tensor with another one in place of the positions from `start` to `stop` of an axis."""
    extent = x.shape[axis]
    parts = [cut(x, axis, 0, start), source, cut(x, axis, stop, extent)]
    kept = [part for part in parts if part.shape[axis] != 0]
    return concatenated(kept, axis) if kept else x


@handles("slice_scatter.default")
def slice_scatter(
    node: Node, x: Symbol, src: Symbol, dim: int = 0, start: Extent | None = None, end: Extent | None = None, step: int = 1
) -> Symbol:
    """Return a tensor with a slice of it replaced."""
    axis = node.axis(dim, len(x.shape))
    source = src.cast(x.dtype)
    if step == 1:
        return inserted(x, source, axis, *bounds(x, axis, start, source.shape[axis], 1, end))
    (extent, length) = node.static((x.shape[axis], source.shape[axis]), "the axis of a slice with steps")
    first, _ = node.static(bounds(x, axis, start, length, step), "the axis of a slice with steps")
    result = x
    for position in range(length):
        here = first + position * step
        result = inserted(result, cut(source, axis, position, position + 1), axis, here, here + 1)
    return result if extent else x


@handles("select_scatter.default")
def select_scatter(node: Node, x: Symbol, src: Symbol, dim: int, index: Extent) -> Symbol:
    """Return a tensor with one position of an axis replaced."""
    axis = node.axis(dim, len(x.shape))
    at = _position(x, axis, index)
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return inserted(x, node.shaped(src.cast(x.dtype), shape), axis, at, at + 1)


@handles("cat.default", "concat.default")
def cat(node: Node, tensors: tuple[Symbol, ...], dim: int = 0) -> Symbol:
    """Concatenate tensors; empty ones with one axis count as nothing."""
    rank = len(node.shape)
    kept = [x for x in tensors if len(x.shape) == rank]
    return concatenated(node.operands(*kept, dtype=node.dtype), node.axis(dim, rank))


@handles("stack.default")
def stack(node: Node, tensors: tuple[Symbol, ...], dim: int = 0) -> Symbol:
    """Stack tensors along a new axis."""
    return stacked(node.operands(*tensors, dtype=node.dtype), node.axis(dim, len(node.shape)))


@handles("split.Tensor", "split_with_sizes.default", "chunk.default", "split.sizes", "split_with_sizes_copy.default",
         "split_copy.Tensor", "tensor_split.sections", "unsafe_split.Tensor")  # fmt: skip
def split(node: Node, x: Symbol, pieces: object, dim: int = 0) -> tuple[Symbol, ...]:
    """Cut an axis into pieces of the declared sizes."""
    axis = node.axis(dim, len(x.shape))
    parts: list[Symbol] = []
    start: Extent = 0
    for position in range(len(node.call.results)):
        stop = start + node.result(position).shape[axis]
        parts.append(cut(x, axis, start, stop))
        start = stop
    return tuple(parts)


@handles("unbind.int", "unbind_copy.int")
def unbind(node: Node, x: Symbol, dim: int = 0) -> tuple[Symbol, ...]:
    """Take an axis apart."""
    axis = node.axis(dim, len(x.shape))
    return tuple([
        node.shaped(cut(x, axis, position, position + 1), node.result(position).shape)
        for position in range(len(node.call.results))
    ])  # fmt: skip


@handles("flip.default")
def flip(node: Node, x: Symbol, dims: tuple[int, ...]) -> Symbol:
    """Reverse axes."""
    axes = tuple(sorted({node.axis(number, len(x.shape)) for number in dims})) if x.shape else ()
    return apply("flip", x, axes=axes) if axes else x


@handles("roll.default")
def roll(node: Node, x: Symbol, shifts: Sequence[int], dims: Sequence[int] = ()) -> Symbol:
    """Shift elements along axes, those beyond the end to the beginning."""
    if not dims:
        return node.shaped(rolled(node.shaped(x, (product(x.shape),)), shifts[0], 0))
    result = x
    for shift, axis in zip(shifts, dims, strict=True):
        result = rolled(result, shift, node.axis(axis, len(x.shape)))
    return result


@handles("repeat.default", "tile.default")
def repeat(node: Node, x: Symbol, repeats: tuple[Extent, ...]) -> Symbol:
    """Put copies of a tensor side by side."""
    shape = (*(1,) * (len(node.shape) - len(x.shape)), *x.shape)
    counts = (*(1,) * (len(node.shape) - len(repeats)), *repeats)
    wide = node.shaped(x, tuple([size for extent in shape for size in (1, extent)]))
    target = tuple([size for count, extent in zip(counts, shape, strict=True) for size in (count, extent)])
    return node.shaped(node.broadcast(wide, target))


@handles("constant_pad_nd.default")
def constant_pad_nd(node: Node, x: Symbol, pad: tuple[Extent, ...], value: Number = 0) -> Symbol:
    """Put a number around the last axes, of which the last comes first; negative widths cut."""
    rank = len(x.shape)
    result = x
    low: list[Extent] = [0] * rank
    high: list[Extent] = [0] * rank
    for position in range(len(pad) // 2):
        axis = rank - 1 - position
        before, after = pad[2 * position], pad[2 * position + 1]
        first = -before if isinstance(before, int) and before < 0 else 0
        last = -after if isinstance(after, int) and after < 0 else 0
        result = cut(result, axis, first, result.shape[axis] - last)
        low[axis], high[axis] = before + first, after + last
    if all(width == 0 for width in (*low, *high)):
        return result
    filler = bool(value) if x.dtype.is_bool else float(value) if x.dtype.is_float else int(value)
    return apply("pad", result, low=tuple(low), high=tuple(high), mode="constant", value=filler)


@handles("unfold.default")
def unfold(node: Node, x: Symbol, dimension: int, size: int, step: int) -> Symbol:
    """Return all windows of an axis, in a new last axis."""
    if not x.shape:
        return node.shaped(x)
    axis = node.axis(dimension, len(x.shape))
    return apply(
        "windows", x, axes=(axis,), counts=(node.shape[axis],), sizes=(size,), strides=(step,), dilations=(1,)
    )


@handles("diagonal.default", "diagonal_copy.default")
def diagonal(node: Node, x: Symbol, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Symbol:
    """Return diagonals of two axes as a new last axis: every (columns + 1)-th element of these axes as one."""
    rank = len(x.shape)
    rows_axis, columns_axis = node.axis(dim1, rank), node.axis(dim2, rank)
    rest = tuple([axis for axis in range(rank) if axis not in (rows_axis, columns_axis)])
    moved = apply("permute", x, axes=(*rest, rows_axis, columns_axis))
    rows, columns = moved.shape[-2:]
    length = node.shape[-1]
    flat = node.shaped(moved, (*moved.shape[:-2], rows * columns))
    first = offset if offset >= 0 else -offset * columns
    if not isinstance(length, int) or not isinstance(columns, int):
        step, begin = [node.operand(each, int64) for each in (columns + 1, first)]
        at = apply("add", apply("mul", counting(node.graph, length), step), begin)
        return apply("gather", flat, at, axis=rank - 2)
    stop = first + (length - 1) * (columns + 1) + 1
    return cut(flat, rank - 2, first, stop, columns + 1) if length else cut(flat, rank - 2, 0, 0)


@handles("pixel_shuffle.default")
def pixel_shuffle(node: Node, x: Symbol, upscale_factor: int) -> Symbol:
    """Move groups of channels into space."""
    *batch, channels, height, width = x.shape
    factor, rank = upscale_factor, len(batch)
    apart = node.shaped(x, (*batch, channels // (factor * factor), factor, factor, height, width))
    order = tuple([*range(rank), *(rank + axis for axis in (0, 3, 1, 4, 2))])
    return node.shaped(apply("permute", apart, axes=order))


@handles("as_strided.default", "as_strided_copy.default")
def as_strided(
    node: Node, x: Symbol, size: tuple[Extent, ...], stride: tuple[Extent, ...], storage_offset: Extent | None = None,
    order: tuple[int, ...] | None = None,
) -> Symbol:  # fmt: skip
    """Return a view by strides of a tensor that is all of its storage: else it is refused before it comes here. It is a slice
    if its elements lie side by side, else a read at fixed positions.

    order: the axes from the outermost to the innermost in memory, if these are not in order.
    """
    offset: Extent = storage_offset or 0
    x = x if order is None else apply("permute", x, axes=order)
    count = product(x.shape)
    flat = node.shaped(x, (count,))
    elements: Extent = 1
    dense = True
    for extent, step in zip(reversed(size), reversed(stride), strict=True):
        dense = dense and (extent == 1 or step == elements)
        elements = elements * extent
    if dense:
        _require_inside(node, offset + elements, count)
        return node.shaped(cut(flat, 0, offset, offset + elements))
    positions = strided_positions(node, size, stride, offset)
    if not positions.size:
        return node.broadcast(node.number(0, x.dtype))
    _require_inside(node, int(positions.max()) + 1, count)
    return apply("gather", flat, node.graph.constant(positions), axis=0)


def _require_inside(node: Node, stop: Extent, count: Extent) -> None:
    is_beyond = isinstance(stop, int) and isinstance(count, int) and stop > count
    node.require(not is_beyond, f"as_strided to {stop} elements of a tensor with {count}", "a tensor that has them")


def strided_positions(node: Node, size: Sequence[Extent], stride: Sequence[Extent], storage_offset: Extent | None) -> Array:
    """Return the positions in a storage of the elements of a view by strides, which are numbers."""
    sizes, steps = node.static(size, "as_strided"), node.static(stride, "the strides of as_strided")
    (first,) = node.static((storage_offset or 0,), "the offset of as_strided")
    node.require(math.prod(sizes) <= MAX_POSITIONS, f"as_strided to {math.prod(sizes)} elements", "slices and transposes")
    positions = np.full(sizes, first, np.int64)
    for axis, step in enumerate(steps):
        positions += (np.arange(sizes[axis]) * step).reshape(-1, *(1,) * (len(sizes) - 1 - axis))
    return positions
