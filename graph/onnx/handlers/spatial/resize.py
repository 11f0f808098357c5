"""Handles Resize and Upsample: along each axis a few taps with constant weights, computed in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .....promotion.arrays import Array
from .....promotion.dataclass import dataclass
from .....promotion.dtype import float32, int64
from ....dims.dim import Extent
from ....functions.building import apply
from ....functions.linalg import matmul
from ....symbol import Symbol
from ...node import Node, Result
from ...registry import handles
from .symbolic_resize import SymbolicAxis, resampled_at_run, scaled

_FEW_TAPS = 4
_MAX_WEIGHTS = 1 << 24


@dataclass(frozen=True, slots=True)
class Options:
    """What the attributes of a Resize say."""

    mode: str
    coordinates: str
    nearest: str
    coefficient: float
    excludes: bool
    antialias: bool


@dataclass(frozen=True, slots=True)
class Axis:
    """The resizing of one axis: from `size` elements to `count`, by `scale`; `exact` is the size before rounding."""

    axis: int
    size: int
    count: int
    scale: float
    exact: float
    start: float = 0.0
    stop: float = 1.0


_ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5), "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor, "ceil": np.ceil,
}  # fmt: skip


def origins(options: Options, along: Axis) -> Array:
    """Return where in the source each element of the result lies."""
    x = np.arange(along.count, dtype=np.float64)
    size, count, scale = along.size, along.count, along.scale
    match options.coordinates:
        case "half_pixel":
            return (x + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (x + 0.5) / scale - 0.5 if count > 1 else np.zeros(count)
        case "asymmetric":
            return x / scale
        case "align_corners":
            return x * (size - 1) / (along.exact - 1) if count > 1 and along.exact != 1 else np.zeros(count)
        case "half_pixel_symmetric":
            return size / 2 * (1 - count / along.exact) + (x + 0.5) / scale - 0.5
        case "tf_half_pixel_for_nn":
            return (x + 0.5) / scale
        case _:  # tf_crop_and_resize
            if count == 1:
                return np.full(1, 0.5 * (along.start + along.stop) * (size - 1))
            return along.start * (size - 1) + x * (along.stop - along.start) * (size - 1) / (count - 1)


def _triangle(x: Array) -> Array:
    size: Array = np.abs(x)
    return (1 - size).clip(0)


def _cubic(a: float) -> Callable[[Array], Array]:
    def weight(x: Array) -> Array:
        x = np.abs(x)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return np.where(x <= 1, near, np.where(x < 2, far, 0.0))

    return weight


def taps(options: Options, along: Axis) -> tuple[Array, Array]:
    """Return positions and weights (count, taps) of the source's elements that make each element of the result."""
    where = origins(options, along)
    if options.mode == "nearest":
        positions = np.clip(_ROUNDINGS[options.nearest](where), 0, along.size - 1)[:, None]
        return positions.astype(np.int64), np.ones_like(positions)
    support, weight = (1.0, _triangle) if options.mode == "linear" else (2.0, _cubic(options.coefficient))
    stretch = min(along.scale, 1.0) if options.antialias else 1.0
    reach = support / stretch
    first = np.floor(where - reach) + 1
    offsets = np.arange(math.ceil(2 * reach) + (1 if stretch < 1 else 0), dtype=np.float64)
    positions = first[:, None] + offsets
    weights = weight((positions - where[:, None]) * stretch)
    if options.excludes:
        weights = np.where((positions < 0) | (positions > along.size - 1), 0.0, weights)
    if options.excludes or options.antialias:
        weights = weights / weights.sum(axis=1, keepdims=True)
    return np.clip(positions, 0, along.size - 1).astype(np.int64), weights


def resampled(node: Node, x: Symbol, options: Options, along: Axis) -> Symbol:
    """Resize one axis."""
    if along.size == along.count and along.scale == 1 and options.coordinates != "tf_crop_and_resize":
        return x
    positions, weights = taps(options, along)
    axis, rank = along.axis, len(x.shape)
    if options.mode == "nearest":
        return apply("gather", x, node.constant(positions[:, 0], int64), axis=axis)
    if positions.shape[1] <= _FEW_TAPS:
        total: Symbol | None = None
        for column in [column for column in range(positions.shape[1]) if weights[:, column].any()] or [0]:
            part = apply("gather", x, node.constant(positions[:, column], int64), axis=axis)
            factor = node.constant(weights[:, column].reshape(-1, *(1,) * (rank - 1 - axis)), x.dtype)
            term = apply("mul", part, factor)
            total = term if total is None else apply("add", total, term)
        assert total is not None
        return total
    if along.size * along.count > _MAX_WEIGHTS:
        node.unsupported(f"an axis resized from {along.size} to {along.count} by many taps", "resize by a smaller factor")
    matrix = np.zeros((along.size, along.count))
    np.add.at(matrix, (positions, np.arange(along.count)[:, None]), weights)
    order = (*[a for a in range(rank) if a != axis], axis)
    back = tuple([order.index(a) for a in range(rank)])
    return matmul(x.permute(order), node.constant(matrix, x.dtype)).permute(back)


def _resized(node: Node, x: Symbol, options: Options, axes: list[Axis | SymbolicAxis]) -> Symbol:
    node.require(options.mode in ("nearest", "linear", "cubic"), f"mode {options.mode!r}")
    if options.mode != "nearest" and not x.dtype.is_float:
        node.unsupported(f"mode {options.mode!r} of {x.dtype}", "cast to float32 before, and round after")
    value = x.cast(float32) if options.mode != "nearest" and x.dtype.bits < 32 else x
    for along in axes:
        if isinstance(along, SymbolicAxis):
            if options.antialias or options.coordinates == "tf_crop_and_resize":
                raise node.size_needed((along.size, along.count), f"antialias or crops on axis {along.axis}")
            value = resampled_at_run(
                node, value, options.mode, options.coordinates, options.nearest, options.coefficient, options.excludes, along
            )
            continue
        node.require(along.scale > 0, f"a scale {along.scale} of axis {along.axis}")
        reach = 4 / min(along.scale, 1.0) if options.antialias else 4.0
        node.require_few((along.count + 1) * reach, f"axis {along.axis} from {along.size} to {along.count}")
        node.require(
            along.count >= 0 and (along.size > 0 or along.count == 0), f"axis {along.axis} from {along.size} to {along.count}"
        )
        value = resampled(node, value, options, along)
    return value.cast(x.dtype)


@handles("Resize", since=11)
def resize(node: Node) -> Result:
    """Resize by scales or to sizes, in all modes and coordinate systems."""
    x = node[0]
    shape = node.shape(0)
    rank = len(shape)
    mode = node.attr("mode")
    coordinates, nearest = node.attr("coordinate_transformation_mode"), node.attr("nearest_mode")
    known = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric", "tf_crop_and_resize",
             "tf_half_pixel_for_nn")  # fmt: skip
    node.require(coordinates in known, f"coordinate_transformation_mode {coordinates!r}")
    node.require(nearest in _ROUNDINGS, f"nearest_mode {nearest!r}")
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
    scales = _scales(node, axes)
    alongs: list[Axis | SymbolicAxis] = []
    for axis, scale, size, (start, stop) in zip(axes, *scales, regions, strict=True):
        extent = shape[axis]
        if not isinstance(extent, int) or (size is not None and not isinstance(size, int)):
            symbolic = _symbolic(axis, extent, scale, size)
            alongs += [] if symbolic is None else [symbolic]
            continue
        node.require(
            math.isfinite(scale) and math.isfinite(start) and math.isfinite(stop),
            f"a scale {scale}, a region {start} to {stop}",
        )
        span = stop - start if crops else 1.0
        count = size if size is not None else math.floor(extent * scale * span)
        alongs.append(Axis(axis, extent, count, scale, float(count) if size is not None else extent * scale, start, stop))
    result = _resized(node, x, options, alongs)
    if not crops:
        return result
    for along in alongs:
        if isinstance(along, SymbolicAxis):
            continue  # refused above
        where = origins(options, along)
        outside = ((where < 0) | (where > along.size - 1)).reshape(-1, *(1,) * (rank - 1 - along.axis))
        result = apply("where", node.graph.constant(outside), extrapolation, result)
    return result


def _symbolic(axis: int, extent: Extent, scale: float, size: Extent | None) -> SymbolicAxis | None:
    """Return how an axis is resized at a run; None if it keeps its size."""
    if size is not None:
        return None if size == extent else SymbolicAxis(axis, extent, size)
    return None if scale == 1 else SymbolicAxis(axis, extent, *scaled(extent, scale))


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
    ratios = [
        size / extent if isinstance(size, int) and isinstance(extent, int) else 1.0
        for size, extent in zip(wanted, extents, strict=True)
    ]
    if policy == "stretch":
        return ratios, list(wanted)
    node.require(policy in ("not_larger", "not_smaller"), f"keep_aspect_ratio_policy {policy!r}")
    node.static_sizes((*wanted, *extents), "an aspect ratio that is kept")
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    return [ratio] * len(axes), [math.floor(ratio * int(extent) + 0.5) for extent in extents]  # type: ignore[arg-type]


@handles("Resize", since=10)
@handles("Upsample")
def upsample(node: Node) -> Result:
    """Resize by scales, in the coordinates of opset 10 and before."""
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
    options = Options(mode, "asymmetric", "floor", -0.75, False, False)
    alongs: list[Axis | SymbolicAxis] = []
    for axis, (extent, scale) in enumerate(zip(shape, scales, strict=True)):
        if isinstance(extent, int):
            alongs.append(Axis(axis, extent, math.floor(extent * scale), scale, extent * scale))
        else:
            symbolic = _symbolic(axis, extent, scale, None)
            alongs += [] if symbolic is None else [symbolic]
    return _resized(node, x, options, alongs)
