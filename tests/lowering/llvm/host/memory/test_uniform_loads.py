"""Loads whose lanes all have one address and one mask, beside values for masked lanes that differ."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest

TEXT = """
tt.func public @k(%p: !tt.ptr<i32>, %q: !tt.ptr<i32>, %n: i32, %out: !tt.ptr<i32>) {
  %i = tt.make_range {start = 0 : i32, end = 16 : i32} : tensor<16xi32>
  %four = arith.constant 4 : i32
  %on = arith.cmpi slt, %n, %four : i32
  %m = tt.splat %on : i1 -> tensor<16xi1>
  %at = tt.addptr %p, %n : !tt.ptr<i32>, i32
  %ps = tt.splat %at : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
  %qs = tt.splat %q : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
  %qp = tt.addptr %qs, %i : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
  %other = tt.load %qp : tensor<16x!tt.ptr<i32>>
  %v = tt.load %ps, %m, %other : tensor<16x!tt.ptr<i32>>
  %os = tt.splat %out : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
  %op = tt.addptr %os, %i : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
  tt.store %op, %v : tensor<16x!tt.ptr<i32>>
  tt.return
}
"""


@pytest.mark.parametrize("numerics", ["strict", "fast"])
def test_each_lane_has_its_own_other(numerics: str) -> None:
    p, q = np.arange(4, dtype=np.int32) + 100, np.arange(16, dtype=np.int32)
    kernel = jn.kernel.from_ttir(TEXT, numerics=numerics)
    for n in (0, 3, 4, 1000):
        out = np.full(16, -1, np.int32)
        kernel.launch(1, p, q, n, out)
        assert np.array_equal(out, np.full(16, 100 + n) if n < 4 else q)
