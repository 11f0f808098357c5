"""Emits the loop over the innermost dimension of a nest, in vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...values import V, integer, is_integer
from ..evaluate import Evaluator
from ..scalars import ZERO, is_constant
from .coordinates import Bound, Coordinate

Body = Callable[[Coordinate, V | None, list[V]], list[V]]
"""Takes a position, the lanes to visit (None: all) and the carried values; returns the new ones."""


class Pieces(NamedTuple):
    """How a long loop is cut: at most so many positions are carried from one to the next, each piece begins with what the loop
    is given, and `join` makes what is carried of all pieces before, of this one, and of where it begins."""

    length: int
    join: Callable[[list[V], list[V], V], list[V]]


def vector_loop(
    ev: Evaluator,
    size: int,
    bounds: Sequence[Bound],
    dim: int,
    n: int,
    unroll: int,
    body: Body,
    carry: Sequence[V] = (),
    start: V = ZERO,
    beyond: bool = False,
    once: bool = False,
    rest: int = 0,
    pieces: Pieces | None = None,
) -> list[list[V]]:
    """Visits one dimension in vectors of `n` lanes, `unroll` at a time, each with its own copy of the carried values.

    Positions before `start`, which is at most their number, and the rest are visited vector by vector under a lane mask.
    beyond: positions beyond the bounds may be visited as well, as far as the dimension goes, so that no rest is left.
    once: the body is long: if the bounds are not known there is one loop under lane masks, and none for the rest.
    rest: the lanes under a mask, if fewer; nothing is carried then.
    pieces: where the dimension is known, and longer; what is left over is carried from the last one on.
    Returns the final copies.
    """
    f, s = ev.f, ev.s
    rest = rest or n
    count, implied = ev.extent(size, bounds, dim)
    unroll = min(unroll, max(1, size // n))  # an iteration over more vectors than there are would never run
    step = n * unroll
    is_whole = beyond and is_integer(start, 0) and not is_constant(count) and size % step == 0 and step & (step - 1) == 0
    if is_whole:
        count = s.round_down(s.add(count, s.constant(step - 1)), step)
    loop = ev.open_loop(implied)
    copies = [list(carry) for _ in range(unroll)]

    def masked(low: V, high: V) -> None:
        with f.loop(low, high, rest, copies[0]) as state, ev.scope():
            mask = None if rest == 1 else ev.lane_mask(state.index, high, rest)
            state.next = body(Coordinate(state.index, 0, rest, loop), mask, list(state.values))
        copies[0] = list(state.results)

    if not is_integer(start, 0):
        masked(ZERO, start)
    elif once and not is_whole and not is_constant(count):
        masked(ZERO, count)
        return copies
    static = count.number if is_constant(count) and is_integer(start, 0) else None
    if static is not None and 0 < static < step:
        unroll = max(1, static // n)
        step = n * unroll
    left = s.sub(count, start)
    if not is_whole:
        left = s.round_down(left, step) if step & (step - 1) == 0 else s.mul(s.floor_div(left, step), s.constant(step))
    main = s.add(start, left)
    if not is_integer(main, 0):
        width, count_of = len(carry), len(copies)

        def visited(low: V, high: V, flat: Sequence[V]) -> list[V]:
            with f.loop(low, high, step, flat, at_least_once=static is not None) as state, ev.scope():
                following: list[V] = []
                for u in range(count_of):
                    mine = state.values[u * width : (u + 1) * width]
                    if u < unroll:
                        mine = body(Coordinate(state.index, u * n, n, loop), None, mine)
                    following += mine
                state.next = following
            return list(state.results)

        flat = [v for copy in copies for v in copy]
        piece = 0 if pieces is None else max(1, pieces.length // step) * step
        if pieces is None or static is None or integer(main) <= piece:
            flat = visited(start, main, flat)
        else:
            with f.loop(start, main, piece, flat, at_least_once=True) as outer, ev.scope():
                high = s.min(s.add(outer.index, s.constant(piece)), main)
                found = visited(outer.index, high, [*carry] * count_of)
                joined = [(outer.values[i : i + width], found[i : i + width]) for i in range(0, len(found), width)]
                outer.next = [v for one, other in joined for v in pieces.join(list(one), list(other), outer.index)]
            flat = list(outer.results)
        copies = [flat[u * width : (u + 1) * width] for u in range(count_of)]
    if is_whole:
        return copies
    if static is None:
        masked(main, count)
        return copies
    for first in range(integer(main), static, rest):
        with ev.scope():
            here = Coordinate(s.constant(first), 0, rest, loop)
            mask = None if static - first >= rest else ev.lane_mask(here.at, s.constant(static), rest)
            copies[0] = body(here, mask, copies[0])
    return copies
