"""Products of codes between codes, with residual sums, beside integers and float32 in NumPy: bit for bit."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

F = np.float32
SHAPES = [(1, 5, 16), (7, 64, 9), (33, 30, 17), (50, 64, 64), (20, 257, 96), (300, 12, 24)]


def _numbers(total: Any, scale: Any, y_scale: float, zero: int, low: int, high: int) -> Any:
    """Codes of sums, and what they stand for, in float32."""
    codes = np.clip(np.rint(total.astype(F) * scale / F(y_scale)) + F(zero), low, high)
    return codes.astype(np.int64), (codes - zero).astype(F) * F(y_scale)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("residual", [False, True])
def test_products_between_codes(residual: bool, shape: tuple[int, int, int], dtype: str) -> None:
    rows, depth, columns = shape
    rng, limits, numpy = np.random.default_rng(sum(shape)), np.iinfo(dtype), np.dtype(dtype).type
    x = rng.integers(limits.min, limits.max + 1, (rows, depth)).astype(dtype)
    r = rng.integers(limits.min, limits.max + 1, (rows, columns)).astype(dtype)
    w, scales = rng.integers(-128, 128, (depth, columns)).astype(np.int8), (rng.random(columns) / 500 + 1e-4).astype(F)
    scale = (scales.astype(np.float64) * float(F(0.0231))).astype(F)
    for x_zero, y_zero, last in [(limits.min, limits.max, 3), (limits.max, limits.min, limits.min), (limits.min + 50,) * 3]:
        for y_scale in (0.0021, 0.25, 0.0773):  # the first saturates, the second is a power of two
            total = (x.astype(np.int64) - x_zero) @ w.astype(np.int64)
            codes, numbers = _numbers(total, scale, y_scale, y_zero, limits.min, limits.max)
            graph = jn.Graph("g", [jn.TensorType(dtype, ("n", depth), "x"), jn.TensorType(dtype, ("n", columns), "r")])
            values = jn.dequantize(graph.inputs[0], F(0.0231), numpy(x_zero))
            factors = jn.dequantize(graph.constant(w), scales, np.zeros(columns, np.int8), axis=1)
            made = jn.quantize(values @ factors, F(y_scale), numpy(y_zero), dtype=dtype)
            if residual:
                other = jn.dequantize(graph.inputs[1], F(0.031), numpy(y_zero))
                summed = jn.dequantize(made, F(y_scale), numpy(y_zero)) + other
                made = jn.quantize(summed, F(0.0513), numpy(last), dtype=dtype)
                both = numbers + (r.astype(np.int64) - y_zero).astype(F) * F(0.031)
                codes = np.clip(np.rint(both / F(0.0513)) + F(last), limits.min, limits.max)
            graph.output(made)
            np.testing.assert_array_equal(jn.compile(graph, "cpu", cache=False)(x, r), codes.astype(dtype))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("exponent", [-22, -40, -75, -79])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_small_scales(exponent: int, dtype: str) -> None:
    """Of the results, and of both operands together."""
    rng, limits, numpy = np.random.default_rng(-exponent), np.iinfo(dtype), np.dtype(dtype).type
    x = rng.integers(limits.min, limits.max + 1, (40, 64)).astype(dtype)
    w = rng.integers(-128, 128, (64, 48)).astype(np.int8)
    parts = F(0.0231 * 2.0 ** max(exponent // 2, -42)), F(0.0013 * 2.0 ** max(exponent - exponent // 2, -37))
    y_scale = F(0.37 * 2.0**exponent)
    graph = jn.Graph("g", [jn.TensorType(dtype, ("n", 64), "x")])
    values = jn.dequantize(graph.inputs[0], parts[0], numpy(limits.min + 50))
    factors = jn.dequantize(graph.constant(w), np.full(48, parts[1], F), np.zeros(48, np.int8), axis=1)
    graph.output(jn.quantize(values @ factors, y_scale, numpy(limits.min + 9), dtype=dtype))
    scale = F(float(parts[0]) * float(parts[1]))
    total = (x.astype(np.int64) - (limits.min + 50)) @ w.astype(np.int64)
    codes, _ = _numbers(total, scale, float(y_scale), limits.min + 9, limits.min, limits.max)
    assert len(np.unique(codes)) > 5
    np.testing.assert_array_equal(jn.compile(graph, "cpu", cache=False)(x), codes.astype(dtype))


def _ir(w_scale: float, y_scale: float) -> str:
    graph = jn.Graph("g", [jn.TensorType("int8", (64, 64), "x")])
    w = np.random.default_rng(1).integers(-128, 128, (64, 64)).astype(np.int8)
    factors = jn.dequantize(graph.constant(w), np.full(64, w_scale, F), np.zeros(64, np.int8), axis=1)
    made = jn.dequantize(graph.inputs[0], F(0.02), np.int8(3)) @ factors
    graph.output(jn.quantize(made, F(y_scale), np.int8(-7), dtype="int8"))
    return str(jn.compile(graph, "cpu", cache=False).kernels[-1].llvm_ir)


def test_no_nan_is_looked_for_where_there_is_none() -> None:
    assert "fcmp" not in _ir(0.01, 0.3)  # neither NaN nor clamps of floats
    far = _ir(2.0**40, 2.0**-15)  # beyond int32, but finite
    assert "fcmp ord" not in far
    assert "fcmp" in far


def test_numbers_of_the_caller_may_be_nan() -> None:
    graph = jn.Graph("g", [jn.TensorType("float32", (40,), "x")])
    graph.output(jn.quantize(graph.inputs[0], F(0.1), np.int8(-7), dtype="int8"))
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 0.05, 0.15, -0.25] * 5, F)
    with np.errstate(invalid="ignore"):
        near = np.clip(np.rint(x / F(0.1)) + F(-7), -128, 127)
    expected = np.where(np.isnan(x), 0, near).astype(np.int8)
    np.testing.assert_array_equal(jn.compile(graph, "cpu", cache=False)(x), expected)
