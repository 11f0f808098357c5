"""Blocks of a few columns that come from planes, as images of three channels do, beside NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest

SIZES = [(7, 9), (5, 16), (3, 33), (31, 17), (2, 1), (1, 40), (40, 70)]


def _planes(dtype: str, shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(3).integers(0, 100, shape).astype(dtype)


@pytest.mark.one_in(240)
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int16", "float16", "float64", "bool"])
@pytest.mark.parametrize("channels", [2, 3, 4, 5, 6, 9, 15, 16, 17])
@pytest.mark.parametrize("pad", [(0, 0), (1, 1), (0, 2)])
def test_planes_become_pixels(dtype: str, channels: int, pad: tuple[int, int]) -> None:
    for height, width in SIZES:
        x = _planes(dtype, (2, channels, height, width))
        graph = jn.Graph("g", [jn.TensorType(dtype, x.shape, "x")])
        pixels = jn.permute(graph.inputs[0], (0, 2, 3, 1))
        expected = np.transpose(x, (0, 2, 3, 1))
        if any(pad):
            widths = ((0, 0), pad, pad, (0, 0))
            pixels, expected = jn.pad(pixels, widths, value=1), np.pad(expected, widths, constant_values=1)
        graph.output(pixels)
        np.testing.assert_array_equal(jn.compile(graph, "cpu", cache=False)(x), expected, f"{height} × {width}")


@pytest.mark.parametrize("channels", [2, 3, 4])
def test_what_is_computed_of_planes_and_of_their_channel(channels: int) -> None:
    """Sizes are known at launch alone; scale and mean differ from channel to channel."""
    rng = np.random.default_rng(4)
    mean, scale = rng.random((2, channels), np.float32)
    graph = jn.Graph("g", [jn.TensorType(jn.uint8, (channels, "h", "w"), "x"), jn.TensorType(jn.float32, (1, "w", 1), "y")])
    x, y = graph.inputs
    pixels = jn.permute(x.cast("float32"), (1, 2, 0))
    graph.output((pixels - graph.constant(mean)) * graph.constant(scale) + y)
    model = jn.compile(graph, "cpu", cache=False)
    for height, width in SIZES:
        planes, row = _planes("uint8", (channels, height, width)), rng.random((1, width, 1), np.float32)
        expected = (np.transpose(planes, (1, 2, 0)).astype(np.float32) - mean) * scale + row
        np.testing.assert_allclose(model(planes, row), expected, rtol=1e-6, atol=1e-5)


def test_columns_that_are_summed_on_the_way() -> None:
    """What a later kernel part reads again, and planes of another order, are computed as before."""
    x = _planes("float32", (3, 20, 37))
    graph = jn.Graph("g", [jn.TensorType(jn.float32, x.shape, "x")])
    pixels = jn.permute(graph.inputs[0], (1, 2, 0))
    graph.output(pixels / pixels.sum(-1, keepdims=True), jn.permute(graph.inputs[0], (2, 1, 0)) * 2.0)
    found = jn.compile(graph, "cpu", cache=False)(x)
    expected = np.transpose(x, (1, 2, 0))
    np.testing.assert_allclose(found[0], expected / expected.sum(-1, keepdims=True), rtol=1e-6)
    np.testing.assert_array_equal(found[1], np.transpose(x, (2, 1, 0)) * 2)


TEXT = """
module {
  tt.func public @k(%x: !tt.ptr<f16>, %y: !tt.ptr<f16>, %n: i32) {
    %rows = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
    %columns = tt.make_range {start = 0 : i32, end = 4 : i32} : tensor<4xi32>
    %r = tt.expand_dims %rows {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
    %c = tt.expand_dims %columns {axis = 0 : i32} : tensor<4xi32> -> tensor<1x4xi32>
    %limit = tt.splat %n : i32 -> tensor<64x1xi32>
    %three = arith.constant dense<3> : tensor<1x4xi32>
    %below = arith.cmpi slt, %r, %limit : tensor<64x1xi32>
    %few = arith.cmpi slt, %c, %three : tensor<1x4xi32>
    %below2 = tt.broadcast %below : tensor<64x1xi1> -> tensor<64x4xi1>
    %few2 = tt.broadcast %few : tensor<1x4xi1> -> tensor<64x4xi1>
    %mask = arith.andi %below2, %few2 : tensor<64x4xi1>
    %plane = arith.constant dense<100> : tensor<1x4xi32>
    %start = arith.muli %c, %plane : tensor<1x4xi32>
    %r2 = tt.broadcast %r : tensor<64x1xi32> -> tensor<64x4xi32>
    %start2 = tt.broadcast %start : tensor<1x4xi32> -> tensor<64x4xi32>
    %from = arith.addi %r2, %start2 : tensor<64x4xi32>
    %xs = tt.splat %x : !tt.ptr<f16> -> tensor<64x4x!tt.ptr<f16>>
    %source = tt.addptr %xs, %from : tensor<64x4x!tt.ptr<f16>>, tensor<64x4xi32>
    %value = tt.load %source, %mask : tensor<64x4x!tt.ptr<f16>>
    %step = arith.constant dense<STEP> : tensor<64x1xi32>
    %row = arith.muli %r, %step : tensor<64x1xi32>
    %row2 = tt.broadcast %row : tensor<64x1xi32> -> tensor<64x4xi32>
    %c2 = tt.broadcast %c : tensor<1x4xi32> -> tensor<64x4xi32>
    %to = arith.addi %row2, %c2 : tensor<64x4xi32>
    %ys = tt.splat %y : !tt.ptr<f16> -> tensor<64x4x!tt.ptr<f16>>
    %target = tt.addptr %ys, %to : tensor<64x4x!tt.ptr<f16>>, tensor<64x4xi32>
    tt.store %target, %value, %mask : tensor<64x4x!tt.ptr<f16>>
    tt.return
  }
}
"""


@pytest.mark.parametrize("step", [3, 4, 5])
def test_texts_write_their_rows_and_nothing_beside_them(step: int) -> None:
    """Rows that follow one another and rows with gaps, whose elements between stay; every number of rows."""
    kernel = jn.kernel.from_ttir(TEXT.replace("STEP", str(step)))
    x = np.arange(400, dtype=np.float16)
    for rows in (0, 1, 2, 5, 6, 15, 16, 17, 33, 63, 64):
        y = np.full(64 * step + 8, -1, np.float16)
        expected = y.copy()
        kernel.launch(1, x, y, rows)
        for row in range(rows):
            expected[row * step : row * step + 3] = x[row : row + 300 : 100][:3]
        np.testing.assert_array_equal(y, expected, f"{rows} rows")


REPEATED: dict[str, Callable[[Any, Any], Any]] = {
    "sums": lambda x, same: (lambda both: both + both)(jn.concat([x, same], 1)),
    "shifts": lambda x, same: jn.concat([x, same], 1) << 1,
    "three": lambda x, same: (lambda all_of: all_of + all_of)(jn.concat([x, same, same], 1)),
    "beside themselves": lambda x, same: (lambda both: both ^ (both + both))(jn.concat([x, same], 1)),
}


@pytest.mark.parametrize("name", REPEATED)
def test_equal_columns_of_bytes_that_are_added(name: str) -> None:
    """LLVM 22 did not end for sums of 64 bytes that a shuffle repeats."""
    x = np.random.default_rng(0).integers(0, 128, (130, 1)).astype(np.uint8)
    graph = jn.Graph("g", [jn.TensorType("uint8", x.shape, "x")])
    graph.output(REPEATED[name](graph.inputs[0], jn.flip(graph.inputs[0], 1)))
    both = np.repeat(x, 3 if name == "three" else 2, 1)
    expected = {"shifts": both << 1, "beside themselves": both ^ (both + both)}.get(name, both + both)
    np.testing.assert_array_equal(jn.compile(graph, device="cpu", cache=False)(x), expected)
