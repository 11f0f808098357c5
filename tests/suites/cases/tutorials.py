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


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("mode", "provider"), [("bwd", "triton-fp16"), ("fwd", "triton-fp8")])
@pytest.mark.parametrize(("length", "width"), [(128, 64), (256, 128)])
def test_fused_attention(length: int, width: int, mode: str, provider: str, causal: bool) -> None:
    test_op = runpy.run_path(str(FOLDER / "06-fused-attention.py"))["test_op"]
    test_op(1, 2, length, width, causal, False, mode, provider)


class _NoReport:
    """What the tutorials call to measure themselves."""

    def run(self, **keywords: Any) -> None:
        """Nothing is measured."""
