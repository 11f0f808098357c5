"""Handles reading images between their pixels at a grid of positions, and its gradients for images and grid."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from .....promotion.dataclass import dataclass
from .....promotion.dtype import DType, float32, float64
from ....construction import primitives
from ....dims.dim import Extent, product
from ....functions import reductions
from ....functions.building import apply
from ....functions.joining import concat
from ....functions.spatial.sampling import (
    Image,
    clamped,
    cubic_taps,
    image_of,
    linear_taps,
    number,
    reflected,
    sampled,
)
from ....symbol import Symbol
from ...node import Node
from ...registry import handles
from ..scattering import written

_MODES = ("linear", "nearest", "cubic")
_OUTSIDE = ("zeros", "border", "reflection")


@dataclass(frozen=True, slots=True, eq=False)
class Tap:
    """Whole positions along one axis.

    Attributes:
        at: the positions, clamped into the image when they are read.
        weight: the share that each has.
        slope: the derivative of the share by the coordinate of the grid.
    """

    at: Symbol
    weight: Symbol
    slope: Symbol


def _work(x: Symbol, grid: Symbol) -> DType:
    return float64 if float64 in (x.dtype, grid.dtype) else float32


@handles("grid_sampler_2d.default", "grid_sampler_3d.default")
def grid_sampler(
    node: Node, x: Symbol, grid: Symbol, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Symbol:
    """Sample images at a grid; 16-bit floats are computed in float32."""
    if 0 in node.shape:
        return node.broadcast(node.number(0.0, node.dtype))
    return sampled(x, grid, _MODES[interpolation_mode], _OUTSIDE[padding_mode], align_corners, False)


@handles("grid_sampler_2d_backward.default", "grid_sampler_3d_backward.default")
def grid_sampler_backward(
    node: Node, grad_output: Symbol, x: Symbol, grid: Symbol, interpolation_mode: int, padding_mode: int, align_corners: bool,
    output_mask: tuple[bool, ...],
) -> tuple[Symbol | None, Symbol | None]:  # fmt: skip
    """Add what each sample got to the pixels that it is of, and return by how much it changes with its position."""
    wants_image, wants_grid = output_mask
    mode, outside = _MODES[interpolation_mode], _OUTSIDE[padding_mode]
    work, rank = _work(x, grid), len(x.shape) - 2
    if 0 in (*x.shape, *grad_output.shape):
        nothing = [node.broadcast(node.number(0.0, each.dtype), each.shape) for each in (x, grid)]
        return nothing[0] if wants_image else None, nothing[1] if wants_grid else None
    count = product(grid.shape[1:-1])
    flat = primitives.reshape(grid.cast(work), (grid.shape[0], count, rank))
    image = image_of(x.cast(work), False)
    grad = primitives.reshape(grad_output.cast(work), (*x.shape[:2], count))
    taps = [_taps(flat[:, :, rank - 1 - axis], mode, outside, size, align_corners) for axis, size in enumerate(image.sizes)]
    chosen = list(itertools.product(*taps))
    inside = [image.inside([tap.at for tap in each]) if outside == "zeros" else None for each in chosen]
    to_image = _to_image(node, image, grad, chosen, inside) if wants_image else None
    to_grid = None
    if wants_grid and mode == "nearest":
        to_grid = node.broadcast(node.number(0.0, grid.dtype), grid.shape)
    elif wants_grid:
        to_grid = primitives.reshape(_to_grid(image, grad, chosen, inside), grid.shape).cast(grid.dtype)
    return None if to_image is None else primitives.reshape(to_image, x.shape).cast(x.dtype), to_grid


def _weights(taps: Sequence[Tap], without: int | None = None) -> Symbol:
    """Return the product of the shares of taps; of one axis the slope stands for it."""
    found: Symbol | None = None
    for axis, tap in enumerate(taps):
        factor = tap.slope if axis == without else tap.weight
        found = factor if found is None else apply("mul", found, factor)
    assert found is not None
    return found


def _to_image(
    node: Node, image: Image, grad: Symbol, chosen: Sequence[Sequence[Tap]], inside: Sequence[Symbol | None]
) -> Symbol:
    """Add the shares of gradients (N, C, L) at their pixels, of all taps in one scatter."""
    positions, shares = [], []
    for taps, holds in zip(chosen, inside, strict=True):
        weight = _weights(taps)
        positions.append(image.linear([tap.at for tap in taps]))
        shares.append(weight if holds is None else apply("where", holds, weight, 0.0))
    images, channels, _ = grad.shape
    at = concat(positions, 1) if len(positions) > 1 else positions[0]
    share = concat(shares, 1) if len(shares) > 1 else shares[0]
    samples = at.shape[1]
    wide = node.broadcast(primitives.reshape(at, (images, 1, samples)), (images, channels, samples))
    many = concat([grad] * len(positions), 2) if len(positions) > 1 else grad
    values = apply("mul", many, primitives.reshape(share, (images, 1, samples)))
    start = node.broadcast(node.number(0.0, grad.dtype), image.values.shape)
    return written(start, wide, values, 2, "add")


def _to_grid(image: Image, grad: Symbol, chosen: Sequence[Sequence[Tap]], inside: Sequence[Symbol | None]) -> Symbol:
    """Return (N, L, d): how the results change with each coordinate, weighted by their gradients."""
    axes = range(len(image.sizes))
    totals: list[Symbol | None] = [None for _ in axes]
    for taps, holds in zip(chosen, inside, strict=True):
        share = reductions.sum_(apply("mul", grad, image.pixels([tap.at for tap in taps])), 1)
        share = share if holds is None else apply("where", holds, share, 0.0)
        for axis in axes:
            term, before = apply("mul", share, _weights(taps, axis)), totals[axis]
            totals[axis] = term if before is None else apply("add", before, term)
    found = [each for each in reversed(totals) if each is not None]
    return concat([primitives.reshape(each, (*each.shape, 1)) for each in found], 2)


# -- coordinates -------------------------------------------------------------------------------------------------------


def _taps(grid: Symbol, mode: str, outside: str, size: Extent, align_corners: bool) -> list[Tap]:
    """Return the taps of coordinates (N, L) from -1 to 1 along one axis."""
    shifted = apply("add", grid, 1.0)
    if align_corners:
        where = apply("mul", apply("div", shifted, 2.0), number(shifted, size, 1.0, -1.0))
        factor = number(shifted, size, 0.5, -0.5)
        low, span = 0.0, number(shifted, size, 1.0, -1.0)
    else:
        where = apply("div", apply("sub", apply("mul", shifted, number(shifted, size)), 1.0), 2.0)
        factor = number(shifted, size, 0.5)
        low, span = -0.5, number(shifted, size)
    slope = apply("mul", apply("add", apply("mul", grid, 0.0), 1.0), factor)
    if mode == "cubic":
        return _cubic(where, slope, outside, low, span)
    if outside == "reflection":
        slope = apply("mul", slope, _direction(where, low, span))
        where = reflected(where, low, span)
    if outside != "zeros":
        last = number(where, size, 1.0, -1.0)
        holds = apply("logical_and", apply("greater", where, 0.0), apply("less", where, last))
        slope = apply("where", holds, slope, 0.0)
        where = clamped(where, size - 1)
    if mode == "nearest":
        return [Tap(apply("round", where), apply("add", apply("mul", slope, 0.0), 1.0), slope)]
    (low_at, low_weight), (high_at, high_weight) = linear_taps(where)
    return [Tap(low_at, low_weight, apply("negate", slope)), Tap(high_at, high_weight, slope)]


def _direction(where: Symbol, low: float, span: float | Symbol) -> Symbol:
    """Return 1 where a coordinate grows with the one that it is reflected to, -1 where it falls, 0 in ranges without length."""
    from_low = apply("sub", where, low)
    sign = apply("where", apply("less", from_low, 0.0), -1.0, 1.0)
    if not isinstance(span, Symbol) and span <= 0:
        return apply("mul", sign, 0.0)
    safe = span if not isinstance(span, Symbol) else apply("where", apply("less_equal", span, 0.0), 1.0, span)
    flips = apply("floor", apply("div", apply("abs", from_low), safe))
    is_odd = apply("not_equal", apply("mod", flips, 2.0), 0.0)
    found = apply("where", is_odd, apply("negate", sign), sign)
    return apply("where", apply("less_equal", span, 0.0), 0.0, found) if isinstance(span, Symbol) else found


def _cubic(where: Symbol, slope: Symbol, outside: str, low: float, span: float | Symbol) -> list[Tap]:
    """Return four taps with Keys' weights, a = -3/4; reflecting what is read does not change how shares grow."""
    a = -0.75
    part = apply("sub", where, apply("floor", where))
    found = []
    for offset, (at, weight) in zip((-1, 0, 1, 2), cubic_taps(where), strict=True):
        distance = apply("abs", apply("sub", part, float(offset)))
        if offset in (0, 1):  # (3 (a + 2) d - 2 (a + 3)) d
            steep = apply("mul", apply("sub", apply("mul", distance, 3 * (a + 2)), 2 * (a + 3)), distance)
        else:  # (3a d - 10a) d + 8a
            steep = apply("add", apply("mul", apply("sub", apply("mul", distance, 3 * a), 10 * a), distance), 8 * a)
        toward = 1.0 if offset <= 0 else -1.0  # whether the distance grows
        position = reflected(at, low, span) if outside == "reflection" else at
        found.append(Tap(position, weight, apply("mul", apply("mul", steep, slope), toward)))
    return found
