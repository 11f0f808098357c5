"""Handles reading images between their pixels, at positions that are data (`functions/spatial/sampling.py`)."""

from __future__ import annotations

import math
from collections.abc import Sequence as Ordered

from ....construction.stated import require_at_most
from ....dims.dim import Extent
from ....functions.building import apply
from ....functions.spatial.deformable import convolved_at
from ....functions.spatial.geometry import Windows, kernel_span
from ....functions.spatial.grids import grid_of
from ....functions.spatial.region_sizes import max_pooled
from ....functions.spatial.regions import aligned
from ....functions.spatial.sampling import MODES, OUTSIDE, sampled
from ....region import is_compiled_region
from ....types import shape_text
from ...node import Node, Result
from ...registry import handles
from ..normalization import per_channel
from .windows import padding, per_axis


def _static(node: Node, sizes: Ordered[Extent], what: str) -> list[int]:
    found = node.static_sizes(sizes, what)
    node.require(all(size > 0 for size in found), f"{what} of no size")
    return list(found)


@handles("GridSample")
def grid_sample(node: Node) -> Result:
    """Sample an image at coordinates from -1 to 1, whose last axis begins with the innermost one."""
    x, grid = node[0], node[1]
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(node.attr("mode"), node.attr("mode"))
    outside, align = node.attr("padding_mode"), bool(node.attr("align_corners"))
    node.require(mode in MODES, f"mode {mode!r}")
    node.require(outside in OUTSIDE, f"padding_mode {outside!r}")
    sizes, rank = x.shape[2:], len(x.shape) - 2
    node.require(rank > 0 and all(size != 0 for size in sizes), "images of no size")
    grid = node.agreeing(grid, (*(None,) * (rank + 1), rank), "the grid")
    node.require(mode == "nearest" or x.dtype.is_float, f"mode {mode!r} of {x.dtype}", "cast to float32")
    return sampled(x, grid, mode, outside, align, False)


@handles("AffineGrid")
def affine_grid(node: Node) -> Result:
    """Apply the maps (N, d, d + 1) to the coordinates of all pixels, the last axis of the image first."""
    maps, sizes = node[0], node.sizes(1, "the size of AffineGrid")
    rank = len(sizes) - 2
    node.require(rank in (2, 3) and len(maps.shape) == 3, f"{len(sizes)} sizes; (N, C, H, W) or (N, C, D, H, W) are expected")
    maps = node.agreeing(maps, (None, rank, rank + 1), "theta")
    return grid_of(maps, sizes[2:], bool(node.attr("align_corners", 0)))


@handles("DeformConv")
def deform_conv(node: Node) -> Result:
    """Convolve with windows whose taps are moved by data, and weighted by a mask."""
    x, weights, offset = node[0], node[1], node[2]
    node.require(len(x.shape) == 4 and len(weights.shape) == 4, "images and weights of 4 axes are expected")
    sizes = x.shape[2:]
    kernel = _static(node, weights.shape[2:], "a kernel")
    stated = node.attr("kernel_shape", None)
    node.require(stated is None or list(stated) == kernel, f"kernel_shape {stated} and weights of {kernel}")
    strides, dilations = per_axis(node, "strides", 2), per_axis(node, "dilations", 2)
    before, after = padding(node, 2)
    group, groups = node.attr("group"), node.attr("offset_group")
    node.require(group > 0 and groups > 0, f"group {group}, offset_group {groups}")
    spans = kernel_span(kernel, dilations)
    counts = [(n + b + a - span) // s + 1 for n, b, a, span, s in zip(sizes, before, after, spans, strides, strict=True)]
    node.require(all(size != 0 for size in sizes), "images of no size")
    for size in (*sizes, *counts):
        require_at_most(node.graph, 1, size, f"a kernel of {kernel} over images {shape_text(sizes)} has a window")
    taps = math.prod(kernel)
    node.require(taps <= node.limits.unrolled_nodes, f"a kernel of {taps} taps", "a smaller kernel")
    node.require_few(math.prod([count for count in counts if isinstance(count, int)]), "the windows of DeformConv")
    offset = node.agreeing(offset, (x.shape[0], 2 * groups * taps, *counts), "offset")
    mask = None if node.get(4) is None else node.agreeing(node[4], (x.shape[0], groups * taps, *counts), "mask")
    over = Windows(tuple(kernel), strides, dilations, before, after, tuple(counts))
    result = convolved_at(x, weights, offset, mask, over, group, groups).cast(x.dtype)
    bias = node.get(3)
    return result if bias is None else apply("add", result, per_channel(bias, 4))


@handles("RoiAlign")
def roi_align(node: Node) -> Result:
    """Reduce samples of regions of interest, the same number in each bin, or as many as it is pixels large."""
    x, rois = node[0], node[1]
    height, width = node.attr("output_height"), node.attr("output_width")
    ratio, scale, mode = node.attr("sampling_ratio"), float(node.attr("spatial_scale")), node.attr("mode")
    half = node.version >= 16 and node.attr("coordinate_transformation_mode") == "half_pixel"
    node.require(mode in ("avg", "max") and height > 0 and width > 0, f"mode {mode!r}, bins {height} x {width}")
    if ratio <= 0:
        _outside_of_loops(node, "sampling_ratio 0, which takes as many samples as the region is large,", "set sampling_ratio")
    node.require(
        len(x.shape) == 4 and len(rois.shape) == 2, f"{len(x.shape)} axes of images, {len(rois.shape)} of regions; 4 and 2"
    )
    rois = node.agreeing(rois, (None, 4), "regions")
    node.require_few(max(height, width) * ratio, "the samples of RoiAlign")
    node.require(all(size != 0 for size in x.shape[2:]), "images of no size")
    return aligned(x, rois, node[2], (height, width), max(ratio, 0), scale, half, mode == "max", False)


def _outside_of_loops(node: Node, what: str, fix: str) -> None:
    if is_compiled_region(node.graph):
        node.unsupported(f"{what} in a loop or branch", fix)


@handles("MaxRoiPool")
def max_roi_pool(node: Node) -> Result:
    """Take the largest pixel of each bin of regions with whole corners."""
    x, rois = node[0], node[1]
    bins, scale = node.attr("pooled_shape"), float(node.attr("spatial_scale"))
    node.require(len(bins) == 2 and all(number > 0 for number in bins), f"pooled_shape {bins}")
    node.require(len(x.shape) == 4, f"images of {len(x.shape)} axes; (N, C, H, W) is expected")
    rois = node.agreeing(rois, (None, 5), "regions")
    node.require(all(size != 0 for size in x.shape[2:]), "images of no size")
    _outside_of_loops(node, "MaxRoiPool, whose bins are as large as data say,", "RoiAlign with a sampling_ratio")
    return max_pooled(x, rois, (bins[0], bins[1]), scale).cast(x.dtype)
