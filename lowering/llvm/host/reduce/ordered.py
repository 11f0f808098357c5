"""Emits reductions and scans in the order that `tt/transforms/numerics/fix_order.py` fixes, whatever the width of vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from ...values import V
from ..loops.coordinates import Coordinate, Coordinates, along
from ..loops.loop_nests import LoopNests
from ..loops.vector_loop import vector_loop
from ..nodes import Node, Splat, Stored

Combine = Callable[[Sequence[V], Sequence[V]], list[V]]
"""Combines values on the left and on the right, of any number of lanes."""


def reduce_in_order(nests: LoopNests, operands: Sequence[Node], axis: int, combine: Combine, single: bool) -> list[Node]:
    """Combines neighbours along one dimension, level by level, until one position is left. single: scalars only."""
    nodes, size = list(operands), operands[0].shape[axis]
    if size == 1:
        nodes = [nests.materialize(node) for node in nodes]
    while size > 1:
        into = [_front(node, axis, size // 2) for node in nodes if size < operands[0].shape[axis] and isinstance(node, Stored)]
        nodes = [*_level(nests, nodes, axis, combine, single, into)]
        size //= 2
    found: list[Node] = []
    for node in nodes:
        assert isinstance(node, Stored)
        shape, strides = (tuple(each[d] for d in range(len(each)) if d != axis) for each in (node.shape, node.strides))
        result = Stored(shape, node.elem, node.pointer, strides, node.memory)
        found.append(result if shape else Splat((), node.elem, _scalar(nests, result)))
    return found


def _scalar(nests: LoopNests, memory: Stored) -> V:
    value = nests.ev.at(memory, ())
    return nests.ev.s.pointer(value) if memory.elem == "ptr" else value


def _front(node: Stored, axis: int, size: int) -> Stored:
    """Returns the first positions of a dimension, in the same memory."""
    shape = tuple(size if d == axis else extent for d, extent in enumerate(node.shape))
    return Stored(shape, node.elem, node.pointer, node.strides, node.memory)


def _level(
    nests: LoopNests, sources: Sequence[Node], axis: int, combine: Combine, single: bool, into: Sequence[Stored]
) -> Sequence[Stored]:
    """Combines neighbours and returns the results in scratch.

    `into` may be the front of the scratch that is read: position i is written after 2 i and 2 i + 1 were read, by vectors in
    rising order.
    """
    ev, f = nests.ev, nests.ev.f
    shape = sources[0].shape
    half = tuple(extent // 2 if d == axis else extent for d, extent in enumerate(shape))
    memories = into or [ev.scratch(half, source.elem) for source in sources]
    nests.materialize_operands(sources)
    saved = [(node, ev.scratch(node.shape, node.elem)) for node in nests.reused_values(sources, shape)]
    ev.prefetching = set()
    inner = nests.inner_dim(shape)
    lanes = 1 if single else min(ev.lanes_for(*nests.elements(sources)), half[inner])

    def sides(here: Coordinates) -> tuple[Coordinates, Coordinates]:
        """Returns the left and the right operand's position of a position of the result.

        Along the axis vectors are the two halves of what both take together.
        """
        own = along(here, axis)
        left = ev.s.add(own.at, ev.s.constant(own.offset))
        left = ev.s.add(left, left)
        parts = [Coordinate(left, side * own.lanes, own.lanes, own.loop) for side in (0, 1)]
        first, second = (tuple(part if d == axis else c for d, c in enumerate(here)) for part in parts)
        return first, second

    def write(here: Coordinates, mask: V | None) -> None:
        coordinates = sides(here)
        for node, memory in saved:
            for coordinate in coordinates:
                ev.write_scratch(memory, coordinate, ev.at(node, coordinate, mask))
        n = max(1, *[c.lanes for c in here if c is not None])
        pairs = [[f.splat(ev.at(source, coordinate, mask), n) for coordinate in coordinates] for source in sources]
        own = here[axis]
        if own is not None and own.lanes > 1:
            even, odd = (list(range(side, 2 * n, 2)) for side in (0, 1))
            pairs = [[f.shuffle(first, second, even), f.shuffle(first, second, odd)] for first, second in pairs]
        for memory, value in zip(memories, combine([p[0] for p in pairs], [p[1] for p in pairs]), strict=True):
            ev.write_scratch(memory, here, value)

    with ExitStack() as stack:
        if lanes == 1:
            write(tuple(nests.outer(stack, half, len(half), (), ())), None)
        else:
            outer = nests.outer(stack, half, inner, (), ())

            def body(coordinate: Coordinate, mask: V | None, _: list[V]) -> list[V]:
                write(tuple(coordinate if d == inner else c for d, c in enumerate(outer)), mask)
                return []

            vector_loop(ev, half[inner], (), inner, lanes, 1, body)
    for node, memory in saved:
        nests.spill(node, memory, ())
    return memories


def scan_in_order(
    nests: LoopNests, operands: Sequence[Node], axis: int, combine: Combine, reverse: bool, single: bool
) -> list[Node]:
    """Emits inclusive prefixes along one dimension.

    Runs of 1, 2, 4, … positions have their prefixes; the last of every other run is combined into all of the next run (reverse:
    the first of a run into all of the one before).
    """
    ev = nests.ev
    memories = [nests.materialize(node, ev.scratch(node.shape, node.elem)) for node in operands]
    size, length = operands[0].shape[axis], 1
    inner = nests.inner_dim(operands[0].shape)
    if axis == inner and not single:
        lanes = min(ev.lanes_for(*nests.elements(memories)), size)
        _inside_vectors(nests, memories, combine, reverse, lanes)
        length = lanes
    while length < size:
        _spread(nests, memories, axis, length, combine, reverse, single)
        length *= 2
    return list(memories)


def _inside_vectors(nests: LoopNests, memories: Sequence[Stored], combine: Combine, reverse: bool, lanes: int) -> None:
    """Emits all levels whose runs lie in one vector along the last dimension."""
    ev, f = nests.ev, nests.ev.f
    shape = memories[0].shape
    inner = nests.inner_dim(shape)
    with ExitStack() as stack:
        outer = nests.outer(stack, shape, inner, (), ())

        def body(coordinate: Coordinate, mask: V | None, _: list[V]) -> list[V]:
            here = tuple(coordinate if d == inner else c for d, c in enumerate(outer))
            values = [f.splat(ev.at(memory, here, mask), lanes) for memory in memories]
            length = 1
            while length < lanes:
                takes = [bool(lane & length) != reverse for lane in range(lanes)]
                source = [(lane | length) & -length if reverse else (lane & -length) - 1 for lane in range(lanes)]
                source = [other if taken else lane for lane, (other, taken) in enumerate(zip(source, takes, strict=True))]
                before = [f.shuffle(value, value, source) for value in values]
                choice = [lanes + lane if taken else lane for lane, taken in enumerate(takes)]
                values = [f.shuffle(old, new, choice) for old, new in zip(values, combine(before, values), strict=True)]
                length *= 2
            for memory, value in zip(memories, values, strict=True):
                ev.write_scratch(memory, here, value)
            return []

        vector_loop(ev, shape[inner], (), inner, lanes, 1, body)


def _spread(
    nests: LoopNests, memories: Sequence[Stored], axis: int, length: int, combine: Combine, reverse: bool, single: bool
) -> None:
    """Emits one level: runs of `length` positions, in pairs."""
    ev = nests.ev
    targets: list[Stored] = []
    sources: list[Stored] = []
    for memory in memories:
        stride = memory.strides[axis]
        shape = (*memory.shape[:axis], memory.shape[axis] // (2 * length), length, *memory.shape[axis + 1 :])
        before, after = memory.strides[:axis], memory.strides[axis + 1 :]
        takes, gives = (0, length) if reverse else (length, length - 1)
        for found, start, step in ((targets, takes, stride), (sources, gives, 0)):
            pointer = ev.f.gep(memory.pointer, start * stride, memory.memory)
            strides = (*before, 2 * length * stride, step, *after)
            found.append(Stored(shape, memory.elem, pointer, strides, memory.memory))

    def write(here: Coordinates, mask: V | None) -> None:
        n = max(1, *[c.lanes for c in here if c is not None])
        left, right = ([ev.f.splat(ev.at(node, here, mask), n) for node in nodes] for nodes in (sources, targets))
        for memory, value in zip(targets, combine(left, right), strict=True):
            ev.write_scratch(memory, here, value)

    if single:
        with ExitStack() as stack:
            write(tuple(nests.outer(stack, targets[0].shape, len(targets[0].shape), (), ())), None)
    else:
        nests.nest(targets[0].shape, (), [*sources, *targets], write)
