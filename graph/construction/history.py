"""Going back: a call that is refused leaves its graph exactly as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ..graph import Graph


class Mark(NamedTuple):
    """How much of everything a graph had."""

    symbols: int
    inputs: int
    checks: int
    calls: int
    tables: list[int]


def _tables(graph: Graph) -> tuple[dict[Any, Any], ...]:
    """What only grows, in order of insertion."""
    return (
        graph._weights, graph._literals, graph._constants, graph._extents, graph._ledger, graph._weak, graph.parts,
    )  # fmt: skip


def mark(graph: Graph) -> Mark:
    """What `rewind` goes back to."""
    return Mark(
        len(graph.symbols), len(graph._inputs), len(graph.shape_checks.entries), len(graph.journal.calls),
        [len(table) for table in _tables(graph)],
    )  # fmt: skip


def rewind(graph: Graph, mark: Mark) -> None:
    """Forgets symbols, what refers to them, checks and calls since the mark."""
    graph.shape_checks.truncate(mark.checks)
    del graph.journal.calls[mark.calls :]
    del graph.symbols[mark.symbols :]
    del graph._inputs[mark.inputs :]
    for table, count in zip(_tables(graph), mark.tables, strict=True):
        while len(table) > count:
            table.popitem()
