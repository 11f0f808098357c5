"""Finds what inline assembly makes of undefined operands, by running it again with other bits in their place.

A lane of a result that changes with them depends on them. Registers hold several elements, and instructions may move them
from one to the other, or work on each alone; no rule by registers would tell the two apart.
"""

from __future__ import annotations

import numpy as np

from ....promotion.arrays import Array
from .. import types as t
from ..dialect.external import ElementwiseInlineAsmOp
from ..interpret.machine import Step
from .machine import SanitizedTranslator
from .shadow import Frame, Shadow, tidy

_BYTES = (0x00, 0xFF, 0x3F, 0x80, 0x55, 0xAA, 0x01)
"""What undefined lanes are filled with: of floats zero, NaN, small numbers of both signs; of integers both ends and others."""


def followed(translation: SanitizedTranslator, op: ElementwiseInlineAsmOp, step: Step[Frame]) -> Step[Frame]:
    """Translates inline assembly that accesses no memory."""
    operands, results = [translation.slot(each) for each in op.operands], [translation.slot(each) for each in op.results]
    packed = min(op.packed_element.value.data, t.element_count(op.results[0].type))

    def run(env: Frame) -> None:
        step(env)
        table = env.shadow
        given = [env[slot] for slot in operands]
        known = [None if (shadow := table.get(slot)) is None else shadow.poison for slot in operands]
        for slot in results:
            table.pop(slot, None)
        if all(each is None for each in known):
            return
        found = [env[slot] for slot in results]
        changed = [np.zeros(np.shape(value), np.bool_) for value in found]
        for byte in _BYTES:
            for slot, value, poison in zip(operands, given, known, strict=True):
                if poison is not None:
                    env[slot] = _filled(value, poison != 0, byte)
            step(env)
            for slot, value, differs in zip(results, found, changed, strict=True):
                differs |= _bits(env[slot]) != _bits(value)
        for slots, values in ((operands, given), (results, found)):
            for slot, value in zip(slots, values, strict=True):
                env[slot] = value
        for slot, differs in zip(results, changed, strict=True):
            shadow = tidy(Shadow(np.where(differs, _origins(known, differs.shape, packed), 0).astype(np.int32)))
            if shadow is not None:
                table[slot] = shadow

    return run


def _filled(value: Array, where: Array, byte: int) -> Array:
    value = np.asarray(value)
    shape = np.broadcast_shapes(value.shape, where.shape)
    filled = np.full(1, byte & 1 if value.dtype == np.bool_ else byte, np.uint8).repeat(value.dtype.itemsize)
    return np.asarray(np.where(where, filled.view(value.dtype)[0], np.broadcast_to(value, shape)))


def _bits(value: Array) -> Array:
    found = np.ascontiguousarray(value)
    return found.view(f"u{found.dtype.itemsize}").reshape(np.shape(value))


def _origins(known: list[Array | None], shape: tuple[int, ...], packed: int) -> Array:
    """The largest number of an undefined lane in each group, in every lane of it."""
    worst = np.max([np.broadcast_to(each, shape) for each in known if each is not None], axis=0)
    groups = np.asarray(worst).reshape(-1, packed)
    return np.broadcast_to(groups.max(axis=1, keepdims=True), groups.shape).reshape(shape)


__all__ = ["followed"]
