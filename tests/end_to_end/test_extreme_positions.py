"""argmax and argmin of lines against NumPy: lengths, dtypes, NaN, infinities, zeros of both signs and equal elements."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

SLOW = pytest.mark.slow
DTYPES = ("float64", "float16", "int8", "uint8", "int16", "uint32", "int64", "uint64", "bool")


def lines(dtype: str, length: int) -> Any:
    """Lines of one kind each: random, equal, and floats that hurt."""
    rng, kind = np.random.default_rng(length), np.dtype(dtype)
    if kind.kind == "b":
        return rng.random((9, length)) < 0.1
    if kind.kind in "iu":
        ends = np.iinfo(kind)
        x = rng.integers(ends.min, ends.max, (9, length), dtype=kind, endpoint=True)
        x[1], x[2], x[3] = 5, ends.min, ends.max
        x[4, length // 2 :] = ends.max
        return x
    x = rng.standard_normal((9, length)).astype(kind)
    x[1], x[2], x[3] = 1, -np.inf, np.inf
    x[4] = np.where(rng.random(length) < 0.5, 0.0, -0.0)
    x[5, length // 2] = np.nan
    x[6] = np.nan
    x[7, -1], x[7, 0] = -np.nan, np.inf
    x[8] = np.where(rng.random(length) < 0.5, -np.inf, np.nan)
    return x


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["float32", "int32", *[pytest.param(dtype, marks=SLOW) for dtype in DTYPES]])
def test_positions_of_extremes(dtype: str) -> None:
    opened = jn.Graph("g", [jn.TensorType(dtype, ("rows", "n"), "x")])
    x = opened.inputs[0]
    opened.output(jn.argmax(x, -1), jn.argmin(x, -1), jn.argmax(x), jn.argmin(x, 0))
    symbolic = jn.compile(opened, device="cpu", cache=False, threads=2)
    for length in (1, 2, 15, 16, 17, 63, 200, 2050):
        given = lines(dtype, length)
        expected = given.argmax(-1), given.argmin(-1), given.argmax(), given.argmin(0)
        for found, wanted in zip(symbolic(given), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
        if length in (17, 200):
            known = jn.Graph("g", [jn.TensorType(dtype, given.shape, "x")])
            known.output(jn.argmax(known.inputs[0], -1), jn.argmin(known.inputs[0], -1, keepdims=True))
            largest, smallest = jn.compile(known, device="cpu", cache=False)(given)
            np.testing.assert_array_equal(largest, expected[0])
            np.testing.assert_array_equal(smallest[:, 0], expected[1])


def test_positions_in_what_is_computed() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("rows", 300), "x")])
    y = jn.exp(graph.inputs[0]) * 2
    graph.output(jn.argmax(y, -1), y)
    x = lines("float32", 300)
    positions, values = jn.compile(graph, device="cpu", cache=False)(x)
    np.testing.assert_array_equal(positions, values.argmax(-1))
