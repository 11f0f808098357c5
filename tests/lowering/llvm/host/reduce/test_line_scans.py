"""Scans of one line of integers, in chunks or not, against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import joinery as jn
import numpy as np
import pytest

SIZES = [1, 2, 31, 32, 33, 100, 1024, 2047, 2048, 2049, 4096, 5000, 40_961]
FUNCTIONS: dict[str, tuple[Callable[[jn.Symbol], jn.Symbol], Callable[[np.ndarray], np.ndarray]]] = {
    "cumsum": (lambda x: jn.cumsum(x, axis=0), lambda x: np.cumsum(x)),
    "cumprod": (lambda x: jn.cumprod(x, axis=0), lambda x: np.cumprod(x)),
    "exclusive": (lambda x: jn.cumsum(x, axis=0, exclusive=True), lambda x: np.cumsum(x) - x),
    "reverse": (lambda x: jn.cumsum(x, axis=0, reverse=True), lambda x: np.cumsum(x[::-1])[::-1]),
    "cummax": (lambda x: jn.cummax(x, axis=0), np.maximum.accumulate),
    "computed": (lambda x: jn.cumsum(x % 7 + 1, axis=0) + x, lambda x: np.cumsum(x % 7 + 1) + x),
}


def run(x: np.ndarray, function: Callable[[jn.Symbol], jn.Symbol], shape: tuple[int | str, ...]) -> np.ndarray:
    graph = jn.Graph("g", inputs=[jn.TensorType(x.dtype.name, shape, "x")])
    graph.output(function(graph.inputs[0]))
    return jn.compile(graph, device="cpu", cache=False)(x)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint32", "int16", "uint8"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_lines_of_any_length(name: str, dtype: str) -> None:
    ours, theirs = FUNCTIONS[name]
    for size in SIZES:
        x = np.random.default_rng(size).integers(0, 100, size).astype(dtype)
        found = run(x, ours, (size,))
        wide = theirs(x.astype(np.int64))  # of narrow integers sums are wide, as NumPy's are
        np.testing.assert_array_equal(found, wide.astype(found.dtype), err_msg=f"{size}")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_lengths_that_runs_decide(name: str) -> None:
    ours, theirs = FUNCTIONS[name]
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.int64, ("n",), "x")])
    graph.output(ours(graph.inputs[0]))
    model = jn.compile(graph, device="cpu")
    for size in (0, *SIZES):
        x = np.random.default_rng(size).integers(-100, 100, size)
        np.testing.assert_array_equal(model(x), theirs(x), err_msg=f"{size}")


def test_lines_that_begin_anywhere_and_what_lies_beside_them() -> None:
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.int64, (3, 5001), "x")])
    (x,) = graph.inputs
    graph.output(jn.concat([jn.cumsum(x[1, 3:4999], axis=0), jn.cumsum(x[2], axis=0)], axis=0), jn.cumsum(x, axis=1))
    a = np.random.default_rng(0).integers(-(2**62), 2**62, (3, 5001))
    joined, rows = jn.compile(graph, device="cpu")(a)
    np.testing.assert_array_equal(joined, np.concatenate([np.cumsum(a[1, 3:4999]), np.cumsum(a[2])]))
    np.testing.assert_array_equal(rows, np.cumsum(a, axis=1))


def test_lines_that_go_past_the_caches() -> None:
    x = np.random.default_rng(0).integers(-100, 100, 6_000_001)
    np.testing.assert_array_equal(run(x, lambda x: jn.cumsum(x, axis=0), (6_000_001,)), np.cumsum(x))
