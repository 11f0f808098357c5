"""Defines `resize`: along each axis a few taps with constant weights.

Sizes and coordinates are computed in float32, the type of scales, as onnxruntime computes them: 20 elements by a scale of 0.7
are 14, though the float32 next to 0.7 is below it. Weights of the taps are computed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dataclass import dataclass
from ....promotion.dtype import DType, float32, int64
from ....promotion.errors import UnsupportedError
from ...construction import primitives
from ...construction.scaled_sizes import scaled_size
from ...dims.dim import Extent
from ...errors import compose, describing, mistake
from ...ops.shape import normalize_axes, normalize_axis
from ...protocols import TensorLike
from ...symbol import Symbol
from ...types import DimLike, as_extent
from ..building import apply, as_floats, symbol_of
from ..linalg import matmul
from .resizing_at_run import ALMOST_HALF, SymbolicAxis, filters_at_run, resampled_at_run

MODES = ("nearest", "linear", "cubic")
COORDINATES = (
    "half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric", "tf_crop_and_resize",
    "tf_half_pixel_for_nn",
)  # fmt: skip
_FEW_TAPS = 4
_MAX_WEIGHTS = 1 << 24


@dataclass(frozen=True, slots=True)
class Options:
    """How elements are made of others.

    Attributes:
        coordinate_type: the float type in which positions are computed: float32, as onnxruntime has it, or float64.
    """

    mode: str = "nearest"
    coordinates: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    coefficient: float = -0.75
    excludes: bool = False
    antialias: bool = False
    coordinate_type: type[np.float32 | np.float64] = np.float32


@dataclass(frozen=True, slots=True)
class Axis:
    """The resizing of one axis: from `size` elements to `count`, by `scale`, a float32; `exact` is the size before rounding.

    start, stop: the part of the axis that is taken, for "tf_crop_and_resize".
    """

    axis: int
    size: int
    count: int
    scale: float
    exact: float
    start: float = 0.0
    stop: float = 1.0


_HALF = 0.5 + ALMOST_HALF
ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - _HALF), "round_prefer_ceil": lambda x: np.floor(x + _HALF),
    "floor": np.floor, "ceil": np.ceil,
}  # fmt: skip


def origins(options: Options, along: Axis) -> Array:
    """Return where in the source each element of the result lies, in the float type of the options."""
    float_of: Any = options.coordinate_type
    x = np.arange(along.count, dtype=float_of)
    size, count, scale, exact = map(float_of, (along.size, along.count, along.scale, along.exact))
    half, one = float_of(0.5), float_of(1)
    found: Array
    match options.coordinates:
        case "half_pixel":
            found = (x + half) / scale - half
        case "pytorch_half_pixel":
            found = (x + half) / scale - half if along.count > 1 else np.zeros_like(x)
        case "asymmetric":
            found = x / scale
        case "align_corners":
            found = x * (size - one) / (exact - one) if along.count > 1 and exact != 1 else np.zeros_like(x)
        case "half_pixel_symmetric":
            offset = size / float_of(2) * (one - count / (scale * size))
            found = np.float64(offset) + (x + np.float64(0.5)) / np.float64(scale) - 0.5
        case "tf_half_pixel_for_nn":
            found = (x + half) / scale
        case _:  # tf_crop_and_resize
            start, stop = float_of(along.start), float_of(along.stop)
            if along.count == 1:
                found = np.full(1, half * (start + stop) * (size - one))
            else:
                found = start * (size - one) + x * (stop - start) * (size - one) / (count - one)
    return found.astype(float_of)


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
        positions = np.clip(ROUNDINGS[options.nearest](where), 0, along.size - 1)[:, None]
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


def _resampled(x: Symbol, options: Options, along: Axis) -> Symbol:
    """Resize one axis."""
    if along.size == along.count and along.scale == 1 and options.coordinates != "tf_crop_and_resize":
        return x
    axis, rank = along.axis, len(x.shape)
    if along.count == 0:
        stops = tuple([0 if a == axis else extent for a, extent in enumerate(x.shape)])
        return apply("slice", x, starts=(0,) * rank, stops=stops, steps=(1,) * rank)
    positions, weights = taps(options, along)
    if options.mode == "nearest":
        return apply("gather", x, _constant(x, positions[:, 0], int64), axis=axis)
    if positions.shape[1] <= _FEW_TAPS:
        total: Symbol | None = None
        for column in [column for column in range(positions.shape[1]) if weights[:, column].any()] or [0]:
            part = apply("gather", x, _constant(x, positions[:, column], int64), axis=axis)
            factor = _constant(x, weights[:, column].reshape(-1, *(1,) * (rank - 1 - axis)), x.dtype)
            term = apply("mul", part, factor)
            total = term if total is None else apply("add", total, term)
        assert total is not None
        return total
    if along.size * along.count > _MAX_WEIGHTS:
        raise UnsupportedError(
            compose(f"resize: axis {axis} from {along.size} to {along.count} by many taps", (x,), fix="a smaller factor")
        )
    matrix = np.zeros((along.size, along.count))
    np.add.at(matrix, (positions, np.arange(along.count)[:, None]), weights)
    order = (*[a for a in range(rank) if a != axis], axis)
    back = tuple([order.index(a) for a in range(rank)])
    return matmul(x.permute(order), _constant(x, matrix, x.dtype)).permute(back)


def _constant(x: Symbol, value: Array, dtype: DType) -> Symbol:
    return x.graph.constant(value.astype(dtype.numpy), dtype)


def resized(x: Symbol, options: Options, axes: Sequence[Axis | SymbolicAxis], extrapolation: float = 0.0) -> Symbol:
    """Resize axes one after the other; elements of modes other than "nearest" are floats, of 16 bits computed in float32.

    extrapolation: the value of what "tf_crop_and_resize" takes from outside.
    """
    value = x.cast(float32) if options.mode != "nearest" and x.dtype.bits < 32 else x
    for along in axes:
        if isinstance(along, SymbolicAxis):
            value = resampled_at_run(
                value, options.mode, options.coordinates, options.nearest, options.coefficient, options.excludes,
                options.antialias, along,
            )  # fmt: skip
        else:
            value = _resampled(value, options, along)
    result = value.cast(x.dtype)
    if options.coordinates != "tf_crop_and_resize":
        return result
    for along in axes:
        assert isinstance(along, Axis)
        where = origins(options, along)
        outside = ((where < 0) | (where > along.size - 1)).reshape(-1, *(1,) * (len(x.shape) - 1 - along.axis))
        result = apply("where", x.graph.constant(outside), extrapolation, result)
    return result


def scaled(extent: int, scale: float, span: float = 1.0) -> float:
    """Return how many elements so many are by a scale, before rounding down."""
    return float(np.float32(extent) * np.float32(scale) * np.float32(span))


def ratio(extent: Extent, size: Extent) -> float:
    """Return the scale that makes an extent this size; 1 where one of them is no number, and the scale known at a run."""
    both = isinstance(size, int) and isinstance(extent, int) and extent > 0
    return float(np.float32(size) / np.float32(extent)) if both else 1.0  # type: ignore[arg-type]


def resize(
    x: TensorLike, size: DimLike | Sequence[DimLike] | None = None, scale: float | Sequence[float] | None = None,
    axes: int | Sequence[int] | None = None, mode: str = "nearest", coordinates: str = "half_pixel",
    rounding: str = "round_prefer_floor", cubic_coefficient: float = -0.75, exclude_outside: bool = False,
    antialias: bool = False, roi: Sequence[tuple[float, float]] | None = None, extrapolation_value: float = 0.0,
) -> Symbol:  # fmt: skip
    """Interpolate axes of a tensor to other sizes, as ONNX's Resize and torch's interpolate.

    Args:
        x: of any dtype for mode "nearest". Others compute with floats: 16-bit floats in float32, rounded once, and integers
            become the rule set's default float.
        size: how many elements each axis has afterwards, one size for all axes or one for each; ints, names or dims.
        scale: instead of sizes, factors: an axis of n elements has floor(n · scale), computed in float32.
        axes: which axes; by default those of space of a tensor (N, …, C).
        mode: "nearest", "linear" (bilinear on two axes), or "cubic".
        coordinates: where the elements of the result lie among those of `x`. "half_pixel": by their centers. "asymmetric": by
            their beginnings, as torch has it for its nearest neighbours (with rounding="floor"). "align_corners": the outer
            ones meet. "pytorch_half_pixel", "half_pixel_symmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize": as ONNX
            defines them.
        rounding: which neighbour is the nearest: "round_prefer_floor", "round_prefer_ceil", "floor", "ceil".
        cubic_coefficient: the constant of cubic weights, usually -0.75 or -0.5.
        exclude_outside: whether taps outside of `x` weigh nothing; otherwise its border is repeated.
        antialias: whether to filter when an axis becomes smaller, with `exclude_outside` as torch and Pillow do; for
            sizes known now, or a scale.
        roi: for "tf_crop_and_resize", the part (start, stop) of each axis, in units of its size.
        extrapolation_value: what "tf_crop_and_resize" gives outside of `x`.

    Sizes may be symbolic: taps are then computed when the graph runs. Raises `UserError` for both size and scale, modes that do
    not exist, and axes of no elements; `UnsupportedError` for crops of symbolic sizes, and for antialias where they have no
    scale that is known now, or a very small one.

    Example:
        >>> g = jn.Graph("g", [jn.TensorType(jn.float32, (1, "h", 8, 3), "x")])
        >>> jn.resize(g.inputs[0], scale=2, mode="linear").shape
        (1, Dim.parse('2*h'), 16, 3)
    """
    op = "resize"
    if mode == "nearest":
        result, value = None, symbol_of(op, x)
    else:
        result, (value,) = as_floats(op, x)
    known = (("mode", mode, MODES), ("coordinates", coordinates, COORDINATES), ("rounding", rounding, tuple(ROUNDINGS)))
    for name, given, choices in known:
        if given not in choices:
            raise mistake(op, f"{name} is {given!r:.40}", (value,), " or ".join(choices), f"{name}={choices[0]!r}")
    rank = len(value.shape)
    which = tuple(range(1, rank - 1))
    if axes is not None:
        with describing(op, value):
            listed = (axes,) if isinstance(axes, int) else tuple(axes)
            normalize_axes(listed, rank)  # which are distinct
            which = tuple([normalize_axis(axis, rank) for axis in listed])
    if (size is None) == (scale is None) or not which:
        what = "no axes" if not which else "both size and scale" if size is not None else "neither size nor scale"
        raise mistake(op, what, (value,), "one of them, for the axes of space between batch and channels", "scale=2")
    crops = coordinates == "tf_crop_and_resize"
    sizes = _listed(op, value, "sizes", size, len(which))
    scales = _listed(op, value, "scales", scale, len(which))
    parts = [(0.0, 1.0)] * len(which) if roi is None else [(float(start), float(stop)) for start, stop in roi]
    if len(parts) != len(which) or (roi is not None and not crops) or not np.isfinite(parts).all():
        raise mistake(op, f"roi {roi!r:.60}", (value,), 'one (start, stop) for each axis, of "tf_crop_and_resize"', "roi=None")
    alongs: list[Axis | SymbolicAxis] = []
    for axis, given_size, factor, part in zip(which, sizes, scales, parts, strict=True):
        found = _along(op, value, axis, given_size, factor, part if crops else (0.0, 1.0))
        if found is not None:
            alongs.append(found)
    antialias = antialias and mode != "nearest"
    if antialias or crops:
        for along in alongs:
            if isinstance(along, SymbolicAxis) and (crops or not filters_at_run(mode, along)):
                what = f"resize: antialias or crops of axis {along.axis}, from {along.size} to {along.count}"
                fix = "sizes that are known now, a scale of 0.1 or more, or antialias=False"
                raise UnsupportedError(compose(what, (value,), fix=fix))
    options = Options(mode, coordinates, rounding, float(cubic_coefficient), exclude_outside, antialias)
    found_value = resized(value, options, alongs, extrapolation_value)
    return found_value if result is None else primitives.cast(found_value, result)


def _listed(op: str, x: Symbol, name: str, given: object, count: int) -> list[object]:
    """Return one entry for each axis, where one may stand for all."""
    found = list(given) if isinstance(given, (tuple, list)) else [given] * count
    if len(found) != count:
        raise mistake(op, f"{len(found)} {name} for {count} axes", (x,), "one for all axes, or one for each", "check axes=")
    return found


def _along(
    op: str, x: Symbol, axis: int, size: object, scale: object, part: tuple[float, float]
) -> Axis | SymbolicAxis | None:
    """Return how one axis is resized; None where it stays as it is."""
    extent = x.shape[axis]
    if size is not None:
        count = as_extent(size, f"{op}: size of axis {axis}")  # type: ignore[arg-type]
        if isinstance(count, int) and isinstance(extent, int):
            if count < 0 or (extent == 0 and count > 0):
                raise mistake(op, f"axis {axis} from {extent} to {count}", (x,), "elements to make others of", "size=1")
            return Axis(axis, extent, count, ratio(extent, count), float(count), *part)
        return None if count == extent else SymbolicAxis(axis, extent, count)
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not 0 < scale < math.inf:
        raise mistake(op, f"scale {scale!r:.40} of axis {axis}", (x,), "a positive number", "scale=2")
    factor = float(np.float32(scale))
    if isinstance(extent, int):
        exact = scaled(extent, factor, part[1] - part[0])
        return Axis(axis, extent, math.floor(exact), factor, exact, *part)
    if factor == 1:
        return None
    found = scaled_size(x.graph, extent, factor)
    if found is None:
        what = f"{op}: scale {factor:.9g} of axis {axis}, whose product with a size float32 rounds unevenly"
        raise UnsupportedError(compose(what, (x,), fix="size=, or a scale of few digits"))
    return SymbolicAxis(axis, extent, found, factor)
