"""Lowers loads and stores of global memory."""

from __future__ import annotations

from typing import Any

from ....linear_layouts.layout import LANE, REGISTER, WARP, LinearLayout
from ....tt.dialect.memory.pointers import LoadOp, StoreOp
from ...syntax import attributes, element_name, is_tensor, pointee_name, shape_of
from ..context import Handler, KernelContext
from ..nodes import Distributed, is_materialized, own_layout
from ..threads import bits_of
from .global_memory import LINE, access_groups, row_bytes, written_groups


def _load(k: KernelContext, op: LoadOp) -> None:
    result = op.results[0]
    if op in k.staged:
        k.define(result, k.staged[op])
        return
    attrs = attributes(op)
    elem = element_name(result.type)
    cache, volatile = _cache(attrs), bool(attrs.get("isVolatile"))
    if not is_tensor(result.type):
        k.order.before(op, None)
        guard = None if op.mask is None else k.scalar(op.mask)
        fill = None if op.other is None else k.t.to_bits(k.scalar(op.other), elem)
        if guard is not None and fill is None:
            fill = k.t.to_bits(k.ev.zero(elem), elem)
        packed = k.memory.load_bits(k.scalar(op.ptr), bits_of(elem), guard, fill, cache, volatile)
        k.scalars[result] = k.t.from_bits(k.t.unpack(packed, 1, bits_of(elem))[0], elem)
        return
    layout = k.access_layout(op)
    if k.ev.only_layouts:
        k.define(result, Distributed(shape_of(result.type), elem, layout, k.ev.any(elem, layout.size(REGISTER))))
        return
    k.order.before(op, layout)
    known = k.accesses.info(op)
    vector, axis = known.width(shape_of(result.type), bits_of(elem), layout)
    groups = access_groups(layout, vector, axis)
    firsts = [registers[0] for registers in groups]
    mask = None if op.mask is None else k.elements(op.mask, layout, firsts)
    other = None if op.other is None else k.registers(op.other, layout)
    values = k.memory.load(elem, layout, groups, k.elements(op.ptr, layout, firsts), mask, other, cache, volatile)
    k.define(result, Distributed(shape_of(result.type), elem, layout, values))


def _store(k: KernelContext, op: StoreOp) -> None:
    if k.ev.only_layouts:
        return
    elem = pointee_name(op.ptr.type)
    cache = _cache(attributes(op))
    if not is_tensor(op.ptr.type):
        k.order.before(op, None)
        guard = k.t.is_first() if op.mask is None else k.f.binary("and", k.t.is_first(), k.scalar(op.mask))
        k.memory.store_bits(k.scalar(op.ptr), k.t.to_bits(k.scalar(op.value), elem), guard, cache)
        return
    layout = _written_layout(k, op, bits_of(elem))
    k.order.before(op, layout)
    vector, axis = k.accesses.info(op).width(shape_of(op.ptr.type), bits_of(elem), layout)
    groups = written_groups(layout, vector, axis)
    firsts = [registers[0] for registers in groups]
    mask = None if op.mask is None else k.elements(op.mask, layout, firsts)
    k.memory.store(elem, layout, groups, k.elements(op.ptr, layout, firsts), k.registers(op.value, layout), mask, cache)


def _written_layout(k: KernelContext, op: StoreOp, bits: int) -> LinearLayout:
    """Returns the layout of a store: the value's own, if its lanes fill lines of memory as well as after a conversion."""
    best, found = k.access_layout(op), own_layout(k.node(op.value))
    operands = [k.node(op.ptr), *([] if op.mask is None else [k.node(op.mask)])]
    if found is None or not found[1] or any(map(is_materialized, operands)):
        return best
    if any(found[0].free_masks((LANE, WARP)).values()):
        return best
    shape, info = shape_of(op.ptr.type), k.accesses.info(op)
    rows = [row_bytes(layout, bits, *info.width(shape, bits, layout)) for layout in (found[0], best)]
    return found[0] if rows[0] >= min(rows[1], LINE) else best


def _cache(attrs: dict[str, Any]) -> str:
    found = attrs.get("cachePolicy") or attrs.get("cache") or ""
    return str(found) if found not in ("none", 1) else ""


ACCESSES: dict[str, Handler] = {"tt.load": _load, "tt.store": _store}
