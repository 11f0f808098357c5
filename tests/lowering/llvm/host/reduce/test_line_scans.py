"""Scans of one line of integers, in chunks or not, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


def chain(x: np.ndarray, combine: Callable[[Any, Any], Any]) -> np.ndarray:
    """The results of combining numbers one after the other, in their dtype."""
    found, so_far = np.empty_like(x), None
    for place, number in enumerate(x):
        so_far = number if so_far is None else combine(so_far, number)
        found[place] = so_far
    return found


@pytest.mark.parametrize("target", [None, "x86-64-v3"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 7, 16, 100, 2047, 2048, 2049, 16384, 20011])
def test_products_of_floats_are_chains(size: int, dtype: str, target: str | None) -> None:
    """To the bit; prefixes that stay finite do, whatever the products of parts would be."""
    rng = np.random.default_rng(size)
    x = np.exp(rng.uniform(-1, 1, size) * (30 if dtype == "float32" else 300)).astype(dtype)
    x *= rng.choice([-1, 1], size).astype(dtype)
    x[1::2] = (1 / x[: x[1::2].size * 2 : 2]).astype(dtype) * 1.001
    if size > 3000:
        x[2500], x[2700:2703] = -0.0, [np.inf, 1, -1]
    for shape in ((size,), ("n",)):
        graph = jn.Graph("g", [jn.TensorType(dtype, shape, "x")])
        product, of_computed = jn.cumprod(graph.inputs[0], 0), jn.cumprod(graph.inputs[0] * -1.0, 0)
        graph.output(product, of_computed)
        found, other = jn.compile(graph, device="cpu", target=target)(x)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(found.view(f"u{x.itemsize}"), chain(x, np.multiply).view(f"u{x.itemsize}"))
            np.testing.assert_array_equal(other, chain(x * -1, np.multiply))


def test_a_sum_of_negative_zeros_is_one() -> None:
    x = np.full(64, -0.0, np.float32)
    graph = jn.Graph("g", [jn.TensorType("float32", (64,), "x")])
    graph.output(jn.cumsum(graph.inputs[0], 0))
    found = jn.compile(graph, device="cpu")(x)
    assert np.signbit(found).all() == np.signbit(np.cumsum(x)).all()
