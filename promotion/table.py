"""A promotion table as a value: look-ups, text, Markdown, plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .dtype import DType


@dataclass(frozen=True, slots=True)
class PromotionTable:
    """`table[a, b]` is the join of two dtypes, None where there is none; `dtypes` orders rows and columns."""

    name: str
    dtypes: tuple[DType, ...]
    cells: Mapping[tuple[DType, DType], DType | None]

    def __getitem__(self, pair: tuple[DType, DType]) -> DType | None:
        return self.cells[pair]

    def __iter__(self) -> Iterator[tuple[DType, DType]]:
        return iter(self.cells)

    def __len__(self) -> int:
        return len(self.cells)

    def rows(self) -> list[list[str]]:
        """Header row, then one row per dtype; "–" where there is no join."""
        header = [self.name, *(dtype.name for dtype in self.dtypes)]
        body = [
            [a.name, *("–" if (cell := self.cells[a, b]) is None else cell.name for b in self.dtypes)]
            for a in self.dtypes
        ]
        return [header, *body]

    def to_dict(self) -> dict[str, dict[str, str | None]]:
        """Row name → column name → result name, for JSON."""
        return {
            a.name: {b.name: None if (cell := self.cells[a, b]) is None else cell.name for b in self.dtypes}
            for a in self.dtypes
        }

    def to_markdown(self) -> str:
        header, *body = self.rows()
        lines = [header, ["---"] * len(header), *body]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def __str__(self) -> str:
        rows = self.rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )
