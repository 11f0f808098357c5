"""Moves within warps, one after the other: a warp may be ahead of another, and must not write what that one still reads."""

from __future__ import annotations

from itertools import product as combinations
from random import Random

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.lowering.linear_layouts.linear import combine
from joinery.lowering.llvm.nvptx.memory.shared_memory import WarpRegions

TEXT = """
tt.func public @weights(%q: !tt.ptr<bf16>, %k: !tt.ptr<bf16>, %v: !tt.ptr<bf16>, %out: !tt.ptr<f32>) {
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %one = arith.constant dense<1.0> : tensor<64x64xf32>
  %none = arith.constant dense<0.0> : tensor<64x128xf32>
  %r = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
  %q0 = tt.splat %q : !tt.ptr<bf16> -> tensor<64x!tt.ptr<bf16>>
  %qp = tt.addptr %q0, %r : tensor<64x!tt.ptr<bf16>>, tensor<64xi32>
  %q1 = tt.load %qp : tensor<64x!tt.ptr<bf16>>
  %q2 = tt.expand_dims %q1 {axis = 1 : i32} : tensor<64xbf16> -> tensor<64x1xbf16>
  %k0 = tt.splat %k : !tt.ptr<bf16> -> tensor<64x!tt.ptr<bf16>>
  %kp = tt.addptr %k0, %r : tensor<64x!tt.ptr<bf16>>, tensor<64xi32>
  %k1 = tt.load %kp : tensor<64x!tt.ptr<bf16>>
  %k2 = tt.expand_dims %k1 {axis = 0 : i32} : tensor<64xbf16> -> tensor<1x64xbf16>
  %s = tt.dot %q2, %k2, %zero : tensor<64x1xbf16> * tensor<1x64xbf16> -> tensor<64x64xf32>
  %e = math.exp %s : tensor<64x64xf32>
  %l = "tt.reduce"(%e) <{axis = 1 : i32}> ({
  ^bb0(%x: f32, %y: f32):
    %both = arith.addf %x, %y : f32
    tt.reduce.return %both : f32
  }) : (tensor<64x64xf32>) -> tensor<64xf32>
  %l1 = tt.expand_dims %l {axis = 1 : i32} : tensor<64xf32> -> tensor<64x1xf32>
  %l2 = tt.broadcast %l1 : tensor<64x1xf32> -> tensor<64x64xf32>
  %inv = arith.divf %one, %l2 : tensor<64x64xf32>
  %w = arith.mulf %e, %inv : tensor<64x64xf32>
  %p = arith.truncf %w : tensor<64x64xf32> to tensor<64x64xbf16>
  %c = tt.make_range {start = 0 : i32, end = 128 : i32} : tensor<128xi32>
  %c1 = tt.expand_dims %c {axis = 0 : i32} : tensor<128xi32> -> tensor<1x128xi32>
  %c2 = tt.broadcast %c1 : tensor<1x128xi32> -> tensor<64x128xi32>
  %r1 = tt.expand_dims %r {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
  %wide = arith.constant dense<128> : tensor<64x1xi32>
  %r2 = arith.muli %r1, %wide : tensor<64x1xi32>
  %r3 = tt.broadcast %r2 : tensor<64x1xi32> -> tensor<64x128xi32>
  %at = arith.addi %r3, %c2 : tensor<64x128xi32>
  %v0 = tt.splat %v : !tt.ptr<bf16> -> tensor<64x128x!tt.ptr<bf16>>
  %vp = tt.addptr %v0, %at : tensor<64x128x!tt.ptr<bf16>>, tensor<64x128xi32>
  %v1 = tt.load %vp : tensor<64x128x!tt.ptr<bf16>>
  %y0 = tt.dot %p, %v1, %none : tensor<64x64xbf16> * tensor<64x128xbf16> -> tensor<64x128xf32>
  %out0 = tt.splat %out : !tt.ptr<f32> -> tensor<64x128x!tt.ptr<f32>>
  %outp = tt.addptr %out0, %at : tensor<64x128x!tt.ptr<f32>>, tensor<64x128xi32>
  tt.store %outp, %y0 : tensor<64x128x!tt.ptr<f32>>
  tt.return
}
"""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120a"])
def test_regions_of_different_sizes(target: str) -> None:
    """A sum per row goes to every element of 32 bits, then weights of 16 bits to the matrix units: on sm_90a both stay in
    warps, which have regions of 4096 bytes first and of 2048 then."""
    rng = np.random.default_rng(5)
    q, k, v = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((64,), (64,), (64, 128)))
    out = np.zeros((64, 128), np.float32)
    jn.kernel.from_ttir(TEXT).launch((1,), q, k, v, out, device="ptxsim", target=target, sanitize=True)
    weights = np.exp(np.outer(q.astype(np.float64), k.astype(np.float64)))
    weights = (weights / weights.sum(1, keepdims=True)).astype(ml_dtypes.bfloat16).astype(np.float64)
    np.testing.assert_allclose(out, weights @ v.astype(np.float64), atol=2e-3)


def touched(regions: WarpRegions, warp: int) -> set[int]:
    found = {combine(regions.warps, warp)}
    for each in regions.inside:
        found |= {place ^ each for place in found}
    return found


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(300))
def test_apart_is_apart(seed: int) -> None:
    """Whenever the answer is yes, no two warps meet; for the same regions it is yes."""
    random = Random(seed)
    bits = [1 << bit for bit in range(7)]
    random.shuffle(bits)
    warps, inside = bits[:2], bits[2 : 2 + random.randint(1, 4)]
    own = WarpRegions(0, tuple(inside), tuple(warps))
    assert own.are_apart(own)
    if seed % 3:
        inside = [each ^ random.choice([0, *inside]) for each in random.sample(bits, random.randint(1, 4))]
        warps = [each ^ random.choice([0, 0, *bits]) for each in random.choice([warps, bits[-2:], warps[::-1]])]
    other = WarpRegions(0, tuple(inside), tuple(warps))
    meet = any(touched(own, a) & touched(other, b) for a, b in combinations(range(4), repeat=2) if a != b)
    assert not (own.are_apart(other) and meet)
    assert own.are_apart(other) == other.are_apart(own)
    assert not own.are_apart(WarpRegions(1024, other.inside, other.warps))


def test_smaller_regions_of_the_same_warps_are_apart() -> None:
    large = WarpRegions(0, (4, 8, 16, 32, 64), (128, 256))
    assert large.are_apart(WarpRegions(0, (4, 8, 16), (128 ^ 32, 256)))
    assert not large.are_apart(WarpRegions(0, (4, 8, 16, 32), (64, 128)))
    assert not large.are_apart(WarpRegions(0, (4, 8, 16, 32, 64), (256, 128)))
