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


@pytest.mark.slow
def test_arrays_of_equal_bytes_and_other_shapes(tmp_path: Path) -> None:
    """They are one weight of a file. Products read some in panels; by digest the code alone says which shapes there are."""
    numbers = np.random.default_rng(5).standard_normal(64 * 128).astype(np.float32)
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n", 64), "x"), jn.TensorType(jn.float32, ("m", 128), "y")])
    x, y = graph.inputs
    wide, tall = graph.constant(numbers.reshape(64, 128)), graph.constant(numbers.reshape(128, 64))
    column, row = graph.constant(numbers[:64][:, None]), graph.constant(numbers[:64])
    zeros = graph.constant(np.zeros(40, np.float32)) + graph.constant(np.zeros((40, 1), np.int32)).cast("float32")
    graph.output(x @ wide, y @ tall, graph.constant(numbers.reshape(2, 64, 64)) + 1.0, column * row, zeros)
    given = [np.ones((3, 64), np.float32), np.ones((2, 128), np.float32)]
    model = jn.compile(graph, "cpu", cache=False)
    expected = model(*given)
    np.testing.assert_allclose(expected[0], given[0] @ numbers.reshape(64, 128), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(expected[1], given[1] @ numbers.reshape(128, 64), rtol=1e-4, atol=1e-4)
    path = tmp_path / "m.joinery"
    model.save(path)
    digest = jn.load(path, "cpu").digest
    jn.save(graph, tmp_path / "n.joinery", ("cpu", "sm_80"), cache=False)
    other = jn.load(tmp_path / "n.joinery", "cpu").digest
    for each, known in ((path, digest), (tmp_path / "n.joinery", other)):
        for options in ({}, {"trusted": True}, {"trusted": True, "digest": known}, {"digest": known}):
            found = jn.load(each, "cpu", cache=False, **options)  # type: ignore[arg-type]
            for one, want in zip(found(*given), expected, strict=True):
                np.testing.assert_array_equal(one, want, f"{each.name}, {options}")
