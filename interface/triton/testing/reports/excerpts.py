"""Lines of kernels that an error is about, with those around them: files may be gone when a page is written."""

from __future__ import annotations

import linecache
from pathlib import Path

from .....promotion.dataclass import dataclass

_BEFORE, _AFTER = 3, 2
_MAX_SHOWN = 6
"""Lines that are shown of one error."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A line of a file with those around it.

    Attributes:
        first: the number of the first of the lines.
        marked: the number of the line that the error is about.
    """

    file: str
    first: int
    marked: int
    lines: tuple[str, ...]


def excerpts_of(error: BaseException) -> list[Excerpt]:
    """The lines of sources that an error names: where it happened, and the other side of a race."""
    named: list[str | None] = [getattr(error, "origin", None)]
    for each in getattr(error, "findings", ()):
        named += [getattr(each, "line", None), getattr(each, "origin", None)]
    found: dict[tuple[str, int], Excerpt] = {}
    for location in filter(None, map(_location, named)):
        excerpt = _excerpt(*location) if location not in found and len(found) < _MAX_SHOWN else None
        if excerpt is not None:
            found[location] = excerpt
    return list(found.values())


def _location(text: object) -> tuple[str, int] | None:
    """File and line of `file:line` or `file:line:column`."""
    parts = text.split(":") if isinstance(text, str) else []
    numbers = 0
    while numbers < min(2, len(parts) - 1) and parts[-1 - numbers].isdecimal():
        numbers += 1
    if not numbers:
        return None
    return ":".join(parts[:-numbers]), int(parts[-numbers])


def _excerpt(file: str, line: int) -> Excerpt | None:
    lines = linecache.getlines(str(Path(file).absolute())) or linecache.getlines(file)
    if not 0 < line <= len(lines):
        return None
    first = max(1, line - _BEFORE)
    return Excerpt(file, first, line, tuple(each.rstrip() for each in lines[first - 1 : line + _AFTER]))
