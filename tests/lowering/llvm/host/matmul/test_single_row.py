"""Products of one row with a matrix that is given at run time, beside NumPy in float64."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.llvm.compile import host_target

SIZES = [(0, 300), (1, 500), (7, 257), (8, 64), (9, 65), (16, 300), (17, 1023), (100, 1024), (33, 1025), (513, 700),
         (1030, 2500)]  # fmt: skip


def _numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sizes", SIZES)
def test_any_sizes(dtype: str, sizes: tuple[int, int]) -> None:
    """Sizes that are known, or at launch alone; batches of one row each; a bias and a function behind it."""
    depth, columns = sizes
    x, w, b = _numbers(1, depth).astype(dtype), _numbers(depth, columns).astype(dtype), _numbers(columns).astype(dtype)
    eps = np.finfo(dtype).eps
    bound = 2 * eps * ((depth + 4) * (np.abs(x).astype(np.float64) @ np.abs(w)) + np.abs(b) + 1)
    expected = np.maximum(x.astype(np.float64) @ w + b, 0)
    for k, n in (sizes, ("k", "n")):
        types = [jn.TensorType(dtype, shape, name) for name, shape in (("x", (1, k)), ("w", (k, n)), ("b", (n,)))]
        graph = jn.Graph("g", types)
        graph.output(jn.relu(graph.inputs[0] @ graph.inputs[1] + graph.inputs[2]))
        found = jn.compile(graph, "cpu", cache=False)(x, w, b)
        assert (np.abs(found - expected) <= bound).all(), (k, n)


def test_a_batch_and_infinities() -> None:
    x, w = _numbers(3, 1, 40).astype(np.float32), _numbers(3, 40, 400).astype(np.float32)
    w[1, 5, 7], w[2, 39, 399], x[0, 0, 3] = np.inf, np.nan, -np.inf
    graph = jn.Graph("g", [jn.TensorType(jn.float32, array.shape, name) for name, array in (("x", x), ("w", w))])
    graph.output(graph.inputs[0] @ graph.inputs[1])
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(jn.compile(graph, "cpu", cache=False)(x, w), x @ w, rtol=1e-4, atol=1e-4)


def test_the_bits_do_not_depend_on_the_number_of_rows() -> None:
    """One row is the same chain along k as each row of many."""
    x, w = _numbers(8, 300).astype(np.float32), _numbers(300, 1500).astype(np.float32)
    models = []
    for rows in (1, 8):
        graph = jn.Graph("g", [jn.TensorType(jn.float32, (rows, 300), "x"), jn.TensorType(jn.float32, w.shape, "w")])
        graph.output(graph.inputs[0] @ graph.inputs[1])
        models.append(jn.compile(graph, "cpu", numerics="reproducible", cache=False))
    np.testing.assert_array_equal(models[0](x[:1], w), models[1](x, w)[:1])


def test_rows_of_a_larger_matrix() -> None:
    """Rows of the matrix lie apart, and elements of the row do."""
    x, w = _numbers(60, 50).astype(np.float32), _numbers(60, 2000).astype(np.float32)
    graph = jn.Graph("g", [jn.TensorType(jn.float32, array.shape, name) for name, array in (("x", x), ("w", w))])
    graph.output(jn.permute(graph.inputs[0][:, 3:4], (1, 0)) @ graph.inputs[1][:, 5:1337])
    found = jn.compile(graph, "cpu", cache=False)(x, w)
    np.testing.assert_allclose(found, x[:, 3:4].T @ w[:, 5:1337], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("depth", "columns", "long", "short"), [
    (600, 700, "16x8", "8x4"), (600, 1024, "16x4", "8x4"), (2000, 200, "16x8_fetched", "8x4_fetched"),
    (4096, 4096, "16x8_fetched", "8x8"), ("k", "n", "16x8_fetched", "8x8"),
])  # fmt: skip
def test_what_comes_from_memory_is_fetched_ahead(depth: Any, columns: Any, long: str, short: str) -> None:
    """What a cache holds is not, but for short rows; nor are eight rows whose lines share a set read at a time from there, or
    lines of two vectors fetched."""
    shapes = {"x": (1, depth), "w": (depth, columns)}
    graph = jn.Graph("g", [jn.TensorType(jn.float32, shape, name) for name, shape in shapes.items()])
    graph.output(graph.inputs[0] @ graph.inputs[1])
    targets = [("x86-64-v3", short)] if host_target().has("avx2") else []
    targets += [("x86-64-v4", long)] if host_target().has("avx512f") else []
    for target, function in targets:
        text = "".join([kernel.llvm_ir for kernel in jn.compile(graph, "cpu", target=target, cache=False).kernels])
        assert f"@jn_row_float_{function}(" in text
        assert ("nontemporal" in text) is False


@pytest.mark.skipif(not host_target().has("avx512f"), reason="only registers of 64 bytes gain from it")
def test_values_that_one_query_weighs_are_fetched_ahead() -> None:
    texts = []
    for heads in (4, 64):
        rows = {"q": 1, "k": 600, "v": 600}
        graph = jn.Graph("g", [jn.TensorType(jn.float32, (heads, count, 512), name) for name, count in rows.items()])
        q, k, v = graph.inputs
        graph.output(jn.softmax(q @ k.permute((0, 2, 1)), -1) @ v)
        model = jn.compile(graph, "cpu", cache=False)
        texts.append("".join([kernel.llvm_ir for kernel in model.kernels]))
    assert ["_fetched" in text for text in texts] == [False, True]
