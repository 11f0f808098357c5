"""Lowers operations that go through a block element by element: gathers inside a block, histograms."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from xdsl.ir import Operation

from ..elementwise import constant, register_element
from ..syntax import attributes, element_name, shape_of
from ..values import V, const, i64, vector
from .codes.lookups import LOOK_UP, picked_bytes
from .context import KernelContext
from .loops.coordinates import Coordinate, Coordinates, along, memory_size_of
from .nodes import Map, Node, Splat, View


@contextmanager
def each_element(k: KernelContext, shape: tuple[int, ...]) -> Iterator[Coordinates]:
    """Loops over every coordinate of a block, the last dimension fastest."""
    with ExitStack() as stack:
        here: list[Coordinate] = []
        for extent in shape:
            state = stack.enter_context(k.f.loop(0, extent))
            stack.enter_context(k.ev.scope())
            here.append(Coordinate(state.index))
        yield tuple(here)


def lower_gather(k: KernelContext, op: Operation) -> None:
    """Lowers `tt.gather`.

    An index outside the block reads its last element: scratch may be on the stack, and nothing may read beyond it.
    """
    result = op.results[0]
    axis = int(attributes(op)["axis"])
    found = _looked_up(k, k.node(op.operands[0]), k.node(op.operands[1]), axis)
    if found is not None:
        k.define(result, k.shallow(found))
        return
    source = k.nests.materialize(k.node(op.operands[0]))
    indices = k.node(op.operands[1])
    memory = k.ev.scratch(shape_of(result.type), element_name(result.type))
    last = k.ev.s.constant(source.shape[axis] - 1)
    with each_element(k, memory.shape) as here:
        index = k.ev.s.to_i64(k.ev.at(indices, here))
        index = k.f.intrinsic("umin", [index, last])
        position: V = k.ev.s.constant(0)
        for dim, stride in enumerate(source.strides):
            at = index if dim == axis else along(here, dim).at
            position = k.f.add(position, k.f.mul(k.ev.s.constant(stride), at))
        pointer = k.f.gep(source.pointer, position, source.memory)
        raw = k.f.load(source.memory, pointer, memory_size_of(source.memory))
        value = k.f.cast("trunc", raw, "i1") if source.elem == "i1" else raw
        k.ev.write_scratch(memory, here, value)
    k.define(result, memory)


def _looked_up(k: KernelContext, source: Node, positions: Node, axis: int) -> Map | None:
    """Returns the elements of a block at positions along an axis, if it varies along no other one, and registers hold it.

    The table is evaluated here and now, once for all elements.
    """
    table = _line(source, axis)
    if table is None or source.elem in ("i1", "ptr"):
        return None
    size = memory_size_of(register_element(source.elem))
    count = table.shape[0]
    if not 1 < count <= min(k.ev.target.table_elements(size), math.prod(positions.shape)):
        return None
    register = k.ev.target.vector_bytes
    if size == 1 and register < 64 and not _are_short(positions):
        return None  # positions would fill few lanes of a register of bytes
    n = min(count, picked_bytes(register, size) // size)
    registers = []
    for first in range(0, count, n):
        value = k.f.splat(k.ev.at(table, (Coordinate(i64(first), 0, n),)), n)
        registers.append(k.f.bitcast(value, vector(f"i{8 * size}", n)))
    if isinstance(positions, Map) and positions.op == "arith.extui":
        (positions,) = positions.operands
    elif positions.elem in ("i8", "i16"):  # signed: what is negative is beyond the block
        positions = Map(positions.shape, "i32", "arith.extsi", (positions,))
    return Map(positions.shape, source.elem, LOOK_UP, (positions,), {"table": registers, "count": count, "register": register})


def _are_short(positions: Node) -> bool:
    """Whether positions are unsigned integers of 8 or 16 bits, extended."""
    return isinstance(positions, Map) and positions.op == "arith.extui" and positions.operands[0].elem in ("i8", "i16")


def _line(source: Node, axis: int) -> Node | None:
    """Returns the block of one dimension that a block repeats along all others than `axis`."""
    if not isinstance(source, View):
        return source if len(source.shape) == 1 else None
    return source.source if source.dims == (axis,) else None


def lower_histogram(k: KernelContext, op: Operation) -> None:
    """Lowers `tt.histogram`: values outside the bins, and masked ones, are not counted."""
    result = op.results[0]
    elem, (bins,) = element_name(result.type), shape_of(result.type)
    source = k.node(op.operands[0])
    mask = k.node(op.operands[1]) if len(op.operands) > 1 else None
    memory = k.ev.scratch((bins,), elem)
    k.nests.materialize(Splat((bins,), elem, constant(0, elem)), memory)
    size = memory_size_of(memory.memory)
    with each_element(k, source.shape) as here:
        value = k.ev.s.to_i64(k.ev.at(source, here))
        counted = k.f.icmp("ult", value, k.ev.s.constant(bins))
        if mask is not None:
            counted = k.f.binary("and", counted, k.ev.at(mask, here))
        with k.f.when(counted):
            cell = k.f.gep(memory.pointer, value, memory.memory)
            k.f.store(k.f.binary("add", k.f.load(memory.memory, cell, size), const(1, memory.memory)), cell, size)
    k.define(result, memory)
