"""Convolutions whose outer taps are one product, of bytes with sums in registers, and of floats with rows side by side, beside
NumPy, and loops that are none."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.llvm.compile import host_target


def _codes(shape: tuple[int, ...], seed: int = 0) -> Any:
    return np.random.default_rng(sum(shape) + seed).integers(-128, 128, shape).astype(np.int8)


def _convolved(x: Any, w: Any, pads: Any, stride: int, dilation: int) -> Any:
    wide = np.pad(x.astype(np.int64), ((0, 0), *pads, (0, 0)))
    reach = [(size - 1) * dilation + 1 for size in w.shape[:2]]
    windows = np.lib.stride_tricks.sliding_window_view(wide, reach, (1, 2))[:, ::stride, ::stride, :, ::dilation, ::dilation]
    return np.einsum("nhwcij,ijcf->nhwf", windows, w.astype(np.int64))


@pytest.mark.one_in(320)
@pytest.mark.parametrize("kernel", [(3, 3), (7, 7), (2, 5), (5, 2), (11, 1)])
@pytest.mark.parametrize("filters", [9, 16, 17, 33, 64, 70, 144])
@pytest.mark.parametrize("channels", [1, 3, 4, 5, 16, 100])
def test_convolutions(channels: int, filters: int, kernel: tuple[int, int]) -> None:
    rng = np.random.default_rng(channels + filters)
    x, w = _codes((2, 13, 12, channels)), _codes((*kernel, channels, filters), 1)
    pads = [(int(rng.integers(0, 4)), int(rng.integers(0, 4))) for _ in range(2)]
    stride, dilation = int(rng.integers(1, 3)), 1 if max(kernel) > 5 else int(rng.integers(1, 3))
    expected = _convolved(x, w, pads, stride, dilation)
    for batch in (2, "n"):
        graph = jn.Graph("g", [jn.TensorType(jn.int8, (batch, *x.shape[1:]), "x")])
        weights = graph.constant(w.astype(np.int32))
        graph.output(jn.conv(graph.inputs[0].cast("int32"), weights, padding=pads, stride=stride, dilation=dilation))
        np.testing.assert_array_equal(jn.compile(graph, "cpu", cache=False)(x), expected)


def _model(filters: int, extent: Any = 1) -> Any:
    graph = jn.Graph("g", [jn.TensorType(jn.int8, (extent, 20, 20, 3), "x")])
    graph.output(jn.conv(graph.inputs[0].cast("int32"), graph.constant(_codes((3, 3, 3, filters)).astype(np.int32)), padding=1))
    return jn.compile(graph, "cpu", cache=False)


def test_the_outer_taps_are_one_call() -> None:
    assert "_repeated_stored" in "".join(kernel.llvm_ir for kernel in _model(32).kernels)
    assert "_repeated" not in "".join(kernel.llvm_ir for kernel in _model(8).kernels)  # not stored in quads


@pytest.mark.parametrize("extremes", [(-128, -128), (-128, 127), (127, 127)])
def test_sums_of_the_largest_codes(extremes: tuple[int, int]) -> None:
    x, w = np.full((1, 12, 12, 70), extremes[0], np.int8), np.full((5, 5, 70, 40), extremes[1], np.int8)
    graph = jn.Graph("g", [jn.TensorType(jn.int8, x.shape, "x")])
    graph.output(jn.conv(graph.inputs[0].cast("int32"), graph.constant(w.astype(np.int32)), padding=2))
    np.testing.assert_array_equal(jn.compile(graph, "cpu", cache=False)(x), _convolved(x, w, [(2, 2), (2, 2)], 1, 1))


@pytest.mark.parametrize("threads", [1, 2])
def test_levels_of_processors_and_threads(threads: int) -> None:
    x, w = _codes((1, 30, 31, 3)), _codes((3, 3, 3, 48), 2)
    graph = jn.Graph("g", [jn.TensorType(jn.int8, x.shape, "x")])
    graph.output(jn.conv(graph.inputs[0].cast("int32"), graph.constant(w.astype(np.int32)), padding=1))
    for target in (None, "x86-64-v3", "x86-64-v4"):
        try:
            model = jn.compile(graph, "cpu", cache=False, target=target, threads=threads)
        except jn.JoineryError:
            assert target is not None
            continue
        np.testing.assert_array_equal(model(x), _convolved(x, w, [(1, 1), (1, 1)], 1, 1))


def _plain(x: Any, w: Any, pads: Any, stride: int, dilation: int = 1) -> Any:
    """A convolution of floats in float64, where 0 · ∞ is NaN."""
    wide = np.pad(x.astype(np.float64), ((0, 0), *pads, (0, 0)))
    reach = [(size - 1) * dilation + 1 for size in w.shape[:2]]
    windows = np.lib.stride_tricks.sliding_window_view(wide, reach, (1, 2))[:, ::stride, ::stride, :, ::dilation, ::dilation]
    with np.errstate(invalid="ignore"):
        return (windows.transpose(0, 1, 2, 4, 5, 3)[..., None] * w.astype(np.float64)).sum((3, 4, 5))


@pytest.mark.one_in(360)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", [(3, 3), (2, 5), (5, 2), (7, 1), (2, 2)])
@pytest.mark.parametrize("filters", [9, 17, 32, 33, 64, 70, 144])
@pytest.mark.parametrize("channels", [2, 3, 4, 5, 7])
def test_taps_of_few_channels(channels: int, filters: int, kernel: tuple[int, int], dtype: Any) -> None:
    """Small integers, whose sums are exact, in images of which rows of blocks are left over, and of any number."""
    rng = np.random.default_rng(channels + filters)
    x, w = (rng.integers(-9, 10, shape).astype(dtype) for shape in ((2, 19, 23, channels), (*kernel, channels, filters)))
    pads = [(int(rng.integers(0, 4)), int(rng.integers(0, 4))) for _ in range(2)]
    stride = int(rng.integers(1, 3))
    for batch in (2, "n"):
        graph = jn.Graph("g", [jn.TensorType(jn.DType(np.dtype(dtype).name), (batch, *x.shape[1:]), "x")])
        graph.output(jn.conv(graph.inputs[0], graph.constant(w), padding=pads, stride=stride) + 1)
        np.testing.assert_array_equal(jn.compile(graph, "cpu", cache=False)(x), _plain(x, w, pads, stride) + 1)


def _of_floats(channels: int, filters: int, numerics: str = "strict", image: int = 40) -> Any:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (1, image, image, channels), "x")])
    w = np.random.default_rng(0).standard_normal((3, 3, channels, filters)).astype(np.float32)
    graph.output(jn.conv(graph.inputs[0], graph.constant(w), padding=1, stride=2))
    return jn.compile(graph, "cpu", cache=False, numerics=numerics), w


def test_rows_of_taps_are_copied_where_sums_are_more() -> None:
    for channels, filters, copied in ((3, 32, True), (3, 64, True), (3, 16, False), (5, 64, True), (8, 64, False)):
        model, _ = _of_floats(channels, filters)
        assert ("jn_beside" in "".join(kernel.llvm_ir for kernel in model.kernels)) == copied, (channels, filters)
    model, _ = _of_floats(3, 32, "reproducible")
    assert "jn_beside" not in "".join(kernel.llvm_ir for kernel in model.kernels)


@pytest.mark.parametrize("at", [(0, 0, 0, 0), (0, 39, 39, 2), (0, 17, 20, 1)])
@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_infinities_in_images_of_few_channels(at: tuple[int, ...], number: float) -> None:
    """They reach the windows that they are in, and no others."""
    model, w = _of_floats(3, 32)
    x = np.random.default_rng(1).standard_normal((1, 40, 40, 3)).astype(np.float32)
    x[at] = number
    found, expected = model(x), _plain(x, w, [(1, 1), (1, 1)], 2)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert 0 < np.isfinite(found).sum() < found.size


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("groups", "each", "taps", "stride"), [(3, 16, (3, 3), 1), (2, 8, (3, 5), 2), (4, 5, (5, 2), 1), (2, 16, (4, 4), 2)]
)
def test_windows_of_groups_lie_side_by_side(groups: int, each: int, taps: tuple[int, int], stride: int) -> None:
    """Taps of a group are runs of a few channels, whose distances are not all equal: at the end of a row of taps is a step."""
    rng = np.random.default_rng(each)
    x = rng.integers(-3, 4, (2, 9, 11, groups * each)).astype(np.float32)
    w = rng.integers(-3, 4, (*taps, each, groups * 16)).astype(np.float32)
    graph = jn.Graph("g", [jn.TensorType("float32", x.shape, "x"), jn.TensorType("float32", w.shape, "w")])
    graph.output(jn.conv(*graph.inputs, stride, groups=groups))
    model = jn.compile(graph, "cpu", cache=False)
    windows = np.lib.stride_tricks.sliding_window_view(x, taps, (1, 2))[:, ::stride, ::stride]
    parts = [
        np.einsum("nhwcij,ijcf->nhwf", windows[..., g * each : (g + 1) * each, :, :], w[..., g * 16 : (g + 1) * 16])
        for g in range(groups)
    ]
    np.testing.assert_array_equal(model(x, w), np.concatenate(parts, -1))
    if each == 16 and host_target().has("avx512f"):
        assert any("@jn_beside_" in kernel.llvm_ir for kernel in model.kernels)


def test_very_long_loops_are_not_gone_through() -> None:
    """What one iteration reads is found out without a look at each of 2 ** 40, whose offsets are no progression."""
    text = """
tt.func public @k(%x: !tt.ptr<f32>, %z: !tt.ptr<f32>) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %c3 = arith.constant 3 : i64
  %many = arith.constant 1099511627776 : i64
  %zero = arith.constant dense<0.0> : tensor<16x16xf32>
  %r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
  %e = arith.extsi %r : tensor<16xi32> to tensor<16xi64>
  %s16 = arith.constant dense<16> : tensor<16xi64>
  %m = arith.muli %e, %s16 : tensor<16xi64>
  %rows = tt.expand_dims %m {axis = 1 : i32} : tensor<16xi64> -> tensor<16x1xi64>
  %cols = tt.expand_dims %e {axis = 0 : i32} : tensor<16xi64> -> tensor<1x16xi64>
  %rb = tt.broadcast %rows : tensor<16x1xi64> -> tensor<16x16xi64>
  %cb = tt.broadcast %cols : tensor<1x16xi64> -> tensor<16x16xi64>
  %o = arith.addi %rb, %cb : tensor<16x16xi64>
  %xs = tt.splat %x : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>>
  %zs = tt.splat %z : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>>
  %zp = tt.addptr %zs, %o : tensor<16x16x!tt.ptr<f32>>, tensor<16x16xi64>
  %sum = scf.for %i = %c0 to %many step %c1 iter_args(%acc = %zero) -> (tensor<16x16xf32>) : i64 {
    %q = arith.remsi %i, %c3 : i64
    %qs = tt.splat %q : i64 -> tensor<16x16xi64>
    %at = arith.addi %o, %qs : tensor<16x16xi64>
    %p = tt.addptr %xs, %at : tensor<16x16x!tt.ptr<f32>>, tensor<16x16xi64>
    %a = tt.load %p : tensor<16x16x!tt.ptr<f32>>
    %b = tt.load %p : tensor<16x16x!tt.ptr<f32>>
    %next = tt.dot %a, %b, %acc : tensor<16x16xf32> * tensor<16x16xf32> -> tensor<16x16xf32>
    scf.yield %next : tensor<16x16xf32>
  }
  tt.store %zp, %sum : tensor<16x16x!tt.ptr<f32>>
  tt.return
}
"""
    assert "define" in jn.kernel.from_ttir(text).llvm_ir()
