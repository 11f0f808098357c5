"""Products of one row with a matrix that is given at run time, beside NumPy in float64."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

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
