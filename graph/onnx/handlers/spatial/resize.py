"""Handles Resize and Upsample: along each axis a few taps with constant weights.

Sizes and coordinates are computed in float32, the type of scales, as onnxruntime computes them: 20 elements by a scale of 0.7
are 14, though the float32 next to 0.7 is below it. Weights of the taps are computed in float64.
"""

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
from ...sizes.scaled import scaled_size
from .symbolic_resize import ALMOST_HALF, SymbolicAxis, resampled_at_run

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
    """The resizing of one axis: from `size` elements to `count`, by `scale`, a float32; `exact` is the size before rounding."""

    axis: int
    size: int
    count: int
    scale: float
    exact: float
    start: float = 0.0
    stop: float = 1.0


_HALF = 0.5 + ALMOST_HALF
_ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - _HALF), "round_prefer_ceil": lambda x: np.floor(x + _HALF),
    "floor": np.floor, "ceil": np.ceil,
}  # fmt: skip


def origins(options: Options, along: Axis) -> Array:
    """Return where in the source each element of the result lies, in float32."""
    x = np.arange(along.count, dtype=np.float32)
    size, count, scale, exact = map(np.float32, (along.size, along.count, along.scale, along.exact))
    half, one = np.float32(0.5), np.float32(1)
    match options.coordinates:
        case "half_pixel":
            return (x + half) / scale - half
        case "pytorch_half_pixel":
            return (x + half) / scale - half if along.count > 1 else np.zeros_like(x)
        case "asymmetric":
            return x / scale
        case "align_corners":
            return x * (size - one) / (exact - one) if along.count > 1 and exact != 1 else np.zeros_like(x)
        case "half_pixel_symmetric":
            offset = size / np.float32(2) * (one - count / (scale * size))
            found: Array = np.float64(offset) + (x + np.float64(0.5)) / np.float64(scale) - 0.5
            return found.astype(np.float32)
        case "tf_half_pixel_for_nn":
            return (x + half) / scale
        case _:  # tf_crop_and_resize
            start, stop = np.float32(along.start), np.float32(along.stop)
            if along.count == 1:
                return np.full(1, half * (start + stop) * (size - one))
            return start * (size - one) + x * (stop - start) * (size - one) / (count - one)


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
    where = origins(options, along).astype(np.float64)
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
            symbolic = _symbolic(node, axis, extent, scale, size)
            alongs += [] if symbolic is None else [symbolic]
            continue
        node.require(
            math.isfinite(scale) and math.isfinite(start) and math.isfinite(stop),
            f"a scale {scale}, a region {start} to {stop}",
        )
        exact = size if size is not None else _scaled(extent, scale, stop - start if crops else 1.0)
        alongs.append(Axis(axis, extent, math.floor(exact), scale, float(exact), start, stop))
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


def _scaled(extent: int, scale: float, span: float = 1.0) -> float:
    """Return how many elements so many are by a scale, before rounding."""
    return float(np.float32(extent) * np.float32(scale) * np.float32(span))


def _symbolic(node: Node, axis: int, extent: Extent, scale: float, size: Extent | None) -> SymbolicAxis | None:
    """Return how an axis is resized at a run; None if it keeps its size."""
    if size is not None:
        return None if size == extent else SymbolicAxis(axis, extent, size)
    if scale == 1:
        return None
    count = scaled_size(node.graph, extent, scale)
    if count is None:
        problem = f"a scale {scale:.9g} of axis {axis}, whose product with a size float32 rounds unevenly,"
        raise node.size_needed((extent,), problem)
    return SymbolicAxis(axis, extent, count, scale)


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
        float(np.float32(size) / np.float32(extent)) if isinstance(size, int) and isinstance(extent, int) else 1.0
        for size, extent in zip(wanted, extents, strict=True)
    ]
    if policy == "stretch":
        return ratios, list(wanted)
    node.require(policy in ("not_larger", "not_smaller"), f"keep_aspect_ratio_policy {policy!r}")
    node.static_sizes((*wanted, *extents), "an aspect ratio that is kept")
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    return [ratio] * len(axes), [math.floor(_scaled(int(extent), ratio) + 0.5) for extent in extents]  # type: ignore[arg-type]


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
            exact = _scaled(extent, scale)
            along = Axis(axis, extent, math.floor(exact), scale, exact)
        else:
            along = _symbolic(node, axis, extent, scale, None)
        nearest = "ceil" if scale < 1 else "floor"
        value = _resized(node, value, Options(mode, "asymmetric", nearest, -0.75, False, False), [along] if along else [])
    return value
