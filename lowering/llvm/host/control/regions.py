"""Lowers regions on scalars that are more than straight-line arithmetic, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.ir import Operation, Region

from ...syntax import attributes, element_name, is_tensor, shape_of
from ...values import V
from ..context import KernelContext
from ..elements import each_element
from ..loops.coordinates import Coordinate, Coordinates
from ..nodes import Node, Stored, dense
from .branches import lower_scalars


def is_straight(region: Region) -> bool:
    """Whether a combine region is one block of operations without regions, each with one result."""
    return len(region.blocks) == 1 and all(not op.regions and len(op.results) == 1 for op in list(region.blocks[0].ops)[:-1])


def lower_map_elementwise(k: KernelContext, op: Operation) -> None:
    """Lowers `tt.map_elementwise`: `pack` elements at a time, in row-major order."""
    pack = int(attributes(op)["pack"])
    shape = shape_of(op.results[0].type)
    memories = [k.ev.scratch(shape, element_name(result.type), pad=shape[-1]) for result in op.results]
    if pack == 1:
        operands = [k.node(operand) for operand in op.operands]
        with each_element(k, shape) as here:
            values = lower_scalars(k, op.regions[0], [k.ev.at(node, here) for node in operands])
            for memory, value in zip(memories, values, strict=True):
                k.ev.write_scratch(memory, here, value)
    else:
        sources = [_flat(k, k.node(operand)) for operand in op.operands]
        targets = [_flatten(memory) for memory in memories]
        with k.f.loop(0, math.prod(shape), pack) as state, k.ev.scope():
            coordinates = [(Coordinate(state.index, offset),) for offset in range(pack)]
            values = lower_scalars(k, op.regions[0], [k.ev.at(source, at) for source in sources for at in coordinates])
            for number, value in enumerate(values):
                k.ev.write_scratch(targets[number // pack], coordinates[number % pack], value)
    for result, memory in zip(op.results, memories, strict=True):
        k.define(result, memory)


def _flat(k: KernelContext, node: Node) -> Stored:
    """Returns a block's elements one after the other, in scratch."""
    return _flatten(k.nests.materialize(node, k.ev.scratch(node.shape, node.elem, pad=node.shape[-1])))


def _flatten(memory: Stored) -> Stored:
    assert memory.strides == dense(memory.shape)
    return Stored((math.prod(memory.shape),), memory.elem, memory.pointer, (1,), memory.memory)


def reduce_by_region(k: KernelContext, op: Operation, axis: int) -> list[Stored | V]:
    """Lowers a reduction whose combine region branches or loops: along the axis, one position after the other."""
    operands = [k.node(operand) for operand in op.operands]
    shape = operands[0].shape
    memories = [
        k.ev.scratch(shape_of(result.type), element_name(result.type)) if is_tensor(result.type) else None
        for result in op.results
    ]
    kept = tuple(extent for d, extent in enumerate(shape) if d != axis)
    scalars: list[V] = []
    with each_element(k, kept) as here:
        scalars = _along(k, op, operands, shape[axis], lambda at: (*here[:axis], at, *here[axis:]), None, False)
        for memory, value in zip(memories, scalars, strict=True):
            if memory is not None:
                k.ev.write_scratch(memory, here, value)
    return [value if memory is None else memory for memory, value in zip(memories, scalars, strict=True)]


def scan_by_region(k: KernelContext, op: Operation, axis: int, reverse: bool) -> list[Stored]:
    """Lowers a scan whose combine region branches or loops."""
    operands = [k.node(operand) for operand in op.operands]
    shape = operands[0].shape
    memories = [k.ev.scratch(shape, operand.elem) for operand in operands]
    kept = tuple(extent for d, extent in enumerate(shape) if d != axis)
    with each_element(k, kept) as here:
        _along(k, op, operands, shape[axis], lambda at: (*here[:axis], at, *here[axis:]), memories, reverse)
    return memories


def _along(
    k: KernelContext, op: Operation, operands: Sequence[Node], extent: int,
    coordinates_at: Callable[[Coordinate], Coordinates], memories: Sequence[Stored] | None, reverse: bool,
) -> list[V]:  # fmt: skip
    """Combines the elements of one line, in order; every prefix is written to the memories, if there are any."""

    def values_at(index: V) -> tuple[Coordinates, list[V]]:
        index = k.ev.s.sub(k.ev.s.constant(extent - 1), index) if reverse else index
        at = coordinates_at(Coordinate(index))
        return at, [k.ev.at(node, at) for node in operands]

    def write(at: Coordinates, values: Sequence[V]) -> None:
        for memory, value in zip(memories or (), values, strict=memories is not None):
            k.ev.write_scratch(memory, at, value)

    at, first = values_at(k.ev.s.constant(0))
    write(at, first)
    with k.f.loop(1, extent, 1, first) as state, k.ev.scope():
        at, values = values_at(state.index)
        state.next = lower_scalars(k, op.regions[0], [*state.values, *values])
        write(at, state.next)
    return list(state.results)
