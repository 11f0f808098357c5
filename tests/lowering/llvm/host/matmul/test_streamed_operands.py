"""Products of few rows with matrices that do not fit a cache, whose blocks are wide and shallow; matrices times vectors."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest


@pytest.mark.one_in(18)
@pytest.mark.parametrize("rows", [1, 2, 7, 33, 127, 128])
@pytest.mark.parametrize(("dtype", "depth", "columns"), [("float32", 1030, 1111), ("float64", 515, 2050)])
def test_few_rows(rows: int, dtype: str, depth: int, columns: int) -> None:
    rng = np.random.default_rng(rows)
    a, b = rng.integers(-9, 10, (rows, depth)).astype(dtype), rng.integers(-9, 10, (depth, columns)).astype(dtype)
    graph = jn.Graph("g", [jn.TensorType(dtype, a.shape, "a"), jn.TensorType(dtype, b.shape, "b")])
    graph.output(jn.relu(graph.inputs[0] @ graph.inputs[1] + 3))
    expected = np.maximum(a.astype(np.int64) @ b.astype(np.int64) + 3, 0)
    for threads in (1, 3):
        np.testing.assert_array_equal(jn.compile(graph, "cpu", cache=False, threads=threads)(a, b), expected)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("rows", [1, 8, 100])
def test_bits_do_not_depend_on_planned_threads(rows: int) -> None:
    a, b = (np.random.default_rng(rows).standard_normal(shape).astype(np.float32) for shape in ((rows, 900), (900, 1536)))
    graph = jn.Graph("g", [jn.TensorType("float32", a.shape, "a"), jn.TensorType("float32", b.shape, "b")])
    graph.output(graph.inputs[0] @ graph.inputs[1])
    found = [jn.compile(graph, "cpu", cache=False, threads=threads)(a, b) for threads in (1, 8, 64)]
    assert all(np.array_equal(each, found[0]) for each in found)


@pytest.mark.parametrize("where", ["a", "b"])
def test_infinities_and_nan_stay_in_their_sums(where: str) -> None:
    a, b = np.ones((5, 1030), np.float32), np.zeros((1030, 1111), np.float32)
    (a if where == "a" else b)[3, 1000] = np.inf
    graph = jn.Graph("g", [jn.TensorType("float32", a.shape, "a"), jn.TensorType("float32", b.shape, "b")])
    graph.output(graph.inputs[0] @ graph.inputs[1])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(jn.compile(graph, "cpu", cache=False)(a, b), a @ b)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("rows", "depth"), [(1, 513), (17, 1000), (300, 4095), (5, 16_385), (70, 16_384), (300, 511)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_matrix_times_a_vector(rows: int, depth: int, dtype: str) -> None:
    rng = np.random.default_rng(depth)
    a, v = rng.integers(-9, 10, (rows, depth)).astype(dtype), rng.integers(-9, 10, depth).astype(dtype)
    graph = jn.Graph("g", [jn.TensorType(dtype, a.shape, "a"), jn.TensorType(dtype, v.shape, "v")])
    graph.output(graph.inputs[0] @ graph.inputs[1])
    np.testing.assert_array_equal(jn.compile(graph, "cpu", cache=False)(a, v), a.astype(np.int64) @ v.astype(np.int64))
