"""Quantisation at its edges: halves, both ends, NaN, infinities, denormal numbers, and scales that no shortcut is for."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

F = np.float32
SCALES = [1.0, 0.1, 0.0371, 3e-5, 2.0**-20, 2.0**-21, 2.0**40, 2.0**41, -0.5, 1e-40, 1e-45, 3e38, np.inf, np.nan, 0.0, -0.0]
ENDS = {"int8": [-128, 0, 5, 127], "uint8": [0, 128, 255], "int16": [-32768, 0, 32767], "uint16": [0, 65535], "int4": [-8, 7]}


def _numbers(scale: float, zero: int, low: int, high: int) -> Any:
    """Numbers around everything that decides a code."""
    rng = np.random.default_rng(7)
    with np.errstate(all="ignore"):
        whole = np.concatenate([np.arange(-300, 301), [low - zero, high - zero, 65536, -65536, 1 << 23, 1 << 24]]).astype(F)
        near = np.concatenate([(whole + F(part)) * F(scale) for part in (0, 0.5, -0.5, 0.25, -0.25)])
        near = np.concatenate([near, np.nextafter(near, F(np.inf)), np.nextafter(near, F(-np.inf))])
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45, -1e-45, 1e-38, 2.0**-80, 3e38, -3e38], F)
    spread = rng.standard_normal(200) * np.exp(rng.uniform(-90, 80, 200))
    return np.concatenate([near, special, spread.astype(F), special])


def _quantised(x: Any, scale: Any, zero: Any, dtype: str) -> Any:
    """The definition, in float32 and NumPy."""
    limits = {"int4": (-8, 7)}.get(dtype) or (np.iinfo(dtype).min, np.iinfo(dtype).max)
    with np.errstate(all="ignore"):
        whole = np.rint(x / F(scale)) + F(zero)
        return np.where(np.isnan(whole), 0, np.clip(whole, *limits)).astype(np.int64)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ENDS)
@pytest.mark.parametrize("known", [True, False])
def test_codes_are_those_of_the_definition(dtype: str, known: bool) -> None:
    """Scales are constants, or inputs of the model."""
    low, high = ENDS[dtype][0], ENDS[dtype][-1]
    store = dtype if dtype != "int4" else "int8"
    for zero in ENDS[dtype]:
        x = np.concatenate([_numbers(scale, zero, low, high) for scale in SCALES])
        graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n",), "x"), jn.TensorType(jn.float32, (len(SCALES),), "s")])
        point = graph.constant(np.array(zero, store)).cast(dtype) if dtype == "int4" else np.array(zero, dtype)
        scales = SCALES if known else [graph.inputs[1][number] for number in range(len(SCALES))]
        factors = [graph.constant(F(scale)) if known else scale for scale in scales]
        graph.output(*[jn.quantize(graph.inputs[0], scale, point, dtype=dtype).cast(store) for scale in factors])
        found = jn.compile(graph, "cpu", cache=False)(x, np.array(SCALES, F))
        for scale, one in zip(SCALES, found, strict=True):
            np.testing.assert_array_equal(one.astype(np.int64), _quantised(x, scale, zero, dtype), f"scale {scale}")


def test_codes_that_are_read_at_once_are_not_made_bytes_first() -> None:
    """A sum of what two quantisations stand for, quantised, as it stands in residual networks."""
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n",), "x"), jn.TensorType(jn.float32, ("n",), "y")])
    parts = []
    for value, scale, zero in zip(graph.inputs, (F(0.3), F(0.07)), (np.int8(-128), np.int8(99)), strict=True):
        parts.append(jn.dequantize(jn.quantize(value, scale, zero, dtype="int8"), scale, zero))
    graph.output(jn.quantize(parts[0] + parts[1], F(0.11), np.int8(3), dtype="int8"), parts[0])
    rng = np.random.default_rng(3)
    x, y = (np.append(rng.standard_normal(1000) * 30, [np.nan, np.inf, -np.inf, 0]).astype(F) for _ in range(2))
    model = jn.compile(graph, "cpu", cache=False)
    for one, other in zip(model(x, y), jn.evaluate(graph, x, y), strict=True):
        np.testing.assert_array_equal(one, other)
    assert "lrint" in model.kernels[0].llvm_ir


