"""Interprets the operations that need more than their operands: those that report to the user (tt.assert, tt.print),
inline assembly, and those that map a region.

Each function takes a translator and an operation and returns the step that runs it.
"""

from __future__ import annotations

import sys
from typing import Protocol

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, StringAttr
from xdsl.ir import Operation

from ....promotion.errors import KernelAssertionError
from .. import types as t
from ..dialect.attributes import property_number
from ..source_locations import callers_of, source_location
from ..transforms.folding import is_pure
from ..types import numpy_dtype
from .assembly import inline_asm
from .machine import EnvironmentT, Step, Translator
from .print_format import print_lines


def _text(op: Operation, name: str) -> str:
    attr = op.properties[name]
    assert isinstance(attr, StringAttr)
    return attr.data


def _assert(translator: Translator[EnvironmentT], op: Operation, message: str) -> Step[EnvironmentT]:
    (condition,) = [translator.slot(value) for value in op.operands]
    location, callers, machine = source_location(op), callers_of(op), translator.machine

    def step(env: EnvironmentT) -> None:
        holds = np.asarray(env[condition])
        if not holds.all():
            lane = tuple(int(index) for index in np.argwhere(~holds)[0])
            x, y, z = (int(axis) for axis in machine.program)
            raise KernelAssertionError.of(message, location, (x, y, z), lane, callers)

    return step


def _tt_assert(translator: Translator[EnvironmentT], op: Operation) -> Step[EnvironmentT]:
    return _assert(translator, op, _text(op, "message"))


def _cf_assert(translator: Translator[EnvironmentT], op: Operation) -> Step[EnvironmentT]:
    return _assert(translator, op, _text(op, "msg"))


def _tt_print(translator: Translator[EnvironmentT], op: Operation) -> Step[EnvironmentT]:
    slots = [translator.slot(value) for value in op.operands]
    prefix, hexadecimal = _text(op, "prefix"), bool(property_number(op, "hex"))
    signs = op.properties["isSigned"]
    assert isinstance(signs, DenseArrayBase)
    signed = [bool(sign) for sign in signs.get_values()]
    pointers = [t.is_pointer(value.type) for value in op.operands]
    machine = translator.machine

    def step(env: EnvironmentT) -> None:
        values = [env[slot] for slot in slots]
        lines = print_lines(prefix, hexadecimal, signed, machine.program, values, pointers)
        sys.stdout.write("".join(f"{line}\n" for line in lines))

    return step


def _tt_map_elementwise(translator: Translator[EnvironmentT], op: Operation) -> Step[EnvironmentT]:
    slots = [translator.slot(value) for value in op.operands]
    results = [translator.slot(value) for value in op.results]
    dtypes = [numpy_dtype(value.type) for value in op.results]
    shape, pack = t.shape_of(op.operands[0].type), property_number(op, "pack")
    region = op.regions[0]
    body = translator.flow(region)

    def whole(env: EnvironmentT) -> None:
        values = body(env, [env[slot] for slot in slots])
        for slot, value in zip(results, values, strict=True):
            env[slot] = np.broadcast_to(value, shape)

    def by_groups(env: EnvironmentT) -> None:
        groups = [np.asarray(env[slot]).reshape(-1, pack) for slot in slots]
        outs = [np.empty((len(groups[0]), pack), dtype) for dtype in dtypes]
        for index in range(len(groups[0])):
            values = body(env, [element for group in groups for element in group[index]])
            for number, out in enumerate(outs):
                out[index] = values[number * pack : (number + 1) * pack]
        for slot, out in zip(results, outs, strict=True):
            env[slot] = out.reshape(shape)

    straight = len(region.blocks) == 1 and all(is_pure(type(inner)) and not inner.regions for inner in region.walk())
    return whole if straight and pack == 1 else by_groups


class StepMaker(Protocol):
    """Makes the step that runs an operation."""

    def __call__(self, translator: Translator[EnvironmentT], op: Operation, /) -> Step[EnvironmentT]: ...


STEPS: dict[str, StepMaker] = {
    "tt.assert": _tt_assert,
    "cf.assert": _cf_assert,
    "tt.print": _tt_print,
    "tt.elementwise_inline_asm": inline_asm,
    "tt.map_elementwise": _tt_map_elementwise,
}
