"""docs/triton_versions.md: what the record says, of all features; a failure would show."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FEATURES = ROOT / "tests" / "data" / "triton_features"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("triton_versions", DOCS / "triton_versions.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["triton_versions"] = module
    spec.loader.exec_module(module)
    return module


versions = load()
RECORD = json.loads((DOCS / "triton_versions.json").read_text(encoding="utf-8"))


def test_the_page_is_what_the_record_says() -> None:
    assert versions.page(RECORD) == (DOCS / "triton_versions.md").read_text(encoding="utf-8"), "fix: make docs"


def test_every_feature_was_tried_with_every_version_and_none_fails() -> None:
    noted = re.compile(r"^@feature\((?:\"(.+?)\"|'(.+?)')[,)]", re.MULTILINE)
    there = {one or other for file in FEATURES.glob("*.py") for one, other in noted.findall(file.read_text(encoding="utf-8"))}
    assert len(there) > 40
    assert {version.rpartition(".")[0] for version in RECORD} == {f"3.{minor}" for minor in range(3, 10)}
    for version, found in RECORD.items():
        assert set(found["features"]) == there, f"Triton {version}; fix: make triton-versions"
        assert not [name for name, outcome in found["features"].items() if outcome.startswith("fails")]


def test_new_outcomes_replace_old_ones_and_failures_show() -> None:
    before = {"with": "torch", "modes": {"a": ["native"]}, "features": {"a": "works"}}
    record = {"3.10.0": before, "3.9.0": before}
    outcomes = {"a": "fails: native: E: x", "b": "works"}
    versions.take(record, [json.dumps({"triton": "3.9.0", **before, "features": outcomes})])
    shown = versions.page(record)
    assert "| feature | modes | 3.9.0 | 3.10.0 |" in shown
    assert "| a | native | **fails** (1) | yes |" in shown
    assert "1. native: E: x" in shown
