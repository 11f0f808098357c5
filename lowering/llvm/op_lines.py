"""Ties what a back end emits, and what it raises, to the source lines of operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from xdsl.ir import Operation

from ..tt.dialect.functions import FuncOp
from ..tt.source_locations import first_line, naming_line
from .ir import Function
from .metadata import SourceLine


def begin_lines(f: Function, function: FuncOp) -> None:
    """Gives an LLVM function the line of its block function: its own, else that of its first operation that has one.

    Without any line, or where the module has no debug information, nothing happens.
    """
    if f.module.metadata.emission is None:
        return
    line = next((line for op in function.walk() if (line := _line(op)) is not None), None)
    if line is not None:
        f.begins_at(function.sym_name.data, line)


def _line(op: Operation) -> SourceLine | None:
    found = first_line(op.location)
    return None if found is None else SourceLine(found.filename.data, found.line.data, found.column.data)


class Lowering(Protocol):
    """The state that handlers of operations share; `f` is the function that they print into."""

    f: Function


K = TypeVar("K", bound=Lowering)


class NodeLines:
    """The source lines of lazy nodes, as `Function.location`: wherever a node is evaluated, its code has its line."""

    def __init__(self) -> None:
        self._lines: dict[int, tuple[object, str]] = {}  # with the nodes, so that their ids stay unique

    def set(self, node: object, line: str) -> None:
        """Sets the line of a node; the first one that is set counts."""
        if line:
            self._lines.setdefault(id(node), (node, line))

    def of(self, node: object, otherwise: str) -> str:
        found = self._lines.get(id(node))
        return otherwise if found is None else found[1]


def lower_at_line(k: K, op: Operation, handler: Callable[[K, Any], None]) -> None:
    """Calls the handler of an operation, so that what it prints has the operation's line and what it raises names that line.

    Where an operation has none, the line of the enclosing operation counts.
    """
    f = k.f
    outer = f.location
    _go_to(f, op)
    with naming_line(op):
        handler(k, op)
    f.location = outer


@contextmanager
def at_line(f: Function, op: Operation) -> Iterator[None]:
    """Gives what is printed inside the line of an operation, where that of another one is lowered, such as a loop."""
    outer = f.location
    _go_to(f, op)
    yield
    f.location = outer


def _go_to(f: Function, op: Operation) -> None:
    if f.subprogram is not None:
        line = _line(op)
        if line is not None:
            f.location = f.subprogram.location(line)


__all__ = ["NodeLines", "at_line", "begin_lines", "lower_at_line"]
