"""Promotion tables in every format hold the joins of the rule set: formats are read back with independent parsers."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from joinery.promotion import PRESETS, DType, PromotionTable, RuleSet, UserError, rules

HOLED = RuleSet.from_table("holed", {("int8", "int8"): "int8", ("int8", "int16"): "int16"})


def expected(rule_set: RuleSet, no_join: str) -> list[list[str]]:
    """The body of the table, asked pair by pair."""
    rows = []
    for a in rule_set.dtypes:
        rows.append([])
        for b in rule_set.dtypes:
            try:
                rows[-1].append(rule_set.join(a, b).name)
            except UserError:
                rows[-1].append(no_join)
    return rows


class Cells(HTMLParser):
    """The rows of a table, and (scope, text) of its header cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.headers: list[tuple[str | None, str]] = []
        self.caption = ""
        self.open: list[str] = []
        self.scope: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.scope = dict(attrs).get("scope")
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "td":
            self.rows[-1].append(data)
        elif self.open and self.open[-1] == "th":
            self.headers.append((self.scope, data))
        elif self.open and self.open[-1] == "caption":
            self.caption += data


@pytest.mark.parametrize("name", PRESETS)
def test_every_format_holds_every_join(name: str) -> None:
    rule_set = rules(name)
    table, names = rule_set.table(), [dtype.name for dtype in rule_set.dtypes]
    bare, marked = expected(rule_set, ""), expected(rule_set, "–")
    read = list(csv.reader(io.StringIO(table.to_csv())))
    assert read[0] == [name, *names]
    assert read[1:] == [[a, *row] for a, row in zip(names, bare, strict=True)]
    page = Cells(table.to_html())
    assert page.open == []
    assert page.rows[1:] == marked
    assert page.headers == [("col", n) for n in names] + [("row", n) for n in names]
    array = table.to_numpy()
    assert (array.shape, array.dtype) == ((len(names), len(names)), np.dtype(object))
    assert array.tolist() == bare
    markdown = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.to_markdown().splitlines()
    ]
    assert markdown[0] == [name, *names]
    assert [row[1:] for row in markdown[2:]] == marked
    assert [line.split()[1:] for line in str(table).splitlines()[1:]] == marked


def test_str_lines_up() -> None:
    header, *body = str(rules("jax").table()).splitlines()
    for dtype in rules("jax").dtypes[1:]:
        column = header.index(f" {dtype.name}")
        assert all(line[column - 1 : column + 1] == "  " or line[column] == " " for line in body)
        assert all(line[column + 1] != " " for line in body)


def test_no_join_is_an_empty_cell_in_data_and_a_dash_in_text() -> None:
    table = HOLED.table()
    assert table.to_csv() == "holed,int8,int16\nint8,int8,int16\nint16,,int16\n"
    assert table.to_numpy().tolist() == [["int8", "int16"], ["", "int16"]]
    assert table.to_dict() == {
        "int8": {"int8": "int8", "int16": "int16"},
        "int16": {"int8": None, "int16": "int16"},
    }
    assert str(table).splitlines() == ["holed  int8  int16", "int8   int8  int16", "int16  –     int16"]


@pytest.mark.parametrize("width", [1, 40, 80, 10_000])
def test_text_in_blocks(width: int) -> None:
    table = rules("torch").table()
    blocks = [block.splitlines() for block in table.to_text(width).split("\n\n")]
    names = [dtype.name for dtype in table.dtypes]
    rejoined = [[] for _ in blocks[0]]
    for block in blocks:
        assert [line.split()[0] for line in block] == ["torch", *names]
        for row, line in zip(rejoined, block, strict=True):
            row += line.split()[1:]
        if width >= 40:
            assert max(map(len, block)) <= width
    assert rejoined == [names, *expected(rules("torch"), "–")]
    assert (len(blocks) == 1) is (width == 10_000)


def test_text_refuses_no_width() -> None:
    with pytest.raises(UserError, match="width must be a positive number of characters, not 0"):
        HOLED.table().to_text(0)


def test_names_are_escaped() -> None:
    name = '<b>|"x"&, y'
    table = PromotionTable(name, HOLED.dtypes, HOLED.table().cells)
    html = table.to_html()
    assert "<b>" not in html
    assert Cells(html).caption == f"Promotion table of rule set {name}"
    assert next(csv.reader(io.StringIO(table.to_csv())))[0] == name
    assert table.to_markdown().splitlines()[0] == r'| <b>\|"x"&, y | int8 | int16 |'


def test_an_empty_table() -> None:
    table = PromotionTable("empty", (), {})
    assert table.to_numpy().shape == (0, 0)
    assert (str(table), table.to_csv()) == ("empty", "empty\n")
    assert Cells(table.to_html()).rows == [[]]


def test_cells_are_looked_up_by_pair() -> None:
    table = rules("max").table()
    assert table[DType("int8"), DType("uint64")] is DType("float16")
    with pytest.raises(KeyError):
        table[DType("int8"), DType("complex64")]


def test_only_arrays_load_numpy() -> None:
    code = """
import sys
from joinery.promotion import rules
table = rules("jax").table()
table.to_csv(), table.to_html(), table.to_markdown(), str(table)
print("numpy" in sys.modules)
table.to_numpy()
print("numpy" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["False", "True"], done.stderr
