"""Matrices times vectors whose masks end at the same step of k, or at different ones: beyond is 0, and 0 · y counts."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest

TEXT = """tt.func public @f(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %o: !tt.ptr<f32>, %m: i32, %n: i32) {{
    %k = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32>
    %r = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>
    %r2 = tt.expand_dims %r {{axis = 1 : i32}} : tensor<16xi32> -> tensor<16x1xi32>
    %width = arith.constant dense<64> : tensor<16x1xi32>
    %rw = arith.muli %r2, %width : tensor<16x1xi32>
    %rb = tt.broadcast %rw : tensor<16x1xi32> -> tensor<16x64xi32>
    %kr = tt.expand_dims %k {{axis = 0 : i32}} : tensor<64xi32> -> tensor<1x64xi32>
    %kb = tt.broadcast %kr : tensor<1x64xi32> -> tensor<16x64xi32>
    %at = arith.addi %rb, %kb : tensor<16x64xi32>
    %ms = tt.splat %m : i32 -> tensor<1x64xi32>
    %mi = arith.cmpi slt, %kr, %ms : tensor<1x64xi32>
    %min = tt.broadcast %mi : tensor<1x64xi1> -> tensor<16x64xi1>
    %kc = tt.expand_dims %k {{axis = 1 : i32}} : tensor<64xi32> -> tensor<64x1xi32>
    %ns = tt.splat %{limit} : i32 -> tensor<64x1xi32>
    %nin = arith.cmpi slt, %kc, %ns : tensor<64x1xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<16x64x!tt.ptr<f32>>
    %xp = tt.addptr %xs, %at : tensor<16x64x!tt.ptr<f32>>, tensor<16x64xi32>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<64x1x!tt.ptr<f32>>
    %yp = tt.addptr %ys, %kc : tensor<64x1x!tt.ptr<f32>>, tensor<64x1xi32>
    %xz = arith.constant dense<0.0> : tensor<16x64xf32>
    %yz = arith.constant dense<0.0> : tensor<64x1xf32>
    %xv = tt.load %xp, %min, %xz : tensor<16x64x!tt.ptr<f32>>
    %yv = tt.load %yp, %nin, %yz : tensor<64x1x!tt.ptr<f32>>
    %zero = arith.constant dense<{start}> : tensor<16x1xf32>
    %d = tt.dot %xv, %yv, %zero : tensor<16x64xf32> * tensor<64x1xf32> -> tensor<16x1xf32>
    %os = tt.splat %o : !tt.ptr<f32> -> tensor<16x1x!tt.ptr<f32>>
    %op = tt.addptr %os, %r2 : tensor<16x1x!tt.ptr<f32>>, tensor<16x1xi32>
    tt.store %op, %d : tensor<16x1x!tt.ptr<f32>>
    tt.return
  }}"""


@pytest.mark.parametrize("start", ["0.0", "3.0"])
@pytest.mark.parametrize("limit", ["m", "n"])
def test_limits_of_a_matrix_and_a_vector(limit: str, start: str) -> None:
    kernel = jn.kernel.from_ttir(TEXT.format(limit=limit, start=start))
    rng = np.random.default_rng(2)
    x, y = rng.integers(-9, 9, (16, 64)).astype(np.float32), rng.integers(-9, 9, 64).astype(np.float32)
    x[1, 50], y[40], y[60] = np.inf, np.nan, np.inf
    steps = np.arange(64)
    for m, n in ((64, 64), (20, 20), (20, 45), (45, 20), (1, 0), (0, 1), (-1, 64), (70, 63), (17, 70)):
        found = np.full(16, 7, np.float32)
        kernel.launch((1,), x, y, found, m, n)
        ends = m if limit == "m" else n
        with np.errstate(invalid="ignore"):
            wanted = np.where(steps < m, x, np.float32(0)) @ np.where(steps < ends, y, np.float32(0)) + np.float32(start)
        np.testing.assert_array_equal(found, wanted, err_msg=f"{m}, {n}")
