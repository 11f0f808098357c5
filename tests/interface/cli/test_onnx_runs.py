"""`joinery run` of models in ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joinery.interface.cli.main import main
from onnx import helper

from ...support.onnx_models import model, node

F = np.float32
X = np.arange(6, dtype=F).reshape(2, 3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = model([node("Reshape", "x s", "a"), node("Mul", "a w")], {"x": (F, ["n", 3]), "s": (np.int64, [2])},
                 constants={"w": np.array([2.0], F)})  # fmt: skip
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "s.npy", np.array([3, -1]))
    return tmp_path


def arguments(folder: Path, *inputs: str, more: tuple[str, ...] = ()) -> list[str]:
    given = [text for name in inputs for text in ("--input", f"{name}={folder / name}.npy")]
    return ["run", str(folder / "m.onnx"), *given, "--device", "cpu", "--threads", "1", *more]


def test_inputs_that_sizes_depend_on_are_made_constants(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(folder, "x", "s", more=("--output", f"y={folder / 'y.npy'}"))) == 0
    assert capsys.readouterr().out == f"y: float32[3, 2] -> {folder / 'y.npy'}\n"
    np.testing.assert_array_equal(np.load(folder / "y.npy"), 2 * X.reshape(3, 2))


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("s", np.zeros((2, 3, 16, 24), F), "input 's' expects int64, got float32 with shape (2, 3, 16, 24); fix: "),
        ("s", np.zeros((2, 1), np.int64), "input 's' expects shape (2,) of rank 1, got (2, 1) of rank 2"),
        ("s", np.zeros(3, np.int64), "input 's' expects shape (2,), got (3,); fix: pass an array s: int64[2]"),
        ("s", np.zeros(2, np.int32), "input 's' expects int64, got int32"),
        ("x", X.astype(np.float64), "input 'x' expects float32, got float64"),
        ("x", np.zeros((2, 4), F), "input 'x' expects shape (n, 3), got (2, 4)"),
    ],
)
def test_an_array_of_another_type_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, array: Any, message: str
) -> None:
    """Before its values decide anything: an error that follows from them would be about something else."""
    np.save(folder / f"{name}.npy", array)
    assert main(arguments(folder, "x", "s")) == 2
    text = " ".join(capsys.readouterr().err.split())
    assert message in text
    assert "--constant" not in text


@pytest.mark.parametrize(
    ("inputs", "more", "message"),
    [
        (("x",), (), "missing input 's'; fix: the inputs are x, s"),
        (("s",), (), "missing input 'x'"),
        (("x", "s"), ("--trusted",), "--trusted is for files written by Model.save"),
        (("x", "s"), ("--input", "z=x.npy"), "has no input 'z'; inputs: x"),
    ],
)
def test_mistakes(
    folder: Path, capsys: pytest.CaptureFixture[str], inputs: tuple[str, ...], more: tuple[str, ...], message: str
) -> None:
    assert main(arguments(folder, *inputs, more=more)) in (1, 2)
    assert message in " ".join(capsys.readouterr().err.split())


def test_sequences_are_shown_and_written_element_by_element(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = model([node("Neg", "x", "z"), node("SequenceConstruct", "x z", "both")], {"x": (F, ["n"])}, "both")
    made.graph.output[0].type.CopyFrom(helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, ["n"])))
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    np.save(tmp_path / "x.npy", X[0])
    assert main(arguments(tmp_path, "x")) == 0
    assert capsys.readouterr().out == "both.0: float32[3]\n[0. 1. 2.]\nboth.1: float32[3]\n[-0. -1. -2.]\n"
    assert main(arguments(tmp_path, "x", more=("--output", f"both.1={tmp_path / 'second.npy'}"))) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "second.npy"), -X[0])
    assert main(arguments(tmp_path, "x", more=("--output", str(tmp_path / "all")))) == 0
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == ["both.0.npy", "both.1.npy"]
    capsys.readouterr()
    assert main(arguments(tmp_path, "x", more=("--output", f"both.2={tmp_path / 'third.npy'}"))) == 2
    assert "has no output 'both.2'; outputs: both.0, both.1" in " ".join(capsys.readouterr().err.split())
