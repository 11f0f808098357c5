"""Reductions down blocks of many rows, which read a few rows side by side, against NumPy and between targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.llvm.host.reduce.groups_of_rows import ROWS

from .....support.one_array import run

SHAPES = [(9, 3, 64), (16, 3, 100), (17, 2, 127), (ROWS * 4, 5, 784), (33, 4, 257), (64, 3, 1000)]
REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (jn.sum, np.sum),
    "max": (jn.max, np.max),
    "min": (jn.min, np.min),
    "mean": (jn.mean, np.mean),
    "any": (lambda x, axis: jn.any(x > 1, axis=axis), lambda x, axis: (x > 1).any(axis=axis)),
    "all": (lambda x, axis: jn.all(x > -2, axis=axis), lambda x, axis: (x > -2).all(axis=axis)),
}
TARGETS = [None, "x86-64-v3"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8", "float16"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_shapes(name: str, dtype: str, target: str | None) -> None:
    ours, theirs = REDUCTIONS[name]
    for shape in SHAPES:
        x = (np.random.default_rng(1).standard_normal(shape) * 3).astype(dtype)
        found = run(lambda x: ours(x, axis=(0, 2)), x, target=target)
        wide = x.astype(np.float64) if x.dtype.kind == "f" else x
        expected = theirs(wide, axis=(0, 2))
        tolerance = 1e-2 if dtype == "float16" else 1e-5
        np.testing.assert_allclose(found, expected.astype(found.dtype), rtol=tolerance, atol=40 * tolerance, err_msg=str(shape))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_nan_and_infinities(name: str, target: str | None) -> None:
    ours, theirs = REDUCTIONS[name]
    for shape in SHAPES:
        x = np.random.default_rng(2).standard_normal(shape, dtype=np.float32)
        x[ROWS, 0, 5], x[-1, 1, -1], x[0, -1, 3] = np.inf, np.nan, -np.inf
        np.testing.assert_array_equal(run(lambda x: ours(x, axis=(0, 2)), x, target=target), theirs(x, axis=(0, 2)))


@pytest.mark.parametrize("target", TARGETS)
def test_values_are_kept_for_later_passes(target: str | None) -> None:
    """Within the rows and columns that there are, and none beyond."""

    def make(x: jn.Symbol) -> tuple[jn.Symbol, ...]:
        y = jn.exp(x)
        return y, jn.max(y, axis=(0, 2)), y - jn.mean(y, axis=(0, 2), keepdims=True)

    for shape in SHAPES:
        x = np.random.default_rng(3).standard_normal(shape, dtype=np.float32)
        y = np.exp(x.astype(np.float64))
        value, most, rest = run(make, x, target=target)
        np.testing.assert_allclose(value, y, rtol=1e-6)
        np.testing.assert_allclose(most, y.max((0, 2)), rtol=1e-6)
        np.testing.assert_allclose(rest, y - y.mean((0, 2), keepdims=True), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 16, 31, 400])
def test_numbers_of_rows_that_runs_decide(rows: int) -> None:
    x = np.random.default_rng(4).standard_normal((rows, 200), dtype=np.float32)
    total, rest = run(lambda x: (lambda y: (jn.sum(y, axis=0), y - jn.sum(y, axis=0)))(jn.sin(x)), x, ("m", 200))
    expected = np.sin(x.astype(np.float64))
    np.testing.assert_allclose(total, expected.sum(0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(rest, expected - expected.sum(0), rtol=1e-4, atol=1e-4)


def test_sums_of_nothing_but_negative_zeros() -> None:
    x = np.full((17, 2, 100), -0.0, np.float32)
    found = run(lambda x: jn.sum(x, axis=(0, 2)), x)
    expected = [np.signbit(x[:, channel].sum()) for channel in range(2)]
    np.testing.assert_array_equal(np.signbit(found), expected)
