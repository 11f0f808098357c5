"""Makes and reads sizes that no text of a graph holds, and which may be longer: what runs need in all, in compiled programs."""

from __future__ import annotations

from functools import lru_cache

from .dim import MAKES, Extent, positive_part
from .parser import parse_expression

_MAX_TEXT = 1 << 28


def excess(value: Extent, limit: int) -> Extent:
    """Return by how much a value is above a limit, 0 if it is not."""
    return positive_part(value - limit, False)


@lru_cache(maxsize=64)
def parse_long(text: str) -> Extent:
    """Parse an expression of a compiled program, as `excess` makes them. Raises `UserError` for other text."""
    return parse_expression(text, MAKES._replace(maximum=_maximum), _MAX_TEXT)


def _maximum(first: Extent, *others: Extent) -> Extent:
    for other in others:
        first = other + positive_part(first - other, False)
    return first
