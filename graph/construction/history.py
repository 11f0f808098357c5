"""Rolls graphs back: a call that fails leaves its graph exactly as it was."""

from __future__ import annotations

from typing import NamedTuple

from ..protocols import GraphLike, SymbolLike


class Mark(NamedTuple):
    """The lengths of everything in a graph that grows."""

    checks: int
    lists: list[int]
    tables: list[int]


def mark(graph: GraphLike[SymbolLike]) -> Mark:
    """Return the state to which `rewind` goes back."""
    lists, tables = graph._growing()
    return Mark(len(graph.shape_checks.entries), [len(each) for each in lists], [len(each) for each in tables])


def rewind(graph: GraphLike[SymbolLike], mark: Mark) -> None:
    """Remove the symbols, what refers to them, the checks and the calls that were added since the mark."""
    graph.shape_checks.truncate(mark.checks)
    lists, tables = graph._growing()
    for entries, count in zip(lists, mark.lists, strict=True):
        del entries[count:]
    for table, count in zip(tables, mark.tables, strict=True):
        while len(table) > count:
            table.popitem()
