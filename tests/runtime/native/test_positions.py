"""Positions of what is not 0, found by native code, against NumPy."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest
from joinery.runtime.native.positions import load_positions

SHAPES = [
    (1,), (7,), (31,), (32,), (33,), (64,), (1000,), (0,), (5, 0), (0, 5), (7, 33), (100, 1), (40, 96), (3, 40, 65),
    (2, 3, 4, 50),
]  # fmt: skip
find = load_positions()


def expected(x: np.ndarray) -> np.ndarray:
    return np.array(np.nonzero(x), np.int64).reshape(x.ndim, -1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.5, 0.98, 1.0])
def test_random_flags(shape: tuple[int, ...], share: float) -> None:
    x = np.random.default_rng(len(shape)).random(shape) < share
    found = find(x)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, expected(x))


@pytest.mark.parametrize("count", [1, 8, 9, 31, 32, 33, 40])
def test_every_end_of_a_line(count: int) -> None:
    """The last positions are stored one by one: nothing is written beyond them."""
    for place in range(count):
        x = np.zeros(count, bool)
        x[place:] = True
        np.testing.assert_array_equal(find(x), expected(x))


def test_bytes_that_are_neither_0_nor_1_and_arrays_that_are_not_contiguous() -> None:
    strange = np.array([0, 2, 255, 0, 128, 1] * 20, np.uint8).view(bool)
    np.testing.assert_array_equal(find(strange), expected(strange.view(np.uint8)))
    x = np.random.default_rng(0).random((60, 90)) < 0.4
    np.testing.assert_array_equal(find(x.T[::2, ::-1]), expected(x.T[::2, ::-1]))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint64", "bool"])
def test_models_use_it(dtype: str) -> None:
    x = np.random.default_rng(1).integers(0, 2, (50, 70)).astype(dtype)
    if dtype.startswith("float"):
        x[3, 4], x[5, 6] = np.nan, -0.0
    graph = jn.Graph("g", inputs=[jn.TensorType(dtype, ("n", 70), "x")])
    at = jn.nonzero(graph.inputs[0])
    graph.output(at, at, jn.sum(at, axis=1))
    first, second, total = jn.compile(graph, device="cpu")(x)
    np.testing.assert_array_equal(first, expected(x))
    np.testing.assert_array_equal(total, expected(x).sum(1))
    first[:] = -1
    np.testing.assert_array_equal(second, expected(x))  # results share no memory


def test_results_are_the_callers_alone() -> None:
    graph = jn.Graph("g", inputs=[jn.TensorType("float32", (6,), "x")])
    x = graph.inputs[0]
    doubled = x * 2.0
    graph.output(jn.nonzero(doubled), doubled, x, jn.reshape(doubled, (2, 3)))
    model = jn.compile(graph, device="cpu")
    given = np.array([0, 1, 2, 0, 3, 4], np.float32)
    results = model(given)
    for result in results:
        result[...] = 7
    again = model(given)
    np.testing.assert_array_equal(given, [0, 1, 2, 0, 3, 4])
    np.testing.assert_array_equal(again[0], [[1, 2, 4, 5]])
    np.testing.assert_array_equal(again[1], given * 2)
    np.testing.assert_array_equal(again[3], (given * 2).reshape(2, 3))
    assert len({each.__array_interface__["data"][0] for each in results}) == len(results)
