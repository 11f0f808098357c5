"""Reductions of rows that positions pick, several registers side by side, agree with NumPy for every width and count."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from .....support.tiers import each

RNG = np.random.default_rng(11)
COLUMNS = (1, 3, 8, 15, 16, 17, 64, 65, 100, 257, 513, 2049)
COUNTS = (1, 2, 5, 8, 9, 20, 33, 70)


def picked(rows: Any, positions: Any, build: Any, shapes: Any = None) -> Any:
    found = shapes or (rows.shape, positions.shape)
    graph = jn.Graph("g", [jn.TensorType(str(x.dtype), shape) for x, shape in zip((rows, positions), found, strict=True)])
    graph.output(build(*graph.inputs))
    return np.asarray(jn.compile(graph, device="cpu", cache=False)(rows, positions))


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "columns"), each(("float32", "float64", "float16", "int32", "uint8"), COLUMNS))
def test_sums_and_extremes(dtype: str, columns: int) -> None:
    rows = RNG.integers(0, 4, (30, columns)).astype(dtype)
    for count in COUNTS:
        for kind in ("int64", "int32", "uint8"):
            positions = RNG.integers(0, 30, (7, count)).astype(kind)
            total = picked(rows, positions, lambda x, i: jn.sum(jn.gather(x, i, axis=0), axis=1))
            np.testing.assert_array_equal(total, rows[positions].sum(1).astype(total.dtype), err_msg=f"{count} {kind}")
        most = picked(rows, positions, lambda x, i: jn.max(jn.gather(x, i, axis=0) * 2, axis=1))
        np.testing.assert_array_equal(most, (rows[positions] * np.array(2, dtype)).max(1))


def test_sizes_known_at_launch() -> None:
    for columns, count in ((64, 20), (100, 5), (7, 33), (1, 1), (300, 0)):
        rows, positions = RNG.integers(0, 9, (50, columns)).astype(np.float32), RNG.integers(0, 50, (9, count))
        shapes = ((50, "c"), (9, "k"))
        total = picked(rows, positions, lambda x, i: jn.sum(jn.gather(x, i, axis=0), axis=1), shapes)
        np.testing.assert_array_equal(total, rows[positions].sum(1))


@pytest.mark.parametrize("columns", [1, 8, 17, 64, 128, 300])
def test_weighted_and_masked_rows(columns: int) -> None:
    rows, positions = RNG.integers(-5, 5, (90, columns)).astype(np.float32), RNG.integers(0, 90, (13, 15))
    weights = RNG.integers(-2, 3, (13, 15)).astype(np.float32)
    graph = jn.Graph("g", [jn.TensorType(str(x.dtype), x.shape) for x in (rows, positions, weights)])
    x, i, w = graph.inputs
    found, where = jn.gather(x, i, axis=0), jn.unsqueeze(w, 2)
    graph.output(jn.sum(found * where, axis=1), jn.max(jn.where(jn.greater(where, 0.0), found, -100.0), axis=1))
    total, most = jn.compile(graph, device="cpu", cache=False)(rows, positions, weights)
    np.testing.assert_array_equal(total, (rows[positions] * weights[:, :, None]).sum(1))
    np.testing.assert_array_equal(most, np.where(weights[:, :, None] > 0, rows[positions], -100).max(1))


def test_products_and_weights_of_picked_rows() -> None:
    rows, positions = RNG.standard_normal((40, 96)).astype(np.float32), RNG.integers(-3, 45, (11, 20))
    weights = np.clip(np.where(positions < 0, positions + 40, positions), 0, 39)
    found = picked(rows, positions, lambda x, i: jn.mean(jn.relu(jn.gather(x, i, axis=0) - 0.25), axis=1))
    np.testing.assert_allclose(found, np.maximum(rows[weights] - 0.25, 0).mean(1), rtol=1e-5, atol=1e-6)
    dots = picked(rows, positions, lambda x, i: jn.sum(jn.gather(x, i, axis=0) * jn.gather(x, i[:, :1], axis=0), axis=2))
    np.testing.assert_allclose(dots, (rows[weights] * rows[weights[:, :1]]).sum(2), rtol=1e-4, atol=1e-5)
