"""Triton's tutorials: their scripts as they are, but for benchmarks, which are not run. What they assert is what is tested."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path.cwd() / "python" / "tutorials"
SCRIPTS = sorted(path.name for path in FOLDER.glob("[0-9]*.py"))


@pytest.mark.parametrize("script", SCRIPTS)
def test_tutorial(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import triton.testing

    def report(benchmarks: Any) -> Any:
        return lambda function: _NoReport()

    monkeypatch.setattr(triton.testing, "perf_report", report)
    monkeypatch.setattr(triton.testing, "do_bench", lambda function, **keywords: 1.0)
    monkeypatch.setattr(sys, "argv", [script])
    runpy.run_path(str(FOLDER / script), run_name="__main__")


class _NoReport:
    """What the tutorials call to measure themselves."""

    def run(self, **keywords: Any) -> None:
        """Nothing is measured."""
