"""docs/tt_ops.md: written anew it is the same, it leaves no operation out, and what does not work would show."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import joinery as jn
import pytest
from joinery.lowering.tt.dialect_versions import NEW_NAMES

DOCS = Path(__file__).resolve().parents[2] / "docs"


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # annotations of its tuples are looked up there
    spec.loader.exec_module(module)
    return module


tt_ops = load("tt_ops")
PAGE = (DOCS / "tt_ops.md").read_text(encoding="utf-8")

def rows() -> dict[str, list[str]]:
    found = {}
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) >= 9 and cells[0].startswith("`"):
            found[cells[0].strip("`")] = cells[1:] if len(cells) == 9 else cells[2:]
    return found


@pytest.mark.slow
def test_the_page_is_what_the_code_says() -> None:
    assert tt_ops.page() == PAGE, "fix: make docs"


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 6))])
def test_every_row_is_what_the_code_says(part: int) -> None:
    cases, lines = tt_ops.corpus(), set(PAGE.splitlines())
    for name in [each for each in tt_ops.operations() if each in tt_ops.examples.EXAMPLES][part::6]:
        found = tt_ops.row(name, tt_ops.examples.EXAMPLES[name])
        assert tt_ops.table(tt_ops.COLUMNS, [tt_ops.cells(found, cases)])[-1] in lines, "fix: make docs"


def test_every_operation_has_a_row() -> None:
    listed = rows()
    without = {"scf.parallel", "scf.reduce", "scf.reduce.return", "ub.unreachable"}
    assert listed.keys() == {*tt_ops.operations(), *NEW_NAMES} - without
    assert all(f"`{name}`" in PAGE for name in without)


def test_everything_works() -> None:
    for name, (read, verify, printed, interpreted, host, gpu, _, _) in rows().items():
        assert (read, printed, interpreted, host, gpu) == ("yes",) * 5, name
        refused, _, tried = verify.partition(" of ")
        assert refused == (tried or "–") or name in ("tt.print", "ub.poison"), name


@pytest.mark.parametrize(
    ("text", "result", "column", "message"),
    [
        ("%z = arith.addf %f, %i : tensor<16xf32>", "tensor<16xf32>", "parse", "operand is used with type"),
        ("%n = arith.addf %f, %g : tensor<16xf32>", "", "interpret", "nothing was written"),
    ],
)
def test_what_fails_shows(text: str, result: str, column: str, message: str) -> None:
    name = re.search(r"= ([\w.]+)", text).group(1)
    assert message in getattr(tt_ops.row(name, tt_ops.examples.Example(text, result)), column)


def test_a_back_end_that_does_nothing_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jn.kernel.Kernel, "launch", lambda self, grid, *args, **options: None)
    row = tt_ops.row("arith.addf", tt_ops.examples.EXAMPLES["arith.addf"])
    assert "" not in (row.host, row.nvptx)
