"""Runs reductions and scans over values with shadows, in the interpreter's order, with the region run on
both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter

import numpy as np
from xdsl.ir import Operation

from ....promotion.arrays import Array
from ..analysis.combining import prefix_moves
from ..dialect.attributes import property_number
from ..interpret.machine import Value
from ..transforms.folding import is_pure
from ..types import numpy_dtype
from .shadow import Frame, Shadow, restructured, tidy

Shadowed = tuple[list[Value], list[Shadow | None]]
Carried = Callable[[Frame, Sequence[Value], Sequence["Shadow | None"]], Shadowed]
Combine = Callable[[Frame, Shadowed, Shadowed], Shadowed]
Reduction = Callable[[Operation, Frame, Combine, list[Value], list["Shadow | None"]], Shadowed]


def combined(body: Carried, has_control_flow: bool) -> Combine:
    """Returns the region as a function of whole arrays of left and right values, which runs element by
    element if the region has control flow."""

    def whole(env: Frame, left: Shadowed, right: Shadowed) -> Shadowed:
        values, shadows = body(env, [*left[0], *right[0]], [*left[1], *right[1]])
        shapes = [operand.shape for operand in left[0]]
        spread = [np.broadcast_to(value, shape) for value, shape in zip(values, shapes, strict=True)]
        return spread, [_spread(shadow, shape) for shadow, shape in zip(shadows, shapes, strict=True)]

    def single(env: Frame, left: Shadowed, right: Shadowed) -> Shadowed:
        out = [np.empty_like(operand) for operand in left[0]]
        known: list[dict[tuple[int, ...], Shadow]] = [{} for _ in out]
        for index in np.ndindex(left[0][0].shape):
            values, shadows = body(
                env,
                [operand[index] for operand in (*left[0], *right[0])],
                [_at(s, index) for s in (*left[1], *right[1])],
            )
            for target, table, value, shadow in zip(out, known, values, shadows, strict=True):
                target[index] = value
                if shadow is not None:
                    table[index] = shadow
        return out, [_collected(table, target) for table, target in zip(known, out, strict=True)]

    return single if has_control_flow else whole


def _spread(shadow: Shadow | None, shape: tuple[int, ...]) -> Shadow | None:
    return None if shadow is None else shadow.mapped(lambda x: np.broadcast_to(x, shape))


def _at(shadow: Shadow | None, index: tuple[int, ...]) -> Shadow | None:
    return None if shadow is None else tidy(shadow.mapped(lambda x: np.asarray(x[index])))


def _collected(table: dict[tuple[int, ...], Shadow], target: Array) -> Shadow | None:
    if not table:
        return None
    poison, wrap = np.zeros(target.shape, np.int32), np.zeros(target.shape, np.int32)
    exact = (
        np.asarray(target).astype(np.int64) if target.dtype.kind == "i" else np.zeros(target.shape, np.int64)
    )
    for index, shadow in table.items():
        poison[index] = 0 if shadow.poison is None else shadow.poison
        if shadow.wrap is not None and shadow.exact is not None:
            wrap[index], exact[index] = shadow.wrap, shadow.exact
    return tidy(Shadow(poison, wrap, exact))


def _picked(shadowed: Shadowed, function: Callable[[Value], Value]) -> Shadowed:
    values, shadows = shadowed
    return [function(v) for v in values], [None if s is None else s.mapped(function) for s in shadows]


def reduced(
    op: Operation, env: Frame, combine: Combine, values: list[Value], shadows: list[Shadow | None]
) -> Shadowed:
    """Runs `tt.reduce`: combines neighbours, as a balanced tree."""
    axis = property_number(op, "axis")
    now = _picked((values, shadows), lambda x: np.moveaxis(x, axis, 0))
    while len(now[0][0]) > 1:
        now = combine(env, _picked(now, lambda x: x[0::2]), _picked(now, lambda x: x[1::2]))
    values, shadows = _picked(now, lambda x: x[0])
    return values, [None if s is None else tidy(s.mapped(np.asarray)) for s in shadows]


def scanned(
    op: Operation, env: Frame, combine: Combine, values: list[Value], shadows: list[Shadow | None]
) -> Shadowed:
    """Runs `tt.scan` level by level, as `prefix_moves` says."""
    axis, reverse = property_number(op, "axis"), bool(property_number(op, "reverse"))
    now = _picked((values, shadows), lambda x: np.moveaxis(x, axis, 0))
    if reverse:
        now = _picked(now, lambda x: x[::-1])
    length = 1
    while length < len(now[0][0]):
        before, behind = prefix_moves(len(now[0][0]), length)
        sums = combine(env, _picked(now, itemgetter(before)), _picked(now, itemgetter(behind)))
        put = partial(_replaced, behind)
        now = (
            [put(*pair) for pair in zip(now[0], sums[0], strict=True)],
            [restructured(put, [v, w], [a, b]) for v, w, a, b in zip(now[0], sums[0], now[1], sums[1], strict=True)],
        )
        length *= 2
    if reverse:
        now = _picked(now, lambda x: x[::-1])
    return _picked(now, lambda x: np.moveaxis(x, 0, axis))


def mapped(op: Operation, env: Frame, body: Carried, values: list[Value], shadows: list[Shadow | None]) -> Shadowed:
    """Runs `tt.map_elementwise`: `pack` elements at a time, in row-major order."""
    pack, shape = property_number(op, "pack"), np.shape(values[0])
    if pack == 1 and all(is_pure(type(inner)) and not inner.regions for inner in op.regions[0].walk()):
        found, known = body(env, values, shadows)
        spread = [np.broadcast_to(value, shape) for value in found]
        return spread, [_spread(shadow, shape) for shadow in known]
    groups = [np.asarray(value).reshape(-1, pack) for value in values]
    of_groups = [None if shadow is None else shadow.mapped(lambda x: x.reshape(-1, pack)) for shadow in shadows]
    outs = [np.empty((len(groups[0]), pack), numpy_dtype(result.type)) for result in op.results]
    tables: list[dict[tuple[int, ...], Shadow]] = [{} for _ in outs]
    for index in range(len(groups[0])):
        positions = [(index, position) for position in range(pack)]
        found, known = body(
            env,
            [group[position] for group in groups for position in positions],
            [_at(shadow, position) for shadow in of_groups for position in positions],
        )
        for number, (value, shadow) in enumerate(zip(found, known, strict=True)):
            position = positions[number % pack]
            outs[number // pack][position] = value
            if shadow is not None:
                tables[number // pack][position] = shadow
    collected = [_collected(table, out) for table, out in zip(tables, outs, strict=True)]
    back = [None if shadow is None else shadow.mapped(lambda x: x.reshape(shape)) for shadow in collected]
    return [out.reshape(shape) for out in outs], back


def _replaced(positions: Array, x: Array, y: Array) -> Array:
    found = np.array(x)
    found[positions] = y
    return found


__all__ = ["Carried", "Reduction", "Shadowed", "combined", "mapped", "reduced", "scanned"]
