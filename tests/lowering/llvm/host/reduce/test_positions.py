"""Positions of extremes down columns, one row after the other or several side by side, against NumPy."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest

TYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]


def found(x: np.ndarray, name: str, shape: tuple[object, ...] | None = None) -> np.ndarray:
    graph = jn.Graph("g", inputs=[jn.TensorType(x.dtype.name, shape or x.shape, "x")])
    graph.output(getattr(jn, name)(graph.inputs[0], axis=0))
    return jn.compile(graph, device="cpu")(x)


@pytest.mark.one_in(54)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("columns", [1, 7, 64, 600])
def test_columns_of_all_types(dtype: str, columns: int) -> None:
    x = np.random.default_rng(columns).integers(0, 3, (301, columns)).astype(dtype)
    for name in ("argmax", "argmin"):
        assert np.array_equal(found(x, name), getattr(np, name)(x, axis=0))
        assert np.array_equal(found(x, name, ("n", columns)), getattr(np, name)(x, axis=0))


@pytest.mark.one_in(15)
@pytest.mark.parametrize("rows", [126, 127, 128, 129, 255, 256, 257])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8"])
@pytest.mark.parametrize("columns", [5, 700])
def test_positions_that_a_byte_holds_or_not(dtype: str, rows: int, columns: int) -> None:
    x = np.zeros((rows, columns), dtype)
    x[-1, ::2] = 1  # the last position of all
    assert np.array_equal(found(x, "argmax"), x.argmax(0))
    assert np.array_equal(found(~x if dtype == "bool" else 1 - x, "argmin"), x.argmax(0))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("rows", [32766, 32767, 32768, 32769])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16"])
def test_positions_that_two_bytes_hold_or_not(dtype: str, rows: int) -> None:
    x = np.zeros((rows, 300), dtype)
    x[-1, ::3], x[-2, 1::3] = 1, 1
    assert np.array_equal(found(x, "argmax"), x.argmax(0))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("columns", [3, 64, 200, 1500])
def test_all_that_is_least_of_its_type_has_the_first_position(columns: int) -> None:
    for dtype, worst in (("float32", -np.inf), ("float64", -np.inf), ("int32", -(2**31)), ("uint8", 0)):
        x = np.full((77, columns), worst, dtype)
        assert not found(x, "argmax").any()
        x[50:, 1] = x[0, 1] + 1 if dtype != "float32" and dtype != "float64" else 0
        assert np.array_equal(found(x, "argmax"), x.argmax(0))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("columns", [3, 64, 200, 1500])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_first_nan_beats_every_number(dtype: str, columns: int) -> None:
    rng = np.random.default_rng(columns)
    x = rng.standard_normal((130, columns)).astype(dtype)
    x[rng.random(x.shape) < 0.01] = np.nan
    x[rng.random(x.shape) < 0.05] = np.inf
    x[:, 0], x[0, 1], x[-1, 2] = np.nan, np.nan, np.nan
    for name in ("argmax", "argmin"):
        assert np.array_equal(found(x, name), getattr(np, name)(x, axis=0))


def test_an_extreme_beside_its_position_and_both_positions_in_one_pass() -> None:
    x = np.random.default_rng(0).integers(0, 50, (333, 96)).astype(np.float32)
    x[100, 5] = np.nan
    graph = jn.Graph("g", inputs=[jn.TensorType("float32", x.shape, "x")])
    value = graph.inputs[0]
    graph.output(jn.argmax(value, axis=0), jn.max(value, axis=0), jn.argmin(value, axis=0))
    model = jn.compile(graph, device="cpu")
    assert len(model.kernels) == 1
    for ours, numpy in zip(model(x), (x.argmax(0), x.max(0), x.argmin(0)), strict=True):
        assert np.array_equal(ours, numpy, equal_nan=True)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint64", "uint8", "float16"])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_lines_of_a_block_that_are_beyond_its_bounds(dtype: str, name: str) -> None:
    """One extreme of several axes: those of the 25 lines of a block of 32 are compared, and what lies behind them."""
    for shape in ((5, 5, 4), (3, 3, 40), (7, 11, 8)):
        x = np.random.default_rng(3).integers(0, 200, shape).astype(dtype)
        graph = jn.Graph("g", [jn.TensorType(dtype, shape, "x")])
        turned = jn.permute(graph.inputs[0], (2, 0, 1))
        graph.output(getattr(jn, name)(jn.reshape(turned, (x.size,)), axis=0))
        model = jn.compile(graph, "cpu", threads=1, cache=False)
        assert int(model(x)) == int(getattr(np, name)(x.transpose(2, 0, 1))), shape


@pytest.mark.one_in(60)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8", "bool"])
@pytest.mark.parametrize("columns", [2, 3, 5, 8, 9, 10, 16, 17, 20, 21])
def test_rows_of_few_elements(dtype: str, columns: int) -> None:
    """Each lane has a row of its own, ties and NaN included."""
    for rows in (1, 7, 33, 1000):
        x = np.random.default_rng(columns).integers(0, 3, (rows, columns)).astype(dtype)
        if dtype.startswith("float"):
            x[:: max(1, rows // 5), columns // 2], x[::2, -1] = np.nan, np.nan
        graph = jn.Graph("g", [jn.TensorType(dtype, x.shape, "x")])
        graph.output(jn.argmax(graph.inputs[0], axis=1), jn.argmin(graph.inputs[0], axis=1))
        largest, least = jn.compile(graph, "cpu", cache=False)(x)
        np.testing.assert_array_equal(largest, x.argmax(1))
        np.testing.assert_array_equal(least, x.argmin(1))


def along_rows(x: np.ndarray, name: str) -> np.ndarray:
    graph = jn.Graph("g", inputs=[jn.TensorType(x.dtype.name, x.shape, "x")])
    graph.output(getattr(jn, name)(graph.inputs[0], axis=1))
    return jn.compile(graph, device="cpu")(x)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("columns", [2048, 4095, 4097, 6200, 20_003, 300_000])
def test_long_rows(dtype: str, columns: int) -> None:
    """Of many equal extremes the first one, in whichever piece of a row, at its ends, and behind the last whole piece."""
    rng = np.random.default_rng(columns)
    best = 1 if dtype == "bool" else 101
    x = rng.integers(0, best, (12, columns)).astype(dtype)
    for row, position in enumerate((0, 1, 2047, 2048, 2049, columns // 2, columns - 1, columns - 2, columns - 17)):
        x[row, position % columns] = best
    x[9, [columns // 3, columns // 2, columns - 1]] = best
    x[10] = x[11, 0]
    assert np.array_equal(along_rows(x, "argmax"), x.argmax(1))
    other = ~x if dtype == "bool" else (101 - x).astype(dtype)
    assert np.array_equal(along_rows(other, "argmin"), other.argmin(1))


@pytest.mark.parametrize("dtype", ["float32", "int8", "int64"])
@pytest.mark.parametrize("columns", [(1 << 20) - 1, (1 << 20) + 1, 3_000_000])
def test_rows_of_more_than_a_block(dtype: str, columns: int) -> None:
    x = np.random.default_rng(columns).integers(0, 100, (4, columns)).astype(dtype)
    for row, position in enumerate((0, columns - 1, min(1 << 20, columns - 2), columns // 2)):
        x[row, position] = 120
    assert np.array_equal(along_rows(x, "argmax"), x.argmax(1))
    assert np.array_equal(along_rows(-x, "argmin"), (-x).argmin(1))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("columns", [4096, 6200, 20_003])
def test_long_rows_of_what_no_number_is_beyond(dtype: str, columns: int) -> None:
    x = np.random.default_rng(columns).standard_normal((9, columns)).astype(dtype)
    x[0] = -np.inf
    x[1] = -np.inf
    x[1, 3000:] = np.nan
    x[2, [2500, columns - 1]] = np.nan
    x[3, 0] = np.nan
    x[4] = np.nan
    x[5, [2100, 4000]] = np.inf
    x[6] = np.where(np.arange(columns) % 3 == 1, 0.0, -0.0)
    x[7] = -np.inf
    x[7, -1] = -1e4
    for name in ("argmax", "argmin"):
        assert np.array_equal(along_rows(x, name), getattr(np, name)(x, axis=1))
