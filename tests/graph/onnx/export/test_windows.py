"""Convolutions and poolings become one node each; windows of anything else are gathered. onnxruntime computes the same."""

from __future__ import annotations

import importlib.util
from typing import Any

import joinery as jn
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from ....support.onnx_export.agreement import by_onnxruntime, by_reference, exported
from ....support.onnx_export.structure import structure

RNG = np.random.default_rng(0)


def weights(*shape: int) -> Any:
    return (RNG.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def model(nodes: list[Any], shape: list[Any], arrays: dict[str, Any]) -> Any:
    inputs = [helper.make_tensor_value_info("x", 1, shape)]
    outputs = [helper.make_tensor_value_info("y", 1, None)]
    graph = helper.make_graph(nodes, "cnn", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in arrays.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def conv(x: str, w: str, y: str, bias: str = "", **attributes: Any) -> Any:
    return helper.make_node("Conv", [x, w, bias] if bias else [x, w], [y], **attributes)


def node(op: str, *names: str, **attributes: Any) -> Any:
    return helper.make_node(op, list(names[:-1]), [names[-1]], **attributes)


def agrees(graph: Any, *arrays: Any, tolerance: float = 2e-5, **options: Any) -> Any:
    """The model of a graph, which computes what the evaluator does."""
    made = exported(graph, **options)
    want = jn.evaluate(graph, *arrays)
    run = by_onnxruntime if importlib.util.find_spec("onnxruntime") is not None else by_reference
    (got,) = run(made, graph, arrays)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=tolerance)
    return made


def operators(made: Any) -> list[str]:
    return [each.op_type for each in made.graph.node]


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], int, dict[str, Any]]] = {
    "plain": ((4, 3, 3, 3), 1, {}),
    "padded, strides": ((4, 3, 3, 3), 1, {"pads": [1, 0, 1, 2], "strides": [2, 1]}),
    "more padding than is read": ((4, 3, 3, 3), 1, {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "dilation": ((2, 3, 3, 2), 1, {"dilations": [2, 3], "auto_pad": "SAME_LOWER"}),
    "1 x 1": ((5, 3, 1, 1), 1, {"strides": [2, 2]}),
    "groups": ((6, 2, 3, 3), 2, {"pads": [1, 1, 1, 1]}),
    "depthwise": ((4, 1, 3, 3), 4, {"pads": [1, 1, 1, 1]}),
    "depthwise, two filters each": ((8, 1, 2, 3), 4, {}),
    "depthwise, one tap": ((4, 1, 1, 1), 4, {}),
    "one axis": ((2, 3, 3), 1, {"pads": [2, 0]}),
    "three axes": ((2, 3, 2, 1, 2), 1, {"dilations": [1, 1, 2]}),
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_an_imported_convolution_is_the_node_that_it_was(case: str) -> None:
    shape, group, attributes = CONVOLUTIONS[case]
    channels = shape[1] * group
    spatial = [8, 9, 7][: len(shape) - 2]
    source = model([conv("x", "w", "y", group=group, **attributes)], ["n", channels, *spatial], {"w": weights(*shape)})
    graph = jn.from_onnx(source)
    made = agrees(graph, RNG.normal(size=(2, channels, *spatial)).astype(np.float32))
    assert operators(made) == ["Conv"]
    (kernel,) = made.graph.initializer
    assert kernel.name == "w"
    np.testing.assert_array_equal(numpy_helper.to_array(kernel), numpy_helper.to_array(source.graph.initializer[0]))
    assert structure(jn.from_onnx(made)) == structure(graph)


def test_a_network_with_residuals_depthwise_layers_and_pooling_comes_back() -> None:
    nodes = [
        conv("x", "w0", "a", "b0", pads=[1, 1, 1, 1], strides=[2, 2]), node("Relu", "a", "r"),
        conv("r", "w1", "c", pads=[1, 1, 1, 1]), node("Relu", "c", "d"),
        conv("d", "w2", "e", pads=[2, 2, 2, 2], dilations=[2, 2], group=8), node("Add", "e", "r", "f"),
        conv("f", "w3", "h", strides=[2, 2]), conv("r", "w4", "s", strides=[2, 2]), node("Add", "h", "s", "i"),
        node("MaxPool", "i", "p", kernel_shape=[2, 2], strides=[1, 1]), node("GlobalAveragePool", "p", "q"),
        node("Flatten", "q", "t"), node("Gemm", "t", "w5", "b5", "y"),
    ]  # fmt: skip
    arrays = {
        "w0": weights(8, 3, 3, 3), "b0": weights(8), "w1": weights(8, 8, 3, 3), "w2": weights(8, 1, 3, 3),
        "w3": weights(6, 8, 1, 1), "w4": weights(6, 8, 1, 1), "w5": weights(6, 5), "b5": weights(5),
    }  # fmt: skip
    graph = jn.from_onnx(model(nodes, ["n", 3, 12, 12], arrays))
    made = agrees(graph, RNG.normal(size=(3, 3, 12, 12)).astype(np.float32))
    assert operators(made).count("Conv") == 5
    assert not {"Transpose", "Gather"} & set(operators(made))
    again = jn.from_onnx(made)  # in which biases have the shape in which they are added
    assert structure(jn.from_onnx(jn.to_onnx(again))) == structure(again)
    assert [symbol.op.name for symbol in again.symbols].count("windows") == 5


def test_weights_that_are_inputs() -> None:
    graph = jn.Graph("g", [jn.TensorType("float32", (1, 6, 6, 2), "x"), jn.TensorType("float32", (3, 2, 2, 4), "w")])
    graph.output(jn.conv(*graph.inputs))
    made = agrees(graph, RNG.normal(size=(1, 6, 6, 2)).astype(np.float32), weights(3, 2, 2, 4))
    assert operators(made) == ["Transpose", "Transpose", "Conv", "Transpose"]


LAST: dict[str, tuple[Any, list[str]]] = {
    "conv": (lambda x: jn.conv(x, weights(3, 3, 4, 5), padding=1, stride=2), ["Conv"]),
    "max_pool": (lambda x: jn.max_pool(x, 3, 2, padding=1), ["MaxPool"]),
    "max_pool of more than there is": (lambda x: jn.max_pool(x, 3, 2, ceil_mode=True), ["MaxPool"]),
    "max_pool, dilation": (lambda x: jn.max_pool(x, (2, 3), 1, dilation=2), ["MaxPool"]),
    "avg_pool": (lambda x: jn.avg_pool(x, 3, 2, padding=1), ["AveragePool"]),
    "avg_pool of elements": (lambda x: jn.avg_pool(x, (2, 3), 1, padding=(1, 0), count_boundary=False), ["AveragePool"]),
    "avg_pool of more than there is": (lambda x: jn.avg_pool(x, 2, 2, ceil_mode=True), ["AveragePool"]),
    "two poolings": (lambda x: jn.max_pool(jn.relu(jn.max_pool(x, 2)), 2), ["MaxPool", "MaxPool"]),
}


@pytest.mark.parametrize("case", LAST)
def test_graphs_with_channels_last_turn_around_the_node(case: str) -> None:
    build, wanted = LAST[case]
    graph = jn.Graph("g", [jn.TensorType("float32", ("n", 9, 8, 4), "x")])
    graph.output(build(graph.inputs[0]))
    made = agrees(graph, RNG.normal(size=(2, 9, 8, 4)).astype(np.float32))
    assert [op for op in operators(made) if op in ("Conv", "MaxPool", "AveragePool", "Gather", "Pad")] == wanted


def test_16_bit_floats_are_convolved_in_their_dtype() -> None:
    graph = jn.Graph("g", [jn.TensorType("float16", (1, 6, 6, 2), "x")])
    graph.output(jn.conv(graph.inputs[0], weights(3, 3, 1, 2).astype(np.float16), groups=2))
    assert operators(agrees(graph, RNG.normal(size=(1, 6, 6, 2)).astype(np.float16), tolerance=2e-3)).count("Conv") == 1


OTHERS: dict[str, Any] = {
    "windows alone": lambda x: jn.windows(x, (2, 3), (1, 2), (2, 1), (1, 2)),
    "along the last axis": lambda x: jn.windows(x, 2, 3),
    "axes out of order": lambda x: jn.windows(x, (2, 3), (3, 0 + 1)),
    "a sum of windows": lambda x: jn.sum(jn.windows(x, 3, 1), axis=-1),
    "maxima of some axes": lambda x: jn.max(jn.windows(x, (2, 2), (1, 2)), axis=-1),
    "a float64 convolution": lambda x: jn.conv(x.cast("float64"), weights(2, 2, 4, 3).astype(np.float64)),
    "two products with the same windows": lambda x: _twice(jn.windows(x, (2, 2), (1, 2))),
    "fewer windows than there is room for": lambda x: jn.max(jn.windows(x[:, :5], 2, 1, 1), axis=-1) * 2,
}


def _twice(taken: Any) -> Any:
    return jn.max(taken, axis=(4, 5)) + jn.min(taken, axis=(4, 5))


@pytest.mark.parametrize("case", OTHERS)
@pytest.mark.parametrize("height", [9, "h"])
def test_other_windows_are_gathered(case: str, height: Any) -> None:
    graph = jn.Graph("g", [jn.TensorType("float32", (2, height, 8, 4), "x")])
    build = OTHERS[case]
    if height == "h" and case == "fewer windows than there is room for":
        pytest.skip("a slice of a symbolic axis")
    graph.output(build(graph.inputs[0]))
    made = agrees(graph, RNG.normal(size=(2, 9, 8, 4)).astype(np.float32))
    assert "Gather" in operators(made)
    assert onnx.checker.check_model(made, full_check=True) is None


SYMBOLIC: dict[str, tuple[list[Any], dict[str, tuple[int, ...]], list[str]]] = {
    "strides": ([conv("x", "w", "y", "b", pads=[1, 1, 1, 1], strides=[2, 2])], {"w": (4, 3, 3, 3), "b": (4,)}, ["Conv"]),
    "a wide stem": ([conv("x", "w", "y", pads=[3, 3, 3, 3], strides=[2, 2])], {"w": (4, 3, 7, 7)}, ["Conv"]),
    "different padding": ([conv("x", "w", "y", pads=[2, 0, 1, 1], strides=[3, 2])], {"w": (4, 3, 4, 3)}, ["Conv"]),
    "as large as before": ([conv("x", "w", "y", auto_pad="SAME_UPPER", strides=[2, 3])], {"w": (2, 3, 3, 4)}, ["Conv"]),
    "more before": ([conv("x", "w", "y", auto_pad="SAME_LOWER", strides=[2, 2])], {"w": (2, 3, 3, 3)}, ["Conv"]),
    "groups": (
        [conv("x", "w", "y", "b", group=3, pads=[1, 1, 1, 1], strides=[2, 2])], {"w": (6, 1, 3, 3), "b": (6,)}, ["Conv"],
    ),
    "max pool": ([node("MaxPool", "x", "y", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])], {}, ["MaxPool"]),
    "max pool, rounded up": ([node("MaxPool", "x", "y", kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1)], {}, ["MaxPool"]),
    "max pool, dilation": ([node("MaxPool", "x", "y", kernel_shape=[2, 3], dilations=[2, 2])], {}, ["MaxPool"]),
    "mean": ([node("AveragePool", "x", "y", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])], {}, ["AveragePool"]),
    "mean with padding": (
        [node("AveragePool", "x", "y", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1)], {},
        ["AveragePool"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SYMBOLIC)
def test_windows_over_space_of_any_size_are_the_node_that_they_were(case: str) -> None:
    nodes, shapes, wanted = SYMBOLIC[case]
    graph = jn.from_onnx(model(nodes, ["n", 3, "h", "w"], {name: weights(*shape) for name, shape in shapes.items()}))
    made = agrees(graph, RNG.normal(size=(2, 3, 11, 14)).astype(np.float32))
    assert operators(made) == wanted
    agrees(graph, RNG.normal(size=(1, 3, 12, 13)).astype(np.float32))
    assert structure(jn.from_onnx(made)) == structure(graph)


def test_what_reads_a_convolution_before_its_bias_keeps_it_apart() -> None:
    graph = jn.from_onnx(
        model([conv("x", "w", "c"), node("Add", "c", "b", "a"), node("Mul", "a", "c", "y")], [1, 3, 5, 5],
              {"w": weights(4, 3, 3, 3), "b": weights(4, 1, 1)})
    )  # fmt: skip
    made = agrees(graph, RNG.normal(size=(1, 3, 5, 5)).astype(np.float32))
    assert operators(made) == ["Conv", "Add", "Mul"]


def test_slices_that_combine_otherwise_are_no_pooling() -> None:
    graph = jn.Graph("g", [jn.TensorType("float32", (1, 2, 6, 6), "x")])
    (x,) = graph.inputs
    rows = jn.maximum(x[:, :, 0:5], x[:, :, 1:6])
    graph.output(jn.maximum(rows[:, :, :, 0:4], rows[:, :, :, 1:6][..., 1:5]), jn.minimum(x[..., 0:5:2], x[..., 1:6:2]))
    made = exported(graph)
    assert {"MaxPool", "AveragePool"} & set(operators(made)) == set()
    array = RNG.normal(size=(1, 2, 6, 6)).astype(np.float32)
    for got, want in zip(by_reference(made, graph, [array]), jn.evaluate(graph, array), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("function", ["conv", "max_pool", "avg_pool", "lp_pool", "backwards"])
def test_images_smaller_than_a_window_and_slices_of_nothing(function: str) -> None:
    """ONNX has no operators of no windows, and takes a start before the first element for the last one."""
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (1, 2, 5, 3), "x")])
    (x,) = graph.inputs
    kernel = np.ones((3, 2, 3, 4), np.float32)
    made = {
        "conv": lambda: jn.conv2d(x, kernel), "max_pool": lambda: jn.max_pool(x, 3), "avg_pool": lambda: jn.avg_pool(x, 3),
        "lp_pool": lambda: jn.lp_pool(x, 3), "backwards": lambda: x[:, -3::-1],
    }  # fmt: skip
    graph.output(made[function]())
    assert 0 in graph.outputs[0].shape
    model = exported(graph)
    value = RNG.normal(size=(1, 2, 5, 3)).astype(np.float32)
    assert jn.evaluate(jn.from_onnx(model), value).shape == graph.outputs[0].shape


@pytest.mark.parametrize("opset", [18, 19, 23])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("imported", [False, True])
def test_means_of_windows_have_dilations_from_opset_19_on(opset: int, dilation: int, imported: bool) -> None:
    if imported:
        source = model([node("AveragePool", "x", "y", kernel_shape=[2, 3], dilations=[dilation] * 2, pads=[1, 1, 0, 1])],
                       ["n", 4, 9, 8], {})  # fmt: skip
        graph, shape = jn.from_onnx(source), (2, 4, 9, 8)
    else:
        graph, shape = jn.Graph("g", [jn.TensorType("float32", ("n", 9, 8, 4), "x")]), (2, 9, 8, 4)
        graph.output(jn.avg_pool(graph.inputs[0], 3, 1, dilation, padding=1))
    made = agrees(graph, RNG.normal(size=shape).astype(np.float32), opset=opset)
    assert ("AveragePool" in operators(made)) == (opset >= 19 or dilation == 1)
    assert structure(jn.from_onnx(made)) == structure(graph) or not imported


POOLS: dict[str, tuple[Any, str]] = {
    "max": (lambda x: jn.max_pool(x, 3, 2), "MaxPool"),
    "max, padded": (lambda x: jn.max_pool(x, (2, 3), 2, padding=[(1, 0), (0, 2)]), "MaxPool"),
    "max, rounded up": (lambda x: jn.max_pool(x, 3, 2, padding=1, ceil_mode=True), "MaxPool"),
    "max, dilated": (lambda x: jn.max_pool(x, 3, 1, dilation=2, padding=2), "MaxPool"),
    "mean": (lambda x: jn.avg_pool(x, 3, 2), "AveragePool"),
    "mean, padded": (lambda x: jn.avg_pool(x, 3, (1, 3), padding=[(1, 0), (0, 2)]), "AveragePool"),
    "mean of elements": (lambda x: jn.avg_pool(x, 3, 2, padding=1, count_boundary=False), "AveragePool"),
    "mean, rounded up": (lambda x: jn.avg_pool(x, 3, 2, padding=1, ceil_mode=True), "AveragePool"),
    "mean of elements, rounded up": (lambda x: jn.avg_pool(x, 3, 2, 1, 1, True, count_boundary=False), "AveragePool"),
    "norm": (lambda x: jn.lp_pool(x, 3, 2, padding=1), "LpPool"),
    "norm, rounded up": (lambda x: jn.lp_pool(x, 2, 3, ceil_mode=True, p=3.0), "LpPool"),
}


@pytest.mark.one_in(12)
@pytest.mark.parametrize("case", POOLS)
@pytest.mark.parametrize("shape", [("n", "h", "w", 4), ("n", "h", 8, 4), (2, 9, "w", 4), (2, 9, 8, 4), (2, "h", "h", 4)])
def test_poolings_of_any_sizes_are_one_node(case: str, shape: tuple[Any, ...]) -> None:
    build, op = POOLS[case]
    graph = jn.Graph("g", [jn.TensorType("float32", shape, "x")])
    graph.output(build(graph.inputs[0]))
    made = exported(graph)
    assert operators(made) == ["Transpose", op, "Transpose"]
    for height, width in ((9, 8), (8, 8), (5, 6), (6, 5), (12, 7)):
        sizes = {"n": 3, "h": height, "w": height if shape[2] == "h" else width}
        whole = [sizes.get(extent, extent) for extent in shape]
        x = RNG.normal(size=whole).astype(np.float32)
        (got,) = by_onnxruntime(made, graph, [x])
        np.testing.assert_allclose(got, jn.evaluate(graph, x), rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(jn.evaluate(jn.from_onnx(made), x), jn.evaluate(graph, x), rtol=2e-5, atol=2e-5)
    again = exported(jn.from_onnx(made))
    assert operators(again) == operators(made)
    (got,) = by_onnxruntime(again, graph, [x])
    np.testing.assert_allclose(got, jn.evaluate(graph, x), rtol=2e-5, atol=2e-5)
