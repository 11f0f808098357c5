"""Values that loops and branches hand over: registers, one after the other, in layouts that both sides know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...linear_layouts.layout import LinearLayout
from ..elementwise import register_element
from ..ir import V
from ..syntax import element_name, shape_of
from .nodes import Held

if TYPE_CHECKING:
    from .kernel import KernelLowering

Layouts = list[LinearLayout | None]
"""For each value: its layout; None for scalars."""


def flat(k: KernelLowering, values: Sequence[Any], layouts: Layouts) -> list[V]:
    """The registers of values in these layouts, one after the other."""
    found: list[V] = []
    for value, layout in zip(values, layouts, strict=True):
        found += [k.scalar(value)] if layout is None else list(k.held(value, layout))
    return found


def bind(
    k: KernelLowering, values: Sequence[Any], layouts: Layouts, registers: Sequence[V], guessed: Sequence[bool] = ()
) -> None:
    """Give values their registers. `guessed`: whose layout is a guess."""
    rest = list(registers)
    for number, (value, layout) in enumerate(zip(values, layouts, strict=True)):
        if layout is None:
            k.scalars[value] = rest.pop(0)
            continue
        weak = bool(guessed) and guessed[number]
        count = layout.size("register")
        own, rest = tuple(rest[:count]), rest[count:]
        k.define(value, Held(shape_of(value.type), element_name(value.type), layout, own, weak))


def types(values: Sequence[Any], layouts: Layouts) -> list[str]:
    found = []
    for value, layout in zip(values, layouts, strict=True):
        elem = element_name(value.type)
        type_ = "i64" if elem == "ptr" else register_element(elem)
        found += [type_] * (1 if layout is None else layout.size("register"))
    return found
