"""States what sizes must satisfy at a launch for a whole graph, where no operation demands it."""

from __future__ import annotations

from typing import Any

from ...promotion.errors import UserError
from ..checks import Check
from ..data_sizes import mentioned
from ..dims.dim import Extent, at_most, maximum


def state(graph: Any, check: Check) -> None:
    """State a check for the outermost graph that knows its sizes: it is made though nothing demands it."""
    names = mentioned(check[:2])
    while (parent := getattr(graph, "parent", None)) is not None and not names & graph.own_dims:
        graph = parent
    if check not in graph.standing:
        graph.standing = (*graph.standing, check)


def require_at_most(graph: Any, value: Extent, limit: Extent, what: str) -> None:
    """Require `value <= limit`, by a check of the launch where that is not known. `what` says it.

    Raises `UserError` where it never holds.
    """
    if at_most(value, limit):
        return
    if at_most(limit + 1, value):
        raise UserError(f"{what}: {value} is more than {limit}; fix: export the model again")
    state(graph, Check(maximum(value - limit, 0), 0, what))
