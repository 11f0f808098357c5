"""`joinery … | head`: a reader that closes early changes no exit status."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ...support.onnx_models import model, node
from ...support.proving.kernels import SUBJECTS

_WRONG = """tt.func public @k(%x: !tt.ptr<i32>) {
  %far = arith.constant 100 : i32
  %at = tt.addptr %x, %far : !tt.ptr<i32>, i32
  tt.store %at, %far : !tt.ptr<i32>
  tt.return
}"""


def status(folder: Path, *arguments: str, both: bool = False) -> int:
    """The exit status of a command of which nobody reads what it prints; both: nor what it tells on standard error."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "joinery", *arguments]
    try:
        done = subprocess.run(command, stdout=writer, stderr=writer if both else subprocess.PIPE, cwd=folder, check=False)
    finally:
        os.close(writer)
    assert not done.stderr or b"Broken" not in done.stderr
    return done.returncode


def read(folder: Path, *arguments: str) -> int:
    command = [sys.executable, "-m", "joinery", *arguments]
    return subprocess.run(command, capture_output=True, cwd=folder, check=False).returncode


@pytest.mark.slow
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize(
    ("subject", "arguments", "expected"),
    [
        ("vector", ["--extent", "x: n", "--grid", "cdiv(n, 4)"], 0), ("vector", ["--extent", "x: n"], 4),
        ("mask_of_too_many", ["--extent", "x: n", "--grid", "cdiv(n, 4)"], 3), ("vector", ["--extent", "nobody: n"], 2),
    ],
)  # fmt: skip
def test_a_proof_has_its_status(subject: str, arguments: list[str], expected: int, both: bool, tmp_path: Path) -> None:
    pytest.importorskip("z3")
    (tmp_path / "k.ttir").write_text(SUBJECTS[subject].text)
    properties = ["--property", "bounds"]
    assert status(tmp_path, "prove", "k.ttir", *arguments, *properties, both=both) == expected
    if expected != 2:
        assert read(tmp_path, "prove", "k.ttir", *arguments, *properties, "--output", "p.json") == expected
        assert status(tmp_path, "prove", "--verify", "p.json", both=both) == expected


@pytest.mark.slow
def test_a_verified_proof_that_is_longer_than_a_pipe_has_its_status(tmp_path: Path) -> None:
    """What is printed at once fills the pipe, so that the reader closes it in the middle."""
    pytest.importorskip("z3")
    lines = "".join([f"  tt.store %x, %n : !tt.ptr<i32> loc(\"a{number}.py\":{number + 1}:1)\n" for number in range(500)])
    text = f"tt.func public @k(%x: !tt.ptr<i32>, %n: i32) {{\n{lines}  tt.return\n}}"
    (tmp_path / "k.ttir").write_text(text)
    assert read(tmp_path, "prove", "k.ttir", "--extent", "x: n", "--property", "bounds", "--output", "p.json") == 3
    shell = f"{sys.executable} -m joinery prove --verify p.json | head -3; exit ${{PIPESTATUS[0]}}"
    assert subprocess.run(["bash", "-c", shell], cwd=tmp_path, capture_output=True, check=False).returncode == 3


@pytest.mark.slow
@pytest.mark.parametrize("both", [False, True])
def test_a_sanitized_run_has_its_status(tmp_path: Path, both: bool) -> None:
    (tmp_path / "k.ttir").write_text(_WRONG)
    np.save(tmp_path / "x.npy", np.zeros(4, np.int32))
    np.save(tmp_path / "long.npy", np.zeros(400, np.int32))
    assert status(tmp_path, "run", "k.ttir", "x.npy", "--grid", "1", "--sanitize", both=both) == 2
    assert status(tmp_path, "run", "k.ttir", "long.npy", "--grid", "1", "--sanitize", both=both) == 0


@pytest.mark.slow
def test_a_comparison_has_its_status(tmp_path: Path) -> None:
    for name, weight in (("a", 0.5), ("b", 0.75)):
        made = model([node("Mul", "x w")], {"x": (np.float32, [3])}, constants={"w": np.array([1.0, 1.0, weight], np.float32)})
        (tmp_path / f"{name}.onnx").write_bytes(made.SerializeToString())
    np.save(tmp_path / "x.npy", np.ones(3, np.float32))
    assert status(tmp_path, "compare", "a.onnx", "b.onnx", "--input", "x=x.npy") == 2
    assert status(tmp_path, "compare", "a.onnx", "a.onnx", "--input", "x=x.npy") == 0


def test_what_has_no_status_of_its_own_ends_well(tmp_path: Path) -> None:
    assert status(tmp_path, "table", "--rules", "jax") == 0
    assert status(tmp_path, "table", "--rules", "jax", both=True) == 0
    assert status(tmp_path, "table", "--rules", "nobody") == 2
