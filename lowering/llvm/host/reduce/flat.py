"""Reduces pairs of elements, as sorts do at every stage, in nests of many short dimensions (`loops/flat.py`)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...values import V
from ..loops.coordinates import Coordinate
from ..loops.flat import flat_memory
from ..loops.loop_nests import LoopNests
from ..loops.vector_loop import vector_loop
from ..nodes import Node, Stored
from .combine import Combine


def reduce_pairs(nests: LoopNests, operands: Sequence[Node], axis: int, combine: Combine) -> list[Node] | None:
    """Combines the two positions of an axis of extent 2, for a vector of results at a time, in one loop.

    None where this is no gain, or the operands cannot be read by their row-major positions. The pairs of neighbouring results
    lie in two vectors of the operand: apart by a multiple of a vector, they are these vectors; else both together hold both
    sides of them, to be separated by shuffles.
    """
    ev, f = nests.ev, nests.ev.f
    shape = operands[0].shape
    if shape[axis] != 2 or any(o.elem == "ptr" for o in operands):
        return None
    flat = nests.flattened(shape, operands)
    if flat is None:
        return None
    sources = [found for o in operands if (found := flat.node(o)) is not None]
    if len(sources) < len(operands):
        return None
    count, apart = math.prod(shape) // 2, math.prod(shape[axis + 1 :])
    n = min(ev.lanes_for(*nests.elements(sources)), count)
    result_shape = shape[:axis] + shape[axis + 1 :]
    memories = [ev.scratch(result_shape, o.elem, pad=result_shape[-1]) for o in operands]
    lines = [_line(memory) for memory in memories]
    saved = [(node, ev.scratch(node.shape, node.elem)) for node in nests.reused_values(sources, (2 * count,))]
    ev.prefetching = set()

    def body(coordinate: Coordinate, _: V | None, __: list[V]) -> list[V]:
        index = ev.s.add(coordinate.at, ev.s.constant(coordinate.offset))
        low = ev.s.add(index, index if apart < n else ev.s.round_down(index, apart))
        parts = [(Coordinate(low, side * max(apart, n), n, coordinate.loop),) for side in (0, 1)]
        for node, memory in saved:
            for part in parts:
                ev.write_scratch(memory, part, ev.at(node, part))
        items = [[f.splat(ev.at(source, part), n) for part in parts] for source in sources]
        if apart < n:
            items = [_sides(nests, first, second, apart, n) for first, second in items]
        values = combine.emit(ev, [first for first, _ in items], [second for _, second in items])
        for memory, value in zip(lines, values, strict=True):
            ev.write_scratch(memory, (coordinate,), value)
        return []

    vector_loop(ev, count, (), 0, n, 1, body)
    for node, memory in saved:
        nests.spill(node, memory, ())
    return list(memories)


def _sides(nests: LoopNests, first: V, second: V, apart: int, n: int) -> list[V]:
    """Returns the elements on either side of the axis, from two vectors in which they alternate, `apart` at a time."""
    lanes = [lane // apart * 2 * apart + lane % apart for lane in range(n)]
    return [nests.ev.f.shuffle(first, second, [lane + side * apart for lane in lanes]) for side in (0, 1)]


def _line(memory: Stored) -> Stored:
    line = flat_memory(memory)
    assert line is not None
    return line
