"""Clears lanes of scratch that no loop has written and a wider loop will read.

A loop that visits a row under a limit writes as many whole registers as that takes. Another one, whose registers have more
lanes or which takes two at a time, then works on lanes beyond. Nobody reads the results, but what the stack held before,
integers and addresses, are denormal numbers as floats, which take processors a hundred times as long: a causal attention of
17 tokens took five times as long after some calls as after others.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...values import V, integer, vector, zero
from ..evaluate import Evaluator
from ..loops.coordinates import ORIGIN, Bound, Coordinate, Coordinates, memory_size_of
from ..nodes import Stored
from ..scalars import ZERO, is_constant


def clear_unwritten(
    ev: Evaluator, memories: Sequence[Stored], here: Sequence[Coordinate | None], dim: int, bounds: Sequence[Bound], lanes: int
) -> None:  # fmt: skip
    """Clears rows that were written in registers of so many lanes, from there on as far as the widest loops read.

    here: where the rows are, with nothing for `dim`, along which they run.
    """
    memories = [memory for memory in memories if memory.memory in ("float", "double") and memory.strides[dim] == 1]
    if lanes == 1 or not memories or not any(bound.dim == dim for bound in bounds):
        return
    s, size = ev.s, memories[0].shape[dim]
    count = s.max(ev.extent(size, bounds, dim)[0], ZERO)
    for memory in memories:
        n = ev.lanes_for(memory.elem)
        written, end = rounded_up(ev, count, lanes), s.min(rounded_up(ev, count, 2 * n), s.constant(size))
        if is_constant(written) and is_constant(end) and integer(written) >= integer(end):
            continue
        n = min(n, lanes)
        with ev.f.loop(written, end, n) as state, ev.scope():
            at: Coordinates = tuple([Coordinate(state.index, 0, n) if d == dim else each for d, each in enumerate(here)])
            ev.write_scratch(memory, at, zero(vector(memory.memory, n)))


def clear_last(ev: Evaluator, memory: Stored, bounds: Sequence[Bound]) -> None:
    """Clears the register of a row in which its last element will be written by itself, and those that loops read with it."""
    s, wide = ev.s, [dim for dim, size in enumerate(memory.shape) if size > 1]
    if len(wide) != 1 or memory.memory not in ("float", "double"):
        return
    (dim,), size = wide, memory.shape[wide[0]]
    n = min(ev.lanes_for(memory.elem), size)
    if not any(bound.dim == dim for bound in bounds):
        return
    count = s.max(ev.extent(size, bounds, dim)[0], ZERO)
    end = s.min(rounded_up(ev, count, 2 * n), s.constant(size))
    with ev.f.loop(s.round_down(count, n), end, n) as state, ev.scope():
        at: Coordinates = tuple([Coordinate(state.index, 0, n) if d == dim else ORIGIN for d in range(len(memory.shape))])
        ev.write_scratch(memory, at, zero(vector(memory.memory, n)))


def rounded_up(ev: Evaluator, count: V, step: int) -> V:
    """Returns the least multiple of a power of two that is not less than a count."""
    return ev.s.round_down(ev.s.add(count, ev.s.constant(step - 1)), step)


def clear_beyond(ev: Evaluator, target: Stored, rows: V, columns: V) -> None:
    """Clears whole registers of a product's rows, beyond the columns that are read."""
    f, s, memory = ev.f, ev.s, target.memory
    n, extent = ev.target.vector_bytes // memory_size_of(memory), target.shape[1]
    if extent <= n or memory not in ("float", "double") or target.strides[1] != 1:
        return
    with f.loop(0, rows) as row, ev.scope():
        start = f.gep(target.pointer, s.mul(row.index, s.constant(target.strides[0])), memory)
        with f.loop(rounded_up(ev, columns, n), extent, n) as column:
            f.store(zero(vector(memory, n)), f.gep(start, column.index, memory), memory_size_of(memory))
