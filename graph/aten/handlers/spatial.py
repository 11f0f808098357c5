"""Handles convolutions and poolings of (N, C, …): with channels last, which lowering makes of no consequence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dataclass import dataclass
from ....promotion.dtype import float32, int64
from ...dims.dim import Extent, product
from ...functions.building import apply
from ...functions.positions import counting
from ...functions.reductions import argmax, mean, sum_
from ...functions.spatial.convolution import avg_pool, conv
from ...functions.spatial.geometry import Windows
from ...functions.spatial.pooling import pooled_with_positions
from ...functions.spatial.resizing import Axis, Options, resized
from ...functions.spatial.resizing_at_run import SymbolicAxis
from ...functions.spatial.transposed import conv_transpose
from ...symbol import Symbol
from ..node import Node, Number
from ..registry import handles


def _last(x: Symbol) -> Symbol:
    """Return (N, C, …) as (N, …, C)."""
    return apply("permute", x, axes=(0, *range(2, len(x.shape)), 1))


def _first(x: Symbol) -> Symbol:
    """Return (N, …, C) as (N, C, …)."""
    rank = len(x.shape)
    return apply("permute", x, axes=(0, rank - 1, *range(1, rank - 1)))


def per_axis(numbers: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return one number for each axis, where one may stand for all."""
    return tuple(numbers) * rank if len(numbers) == 1 else tuple(numbers)


@handles("convolution.default")
def convolution(
    node: Node, x: Symbol, weight: Symbol, bias: Symbol | None, stride: tuple[int, ...], padding: tuple[int, ...],
    dilation: tuple[int, ...], transposed: bool, output_padding: tuple[int, ...], groups: int,
) -> Symbol:  # fmt: skip
    """Convolve, or convolve backwards; what is added enters before the only rounding."""
    node.static((groups,), "the number of groups of a convolution")
    rank = len(weight.shape) - 2
    alone = len(x.shape) == rank + 1
    if alone:
        x = apply("reshape", x, shape=(1, *x.shape))
    steps, gaps = per_axis(stride, rank), per_axis(dilation, rank)
    pads = [(width, width) for width in per_axis(padding, rank)]
    dtype = x.dtype
    wide = float32 if dtype.is_float and dtype.bits == 16 else dtype
    image, kernel = _last(x.cast(wide)), weight.cast(wide)
    last = apply("permute", kernel, axes=(*range(2, rank + 2), 1, 0))
    added = None if bias is None else bias.cast(wide)
    if transposed:
        result = conv_transpose(image, last, steps, gaps, pads, per_axis(output_padding, rank), groups, added)
    else:
        result = conv(image, last, steps, gaps, pads, groups, added)
    result = _first(result).cast(dtype)
    return node.shaped(result) if alone else result


@handles("max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def max_pool(
    node: Node, x: Symbol, kernel_size: tuple[int, ...], stride: tuple[int, ...] = (), padding: tuple[int, ...] = (0,),
    dilation: tuple[int, ...] = (1,), ceil_mode: bool = False,
) -> tuple[Symbol, Symbol]:  # fmt: skip
    """Return the largest element of each window, and its position in its image; padding never counts."""
    rank = 2 if node.kind == "max_pool2d_with_indices" else 3
    node.require(x.dtype.is_float or x.dtype.bits < 64, f"max_pool of {x.dtype}", "a narrower dtype")
    sizes = per_axis(kernel_size, rank)
    steps, pads, gaps = per_axis(stride, rank) or sizes, per_axis(padding, rank), per_axis(dilation, rank)
    over = Windows(sizes, steps, gaps, pads, pads, tuple(node.shape[-rank:]))
    return pooled_with_positions(x, over, len(x.shape) - rank)


@dataclass(frozen=True, slots=True)
class Ranges:
    """Ranges of positions along an axis, of which sums are taken.

    Attributes:
        begins, ends: int64, of shape (ranges,): the first position of each, and the one behind its last.
        longest: an upper bound of how many positions one has.
    """

    begins: Array | Symbol
    ends: Array | Symbol
    longest: Extent


@dataclass(frozen=True, slots=True)
class Averaging:
    """Windows along one axis whose means are taken.

    Attributes:
        windows: the elements of each window.
        elements: the windows that each element is in, which follow one another.
        counts: by how much the sum of a window is divided, as a factor of the whole divisor.
    """

    windows: Ranges
    elements: Ranges
    counts: Array


def _averaging(starts: Array, stops: Array, extent: int, counts: Array) -> Averaging:
    begins, ends = np.clip(starts, 0, extent), np.clip(stops, 0, extent)
    at = np.arange(extent)
    first, last = np.searchsorted(ends, at, "right"), np.searchsorted(begins, at, "right")
    windows, elements = (Ranges(b, e, int((e - b).max(initial=0))) for b, e in ((begins, ends), (first, last)))
    return Averaging(windows, elements, counts)


def averaging(extent: int, count: int, size: int, step: int, pad: int, pads_count: bool) -> Averaging:
    """Return the windows of an average pooling along one axis; padding counts, but not what `ceil_mode` adds behind it."""
    starts = np.arange(count) * step - pad
    stops = np.minimum(starts + size, extent + pad)
    return _averaging(
        starts, stops, extent, stops - starts if pads_count else np.minimum(stops, extent) - np.maximum(starts, 0)
    )


def adaptive(extent: int, size: int) -> Averaging:
    """Return windows that cover an axis in equal steps."""
    starts = np.arange(size) * extent // max(size, 1)
    stops = -(-(np.arange(1, size + 1) * extent) // max(size, 1))
    return _averaging(starts, stops, extent, stops - starts)


def summed(node: Node, x: Symbol, axis: int, ranges: Ranges) -> Symbol:
    """Return the sums of ranges of positions along an axis. What is outside of a range has no part in it, were it infinite."""
    given = ranges.begins, ranges.ends
    begins, ends = (each if isinstance(each, Symbol) else node.graph.constant(each.astype(np.int64)) for each in given)
    (count,), extent = begins.shape, x.shape[axis]
    if 0 in (extent, ranges.longest, count):
        return node.broadcast(node.number(0, x.dtype), (*x.shape[:axis], count, *x.shape[axis + 1 :]))
    steps = counting(node.graph, ranges.longest)
    at = apply("add", apply("reshape", begins, shape=(count, 1)), steps)
    inside = apply("less", at, apply("reshape", ends, shape=(count, 1)))
    taken = apply("gather", x, at, axis=axis)  # positions behind the axis are clamped
    mask = apply("reshape", inside, shape=(count, ranges.longest, *(1,) * (len(x.shape) - axis - 1)))
    return sum_(apply("where", mask, taken, node.number(0, x.dtype)), axis + 1, dtype=x.dtype)


@handles("avg_pool1d.default", "avg_pool2d.default", "avg_pool3d.default")
def average_pool(
    node: Node, x: Symbol, kernel_size: tuple[int, ...], stride: tuple[int, ...] = (), padding: tuple[int, ...] = (0,),
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Symbol:  # fmt: skip
    """Return the mean of each window, or its sum divided by a given number."""
    rank = int(node.kind[len("avg_pool")])
    sizes = per_axis(kernel_size, rank)
    steps, pads = per_axis(stride, rank) or sizes, per_axis(padding, rank)
    if divisor_override is not None or not x.dtype.is_float:
        return _sums(node, x, rank, sizes, steps, pads, count_include_pad, divisor_override)
    alone = len(x.shape) == rank + 1
    image = apply("reshape", x, shape=(1, *x.shape)) if alone else x
    result = _first(avg_pool(_last(image), sizes, steps, 1, pads, ceil_mode, count_include_pad))
    return node.shaped(result) if alone else result


def _sums(
    node: Node, x: Symbol, rank: int, sizes: Sequence[int], steps: Sequence[int], pads: Sequence[int], pads_count: bool,
    divisor: int | None,
) -> Symbol:  # fmt: skip
    """Return the sums of windows, divided once; quotients of integers are rounded towards zero."""
    wide = float32 if x.dtype.is_float and x.dtype.bits == 16 else x.dtype
    found = x.cast(wide)
    total: Array = np.array(1 if divisor is None else divisor)
    for number in range(rank):
        axis = len(x.shape) - rank + number
        extent, count = node.static((x.shape[axis], node.shape[axis]), "average pooling")
        windows = averaging(extent, count, sizes[number], steps[number], pads[number], pads_count)
        found = summed(node, found, axis, windows.windows)
        if divisor is None:
            total = total[..., None] * windows.counts
    by = node.graph.constant(total.astype(wide.numpy), wide)
    return apply("div" if wide.is_float else "trunc_div", found.cast(wide), by).cast(x.dtype)


def _ends(node: Node, extent: Extent, size: Extent) -> tuple[Symbol, Symbol]:
    """Return where windows that cover an axis in equal steps begin and end, for sizes of which a run decides some."""
    number, whole, parts = counting(node.graph, size), node.operand(extent, int64), node.operand(size, int64)
    after = apply("mul", apply("add", number, node.number(1, int64)), whole)
    ends = apply("negate", apply("floor_div", apply("negate", after), parts))
    return apply("floor_div", apply("mul", number, whole), parts), ends


def _window_positions(node: Node, spatial: Sequence[Extent], sizes: Sequence[Extent]) -> Symbol:
    """Return the positions (windows, elements) in the image; shorter windows have their last element again."""
    found: Symbol | None = None
    for extent, size in zip(spatial, sizes, strict=True):
        starts, ends = _ends(node, extent, size)
        longest = (extent + size - 1) // size + 1
        begin, last = [apply("reshape", each, shape=(size, 1)) for each in (starts, apply("sub", ends, node.number(1, int64)))]
        axis = apply("minimum", apply("add", begin, counting(node.graph, longest)), last)
        if found is None:
            found = axis
            continue
        windows, elements = found.shape
        outer = apply("mul", apply("reshape", found, shape=(windows, 1, elements, 1)), node.operand(extent, int64))
        both = apply("add", outer, apply("reshape", axis, shape=(1, size, 1, longest)))
        found = apply("reshape", both, shape=(windows * size, elements * longest))
    assert found is not None
    return found


@handles("_adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default")
def adaptive_average_pool(node: Node, x: Symbol, output_size: tuple[Extent, ...]) -> Symbol:
    """Return means of windows that cover the image in equal steps; those of static sizes may overlap."""
    rank = len(output_size)
    axes = tuple(range(len(x.shape) - rank, len(x.shape)))
    if all(size == 1 for size in output_size):
        return mean(x, axes, True)
    wide = x.cast(float32) if x.dtype.bits == 16 else x
    for axis in axes:
        extent, size = x.shape[axis], node.shape[axis]
        if isinstance(extent, int) and isinstance(size, int):
            ranges = adaptive(extent, size).windows
        else:
            ranges = Ranges(*_ends(node, extent, size), (extent + size - 1) // size + 1)
        wide = divided(node, summed(node, wide, axis, ranges), axis, ranges)
    return wide.cast(x.dtype)


def divided(node: Node, x: Symbol, axis: int, ranges: Ranges) -> Symbol:
    """Divide an axis by how many positions ranges have."""
    counts = apply("sub", ranges.ends, ranges.begins) if isinstance(ranges.ends, Symbol) else ranges.ends - ranges.begins
    return divided_by(node, x, axis, counts)


def divided_by(node: Node, x: Symbol, axis: int, counts: Array | Symbol) -> Symbol:
    """Divide an axis by counts, of which those below 1 are taken for 1."""
    if isinstance(counts, Symbol):
        by = apply("maximum", counts, 1).cast(x.dtype)
    else:
        by = node.graph.constant(np.maximum(counts, 1).astype(x.dtype.numpy), x.dtype)
    return apply("div", x, apply("reshape", by, shape=(*by.shape, *(1,) * (len(x.shape) - axis - 1))))


@handles("adaptive_max_pool2d.default", "adaptive_max_pool3d.default")
def adaptive_max_pool(node: Node, x: Symbol, output_size: tuple[Extent, ...]) -> tuple[Symbol, Symbol]:
    """Return the largest element of windows that cover the image in equal steps, and its position in its image."""
    rank = int(node.kind[len("adaptive_max_pool")])
    spatial, sizes = [tuple([each for each in shape[-rank:] if isinstance(each, int)]) for shape in (x.shape, node.shape)]
    if len(spatial) < rank or len(sizes) < rank:
        return _largest_of(node, x, rank, _window_positions(node, x.shape[-rank:], node.shape[-rank:]))
    at = np.zeros((1, 1), np.int64)
    for extent, size in zip(spatial, sizes, strict=True):
        windows = adaptive(extent, size)
        starts, counts = np.asarray(windows.windows.begins), windows.counts
        within = np.minimum(np.arange(counts.max(initial=0)), counts[:, None] - 1)  # shorter ones have their last element again
        axis = starts[:, None] + within
        at = (at[:, None, :, None] * extent + axis[None, :, None, :]).reshape(at.shape[0] * size, -1)
    if at.size == 0 or 0 in x.shape:
        empty = [node.broadcast(node.number(0, node.result(n).dtype), node.result(n).shape) for n in (0, 1)]
        return empty[0], empty[1]
    return _largest_of(node, x, rank, node.graph.constant(at))


def _largest_of(node: Node, x: Symbol, rank: int, table: Symbol) -> tuple[Symbol, Symbol]:
    """Return the largest elements at the positions (windows, elements) of a table, and the positions of these."""
    before, spatial = x.shape[:-rank], x.shape[-rank:]
    windows = apply("gather", apply("reshape", x, shape=(*before, product(spatial))), table, axis=len(before))
    best = argmax(windows, len(windows.shape) - 1, True)
    values = apply("take_along_axis", windows, best, axis=len(windows.shape) - 1)
    locations = apply("take_along_axis", node.broadcast(table, windows.shape), best, axis=len(windows.shape) - 1)
    return node.shaped(values), node.shaped(locations, node.result(1).shape)


@handles("upsample_nearest2d.vec")
def upsample_nearest(
    node: Node, x: Symbol, output_size: tuple[Extent, ...] | None, scale_factors: tuple[Number, ...] | None
) -> Symbol:
    """Take the element that each one's position falls on, along both axes; positions are rounded in float32, as in ATen."""
    found = x
    for number in range(2):
        axis = len(x.shape) - 2 + number
        factor = scale_factors[number] if scale_factors else None
        found = _nearest(node, found, axis, node.shape[axis], factor)
    return node.shaped(found)


def _nearest(node: Node, x: Symbol, axis: int, size: Extent, factor: Number | None) -> Symbol:
    """Resize one axis. ATen looks at the factor unless the axis keeps its size or gets twice as long."""
    extent = x.shape[axis]
    if size == extent:
        return x
    whole = 2 if size == extent * 2 else None
    at: Symbol | None = None
    if whole is None and isinstance(extent, int) and isinstance(size, int):
        step = np.float32(1 / factor) if factor else np.float32(extent) / np.float32(size)
        positions = np.minimum((np.arange(size).astype(np.float32) * step).astype(np.int64), extent - 1)
        if size % extent == 0 and np.array_equal(positions, np.arange(size) // (size // extent)):
            whole = size // extent
        at = node.graph.constant(positions)
    elif whole is None:
        ratio = node.number(1 / factor, float32) if factor else apply(
            "div", node.operand(extent, int64).cast(float32), node.operand(size, int64).cast(float32)
        )  # fmt: skip
        positions_at_run = apply("floor", apply("mul", counting(node.graph, size).cast(float32), ratio)).cast(int64)
        at = apply("minimum", positions_at_run, node.operand(extent - 1, int64))
    if whole is None:
        assert at is not None
        return apply("gather", x, at, axis=axis)
    before, behind = x.shape[:axis], x.shape[axis + 1 :]
    apart = apply("reshape", x, shape=(*before, extent, 1, *behind))
    return apply("reshape", node.broadcast(apart, (*before, extent, whole, *behind)), shape=(*before, size, *behind))


@handles("upsample_bilinear2d.vec", "upsample_bilinear2d.default")
def upsample_bilinear(
    node: Node, x: Symbol, output_size: tuple[Extent, ...] | None, align_corners: bool, *scales: object
) -> Symbol:
    """Interpolate between the nearest elements, along one axis after the other."""
    given = scales[0] if node.call.op.endswith("vec") and scales else scales
    factors = given if isinstance(given, tuple) and len(given) == 2 else (None, None)
    axes: list[Axis | SymbolicAxis] = []
    for axis, factor in zip((len(x.shape) - 2, len(x.shape) - 1), factors, strict=True):
        extent, size = x.shape[axis], node.shape[axis]
        scale = float(factor) if isinstance(factor, (int, float)) and factor > 0 and not align_corners else None
        if isinstance(extent, int) and isinstance(size, int):
            axes.append(Axis(axis, extent, size, scale or size / extent, float(size)))
        else:
            axes.append(SymbolicAxis(axis, extent, size, scale))
    coordinates = "align_corners" if align_corners else "half_pixel"
    return resized(x, Options("linear", coordinates, coordinate_type=np.float64), axes)
