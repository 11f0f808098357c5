"""Operators of com.microsoft that are like ones of ai.onnx, or read codes of few bits, with sizes that a run decides."""

from __future__ import annotations

import importlib.util
from typing import Any

import joinery as jn
import numpy as np
import pytest

from .....support.code_weights import code_weights
from .....support.onnx_texts import agrees, model

pytestmark = pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="onnxruntime is not installed")
RNG = np.random.default_rng(5)
PAIR = ({"scale": np.float32(0.01), "zero": np.uint16(30000)}, {"scale": np.float32(0.02), "zero": np.int16(-7)})


def floats(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def codes(*shape: int, dtype: Any = np.uint8) -> Any:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max, shape, dtype, endpoint=True)


OPERATORS = {
    "pad": ("com.microsoft.Pad(x, p, v)", {"p": np.array([0, 1, 2, 0]), "v": np.float32([7])}),
    "triangle": ("com.microsoft.Trilu<upper=0>(x, k)", {"k": np.array(1)}),
    "axis": ("com.microsoft.ExpandDims(x, a)", {"a": np.int32(-1)}),
    "first axis": ("com.microsoft.ExpandDims(x, a)", {"a": np.int32(0)}),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_that_another_domain_has(name: str) -> None:
    call, arrays = OPERATORS[name]
    agrees(model("(float[n, m] x) => (float y)", f"y = {call}", **arrays), {"x": floats(3, 4)}, {"x": floats(1, 5)})


def test_a_range_up_to_a_size() -> None:
    body = "s = Shape(x) n = Squeeze(s) y = com.microsoft.Range(z, n, o)"
    made = model("(float[n] x) => (int64[k] y)", body, z=np.array(1), o=np.array(2))
    assert agrees(made, {"x": floats(6)}, {"x": floats(1)}).outputs[0].shape != (3,)


def test_images_at_coordinates() -> None:
    body = 'y = com.microsoft.GridSample<mode="bilinear", padding_mode="border">(x, g)'
    made = model("(float[n, 2, h, w] x, float[n, p, q, 2] g) => (float[n, 2, p, q] y)", body)
    agrees(made, {"x": floats(2, 2, 4, 5), "g": floats(2, 3, 3, 2)})


@pytest.mark.parametrize("pair", PAIR)
def test_codes_of_sixteen_bits(pair: dict[str, Any]) -> None:
    dtype = "uint16" if pair["zero"].dtype == np.uint16 else "int16"
    body = "q = com.microsoft.QuantizeLinear(x, scale, zero) y = com.microsoft.DequantizeLinear(q, scale, zero)"
    agrees(model(f"(float[n, 4] x) => (float[n, 4] y, {dtype}[n, 4] q)", body, **pair), {"x": floats(3, 4) * 100})


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_distances_of_rows(metric: str) -> None:
    made = model("(float[n, k] a, float[m, k] b) => (float[n, m] y)", f'y = com.microsoft.CDist<metric="{metric}">(a, b)')
    agrees(made, {"a": floats(3, 4), "b": floats(5, 4)}, {"a": floats(1, 2), "b": floats(2, 2)}, tolerance=1e-4)


def test_distinct_elements_in_the_order_in_which_they_come() -> None:
    made = model("(float[n] x) => (float[k] y, int64[n] i, int64[k] c)", "y, i, c = com.microsoft.Unique(x)")
    agrees(made, {"x": np.float32([3, 1, 3, -2, 1, 3])})


POOLS = ["kernel_shape=[2, 2]", "kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]"]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("attributes", [*POOLS, "kernel_shape=[2, 3], pads=[1, 1, 0, 1], count_include_pad=1"])
@pytest.mark.parametrize("last", [0, 1])
def test_means_of_codes(attributes: str, last: int) -> None:
    shape = "uint8[n, h, 6, 3]" if last else "uint8[n, 3, h, 6]"
    body = f"y = com.microsoft.QLinearAveragePool<{attributes}, channels_last={last}>(x, s, z, t, o)"
    arrays = {"s": np.float32(0.1), "z": np.uint8(120), "t": np.float32(0.08), "o": np.uint8(110)}
    agrees(model(f"({shape} x) => (uint8 y)", body, **arrays), {"x": codes(2, *((5, 6, 3) if last else (3, 5, 6)))})


@pytest.mark.parametrize("attributes", POOLS)
def test_largest_codes_with_channels_last(attributes: str) -> None:
    made = model("(int8[n, h, 6, 3] x) => (int8 y)", f"y = com.microsoft.NhwcMaxPool<{attributes}>(x)")
    agrees(made, {"x": codes(2, 5, 6, 3, dtype=np.int8)})


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_rows_of_packed_codes(bits: int, zeros: bool) -> None:
    table, scales = codes(7, 48 * bits // 8), floats(7, 3)
    attributes = f"block_size=16, gather_axis=0, quantize_axis=1, bits={bits}"
    given = {"z": codes(7, 2 if bits == 4 else 3)} if zeros else {}
    body = f"y = com.microsoft.GatherBlockQuantized<{attributes}>(w, i, s{', z' if zeros else ''})"
    made = model("(int64[n, m] i) => (float[n, m, 48] y)", body, w=table, s=scales, **given)
    agrees(made, {"i": np.array([[0, 6, 3]])}, {"i": np.array([[1], [2]])})
    along = body.replace("gather_axis=0", "gather_axis=1")
    with pytest.raises(jn.UserError, match="gather_axis 1 and quantize_axis 1"):
        jn.from_onnx(model("(int64[n] i) => (float y)", along, w=table, s=scales, **given))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention_of_codes(unidirectional: int, mask: bool) -> None:
    attributes = f"num_heads=2, unidirectional={unidirectional}"
    body = f"y = com.microsoft.QAttention<{attributes}>(x, w, b, s, t, {'m' if mask else ''}, z, o)"
    arrays = {"w": code_weights(RNG, np.int8, 8, 24), "b": floats(24), "s": np.float32(0.02), "t": np.float32(0.01)}
    signature = f"(uint8[n, k, 8] x{', int32[n, k] m' if mask else ''}) => (float[n, k, 8] y)"
    given = {"m": np.int32([[1, 1, 0], [1, 1, 1]])} if mask else {}
    agrees(model(signature, body, **arrays, z=np.uint8(120), o=np.int8(3)), {"x": codes(2, 3, 8), **given}, tolerance=1e-4)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("zeros", [False, True])
def test_products_with_weights_of_two_bits(zeros: bool) -> None:
    attributes = "K=40, N=6, bits=2, block_size=16"
    given = {"z": codes(6, 1)} if zeros else {}
    body = f"y = com.microsoft.MatMulNBits<{attributes}>(x, w, s{', z' if zeros else ''})"
    made = model("(float[n, 40] x) => (float[n, 6] y)", body, w=codes(6, 3, 4), s=floats(6, 3), **given)
    agrees(made, {"x": floats(3, 40)}, {"x": floats(1, 40)}, tolerance=1e-3)
