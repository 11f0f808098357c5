"""`joinery run --sanitize` of saved models."""

from __future__ import annotations

from pathlib import Path

import joinery as jn
import numpy as np
import pytest
from joinery.interface.cli.main import main
from joinery.lowering.sanitize import ModelReport
from joinery.lowering.tt.sanitize.findings import Finding


@pytest.fixture
def model(tmp_path: Path) -> Path:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n", 4), name="x")])
    graph.output(jn.sum(graph.inputs[0] * 2, axis=0), names=["total"])
    jn.compile(graph, device="cpu").save(tmp_path / "g.joinery")
    np.save(tmp_path / "x.npy", np.ones((3, 4), np.float32))
    return tmp_path


def arguments(folder: Path) -> list[str]:
    places = ["--input", f"x={folder / 'x.npy'}", "--output", f"total={folder / 'y.npy'}"]
    return ["run", str(folder / "g.joinery"), *places, "--device", "cpu", "--sanitize"]


def test_a_clean_model_is_said_to_be_so_and_its_outputs_are_written(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(model)) == 0
    assert capsys.readouterr().out.startswith("sanitizer: 0 findings in 1 launch\n")
    np.testing.assert_array_equal(np.load(model / "y.npy"), np.full(4, 6, np.float32))


def test_findings_go_to_the_standard_error_with_status_2(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = Finding("race", "two programs write it", "tt.store", "model.py:3", (0, 0, 0))
    made = ModelReport((), (finding,), (np.zeros(4, np.float32),))
    monkeypatch.setattr("joinery.interface.model.Model.sanitize", lambda self, **inputs: made)
    assert main(arguments(model)) == 2
    assert capsys.readouterr().err.startswith("sanitizer: 1 finding in 0 launches\nrace: two programs write it")
