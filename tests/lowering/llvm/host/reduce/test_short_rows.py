"""Reductions of many short rows, several together, against NumPy."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.llvm.host.reduce.inner import MAX_TERMS

from .....support.one_array import run

COLUMNS = [2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 31, 33, 50, 64, 16 * MAX_TERMS - 1]
ROWS = [1, 15, 16, 37]
DTYPES = ["float32", "float64", "int32", "int64"]
TARGETS = [None, "x86-64-v3"]


def reductions(x: Any) -> tuple[Any, ...]:
    return jn.sum(x, axis=-1), jn.max(x, axis=-1), jn.min(x, axis=-1), jn.prod(x, axis=-1)


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 3).astype(dtype)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", ROWS)
def test_shapes(rows: int, dtype: str, target: str | None) -> None:
    for columns in COLUMNS:
        x = values((rows, columns), dtype, columns)
        found = run(reductions, x, target=target)
        wide = x.astype(np.longdouble) if dtype[0] == "f" else x
        for ours, expected in zip(found, (wide.sum(-1), wide.max(-1), wide.min(-1), wide.prod(-1)), strict=True):
            tolerance = {"float32": 2e-5, "float64": 1e-13}.get(dtype, 0.0)
            np.testing.assert_allclose(ours, expected.astype(ours.dtype), rtol=tolerance, atol=tolerance, err_msg=str(x.shape))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_special_values(dtype: str, target: str | None) -> None:
    """A NaN in one row is in its own result alone; sums of zeros have NumPy's signs."""
    for columns in COLUMNS:
        x = values((48, columns), dtype, columns)
        x[[0, 17, 31, 47], [0, columns - 1, columns // 2, 1]] = np.nan
        x[[1, 18], 0], x[[2, 17], 0] = np.inf, -np.inf
        for ours, reduced in zip(run(reductions, x, target=target)[1:3], (x.max(-1), x.min(-1)), strict=True):
            np.testing.assert_array_equal(ours, reduced)
        zeros = np.full((48, columns), -0.0, dtype)
        zeros[5, 0] = 0.0
        total = run(lambda x: jn.sum(x, axis=-1), zeros, target=target)
        assert np.array_equal(np.signbit(total), np.signbit(zeros.sum(-1)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equal_rows_have_equal_sums(dtype: str, target: str | None) -> None:
    """Whether they are among several that are reduced together, or are left over."""
    for columns in COLUMNS:
        row = values((1, columns), dtype, columns)
        total = run(lambda x: jn.sum(x, axis=-1), np.repeat(row, 45, 0), target=target)
        assert np.all(total == total[0]), columns


@pytest.mark.parametrize("target", TARGETS)
def test_computed_rows_of_many_dimensions(target: str | None) -> None:
    def make(x: Any) -> tuple[Any, ...]:
        low = jn.sum(x * x, axis=-1)
        return low, jn.max(x[:, :, 1:], axis=-1), jn.sum(x[:, ::2], axis=2), x - jn.mean(x, axis=-1, keepdims=True)

    for columns in (5, 12, 20, 40):
        x = values((3, 35, columns), "float32", columns)
        low, high, strided, centred = run(make, x, target=target)
        wide = x.astype(np.float64)
        np.testing.assert_allclose(low, (wide * wide).sum(-1), rtol=1e-5)
        np.testing.assert_array_equal(high, x[:, :, 1:].max(-1))
        np.testing.assert_allclose(strided, wide[:, ::2].sum(-1), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(centred, wide - wide.mean(-1, keepdims=True), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_symbolic_rows_and_columns(target: str | None) -> None:
    graph = jn.Graph("g", [jn.TensorType("float32", ("rows", 20), "x"), jn.TensorType("float32", (50, "columns"), "y")])
    x, y = graph.inputs
    graph.output(jn.max(x, axis=1), jn.sum(x, axis=1), jn.max(y, axis=1), jn.sum(y, axis=1))
    model = jn.compile(graph, device="cpu", target=target)
    for rows in (0, 1, 16, 33):
        for columns in (1, 7, 20, 33):
            a, b = values((rows, 20), "float32"), values((50, columns), "float32")
            found = model(a, b)
            for ours, expected in zip(found, (a.max(1), a.sum(1), b.max(1), b.sum(1)), strict=True):
                np.testing.assert_allclose(ours, expected, rtol=2e-5, atol=2e-5)
