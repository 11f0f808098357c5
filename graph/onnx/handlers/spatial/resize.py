"""Handles Resize and Upsample: reads sizes, scales and modes (`functions/spatial/resizing.py`)."""

from __future__ import annotations

import math

import numpy as np

from ....construction.scaled_sizes import scaled_size
from ....dims.dim import Extent
from ....functions.spatial.resizing import (
    COORDINATES,
    MODES,
    ROUNDINGS,
    Axis,
    Options,
    ratio,
    resized,
    scaled,
)
from ....functions.spatial.resizing_at_run import SymbolicAxis, filters_at_run
from ....symbol import Symbol
from ...node import Node, Result
from ...registry import handles

_ROUNDS = "pytorch"
"""The producer of models whose corners are those of the result, as their authors computed it: the text of ONNX can be read so,
and onnxruntime does it always. ONNX's own cases (`resize_downsample_scales_linear_align_corners`) take size times scale."""


def _resized(
    node: Node, x: Symbol, options: Options, axes: list[Axis | SymbolicAxis], extrapolation: float = 0.0
) -> Symbol:
    node.require(options.mode in MODES, f"mode {options.mode!r}")
    if options.mode != "nearest" and not x.dtype.is_float:
        node.unsupported(f"mode {options.mode!r} of {x.dtype}", "cast to float32 before, and round after")
    for along in axes:
        if isinstance(along, SymbolicAxis):
            crops = options.coordinates == "tf_crop_and_resize"
            if crops or (options.antialias and not filters_at_run(options.mode, along)):
                raise node.size_needed((along.size, along.count), f"antialias or crops on axis {along.axis}")
            continue
        node.require(along.scale > 0, f"a scale {along.scale} of axis {along.axis}")
        reach = 4 / min(along.scale, 1.0) if options.antialias else 4.0
        node.require_few((along.count + 1) * reach, f"axis {along.axis} from {along.size} to {along.count}")
        node.require(
            along.count >= 0 and (along.size > 0 or along.count == 0), f"axis {along.axis} from {along.size} to {along.count}"
        )
    return resized(x, options, axes, extrapolation)


@handles("Resize", since=11)
def resize(node: Node) -> Result:
    """Resize by scales or to sizes, in all modes and coordinate systems."""
    x = node[0]
    shape = node.shape(0)
    rank = len(shape)
    mode = node.attr("mode")
    coordinates, nearest = node.attr("coordinate_transformation_mode"), node.attr("nearest_mode")
    node.require(coordinates in COORDINATES, f"coordinate_transformation_mode {coordinates!r}")
    node.require(nearest in ROUNDINGS, f"nearest_mode {nearest!r}")
    options = Options(
        mode, coordinates, nearest, float(node.attr("cubic_coeff_a")), bool(node.attr("exclude_outside")),
        bool(node.attr("antialias", 0)) and mode != "nearest",
    )  # fmt: skip
    named = node.attr("axes", None)
    axes = node.axes(named, rank) if named is not None else tuple(range(rank))
    extrapolation, crops = float(node.attr("extrapolation_value")), coordinates == "tf_crop_and_resize"
    regions = [(0.0, 1.0)] * len(axes)
    if node.has(1):
        roi = node.known(1, "the roi of Resize").reshape(-1).astype(np.float64).tolist()
        node.require(not crops or len(roi) == 2 * len(axes), f"{len(roi)} ends of regions for {len(axes)} axes")
        regions = list(zip(roi[: len(axes)], roi[len(axes) :], strict=True)) if crops else regions
    is_whole = coordinates == "align_corners" and node.producer == _ROUNDS
    scales = _scales(node, axes)
    alongs: list[Axis | SymbolicAxis] = []
    for axis, scale, size, (start, stop) in zip(axes, *scales, regions, strict=True):
        extent = shape[axis]
        if not isinstance(extent, int) or (size is not None and not isinstance(size, int)):
            symbolic = _symbolic(node, axis, extent, scale, size, is_whole)
            alongs += [] if symbolic is None else [symbolic]
            continue
        node.require(
            math.isfinite(scale) and math.isfinite(start) and math.isfinite(stop),
            f"a scale {scale}, a region {start} to {stop}",
        )
        exact = size if size is not None else scaled(extent, scale, stop - start if crops else 1.0)
        count = math.floor(exact)
        alongs.append(Axis(axis, extent, count, scale, float(count if is_whole else exact), start, stop))
    return _resized(node, x, options, alongs, extrapolation)


def _symbolic(
    node: Node, axis: int, extent: Extent, scale: float, size: Extent | None, is_whole: bool = False
) -> SymbolicAxis | None:
    """Return how an axis is resized at a run; None if it keeps its size.

    is_whole: whether positions depend on the size of the result alone, and not on the product of which it is the whole part.
    """
    if size is not None:
        return None if size == extent else SymbolicAxis(axis, extent, size)
    if scale == 1:
        return None
    count = scaled_size(node.graph, extent, scale)
    if count is None:
        problem = f"a scale {scale:.9g} of axis {axis}, whose product with a size float32 rounds unevenly,"
        raise node.size_needed((extent,), problem)
    return SymbolicAxis(axis, extent, count, None if is_whole else scale)


def _scales(node: Node, axes: tuple[int, ...]) -> tuple[list[float], list[Extent | None]]:
    """Return, for each axis, its scale, and its size where sizes are given; the scale is 1 where that is known at a run."""
    policy = node.attr("keep_aspect_ratio_policy", "stretch")
    scales = node.known(2, "the scales of Resize").reshape(-1).astype(np.float64).tolist() if node.has(2) else []
    if scales:
        node.require(len(scales) == len(axes) and all(scale > 0 for scale in scales), f"scales {scales} for {len(axes)} axes")
        if node.has(3):
            node.require(not node.ints(3, "the sizes of Resize"), "both scales and sizes")
        return scales, [None] * len(axes)
    wanted = node.sizes(3, "the sizes of Resize")
    shape = node.shape(0)
    extents = [shape[axis] for axis in axes]
    node.require(len(wanted) == len(axes), f"{len(wanted)} sizes for {len(axes)} axes")
    node.require(all(not isinstance(extent, int) or extent > 0 for extent in extents), f"sizes for {extents}")
    ratios = [ratio(extent, size) for size, extent in zip(wanted, extents, strict=True)]
    if policy == "stretch":
        return ratios, list(wanted)
    node.require(policy in ("not_larger", "not_smaller"), f"keep_aspect_ratio_policy {policy!r}")
    node.static_sizes((*wanted, *extents), "an aspect ratio that is kept")
    kept = min(ratios) if policy == "not_larger" else max(ratios)
    return [kept] * len(axes), [math.floor(scaled(int(extent), kept) + 0.5) for extent in extents]  # type: ignore[arg-type]


@handles("Resize", since=10)
@handles("Upsample")
def upsample(node: Node) -> Result:
    """Resize by scales, in the coordinates of opset 10 and before; scales below 1 round up, larger ones down."""
    x = node[0]
    shape = node.shape(0)
    if node.op == "Upsample" and node.version < 7:
        scales = [1.0, 1.0, float(node.attr("height_scale")), float(node.attr("width_scale"))]
    elif node.op == "Upsample" and node.version < 9:
        scales = [float(scale) for scale in node.attr("scales")]
    else:
        scales = node.known(1, f"the scales of {node.op}").reshape(-1).astype(np.float64).tolist()
    mode = node.attr("mode")
    mode = "linear" if mode == "bilinear" else mode
    node.require(
        len(scales) == len(shape) and all(0 < scale < math.inf for scale in scales), f"scales {scales} for {len(shape)} axes"
    )
    scales = [float(np.float32(scale)) for scale in scales]
    value = x
    for axis, (extent, scale) in enumerate(zip(shape, scales, strict=True)):
        along: Axis | SymbolicAxis | None
        if isinstance(extent, int):
            exact = scaled(extent, scale)
            along = Axis(axis, extent, math.floor(exact), scale, exact)
        else:
            along = _symbolic(node, axis, extent, scale, None)
        nearest = "ceil" if scale < 1 else "floor"
        value = _resized(node, value, Options(mode, "asymmetric", nearest, -0.75, False, False), [along] if along else [])
    return value
