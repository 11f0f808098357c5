"""A model holds large weights once: in the panels that its kernels read, and not as they were before."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest

SIZE = 520
"""Of matrices just above the size from which arrays are let go."""


def compiled(size: int, numbers: np.ndarray) -> tuple[jn.Model, weakref.ref[Any], jn.Graph]:
    graph = jn.Graph("held")
    x = graph.input(jn.float32, ("n", size))
    matrix = graph.weight("matrix", np.random.default_rng(1).standard_normal((size, size)).astype(np.float32))
    graph.output(jn.matmul(x, matrix) + graph.weight("table", numbers))
    return jn.compile(graph, "cpu", threads=1, cache=False), weakref.ref(matrix.attrs["value"]), graph


X = np.random.default_rng(2).standard_normal((3, SIZE)).astype(np.float32)
TABLE = np.arange(SIZE, dtype=np.float32)


def test_a_weight_in_panels_goes_with_the_graph_and_comes_back_for_files(tmp_path: Path) -> None:
    model, owner, graph = compiled(SIZE, TABLE)
    wanted = model(X)
    model.save(tmp_path / "with.joinery")
    assert owner() is not None
    del graph
    gc.collect()
    assert owner() is None
    np.testing.assert_array_equal(model(X), wanted)
    model.save(tmp_path / "without.joinery")
    assert (tmp_path / "with.joinery").read_bytes() == (tmp_path / "without.joinery").read_bytes()
    np.testing.assert_array_equal(jn.load(tmp_path / "without.joinery", "cpu")(X), wanted)


def test_block_programs_are_the_same_without_the_graph() -> None:
    first, _, graph = compiled(SIZE, TABLE)
    second, owner, other = compiled(SIZE, TABLE)
    del other
    gc.collect()
    assert owner() is None
    texts = [[kernel.ttir for kernel in model.kernels] for model in (first, second)]
    assert texts[0] == texts[1]
    assert graph.finished


@pytest.mark.parametrize("size", [8])
def test_small_weights_stay_with_the_graph(size: int) -> None:
    model, owner, graph = compiled(size, TABLE[:size])
    del graph
    gc.collect()
    assert owner() is not None
    np.testing.assert_allclose(model(X[:, :size]), X[:, :size] @ owner() + TABLE[:size], rtol=1e-5, atol=1e-5)
