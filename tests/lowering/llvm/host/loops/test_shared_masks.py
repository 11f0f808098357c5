"""Masks whose parts are shared over many levels: as many operations as the text has, not one per way through it."""

from __future__ import annotations

import itertools

import joinery as jn
import numpy as np
import pytest

MASK = "tensor<4x64xi1>"
LEVELS = 24


def text(operations: tuple[str, str, str]) -> str:
    """Every level uses the one before twice. Masks are compared along one axis and spread."""
    lines, last = [], "%m"
    for level in range(LEVELS):
        first, second = (f"%q{(level + shift) % 3}" for shift in (0, 1))
        lines += [
            f"%a{level} = arith.{operations[0]} {last}, {first} : {MASK}",
            f"%b{level} = arith.{operations[1]} {last}, {second} : {MASK}",
            f"%m{level} = arith.{operations[2]} %a{level}, %b{level} : {MASK}",
        ]
        last = f"%m{level}"
    levels = "\n  ".join(lines)
    return f"""
tt.func public @f(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i32, %k: i32) {{
  %r = tt.make_range {{start = 0 : i32, end = 64 : i32}} : tensor<64xi32>
  %s = tt.make_range {{start = 0 : i32, end = 4 : i32}} : tensor<4xi32>
  %r1 = tt.expand_dims %r {{axis = 0 : i32}} : tensor<64xi32> -> tensor<1x64xi32>
  %s1 = tt.expand_dims %s {{axis = 1 : i32}} : tensor<4xi32> -> tensor<4x1xi32>
  %rr = tt.broadcast %r1 : tensor<1x64xi32> -> tensor<4x64xi32>
  %ss = tt.broadcast %s1 : tensor<4x1xi32> -> tensor<4x64xi32>
  %width = arith.constant dense<64> : tensor<4x64xi32>
  %row = arith.muli %ss, %width : tensor<4x64xi32>
  %at = arith.addi %row, %rr : tensor<4x64xi32>
  %ns = tt.splat %n : i32 -> tensor<1x64xi32>
  %ks = tt.splat %k : i32 -> tensor<4x1xi32>
  %all = tt.splat %n : i32 -> tensor<4x64xi32>
  %below = arith.cmpi slt, %r1, %ns : tensor<1x64xi32>
  %above = arith.cmpi slt, %s1, %ks : tensor<4x1xi32>
  %m = tt.broadcast %below : tensor<1x64xi1> -> {MASK}
  %q0 = tt.broadcast %above : tensor<4x1xi1> -> {MASK}
  %q1 = arith.cmpi slt, %rr, %all : tensor<4x64xi32>
  %q2 = arith.cmpi ne, %at, %all : tensor<4x64xi32>
  {levels}
  %p = tt.splat %x : !tt.ptr<f32> -> tensor<4x64x!tt.ptr<f32>>
  %q = tt.addptr %p, %at : tensor<4x64x!tt.ptr<f32>>, tensor<4x64xi32>
  %e = arith.constant dense<1.5> : tensor<4x64xf32>
  %v = tt.load %q, {last}, %e : tensor<4x64x!tt.ptr<f32>>
  %y = arith.select {last}, %v, %e : {MASK}, tensor<4x64xf32>
  %op = tt.splat %o : !tt.ptr<f32> -> tensor<4x64x!tt.ptr<f32>>
  %oq = tt.addptr %op, %at : tensor<4x64x!tt.ptr<f32>>, tensor<4x64xi32>
  tt.store %oq, %y, {last} : tensor<4x64x!tt.ptr<f32>>
  tt.return
}}
"""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("operations", list(itertools.product(("andi", "ori"), repeat=3)))
def test_masks_of_many_levels(agree, operations: tuple[str, str, str]) -> None:
    kernel, x = text(operations), np.arange(256, dtype=np.float32)
    assert jn.kernel.from_ttir(kernel).llvm_ir().count("\n") < 1500
    for n, k in ((40, 3), (64, 4), (0, 2), (70, 9)):
        agree(kernel, 1, x, np.zeros(256, np.float32), n, k)


def test_masks_of_many_levels_on_gpus() -> None:
    for operations in (("andi", "andi", "andi"), ("ori", "andi", "ori")):
        kernel, x = jn.kernel.from_ttir(text(operations)), np.arange(256, dtype=np.float32)
        found, expected = np.zeros(256, np.float32), np.zeros(256, np.float32)
        kernel.interpret(1, x, expected, 40, 3)
        kernel.launch(1, x, found, 40, 3, device="ptxsim", target="sm_80")
        np.testing.assert_array_equal(found, expected)
