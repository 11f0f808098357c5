"""Functions that kernels share: long, the same for all, and compiled once for a machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .ir import Module


class SharedFunction(Protocol):
    """A function that many modules may call. Equal ones have equal texts; making a text takes longer than comparing."""

    def __hash__(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def parameters(self) -> Sequence[tuple[str, str]]:
        """(type, name) of each; it returns nothing."""
        ...

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Add it, and what it calls, to a module that does not hold it yet."""
        ...


def module_of(function: SharedFunction) -> str:
    """A module of its own with the function."""
    module = Module(opaque_indices=True)
    function.add(module, linkage="")
    return module.text()
