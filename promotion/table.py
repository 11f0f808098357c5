"""Represents a promotion table as a value: look-ups, text, Markdown, CSV, HTML, plain data."""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from .dataclass import dataclass
from .dtype import DType
from .errors import UserError

if TYPE_CHECKING:
    import numpy as np

NO_JOIN = "–"
"""The cell without a join in text, Markdown and HTML; CSV and arrays hold an empty string there."""


@dataclass(frozen=True, slots=True)
class PromotionTable:
    """A table in which `table[a, b]` is the join of two dtypes or None; `dtypes` orders rows and columns."""

    name: str
    dtypes: tuple[DType, ...]
    cells: Mapping[tuple[DType, DType], DType | None]

    def __getitem__(self, pair: tuple[DType, DType]) -> DType | None:
        return self.cells[pair]

    def __iter__(self) -> Iterator[tuple[DType, DType]]:
        return iter(self.cells)

    def __len__(self) -> int:
        return len(self.cells)

    def rows(self, no_join: str = NO_JOIN) -> list[list[str]]:
        """Return the header row and then one row per dtype; `no_join` stands in cells without a join."""
        header = [self.name, *(dtype.name for dtype in self.dtypes)]
        body = [
            [a.name, *(no_join if (cell := self.cells[a, b]) is None else cell.name for b in self.dtypes)]
            for a in self.dtypes
        ]
        return [header, *body]

    def to_dict(self) -> dict[str, dict[str, str | None]]:
        """Return row name → column name → result name (None where there is no join), for JSON."""
        return {
            a.name: {b.name: None if (cell := self.cells[a, b]) is None else cell.name for b in self.dtypes}
            for a in self.dtypes
        }

    def to_numpy(self) -> np.ndarray[tuple[int, int], np.dtype[np.object_]]:
        """Return the names of the results as an object array of shape (n, n), in the order of `dtypes`.

        An empty string means no join.
        """
        numpy = importlib.import_module("numpy")  # loaded only when an array is asked for
        shape = len(self.dtypes), len(self.dtypes)
        result: np.ndarray[tuple[int, int], np.dtype[np.object_]] = numpy.empty(shape, dtype=object)
        for row, (_, *cells) in enumerate(self.rows(no_join="")[1:]):
            result[row, :] = cells
        return result

    def to_csv(self) -> str:
        """Return comma-separated lines, header first, each with a line end.

        A cell is empty where there is no join.
        """
        import csv  # imported here because few tables are written as files

        stream = io.StringIO()
        csv.writer(stream, lineterminator="\n").writerows(self.rows(no_join=""))
        return stream.getvalue()

    def to_html(self) -> str:
        """Return a `<table>` element with header cells for rows and columns, without styles, for any page."""
        import html

        header, *body = self.rows()
        columns = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in header[1:])
        lines = [
            "<table>",
            f"<caption>Promotion table of rule set {html.escape(self.name)}</caption>",
            f"<thead>\n<tr><td></td>{columns}</tr>\n</thead>",
            "<tbody>",
        ]
        for name, *cells in body:
            results = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
            lines.append(f'<tr><th scope="row">{html.escape(name)}</th>{results}</tr>')
        return "\n".join([*lines, "</tbody>", "</table>"])

    def to_markdown(self) -> str:
        """Return a Markdown table whose columns are not aligned."""
        header, *body = [[cell.replace("|", r"\|") for cell in row] for row in self.rows()]
        lines = [header, ["---"] * len(header), *body]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def to_text(self, width: int | None = None) -> str:
        """Return text in aligned columns.

        With `width`, columns form blocks, one below the other, of at most that many characters. A block has
        at least one column, however narrow `width` is. Raises `UserError` when `width` is not positive.
        """
        if width is not None and width < 1:
            raise UserError(f"to_text: width must be a positive number of characters, not {width}")
        first, *columns = [_padded(column) for column in zip(*self.rows(), strict=True)]
        blocks: list[list[Sequence[str]]] = [[first]]
        for column in columns:
            taken = sum(len(own[0]) + 2 for own in blocks[-1])
            if width is not None and len(blocks[-1]) > 1 and taken + len(column[0]) > width:
                blocks.append([first])
            blocks[-1].append(column)
        return "\n\n".join(
            "\n".join("  ".join(row).rstrip() for row in zip(*block, strict=True)) for block in blocks
        )

    def __str__(self) -> str:
        return self.to_text()


def _padded(column: Sequence[str]) -> list[str]:
    width = max(map(len, column))
    return [cell.ljust(width) for cell in column]
