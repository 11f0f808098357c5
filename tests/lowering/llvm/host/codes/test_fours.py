"""Depthwise convolutions of codes, four taps at a time, beside integers in NumPy: every code and every sum, bit for bit."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.graph_passes.products.integer_products import with_integer_products

F = np.float32
CHANNELS = [1, 3, 15, 16, 17, 24, 32, 33, 63, 64, 70, 130]
KERNELS = [(1, 3), (3, 1), (3, 3), (2, 2), (1, 5), (5, 5), (7, 7), (1, 2)]


def _sums(x: Any, w: Any, pads: Any, strides: tuple[int, int], zero: int) -> Any:
    """Σ (x - zero) · w over each channel's windows, in int64; x is (n, h, w, c), w is (kh, kw, c)."""
    wide = np.pad(x.astype(np.int64) - zero, ((0, 0), *pads, (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, w.shape[:2], (1, 2))[:, :: strides[0], :: strides[1]]
    return np.einsum("nhwcij,ijc->nhwc", windows, w.astype(np.int64))


def _codes(sums: Any, scale: Any, y_scale: Any, zero: int, dtype: str) -> Any:
    """What quantises scaled sums, in float32."""
    limits = np.iinfo(dtype)
    whole = np.rint(sums.astype(F) * scale / y_scale) + F(zero)
    return np.clip(whole, limits.min, limits.max).astype(dtype)


def _layer(dtype: str, zero: int, kernel: tuple[int, int], channels: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    limits = np.iinfo(dtype)
    return {
        "x": rng.integers(limits.min, limits.max + 1, (2, 9, 8, channels)).astype(dtype),
        "w": rng.integers(-128, 128, (*kernel, channels)).astype(np.int8),
        "scales": (rng.random(channels) / 300 + 1e-3).astype(F), "zero": zero, "dtype": dtype,
        "pads": [(int(rng.integers(0, 3)), int(rng.integers(0, 3))) for _ in range(2)],
        "strides": (int(rng.integers(1, 3)), int(rng.integers(1, 3))),
    }  # fmt: skip


def _graph(layer: dict[str, Any], batch: Any, y_zero: int, y_scale: float) -> Any:
    """A layer between codes, as quantisers write it. Its input is an input, or quantised here."""
    graph = jn.Graph("g", [jn.TensorType(layer["dtype"], (batch, *layer["x"].shape[1:]), "x")])
    channels, numpy = layer["w"].shape[-1], np.dtype(layer["dtype"]).type
    factors = jn.dequantize(
        graph.constant(layer["w"][..., None, :]), layer["scales"], np.zeros(channels, np.int8), axis=3
    )
    values = jn.dequantize(graph.inputs[0], F(0.0413), numpy(layer["zero"]))
    if layer.get("again"):  # the codes are made by a quantisation that nothing else reads, with the same numbers
        codes = jn.quantize(values, F(0.0413), numpy(layer["zero"]), dtype=layer["dtype"])
        values = jn.dequantize(codes, F(0.0413), numpy(layer["zero"]))
    found = jn.conv(values, factors, groups=channels, padding=layer["pads"], stride=layer["strides"])
    graph.output(jn.quantize(found, F(y_scale), numpy(y_zero), dtype=layer["dtype"]))
    return graph


def _expected(layer: dict[str, Any], y_zero: int, y_scale: float) -> Any:
    sums = _sums(layer["x"], layer["w"], layer["pads"], layer["strides"], layer["zero"])
    scale = (layer["scales"].astype(np.float64) * float(F(0.0413))).astype(F)
    return _codes(sums, scale, F(y_scale), y_zero, layer["dtype"])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("channels", CHANNELS)
def test_layers_between_codes(channels: int, kernel: tuple[int, int], dtype: str) -> None:
    limits, seed = np.iinfo(dtype), channels * 31 + kernel[0] * 7 + kernel[1]
    for number, (zero, y_zero) in enumerate([(limits.min, limits.max), (limits.max, limits.min), (limits.min + 77, 3)]):
        layer = _layer(dtype, zero, kernel, channels, seed + number) | {"again": number == 1}
        y_scale = (0.11, 0.0007, 3.7)[number]  # the second saturates nearly everything
        expected = _expected(layer, y_zero, y_scale)
        for batch in (2, "n"):
            found = jn.compile(_graph(layer, batch, y_zero, y_scale), "cpu", cache=False)(layer["x"])
            np.testing.assert_array_equal(found, expected)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("ends", [0, 1, 2, 3])
def test_sums_of_the_largest_codes(dtype: str, ends: int) -> None:
    limits = np.iinfo(dtype)
    layer = _layer(dtype, (limits.min, limits.max)[ends & 1], (7, 7), 40, 5) | {"pads": [(3, 3), (3, 3)]}
    layer["x"][:] = (limits.max, limits.min)[ends & 1]
    layer["w"][:] = (-128, 127)[ends >> 1]
    found = jn.compile(_graph(layer, 2, 1, 9.0), "cpu", cache=False)(layer["x"])
    np.testing.assert_array_equal(found, _expected(layer, 1, 9.0))


def test_a_scale_that_leaves_int32_is_clamped_first() -> None:
    """Quotients up to 2 ** 40: the largest of them must not wrap."""
    layer = _layer("int8", -128, (3, 3), 20, 9)
    layer["scales"][:] = F(3e6)
    y_scale = float(F(2.0**-19))
    found = jn.compile(_graph(layer, 2, 5, y_scale), "cpu", cache=False)(layer["x"])
    np.testing.assert_array_equal(found, _expected(layer, 5, y_scale))


def test_codes_that_a_product_reads_as_well() -> None:
    """One tensor of codes for a depthwise convolution and a matrix product, which wants int8."""
    rng = np.random.default_rng(3)
    graph = jn.Graph("g", [jn.TensorType("float32", (1, 6, 6, 24), "x")])
    codes = jn.quantize(graph.inputs[0], F(0.05), np.uint8(100), dtype="uint8")
    values = jn.dequantize(codes, F(0.05), np.uint8(100))
    taps, matrix = rng.integers(-128, 128, (3, 3, 1, 24)).astype(np.int8), rng.integers(-128, 128, (24, 12)).astype(np.int8)
    one = jn.conv(values, jn.dequantize(graph.constant(taps), F(0.5)), groups=24, padding=1)
    other = values @ jn.dequantize(graph.constant(matrix), F(0.5))
    graph.output(one, other)
    x = rng.standard_normal((1, 6, 6, 24)).astype(F)
    whole = np.clip(np.rint(x / F(0.05)) + F(100), 0, 255).astype(np.int64) - 100
    found = jn.compile(graph, "cpu", cache=False)(x)
    scale = F(np.float64(F(0.05)) * 0.5)
    np.testing.assert_array_equal(found[0], _sums(whole, taps[:, :, 0], [(1, 1), (1, 1)], (1, 1), 0).astype(F) * scale)
    np.testing.assert_array_equal(found[1], (whole @ matrix.astype(np.int64)).astype(F) * scale)


def test_other_processors_sum_pairs() -> None:
    """The third level has no instruction for bytes, and multiplies pairs of int16: the same codes, from other code."""
    layer = _layer("uint8", 200, (3, 3), 48, 11)
    graph = _graph(layer, 2, 7, 0.2)
    names = {symbol.op.name for symbol in with_integer_products(graph).symbols}
    assert "sum_of_four" not in names
    assert "sum_of_four" in {symbol.op.name for symbol in with_integer_products(graph, fours=True).symbols}
    np.testing.assert_array_equal(jn.evaluate(with_integer_products(graph, fours=True), layer["x"]), _expected(layer, 7, 0.2))
    try:
        model = jn.compile(graph, "cpu", cache=False, target="x86-64-v3")
    except jn.JoineryError:
        pytest.skip("no processor of that level")
    assert "vpdpbusd" not in model.kernels[-1].llvm_ir
    assert "pmadd.wd" in model.kernels[-1].llvm_ir
    np.testing.assert_array_equal(model(layer["x"]), _expected(layer, 7, 0.2))


def test_filters_with_channels_first_are_found() -> None:
    """As models in ONNX have them: their permutation, which is stored, is no obstacle."""
    layer = _layer("uint8", 200, (3, 3), 48, 11)
    graph = jn.Graph("g", [jn.TensorType("uint8", layer["x"].shape, "x")])
    first = np.ascontiguousarray(layer["w"].transpose(2, 0, 1)[:, None])
    factors = jn.dequantize(graph.constant(first), layer["scales"], np.zeros(48, np.int8), axis=0).permute((2, 3, 1, 0))
    values = jn.dequantize(graph.inputs[0], F(0.0413), np.uint8(200))
    found = jn.conv(values, factors, groups=48, padding=layer["pads"], stride=layer["strides"])
    graph.output(jn.quantize(found, F(0.2), np.uint8(7), dtype="uint8"))
    assert "contiguous" in {symbol.op.name for symbol in graph.symbols}
    names = {symbol.op.name for symbol in with_integer_products(graph, fours=True).symbols}
    assert "sum_of_four" in names
    assert not {"dequantize", "multiply_add"} & names
    np.testing.assert_array_equal(jn.compile(graph, "cpu", cache=False)(layer["x"]), _expected(layer, 7, 0.2))


def test_two_taps_stay() -> None:
    graph = _graph(_layer("int8", 0, (1, 2), 16, 1), 2, 0, 1.0)
    assert "sum_of_four" not in {symbol.op.name for symbol in with_integer_products(graph, fours=True).symbols}


def test_a_zero_point_that_is_known_at_run_time() -> None:
    rng = np.random.default_rng(1)
    kernel = rng.integers(-128, 128, (3, 3, 21)).astype(np.int8)
    for dtype in ("int8", "uint8"):
        limits = np.iinfo(dtype)
        graph = jn.Graph("g", [jn.TensorType(dtype, ("n", 7, 7, 21), "x"), jn.TensorType(dtype, (), "z")])
        x, zero = graph.inputs
        value = x.cast("int32") - zero.cast("int32")
        graph.output(jn.conv(value, graph.constant(kernel[:, :, None].astype(np.int32)), padding=1, groups=21))
        model = jn.compile(graph, "cpu", cache=False)
        for point in (limits.min, 9, limits.max):
            array = rng.integers(limits.min, limits.max + 1, (3, 7, 7, 21)).astype(dtype)
            found = model(array, np.array(point, dtype))
            np.testing.assert_array_equal(found, _sums(array, kernel, [(1, 1), (1, 1)], (1, 1), int(point)))
