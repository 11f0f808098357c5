"""Every feature of the table of versions, with the Triton that is installed; skipped without it (`make test-doors`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "tests" / "data" / "triton_features" / "run.py"
RECORD = json.loads((ROOT / "docs" / "triton_versions.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", ["launches", "language", "processes"])
def test_features_come_out_as_the_table_says(file: str, tmp_path: Path) -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("JOINERY_", "TRITON_"))}
    surroundings = {**plain, "TRITON_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}
    command = [sys.executable, str(PROGRAM), file]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=surroundings, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Exception ignored" not in done.stderr, done.stderr
    found = json.loads(done.stdout)
    recorded = RECORD.get(found["triton"], {"features": {}})["features"]
    for name, outcome in found["features"].items():
        assert outcome == recorded.get(name, outcome), f"{name}; fix: make triton-versions\n{done.stderr}"
        assert not outcome.startswith("fails"), f"{name}\n{done.stderr}"
