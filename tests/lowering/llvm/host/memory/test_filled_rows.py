"""Rows that a mask takes as a whole, at the border of an image, beside NumPy."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

VALUES = {
    "float32": [0.0, -0.0, 1.5, -np.inf, np.nan, 3e-45],
    "float64": [0.0, 0.1],
    "float16": [0.0, 65504.0],
    "bfloat16": [0.0, 1.5],
    "int8": [0, -128, 127],
    "uint8": [0, 255],
    "int64": [0, -(1 << 63)],
    "bool": [False, True],
}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("dtype", VALUES)
def test_sums_of_shifted_images(dtype: str) -> None:
    """Three taps along both axes of space; the border is any value."""
    rng = np.random.default_rng(0)
    for value in VALUES[dtype]:
        for height, width, channels in [(1, 1, 40), (5, 6, 33), (4, 9, 300), (3, 2, 5000)]:
            store = jn.DType(dtype).numpy
            x = rng.integers(0, 2 if dtype == "bool" else 50, (height, width, channels)).astype(store)
            graph = jn.Graph("g", [jn.TensorType(dtype, x.shape, "x")])
            padded = jn.pad(graph.inputs[0], ((1, 1), (1, 1), (0, 0)), value=value)
            expected_padded = np.pad(x, ((1, 1), (1, 1), (0, 0)), constant_values=np.asarray(value).astype(store))
            total, expected = None, None
            for row, column in [(0, 0), (0, 2), (1, 1), (2, 0), (2, 1)]:
                tap = padded[row : row + height, column : column + width]
                other = expected_padded[row : row + height, column : column + width]
                total = tap if total is None else jn.maximum(total, tap) if dtype != "bool" else total ^ tap
                expected = other if expected is None else np.maximum(expected, other) if dtype != "bool" else expected ^ other
            graph.output(total)
            found: Any = jn.compile(graph, "cpu", cache=False)(x)
            np.testing.assert_array_equal(np.asarray(found), expected, f"{value}, {x.shape}")


def test_the_sign_of_a_zero_of_the_border() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (3, 40), "x")])
    graph.output(jn.pad(graph.inputs[0], ((1, 1), (0, 0)), value=-0.0))
    found = np.asarray(jn.compile(graph, "cpu", cache=False)(np.ones((3, 40), np.float32)))
    assert np.signbit(found[0]).all()
    assert np.signbit(found[4]).all()
    assert not np.signbit(found[1:4]).any()


TEXT = """
module {
  tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %row: i32, %rows: i32, %n: i32, %fill: f32) {
    %columns = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
    %limit = tt.splat %n : i32 -> tensor<64xi32>
    %below = arith.cmpi slt, %columns, %limit : tensor<64xi32>
    %zero = arith.constant 0 : i32
    %first = arith.cmpi sge, %row, %zero : i32
    %last = arith.cmpi slt, %row, %rows : i32
    %inside = arith.andi %first, %last : i1
    %insides = tt.splat %inside : i1 -> tensor<64xi1>
    %mask = arith.andi %insides, %below : tensor<64xi1>
    %c64 = arith.constant 64 : i32
    %start = arith.muli %row, %c64 : i32
    %starts = tt.splat %start : i32 -> tensor<64xi32>
    %at = arith.addi %starts, %columns : tensor<64xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %source = tt.addptr %xs, %at : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    OTHER
    %value = tt.load %source, %mask, %other : tensor<64x!tt.ptr<f32>>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %target = tt.addptr %ys, %columns : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    tt.store %target, %value : tensor<64x!tt.ptr<f32>>
    tt.return
  }
}
"""
OTHERS = {
    "constant": "%other = arith.constant dense<7.5> : tensor<64xf32>",
    "argument": "%other = tt.splat %fill : f32 -> tensor<64xf32>",
    "block": "%other = arith.sitofp %columns : tensor<64xi32> to tensor<64xf32>",
}


@pytest.mark.parametrize("other", OTHERS)
def test_texts_read_no_row_that_is_masked_off(other: str) -> None:
    """Rows far outside the array are not touched; lanes beyond the columns are `other`, too."""
    kernel = jn.kernel.from_ttir(TEXT.replace("OTHER", OTHERS[other]))
    x = np.arange(192, dtype=np.float32)
    fill: Any = {"constant": 7.5, "argument": -2.0, "block": np.arange(64)}[other]
    for row in (-1 << 20, -1, 0, 1, 2, 3, 1 << 20):
        for n in (0, 1, 15, 16, 40, 64):
            y = np.zeros(64, np.float32)
            kernel.launch(1, x, y, row, 3, n, np.float32(-2.0))
            expected = np.full(64, 0, np.float32) + np.float32(fill)
            if 0 <= row < 3:
                expected[:n] = x[64 * row : 64 * row + n]
            np.testing.assert_array_equal(y, expected, f"row {row}, {n} columns")


@pytest.mark.parametrize("value", [0.0, 7.0])
def test_rows_of_padding_are_not_read_where_there_is_no_memory(value):
    """A masked load that touches no memory takes processors hundreds of cycles if there is none: it gets another address."""
    x = np.random.default_rng(1).standard_normal((4, 9000))
    graph = jn.Graph("g", [jn.TensorType(jn.float64, x.shape, "x")])
    graph.output(jn.pad(graph.inputs[0], (20, 1, 1, 0), value=value))
    model = jn.compile(graph, device="cpu", cache=False, threads=1)
    np.testing.assert_array_equal(model(x), np.pad(x, ((20, 1), (1, 0)), constant_values=value))
    assert "jn_zeros_32768" in model.kernels[0].llvm_ir


@pytest.mark.parametrize("target", [None, "x86-64-v3"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8"])
def test_elements_a_few_apart(dtype: str, target: str | None) -> None:
    """Rows of every so many elements of an image with a border; rows outside are read elsewhere, before the first one, too."""
    x = np.random.default_rng(1).integers(1, 100, (6, 7, 120)).astype(dtype)
    for value in (0, 7):
        padded = np.pad(x, ((2, 1), (1, 2), (0, 0)), constant_values=value)
        for step in (2, 3, 4, 5, 6, 8, 10, 12, 20):
            graph = jn.Graph("g", [jn.TensorType(dtype, x.shape, "x")])
            around = jn.pad(graph.inputs[0], ((2, 1), (1, 2), (0, 0)), value=value)
            graph.output(around[:, :, ::step], jn.permute(jn.reshape(around, (9, 10, 120 // step, step)), (0, 1, 3, 2)))
            every, apart = jn.compile(graph, device="cpu", threads=1, target=target)(x)
            np.testing.assert_array_equal(every, padded[:, :, ::step])
            np.testing.assert_array_equal(apart, padded.reshape(9, 10, 120 // step, step).transpose(0, 1, 3, 2))
