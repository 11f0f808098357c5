"""Formats text for terminals: lines of at most 80 columns, and aligned tables."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ...promotion.errors import printable_lines

WIDTH = 80


def wrapped(text: str, indent: str = "", hanging: str = "  ") -> str:
    """Wrap every line of the text to 80 columns, as far as its words allow.

    Show control characters as escapes.
    """
    lines = []
    for line in printable_lines(text).split("\n"):
        own = indent + line[: len(line) - len(line.lstrip())]
        lines += textwrap.wrap(
            line.strip(), WIDTH, initial_indent=own, subsequent_indent=own + hanging,
            break_long_words=False, break_on_hyphens=False,
        ) or [""]  # fmt: skip
    return "\n".join(lines)


def table_width(rows: Sequence[Sequence[str]]) -> int:
    """Return how many characters wide `aligned` makes rows whose last cells are not wrapped."""
    return sum(max(map(len, column)) + 2 for column in zip(*rows, strict=True)) - 2


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Align rows of equally many cells in columns two spaces apart.

    The last column is wrapped to end within 80 columns.
    """
    *fixed, last = zip(*rows, strict=True)
    widths = [max(map(len, column)) for column in fixed]
    start = sum(width + 2 for width in widths)
    lines = []
    for row, text in zip(rows, last, strict=True):
        before = "".join(cell.ljust(width + 2) for cell, width in zip(row[:-1], widths, strict=True))
        parts = textwrap.wrap(
            text, max(WIDTH - start, 20), break_long_words=False, break_on_hyphens=False
        ) or [""]
        lines += [f"{before}{parts[0]}".rstrip(), *(" " * start + part for part in parts[1:])]
    return "\n".join(lines)
