"""Rolls graphs back: a call that fails leaves its graph exactly as it was."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..protocols import GraphLike, SymbolLike


class Mark(NamedTuple):
    """The lengths of everything in a graph that grows, and what was stated for the whole graph around it."""

    checks: int
    lists: list[int]
    tables: list[int]
    standing: tuple[Any, ...]


def mark(graph: GraphLike[SymbolLike]) -> Mark:
    """Return the state to which `rewind` goes back."""
    lists, tables = graph._growing()
    return Mark(len(graph.shape_checks.entries), [len(each) for each in lists], [len(each) for each in tables],
                outermost(graph).standing)  # fmt: skip


def rewind(graph: GraphLike[SymbolLike], mark: Mark) -> None:
    """Remove the symbols, what refers to them, the checks and the calls that were added since the mark."""
    graph.shape_checks.truncate(mark.checks)
    outermost(graph).standing = mark.standing
    lists, tables = graph._growing()
    for entries, count in zip(lists, mark.lists, strict=True):
        del entries[count:]
    for table, count in zip(tables, mark.tables, strict=True):
        while len(table) > count:
            table.popitem()


def outermost(graph: Any) -> Any:
    """Return the graph that a region is in, however deep, or a graph itself."""
    while (parent := getattr(graph, "parent", None)) is not None:
        graph = parent
    return graph
