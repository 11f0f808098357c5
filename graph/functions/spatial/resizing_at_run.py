"""Resizes axes whose sizes are known at a run: positions and weights of the taps are computed there, as for known sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....promotion.dataclass import dataclass
from ....promotion.dtype import DType, float32, float64, int64
from ...dims.dim import Extent
from ...graph import Graph
from ...symbol import Symbol
from ..building import apply
from ..positions import counting

_TAPS: dict[str, Sequence[int]] = {"linear": (0, 1), "cubic": (-1, 0, 1, 2)}
_SUPPORT = {"linear": 1.0, "cubic": 2.0}
"""How far taps lie from the element that they make."""
_MAX_TAPS = 40
"""Most taps of a filter that is computed at a run: each is an operation of the graph."""
ALMOST_HALF = 1e-6
"""How far from the middle between two elements a coordinate, which float32 rounded, still counts as the middle."""
_ROUNDINGS = {
    "round_prefer_floor": ("ceil", -0.5 - ALMOST_HALF), "round_prefer_ceil": ("floor", 0.5 + ALMOST_HALF),
    "floor": ("floor", 0.0), "ceil": ("ceil", 0.0),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SymbolicAxis:
    """The resizing of one axis from `size` to `count` elements, of which one at least is no number; by their ratio, or by a
    scale."""

    axis: int
    size: Extent
    count: Extent
    scale: float | None = None


def _float(graph: Graph, extent: Extent, dtype: DType = float32) -> Symbol:
    return graph.dim_value(extent).cast(dtype)


def _origins(graph: Graph, coordinates: str, along: SymbolicAxis) -> Symbol:
    """Return where in the source each element of the result lies, in float32."""
    x = counting(graph, along.count).cast(float32)
    size, count = _float(graph, along.size), _float(graph, along.count)
    scale = apply("div", count, size) if along.scale is None else graph.scalar(along.scale, float32)
    match coordinates:
        case "asymmetric":
            return apply("div", x, scale)
        case "tf_half_pixel_for_nn":
            moved = apply("div", apply("add", x, 0.5), scale)
            return apply("where", apply("equal", scale, 1.0), x, moved)  # an axis that keeps its size is left alone
        case "align_corners":
            exact = count if along.scale is None else apply("mul", size, scale)
            steps = apply("sub", exact, 1.0)
            alone = apply("logical_or", apply("less_equal", count, 1.0), apply("equal", steps, 0.0))
            found = apply("div", apply("mul", x, apply("sub", size, 1.0)), apply("where", alone, 1.0, steps))
            return apply("where", alone, 0.0, found)
        case "half_pixel_symmetric":
            adjusted = apply("sub", 1.0, apply("div", count, apply("mul", scale, size)))
            offset = apply("mul", apply("div", size, 2.0), adjusted).cast(float64)
            moved = apply("div", apply("add", x.cast(float64), 0.5), scale.cast(float64))
            return apply("sub", apply("add", offset, moved), 0.5).cast(float32)
    center = apply("div", apply("add", x, 0.5), scale)
    half = apply("sub", center, 0.5)
    if coordinates == "pytorch_half_pixel":
        return apply("where", apply("greater", count, 1.0), half, 0.0)
    return half


def _weight(mode: str, coefficient: float, distance: Symbol) -> Symbol:
    """Return the weight of a tap by its distance."""
    x = apply("abs", distance)
    if mode == "linear":
        return apply("maximum", apply("sub", 1.0, x), 0.0)
    a = coefficient
    square = apply("mul", x, x)
    near = apply("add", apply("mul", apply("sub", apply("mul", x, a + 2), a + 3), square), 1.0)
    far = apply("sub", apply("mul", apply("add", apply("mul", apply("sub", apply("mul", x, a), 5 * a), x), 8 * a), x), 4 * a)
    return apply("where", apply("less_equal", x, 1.0), near, apply("where", apply("less", x, 2.0), far, 0.0))


def filters_at_run(mode: str, along: SymbolicAxis) -> bool:
    """Return whether an axis can be filtered: its scale is known now, which says how many taps there are, and they are few."""
    return along.scale is not None and 2 * _SUPPORT[mode] / min(along.scale, 1.0) <= _MAX_TAPS


def _filter(mode: str, scale: float) -> tuple[float, range]:
    """Return how much the taps' distances are scaled to filter, and where taps lie behind the first one."""
    stretch = min(scale, 1.0)
    return stretch, range(math.ceil(2 * _SUPPORT[mode] / stretch) + (stretch < 1))


def resampled_at_run(
    x: Symbol, mode: str, coordinates: str, nearest: str, coefficient: float, excludes: bool, antialiases: bool,
    along: SymbolicAxis,
) -> Symbol:  # fmt: skip
    """Resize one axis by taps that are computed when the graph runs. antialiases: for what `filters_at_run`."""
    graph, axis, trailing = x.graph, along.axis, len(x.shape) - 1 - along.axis
    where = _origins(graph, coordinates, along).cast(float64)
    last = apply("sub", _float(graph, along.size, float64), 1.0)

    def taken(positions: Symbol) -> Symbol:
        inside = apply("maximum", apply("minimum", positions, last), 0.0)
        return apply("gather", x, inside.cast(int64), axis=axis)

    if mode == "nearest":
        rounding, shift = _ROUNDINGS[nearest]
        return taken(apply(rounding, apply("add", where, shift) if shift else where))
    first, offsets, stretch = apply("floor", where), _TAPS[mode], 1.0
    if antialiases and along.scale is not None:
        stretch, offsets = _filter(mode, along.scale)
        first = apply("add", apply("floor", apply("sub", where, _SUPPORT[mode] / stretch)), 1.0)
    parts: list[tuple[Symbol, Symbol]] = []
    for offset in offsets:
        position = apply("add", first, float(offset))
        distance = apply("sub", position, where)
        weight = _weight(mode, coefficient, distance if stretch == 1 else apply("mul", distance, stretch))
        if excludes:
            outside = apply("logical_or", apply("less", position, 0.0), apply("greater", position, last))
            weight = apply("where", outside, 0.0, weight)
        parts.append((position, weight))
    total = parts[0][1]
    for _, weight in parts[1:]:
        total = apply("add", total, weight)
    result: Symbol | None = None
    for position, weight in parts:
        share = apply("div", weight, total) if excludes or antialiases else weight
        term = apply("mul", taken(position), share.cast(x.dtype).reshape((along.count, *(1,) * trailing)))
        result = term if result is None else apply("add", result, term)
    assert result is not None
    return result
