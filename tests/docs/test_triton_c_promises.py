"""The tests that the page on Triton-C's promises names are there, and have in them what their rows are about."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest
from joinery.lowering.frontends.triton_c.checking.calls import BUILTIN_NAMES
from joinery.lowering.frontends.triton_c.reading.preprocessor import PRELUDE
from joinery.lowering.frontends.triton_c.syntax.token_stream import KEYWORDS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "triton_c_promises.md"
TESTS = ROOT / "tests"
FOLDERS = (TESTS / "lowering" / "frontends" / "triton_c", TESTS / "conformance", TESTS / "interface" / "tuning")
PROGRAMS = TESTS / "data" / "triton_c"
NAMED = re.compile(r"`(test_\w+\.py)::(test_\w+)`")
WORDS = KEYWORDS | PRELUDE | set(BUILTIN_NAMES) | {
    "bitcast", "calloc", "sizeof", "include", "ifdef", "elifdef", "__VA_ARGS__", "__VA_OPT__", "_Pragma", "None", "True",
    "double", "half", "min", "max",
}  # fmt: skip
"""Names that mean the same in every program; others, as in `range[:, newaxis]`, are examples."""
SYNONYMS = {"int": ("I32", "int32"), "double": ("F64", "float64"), "half": ("F16", "float16")}
"""What tests call types where a helper writes the program."""
SIGNS = ("*?(", "...", "@", "##", "&&", "||", "?", "^", "%", "~", ">>", "!=", "/")


def pages_rows() -> list[str]:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("| ") and "| tests |" not in line]


@functools.cache
def definitions(file: str) -> dict[str, str]:
    """Name → source of what a test file in one of the folders defines, with decorators."""
    (path,) = [folder / file for folder in FOLDERS if (folder / file).exists()]
    text = path.read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for node in ast.parse(text).body:
        names = [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
        source = ast.get_source_segment(text, node) or ""
        decorators = [ast.get_source_segment(text, each) or "" for each in getattr(node, "decorator_list", ())]
        found |= {name: "\n".join([*decorators, source]) for name in names}
    return found


@functools.cache
def source_of(file: str, test: str) -> str:
    """The source of a test, with what it uses of its file; of tests of conformance also the programs that they run."""
    known = definitions(file)
    waiting, found = [test], {}
    while waiting:
        name = waiting.pop()
        if name in known and name not in found:
            found[name] = known[name]
            waiting += re.findall(r"[A-Za-z_]\w*", known[name])
    programs = sorted(PROGRAMS.glob("*.tc")) if file in ("test_triton_c.py", "test_devices.py") else []
    return "\n".join([*found.values(), *(each.read_text(encoding="utf-8") for each in programs)])


def constructs(row: str) -> set[str]:
    """What the first cell of a row names of the language: words with one meaning, and signs."""
    cell = re.split(r"(?<!\\)\|", row)[1].replace("\\|", "|")
    found: set[str] = set()
    for code in re.findall(r"(?<!without )`([^`]+)`", cell):
        found |= {each for each in re.findall(r"[A-Za-z_]\w*", code) if each in WORDS}
        for sign in SIGNS:
            if sign in code:
                found.add(sign)
                code = code.replace(sign, " ")
    return found


def absent(row: str) -> set[str]:
    """What a row names, and none of its tests has."""
    sources = "\n".join(source_of(file, test) for file, test in NAMED.findall(row))
    words = set(re.findall(r"\w+", sources))
    found = {each for each in constructs(row) if each in sources if each in SIGNS or each in words}
    found |= {each for each in constructs(row) if words & set(SYNONYMS.get(each, ()))}
    return constructs(row) - found


def test_the_tests_that_the_page_names_are_there() -> None:
    named = NAMED.findall(PAGE.read_text(encoding="utf-8"))
    assert len(named) > 120
    assert [f"{file}::{test}" for file, test in named if test not in definitions(file)] == []


def test_every_promise_has_a_test() -> None:
    assert [row for row in pages_rows() if not NAMED.search(row)] == []


def test_the_tests_of_a_row_have_what_it_names() -> None:
    assert {row: missing for row in pages_rows() if (missing := absent(row))} == {}
    assert sum(len(constructs(row)) for row in pages_rows()) > 90


@pytest.mark.parametrize(
    ("row", "missing"),
    [
        ("| `atomic_cas` waits | `test_preprocessor.py::test_tokens` |", {"atomic_cas"}),
        ("| `*?(m)p`, `a @ b`, `x[+]` of `half` | `test_preprocessor.py::test_tokens` |", {"@", "half"}),
        ("| `#ifdef` sees `__noalias` | `test_rulings.py::test_a_grid_has_sizes_of_at_least_one` |", {"ifdef", "__noalias"}),
    ],
)
def test_a_row_whose_tests_are_about_something_else_is_found(row: str, missing: set[str]) -> None:
    assert absent(row) == missing
