"""An LLVM module as text, and functions that modules share: long, the same for all, and compiled once for a machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .metadata import Metadata
from .names import check_name


class Definition(Protocol):
    """A function of a module: its name, and its text."""

    @property
    def name(self) -> str: ...

    def text(self) -> str: ...


@dataclass
class Module:
    """The functions, declarations and globals of one LLVM module; `text()` returns all of it."""

    functions: dict[str, str] = field(default_factory=dict)
    declarations: dict[str, str] = field(default_factory=dict)
    globals: dict[str, str] = field(default_factory=dict)
    metadata: Metadata = field(default_factory=Metadata)
    shared: dict[str, SharedFunction] | None = None
    """Functions that the module calls and does not hold, by name. None: it holds everything."""
    features: frozenset[str] = frozenset()
    """The features of the target processor that emitters make use of."""
    opaque_indices: bool = False
    """Whether loop indices are hidden from LLVM, so that it does not look for better induction variables.

    That search (loop strength reduction) takes a tenth to a quarter of its time and finds none: emitters step by constants that
    addressing modes hold.
    """

    def declare(self, name: str, result: str, params: Iterable[str]) -> None:
        if name not in self.declarations and name not in self.functions:
            self.declarations[name] = f"declare {result} @{check_name(name)}({', '.join(params)})"

    def provide(self, function: SharedFunction) -> str:
        """Makes a function callable and returns its name: modules of kernels from texts share it, others hold their own."""
        if self.shared is not None:
            self.shared[function.name] = function
            self.declare(function.name, "void", [type_ for type_, _ in function.parameters])
        elif function.name not in self.functions:
            function.add(self)
        return function.name

    def add(self, function: Definition) -> None:
        self.functions[function.name] = function.text()

    def text(self) -> str:
        metadata = ["!0 = !{i32 1}", *self.metadata.text(), ""]
        declarations = [d for n, d in self.declarations.items() if n not in self.functions]
        return "\n".join([*self.globals.values(), *declarations, "", *self.functions.values(), *metadata])


class SharedFunction(Protocol):
    """A function that many modules may call. Equal ones have equal texts; making a text takes longer than comparing."""

    def __hash__(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def parameters(self) -> Sequence[tuple[str, str]]:
        """The (type, name) of each parameter; the function returns nothing."""
        ...

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Adds the function, and what it calls, to a module that does not hold it yet."""
        ...


def module_of(function: SharedFunction) -> str:
    """Returns the text of a module that holds only the function and what it calls."""
    module = Module(opaque_indices=True)
    function.add(module, linkage="")
    return module.text()
