"""Lowers pointer arithmetic, loads and stores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from xdsl.ir import Operation

from ....tt.dialect.memory.pointers import LoadOp, StoreOp
from ....tt.source_locations import callers_of, source_location
from ....tt.transforms.folding import is_pure
from ...elementwise import from_memory, memory_element, memory_size
from ...syntax import element_name, is_tensor, pointee_name, shape_of
from ...values import V, i64
from ..codes.halves import are_apart, half_of, same, whole_pointers
from ..context import KernelContext, PendingStore
from ..control.sites import Site
from ..elementwise import folded, lower_elementwise
from ..loops.coordinates import memory_size_of
from ..nodes import Affine, Load, Map, Node, Pointers, Splat
from .affine import fold
from .atomics import lower_atomic
from .bounds import HIGHEST, LOST, Bounds, led_to

_OF_ELEMENTS = frozenset(("tt.addptr", "tt.bitcast", "tt.broadcast", "tt.expand_dims", "tt.make_range", "tt.splat"))


def lower_addptr(k: KernelContext, op: Operation) -> None:
    result = op.results[0]
    if not is_tensor(result.type):
        base, offset = k.scalar(op.operands[0]), k.integer(op.operands[1])
        size = memory_size(pointee_name(result.type))
        if k.bounds is not None and k.bounds.moves_far:
            moved = _marked(k, k.bounds, op, base, offset, size)
        else:
            moved = k.f.gep(base, offset, memory_element(pointee_name(result.type)))
        known = k.ev.s.multiple(base)
        while known > 1 and (size * k.ev.s.multiple(offset)) % known:
            known //= 2
        k.ev.s.assume_multiple(moved, known)
        k.scalars[result] = moved
        return
    pointers = k.pointers(op.operands[0])
    offset_node = k.node(op.operands[1])
    if offset_node.elem != "i64":
        shape = offset_node.shape
        offset_node = folded(k, op, "arith.extsi", shape, "i64", [offset_node]) or Map(
            shape, "i64", "arith.extsi", (offset_node,))  # fmt: skip
    for part in _summands(in_units(k, pointers, offset_node)):
        total = fold(k.ev.s, "arith.addi", pointers.shape, "i64", [pointers.offset, part])
        if isinstance(total, Affine):
            pointers = replace(pointers, offset=total)
        else:
            rest = part
            if pointers.rest is not None:
                rest = k.shallow(Map(pointers.shape, "i64", "arith.addi", (pointers.rest, part)))
            pointers = replace(pointers, rest=rest)
    k.define(result, pointers)


def _marked(k: KernelContext, bounds: Bounds, op: Operation, base: V, offset: V, size: int) -> V:
    """A scalar pointer moved by an offset in elements of so many bytes: one to no memory beyond `MAX_DISTANCE`.

    What such a pointer is moved by later does not bring it back. Where a program makes numbers of addresses, the launch stops
    there and then.
    """
    f, s = k.f, k.ev.s
    address = s.address(base)
    near = f.icmp("ult", s.add(address, i64(HIGHEST)), i64(LOST))  # 2^63 as an unsigned number
    reached = led_to(s, address, offset, size, near)
    if bounds.reads_addresses:
        assert k.status is not None
        message = f"a pointer is moved by more than 2^60 bytes in {op.name}; fix: stay within the array"
        site = Site("overflow", message, source_location(op), callers=callers_of(op))
        k.status.stop_unless(f.icmp("ne", reached, i64(LOST)), site, k.program, i64(-1))
    return f.gep(base, s.sub(reached, address))


def _summands(node: Node) -> Iterator[Node]:
    """Yields the parts of an i64 sum."""
    if isinstance(node, Map) and node.op == "arith.addi" and node.elem == "i64":
        for operand in node.operands:
            yield from _summands(operand)
    else:
        yield node


def in_units(k: KernelContext, pointers: Pointers, offset: Node) -> Node:
    """Converts offsets in elements of the pointee to offsets in the unit that the pointers count in."""
    return _scaled(k, offset, memory_size(pointers.pointee) // memory_size_of(pointers.unit))


def _scaled(k: KernelContext, offset: Node, scale: int) -> Node:
    if scale == 1:
        return offset
    factor = Splat(offset.shape, "i64", k.ev.s.constant(scale))
    return fold(k.ev.s, "arith.muli", offset.shape, "i64", [offset, factor]) or Map(
        offset.shape, "i64", "arith.muli", (offset, factor))  # fmt: skip


def lower_bitcast(k: KernelContext, op: Operation) -> None:
    """Lowers `tt.bitcast`: blocks of pointers to elements of another type keep their base; anything else is elementwise."""
    result = op.results[0]
    source = k.nodes.get(op.operands[0])
    if not isinstance(source, Pointers) or not is_tensor(result.type):
        lower_elementwise(k, op)
        return
    pointee = pointee_name(result.type)
    size, unit = memory_size(pointee), source.unit
    offset: Node = source.offset
    rest = source.rest
    if memory_size_of(unit) == size:
        unit = memory_element(pointee)
    elif size % memory_size_of(unit):
        rest = None if rest is None else _scaled(k, rest, memory_size_of(unit))
        offset, unit = _scaled(k, offset, memory_size_of(unit)), "i8"
    assert isinstance(offset, Affine)
    k.define(result, Pointers(source.shape, "ptr", source.base, pointee, offset, source.alignment, unit, rest))


def lower_load(k: KernelContext, op: LoadOp) -> None:
    result = op.results[0]
    if op.isVolatile.value.data:
        lower_atomic(k, op)
        return
    pointer, mask, other = op.ptr, op.mask, op.other
    elem = element_name(result.type)
    if is_tensor(result.type):
        node = Load(shape_of(result.type), elem, k.pointers(pointer),
                    None if mask is None else k.node(mask), None if other is None else k.node(other))  # fmt: skip
        k.define(result, node)
        if k.ordering is not None:
            k.ordering.loaded(op, node)
        return
    address = k.scalar(pointer)
    if mask is not None:
        safe = k.f.alloca("i64", 1, 8)
        k.f.store(i64(0), safe, 8)
        address = k.f.select(k.scalar(mask), address, safe)
    value = from_memory(k.f, k.f.load(memory_element(elem), address, memory_size(elem)), elem)
    if elem == "ptr":
        value = k.f.op(f"inttoptr i64 {value.operand()} to ptr", "ptr")
    if mask is not None and other is not None:
        value = k.f.select(k.scalar(mask), value, k.scalar(other))
    k.scalars[result] = value


def lower_store(k: KernelContext, op: StoreOp) -> None:
    mask = None if op.mask is None else k.node(op.mask)
    if is_tensor(op.ptr.type):
        _store_block(k, op, mask)
        return
    offset = Affine((), "i64", i64(0), ())
    pointee = pointee_name(op.ptr.type)
    pointers = Pointers((), "ptr", k.scalar(op.ptr), pointee, offset, 1, memory_element(pointee))
    k.nests.store(pointers, k.node(op.value), mask, False)


def _store_block(k: KernelContext, op: StoreOp, mask: Node | None) -> None:
    pointers, past = k.pointers(op.ptr), k.goes_past_caches(op)
    deferred = k.deferred.pop(op.value, None)
    value = None if deferred is not None else k.node(op.value)
    half = None if value is None else half_of(value, k.is_free)
    pending, k.pending = k.pending, None
    if pending is not None:
        alike = half is not None and half[1] and half[0] is pending.whole and past == pending.past_caches
        whole = whole_pointers(k.ev.s, pending.pointers, pointers) if alike and same(pending.mask, mask) else None
        if whole is not None and are_apart(k.ev.s, whole):
            k.nests.store(whole, pending.whole, mask, past)
            return
        k.nests.store(pending.pointers, pending.value, pending.mask, pending.past_caches)
    if deferred is not None:
        deferred(pointers, mask, past)
        return
    assert value is not None
    if half is not None and not half[1] and k.bounds is None and _is_followed(op):
        k.pending = PendingStore(pointers, value, mask, past, half[0])
        return
    k.nests.store(pointers, value, mask, past)


def _is_followed(store: StoreOp) -> bool:
    """Returns whether another store of a block follows, with nothing between but what computes elements and addresses."""
    op = store.next_op
    while op is not None and is_pure(type(op)) and (op.name.startswith(("arith.", "math.")) or op.name in _OF_ELEMENTS):
        op = op.next_op
    return isinstance(op, StoreOp) and is_tensor(op.ptr.type) and op.ptr.type == store.ptr.type
