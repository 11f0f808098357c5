"""docs/libdevice.md says what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from joinery.lowering.libdevice.signatures import SIGNATURES

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_is_what_the_code_says() -> None:
    spec = importlib.util.spec_from_file_location("docs_libdevice", DOCS / "libdevice.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (DOCS / "libdevice.md").read_text(encoding="utf-8")
    assert page == module.page(), "fix: make docs"
    assert all(f"| `{symbol}` |" in page for symbol in SIGNATURES)
