"""Text for terminals: lines of at most 80 columns, and tables that line up."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

WIDTH = 80
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\r\t"}
"""Names and texts come from files: what moves the cursor or sets colours is shown instead."""


def wrapped(text: str, indent: str = "", hanging: str = "  ") -> str:
    """Every line of the text within 80 columns, as far as its words allow."""
    lines = []
    for line in text.translate(_CONTROLS).splitlines():
        own = indent + line[: len(line) - len(line.lstrip())]
        lines += textwrap.wrap(
            line.strip(), WIDTH, initial_indent=own, subsequent_indent=own + hanging,
            break_long_words=False, break_on_hyphens=False,
        ) or [""]  # fmt: skip
    return "\n".join(lines)


def table_width(rows: Sequence[Sequence[str]]) -> int:
    """How many characters wide `aligned` makes rows whose last cells are not wrapped."""
    return sum(max(map(len, column)) + 2 for column in zip(*rows, strict=True)) - 2


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of equally many cells in columns two spaces apart; the last column is wrapped to end within 80 columns."""
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
