"""Masks as floats, through every other float type: -1 where they are signed, 1 where not."""

from __future__ import annotations

import itertools

import joinery as jn
import numpy as np
import pytest

NUMPY = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def moved(source: str, target: str) -> str:
    """%f of one type as %w of another."""
    if source == target:
        return "%w = arith.addf %f, %zero : " + f"tensor<32x{target}>"
    if BITS[source] == BITS[target]:
        return (f"%g = arith.extf %f : tensor<32x{source}> to tensor<32xf32>\n"
                f"  %w = arith.truncf %g : tensor<32xf32> to tensor<32x{target}>")  # fmt: skip
    op = "extf" if BITS[source] < BITS[target] else "truncf"
    return f"%w = arith.{op} %f : tensor<32x{source}> to tensor<32x{target}>"


def text(op: str, through: str, target: str) -> str:
    return f"""
tt.func public @f(%x: !tt.ptr<i1>, %o: !tt.ptr<{target}>) {{
  %r = tt.make_range {{end = 32 : i32, start = 0 : i32}} : tensor<32xi32>
  %zero = arith.constant dense<0.0> : tensor<32x{target}>
  %p = tt.splat %x : !tt.ptr<i1> -> tensor<32x!tt.ptr<i1>>
  %q = tt.addptr %p, %r : tensor<32x!tt.ptr<i1>>, tensor<32xi32>
  %b = tt.load %q : tensor<32x!tt.ptr<i1>>
  %c20 = arith.constant dense<20> : tensor<32xi32>
  %m = arith.cmpi slt, %r, %c20 : tensor<32xi32>
  %c = arith.andi %b, %m : tensor<32xi1>
  %f = arith.{op} %c : tensor<32xi1> to tensor<32x{through}>
  {moved(through, target)}
  %s = tt.splat %o : !tt.ptr<{target}> -> tensor<32x!tt.ptr<{target}>>
  %t = tt.addptr %s, %r : tensor<32x!tt.ptr<{target}>>, tensor<32xi32>
  tt.store %t, %w : tensor<32x!tt.ptr<{target}>>
  tt.return
}}
"""


@pytest.mark.one_in(8)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("op", ["sitofp", "uitofp"])
def test_masks_become_floats(op: str, target: str) -> None:
    x = np.arange(32) % 3 == 0
    for through, elem in itertools.product(NUMPY, NUMPY):
        found = np.full(32, 7, jn.DType(NUMPY[elem]).numpy)
        jn.kernel.from_ttir(text(op, through, elem)).launch((1,), x, found, device="ptxsim", target=target)
        expected = np.where(x & (np.arange(32) < 20), -1.0 if op == "sitofp" else 1.0, 0.0)
        np.testing.assert_array_equal(found.astype(np.float64), expected, err_msg=f"{through}, then {elem}")
