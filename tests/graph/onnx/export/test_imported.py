"""Imported models that are written are read back as the graphs that they were, and onnxruntime computes the same of both."""

from __future__ import annotations

import importlib.util
from typing import Any

import joinery as jn
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from ....support.code_weights import code_weights
from ....support.onnx_export.agreement import by_onnxruntime, exported
from ....support.onnx_export.structure import structure

pytestmark = pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="onnxruntime is not installed")
RNG = np.random.default_rng(3)


def node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(op, [name.strip() for name in inputs.split(",")], [output], **attributes)


def model(nodes: list[Any], shape: list[Any], arrays: dict[str, Any], opset: int = 20) -> Any:
    inputs, outputs = [helper.make_tensor_value_info("x", 1, shape)], [helper.make_tensor_value_info("y", 1, None)]
    graph = helper.make_graph(nodes, "net", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in arrays.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def comes_back(source: Any, *arrays: Any, tolerance: float = 1e-5) -> Any:
    """The model that an imported one is written as: it computes what the one before does, and is read as the same graph."""
    graph = jn.from_onnx(source)
    made = exported(graph)
    assert structure(jn.from_onnx(made)) == structure(graph)
    for array in arrays:
        (want,), (got,) = by_onnxruntime(source, graph, [array]), by_onnxruntime(made, graph, [array])
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    return made


def floats(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def test_what_is_computed_of_constants_alone_stays_computed() -> None:
    nodes = [
        node("Gemm", "x,w,b", "a", transB=1), node("BatchNormalization", "a,s,o,m,v", "n"), node("Relu", "n", "y"),
    ]  # fmt: skip
    arrays = {"w": floats(5, 4), "b": floats(5), "s": floats(5), "o": floats(5), "m": floats(5), "v": abs(floats(5))}
    graph = jn.from_onnx(model(nodes, ["n", 4], arrays))
    assert graph.weights["w"].shape == (5, 4)
    comes_back(model(nodes, ["n", 4], arrays), floats(3, 4))


def test_a_recurrence_takes_its_weights_apart_again() -> None:
    arrays = {"w": floats(1, 12, 4), "r": floats(1, 12, 3), "b": floats(1, 24)}
    gates = node("LSTM", "x,w,r,b", "y", hidden_size=3)
    comes_back(model([gates], ["steps", "n", 4], arrays), floats(6, 2, 4), floats(5, 1, 4))


def test_weights_that_two_layers_share_are_one_array() -> None:
    arrays = {"table": floats(9, 4), "scale": floats(1, 4)}
    nodes = [node("Mul", "x,scale", "a"), node("Transpose", "table", "t"), node("MatMul", "a,t", "y")]
    made = comes_back(model(nodes, ["n", 4], arrays), floats(2, 4))
    assert sum(np.prod(array.dims) for array in made.graph.initializer) < 60


SLICES = {
    "up to the last": ([0, 0], [2**31, -1], [1, 1]),
    "from the third": ([2, 0], [2**31, 2**31], [1, 1]),
    "every other": ([0, 1], [2**31, -1], [1, 2]),
    "backwards": ([-1, -1], [-(2**31), 0], [-1, -1]),
    "the middle": ([1, 1], [-2, -1], [1, 1]),
}


@pytest.mark.parametrize("case", SLICES)
def test_slices_whose_bounds_are_sizes_are_the_same_slices(case: str) -> None:
    starts, ends, steps = (np.array(numbers) for numbers in SLICES[case])
    arrays = {"starts": starts, "ends": ends, "axes": np.array([0, 1]), "steps": steps}
    comes_back(model([node("Slice", "x,starts,ends,axes,steps", "y")], ["n", "m"], arrays), floats(6, 5), floats(4, 7))


def test_a_size_that_is_computed_with_as_a_number_stays_one() -> None:
    nodes = [
        node("Shape", "x", "s"), node("Gather", "s,first", "n"), node("Cast", "n", "f", to=1), node("Sqrt", "f", "r"),
        node("Div", "x,r", "y"),
    ]  # fmt: skip
    comes_back(model(nodes, ["n", 3], {"first": np.array(0)}), floats(5, 3))


def test_a_claim_that_a_node_is_a_slice_of_a_graph_does_not_let_it_read_outside() -> None:
    arrays = {"starts": np.array([0]), "ends": np.array([9]), "axes": np.array([0]), "steps": np.array([1])}
    claims = model([node("Slice", "x,starts,ends,axes,steps", "y")], [4], arrays)
    claims.graph.node[0].metadata_props.add(key="joinery.row", value="slice")
    with pytest.raises(jn.UserError, match="Slice"):
        jn.from_onnx(claims)


# -- quantised models ------------------------------------------------------------------------------------------------------


def quantised(per_channel: bool, signed: bool) -> Any:
    """A convolution and a product as quantising tools write them: weights are codes, and Q and DQ stand before each op."""
    scales = np.array([0.02, 0.03, 0.01, 0.04], np.float32) if per_channel else np.float32(0.02)
    zeros = np.zeros(4, np.int8) if per_channel else np.int8(0)
    along = {"axis": 0} if per_channel else {}
    code = np.int8 if signed else np.uint8
    arrays = {
        "xs": np.float32(0.05), "xz": code(3), "ws": scales, "wz": zeros,
        "w": RNG.integers(-127, 127, (4, 3, 3, 3)).astype(np.int8),
        "b": RNG.integers(-900, 900, 4).astype(np.int32), "bs": (scales * np.float32(0.05)).astype(np.float32),
        "bz": np.zeros_like(zeros, np.int32), "ys": np.float32(0.2), "yz": code(1),
        "m": RNG.integers(-127, 127, (4, 5)).astype(np.int8), "ms": np.float32(0.01), "mz": np.int8(2),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", "x,xs,xz", "xq"), node("DequantizeLinear", "xq,xs,xz", "xd"),
        node("DequantizeLinear", "w,ws,wz", "wd", **along), node("DequantizeLinear", "b,bs,bz", "bd", **along),
        node("Conv", "xd,wd,bd", "c", pads=[1, 1, 1, 1]), node("QuantizeLinear", "c,ys,yz", "cq"),
        node("DequantizeLinear", "cq,ys,yz", "cd"), node("ReduceMean", "cd,space", "p", keepdims=0),
        node("QuantizeLinear", "p,ys,yz", "pq"), node("DequantizeLinear", "pq,ys,yz", "pd"),
        node("DequantizeLinear", "m,ms,mz", "md"), node("MatMul", "pd,md", "y"),
    ]  # fmt: skip
    return model(nodes, ["n", 3, "h", "w"], {**arrays, "space": np.array([2, 3])})


@pytest.mark.parametrize("per_channel", [False, True])
def test_a_quantised_model_keeps_its_codes(per_channel: bool) -> None:
    source = quantised(per_channel, signed=True)
    made = comes_back(source, floats(2, 3, 6, 5), tolerance=1e-2)
    count = [each.op_type for each in made.graph.node].count
    assert (count("QuantizeLinear"), count("DequantizeLinear"), count("Conv"), count("MatMul")) == (3, 6, 1, 1)
    kept = {array.name: array.data_type for array in made.graph.initializer}
    assert (kept["w"], kept["b"], kept["m"]) == (onnx.TensorProto.INT8, onnx.TensorProto.INT32, onnx.TensorProto.INT8)
    assert made.ByteSize() < source.ByteSize() + 12_000  # with metadata


def test_a_quantised_model_is_compiled_with_its_weights_as_int8(tmp_path: Any) -> None:
    graph = jn.from_onnx(quantised(per_channel=True, signed=False))
    compiled = jn.compile(graph, device="cpu", threads=1)
    x = floats(2, 3, 6, 5)
    np.testing.assert_allclose(compiled(x), jn.evaluate(graph, x), rtol=1e-5, atol=1e-5)
    dtypes = {constant.dtype for constant in compiled.compiled.constants if len(constant.shape) > 1}
    assert dtypes == {"int8", "int32", "float32"}
    compiled.save(tmp_path / "quantised.joinery")
    np.testing.assert_array_equal(jn.load(tmp_path / "quantised.joinery", device="cpu")(x), compiled(x))


def test_dequantised_int8_goes_through_reshape_in_onnxruntime() -> None:
    """From opset 21 on onnxruntime 1.32 gives the QuantizeLinear that it moves there a zero point of another dtype."""
    arrays = {"s": np.float32(0.1), "z": np.int8(-7), "shape": np.array([6, 4])}
    nodes = [
        node("QuantizeLinear", "x,s,z", "q"), node("DequantizeLinear", "q,s,z", "d"), node("Reshape", "d,shape", "r"),
        node("Neg", "r", "y"),
    ]  # fmt: skip
    made = comes_back(model(nodes, [4, 6], arrays), floats(4, 6))
    assert made.opset_import[0].version == 20


CODED = {
    "signed weights": (np.int8, (4, 3, 3, 3), 1),
    "weights without a sign": (np.uint8, (4, 3, 3, 3), 1),
    "groups": (np.int8, (6, 1, 3, 3), 3),
}


@pytest.mark.parametrize("size", [7, "h"])
@pytest.mark.parametrize("case", CODED)
def test_convolutions_of_codes_are_the_node_that_they_were(case: str, size: Any) -> None:
    code, shape, group = CODED[case]
    arrays = {
        "xs": np.float32(0.05), "xz": np.uint8(120), "w": code_weights(RNG, code, *shape),
        "wz": np.zeros(shape[0], np.int8) if code is np.int8 else np.uint8(127),
        "ws": np.linspace(0.01, 0.02, shape[0], dtype=np.float32), "ys": np.float32(0.3), "yz": np.uint8(130),
        "b": RNG.integers(-900, 900, shape[0]).astype(np.int32),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", "x,xs,xz", "q"),
        node("QLinearConv", "q,xs,xz,w,ws,wz,ys,yz,b", "c", pads=[1, 1, 1, 1], strides=[2, 1], group=group),
        node("DequantizeLinear", "c,ys,yz", "y"),
    ]  # fmt: skip
    made = comes_back(model(nodes, ["n", 3, size, 5], arrays), floats(2, 3, 7, 5) * 2)
    assert [each.op_type for each in made.graph.node] == ["QuantizeLinear", "QLinearConv", "DequantizeLinear"]
    sums = [
        node("DynamicQuantizeLinear", "x", "q"), node("ConvInteger", "q,w,xz", "c", group=group), node("Cast", "c", "y", to=1),
    ]  # fmt: skip
    sums[0].output.extend(["scale", "zero"])
    made = comes_back(model(sums, ["n", 3, size, 5], {name: arrays[name] for name in ("w", "xz")}), floats(2, 3, 7, 5))
    assert [each.op_type for each in made.graph.node].count("ConvInteger") == 1


@pytest.mark.parametrize("opset", [18, 19, 21, 23])
def test_a_quantised_average_pooling_is_run_by_onnxruntime(opset: int) -> None:
    """onnxruntime makes one operator of these five, which takes no dilations."""
    nodes = [
        node("QuantizeLinear", "x,s,z", "q"), node("DequantizeLinear", "q,s,z", "d"),
        node("AveragePool", "d", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("QuantizeLinear", "p,s,z", "r"), node("DequantizeLinear", "r,s,z", "y"),
    ]  # fmt: skip
    source = model(nodes, [1, 4, 8, 8], {"s": np.float32(0.05), "z": np.uint8(3)}, opset)
    graph, image = jn.from_onnx(source), floats(1, 4, 8, 8)
    made = exported(graph, opset=opset)
    (want,), (got,) = by_onnxruntime(source, graph, [image]), by_onnxruntime(made, graph, [image])
    np.testing.assert_array_equal(got, want)


def test_a_mean_over_space_is_one_operator() -> None:
    nodes = [node("GlobalAveragePool", "x", "p"), node("ReduceMean", "x,last", "m", keepdims=1), node("Add", "p,m", "y")]
    made = comes_back(model(nodes, ["n", 2, "h", 4], {"last": np.array([3])}, opset=18), floats(2, 2, 3, 4))
    assert [each.op_type for each in made.graph.node] == ["GlobalAveragePool", "ReduceMean", "Add"]


def test_a_slice_of_everything_stays_one() -> None:
    graph = jn.Graph("g", [jn.TensorType("float32", ("n", 4), "x")])
    (x,) = graph.inputs
    graph.output(x[:, 0:4] * 2, names=["y"])
    assert structure(jn.from_onnx(exported(graph))) == structure(graph)
