"""Gathers inside a block, histograms, atomic loads and stores: interpreted and on the host, against NumPy."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest


def both(kernel: jn.kernel.Kernel):
    return kernel.interpret, kernel.launch


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("rows", "columns"), [(8, 16), (1, 32), (64, 2)])
def test_gather(rows: int, columns: int, axis: int) -> None:
    shape, count = f"{rows}x{columns}", rows * columns
    kernel = jn.kernel.from_ttir(f"""
module {{
  tt.func public @k(%x: !tt.ptr<f32>, %i: !tt.ptr<i32>, %o: !tt.ptr<f32>) {{
    %r = tt.make_range {{end = {count} : i32, start = 0 : i32}} : tensor<{count}xi32>
    %at = tt.reshape %r : tensor<{count}xi32> -> tensor<{shape}xi32>
    %px = tt.splat %x : !tt.ptr<f32> -> tensor<{shape}x!tt.ptr<f32>>
    %ax = tt.addptr %px, %at : tensor<{shape}x!tt.ptr<f32>>, tensor<{shape}xi32>
    %v = tt.load %ax : tensor<{shape}x!tt.ptr<f32>>
    %pi = tt.splat %i : !tt.ptr<i32> -> tensor<{shape}x!tt.ptr<i32>>
    %ai = tt.addptr %pi, %at : tensor<{shape}x!tt.ptr<i32>>, tensor<{shape}xi32>
    %n = tt.load %ai : tensor<{shape}x!tt.ptr<i32>>
    %g = tt.gather %v[%n] {{axis = {axis} : i32}} : (tensor<{shape}xf32>, tensor<{shape}xi32>) -> tensor<{shape}xf32>
    %po = tt.splat %o : !tt.ptr<f32> -> tensor<{shape}x!tt.ptr<f32>>
    %ao = tt.addptr %po, %at : tensor<{shape}x!tt.ptr<f32>>, tensor<{shape}xi32>
    tt.store %ao, %g : tensor<{shape}x!tt.ptr<f32>>
    tt.return
  }}
}}
""")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, columns)).astype(np.float32)
    index = rng.integers(0, (rows, columns)[axis], (rows, columns)).astype(np.int32)
    for run in both(kernel):
        out = np.zeros_like(x)
        run((1,), x, index, out)
        np.testing.assert_array_equal(out, np.take_along_axis(x, index.astype(np.int64), axis))


@pytest.mark.parametrize("bins", [1, 16, 256])
@pytest.mark.parametrize("masked", [False, True])
def test_histogram(bins: int, masked: bool) -> None:
    mask = ", %m" if masked else ""
    kernel = jn.kernel.from_ttir(f"""
module {{
  tt.func public @k(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i32) {{
    %r = tt.make_range {{end = 128 : i32, start = 0 : i32}} : tensor<128xi32>
    %px = tt.splat %x : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>>
    %ax = tt.addptr %px, %r : tensor<128x!tt.ptr<i32>>, tensor<128xi32>
    %v = tt.load %ax : tensor<128x!tt.ptr<i32>>
    %l = tt.splat %n : i32 -> tensor<128xi32>
    %m = arith.cmpi slt, %r, %l : tensor<128xi32>
    %h = tt.histogram %v{mask} : tensor<128xi32> -> tensor<{bins}xi32>
    %b = tt.make_range {{end = {bins} : i32, start = 0 : i32}} : tensor<{bins}xi32>
    %po = tt.splat %o : !tt.ptr<i32> -> tensor<{bins}x!tt.ptr<i32>>
    %ao = tt.addptr %po, %b : tensor<{bins}x!tt.ptr<i32>>, tensor<{bins}xi32>
    tt.store %ao, %h : tensor<{bins}x!tt.ptr<i32>>
    tt.return
  }}
}}
""")
    x = np.random.default_rng(bins).integers(-3, bins + 3, 128).astype(np.int32)
    for n in (0, 5, 128):
        seen = x[:n] if masked else x
        expected = np.bincount(seen[(seen >= 0) & (seen < bins)], minlength=bins)
        for run in both(kernel):
            out = np.full(bins + 1, 7, np.int32)
            run((1,), x, out, n)
            np.testing.assert_array_equal(out[:bins], expected)
            assert out[bins] == 7
    assert jn.kernel.from_ttir(kernel.ttir).ttir == kernel.ttir


COPY = """
module {
  tt.func public @k(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i32) {
    %r = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
    %l = tt.splat %n : i32 -> tensor<32xi32>
    %m = arith.cmpi slt, %r, %l : tensor<32xi32>
    %px = tt.splat %x : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
    %ax = tt.addptr %px, %r : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
    %v = tt.atomic_load LOADED, gpu, %ax, %m : (tensor<32x!tt.ptr<f32>>, tensor<32xi1>) -> tensor<32xf32>
    %po = tt.splat %o : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>>
    %ao = tt.addptr %po, %r : tensor<32x!tt.ptr<f32>>, tensor<32xi32>
    tt.atomic_store STORED, sys, %ao, %v, %m : tensor<32x!tt.ptr<f32>>
    tt.return
  }
}
"""


@pytest.mark.parametrize(("loaded", "stored"), [("relaxed", "relaxed"), ("acquire", "release")])
def test_atomic_loads_and_stores(loaded: str, stored: str) -> None:
    kernel = jn.kernel.from_ttir(COPY.replace("LOADED", loaded).replace("STORED", stored))
    x = np.arange(32, dtype=np.float32)
    for n in (0, 7, 32):
        for run in both(kernel):
            out = np.full(32, -1, np.float32)
            run((1,), x[:n].copy(), out[:n], n)
            np.testing.assert_array_equal(out[:n], x[:n])
            assert (out[n:] == -1).all()
    assert jn.kernel.from_ttir(kernel.ttir).ttir == kernel.ttir


@pytest.mark.parametrize(("loaded", "stored"), [("release", "relaxed"), ("relaxed", "acquire"), ("acq_rel", "relaxed")])
def test_orders_that_make_no_sense_are_refused(loaded: str, stored: str) -> None:
    with pytest.raises(jn.UserError, match="expected relaxed or"):
        jn.kernel.from_ttir(COPY.replace("LOADED", loaded).replace("STORED", stored))


def test_histograms_are_of_rank_one() -> None:
    text = """
module {
  tt.func public @k() {
    %x = arith.constant dense<0> : tensor<4x4xi32>
    %h = tt.histogram %x : tensor<4x4xi32> -> tensor<16xi32>
    tt.return
  }
}
"""
    with pytest.raises(jn.UserError, match="expected blocks of rank 1"):
        jn.kernel.from_ttir(text)
