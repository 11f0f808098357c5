"""Lowers `tt.sort`: lines beside each other are sorted as they lie, others are turned first.

    lines along rows ─ turn ─► a lane for each line ─ network ─ turn ─► lines along rows
    few long lines   ─ turn ─► a lane for each piece of one line ─ network, lanes joined ─ turn ─► the line

A line without enough others beside it is cut into as many pieces as a register has lanes.
"""

from __future__ import annotations

import math

from xdsl.ir import Operation

from ...elementwise import constant, identity
from ...syntax import attributes, element_name, shape_of
from ...values import V
from ..context import KernelContext
from ..loops.coordinates import decompose_mask, memory_size_of
from ..memory.transpose import transpose_into
from ..nodes import Map, Node, Splat, Stored, dense
from ..scalars import is_constant
from .network import SQUARE, JoinedLanes, Rows, SortedLines


def lower_sort(k: KernelContext, op: Operation) -> None:
    result = op.results[0]
    node, axis = k.node(op.operands[0]), int(attributes(op)["axis"])
    shape, elem = shape_of(result.type), element_name(result.type)
    if shape[axis] == 1:
        k.define(result, node)
        return
    count = _count(node, axis)
    block = k.nests.materialize(node, k.ev.scratch(shape, elem, pad=shape[-1]))
    beside = math.prod(shape[axis + 1 :])
    if beside > 1:
        _each_group(k, block, axis, beside, count)
        k.define(result, block)
        return
    extent, lines, lanes = shape[axis], math.prod(shape[:axis]), k.ev.lanes_for(elem)
    pieces = min(lanes, extent // SQUARE)
    matrix = Stored((lines, extent), elem, block.pointer, (extent, 1), block.memory)
    if lines < 2 or (lines <= lanes // 4 and pieces > 2 * lines):
        with k.f.loop(0, lines) as state, k.ev.scope():
            at = k.f.gep(block.pointer, k.ev.s.mul(state.index, k.ev.s.constant(extent)), block.memory)
            _sort_line(k, Stored((extent,), elem, at, (1,), block.memory), max(1, pieces))
        k.define(result, Stored(shape, elem, block.pointer, dense(shape), block.memory))
        return
    turned = k.ev.scratch((extent, lines), elem, pad=lines)
    transpose_into(k.ev, matrix, turned)
    _sort_lanes(k, turned, count)
    transpose_into(k.ev, turned, matrix)
    k.define(result, Stored(shape, elem, block.pointer, dense(shape), block.memory))


def _count(node: Node, axis: int) -> int:
    """Returns from where on along the axis the block holds the largest number."""
    if not isinstance(node, Map) or node.op != "arith.select" or not isinstance(node.operands[2], Splat):
        return node.shape[axis]
    bounds, _ = decompose_mask(node.operands[0])
    limits = [bound.limit for bound in bounds if bound.dim == axis]
    if node.operands[2].value != constant(identity("arith.minsi", node.elem) or 0, node.elem):
        return node.shape[axis]
    return min([node.shape[axis], *[limit.number for limit in limits if is_constant(limit)]])


def _rows(count: int, extent: int) -> int:
    """Returns the rows that are sorted of a line with so many elements: whole squares, as far as there are any."""
    square = min(SQUARE, extent)
    return max(square, -(-count // square) * square)


def _each_group(k: KernelContext, block: Stored, axis: int, beside: int, count: int) -> None:
    """Sorts lines that are `beside` elements apart from row to row, one matrix of them after the other."""
    extent, outer = block.shape[axis], math.prod(block.shape[:axis])
    with k.f.loop(0, outer) as state, k.ev.scope():
        at = k.f.gep(block.pointer, k.ev.s.mul(state.index, k.ev.s.constant(extent * beside)), block.memory)
        _sort_lanes(k, Stored((extent, beside), block.elem, at, (beside, 1), block.memory), count)


def _sort_lanes(k: KernelContext, rows: Stored, count: int) -> None:
    """Sorts the columns of dense rows, of which all from `count` on hold the largest number, in place."""
    extent, beside = rows.shape
    size, lanes = memory_size_of(rows.memory), min(beside, k.ev.lanes_for(rows.elem))
    function = SortedLines(Rows(rows.memory, lanes, beside * size), _rows(count, extent))
    name = k.f.module.provide(function)
    with k.f.loop(0, beside, lanes) as state:
        k.f.call(name, "void", [k.f.gep(rows.pointer, state.index, rows.memory)])


def _sort_line(k: KernelContext, line: Stored, pieces: int) -> None:
    """Sorts one line in place, whose pieces are lanes meanwhile."""
    extent = line.shape[0]
    size, count = memory_size_of(line.memory), extent // pieces
    rows = Rows(line.memory, pieces, pieces * size)
    turned, matrix = line, line
    if pieces > 1:
        matrix = Stored((pieces, count), line.elem, line.pointer, (count, 1), line.memory)
        turned = k.ev.scratch((count, pieces), line.elem, pad=pieces)
        transpose_into(k.ev, matrix, turned)
    arguments: list[V] = [turned.pointer]
    k.f.call(k.f.module.provide(SortedLines(rows, count)), "void", arguments)
    if pieces > 1:
        k.f.call(k.f.module.provide(JoinedLanes(rows, count)), "void", arguments)
        transpose_into(k.ev, turned, matrix)
