"""Lowers `tt.sort`: lines beside each other are sorted as they lie, others are turned first.

    lines along rows ─ turn ─► a lane for each line ─ network ─ turn ─► lines along rows
    few long lines   ─ turn ─► a lane for each piece of one line ─ network, lanes joined ─ turn ─► the line
                     ─ partitions in place ─► the line                                   (where processors compress registers)

A line without enough others beside it is cut into as many pieces as a register has lanes. What is only stored is partitioned in
the memory of the store, however long it is.
"""

from __future__ import annotations

import math

from xdsl.ir import Operation

from .....promotion.errors import UnsupportedError
from ....tt.dialect.memory.sort_lines import SortLinesOp
from ...elementwise import constant, identity, memory_element
from ...syntax import attributes, pointee_name
from ...values import V, i64, integer, is_integer
from ..context import KernelContext
from ..loops.coordinates import decompose_mask, memory_size_of
from ..memory.only_stores import only_store
from ..memory.transpose import transpose_into
from ..nodes import Map, Node, Pointers, Splat, Stored, dense
from ..scalars import is_constant
from .in_memory import LinesInMemory
from .network import SQUARE, JoinedLanes, Rows, SortedLines
from .quicksort import SortedLine

SHORT = 1024
"""Elements of the longest line that networks sort; longer ones are sorted by partitions."""
LONG_BESIDE = 4096
"""Elements of the longest line that is sorted beside others, a lane for each, where vectors are short."""


def lower_sort(k: KernelContext, op: Operation) -> None:
    result = op.results[0]
    node, axis = k.node(op.operands[0]), int(attributes(op)["axis"])
    if node.shape[axis] == 1:
        k.define(result, node)
        return
    count = _count(node, axis)
    if _defer_line(k, op, node, axis, count):
        return
    k.define(result, _sorted_block(k, node, axis, count))


def lower_sort_lines(k: KernelContext, op: SortLinesOp) -> None:
    elem = pointee_name(op.ptr.type)
    if k.launch is not None or elem not in ("i32", "i64"):
        raise UnsupportedError(f"host lowering: {op.name} of {elem} outside of the programs of a graph")
    lines, count = k.scalar(op.lines), k.scalar(op.count)
    function = LinesInMemory(elem, k.ev.target.vector_bytes, k.ev.target.compresses)
    k.f.call(k.f.module.provide(function), "void", [k.scalar(op.ptr), lines, count])


def _sorted_block(k: KernelContext, node: Node, axis: int, count: int) -> Stored:
    """Emits a sort in scratch. count: from where on along the axis the block holds the largest number."""
    shape, elem = node.shape, node.elem
    block = k.nests.materialize(node, k.ev.scratch(shape, elem, pad=shape[-1]))
    beside = math.prod(shape[axis + 1 :])
    if beside > 1:
        _each_group(k, block, axis, beside, count)
        return block
    extent, lines, lanes = shape[axis], math.prod(shape[:axis]), k.ev.lanes_for(elem)
    pieces = min(lanes, extent // SQUARE)
    matrix = Stored((lines, extent), elem, block.pointer, (extent, 1), block.memory)
    found = Stored(shape, elem, block.pointer, dense(shape), block.memory)
    is_partitioned = _is_partitioned(k, elem, extent)
    if k.ev.target.has_short_vectors and lines >= lanes and extent <= LONG_BESIDE:
        is_partitioned = False
    if lines < 2 or is_partitioned or (lines <= lanes // 4 and pieces > 2 * lines):
        with k.f.loop(0, lines) as state, k.ev.scope():
            at = k.f.gep(block.pointer, k.ev.s.mul(state.index, k.ev.s.constant(extent)), block.memory)
            if is_partitioned:
                _partition(k, at, elem, count)
            else:
                _sort_line(k, Stored((extent,), elem, at, (1,), block.memory), max(1, pieces))
        return found
    turned = k.ev.scratch((extent, lines), elem, pad=lines)
    transpose_into(k.ev, matrix, turned)
    _sort_lanes(k, turned, count)
    transpose_into(k.ev, turned, matrix)
    return found


def _is_partitioned(k: KernelContext, elem: str, extent: int) -> bool:
    """Whether a line of so many elements is sorted by partitions."""
    return k.ev.target.compresses and elem in ("i32", "i64") and extent > SHORT


def _partition(k: KernelContext, line: V, elem: str, count: int) -> None:
    """Sorts the first `count` elements in place."""
    function = SortedLine(elem, k.ev.target.vector_bytes)
    k.f.call(k.f.module.provide(function), "void", [line, i64(count), i64(2 * count.bit_length())])


def _defer_line(k: KernelContext, op: Operation, node: Node, axis: int, count: int) -> bool:
    """Leaves the sort of one line to the store of its result, if nothing else reads that; returns whether it does.

    The line is put in order in the memory of the store, so only programs of graphs do that: none of theirs is loaded from
    there, or stored there by two of them. Those of texts may store the same line twice, which is no harm while it is in order.
    """
    extent, store = node.shape[axis], only_store(op)
    if store is None or k.bounds is not None or math.prod(node.shape) != extent or not _is_partitioned(k, node.elem, extent):
        return False
    if k.ordering is not None:
        return False
    location = k.f.location

    def emit(pointers: Pointers, mask: Node | None, streaming: bool) -> None:
        here, k.f.location = k.f.location, location
        line = _stored_line(k, pointers, mask, axis, count)
        if line is None:
            found = _sorted_block(k, node, axis, count)
            k.f.location = here
            k.nests.store(pointers, found, mask, streaming)
            return
        k.nests.store(pointers, node, mask, False)
        _partition(k, line[0], node.elem, line[1])
        k.f.location = here

    k.deferred[op.results[0]] = emit
    return True


def _stored_line(k: KernelContext, pointers: Pointers, mask: Node | None, axis: int, count: int) -> tuple[V, int] | None:
    """Returns where the elements of a stored line begin and how many are stored, if they lie side by side; else None.

    count: from where on the block holds the largest number. All before must be stored: others would take their part.
    """
    bounds, others = decompose_mask(mask)
    element = memory_element(pointers.pointee)
    step = pointers.offset.coefficients[axis]
    if others or pointers.rest is not None or pointers.unit != element or step is None or not is_integer(step, 1):
        return None
    if not all(bound.dim == axis and is_constant(bound.limit) for bound in bounds):
        return None
    stored = min([pointers.shape[axis], *[integer(bound.limit) for bound in bounds]])
    return (k.f.gep(pointers.base, pointers.offset.base, element), stored) if stored >= count else None


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
