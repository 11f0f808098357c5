"""Runs the operations that load, store and update through pointers, with the checks of the sanitizer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.ir import Operation

from ....promotion.arrays import Array, NumpyDType
from .. import types as t
from ..dialect.attributes import case_name, property_number
from ..dialect.memory.atomics import MEMORY_ORDERS, MEMORY_SCOPES
from ..interpret.evaluators import EVALUATORS, poison
from ..interpret.machine import Step, Value
from ..types import numpy_dtype
from .machine import SanitizedTranslator
from .races import PLAIN_READ, PLAIN_WRITE, Access
from .shadow import Frame, Shadow, tidy


def _size(dtype: NumpyDType) -> int:
    return dtype.itemsize  # i1 is a byte in memory, as it is in NumPy


def _undefined(shadow: Shadow | None, off: Array, number: int) -> Shadow | None:
    """Returns the shadow of a result whose lanes in `off` read `other` with this shadow, or nothing (number >
    0)."""
    if number:
        return tidy(Shadow(np.where(off, number, 0).astype(np.int32)))
    if shadow is None or shadow.poison is None:
        return None
    return tidy(Shadow(np.where(off, shadow.poison, 0).astype(np.int32)))


def _load(translation: SanitizedTranslator, op: Operation) -> Step[Frame]:
    guard, evaluate = translation.guard, EVALUATORS["tt.load"](op, translation.machine.memory)
    pointer, *rest = [translation.slot(value) for value in op.operands]
    mask, other = (*rest, None, None)[:2]
    result = translation.slot(op.results[0])
    dtype = numpy_dtype(op.results[0].type)
    nothing, zero, size = poison(dtype), np.zeros((), dtype), _size(dtype)
    number = guard.number(op) if other is None else 0

    def step(env: Frame) -> None:
        table = env.shadow
        where, shadow = guard.resolved(env[pointer]), table.get(pointer)
        chosen = None if mask is None else env[mask]
        live, off = guard.lanes(
            op, where, shadow, chosen, None if mask is None else table.get(mask), size, PLAIN_READ
        )
        blank = guard.touch(op, where, shadow, live, size, PLAIN_READ)
        if mask is None and live.all():
            env[result] = evaluate(where)
            _set(table, result, None if blank is None else Shadow(blank))
            return
        # Lanes that were refused read zero and count as defined: one mistake, one finding.
        fill = np.where(off, nothing if other is None else env[other], zero).astype(dtype)
        env[result] = evaluate(where, live, fill)
        found = _undefined(None if other is None else table.get(other), off, number) if off.any() else None
        if blank is not None:
            found = Shadow(blank if found is None or found.poison is None else np.where(blank, blank, found.poison))
        _set(table, result, found)

    return step


def _store(translation: SanitizedTranslator, op: Operation) -> Step[Frame]:
    guard, evaluate = translation.guard, EVALUATORS[op.name](op, translation.machine.memory)
    pointer, value, *rest = [translation.slot(each) for each in op.operands]
    mask = rest[0] if rest else None
    dtype = numpy_dtype(op.operands[1].type)
    access = PLAIN_WRITE if op.name == "tt.store" else _atomic(op, reads=False, writes=True)
    size, is_address = _size(dtype), t.is_pointer(op.operands[1].type)

    def step(env: Frame) -> None:
        table = env.shadow
        where, shadow, what = guard.resolved(env[pointer]), table.get(pointer), np.asarray(env[value])
        if is_address:
            what = np.asarray(guard.to_host(what))
        chosen = None if mask is None else env[mask]
        uses = [("the stored value", table.get(value))]
        live, _ = guard.lanes(
            op, where, shadow, chosen, None if mask is None else table.get(mask), size, access, uses
        )
        guard.touch(
            op, where, shadow, live, size, access, what.astype(np.uint8) if what.dtype == np.bool_ else what
        )
        guard.changes += 1
        evaluate(where, what, live)

    return step


def _atomic(op: Operation, reads: bool, writes: bool) -> Access:
    order = case_name(MEMORY_ORDERS, op.properties["sem"])
    if property_number(op, "scope") == MEMORY_SCOPES["cta"]:
        return Access(reads, writes, False)  # atomic within its program only
    return Access(
        reads,
        writes,
        True,
        reads and order in ("acquire", "acq_rel"),
        writes and order in ("release", "acq_rel"),
    )


def _atomic_load(translation: SanitizedTranslator, op: Operation) -> Step[Frame]:
    guard, evaluate = translation.guard, EVALUATORS["tt.atomic_load"](op, translation.machine.memory)
    pointer, *rest = [translation.slot(value) for value in op.operands]
    mask = rest[0] if rest else None
    result, number = translation.slot(op.results[0]), guard.number(op)
    size, access = _size(numpy_dtype(op.results[0].type)), _atomic(op, reads=True, writes=False)

    def step(env: Frame) -> None:
        table = env.shadow
        where, shadow = guard.resolved(env[pointer]), table.get(pointer)
        chosen = None if mask is None else env[mask]
        live, off = guard.lanes(
            op, where, shadow, chosen, None if mask is None else table.get(mask), size, access
        )
        guard.touch(op, where, shadow, live, size, access)
        env[result] = evaluate(where, live)
        _set(table, result, _undefined(None, off, number))

    return step


def _update(values: int) -> Callable[[SanitizedTranslator, Operation], Step[Frame]]:
    """Makes steps for tt.atomic_rmw (one value) and tt.atomic_cas (two: what is expected, and what is
    written)."""

    def make(translation: SanitizedTranslator, op: Operation) -> Step[Frame]:
        guard, evaluate = translation.guard, EVALUATORS[op.name](op, translation.machine.memory)
        pointer, *rest = [translation.slot(value) for value in op.operands]
        operands, mask = rest[:values], rest[values] if len(rest) > values else None
        result, number = translation.slot(op.results[0]), guard.number(op)
        dtype = numpy_dtype(op.results[0].type)
        size, access = _size(dtype), _atomic(op, reads=True, writes=True)
        failed = access._replace(writes=False, releases=False)

        def step(env: Frame) -> None:
            table = env.shadow
            where, shadow = guard.resolved(env[pointer]), table.get(pointer)
            chosen = None if mask is None else env[mask]
            uses = [("an operand of the atomic", table.get(slot)) for slot in operands]
            known = None if mask is None else table.get(mask)
            live, off = guard.lanes(op, where, shadow, chosen, known, size, access, uses)
            old = evaluate(where, *[env[slot] for slot in operands], live)
            if values == 2:  # where the comparison fails, a compare-and-swap only reads
                hit = live & np.asarray(_bits(old) == _bits(env[operands[0]]))
                guard.touch(op, where, shadow, live & ~hit, size, failed)
                guard.touch(op, where, shadow, hit, size, access)
            else:
                guard.touch(op, where, shadow, live, size, access)
            guard.take_changes(where, live, old)
            env[result] = old
            _set(table, result, _undefined(None, off, number))

        return step

    return make


def _bits(value: Value) -> Value:
    array = np.ascontiguousarray(value)
    return array.view(f"u{array.dtype.itemsize}").reshape(np.shape(value))


def _set(table: dict[int, Shadow], slot: int, shadow: Shadow | None) -> None:
    if shadow is None:
        table.pop(slot, None)
    else:
        table[slot] = shadow


ACCESSES: dict[str, Callable[[SanitizedTranslator, Operation], Step[Frame]]] = {
    "tt.load": _load,
    "tt.store": _store,
    "tt.atomic_rmw": _update(1),
    "tt.atomic_cas": _update(2),
    "tt.atomic_load": _atomic_load,
    "tt.atomic_store": _store,
}
"""Makers of steps by the name of the operation. They take a protocol, since the translation imports this
module."""

__all__ = ["ACCESSES"]
