"""The pages of the API reference show every public name once, and dtypes.md and commands.md are what the code says."""

from __future__ import annotations

import re
import runpy
from collections import Counter
from pathlib import Path

import joinery as jn
import pytest
from joinery.promotion.dtype import DTYPES

DOCS = Path(__file__).resolve().parents[2] / "docs"
API = runpy.run_path(str(DOCS / "api_pages.py"))
TABLES = runpy.run_path(str(DOCS / "tables.py"))


def test_every_public_name_stands_on_one_page() -> None:
    shown = Counter(
        name
        for text in API["pages"]().values()
        for name in re.findall(r"^\.\. (?:py:data|auto\w+):: joinery\.([\w.]+)", text, re.MULTILINE)
    )
    assert [name for name, count in shown.items() if count > 1] == []
    modules = {f"{module}.{name}" for module in jn._MODULES for name in getattr(jn, module).__all__}
    elsewhere = {name for name in modules if name.partition(".")[2] in jn._LOCATIONS}
    assert set(shown) == (set(dir(jn)) | modules) - elsewhere - {*jn._MODULES, "dim", "__version__"}


def test_names_of_a_new_module_are_refused() -> None:
    with pytest.raises(ValueError, match="no page of the API reference shows nowhere"):
        API["page_of"]("nowhere.at.all")


def test_signatures_have_the_types_of_the_stub_and_the_defaults_of_the_code() -> None:
    stubs = API["stub_annotations"]()
    assert API["signature"]("softmax", jn.softmax, stubs) == ("(x: Symbol, axis: int = -1)", "Symbol")
    assert API["signature"]("add", jn.add, stubs) == ("(x: TensorLike, y: TensorLike)", "Symbol")
    assert API["signature"]("Graph", jn.Graph, stubs) is None
    assert API["constructor"](jn.UserError) is None
    assert API["constructor"](jn.kernel.Finding).startswith("(kind: str, message: str, ")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a `UserError` and `x + y`", "a :py:obj:`UserError` and ``x + y``"),
        ("`Buffer`s of 2 * n", ":py:obj:`Buffer`\\ s of 2 \\* n"),
        ("- |x| is `abs(x)`, x_ too", "- \\|x\\| is ``abs(x)``, x\\_ too"),
        ("jn.float32, snake_case", "jn.float32, snake_case"),
    ],
)
def test_docstrings_become_restructured_text(line: str, expected: str) -> None:
    assert API["restructured"](line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("        file, line: where it stands", "        file,line: where it stands"),
        ("    *args, **options: what is given", "    *args,**options: what is given"),
        ("    device: a, b: c", "    device: a, b: c"),
        ("First, second: a sentence", "First, second: a sentence"),
    ],
)
def test_names_of_one_entry_stay_together(line: str, expected: str) -> None:
    assert API["joint_names"](line) == expected


def test_functions_do_not_repeat_what_their_page_says() -> None:
    text = API["without_repetition"](jn.add.__doc__)
    assert "Operands are symbols" not in text
    assert text.startswith("x + y.")
    assert "Result dtype" in text


@pytest.mark.parametrize("name", TABLES["PAGES"])
def test_tables_are_what_the_code_says(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == TABLES["PAGES"][name](), "fix: make docs"


def test_rows_of_dtypes_show_known_facts() -> None:
    lines = (DOCS / "dtypes.md").read_text(encoding="utf-8").splitlines()
    assert "| `bfloat16` | float | 16 | 8, 7 | yes | 3.38953e+38 | 1.17549e-38 | inf, NaN |" in lines
    assert "| `int8` | int | 8 | – | yes | 127 | -128 | – |" in lines
    assert "| `bfloat16` | `bfloat16` | `bf16` | `bf16` | 4 | 16 | `BF16` |" in lines
    assert sum(line.startswith("| `") for line in lines) == 2 * len(DTYPES)
