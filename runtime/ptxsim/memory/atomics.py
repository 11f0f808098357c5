"""Executes atom and red: lanes that access one address do so in ascending order.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions: atom, red".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....lowering.ptx.instructions import WIDTHS
from ....lowering.ptx.syntax import Instruction, Operand, Vector
from ....promotion.arrays import Array
from ....promotion.errors import UnsupportedError
from ..arithmetic.floats import finish, flush, from_bf16, to_bf16
from ..arithmetic.rounding import narrowed
from ..core.binding import Binding
from ..core.modifiers import Modifiers
from ..core.types import Mask, Step, number_type
from .access import Router, address_of, hints, order_of, space_of

_TYPES: dict[str, tuple[str, ...]] = {
    "add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16", "f16x2", "bf16x2"),
    "min": ("u32", "s32", "u64", "s64", "f16", "bf16", "f16x2", "bf16x2"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16", "f16x2", "bf16x2"),
    "and": ("b32", "b64"), "or": ("b32", "b64"), "xor": ("b32", "b64"), "exch": ("b32", "b64"), "cas": ("b16", "b32", "b64"),
    "inc": ("u32",), "dec": ("u32",),
}  # fmt: skip
Combine = Callable[[Array, Array, Array | None], Array]


def _sum(type_: str, flushing: bool) -> Combine:
    if type_ in ("f32", "f64"):

        def add_floats(old: Array, value: Array, _: Array | None) -> Array:
            if not flushing:
                return finish(old + value, type_, frozenset())
            return finish(np.asarray(flush(flush(old) + flush(value))), type_, frozenset())

        return add_floats
    if type_.startswith("bf16"):

        def add_bfloats(old: Array, value: Array, _: Array | None) -> Array:
            a, b = (np.ascontiguousarray(x).view(np.uint16) for x in (old, value))
            wide = narrowed(from_bf16(a).astype(np.float64) + from_bf16(b), "bf16", "rn")
            return to_bf16(wide).view(old.dtype)

        return add_bfloats
    if type_.startswith("f16"):

        def add_halves(old: Array, value: Array, _: Array | None) -> Array:
            a, b = (np.ascontiguousarray(x).view(np.float16).astype(np.float32) for x in (old, value))
            return finish((a + b).astype(np.float16), "f16", frozenset()).view(old.dtype)

        return add_halves
    return lambda old, value, _: old + value


def _extreme(type_: str, larger: bool) -> Combine:
    if type_[0] in "us":
        function = np.maximum if larger else np.minimum
        return lambda old, value, _: function(old, value)
    pick = np.fmax if larger else np.fmin

    def halves(old: Array, value: Array, _: Array | None) -> Array:
        a, b = (np.ascontiguousarray(x).view(np.uint16) for x in (old, value))
        if type_.startswith("bf16"):
            return to_bf16(pick(from_bf16(a), from_bf16(b))).view(old.dtype)
        return finish(pick(a.view(np.float16), b.view(np.float16)), "f16", frozenset()).view(old.dtype)

    return halves


def _combine(name: str, type_: str, flushing: bool) -> Combine:
    if name == "add":
        return _sum(type_, flushing)
    if name in ("min", "max"):
        return _extreme(type_, name == "max")
    plain: dict[str, Combine] = {
        "and": lambda old, value, _: old & value, "or": lambda old, value, _: old | value,
        "xor": lambda old, value, _: old ^ value, "exch": lambda old, value, _: value,
        "inc": lambda old, value, _: np.where(old >= value, np.uint32(0), old + np.uint32(1)),
        "dec": lambda old, value, _: np.where((old == 0) | (old > value), value, old - np.uint32(1)),
    }  # fmt: skip
    if name == "cas":
        return lambda old, value, new: np.where(old == value, new, old)  # type: ignore[arg-type]
    return plain[name]


def atomic(k: Binding, i: Instruction) -> Step:
    modifiers = Modifiers(i)
    order_of(modifiers)
    space = space_of(modifiers)
    policy = hints(modifiers)
    name = modifiers.choice(_TYPES)
    modifiers.has("noftz")
    count = int(modifiers.choice(("v2", "v4", "v8"), "v1")[1:])
    type_ = modifiers.choice(_TYPES[name])
    modifiers.done()
    returns = i.opcode == "atom"
    operands = list(i.operands)
    if len(operands) != 2 + returns + (name == "cas") + policy or space in ("local", "const", "param"):
        raise k.refuse(operands[0], "the operands of an atomic in global or shared memory")
    target = operands.pop(0) if returns else None
    start = operands.pop(0)
    operand_type = "b16" if type_ in ("f16", "bf16") else ("b32" if type_.endswith("x2") else type_)
    values = [k.full(o, operand_type) for o in _elements(k, operands[0], count)]
    other = k.full(operands[1], operand_type) if name == "cas" else None
    outs = [k.destination(o, operand_type) for o in _elements(k, target, count)] if target is not None else []
    if count > 1 and (name != "add" or space not in ("global", "")):
        raise UnsupportedError(f"{modifiers.where}: only .add has vectors, in global memory")
    dtype = number_type(operand_type)
    address = address_of(k, start)
    combine = _combine(name, type_, type_ == "f32" and space in ("global", ""))
    router = Router(k, space, start)
    size = WIDTHS[operand_type] // 8
    machine = k.machine
    watch = k.watcher(start, operands, size * count, True)

    def one(view: Array, index: Array, value: Array, new: Array | None) -> Array:
        """Updates elements; returns the old ones."""
        unique, counts = np.unique(index, return_counts=True)
        if unique.size == index.size:
            old = view[index]
            view[index] = combine(old, value, new)
            return old
        old = np.empty(index.size, view.dtype)
        order = np.argsort(index, kind="stable")
        # round t holds the t-th lane of every address
        round_ = np.arange(index.size) - np.repeat(np.cumsum(counts) - counts, counts)
        for t in range(int(counts.max())):
            lanes = order[round_ == t]
            before = view[index[lanes]]
            old[lanes] = before
            view[index[lanes]] = combine(before, value[lanes], new[lanes] if new is not None else None)
        return old

    def step(mask: Mask) -> None:
        lanes = np.arange(k.lanes) if mask is None else np.flatnonzero(mask)
        where = address(lanes)
        changed = False
        for space_, _, inner, who in router.parts(where, lanes):
            own = who if who is not None else lanes
            offset = space_.offsets(inner, size * count, own, True, router.site)
            if watch is not None:
                watch(space_, offset, own)
            view = space_.view(dtype)
            for j in range(count):
                index = (offset >> np.uint64(size.bit_length() - 1)) + np.uint64(j)
                old = one(view, index, values[j]()[own], other()[own] if other is not None else None)
                changed = changed or not np.array_equal(view[index].view(f"u{size}"), old.view(f"u{size}"))
                if outs:
                    outs[j][own] = old
        if changed:
            machine.changes += 1
        else:
            machine.soft_polls += 1

    return step


def _elements(k: Binding, operand: Operand, count: int) -> tuple[Operand, ...]:
    if count == 1:
        return (operand,)
    if not isinstance(operand, Vector) or len(operand.elements) != count:
        raise k.refuse(operand, f"{count} registers in braces")
    return operand.elements
