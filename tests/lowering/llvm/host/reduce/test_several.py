"""Reductions of several blocks at once, each by an operation of its own, beside NumPy: in lanes, in columns, under masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

OPERATIONS = {
    "sums": ("arith.addf", "arith.addf"), "a sum and a product": ("arith.addf", "arith.mulf"),
    "a sum and an extreme": ("arith.addf", "arith.maxnumf"), "extremes": ("arith.minimumf", "arith.maximumf"),
}  # fmt: skip
NUMPY = {
    "arith.addf": np.add, "arith.mulf": np.multiply, "arith.maxnumf": np.fmax, "arith.minimumf": np.minimum,
    "arith.maximumf": np.maximum,
}  # fmt: skip
NEUTRAL = {
    "arith.addf": "0.0", "arith.mulf": "1.0", "arith.maxnumf": "0xFF800000", "arith.minimumf": "0x7F800000",
    "arith.maximumf": "0xFF800000",
}  # fmt: skip


def _kernel(kinds: tuple[str, str], rows: int, columns: int, axis: int) -> str:
    """Reduces x and y along an axis, of which %n positions are read."""
    block, result = f"{rows}x{columns}", columns if axis == 0 else rows
    other = [NEUTRAL[kind] for kind in kinds]
    shape = {0: f"{rows}x1", 1: f"1x{columns}"}[axis]
    extent = (rows, columns)[axis]
    return f"""
module {{
  tt.func public @f(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i32) {{
    %i = tt.make_range {{end = {rows * columns} : i32, start = 0 : i32}} : tensor<{rows * columns}xi32>
    %at = tt.reshape %i : tensor<{rows * columns}xi32> -> tensor<{block}xi32>
    %bx = tt.splat %x : !tt.ptr<f32> -> tensor<{block}x!tt.ptr<f32>>
    %px = tt.addptr %bx, %at : tensor<{block}x!tt.ptr<f32>>, tensor<{block}xi32>
    %by = tt.splat %y : !tt.ptr<f32> -> tensor<{block}x!tt.ptr<f32>>
    %py = tt.addptr %by, %at : tensor<{block}x!tt.ptr<f32>>, tensor<{block}xi32>
    %r = tt.make_range {{end = {extent} : i32, start = 0 : i32}} : tensor<{extent}xi32>
    %ns = tt.splat %n : i32 -> tensor<{extent}xi32>
    %in = arith.cmpi slt, %r, %ns : tensor<{extent}xi32>
    %wide = tt.expand_dims %in {{axis = {1 - axis} : i32}} : tensor<{extent}xi1> -> tensor<{shape}xi1>
    %mask = tt.broadcast %wide : tensor<{shape}xi1> -> tensor<{block}xi1>
    %vx = tt.load %px : tensor<{block}x!tt.ptr<f32>>
    %vy = tt.load %py : tensor<{block}x!tt.ptr<f32>>
    %nx = arith.constant dense<{other[0]}> : tensor<{block}xf32>
    %ny = arith.constant dense<{other[1]}> : tensor<{block}xf32>
    %sx = arith.select %mask, %vx, %nx : tensor<{block}xi1>, tensor<{block}xf32>
    %sy = arith.select %mask, %vy, %ny : tensor<{block}xi1>, tensor<{block}xf32>
    %f:2 = "tt.reduce"(%sx, %sy) <{{axis = {axis} : i32}}> ({{
    ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
      %e = {kinds[0]} %a, %c : f32
      %g = {kinds[1]} %b, %d : f32
      tt.reduce.return %e, %g : f32, f32
    }}) : (tensor<{block}xf32>, tensor<{block}xf32>) -> (tensor<{result}xf32>, tensor<{result}xf32>)
    %k = tt.make_range {{end = {result} : i32, start = 0 : i32}} : tensor<{result}xi32>
    %bo = tt.splat %o : !tt.ptr<f32> -> tensor<{result}x!tt.ptr<f32>>
    %po = tt.addptr %bo, %k : tensor<{result}x!tt.ptr<f32>>, tensor<{result}xi32>
    tt.store %po, %f#0 : tensor<{result}x!tt.ptr<f32>>
    %far = arith.constant dense<{result}> : tensor<{result}xi32>
    %pq = tt.addptr %po, %far : tensor<{result}x!tt.ptr<f32>>, tensor<{result}xi32>
    tt.store %pq, %f#1 : tensor<{result}x!tt.ptr<f32>>
    tt.return
  }}
}}
"""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(("rows", "columns", "axis"), [(4, 256, 1), (1, 1024, 1), (64, 32, 0), (8, 8, 1), (16, 4, 1)])
def test_each_operand_has_its_own_operation(agree: Any, name: str, rows: int, columns: int, axis: int) -> None:
    kinds = OPERATIONS[name]
    rng = np.random.default_rng(columns)
    extent = (rows, columns)[axis]
    for n in {1, extent // 2 + 1, extent}:
        x, y = (rng.choice([-2.0, -1.0, 1.0, 0.5], (rows, columns)).astype(np.float32) for _ in range(2))
        y[:, 0] = np.nan if "extreme" in name else y[:, 0]
        o = np.zeros((2, columns if axis == 0 else rows), np.float32)
        found = agree(_kernel(kinds, rows, columns, axis), 1, x, y, o, n)[2]
        inside = np.arange(extent) < n
        inside = inside[:, None] if axis == 0 else inside[None]
        for got, part, kind in zip(found, (x, y), kinds, strict=True):
            none = {"arith.addf": 0.0, "arith.mulf": 1.0, "arith.minimumf": np.inf}.get(kind, -np.inf)
            block = np.where(inside, part, none)
            np.testing.assert_allclose(got, NUMPY[kind].reduce(block, axis=axis), rtol=1e-5)


def test_sums_of_negative_zeros_under_masks(agree: Any) -> None:
    """A mask's +0.0 counts beside -0.0; where it leaves out nothing, the sum is -0.0."""
    x, y = np.full((2, 64), -0.0, np.float32), np.full((2, 64), -0.0, np.float32)
    for n, sign in ((64, True), (40, False)):
        found = agree(_kernel(("arith.addf", "arith.addf"), 2, 64, 1), 1, x, y, np.zeros((2, 2), np.float32), n)[2]
        assert (np.signbit(found) == sign).all()
