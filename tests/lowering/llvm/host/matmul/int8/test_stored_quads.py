"""Right operands of int8 that are stored in quads, beside NumPy, and texts that nearly read such an operand."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

SHAPES = [(1, 4, 16), (5, 3, 9), (7, 1, 17), (49, 5, 24), (30, 64, 64), (33, 67, 96), (100, 130, 144), (64, 2049, 70),
          (3, 5000, 33), (300, 16, 97), (12, 7, 10), (9, 9, 8), (20, 64, 200), (2, 0, 16)]  # fmt: skip


def _codes(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(sum(shape)).integers(-128, 128, shape).astype(np.int8)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_with_constants(shape: tuple[int, int, int], transposed: bool) -> None:
    rows, depth, columns = shape
    x, w = _codes((rows, depth)), _codes((depth, columns))
    expected = x.astype(np.int64) @ w.astype(np.int64)
    for extent in (rows, "m"):
        graph = jn.Graph("g", [jn.TensorType(jn.int8, (extent, depth), "x")])
        constant = graph.constant(np.ascontiguousarray(w.T) if transposed else w)
        graph.output(graph.inputs[0] @ (jn.permute(constant, (1, 0)) if transposed else constant))
        np.testing.assert_array_equal(jn.compile(graph, "cpu", cache=False)(x), expected)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("extremes", [(-128, -128), (-128, 127), (127, 127)])
def test_sums_of_the_largest_codes(extremes: tuple[int, int]) -> None:
    x, w = np.full((17, 4099), extremes[0], np.int8), np.full((4099, 80), extremes[1], np.int8)
    graph = jn.Graph("g", [jn.TensorType(jn.int8, x.shape, "x")])
    graph.output(graph.inputs[0] @ graph.constant(w))
    np.testing.assert_array_equal(jn.compile(graph, "cpu", cache=False)(x), x.astype(np.int64) @ w.astype(np.int64))


@pytest.mark.one_in(8)
@pytest.mark.parametrize("channels", [1, 3, 5, 64])
@pytest.mark.parametrize("filters", [16, 40, 96])
def test_convolutions_whose_rows_of_taps_end_within_a_quad(channels: int, filters: int) -> None:
    x, w = _codes((2, 9, 11, channels)).astype(np.int32), _codes((3, 3, channels, filters)).astype(np.int32)
    graph = jn.Graph("g", [jn.TensorType(jn.int8, x.shape, "x")])
    graph.output(jn.conv(graph.inputs[0].cast("int32"), graph.constant(w), padding=1))
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), (3, 3), (1, 2))
    expected = np.einsum("nhwcij,ijcf->nhwf", windows, w)
    np.testing.assert_array_equal(jn.compile(graph, "cpu", cache=False)(x.astype(np.int8)), expected)


def test_a_saved_model_keeps_its_constants(tmp_path: Any) -> None:
    x, w = _codes((10, 37)), _codes((37, 50))
    graph = jn.Graph("g", [jn.TensorType(jn.int8, x.shape, "x")])
    graph.output(graph.inputs[0] @ graph.constant(w))
    model = jn.compile(graph, "cpu", cache=False)
    model.save(tmp_path / "m.joinery")
    loaded = jn.load(tmp_path / "m.joinery")
    np.testing.assert_array_equal(loaded(x), x.astype(np.int64) @ w.astype(np.int64))
    loaded.save(tmp_path / "again.joinery")
    np.testing.assert_array_equal(jn.load(tmp_path / "again.joinery")(x), x.astype(np.int64) @ w.astype(np.int64))


TEXT = """
module {
  tt.func public @k(%a: !tt.ptr<i8>, %b: !tt.ptr<i8>, %c: !tt.ptr<i32>) {
    %k = tt.make_range {start = 0 : i32, end = 16 : i32} : tensor<16xi32>
    %k64 = arith.extsi %k : tensor<16xi32> to tensor<16xi64>
    %n = tt.make_range {start = 0 : i32, end = 32 : i32} : tensor<32xi32>
    %n64 = arith.extsi %n : tensor<32xi32> to tensor<32xi64>
    %first = arith.constant dense<FIRST> : tensor<16xi64>
    %kk = arith.addi %k64, %first : tensor<16xi64>
    %shift = arith.constant dense<SHIFT> : tensor<16xi64>
    %group = arith.shrsi %kk, %shift : tensor<16xi64>
    %width = arith.constant dense<WIDTH> : tensor<16xi64>
    %begins = arith.muli %group, %width : tensor<16xi64>
    %three = arith.constant dense<INSIDE> : tensor<16xi64>
    %inside = arith.andi %kk, %three : tensor<16xi64>
    %start = arith.constant dense<START> : tensor<16xi64>
    %rows1 = arith.addi %begins, %inside : tensor<16xi64>
    %rows = arith.addi %rows1, %start : tensor<16xi64>
    %four = arith.constant dense<STEP> : tensor<32xi64>
    %columns = arith.muli %n64, %four : tensor<32xi64>
    %r1 = tt.expand_dims %rows {axis = 1 : i32} : tensor<16xi64> -> tensor<16x1xi64>
    %c1 = tt.expand_dims %columns {axis = 0 : i32} : tensor<32xi64> -> tensor<1x32xi64>
    %r2 = tt.broadcast %r1 : tensor<16x1xi64> -> tensor<16x32xi64>
    %c2 = tt.broadcast %c1 : tensor<1x32xi64> -> tensor<16x32xi64>
    %at = arith.addi %r2, %c2 : tensor<16x32xi64>
    %bs = tt.splat %b : !tt.ptr<i8> -> tensor<16x32x!tt.ptr<i8>>
    %bp = tt.addptr %bs, %at : tensor<16x32x!tt.ptr<i8>>, tensor<16x32xi64>
    %right = tt.load %bp : tensor<16x32x!tt.ptr<i8>>
    %m = tt.make_range {start = 0 : i32, end = 8 : i32} : tensor<8xi32>
    %m1 = tt.expand_dims %m {axis = 1 : i32} : tensor<8xi32> -> tensor<8x1xi32>
    %sixteen = arith.constant dense<16> : tensor<8x1xi32>
    %am = arith.muli %m1, %sixteen : tensor<8x1xi32>
    %am2 = tt.broadcast %am : tensor<8x1xi32> -> tensor<8x16xi32>
    %k1 = tt.expand_dims %k {axis = 0 : i32} : tensor<16xi32> -> tensor<1x16xi32>
    %k2 = tt.broadcast %k1 : tensor<1x16xi32> -> tensor<8x16xi32>
    %aat = arith.addi %am2, %k2 : tensor<8x16xi32>
    %as = tt.splat %a : !tt.ptr<i8> -> tensor<8x16x!tt.ptr<i8>>
    %ap = tt.addptr %as, %aat : tensor<8x16x!tt.ptr<i8>>, tensor<8x16xi32>
    %left = tt.load %ap : tensor<8x16x!tt.ptr<i8>>
    %zero = arith.constant dense<0> : tensor<8x32xi32>
    %product = tt.dot %left, %right, %zero : tensor<8x16xi8> * tensor<16x32xi8> -> tensor<8x32xi32>
    %thirtytwo = arith.constant dense<32> : tensor<8x1xi32>
    %cm = arith.muli %m1, %thirtytwo : tensor<8x1xi32>
    %cm2 = tt.broadcast %cm : tensor<8x1xi32> -> tensor<8x32xi32>
    %n1 = tt.expand_dims %n {axis = 0 : i32} : tensor<32xi32> -> tensor<1x32xi32>
    %n2 = tt.broadcast %n1 : tensor<1x32xi32> -> tensor<8x32xi32>
    %cat = arith.addi %cm2, %n2 : tensor<8x32xi32>
    %cs = tt.splat %c : !tt.ptr<i32> -> tensor<8x32x!tt.ptr<i32>>
    %cp = tt.addptr %cs, %cat : tensor<8x32x!tt.ptr<i32>>, tensor<8x32xi32>
    tt.store %cp, %product : tensor<8x32x!tt.ptr<i32>>
    tt.return
  }
}
"""
QUADS = {"FIRST": 0, "SHIFT": 2, "WIDTH": 128, "INSIDE": 3, "START": 0, "STEP": 4}
NEARLY = [{}, {"START": 5}, {"WIDTH": 192}, {"WIDTH": 64}, {"WIDTH": 130}, {"SHIFT": 1}, {"SHIFT": 3}, {"INSIDE": 1},
          {"INSIDE": 7}, {"STEP": 3}, {"STEP": 5}, {"FIRST": 1}, {"FIRST": 4}, {"FIRST": 2, "START": 3}]  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("changes", NEARLY, ids=str)
def test_texts_that_read_quads_or_nearly_so(changes: dict[str, int]) -> None:
    numbers, text = {**QUADS, **changes}, TEXT
    for name, number in numbers.items():
        text = text.replace(name, str(number))
    a, b = _codes((8, 16)), _codes((4096,))
    c = np.zeros((8, 32), np.int32)
    jn.kernel.from_ttir(text).launch(1, a, b, c)
    k, n = np.arange(16)[:, None] + numbers["FIRST"], np.arange(32)[None]
    at = (k >> numbers["SHIFT"]) * numbers["WIDTH"] + (k & numbers["INSIDE"]) + numbers["START"] + n * numbers["STEP"]
    np.testing.assert_array_equal(c, a.astype(np.int32) @ b[at].astype(np.int32))
