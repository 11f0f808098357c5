"""Translates accesses to global memory of inline assembly into block operations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

from xdsl.dialects.builtin import BoolAttr
from xdsl.ir import Attribute

from ..tt import types as t
from ..tt.dialect.attributes import CACHE_MODIFIERS, cache_policy, enum_attr
from ..tt.dialect.memory.atomics import MEMORY_ORDERS, MEMORY_SCOPES, RMW_OPERATIONS
from ..tt.dialect.memory.pointers import LOAD_SEGMENTS, SEGMENTS
from ..tt.transforms.expression import Expr
from .effects import Access
from .expand_floats import FLOAT_TYPES
from .expand_integers import INTEGERS
from .instructions import WIDTHS


def access(d: Access, address: Expr, values: Sequence[Expr], guard: Expr | None, volatile: bool) -> list[Expr]:
    """Emits an access at an i64 address.

    Args:
        values: of the sources, of the type that is moved.
        guard: where the access happens.
        volatile: loads without an order happen each time that they are run, as in assembly that is not pure.

    Returns what each result gets; nothing is known of it where the guard is false.
    """
    width = WIDTHS[d.type]
    if d.opcode in ("atom", "red"):
        adds_floats = d.operation == "add" and d.type in FLOAT_TYPES
        pointer = _pointer(address, d.offset, FLOAT_TYPES[d.type] if adds_floats else INTEGERS[width])
        return [_update(d, pointer, values, guard)]
    # Neighbours are moved as one integer, up to 64 bits, so that their address has to be a multiple of its size.
    each = min(d.count, 64 // width)
    elem = INTEGERS[width * each]
    pointers = [_pointer(address, d.offset + index * width // 8, elem) for index in range(0, d.count, each)]
    if d.opcode == "st":
        for index, pointer in enumerate(pointers):
            _store(d, pointer, _packed(values[index * each : (index + 1) * each], elem), guard)
        return []
    return [
        part for pointer in pointers for part in _unpacked(_load(d, pointer, elem, guard, volatile), each, INTEGERS[width])
    ]


def _packed(values: Sequence[Expr], type_: Attribute) -> Expr:
    """Returns integers as one, the first in the lowest bits."""
    if len(values) == 1:
        return values[0]
    width = values[0].width
    parts = [value.cast("arith.extui", type_) for value in values]
    return reduce(or_, [part.shl(index * width) if index else part for index, part in enumerate(parts)])


def _unpacked(value: Expr, count: int, type_: Attribute) -> list[Expr]:
    """Returns the `count` integers of this type that one is made of."""
    if count == 1:
        return [value]
    width = t.bit_width(type_)
    return [(value.lshr(index * width) if index else value).cast("arith.trunci", type_) for index in range(count)]


def _pointer(address: Expr, offset: int, elem: Attribute) -> Expr:
    """Returns the pointers `offset` bytes behind an address.

    An address that a pointer was made into keeps that pointer as its base, so that it is known which arrays are accessed.
    """
    producer, size = address.v.owner, t.bit_width(elem) // 8
    b, type_ = address.b, t.ptr(elem)
    if getattr(producer, "name", "") == "tt.ptr_to_int" and offset % size == 0:
        base = Expr(b, producer.operands[0])  # type: ignore[union-attr]
        pointers = base if t.elem(base.type) == type_ else base.cast("tt.bitcast", type_)
        if not offset:
            return pointers
        return Expr(b, b.addptr(pointers.v, b.const(offset // size, t.I64, t.shape_of(address.type))))
    return (address + offset if offset else address).cast("tt.int_to_ptr", type_)


def _orders(d: Access) -> dict[str, Attribute]:
    return {"sem": enum_attr(MEMORY_ORDERS[d.order]), "scope": enum_attr(MEMORY_SCOPES[d.scope])}


def _hints(d: Access) -> dict[str, Attribute]:
    cache = d.cache if d.cache in CACHE_MODIFIERS else "none"
    return {"cachePolicy": cache_policy(cache, d.eviction or "evict_normal")} if cache != "none" or d.eviction else {}


def _load(d: Access, pointer: Expr, elem: Attribute, guard: Expr | None, volatile: bool) -> Expr:
    b, operands = pointer.b, [pointer.v] if guard is None else [pointer.v, guard.v]
    type_ = t.value_type(pointer.type)
    if d.order != "weak":
        (found,) = b.op("tt.atomic_load", operands, (type_,), _orders(d))
        return Expr(b, found)
    if guard is not None:
        operands.append(b.const(0, elem, t.shape_of(pointer.type)))
    properties = {SEGMENTS: LOAD_SEGMENTS[len(operands) - 1], "isVolatile": BoolAttr.from_bool(volatile), **_hints(d)}
    (found,) = b.op("tt.load", operands, (type_,), properties)
    return Expr(b, found)


def _store(d: Access, pointer: Expr, value: Expr, guard: Expr | None) -> None:
    operands = [pointer.v, value.v] if guard is None else [pointer.v, value.v, guard.v]
    if d.order == "weak":
        pointer.b.op("tt.store", operands, (), _hints(d))
    else:
        pointer.b.op("tt.atomic_store", operands, (), _orders(d))


def _update(d: Access, pointer: Expr, values: Sequence[Expr], guard: Expr | None) -> Expr:
    operands, type_ = [pointer.v, *[value.v for value in values]], t.value_type(pointer.type)
    if d.operation == "cas":
        (found,) = pointer.b.op("tt.atomic_cas", operands, (type_,), _orders(d))
        return Expr(pointer.b, found)
    kind = d.operation
    if kind == "add" and d.type in FLOAT_TYPES:
        kind = "fadd"
    elif kind in ("min", "max") and d.type[0] == "u":
        kind = f"u{kind}"
    if guard is not None:
        operands.append(guard.v)
    properties = {"atomic_rmw_op": enum_attr(RMW_OPERATIONS[kind]), **_orders(d)}
    (found,) = pointer.b.op("tt.atomic_rmw", operands, (type_,), properties)
    return Expr(pointer.b, found)


__all__ = ["access"]
