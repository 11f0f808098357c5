"""Holds the handlers by domain, operator, and the version since which they hold."""

from __future__ import annotations

from collections.abc import Callable

from .node import Handler

HANDLERS: dict[tuple[str, str], list[tuple[int, Handler]]] = {}
"""(domain, operator) → (version since which it holds, handler), in ascending order."""
STRUCTURAL: set[tuple[str, str]] = set()
"""Operators whose handlers take constants, sequences and subgraphs as they are; constants of others are folded."""


def handles(*ops: str, since: int = 1, domain: str = "", structural: bool = False) -> Callable[[Handler], Handler]:
    """Register a handler of operators from a version of their domain on."""

    def register(handler: Handler) -> Handler:
        for op in ops:
            entries = HANDLERS.setdefault((domain, op), [])
            entries.append((since, handler))
            entries.sort(key=lambda entry: entry[0])
            if structural:
                STRUCTURAL.add((domain, op))
        return handler

    return register


def handler_for(domain: str, op: str, version: int) -> Handler | None:
    """Return the newest handler that holds for a version, or None."""
    found = None
    for since, handler in HANDLERS.get((domain, op), ()):
        if since <= version:
            found = handler
    return found
