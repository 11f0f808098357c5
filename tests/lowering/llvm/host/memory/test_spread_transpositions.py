"""A transposed block that is spread along a third dimension, before, between or behind its own two."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest


def text(axis: int, order: str) -> str:
    thin, wide = [16, 16], [16, 16]
    thin.insert(axis, 1)
    wide.insert(axis, 16)
    a, b = ("x".join(map(str, shape)) for shape in (thin, wide))
    return f"""
tt.func public @f(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>) {{
  %r = tt.make_range {{start = 0 : i32, end = 16 : i32}} : tensor<16xi32>
  %a = tt.expand_dims %r {{axis = 1 : i32}} : tensor<16xi32> -> tensor<16x1xi32>
  %b = tt.expand_dims %r {{axis = 0 : i32}} : tensor<16xi32> -> tensor<1x16xi32>
  %c = arith.constant dense<16> : tensor<16x1xi32>
  %d = arith.muli %a, %c : tensor<16x1xi32>
  %m = tt.broadcast %d : tensor<16x1xi32> -> tensor<16x16xi32>
  %n = tt.broadcast %b : tensor<1x16xi32> -> tensor<16x16xi32>
  %i = arith.addi %m, %n : tensor<16x16xi32>
  %xs = tt.splat %x : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>>
  %p = tt.addptr %xs, %i : tensor<16x16x!tt.ptr<f32>>, tensor<16x16xi32>
  %v = tt.load %p : tensor<16x16x!tt.ptr<f32>>
  %t = tt.trans %v {{order = array<i32: {order}>}} : tensor<16x16xf32> -> tensor<16x16xf32>
  %e = tt.expand_dims %t {{axis = {axis} : i32}} : tensor<16x16xf32> -> tensor<{a}xf32>
  %w = tt.broadcast %e : tensor<{a}xf32> -> tensor<{b}xf32>
  %s = tt.make_range {{start = 0 : i32, end = 4096 : i32}} : tensor<4096xi32>
  %j = tt.reshape %s : tensor<4096xi32> -> tensor<{b}xi32>
  %os = tt.splat %o : !tt.ptr<f32> -> tensor<{b}x!tt.ptr<f32>>
  %q = tt.addptr %os, %j : tensor<{b}x!tt.ptr<f32>>, tensor<{b}xi32>
  tt.store %q, %w : tensor<{b}x!tt.ptr<f32>>
  tt.return
}}
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("device", ["cpu", "ptxsim"])
@pytest.mark.parametrize("order", ["1, 0", "0, 1"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_spread_along(axis: int, order: str, device: str) -> None:
    x = np.random.default_rng(axis).standard_normal((16, 16), dtype=np.float32)
    turned = x.T if order == "1, 0" else x
    found = np.full((16, 16, 16), np.nan, np.float32)
    jn.kernel.from_ttir(text(axis, order)).launch((1,), x, found, device=device)
    np.testing.assert_array_equal(found, np.broadcast_to(np.expand_dims(turned, axis), (16, 16, 16)))
