"""Defines reading images between their pixels, at positions that are data."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ....promotion.dataclass import dataclass
from ....promotion.dtype import float32, float64, int64
from ...construction import primitives
from ...dims.dim import Extent, product
from ...errors import describing, mistake
from ...graph import graph_of
from ...protocols import TensorLike
from ...symbol import Symbol
from ...types import shape_text
from ..building import apply, as_floats

Taps = Sequence[tuple[Symbol, Symbol]]
"""Whole positions along one axis, each with its weight."""
MODES = ("linear", "nearest", "cubic")
OUTSIDE = ("zeros", "border", "reflection")


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """Images whose axes of space are one.

    Attributes:
        values: (N, C, P), or (N, P, C) where channels are last.
        sizes: the axes of space, of which P is the product.
    """

    values: Symbol
    sizes: tuple[Extent, ...]
    channels_last: bool

    def beside(self, x: Symbol) -> Symbol:
        """Return one number for each pixel (N, L) in a form that broadcasts over channels."""
        return primitives.reshape(x, (*x.shape, 1) if self.channels_last else (x.shape[0], 1, x.shape[1]))

    def linear(self, positions: Sequence[Symbol]) -> Symbol:
        """Return which pixels (N, L) are at whole positions along each axis, clamped into range: positions along one axis."""
        found: Symbol | None = None
        for size, position in zip(self.sizes, positions, strict=True):
            index = clamped(position, size - 1).cast(int64)
            found = index if found is None else apply("add", apply("mul", found, _whole(found, size)), index)
        assert found is not None
        return found

    def pixels(self, positions: Sequence[Symbol]) -> Symbol:
        """Return the pixels at whole positions (N, L) along each axis, clamped into range; channels lie where they do."""
        at = self.beside(self.linear(positions))
        return apply("take_along_axis", self.values, at, axis=1 if self.channels_last else 2)

    def inside(self, positions: Sequence[Symbol]) -> Symbol:
        """Return whether positions lie inside the image."""
        found: Symbol | None = None
        for size, position in zip(self.sizes, positions, strict=True):
            last = number(position, size - 1)
            here = apply("logical_and", apply("greater_equal", position, 0.0), apply("less_equal", position, last))
            found = here if found is None else apply("logical_and", found, here)
        assert found is not None
        return found

    def weighted(self, taps: Sequence[Taps], zeros: bool) -> Symbol:
        """Return the sum over all combinations of taps, one of each axis; with `zeros`, nothing lies outside."""
        total: Symbol | None = None
        for combination in itertools.product(*taps):
            positions = [position for position, _ in combination]
            weight = combination[0][1]
            for _, other in combination[1:]:
                weight = apply("mul", weight, other)
            if zeros:
                weight = apply("where", self.inside(positions), weight, 0.0)
            wide = self.beside(weight).cast(self.values.dtype)
            term = apply("mul", self.pixels(positions), wide)
            if zeros:  # a pixel that does not count may be infinite
                term = apply("where", apply("equal", wide, 0.0), 0.0, term)
            total = term if total is None else apply("add", total, term)
        assert total is not None
        return total


def image_of(x: Symbol, channels_last: bool) -> Image:
    """Return a tensor (N, …, C) or (N, C, …) as images."""
    sizes = x.shape[1:-1] if channels_last else x.shape[2:]
    flat = (x.shape[0], product(sizes), x.shape[-1]) if channels_last else (*x.shape[:2], product(sizes))
    return Image(primitives.reshape(x, flat), tuple(sizes), channels_last)


def number(like: Symbol, extent: Extent, factor: float = 1.0, offset: float = 0.0) -> float | Symbol:
    """Return extent · factor + offset in the dtype of a symbol; a float where the extent is known."""
    if isinstance(extent, int):
        return extent * factor + offset
    found = like.graph.dim_value(extent).cast(like.dtype)
    found = found if factor == 1 else apply("mul", found, factor)
    return found if offset == 0 else apply("add", found, offset)


def _whole(x: Symbol, extent: Extent) -> int | Symbol:
    return extent if isinstance(extent, int) else x.graph.dim_value(extent)


def clamped(x: Symbol, last: Extent) -> Symbol:
    """Return positions that are 0 or more, and at most `last`."""
    return apply("minimum", apply("maximum", x, 0.0), number(x, last))


def linear_taps(where: Symbol) -> list[tuple[Symbol, Symbol]]:
    """Return the two neighbours of a coordinate with their weights."""
    low = apply("floor", where)
    part = apply("sub", where, low)
    return [(low, apply("sub", 1.0, part)), (apply("add", low, 1.0), part)]


def cubic_taps(where: Symbol) -> list[tuple[Symbol, Symbol]]:
    """Return the four neighbours of a coordinate with Keys' weights."""
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


def reflected(where: Symbol, low: float, span: float | Symbol) -> Symbol:
    """Reflect coordinates at both ends of a range until they lie inside."""
    if isinstance(span, (int, float)):
        if span <= 0:
            return apply("mul", where, 0.0)
        twice: float | Symbol = 2 * span
        safe = twice
    else:
        twice = apply("mul", span, 2.0)
        safe = apply("where", apply("less_equal", twice, 0.0), 1.0, twice)
    rest = apply("mod", apply("abs", apply("sub", where, low)), safe)
    found = apply("add", apply("minimum", rest, apply("sub", twice, rest)), low)
    return found if safe is twice else apply("where", apply("less_equal", twice, 0.0), 0.0, found)


def _taps(where: Symbol, mode: str, outside: str, size: Extent, align_corners: bool) -> Taps:
    low, span = (0.0, number(where, size, 1.0, -1.0)) if align_corners else (-0.5, number(where, size))
    if mode != "cubic":
        if outside == "reflection":
            where = reflected(where, low, span)
        if outside != "zeros":
            where = clamped(where, size - 1)
        if mode == "nearest":
            rounded = apply("round", where)
            return [(rounded, rounded)]
        return linear_taps(where)
    taps = cubic_taps(where)
    if outside == "reflection":
        return [(reflected(position, low, span), weight) for position, weight in taps]
    return taps


def sampled(x: Symbol, grid: Symbol, mode: str, outside: str, align_corners: bool, channels_last: bool) -> Symbol:
    """Sample images at a grid (N, …, d) of coordinates from -1 to 1, the last axis of the images first."""
    rank = len(x.shape) - 2
    work = float64 if float64 in (grid.dtype, x.dtype) else float32
    flat = primitives.reshape(grid.cast(work), (grid.shape[0], product(grid.shape[1:-1]), rank))
    image = image_of(x.cast(work) if x.dtype.is_float else x, channels_last)
    taps = []
    for axis, size in enumerate(image.sizes):
        shifted = apply("add", flat[:, :, rank - 1 - axis], 1.0)
        if align_corners:
            where = apply("mul", apply("div", shifted, 2.0), number(shifted, size, 1.0, -1.0))
        else:
            where = apply("div", apply("sub", apply("mul", shifted, number(shifted, size)), 1.0), 2.0)
        taps.append(_taps(where, mode, outside, size, align_corners))
    if mode == "nearest":
        positions = [axis[0][0] for axis in taps]
        found = image.pixels(positions)
        if outside == "zeros":
            nothing = 0.0 if found.dtype.is_float else False if found.dtype.is_bool else 0
            found = apply("where", image.beside(image.inside(positions)), found, nothing)
    else:
        found = image.weighted(taps, outside == "zeros")
    counts = grid.shape[1:-1]
    shape = (x.shape[0], *counts, x.shape[-1]) if channels_last else (*x.shape[:2], *counts)
    return primitives.reshape(found, shape).cast(x.dtype)


def grid_sample(
    x: TensorLike, grid: TensorLike, mode: str = "linear", padding_mode: str = "zeros", align_corners: bool = False
) -> Symbol:
    """Sample images (N, …, C) at the positions of a grid, as ONNX's GridSample and torch's grid_sample, with channels last.

    Args:
        x: (N, …, C) with d axes of space, of any dtype for mode "nearest"; other modes compute with floats, 16 bits in float32,
            and integers become the rule set's default float. The result has its dtype.
        grid: (N, …, d), floats: for each element of the result its position, from -1 to 1 across the image; its last number is
            that of the first axis of space (x before y).
        mode: "linear" (between 2ᵈ pixels), "nearest", or "cubic" (between 4ᵈ).
        padding_mode: what lies outside: "zeros", the "border" repeated, or the image mirrored ("reflection").
        align_corners: whether -1 and 1 are the centers of the outer pixels, or else their outer edges.

    Sizes may be symbolic. Raises `UserError` for a grid of other axes, and for modes that do not exist.

    Example:
        >>> g = jn.Graph("g", [jn.TensorType(jn.float32, ("n", 8, 8, 3), "x"), jn.TensorType(jn.float32, ("n", 4, 5, 2), "p")])
        >>> jn.grid_sample(*g.inputs).shape
        (Dim('n'), 4, 5, 3)
    """
    op = "grid_sample"
    graph = graph_of(op, x, grid)
    value = graph.as_symbol(x, op)
    result = value.dtype
    if mode != "nearest":
        result, (value,) = as_floats(op, value)
    _, (points,) = as_floats(op, graph.as_symbol(grid, op))
    for name, given, choices in (("mode", mode, MODES), ("padding_mode", padding_mode, OUTSIDE)):
        if given not in choices:
            raise mistake(op, f"{name} is {given!r:.40}", (value, points), " or ".join(choices), f"{name}={choices[0]!r}")
    rank = len(value.shape) - 2
    if rank < 1 or len(points.shape) != rank + 2 or points.shape[-1] != rank:
        what = f"a grid {shape_text(points.shape)} for images {shape_text(value.shape)}"
        expected = f"(N, …, C), and (N, …, {max(rank, 1)}) of as many axes"
        raise mistake(op, what, (value, points), expected, "permute channels last")
    _same_batch(op, value, points)
    if any(extent == 0 for extent in value.shape[1:-1]):
        raise mistake(op, f"images {shape_text(value.shape)}", (value, points), "pixels to sample", "check the image")
    return primitives.cast(sampled(value, points, mode, padding_mode, bool(align_corners), True), result)


def _same_batch(op: str, one: Symbol, other: Symbol) -> None:
    if one.graph.shape_checks.decide(one.shape[0], other.shape[0]) is False:
        raise mistake(op, f"{one.shape[0]} images and a grid for {other.shape[0]}", (one, other), "one for each", "slice one")
    with describing(op, one, other):
        one.graph.shape_checks.require_equal(one.shape[0], other.shape[0], "the number of images and of grids")
