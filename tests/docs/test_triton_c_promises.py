"""The tests that the page on Triton-C's promises names are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "triton_c_promises.md"
TESTS = ROOT / "tests"
FOLDERS = (TESTS / "lowering" / "frontends" / "triton_c", TESTS / "conformance", TESTS / "interface" / "tuning")
NAMED = re.compile(r"`(test_\w+\.py)::(test_\w+)`")


def functions(file: str) -> set[str]:
    """The functions of a test file in one of the folders."""
    (path,) = [folder / file for folder in FOLDERS if (folder / file).exists()]
    return {node.name for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)}


def test_the_tests_that_the_page_names_are_there() -> None:
    named = NAMED.findall(PAGE.read_text(encoding="utf-8"))
    assert len(named) > 120
    assert [f"{file}::{test}" for file, test in named if test not in functions(file)] == []


def test_every_promise_has_a_test() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert [row for row in rows if not NAMED.search(row) and "| tests |" not in row] == []
