"""Runs the operations on descriptors, block pointers and tensor maps, and polls, with the checks of the sanitizer.

A descriptor or block pointer that is made of an undefined value is undefined as a whole. Their accesses are checked by
addresses, on behalf of the operation that the guard watches.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from .. import types as t
from ..dialect.memory.descriptor_types import is_composite
from ..interpret.descriptors import lanes_inside
from ..interpret.machine import Step, Value
from ..types import numpy_dtype
from .machine import SanitizedTranslator
from .shadow import Frame, Shadow, tidy

MADE = frozenset({"tt.make_tensor_descriptor", "tt.make_tensor_ptr", "tt.advance"})
"""Operations that make a descriptor or block pointer of their operands."""
_VALUES = {"tt.store": 1, "tt.descriptor_store": 1, "tt.descriptor_scatter": 3, "tt.descriptor_reduce": 1}
"""The position of the operand that is written."""
_NAMES = {"tt.load": "the block pointer", "tt.store": "the block pointer", "tt.atomic_poll": "an operand of the poll"}


def uses_operands(op: Operation) -> bool:
    """Returns whether an operation accesses memory by its operands, so that they have to be defined."""
    return op.name.startswith(("tt.descriptor_", "ttng.")) or op.name == "tt.atomic_poll" or (
        op.name in ("tt.load", "tt.store") and is_composite(op.operands[0].type)
    )


def made(translation: SanitizedTranslator, op: Operation, step: Step[Frame]) -> Step[Frame]:
    """Translates an operation of `MADE`: what any operand leaves undefined is undefined as a whole."""
    slots, result = [translation.slot(value) for value in op.operands], translation.slot(op.results[0])

    def run(env: Frame) -> None:
        step(env)
        known = [shadow.poison for slot in slots if (shadow := env.shadow.get(slot)) is not None and shadow.poison is not None]
        worst = max((int(np.max(each)) for each in known), default=0)
        env.shadow.pop(result, None)
        if worst:
            env.shadow[result] = Shadow(np.array(worst, np.int32))

    return run


def used(translation: SanitizedTranslator, op: Operation, step: Step[Frame]) -> Step[Frame]:
    """Translates an access of `uses_operands`. It is left out where what decides its addresses is undefined."""
    guard = translation.guard
    written = _VALUES.get(op.name)
    deciding = [(_name(op, i), translation.slot(value)) for i, value in enumerate(op.operands) if i != written]
    value = None if written is None else translation.slot(op.operands[written])
    slots = [translation.slot(each) for each in op.operands]
    nothing = [(translation.slot(result), _nothing(result.type)) for result in op.results]
    inside = lanes_inside(op, translation.machine.memory) if op.name == "tt.descriptor_reduce" else None

    def run(env: Frame) -> None:
        if any([guard.undefined(op, what, env.shadow.get(slot)) for what, slot in deciding]):
            for result, zero in nothing:
                env[result] = zero
            return
        known = None if value is None else env.shadow.get(value)
        if inside is not None and known is not None and known.poison is not None:
            lanes = inside(*[env[slot] for slot in slots])
            assert lanes is not None
            poison = np.where(lanes, known.poison.reshape(lanes.shape), 0)
            if guard.undefined(op, "an operand of the atomic", tidy(Shadow(poison))):
                return
        elif known is not None and known.poison is not None:
            guard.written = known.poison
        try:
            step(env)
        finally:
            guard.written = None

    return run


def _name(op: Operation, position: int) -> str:
    if op.name in _NAMES:
        return _NAMES[op.name]
    if not op.name.startswith("tt."):
        return "an operand"
    return "an index" if position else "the descriptor"


def _nothing(type_: object) -> Value:
    if is_composite(type_):  # type: ignore[arg-type]
        return None
    return np.zeros(t.shape_of(type_), numpy_dtype(type_))[()]  # type: ignore[arg-type]


__all__ = ["MADE", "made", "used", "uses_operands"]
