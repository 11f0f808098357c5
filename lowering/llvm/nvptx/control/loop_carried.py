"""Passes values between loops and branches: as registers, one after the other, in layouts that both sides know."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod
from typing import Any

from xdsl.ir import SSAValue

from ....linear_layouts.layout import LinearLayout
from ....tt.dialect.functions import FuncOp
from ...elementwise import memory_size, register_element
from ...syntax import element_name, pointee_name, shape_of
from ...values import V
from ..analysis.axis_info import AxisAnalysis, has_promises
from ..context import KernelContext
from ..memory.global_memory import AccessInfo, widest
from ..nodes import Distributed

FEW = 4
"""The most pointers of a thread that a loop advances with as many instructions as a distance."""

Layouts = list[LinearLayout | None]
"""The layout of each value; None for scalars."""


def flat(k: KernelContext, values: Sequence[SSAValue], layouts: Layouts) -> list[V]:
    """Returns the registers of values in these layouts, one after the other."""
    found: list[V] = []
    for value, layout in zip(values, layouts, strict=True):
        found += [k.scalar(value)] if layout is None else list(k.registers(value, layout))
    return found


def bind(
    k: KernelContext, values: Sequence[SSAValue], layouts: Layouts, registers: Sequence[V], guessed: Sequence[bool] = ()
) -> None:
    """Binds values to their registers. `guessed`: whether each layout is a guess."""
    rest = list(registers)
    for number, (value, layout) in enumerate(zip(values, layouts, strict=True)):
        if layout is None:
            k.scalars[value] = rest.pop(0)
            continue
        weak = bool(guessed) and guessed[number]
        count = layout.size("register")
        own, rest = tuple(rest[:count]), rest[count:]
        k.define(value, Distributed(shape_of(value.type), element_name(value.type), layout, own, weak))


def types(values: Sequence[SSAValue], layouts: Layouts) -> list[str]:
    found = []
    for value, layout in zip(values, layouts, strict=True):
        elem = element_name(value.type)
        type_ = "i64" if elem == "ptr" else register_element(elem)
        found += [type_] * (1 if layout is None else layout.size("register"))
    return found


class CarriedPointers:
    """Counts the pointers per thread in the blocks of pointers that a function's loops carry."""

    def __init__(self, function: FuncOp, threads: int) -> None:
        self._function, self._threads = function, threads

    @functools.cached_property
    def _axes(self) -> AxisAnalysis:
        return AxisAnalysis(self._function, has_promises(self._function))

    def are_few(self, block: Any) -> bool:
        """Whether wide accesses use the block directly, with few pointers of it per thread."""
        if element_name(block.type) != "ptr":
            return False
        accesses = [use.operation for use in block.uses if use.operation.name in ("tt.load", "tt.store") and not use.index]
        shape, bits = shape_of(block.type), 8 * memory_size(pointee_name(block.type))
        for op in accesses:
            info = AccessInfo(self._axes.of(block), None if op.mask is None else self._axes.of(op.mask))
            if prod(shape) > FEW * self._threads * widest(info, shape, bits, self._threads):
                return False
        return bool(accesses)
