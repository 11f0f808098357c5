"""Holds what graphs know of regions, graphs inside them, and finds the graph that an operation belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ...promotion.dtype import string
from ..dims.dim import Dim


class Nesting:
    """A base of `Graph`, which may be a region itself.

    Attributes:
        outer_dims: names of the dims that are known without inputs, because a graph around this one has them.
        own_dims: names of the dims that only this graph has, where it is a region that the host calls.
        twin: returns the symbol for one of another graph, where this graph is that one built again (`promote/what_if.py`).
        open: the region that is being built for a symbol of this graph, if any.
    """

    outer_dims: frozenset[str] = frozenset()
    own_dims: frozenset[str] = frozenset()
    twin: Callable[[Any], Any] | None = None
    open: Any = None

    def is_inside(self, graph: object) -> bool:
        """Return whether this is a region of a symbol of `graph`."""
        return False


GraphT = TypeVar("GraphT")


def innermost(graph: GraphT, operands: Iterable[object]) -> GraphT:
    """Return the graph, or the innermost of its regions that an operand belongs to: an operation is made there."""
    found: Any = graph
    for operand in operands:
        own = getattr(operand, "graph", found)
        if own is not found and own.is_inside(found):
            found = own
    return found  # type: ignore[no-any-return]


def region_for(
    graph: Any, kind: str, operands: Iterable[object], attrs: Mapping[str, object] | None = None
) -> Any:
    """Return the region that is being built in a graph to which an operation of its symbols belongs; None: the graph.

    kind: of the operation. It is the innermost region that alone knows a size among the attributes, which nothing outside
    knows; else the innermost arm of a branch, so that only what is chosen is computed.
    """
    if graph.open is None:
        return None
    region = _knowing(graph, attrs) or _open_arm(graph, kind, operands)
    if region is not None:
        region.learn_checks()
    return region


def _knowing(graph: Any, attrs: Mapping[str, object] | None) -> Any:
    values = [entry for value in (attrs or {}).values() for entry in (value if isinstance(value, tuple) else (value,))]
    names = {name for value in values if isinstance(value, Dim) for name in value.symbols()}
    found, region = None, graph.open if names else None
    while region is not None:
        found, region = region if names & region.own_dims else found, region.open
    return found


def _open_arm(graph: Any, kind: str, operands: Iterable[object]) -> Any:
    """Return the innermost arm; None, too, where it cannot have the operation: those of the host, strings, and sizes that came
    after the arm was begun."""
    found, region = None, graph.open
    while region is not None:
        found, region = region if region.is_arm else found, region.open
    operands = list(operands)
    if found is None or kind == "host" or any(getattr(operand, "dtype", None) is string for operand in operands):
        return None
    sizes = [extent for operand in operands for extent in getattr(operand, "shape", ()) if isinstance(extent, Dim)]
    return found if all(size.symbols() <= found.outer_dims for size in sizes) else None


def under_construction(graph: GraphT) -> GraphT:
    """Return the graph, or the innermost region that is being built in it: what a loop's functions use may belong there."""
    found: Any = graph
    while found.open is not None:
        found = found.open
    return found  # type: ignore[no-any-return]
