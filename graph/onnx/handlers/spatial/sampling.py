"""Handles reading images between their pixels, at positions that are data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence as Ordered

import numpy as np

from .....promotion.dtype import float32, float64, int64
from ....dims.dim import Extent
from ....functions.building import apply
from ....functions.joining import concat
from ....functions.linalg import matmul
from ....functions.reductions import max_, mean
from ....symbol import Symbol
from ...node import Node, Result
from ...registry import handles
from ..normalization import per_channel
from .windows import Windows, kernel_span, padding, per_axis


def _static(node: Node, sizes: Ordered[Extent], what: str) -> list[int]:
    found = node.static_sizes(sizes, what)
    node.require(all(size > 0 for size in found), f"{what} of no size")
    return list(found)


def _clamped(x: Symbol, high: float) -> Symbol:
    return apply("minimum", apply("maximum", x, 0.0), float(high))


def pixels(image: Symbol, sizes: Ordered[int], positions: Ordered[Symbol]) -> Symbol:
    """Return the pixels (N, C, L) of an image (N, C, P) at whole positions (N, L) along each axis, clamped into range."""
    linear: Symbol | None = None
    for size, position in zip(sizes, positions, strict=True):
        index = _clamped(position, size - 1).cast(int64)
        linear = index if linear is None else apply("add", apply("mul", linear, size), index)
    assert linear is not None
    return apply("take_along_axis", image, linear.reshape((linear.shape[0], 1, linear.shape[1])), axis=2)


def _inside(sizes: Ordered[int], positions: Ordered[Symbol]) -> Symbol:
    """Return whether positions lie inside the image."""
    found: Symbol | None = None
    for size, position in zip(sizes, positions, strict=True):
        here = apply("logical_and", apply("greater_equal", position, 0.0), apply("less_equal", position, float(size - 1)))
        found = here if found is None else apply("logical_and", found, here)
    assert found is not None
    return found


def weighted(image: Symbol, sizes: Ordered[int], taps: Ordered[Ordered[tuple[Symbol, Symbol]]], zeros: bool) -> Symbol:
    """Return the sum over all combinations of taps, one (position, weight) of each axis; with `zeros`, nothing lies outside."""
    total: Symbol | None = None
    for combination in itertools.product(*taps):
        positions = [position for position, _ in combination]
        weight = combination[0][1]
        for _, other in combination[1:]:
            weight = apply("mul", weight, other)
        if zeros:
            weight = apply("where", _inside(sizes, positions), weight, 0.0)
        wide = weight.reshape((weight.shape[0], 1, weight.shape[1])).cast(image.dtype)
        value = pixels(image, sizes, positions)
        # a pixel that does not count may be infinite
        term = apply("where", apply("equal", wide, 0.0), 0.0, apply("mul", value, wide)) if zeros else apply("mul", value, wide)
        total = term if total is None else apply("add", total, term)
    assert total is not None
    return total


def linear_taps(where: Symbol) -> list[tuple[Symbol, Symbol]]:
    """Return the two neighbours of a coordinate with their weights."""
    low = apply("floor", where)
    part = apply("sub", where, low)
    return [(low, apply("sub", 1.0, part)), (apply("add", low, 1.0), part)]


def _cubic_taps(where: Symbol) -> list[tuple[Symbol, Symbol]]:
    a = -0.75
    low = apply("floor", where)
    t = apply("sub", where, low)
    taps = []
    for offset in (-1, 0, 1, 2):
        distance = apply("abs", apply("sub", t, float(offset)))
        if offset in (0, 1):  # ((a + 2) d - (a + 3)) d² + 1
            inner = apply("sub", apply("mul", distance, a + 2), a + 3)
            weight = apply("add", apply("mul", apply("mul", inner, distance), distance), 1.0)
        else:  # ((a d - 5a) d + 8a) d - 4a
            inner = apply("add", apply("mul", apply("sub", apply("mul", distance, a), 5 * a), distance), 8 * a)
            weight = apply("sub", apply("mul", inner, distance), 4 * a)
        taps.append((apply("add", low, float(offset)), weight))
    return taps


def reflected(where: Symbol, low: float, high: float) -> Symbol:
    """Reflect coordinates at both ends of a range until they lie inside."""
    span = high - low
    if span <= 0:
        return apply("mul", where, 0.0)
    distance = apply("abs", apply("sub", where, low))
    rest = apply("mod", distance, 2 * span)
    return apply("add", apply("minimum", rest, apply("sub", 2 * span, rest)), low)


@handles("GridSample")
def grid_sample(node: Node) -> Result:
    """Sample an image at coordinates from -1 to 1, whose last axis begins with the innermost one."""
    x, grid = node[0], node[1]
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(node.attr("mode"), node.attr("mode"))
    outside, align = node.attr("padding_mode"), bool(node.attr("align_corners"))
    node.require(mode in ("linear", "nearest", "cubic"), f"mode {mode!r}")
    node.require(outside in ("zeros", "border", "reflection"), f"padding_mode {outside!r}")
    sizes = _static(node, x.shape[2:], "images")
    rank = len(sizes)
    node.require(grid.shape[-1] == rank and len(grid.shape) == rank + 2, f"a grid of shape {list(grid.shape)} for {rank} axes")
    batch = x.shape[0]
    work = float64 if grid.dtype is float64 else float32
    flat = grid.cast(work).reshape((batch, -1, rank))
    taps: list[list[tuple[Symbol, Symbol]]] = []
    for axis, size in enumerate(sizes):
        unit = flat[:, :, rank - 1 - axis]
        shifted = apply("add", unit, 1.0)
        if align:
            where, low, high = apply("mul", apply("div", shifted, 2.0), float(size - 1)), 0.0, float(size - 1)
        else:
            where, low, high = apply("div", apply("sub", apply("mul", shifted, float(size)), 1.0), 2.0), -0.5, size - 0.5
        taps.append(_taps(where, mode, outside, size, low, high))
    image = x.reshape((batch, x.shape[1], math.prod(sizes)))
    image = image.cast(work) if x.dtype.is_float else image
    if mode == "nearest":
        positions = [axis[0][0] for axis in taps]
        found = pixels(image, sizes, positions)
        if outside == "zeros":
            mask = _inside(sizes, positions)
            found = apply("where", mask.reshape((batch, 1, mask.shape[1])), found, 0.0 if found.dtype.is_float else 0)
    else:
        node.require(x.dtype.is_float, f"mode {mode!r} of {x.dtype}", "cast to float32")
        found = weighted(image, sizes, taps, outside == "zeros")
    return found.reshape((batch, x.shape[1], *grid.shape[1:-1])).cast(x.dtype)


def _taps(where: Symbol, mode: str, outside: str, size: int, low: float, high: float) -> list[tuple[Symbol, Symbol]]:
    if mode != "cubic":
        if outside == "border":
            where = _clamped(where, size - 1)
        elif outside == "reflection":
            where = _clamped(reflected(where, low, high), size - 1)
        if mode == "nearest":
            rounded = apply("round", where)
            return [(rounded, rounded)]
        return linear_taps(where)
    taps = _cubic_taps(where)
    if outside == "reflection":
        return [(reflected(position, low, high), weight) for position, weight in taps]
    return taps


@handles("DeformConv")
def deform_conv(node: Node) -> Result:
    """Convolve with windows whose taps are moved by data, and weighted by a mask."""
    x, weights, offset = node[0], node[1], node[2]
    rank = 2
    node.require(len(x.shape) == 4 and len(weights.shape) == 4, "images and weights of 4 axes are expected")
    sizes = _static(node, x.shape[2:], "images")
    kernel = _static(node, weights.shape[2:], "a kernel")
    stated = node.attr("kernel_shape", None)
    node.require(stated is None or list(stated) == kernel, f"kernel_shape {stated} and weights of {kernel}")
    strides, dilations = per_axis(node, "strides", rank), per_axis(node, "dilations", rank)
    before, after = padding(node, rank)
    group, groups = node.attr("group"), node.attr("offset_group")
    node.require(group > 0 and groups > 0, f"group {group}, offset_group {groups}")
    spans = kernel_span(kernel, dilations)
    counts = [(n + b + a - span) // s + 1 for n, b, a, span, s in zip(sizes, before, after, spans, strides, strict=True)]
    node.require(all(count > 0 for count in counts), f"a kernel of {kernel} over {sizes}")
    batch, channels = x.shape[0], x.shape[1]
    taps, length = math.prod(kernel), math.prod(counts)
    node.require(taps <= node.limits.unrolled_nodes, f"a kernel of {taps} taps", "a smaller kernel")
    node.require_few(length, "the windows of DeformConv")
    over = Windows(tuple(kernel), strides, dilations, before, after, tuple(counts))
    images = x.reshape((batch * groups, channels // groups, math.prod(sizes)))
    moves = offset.reshape((batch * groups, taps, 2, length))
    mask = node[4].reshape((batch * groups, taps, length)) if node.has(4) else None
    columns: list[Symbol] = []
    for number, position in enumerate(over.taps):
        bases = np.meshgrid(
            *[
                np.arange(count) * stride - first + index * dilation
                for count, stride, first, index, dilation in zip(counts, strides, before, position, dilations, strict=True)
            ],
            indexing="ij",
        )  # fmt: skip
        where = [
            apply("add", moves[:, number, axis], node.constant(base.reshape(1, -1), offset.dtype))
            for axis, base in enumerate(bases)
        ]
        value = weighted(images, sizes, [linear_taps(each) for each in where], True)
        if mask is not None:
            one = mask[:, number]
            value = apply("mul", value, one.reshape((one.shape[0], 1, one.shape[1])))
        columns.append(value.reshape((batch, channels, 1, length)))
    filters, depth = weights.shape[0], weights.shape[1] * taps
    matrix = weights.reshape((group, filters // group, depth))
    wide = concat(columns, 2).reshape((batch, group, depth, length))
    result = matmul(matrix, wide).reshape((batch, filters, *counts)).cast(x.dtype)
    bias = node.get(3)
    return result if bias is None else apply("add", result, per_channel(bias, 4))


@handles("RoiAlign")
def roi_align(node: Node) -> Result:
    """Reduce samples of regions of interest, the same number in each bin."""
    x, rois = node[0], node[1]
    height, width = node.attr("output_height"), node.attr("output_width")
    ratio, scale, mode = node.attr("sampling_ratio"), float(node.attr("spatial_scale")), node.attr("mode")
    half = node.version >= 16 and node.attr("coordinate_transformation_mode") == "half_pixel"
    node.require(mode in ("avg", "max") and height > 0 and width > 0, f"mode {mode!r}, bins {height} x {width}")
    if ratio <= 0:
        node.unsupported("sampling_ratio 0, which takes as many samples as the region is large", "set sampling_ratio")
    node.require(
        len(x.shape) == 4 and len(rois.shape) == 2, f"{len(x.shape)} axes of images, {len(rois.shape)} of regions; 4 and 2"
    )
    node.require_few(max(height, width) * ratio, "the samples of RoiAlign")
    sizes = _static(node, x.shape[2:], "images")
    batch, channels, count = x.shape[0], x.shape[1], rois.shape[0]
    work = rois.cast(float64)
    shift = 0.5 if half else 0.0
    lines: list[Symbol] = []
    for axis, bins in enumerate((height, width)):
        start = apply("sub", apply("mul", work[:, 1 - axis], scale), shift)
        extent = apply("sub", apply("sub", apply("mul", work[:, 3 - axis], scale), shift), start)
        if not half:
            extent = apply("maximum", extent, 1.0)
        steps = (np.arange(bins)[:, None] + (np.arange(ratio) + 0.5) / ratio).reshape(1, -1) / bins
        offsets = apply("mul", extent.reshape((count, 1)), node.constant(steps, float64))
        lines.append(apply("add", start.reshape((count, 1)), offsets))
    y = apply("broadcast_to", lines[0].reshape((count, height * ratio, 1)), shape=(count, height * ratio, width * ratio))
    z = apply("broadcast_to", lines[1].reshape((count, 1, width * ratio)), shape=(count, height * ratio, width * ratio))
    flat = [each.reshape((count, height * ratio * width * ratio)) for each in (y, z)]
    images = apply("gather", x.reshape((batch, channels, math.prod(sizes))), node[2], axis=0)
    values = _bilinear(images, sizes, flat, mode == "max")
    apart = values.reshape((count, channels, height, ratio, width, ratio))
    return max_(apart, axis=(3, 5)) if mode == "max" else mean(apart, (3, 5))


def _bilinear(images: Symbol, sizes: Ordered[int], where: Ordered[Symbol], largest: bool) -> Symbol:
    """Return the sum of the four weighted corners, or the largest of them; 0 further outside than one pixel."""
    taps = []
    valid: Symbol | None = None
    for size, each in zip(sizes, where, strict=True):
        near = apply("logical_and", apply("greater_equal", each, -1.0), apply("less_equal", each, float(size)))
        valid = near if valid is None else apply("logical_and", valid, near)
        low, high = linear_taps(_clamped(each, size - 1))
        taps.append([low, high])
    assert valid is not None
    total: Symbol | None = None
    for (first, first_weight), (second, second_weight) in itertools.product(*taps):
        weight = apply("where", valid, apply("mul", first_weight, second_weight), 0.0).cast(images.dtype)
        term = apply("mul", pixels(images, sizes, (first, second)), weight.reshape((weight.shape[0], 1, weight.shape[1])))
        total = term if total is None else apply("maximum" if largest else "add", total, term)
    assert total is not None
    return total
