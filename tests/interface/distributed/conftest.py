"""A small model in a file, whose results tests compare with NumPy's or with the model's own on everything at once, and the
command that runs it over files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.__main__ import main
from joinery.interface.distributed import references

SIZE, CLASSES = 16, 5
WEIGHT = np.random.default_rng(7).standard_normal((SIZE, CLASSES)).astype(np.float32)


def scorer(name: str = "scorer") -> jn.Graph:
    """Softmax of x @ w along the classes, and the sum of each row, with a batch of any size."""
    graph = jn.Graph(name, [jn.TensorType(jn.float32, ("batch", SIZE), "x")])
    (x,) = graph.inputs
    graph.output(jn.softmax(x @ graph.weight("w", WEIGHT)), name="y")
    return graph


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "scorer.joinery"
    jn.compile(scorer(), device="cpu").save(path)
    return path


@pytest.fixture
def reference(model_path: Path) -> jn.distributed.ModelReference:
    return jn.distributed.reference(model_path, trusted=True, threads=1)


@pytest.fixture
def forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No model is open in this process, and none was brought to this host."""
    references._models.clear()
    references._carried.clear()
    monkeypatch.setattr(references, "default_directory", lambda: tmp_path / "nothing brought")


def rows(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, SIZE)).astype(np.float32)


def scores(x: np.ndarray) -> np.ndarray:
    """What the model computes, in float64."""
    product = x.astype(np.float64) @ WEIGHT.astype(np.float64)
    powers = np.exp(product - product.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


# --- the command

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def folder(tmp_path: Path, model_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.joinery").write_bytes(model_path.read_bytes())
    np.save("x.npy", rows(103))
    return tmp_path


@pytest.fixture
def batch(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command and return its summary; `status` is its exit status."""

    def run(
        *arguments: str, status: int = 0, inputs: tuple[str, ...] = ("x=x.npy",), trusted: bool = True
    ) -> dict[str, Any]:
        given = [part for each in inputs for part in ("--input", each)] + (["--trusted"] if trusted else [])
        capsys.readouterr()
        assert main(["batch", "m.joinery", *given, "--threads", "1", "--quiet", *arguments]) == status
        found = capsys.readouterr()
        return json.loads(found.out) if found.out else {"error": " ".join(found.err.split())}

    return run
