"""Lowers elementwise operations, on scalars and blocks."""

from __future__ import annotations

from xdsl.ir import Operation

from ..elementwise import memory_size
from ..syntax import attributes, element_name, is_tensor, pointee_name, shape_of
from .context import KernelContext


def lower_elementwise(k: KernelContext, op: Operation) -> None:
    if not k.is_elementwise(op) or len(op.results) != 1 or op.regions or not op.operands:
        raise k.unsupported(op)
    result = op.results[0]
    elem, shape = element_name(result.type), shape_of(result.type)
    attrs = attributes(op)
    if op.name == "tt.addptr":
        attrs["size"] = memory_size(pointee_name(op.operands[0].type))
        if is_tensor(result.type):
            offset = k.accesses.axes.of(op.operands[1])
            attrs["runs"] = tuple(map(offset.aligned, range(len(offset.contiguity))))
    elif elem == "i1" and is_tensor(result.type):
        attrs["equal"] = k.accesses.axes.of(result).constancy
    if is_tensor(result.type):
        k.define(result, k.ev.compute(op.name, shape, elem, [k.node(o) for o in op.operands], attrs))
        return
    if any(is_tensor(operand.type) for operand in op.operands):
        raise k.unsupported(op)
    values = [k.scalar(operand) for operand in op.operands]
    elems = [element_name(operand.type) for operand in op.operands]
    k.scalars[result] = k.ev.element(op.name, elem, values, elems, attrs)
