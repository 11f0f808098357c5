"""Every feature of the table of versions, with the Triton that is installed; skipped without it (`make test-doors`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

from joinery.interface.triton import versions
from triton.backends.driver import DriverBase

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "tests" / "data" / "triton_features" / "run.py"
RECORD = json.loads((ROOT / "docs" / "triton_versions.json").read_text(encoding="utf-8"))


@pytest.mark.slow
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


@pytest.mark.parametrize(("version", "waits"), [((3, 4), True), ((3, 6), True), ((3, 7), False)])
def test_drivers_of_gpus_wait_where_triton_takes_one_active_driver(
    monkeypatch: pytest.MonkeyPatch, version: tuple[int, int], waits: bool
) -> None:
    members = dict.fromkeys(DriverBase.__abstractmethods__, lambda self: None)
    other = type("OtherDriver", (DriverBase,), {**members, "is_active": staticmethod(lambda: True)})
    module = ModuleType("other_gpu.driver")
    module.OtherDriver, module.DriverBase = other, DriverBase  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "other_gpu", ModuleType("other_gpu"))
    monkeypatch.setitem(sys.modules, "other_gpu.driver", module)
    found = [EntryPoint(name, name, "triton.backends") for name in ("no_such_module", "other_gpu")]
    monkeypatch.setattr(versions, "entry_points", lambda group: found)
    monkeypatch.setattr(versions, "_version", lambda: version)
    asked = [True]
    versions.let_others_wait("no_such_module", lambda: asked[0])
    assert other.is_active() is not waits  # type: ignore[attr-defined]
    asked[0] = False
    assert other.is_active()  # type: ignore[attr-defined]
