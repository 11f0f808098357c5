"""Blocks divided by one number: the quotients of IEEE 754, bit for bit, whichever way they are computed."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.llvm.compile import host_target
from joinery.lowering.llvm.math import avx2, avx512

BLOCK = 1024
SCALAR = f"""
module {{
  tt.func public @f(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %d: f32) {{
    %pid = tt.get_program_id x : i32
    %size = arith.constant {BLOCK} : i32
    %first = arith.muli %pid, %size : i32
    %r = tt.make_range {{end = {BLOCK} : i32, start = 0 : i32}} : tensor<{BLOCK}xi32>
    %f = tt.splat %first : i32 -> tensor<{BLOCK}xi32>
    %at = arith.addi %f, %r : tensor<{BLOCK}xi32>
    %bx = tt.splat %x : !tt.ptr<f32> -> tensor<{BLOCK}x!tt.ptr<f32>>
    %px = tt.addptr %bx, %at : tensor<{BLOCK}x!tt.ptr<f32>>, tensor<{BLOCK}xi32>
    %v = tt.load %px : tensor<{BLOCK}x!tt.ptr<f32>>
    %ds = tt.splat %d : f32 -> tensor<{BLOCK}xf32>
    %q = arith.divf %v, %ds : tensor<{BLOCK}xf32>
    %bo = tt.splat %o : !tt.ptr<f32> -> tensor<{BLOCK}x!tt.ptr<f32>>
    %po = tt.addptr %bo, %at : tensor<{BLOCK}x!tt.ptr<f32>>, tensor<{BLOCK}xi32>
    tt.store %po, %q : tensor<{BLOCK}x!tt.ptr<f32>>
    tt.return
  }}
}}
"""
ROWS = """
module {
  tt.func public @f(%x: !tt.ptr<f32>, %d: !tt.ptr<f32>, %o: !tt.ptr<f32>) {
    %r = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
    %c = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %r2 = tt.expand_dims %r {axis = 1 : i32} : tensor<32xi32> -> tensor<32x1xi32>
    %c2 = tt.expand_dims %c {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
    %w = arith.constant dense<64> : tensor<32x1xi32>
    %rw = arith.muli %r2, %w : tensor<32x1xi32>
    %ra = tt.broadcast %rw : tensor<32x1xi32> -> tensor<32x64xi32>
    %ca = tt.broadcast %c2 : tensor<1x64xi32> -> tensor<32x64xi32>
    %at = arith.addi %ra, %ca : tensor<32x64xi32>
    %bx = tt.splat %x : !tt.ptr<f32> -> tensor<32x64x!tt.ptr<f32>>
    %px = tt.addptr %bx, %at : tensor<32x64x!tt.ptr<f32>>, tensor<32x64xi32>
    %v = tt.load %px : tensor<32x64x!tt.ptr<f32>>
    %bd = tt.splat %d : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
    %pd = tt.addptr %bd, %r : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
    %dv = tt.load %pd : tensor<32x!tt.ptr<f32>>
    %d2 = tt.expand_dims %dv {axis = 1 : i32} : tensor<32xf32> -> tensor<32x1xf32>
    %db = tt.broadcast %d2 : tensor<32x1xf32> -> tensor<32x64xf32>
    %q = arith.divf %v, %db : tensor<32x64xf32>
    %bo = tt.splat %o : !tt.ptr<f32> -> tensor<32x64x!tt.ptr<f32>>
    %po = tt.addptr %bo, %at : tensor<32x64x!tt.ptr<f32>>, tensor<32x64xi32>
    tt.store %po, %q : tensor<32x64x!tt.ptr<f32>>
    tt.return
  }
}
"""
SPECIAL = np.array(
    [
        *(0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 2.0**-149, -(2.0**-126), 2.0**-80, 2.0**80, 2.0**127, 3.4028235e38),
        *(1.9999999, 0.1),
    ],
    np.float32,
)


def anything(count: int, seed: int) -> np.ndarray:
    """Floats of all bit patterns, and many of ordinary size."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**32, count, np.uint32).view(np.float32)
    usual = rng.normal(size=count).astype(np.float32)
    return np.where(rng.random(count) < 0.5, bits, usual).astype(np.float32)


def quotients(x: np.ndarray, d: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return x / d


def same(found: np.ndarray, expected: np.ndarray) -> None:
    equal = (found.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(found) & np.isnan(expected))
    assert equal.all(), f"{int((~equal).sum())} quotients differ"


def check(divisors: np.ndarray, programs: int) -> None:
    kernel = jn.kernel.from_ttir(SCALAR)
    count = programs * BLOCK
    for seed, divisor in enumerate(divisors):
        whole = anything(count, seed)
        mild = np.random.default_rng(seed).normal(size=count).astype(np.float32)  # vectors without anything special
        for x in (whole, mild, np.ldexp(mild, -76).astype(np.float32)):
            o = np.empty_like(x)
            kernel.launch((programs,), x, o, float(divisor))
            same(o, quotients(x, divisor))


def test_random_operands() -> None:
    check(np.concatenate([SPECIAL, anything(40, 100)]), 8)


def test_divisors_with_hard_mantissas() -> None:
    """All ones, one bit, and what lies beside powers of two."""
    ones = (np.arange(1, 24, dtype=np.uint32)[:, None] + np.uint32(0x3F7FFFE8)).view(np.float32).reshape(-1)
    bits = (np.uint32(0x3F800000) | (np.uint32(1) << np.arange(23, dtype=np.uint32))).view(np.float32)
    check(np.concatenate([ones, bits]), 2)


def hardest(divisor: int) -> list[int]:
    """24-bit numbers whose quotients by the odd 24-bit divisor lie closest to the middle of two floats."""
    found = []
    for power, low, high in ((24, divisor, 1 << 24), (25, 1 << 23, divisor)):
        inverse = pow(1 << power, -1, divisor)
        for rest in (1, -1, 2, -2, 3, -3):
            x = rest * inverse % divisor
            x += -(-(low - x) // divisor) * divisor if x < low else 0
            if low <= x < high:
                found.append(x)
    return found


def test_quotients_next_to_the_middle_of_two_floats() -> None:
    ends = [(1 << 23) + 1, (1 << 23) + 3, (1 << 24) - 1, (1 << 24) - 3, 0xAAAAAB, 0xCCCCCD]
    divisors = [*ends, *(np.random.default_rng(0).integers(1 << 22, 1 << 23, 2000) * 2 + 1)]
    kernel = jn.kernel.from_ttir(SCALAR)
    features = host_target().features
    divides = features >= avx2.FEATURES and not features >= avx512.FEATURES  # what takes no longer than products and a test
    assert ("quick" in kernel.llvm_ir()) is not divides
    for i, divisor in enumerate(map(int, divisors)):
        numbers = np.resize(np.array(hardest(divisor), np.float32), BLOCK) * np.float32(2.0**-23)
        x = -numbers if i % 2 else numbers
        d = np.float32(divisor) * np.float32(2.0 ** -(i % 40))
        o = np.empty_like(x)
        kernel.launch((1,), x, o, float(d))
        same(o, quotients(x, d))


def test_ranges_at_which_the_way_changes() -> None:
    edges = np.array([2.0**-20, 2.0**40, 2.0**-80, 2.0**80], np.float32)
    near = np.concatenate([np.nextafter(edges, np.float32(0)), edges, np.nextafter(edges, np.float32(np.inf))])
    check(near, 2)


@pytest.mark.parametrize("seed", range(4))
def test_a_divisor_for_every_row(agree, seed: int) -> None:
    d = anything(32, seed)
    d[: len(SPECIAL)] = SPECIAL
    x = anything(32 * 64, seed + 10).reshape(32, 64)
    x[5:20] = np.random.default_rng(seed).normal(size=(15, 64))
    found = agree(ROWS, 1, x, d, np.zeros_like(x))[2]
    same(found, quotients(x, d[:, None]))


@pytest.mark.slow
def test_a_thousand_divisors() -> None:
    check(anything(1000, 7), 64)
