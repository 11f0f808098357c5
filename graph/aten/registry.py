"""Holds the handlers of ATen's operators by overload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Handler = Callable[..., Any]
"""Takes the `Node` and the operator's arguments, under ATen's names, with ATen's defaults; returns its results."""
Registered = TypeVar("Registered", bound=Handler)

HANDLERS: dict[str, Handler] = {}
"""Overload, such as "aten.add.Tensor" → handler."""
COMPLEX_HANDLERS: dict[str, Handler] = {}
"""Overload → handler of calls with complex numbers among operands or results."""
EXPORT_HANDLERS: dict[str, Handler] = {}
"""Overload → handler of calls that PyTorch runs itself where it is there: random numbers, factorisations, assertions."""


def handles(*overloads: str, namespace: str = "aten", alone: bool = False) -> Callable[[Registered], Registered]:
    """Register a handler of overloads. Of several registrations in a stack, all hold.

    alone: whether it is for programs that run without PyTorch only.
    """

    def register(handler: Registered) -> Registered:
        for overload in overloads:
            (EXPORT_HANDLERS if alone else HANDLERS)[f"{namespace}.{overload}"] = handler
        return handler

    return register


def handles_complex(*overloads: str) -> Callable[[Registered], Registered]:
    """Register a handler of overloads for calls with complex numbers."""

    def register(handler: Registered) -> Registered:
        for overload in overloads:
            COMPLEX_HANDLERS[f"aten.{overload}"] = handler
        return handler

    return register
