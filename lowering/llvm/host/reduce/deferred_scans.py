"""Scans that only a store reads, in chunks or not: they are emitted with the store, and their results never lie in scratch.

A chunk of a long row starts from a carry, and leaves one. Block programs say so by blocks (`tile/templates/scan.py`):

    started = select(position == first, combine(carry, x), x)
    sums = scan(started)
    carry = reduce(select(position == last, sums, neutral))

Lanes that are rows take the carry before their first element, and have the next one after the last. So does a line of integers.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from .....promotion.dataclass import dataclass
from ....tt.analysis.combining import commutes, single_operation
from ....tt.dialect.memory.pointers import StoreOp
from ...elementwise import constant, identity
from ...syntax import attributes, constant_value, element_name, shape_of
from ..context import KernelContext
from ..loops.coordinates import Coordinate
from ..memory.only_stores import is_near
from ..nodes import Node, Pointers, Splat, Stored
from .combine import Combine
from .line_scans import LineScan
from .loops import scan
from .row_scans import Carried, RowScan


def defer(k: KernelContext, op: Operation, axis: int, combine: Combine, reverse: bool) -> bool:
    """Leaves a scan to the store of its result, if nothing else reads that; returns whether it does."""
    if len(op.results) != 1:
        return False
    readers = _readers(op, axis, reverse)
    if readers is None or (k.ordering is not None and k.ordering.may_overwrite(readers.store)):
        return False
    operand, start = k.node(op.operands[0]), None
    if (started := _started(op, axis, reverse)) is not None:
        start, operand = k.node(started.carry), k.node(started.terms)
        if axis in k.ev.depends(start):
            return False
    found = RowScan.of(k.nests, [operand], axis, combine, reverse) or LineScan.of(k.nests, [operand], combine, reverse)
    if found is None:
        return False
    ends, end, padding = None, readers.end, readers.padding
    if end is not None:
        shape = shape_of(end.results[0].type)
        if padding is None or constant(constant_value(padding), found.elem) != found.neutral:
            return False
        if isinstance(found, RowScan):
            if not shape:
                return False
            ends = k.ev.scratch(shape, found.elem)
        k.taken[end] = ends
        k.define(op.results[0], Splat(found.shape, found.elem, found.neutral))  # the reduction is not evaluated
    if isinstance(found, RowScan):
        found.carried = Carried(start, ends)
        k.deferred[op.results[0]] = _DeferredRows(k, op, found)
    else:
        found.start, found.is_carried = start, end is not None
        k.deferred[op.results[0]] = _DeferredLine(k, op, found, end)
    return True


class _DeferredRows:
    """A scan of rows that is emitted when its result is stored."""

    def __init__(self, k: KernelContext, op: Operation, rows: RowScan) -> None:
        self.k, self.op, self.rows, self.location = k, op, rows, k.f.location

    def __call__(self, pointers: Pointers, mask: Node | None, streaming: bool) -> None:
        """Emits the scan and its store."""
        k, here, result = self.k, self.k.f.location, self.op.results[0]
        k.f.location = self.location
        stored = self.rows.store(pointers, mask, streaming)
        if not stored:
            k.define(result, self.rows.into_scratch(k.limits(result)))
        k.f.location = here
        if not stored:
            k.nests.store(pointers, k.node(result), mask, streaming)


class _DeferredLine:
    """A scan of one line that is emitted when its result is stored; end: the reduction that takes its last element."""

    def __init__(self, k: KernelContext, op: Operation, line: LineScan, end: Operation | None) -> None:
        self.k, self.op, self.line, self.end, self.location = k, op, line, end, k.f.location

    def __call__(self, pointers: Pointers, mask: Node | None, streaming: bool) -> None:
        """Emits the scan and its store."""
        k, line, here, result = self.k, self.line, self.k.f.location, self.op.results[0]
        k.f.location = self.location
        stored = line.store(pointers, mask, streaming)
        last = line.end
        if not stored:
            started = None if line.start is None else (line.start, line.operand)
            (node,) = scan(k.nests, [line.operand], 0, line.combine, False, k.limits(result), started)
            k.define(result, node)
            if self.end is not None:
                last = k.ev.at(node, (Coordinate(k.ev.s.constant(line.shape[0] - 1)),))
        if self.end is not None and last is not None:
            k.taken[self.end] = taken = Splat((), line.elem, last)
            k.define(self.end.results[0], taken)
        k.f.location = here
        if not stored:
            k.nests.store(pointers, k.node(result), mask, streaming)


@dataclass(frozen=True, slots=True)
class _Started:
    carry: SSAValue
    terms: SSAValue


def _started(op: Operation, axis: int, reverse: bool) -> _Started | None:
    """Returns what a scan starts from and what it then adds, if the first element says so."""
    select, single = op.operands[0].owner, single_operation(op.regions[0])
    if not isinstance(select, Operation) or select.name != "arith.select" or single is None:
        return None
    mask, first, terms = select.operands
    joined = first.owner
    if not isinstance(joined, Operation) or joined.name != single.name or terms not in list(joined.operands):
        return None
    position = shape_of(op.operands[0].type)[axis] - 1 if reverse else 0
    if list(joined.operands).count(terms) != 1 or _chosen(mask) != (axis, position) or not commutes(op.regions[0]):
        return None
    return _Started(next(each for each in joined.operands if each is not terms), terms)


def started_block(k: KernelContext, op: Operation, axis: int, reverse: bool) -> tuple[Node, Node] | None:
    """Returns what a scan of one dimension starts from and the block that it then adds, if its first element says so."""
    found = _started(op, axis, reverse) if len(op.operands) == 1 and len(shape_of(op.operands[0].type)) == 1 else None
    if found is None:
        return None
    start = k.node(found.carry)
    return None if axis in k.ev.depends(start) else (start, k.node(found.terms))


@dataclass(frozen=True, slots=True)
class _Readers:
    """The store of a scan's result, and the reduction that takes its last element, if there is one."""

    store: StoreOp
    end: Operation | None = None
    padding: Operation | None = None


def _readers(op: Operation, axis: int, reverse: bool) -> _Readers | None:
    """Returns what reads the result of a scan, if that is a store, and perhaps a reduction to its last element.

    Up to the store there is nothing that evaluates a block, or works on what is reduced.
    """
    users = [use.operation for use in op.results[0].uses]
    stores = [user for user in users if isinstance(user, StoreOp)]
    others = [user for user in users if not isinstance(user, StoreOp)]
    if len(stores) != 1 or stores[0].value is not op.results[0] or len(others) > 1:
        return None
    store = stores[0]
    end = padding = None
    if others:
        select = others[0]
        position = 0 if reverse else shape_of(op.results[0].type)[axis] - 1
        if select.name != "arith.select" or select.operands[1] is not op.results[0] or len(list(select.results[0].uses)) != 1:
            return None
        end, padding = next(iter(select.results[0].uses)).operation, select.operands[2].owner
        if _chosen(select.operands[0]) != (axis, position) or not _takes(end, axis, op) or not isinstance(padding, Operation):
            return None
        if padding.name != "arith.constant":
            return None
    return _Readers(store, end, padding) if is_near(op, store, end) else None


def _takes(end: Operation, axis: int, scan: Operation) -> bool:
    """Whether an operation of the same block reduces along the axis as the scan combines."""
    if end.name != "tt.reduce" or len(end.operands) != 1 or end.parent is not scan.parent:
        return False
    mine, other = single_operation(end.regions[0]), single_operation(scan.regions[0])
    return mine is not None and other is not None and mine.name == other.name and int(attributes(end)["axis"]) == axis


def taken_element(k: KernelContext, op: Operation) -> Node | None:
    """Returns the elements that a reduction takes of one position of a block in scratch, others being neutral; else None."""
    select, single = op.operands[0].owner, single_operation(op.regions[0])
    if len(op.operands) != 1 or single is None or not isinstance(select, Operation) or select.name != "arith.select":
        return None
    mask, block, padding = select.operands
    chosen, elem = _chosen(mask), element_name(block.type)
    neutral = identity(single.name, elem)
    axis = int(attributes(op)["axis"])
    if chosen is None or chosen[0] != axis or neutral is None or not isinstance(padding.owner, Operation):
        return None
    if padding.owner.name != "arith.constant" or constant(constant_value(padding.owner), elem) != constant(neutral, elem):
        return None
    node = k.node(block)
    if not isinstance(node, Stored) or not 0 <= chosen[1] < node.shape[axis]:
        return None
    if len(node.shape) > 1:
        row = k.f.gep(node.pointer, k.ev.s.constant(chosen[1] * node.strides[axis]), node.memory)
        shape, strides = ((*each[:axis], *each[axis + 1 :]) for each in (node.shape, node.strides))
        return Stored(shape, elem, row, strides, node.memory)
    return Splat((), elem, k.ev.at(node, (Coordinate(k.ev.s.constant(chosen[1])),)))


def _chosen(mask: SSAValue) -> tuple[int, int] | None:
    """Returns the dimension and the only position along it where a mask is true, if it is made so."""
    inserted: list[int] = []
    owner = mask.owner
    while isinstance(owner, Operation) and owner.name in ("tt.broadcast", "tt.expand_dims"):
        if owner.name == "tt.expand_dims":
            inserted.append(int(attributes(owner)["axis"]))
        owner = owner.operands[0].owner
    if not isinstance(owner, Operation) or owner.name != "arith.cmpi" or attributes(owner)["predicate"] != "eq":
        return None
    positions, number = (operand.owner for operand in owner.operands)
    while isinstance(positions, Operation) and positions.name == "arith.extsi":
        positions = positions.operands[0].owner
    if not isinstance(positions, Operation) or positions.name != "tt.make_range" or int(attributes(positions)["start"]) != 0:
        return None
    if not isinstance(number, Operation) or number.name != "arith.constant":
        return None
    value = constant_value(number)
    dim = 0
    for axis in reversed(inserted):
        dim += axis <= dim
    return (dim, value) if isinstance(value, int) else None
