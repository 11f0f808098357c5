"""docs/onnx_export.md is what the code writes, and names every operation once."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

from joinery.graph.ops.table import OPS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "onnx_export.md").read_text(encoding="utf-8")


def load() -> Any:
    spec = importlib.util.spec_from_file_location("onnx_export", DOCS / "onnx_export.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_code_says() -> None:
    assert load().page() == PAGE, "fix: make docs"


def test_every_operation_has_a_row_that_says_something() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \|$", PAGE, re.MULTILINE)
    assert [name for name, _, _ in rows] == list(OPS)
    assert all(one.strip(" –") or made for _, one, made in rows)
