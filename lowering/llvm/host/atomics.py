"""Atomic operations on the host: lane by lane, with the order the text asks for. Every scope is the whole process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....promotion.errors import UnsupportedError
from ...tt.attributes import enum_name
from ...tt.dialect_atomics import HOST_RMW_OPERATIONS, MEMORY_ORDERS
from ..ir import V, zero
from .elements import each_element
from .elementwise import from_memory, memory_element, memory_size, to_memory
from .evaluate import Coordinates
from .nodes import Affine, Node, Pointers
from .syntax import attribute, is_tensor, pointee_name, shape_of

if TYPE_CHECKING:
    from .kernel import KernelLowering

_ORDERS = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
_ON_FAILURE = {"relaxed": "monotonic", "acquire": "acquire", "release": "monotonic", "acq_rel": "acquire"}
_INSTRUCTIONS = {"exch": "xchg", "inc": "uinc_wrap", "dec": "udec_wrap"}


def lower_atomic(k: KernelLowering, op: Any) -> None:
    """Every atomic operation, on scalars and blocks. Results are kept: the operation happens once."""
    elem = pointee_name(op.operands[0].type)
    if memory_element(elem) not in ("i8", "i16", "i32", "i64", "float", "double") or elem in ("f16", "bf16", "i1"):
        raise UnsupportedError(f"host lowering: {op.name} of {elem}")
    result = op.results[0] if op.results else None
    if not is_tensor(op.operands[0].type):
        pointer = k._scalar(op.operands[0])
        values = [k._scalar(value) for value in _values(op)]
        mask = None if _mask(op) is None else k._scalar(_mask(op))
        slot = k.f.alloca(memory_element(elem), 1, 8)
        k.f.store(zero(memory_element(elem)), slot, 1)
        _guarded(k, op, pointer, values, mask, slot, elem)
        if result is not None:
            k.scalars[result] = from_memory(k.f, k.f.load(memory_element(elem), slot, 1), elem)
        return
    shape = shape_of(op.operands[0].type)
    pointers = k._pointers(op.operands[0])
    values_ = [k._node(value) for value in _values(op)]
    mask_ = None if _mask(op) is None else k._node(_mask(op))
    memory = k.ev.scratch(shape, elem) if result is not None else None
    slot = k.f.alloca(memory_element(elem), 1, 8)
    with each_element(k, shape) as at:
        guard = None if mask_ is None else k.ev.at(mask_, at)
        items = [k.ev.at(node, at) for node in values_]
        address = _address(k, pointers, at)
        k.f.store(zero(memory_element(elem)), slot, 1)
        _guarded(k, op, address, items, guard, slot, elem)
        if memory is not None:
            old = from_memory(k.f, k.f.load(memory_element(elem), slot, 1), elem)
            k.ev.write_scratch(memory, at, old)
    if memory is not None:
        k._define(result, memory)


def _values(op: Any) -> Any:
    count = {"tt.atomic_cas": 2, "tt.atomic_load": 0}.get(op.name, 1)
    return op.operands[1 : 1 + count]


def _mask(op: Any) -> Any:
    return None if op.name == "tt.atomic_cas" else op.mask


def _address(k: KernelLowering, pointers: Pointers, at: Coordinates) -> V:
    offset: Node = pointers.offset
    if isinstance(offset, Affine):
        return k.ev.pointer_at(pointers, at, None)
    element = memory_element(pointers.pointee)
    return k.f.gep(pointers.base, k.ev.s.to_i64(k.ev.at(offset, at)), element)


def _guarded(
    k: KernelLowering, op: Any, pointer: V, values: Sequence[V], mask: V | None, slot: V, elem: str
) -> None:
    if mask is None:
        k.f.store(_emit(k, op, pointer, values, elem), slot, 1)
        return
    with k.f.when(mask):
        k.f.store(_emit(k, op, pointer, values, elem), slot, 1)


def _emit(k: KernelLowering, op: Any, pointer: V, values: Sequence[V], elem: str) -> V:
    f = k.f
    order = str(enum_name(MEMORY_ORDERS, attribute(op, "sem")))
    type_ = memory_element(pointee_name(op.operands[0].type))
    stored = [to_memory(f, value, elem) for value in values]
    if op.name == "tt.atomic_rmw":
        kind = str(enum_name(HOST_RMW_OPERATIONS, attribute(op, "atomic_rmw_op")))
        return f.op(
            f"atomicrmw {_INSTRUCTIONS.get(kind, kind)} ptr {pointer.ref}, {type_} {stored[0].ref} {_ORDERS[order]}", type_
        )
    align = memory_size(pointee_name(op.operands[0].type))
    if op.name == "tt.atomic_load":
        return f.op(f"load atomic {type_}, ptr {pointer.ref} {_ORDERS[order]}, align {align}", type_)
    if op.name == "tt.atomic_store":
        f.emit(f"store atomic {type_} {stored[0].ref}, ptr {pointer.ref} {_ORDERS[order]}, align {align}")
        return stored[0]
    bits = {"float": "i32", "double": "i64"}.get(type_, type_)
    compared, written = (f.bitcast(value, bits) if bits != type_ else value for value in stored)
    pair = f.op(
        f"cmpxchg ptr {pointer.ref}, {bits} {compared.ref}, {bits} {written.ref} {_ORDERS[order]} {_ON_FAILURE[order]}",
        f"{{ {bits}, i1 }}",
    )
    old = f.op(f"extractvalue {{ {bits}, i1 }} {pair.ref}, 0", bits)
    return f.bitcast(old, type_) if bits != type_ else old
