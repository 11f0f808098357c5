"""Lowers operations that go through a block element by element: gathers inside a block, histograms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from xdsl.ir import Operation

from ..elementwise import constant
from ..syntax import attributes, element_name, shape_of
from ..values import V, const
from .context import KernelContext
from .loops.coordinates import Coordinate, Coordinates, along, memory_size_of
from .nodes import Splat


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
