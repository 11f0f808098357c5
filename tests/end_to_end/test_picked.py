"""Gathers at constant positions, of memory and of what is computed, against numpy.take."""

import joinery as jn
import numpy as np
import pytest

X = np.random.default_rng(2).standard_normal((3, 40)).astype(np.float32)


def run(build):
    graph = jn.Graph("g", [jn.TensorType(jn.float32, X.shape, "x")])
    graph.output(build(graph.inputs[0]))
    model = jn.compile(graph, device="cpu", cache=False)
    return model(X), model.kernels


@pytest.mark.one_in(2)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("dtype", "lowest"), [
    ("uint8", 0), ("int8", 0), ("int32", 0), ("int64", 0), ("uint64", 0), ("int8", -3), ("int32", -3), ("int64", -3),
])  # fmt: skip
def test_positions_of_any_integers(axis, dtype, lowest):
    positions = np.random.default_rng(5).integers(lowest, X.shape[axis], 57).astype(dtype)
    found, _ = run(lambda x: jn.gather(x, positions, axis=axis))
    np.testing.assert_array_equal(found, np.take(X, positions.astype(np.int64), axis))


def test_positions_out_of_range_are_still_clipped():
    graph = jn.Graph("g", [jn.TensorType(jn.float32, X.shape, "x"), jn.TensorType(jn.int64, (3,), "at")])
    graph.output(jn.gather(*graph.inputs, axis=1))
    at = np.array([39, 40, -41])
    found = jn.compile(graph, device="cpu", cache=False)(X, at)
    np.testing.assert_array_equal(found, jn.evaluate(graph, X, at))


@pytest.mark.parametrize(("axis", "count", "kernels"), [(0, 90, 1), (1, 90, 2), (1, 4, 2), (1, 3, 1)])
def test_what_is_computed_is_stored_where_most_neighbours_are_picked_twice(axis, count, kernels):
    first, second = (np.random.default_rng(n).integers(0, X.shape[axis], count) for n in (1, 2))

    def build(x):
        value = x * x * 0.5 + x * 3.0
        return jn.gather(value, first, axis=axis) + jn.gather(value, second, axis=axis)

    found, used = run(build)
    value = X * X * np.float32(0.5) + X * np.float32(3)
    np.testing.assert_array_equal(found, np.take(value, first, axis) + np.take(value, second, axis))
    assert len(used) == kernels


@pytest.mark.parametrize(("count", "kernels"), [(90, 2), (16, 2), (15, 1)])
def test_what_is_picked_of_an_unknown_number_is_stored_unless_few_are_picked(count, kernels):
    ids = [np.random.default_rng(n).integers(0, X.shape[1], count) for n in (1, 2)]
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("a", "b"), "x")])
    value = graph.inputs[0] * graph.inputs[0] * 0.5 + graph.inputs[0] * 3.0
    graph.output(jn.gather(value, ids[0], axis=1) + jn.gather(value, ids[1], axis=1))
    model = jn.compile(graph, device="cpu", cache=False)
    right = X * X * np.float32(0.5) + X * np.float32(3)
    np.testing.assert_array_equal(model(X), np.take(right, ids[0], 1) + np.take(right, ids[1], 1))
    assert len(model.kernels) == kernels
