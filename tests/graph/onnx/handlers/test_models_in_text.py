"""Small models, written as text, whose compiled form computes what onnxruntime does, with sizes that are known at a run."""

from __future__ import annotations

import importlib.util
from typing import Any

import joinery as jn
import numpy as np
import onnx
import pytest
from onnx import helper

from ....support.onnx_export.structure import structure
from ....support.onnx_texts import agrees, by_onnxruntime, model

pytestmark = pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="onnxruntime is not installed")
RNG = np.random.default_rng(22)


def floats(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "quantised", ["w0 = QuantizeLinear(wf, s, z) w = DequantizeLinear(w0, s, z)", "w = DequantizeLinear(wi, s, z)"]
)
def test_constant_codes_beside_a_check_of_a_size(quantised: str) -> None:
    body = f"{quantised} p = Mul(x, w) y, i = TopK(p, k)"
    arrays = {"s": np.float32(0.05), "z": np.int8(0), "k": np.array([4]), "wf": np.float32([1.5]), "wi": np.int8([3])}
    made = model("(float[b, n] x) => (float[b, 4] y)", body, 17, **arrays)
    agrees(made, {"x": floats(2, 9)})


def test_scales_of_blocks_beside_an_axis_of_open_size() -> None:
    body = "q = QuantizeLinear<axis=1, block_size=4, output_dtype=3>(x, s) y = DequantizeLinear<axis=1, block_size=4>(q, s)"
    made = model("(float[b, 8] x) => (float[b, 8] y)", body, 21, s=np.float32([[0.1, 0.2], [0.3, 0.05]]))
    agrees(made, {"x": floats(2, 8)})
    with pytest.raises(jn.UserError, match="2 must equal b"):
        jn.compile(jn.from_onnx(made), device="cpu", cache=False).run({"x": floats(3, 8)})


@pytest.mark.parametrize("axis", [0, 1])
def test_scattered_elements_in_a_part_of_the_data(axis: int) -> None:
    signature = "(float[n, m] x, int64[p, q] i, float[p, q] u) => (float[n, m] y)"
    made = model(signature, f'y = ScatterElements<axis={axis}, reduction="add">(x, i, u)')
    positions = np.array([[0, 1], [2, 2], [1, 0]])
    part = {"x": np.ones((3, 4), np.float32), "i": positions, "u": floats(3, 2)}
    whole = {"x": np.ones((3, 2), np.float32), "i": positions % 2, "u": floats(3, 2)}
    agrees(made, part, whole)
    if axis == 0:
        with pytest.raises(jn.UserError, match="negative"):
            jn.compile(jn.from_onnx(made), device="cpu", cache=False).run({**whole, "x": np.ones((3, 1), np.float32)})


def test_quantisation_by_the_range_of_nothing() -> None:
    body = "q, s, z = DynamicQuantizeLinear(x) i = MatMulInteger(q, w, z) f = Cast<to=1>(i) y = Mul(f, s)"
    made = model("(float[n, 4] x) => (float[n, 3] y)", body, w=np.arange(12, dtype=np.int8).reshape(4, 3))
    agrees(made, {"x": floats(0, 4)}, {"x": floats(5, 4)}, {"x": abs(floats(1, 4)) + 1}, {"x": np.zeros((2, 4), np.float32)})


def test_an_opset_that_is_imported_twice_alike() -> None:
    made = model("(float[n] x) => (float[n] y)", "y = Relu(x)")
    made.opset_import.append(helper.make_opsetid("ai.onnx", 18))
    agrees(made, {"x": floats(3)})


@pytest.mark.parametrize(
    ("dtype", "code", "start", "step"),
    [("float", 1, 0, 1), ("double", 11, 0.5, 1), ("float", 1, 2, 0.75), ("float", 1, 3, -0.5)],
)
def test_a_range_in_floats_up_to_a_size(dtype: str, code: int, start: float, step: float) -> None:
    body = f"s = Shape(x) n = Squeeze(s) f = Cast<to={code}>(n) y = Range(z, f, o)"
    numpy = {"float": np.float32, "double": np.float64}[dtype]
    made = model(f"(float[n] x) => ({dtype}[k] y)", body, z=numpy(start), o=numpy(step))
    graph = jn.from_onnx(made)
    assert graph.outputs[0].shape[0] != 7
    compiled = jn.compile(graph, device="cpu", cache=False)
    for size in (0, 1, 2, 7):
        np.testing.assert_allclose(compiled.run({"x": floats(size)})["y"], np.arange(start, size, step).astype(numpy))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("largest", [0, 1])
def test_as_many_largest_elements_as_data_leave(largest: int) -> None:
    body = f"m = Greater(x, z) v = Compress<axis=0>(x, m) c = Shape(v) k = Min(c, four) y, i = TopK<largest={largest}>(v, k)"
    made = model("(float[n] x) => (float[k] y, int64[k] i)", body, z=np.float32(0), four=np.array([4]))
    agrees(made, {"x": floats(20)}, {"x": np.float32([1, -2, 1])}, {"x": np.float32([-1, -2])})


def test_as_many_largest_elements_as_data_say() -> None:
    body = "m = Greater(x, z) c = Cast<to=7>(m) k = ReduceSum(c) y, i = TopK<axis=0>(x, k)"
    made = model("(float[n] x) => (float[k] y, int64[k] i)", body, z=np.float32(0))
    agrees(made, {"x": floats(20)}, {"x": np.float32([1, -2, 1])}, {"x": np.float32([-1, -2])})


REGIONS = np.float32([[0, 0, 4, 5], [1.3, 2.2, 7.9, 7.4], [-3, -2, 4, 20], [5, 5, 5, 5]])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("half", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions_that_take_as_many_samples_as_they_are_large(mode: str, half: str) -> None:
    attributes = f'output_height=2, output_width=3, mode="{mode}", coordinate_transformation_mode="{half}", spatial_scale=1.5'
    signature = "(float[n, 2, h, w] x, float[k, 4] r, int64[k] b) => (float[k, 2, 2, 3] y)"
    made = model(signature, f"y = RoiAlign<{attributes}>(x, r, b)", 16)
    agrees(made, {"x": floats(2, 2, 8, 9), "r": REGIONS[:3], "b": np.array([0, 1, 1])}, {
        "x": floats(1, 2, 11, 5), "r": REGIONS, "b": np.zeros(4, np.int64)
    }, {"x": floats(1, 2, 8, 9), "r": REGIONS[:0], "b": np.zeros(0, np.int64)})  # fmt: skip


def test_largest_pixels_of_regions() -> None:
    body = "y = MaxRoiPool<pooled_shape=[2, 3], spatial_scale=0.5>(x, r)"
    signature = "(float[n, 2, h, w] x, float[k, 5] r) => (float[k, 2, 2, 3] y)"
    made = model(signature, body, 16)
    rois = np.float32([[0, 0, 0, 8, 11], [1, 3, 5, 14, 9], [1, 1, 1, 1, 1], [0, 13, 2, 60, 9], [0, 9, 9, 2, 4]])
    agrees(made, {"x": floats(2, 2, 8, 9), "r": rois}, {"x": floats(2, 2, 5, 4), "r": rois[:2]})
    with pytest.raises(jn.UserError, match="pooled_shape"):
        jn.from_onnx(model(signature, "y = MaxRoiPool<pooled_shape=[2]>(x, r)", 16))


# -- written, and read back --------------------------------------------------------------------------------------------


def written(made: Any, feeds: dict[str, Any]) -> Any:
    """What a model is written as, which is valid and computes the same in onnxruntime."""
    again = jn.to_onnx(jn.from_onnx(made))
    onnx.checker.check_model(again, full_check=True)
    for got, want in zip(by_onnxruntime(again, feeds), by_onnxruntime(made, feeds), strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    return again


@pytest.mark.parametrize("channels", ["c", "8"])
@pytest.mark.parametrize(
    "attributes",
    [
        "kernel_shape=[3], pads=[1, 1]", "kernel_shape=[3], pads=[1, 1], strides=[2], ceil_mode=1",
        "kernel_shape=[2], pads=[1, 1], count_include_pad=1", "kernel_shape=[3], pads=[0, 2], strides=[2]",
    ],
)  # fmt: skip
def test_means_of_padded_windows_along_one_axis(attributes: str, channels: str) -> None:
    made = model(f"(float[b, {channels}, n] x) => (float[b, {channels}, k] y)", f"y = AveragePool<{attributes}>(x)")
    again = written(made, {"x": floats(2, 8, 11)})
    assert all(node.input[0] == "x" for node in again.graph.node if node.op_type == "AveragePool")


def test_means_over_more_than_three_axes_of_space() -> None:
    made = model("(float[b, 2, 3, 4, 5, n] x) => (float[b, 2, 1, 1, 1, 1] y)", "y = ReduceMean<axes=[2, 3, 4, 5]>(x)", 17)
    written(made, {"x": floats(1, 2, 3, 4, 5, 2)})


@pytest.mark.parametrize(
    ("sizes", "axes", "strides", "dilations"),
    [((3,), (1,), (1,), (1,)), ((3, 2), (1, 2), (2, 1), (2, 1)), ((2, 3), (2, 1), (1, 2), (1, 1)), ((1,), (1,), (3,), (1,))],
)
def test_windows_come_back_as_windows(sizes: Any, axes: Any, strides: Any, dilations: Any) -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("b", "n", 6), "x")])
    graph.output(jn.windows(graph.inputs[0], sizes, axes, strides, dilations) * 2.0)
    made = jn.to_onnx(graph)
    again = jn.from_onnx(made)
    assert structure(again) == structure(graph)
    x = floats(2, 9, 6)
    np.testing.assert_array_equal(by_onnxruntime(made, {"x": x})[0], jn.evaluate(again, x))


@pytest.mark.parametrize("last", [4, 5])
def test_positions_that_may_lie_outside_are_no_windows(last: int) -> None:
    body = "s = Shape<start=1>(x) n = Squeeze(s) l = Sub(n, two) r = Range(z, l, o) c = Unsqueeze(r, a) p = Add(c, w) "
    given = {"two": np.array(2), "z": np.array(0), "o": np.array(1), "a": np.array([1]), "w": np.arange(last - 1)}
    made = model("(float[b, n] x) => (float y)", f"{body} g = Gather<axis=1>(x, p) y = Transpose<perm=[0, 1, 2]>(g)", **given)
    graph = jn.from_onnx(made)
    assert any(symbol.op.name == "windows" for symbol in graph.symbols) == (last == 4)
    if last == 4:
        agrees(made, {"x": floats(2, 7)})
