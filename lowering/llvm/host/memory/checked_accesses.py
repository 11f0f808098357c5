"""Compares accesses with the memory that they may reach, in launches that ask for it (`bounds.py`).

Nearly all blocks are decided by one comparison: offsets are affine in the coordinates, or their rest has a least and a greatest
element, and so a block reaches from one address to another; masks that bound a coordinate make it smaller. Where those ends are
not inside, each element is looked at, with its mask. What an access does is unchanged: it is checked before.
"""

from __future__ import annotations

from typing import NamedTuple

from ....tt.dialect.memory.check_access import CheckAccessOp
from ....tt.limits import MAX_DISTANCE
from ....tt.source_locations import callers_of, source_location
from ...ir import Function
from ...syntax import is_tensor, shape_of
from ...values import FALSE, TRUE, V, i64
from ..context import KernelContext
from ..control.sites import Access, Site
from ..elements import each_element
from ..loops.coordinates import Coordinates, along, decompose_mask, memory_size_of
from ..nodes import Map, Node, Pointers, Splat, View, dense
from ..reduce.combine import Combine
from ..reduce.loops import reduce
from ..scalars import ZERO, is_constant
from .bounds import Search, led_to

MAX_STEPS = 1 << 38
"""Strides (in units) up to which the ends of a block are computed: beyond, they might pass 64 bits."""
MAX_REST = 1 << 48
"""Parts of offsets (in units) up to which their sums are computed."""


def lower_check(k: KernelContext, op: CheckAccessOp) -> None:
    """Lowers `tt.check_access`: stops the launch before an element outside of the memory is touched."""
    bounds, pointer, mask = k.bounds, op.ptr, op.mask
    assert bounds is not None
    assert k.status is not None
    access = bounds.reach(op)
    shape = shape_of(pointer.type)
    site = Site("bounds", op.access.data, source_location(op), shape, access, callers_of(op))
    f, s = k.f, k.ev.s
    if not is_tensor(pointer.type):
        address = s.address(k.scalar(pointer))
        needed = None if mask is None else k.scalar(mask)
        holds = _is_inside(k, access, address, i64(access.size), needed)
        if needed is not None:
            holds = f.binary("or", holds, f.binary("xor", needed, TRUE))
        k.status.stop_unless(holds, site, k.program, i64(-1), address)
        return
    pointers = k.pointers(pointer)
    guard = None if mask is None else k.node(mask)
    ends = _ends(k, pointers, guard)
    inside = f.binary("and", ends.known, _is_inside(k, access, ends.low, s.add(ends.extent, i64(access.size)), ends.known))
    inside = f.binary("or", inside, ends.nothing)
    with f.when(f.binary("xor", inside, TRUE)), k.ev.scope(), each_element(k, shape) as at:
        address = _address(k, pointers, at)
        needed = None if guard is None else k.ev.at(guard, at)
        holds = _is_inside(k, access, address, i64(access.size), needed)
        if needed is not None:
            holds = f.binary("or", holds, f.binary("xor", needed, TRUE))
        lane: V = ZERO
        for dim, stride in enumerate(dense(shape)):
            lane = s.add(lane, s.mul(along(at, dim).at, s.constant(stride)))
        k.status.stop_unless(holds, site, k.program, lane, address)


def _address(k: KernelContext, pointers: Pointers, at: Coordinates) -> V:
    """The address of an element; of an offset that leads too far, one that is in no memory."""
    s = k.ev.s
    return led_to(s, s.address(pointers.base), k.ev.offset_at(pointers, at), memory_size_of(pointers.unit))


def _is_known(k: KernelContext, address: V, size: V, needed: V | None) -> V:
    """Whether `size` bytes from an address on lie in known memory: that which the last ones lay in, or some other."""
    f, bounds = k.f, k.bounds
    assert bounds is not None
    last = f.zeroed(2)  # one for each access: operands of an operation lie apart, neighbouring elements together

    def is_in_last() -> V:
        first, end = f.load("i64", last, 8), f.load("i64", f.gep(last, 8), 8)
        room = f.binary("sub", f.binary("sub", end, first), size)
        return f.binary("and", f.icmp("sge", room, ZERO), f.icmp("ule", f.binary("sub", address, first), room))

    missed = f.binary("xor", is_in_last(), TRUE)
    with f.when(missed if needed is None else f.binary("and", missed, needed)):
        f.module.provide(Search())
        f.call(Search.name, "void", [*bounds.table, address, size, last])
    return is_in_last()


def _is_inside(k: KernelContext, access: Access, address: V, size: V, needed: V | None = None) -> V:
    """Whether `size` bytes from an address on lie in memory that the access may reach.

    needed: whether anybody wants to know.
    """
    f, bounds = k.f, k.bounds
    assert bounds is not None
    if not access.parameters:
        return _is_known(k, address, size, needed)
    inside: V | None = None
    for position, _ in access.parameters:
        memory = bounds.memory[position]
        assert memory is not None
        first, length = memory
        room = k.ev.s.sub(length, size)
        enough = f.icmp("sge", room, ZERO)
        here = f.binary("and", enough, f.icmp("ule", k.ev.s.sub(address, first), room))
        inside = here if inside is None else f.binary("or", inside, here)
    assert inside is not None
    return inside


class _Ends(NamedTuple):
    """The ends of a block's addresses.

    low: the least address.  extent: the greatest less the least.  known: whether they were computed without passing 64 bits.
    nothing: whether the mask leaves out the whole block.
    """

    low: V
    extent: V
    known: V
    nothing: V


def _ends(k: KernelContext, pointers: Pointers, mask: Node | None) -> _Ends:
    f, s = k.f, k.ev.s
    counts = [s.constant(extent) for extent in pointers.shape]
    for bound in decompose_mask(mask)[0]:
        counts[bound.dim] = s.min(counts[bound.dim], bound.limit)
    nothing: V = FALSE
    known: V = TRUE
    for count in counts:
        if not is_constant(count):
            nothing = _or(f, nothing, f.icmp("sle", count, ZERO))
    low, high = ZERO, ZERO
    for coefficient, count in zip(pointers.offset.coefficients, counts, strict=True):
        if coefficient is None:
            continue
        span = s.mul(coefficient, s.sub(count, i64(1)))
        low, high = s.add(low, s.min(span, ZERO)), s.add(high, s.max(span, ZERO))
        known = _and(f, known, _is_within(k, coefficient, MAX_STEPS))
    if pointers.rest is not None:
        for part in _summands(pointers.rest):
            least, greatest = _extreme(k, part, "arith.minsi"), _extreme(k, part, "arith.maxsi")
            for end in (least, greatest):
                known = _and(f, known, _is_within(k, end, MAX_REST))
            low, high = s.add(low, least), s.add(high, greatest)
    size = memory_size_of(pointers.unit)
    known = _and(f, known, _is_within(k, pointers.offset.base, MAX_DISTANCE // size))
    unit = s.constant(size)
    first = s.add(s.address(pointers.base), s.mul(s.add(pointers.offset.base, low), unit))
    return _Ends(first, s.mul(s.sub(high, low), unit), known, nothing)


def _summands(node: Node) -> list[Node]:
    if isinstance(node, Map) and node.op == "arith.addi" and node.elem == "i64":
        return [part for operand in node.operands for part in _summands(operand)]
    return [node]


def _is_within(k: KernelContext, value: V, limit: int) -> V:
    """Whether an i64 lies between -limit and limit."""
    if is_constant(value):
        return TRUE if -limit <= value.number <= limit else FALSE
    if value.operand() in k.ev.s.narrow:
        return TRUE
    return k.f.icmp("ule", k.ev.s.add(value, i64(limit)), i64(2 * limit))


def _extreme(k: KernelContext, node: Node, op: str) -> V:
    """The least (`arith.minsi`) or greatest (`arith.maxsi`) element of a block of integers, as i64."""
    s, bounds = k.ev.s, k.bounds
    assert bounds is not None
    match node:
        case Splat():
            return s.to_i64(node.value)
        case View() if _has_all_elements(node):
            return _extreme(k, node.source, op)
        case Map(op="arith.extsi"):
            return _extreme(k, node.operands[0], op)
    key = (op, str(id(node)))
    found = s.known(key)
    if found is None:
        bounds.alive.append(node)
        left, right, result = object(), object(), object()
        combine = Combine((left, right), ((op, node.elem, result, (left, right), (node.elem, node.elem), {}),), (result,))
        reduced = node
        while reduced.shape:
            reduced = reduce(k.nests, [reduced], len(reduced.shape) - 1, combine)[0]
        found = s.remember(key, s.to_i64(k.nests.argument_of(reduced)))
    return found


def _has_all_elements(view: View) -> bool:
    """Whether every element of the source is in the view."""
    extents = [1 if dim is None else view.shape[dim] for dim in view.dims]
    dims = [dim for dim in view.dims if dim is not None]
    return tuple(extents) == view.source.shape and len(set(dims)) == len(dims)


def _and(f: Function, a: V, b: V) -> V:
    if TRUE in (a, b):
        return b if a == TRUE else a
    return f.binary("and", a, b)


def _or(f: Function, a: V, b: V) -> V:
    if FALSE in (a, b):
        return b if a == FALSE else a
    return f.binary("or", a, b)
