"""Reduces rows of a block that lie far apart in memory, a few of them at a time, whose results are kept in scratch.

A loop over all rows for each register of columns keeps results in registers, but reads a cache line of each row in turn. Of
many rows no processor fetches the next lines ahead, and rows that lie a multiple of 4096 bytes apart fall into the same sets.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from ...values import V
from ..evaluate import Evaluator
from ..loops.coordinates import Bound, Coordinate, Coordinates, reads_memory
from ..loops.loop_nests import LoopNests
from ..loops.vector_loop import vector_loop
from ..nodes import Map, Node, Stored
from ..scalars import ZERO
from ..scratch.unwritten_lanes import clear_unwritten
from .combine import Combine
from .extremes import all_joined, joined

ROWS = 8
"""Rows that are read side by side: sums are loaded and stored once for all of them."""
MIN_VECTORS = 4
"""Registers of columns from which on a pass over all rows for each of them is slow."""


def are_groups_better(sources: Sequence[Node], columns: int, lanes_: int) -> bool:
    """Returns whether rows come from memory and are long."""
    return columns >= MIN_VECTORS * lanes_ and any(reads_memory(source, scratch=False) for source in sources)


def reduce_in_groups(
    nests: LoopNests, sources: Sequence[Node], axis: int, inner: int, combine: Combine, bounds: Sequence[Bound],
    starts: Sequence[V], fills: Sequence[V], memories: Sequence[Stored], saved: Sequence[tuple[Map, Stored]], n: int,
    steps: int | None,
) -> None:  # fmt: skip
    """Writes the reductions along `axis` to scratch; every lane reduces its own column, in the order of a loop over all rows.

    starts: what a reduction begins with. fills: what lanes outside of the bounds have. n: the lanes of a vector.
    steps: the number of rows, `ROWS` to twice as many, if these are combined as a tree.
    """
    ev, f, shape = nests.ev, nests.ev.f, sources[0].shape
    kept = [d for d in range(len(shape)) if d != axis]
    count, implied = ev.extent(shape[axis], bounds, axis)
    with ExitStack() as stack:
        outer = nests.outer(stack, shape, (axis, inner), bounds, ())

        def visit(work: Callable[[Coordinate, Coordinates, V | None], list[V]]) -> None:
            """Writes what `work` makes at each vector of columns to the results there."""

            def column(coordinate: Coordinate, mask: V | None, _: list[V]) -> list[V]:
                here = tuple([coordinate if d == inner else outer[d] for d in kept])
                found = work(coordinate, here, mask)
                if mask is not None:  # a later reduction may read the lanes outside
                    outside = [f.splat(fill, coordinate.lanes) for fill in fills]
                    found = [f.select(mask, value, fill) for value, fill in zip(found, outside, strict=True)]
                for memory, value in zip(memories, found, strict=True):
                    ev.write_scratch(memory, here, value)
                return []

            vector_loop(ev, shape[inner], bounds, inner, n, 1, column)

        def rows(first: V, number: int, is_first: bool = False) -> None:
            loop = ev.open_loop(implied)

            def work(coordinate: Coordinate, here: Coordinates, mask: V | None) -> list[V]:
                found: list[list[V]] = []
                for row in range(number):
                    position = Coordinate(first, row, 1, loop)
                    at = tuple([coordinate if d == inner else position if d == axis else c for d, c in enumerate(outer)])
                    for node, memory in saved:
                        ev.write_scratch(memory, at, ev.at(node, at, mask))
                    found.append([f.splat(ev.at(source, at, mask), coordinate.lanes) for source in sources])
                before = [] if is_first else [[f.splat(ev.at(memory, here, mask), coordinate.lanes) for memory in memories]]
                found = [*before, *found] if steps is None else [*before, all_joined(nests, combine, found)]
                return functools.reduce(lambda a, b: joined(nests, combine, a, b), found)

            visit(work)

        if steps is not None:
            rows(ZERO, ROWS, is_first=True)
            rows(ev.s.constant(ROWS), steps - ROWS)
        else:
            visit(lambda coordinate, _here, _mask: [f.splat(value, coordinate.lanes) for value in starts])
            whole = ev.s.round_down(count, ROWS)
            with f.loop(0, whole, ROWS) as state, ev.scope():
                rows(state.index, ROWS)
            with f.loop(whole, count, 1) as state, ev.scope():
                rows(state.index, 1)
        clear_beyond_columns(ev, saved, outer, axis, inner, bounds, n)


def clear_beyond_columns(
    ev: Evaluator, saved: Sequence[tuple[Map, Stored]], outer: Sequence[Coordinate | None], axis: int, inner: int,
    bounds: Sequence[Bound], n: int,
) -> None:  # fmt: skip
    """Clears what loops read of the rows of scratch that a reduction along `axis` has written, beyond the bounds of `inner`.

    outer: the coordinates of all other dimensions. n: the lanes in which rows were written.
    """
    if not saved or not any(bound.dim == inner for bound in bounds):
        return
    memories = [memory for _, memory in saved]
    extent = memories[0].shape[axis]
    count, implied = ev.extent(extent, bounds, axis)
    with ev.dimension(extent, count, implied) as position:
        rows = [position if d == axis else coordinate for d, coordinate in enumerate(outer)]
        clear_unwritten(ev, memories, rows, inner, bounds, n)
