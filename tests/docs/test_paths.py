"""Files and folders that pages name in code exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OF_OTHERS = ROOT / "docs" / "guides" / "triton_suites.md"
"""A page that names files of other projects."""
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")} - {OF_OTHERS})
FOLDERS = ("promotion", "graph", "lowering", "runtime", "interface", "tests", "docs", "benchmarks", "examples", ".ci")
PATH = re.compile(rf"`((?:{'|'.join(map(re.escape, FOLDERS))})/[\w./-]*)`")
PLANNED = frozenset({
    "interface/explorer/",
})  # fmt: skip
"""Folders that CONTRIBUTING keeps for what is to come."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_exist(page: Path) -> None:
    named = set(PATH.findall(page.read_text(encoding="utf-8")))
    missing = [
        name for name in named - PLANNED if not (ROOT / name).exists() and not any(ROOT.glob(f"{name.rstrip('/')}.py"))
    ]
    assert sorted(missing) == []


def test_planned_folders_are_not_there_yet() -> None:
    assert [name for name in sorted(PLANNED) if (ROOT / name).exists()] == []
