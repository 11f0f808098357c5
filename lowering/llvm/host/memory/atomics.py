"""Lowers atomic operations lane by lane, with the memory order that the text asks for. Every scope is the whole process.

Volatile loads are lowered likewise: they read memory once, where they stand, whatever else the code reads there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Operation

from ....tt.dialect.attributes import enum_name
from ....tt.dialect.memory.atomics import HOST_RMW_OPERATIONS, MEMORY_ORDERS
from ...elementwise import emit_map, from_memory, memory_element, memory_size, to_memory
from ...ir import Function
from ...syntax import attribute, is_tensor, pointee_name, shape_of
from ...values import V, zero
from ..context import KernelContext
from ..elements import each_element
from ..loops.coordinates import Coordinates
from ..nodes import Pointers

ORDERS = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
_FLOATS = {"fadd": "arith.addf", "fmax": "arith.maxnumf", "fmin": "arith.minnumf"}
_INSTRUCTIONS = {"exch": "xchg", "inc": "uinc_wrap", "dec": "udec_wrap"}


def lower_atomic(k: KernelContext, op: Operation) -> None:
    """Lowers an atomic operation or a volatile load, on scalars and blocks. Results are kept: it happens once."""
    elem = pointee_name(op.operands[0].type)
    bits = _bits_type(elem)
    slot = k.f.alloca(bits, 1, 8)
    if not is_tensor(op.operands[0].type):
        pointer = k.scalar(op.operands[0])
        values = [k.scalar(value) for value in _values(op)]
        mask = None if _mask(op) is None else k.scalar(_mask(op))
        other = _other(op)
        k.f.store(zero(bits) if other is None else _to_bits(k.f, k.scalar(other), elem), slot, 1)
        _guarded(k, op, pointer, values, mask, slot, elem)
        if op.results:
            old = _from_bits(k.f, k.f.load(bits, slot, 1), elem)
            k.scalars[op.results[0]] = k.f.op(f"inttoptr i64 {old.operand()} to ptr", "ptr") if elem == "ptr" else old
        return
    shape = shape_of(op.operands[0].type)
    pointers = k.pointers(op.operands[0])
    values_ = [k.node(value) for value in _values(op)]
    mask_ = None if _mask(op) is None else k.node(_mask(op))
    fill = None if _other(op) is None else k.node(_other(op))
    memory = k.ev.scratch(shape, elem) if op.results else None
    with each_element(k, shape) as at:
        guard = None if mask_ is None else k.ev.at(mask_, at)
        items = [k.ev.at(node, at) for node in values_]
        address = address_of(k, pointers, at)
        k.f.store(zero(bits) if fill is None else _to_bits(k.f, k.ev.at(fill, at), elem), slot, 1)
        _guarded(k, op, address, items, guard, slot, elem)
        if memory is not None:
            k.ev.write_scratch(memory, at, _from_bits(k.f, k.f.load(bits, slot, 1), elem))
    if memory is not None:
        k.define(op.results[0], memory)


def _bits_type(elem: str) -> str:
    """Returns the integer type that holds an element in memory."""
    return f"i{8 * memory_size(elem)}"


def _to_bits(f: Function, value: V, elem: str) -> V:
    if value.type == "ptr":
        return f.op(f"ptrtoint ptr {value.operand()} to i64", "i64")
    return f.bitcast(to_memory(f, value, elem), _bits_type(elem))


def _from_bits(f: Function, value: V, elem: str) -> V:
    return from_memory(f, f.bitcast(value, memory_element(elem)), elem)


def _values(op: Operation) -> Any:
    count = {"tt.atomic_cas": 2, "tt.atomic_load": 0, "tt.load": 0}.get(op.name, 1)
    return op.operands[1 : 1 + count]


def _mask(op: Any) -> Any:
    return None if op.name == "tt.atomic_cas" else op.mask


def _other(op: Any) -> Any:
    """Returns what the lanes of a volatile load read that a mask turns off; None for zero."""
    return op.other if op.name == "tt.load" else None


def address_of(k: KernelContext, pointers: Pointers, at: Coordinates) -> V:
    return k.ev.pointer_at(pointers, at, None)


def _guarded(
    k: KernelContext, op: Operation, pointer: V, values: Sequence[V], mask: V | None, slot: V, elem: str
) -> None:
    if mask is None:
        k.f.store(_emit(k, op, pointer, values, elem), slot, 1)
        return
    with k.f.when(mask):
        k.f.store(_emit(k, op, pointer, values, elem), slot, 1)


def _emit(k: KernelContext, op: Operation, pointer: V, values: Sequence[V], elem: str) -> V:
    """Emits the operation on one element; returns the bits that it held before."""
    f = k.f
    bits, size = _bits_type(elem), memory_size(elem)
    if op.name == "tt.load":
        return f.op(f"load volatile {bits}, ptr {pointer.operand()}, align {size}", bits)
    order = ORDERS[str(enum_name(MEMORY_ORDERS, attribute(op, "sem")))]
    stored = [_to_bits(f, value, elem) for value in values]
    match op.name:
        case "tt.atomic_load":
            return f.op(f"load atomic {bits}, ptr {pointer.operand()} {order}, align {size}", bits)
        case "tt.atomic_store":
            f.emit(f"store atomic {bits} {stored[0].operand()}, ptr {pointer.operand()} {order}, align {size}")
            return stored[0]
        case "tt.atomic_cas":
            return _exchange(f, pointer, stored[0], stored[1], order)[0]
    kind = str(enum_name(HOST_RMW_OPERATIONS, attribute(op, "atomic_rmw_op")))
    if kind in _FLOATS:
        if elem in ("f32", "f64"):
            type_ = memory_element(elem)
            before = f.op(f"atomicrmw {kind} ptr {pointer.operand()}, {type_} {values[0].operand()} {order}", type_)
            return f.bitcast(before, bits)
        return _combine_narrow(f, _FLOATS[kind], pointer, values[0], elem, order)
    instruction = f"atomicrmw {_INSTRUCTIONS.get(kind, kind)}"
    return f.op(f"{instruction} ptr {pointer.operand()}, {bits} {stored[0].operand()} {order}", bits)


def _exchange(f: Function, pointer: V, expected: V, value: V, order: str) -> tuple[V, V]:
    """Emits a compare and swap; returns the bits that were there, and whether they were the expected ones."""
    failure = {"release": "monotonic", "acq_rel": "acquire"}.get(order, order)
    pair_type = f"{{ {value.type}, i1 }}"
    operands = f"{value.type} {expected.operand()}, {value.type} {value.operand()}"
    pair = f.op(f"cmpxchg ptr {pointer.operand()}, {operands} {order} {failure}", pair_type).operand()
    return f.op(f"extractvalue {pair_type} {pair}, 0", value.type), f.op(f"extractvalue {pair_type} {pair}, 1", "i1")


def _combine_narrow(f: Function, op: str, pointer: V, value: V, elem: str, order: str) -> V:
    """Combines floats that no instruction combines: in float32, rounded, and again until no other thread interfered."""
    bits = _bits_type(elem)
    slot = f.alloca(bits, 1, 8)
    f.store(f.op(f"load atomic {bits}, ptr {pointer.operand()} monotonic, align {memory_size(elem)}", bits), slot, 1)
    again, done = f.label("again"), f.label("combined")
    f.branch(again)
    f.start(again)
    seen = f.load(bits, slot, 1)
    total = emit_map(f, op, elem, [_from_bits(f, seen, elem), value], [elem, elem], {})
    old, succeeded = _exchange(f, pointer, seen, _to_bits(f, total, elem), order)
    f.store(old, slot, 1)
    f.cond_branch(succeeded, done, again)
    f.start(done)
    return seen
