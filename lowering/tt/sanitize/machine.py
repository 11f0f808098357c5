"""Defines the machine of a sanitized run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from xdsl.ir import SSAValue

from ..interpret.machine import Machine
from .guard import Guard
from .shadow import Shadow


class SanitizedMachine(Machine):
    """The machine of a sanitized run. `passed` carries the shadows of arguments into a function, and of
    results out of it."""

    def __init__(self, grid: tuple[int, ...], guard: Guard) -> None:
        super().__init__(grid, guard)
        self.guard = guard
        self.passed: Sequence[Shadow | None] = ()


class SanitizedTranslator(Protocol):
    """What translated accesses see of the translation of their function."""

    @property
    def guard(self) -> Guard: ...

    @property
    def machine(self) -> SanitizedMachine: ...

    def slot(self, value: SSAValue) -> int: ...
