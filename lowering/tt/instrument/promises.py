"""Emits checks that hints of a text hold, stricter than the sanitizer's (`sanitize/promises.py`): no row begins anew."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue

from .. import types as t
from ..builder.block_builder import BlockBuilder
from ..sanitize.promises import Hints
from ..sanitize.reliance import widths_along


def kept(b: BlockBuilder, op: Operation, hints: Hints) -> Iterator[SSAValue]:
    """Emits, behind an operation with hints, the conditions that they hold: each an i1, or a block of them."""
    value: SSAValue = op.results[0]
    unit = 1
    if t.is_pointer(value.type):
        unit = max(1, t.bit_width(t.value_type(value.type)) // 8)
        value = b.cast("tt.ptr_to_int", value, t.I64)
    type_, shape = t.elem(value.type), t.shape_of(value.type)
    widths = widths_along(op) or (None,)
    for axis in range(max(1, len(shape))):
        extent = shape[axis] if shape else 1
        contiguity = min(hints.contiguity[axis], extent) if hints.contiguity else 1
        constancy = min(hints.constancy[axis], extent) if hints.constancy else 1
        first = value
        is_believed = contiguity == 1 or widths[axis] is not None
        if contiguity > 1 and is_believed:
            first, condition = _groups(b, value, axis, contiguity, unit)
            yield condition
        if constancy > 1:
            yield _groups(b, value, axis, constancy, 0)[1]
        divisor = hints.divisibility[axis] if hints.divisibility and is_believed else 1
        if divisor > 1 << t.bit_width(type_) - 1:
            yield b.const(0, t.I1)
        elif divisor > 1:
            given = t.shape_of(first.type)
            rest = b.binary("arith.andi", first, b.const(divisor - 1, type_, given))
            yield b.cmpi("eq", rest, b.const(0, type_, given))


def _groups(b: BlockBuilder, value: SSAValue, axis: int, length: int, step: int) -> tuple[SSAValue, SSAValue]:
    """Emits what groups along an axis begin with, and that their elements rise by a step."""
    type_, shape = t.elem(value.type), t.shape_of(value.type)
    groups = (*shape[:axis], shape[axis] // length, length, *shape[axis + 1 :])
    split = b.reshape(value, groups)
    if step:
        steps = b.arange(length)
        if t.bit_width(type_) != 32:
            steps = b.cast("arith.extsi" if t.bit_width(type_) > 32 else "arith.trunci", steps, type_)
        steps = b.binary("arith.muli", steps, b.const(step, type_, (length,)))
        for other in range(len(groups)):
            if other != axis + 1:
                steps = b.expand_dims(steps, other)
        split = b.binary("arith.subi", split, b.broadcast(steps, groups))
    low = b.reduce([split], axis + 1, lambda w, x, y: [w.binary("arith.minsi", x[0], y[0])])[0]
    high = b.reduce([split], axis + 1, lambda w, x, y: [w.binary("arith.maxsi", x[0], y[0])])[0]
    return low, b.cmpi("eq", low, high)


__all__ = ["kept"]
