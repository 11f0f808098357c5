"""Functions of several operations become the operator that means them, and come back. onnxruntime computes the same."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from onnx import helper, numpy_helper

from ....support.onnx_export.agreement import by_onnxruntime, exported
from ....support.onnx_export.structure import structure

pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(7)
FLOAT, INT32, INT64, BOOL, INT8 = 1, 6, 7, 9, 3
Types = list[tuple[str, int, list[Any]]]


def floats(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """Names are separated by blanks; "_" is one that is left out."""
    names = [[name.replace("_", "") for name in each.split()] for each in (inputs, outputs)]
    return helper.make_node(op, *names, **attributes)


def operators(made: Any) -> list[str]:
    return [each.op_type for each in made.graph.node]


def agrees(graph: Any, arrays: list[Any], tolerance: float = 2e-5, **options: Any) -> Any:
    made = exported(graph, **options)
    want = jn.evaluate(graph, *arrays)
    for got, expected in zip(by_onnxruntime(made, graph, arrays), want if isinstance(want, tuple) else (want,), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, tolerance, tolerance)
    return made


def comes_back(
    nodes: list[Any], types: Types, arrays: list[Any], outputs: str, opset: int = 21, weights: dict[str, Any] | None = None,
    tolerance: float = 2e-5,
) -> list[str]:  # fmt: skip
    """Import a model, export the graph, and return the operators; the graph and its values are as before."""
    inputs = [helper.make_tensor_value_info(*each) for each in types]
    results = [helper.make_tensor_value_info(name, 0, None) for name in outputs.split()]
    tensors = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    made = helper.make_graph(nodes, "g", inputs, results, tensors)
    graph = jn.from_onnx(helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=10))
    model = agrees(graph, arrays, tolerance, opset=opset)
    assert structure(jn.from_onnx(model)) == structure(graph)
    return operators(model)


# -- recurrent networks ------------------------------------------------------------------------------------------------

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
NETWORKS: list[tuple[str, dict[str, Any], Any]] = [
    *[(kind, {"direction": way}, "t") for kind in GATES for way in ("forward", "bidirectional")],
    *[(kind, {"direction": "reverse", "clip": 0.5}, 3) for kind in GATES],
    ("gru", {"linear_before_reset": True}, "t"), ("lstm", {"input_forget": True}, "t"),
    ("lstm", {"activations": ["Sigmoid", "Relu", "Tanh"]}, "t"), ("rnn", {"activations": ["Relu"]}, 1),
    ("gru", {"activations": ["HardSigmoid", "Tanh"]}, 2),
]  # fmt: skip


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("kind", "options", "steps"), NETWORKS)
def test_a_network_is_one_node(kind: str, options: dict[str, Any], steps: Any) -> None:
    directions = 2 if options.get("direction") == "bidirectional" else 1
    wide = GATES[kind] * 4
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (steps, "n", 3), "x")])
    shapes = {"w": (directions, wide, 3), "r": (directions, wide, 4), "b": (directions, 2 * wide)}
    weights = [graph.weight(name, floats(*shape)) for name, shape in shapes.items()]
    graph.output(*getattr(jn, kind)(graph.inputs[0], *weights, **options))
    made = agrees(graph, [floats(6 if steps == "t" else steps, 2, 3)])
    assert operators(made) == [kind.upper()]
    assert structure(jn.from_onnx(made)) == structure(graph)


def test_lengths_first_states_and_peepholes_are_inputs_of_the_node() -> None:
    types: Types = [
        ("x", FLOAT, ["t", "n", 3]), ("lengths", INT32, ["n"]), ("h", FLOAT, [1, "n", 4]), ("c", FLOAT, [1, "n", 4])
    ]  # fmt: skip
    weights = {"w": floats(1, 16, 3), "r": floats(1, 16, 4), "p": floats(1, 12)}
    arrays = [floats(6, 2, 3), np.array([3, 6], np.int32), floats(1, 2, 4), floats(1, 2, 4)]
    whole = node("LSTM", "x w r _ lengths h c p", "y yh yc", hidden_size=4)
    assert comes_back([whole], types, arrays, "y yh yc", weights=weights) == ["LSTM"]
    hard = node("LSTM", "x w r _ lengths h", "_ yh", hidden_size=4, activations=["HardSigmoid", "Tanh", "Tanh"])
    assert comes_back([hard], types[:3], arrays[:3], "yh", weights=weights) == ["LSTM"]


def test_layers_on_layers_with_batches_first() -> None:
    nodes = [
        node("Transpose", "x", "a", perm=[1, 0, 2]),
        node("LSTM", "a w r b", "y", hidden_size=4, direction="bidirectional"),
        node("Transpose", "y", "z", perm=[0, 2, 1, 3]), node("Reshape", "z shape", "u"),
        node("GRU", "u w2 r2 b2", "_ h", hidden_size=4, linear_before_reset=1), node("Relu", "h", "out"),
    ]  # fmt: skip
    weights = {
        "w": floats(2, 16, 3), "r": floats(2, 16, 4), "b": floats(2, 32), "shape": np.array([0, 0, -1]),
        "w2": floats(1, 12, 8), "r2": floats(1, 12, 4), "b2": floats(1, 24),
    }  # fmt: skip
    found = comes_back(nodes, [("x", FLOAT, ["n", "t", 3])], [floats(2, 6, 3)], "out", weights=weights)
    assert [op for op in found if op in ("LSTM", "GRU", "Loop", "Scan", "Relu")] == ["LSTM", "GRU", "Relu"]


def test_networks_beside_loops_whose_bodies_have_activations() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("t", 2, 3), "x")])
    (x,) = graph.inputs
    steps, h, _ = jn.lstm(x, graph.weight("w", floats(1, 16, 3)), graph.weight("r", floats(1, 16, 4)))
    _, rows = jn.scan(lambda s, v: (jn.leaky_relu(s + v, 0.1),) * 2, np.zeros((2, 3), np.float32), x)
    graph.output(steps * h, rows, h)
    made = agrees(graph, [floats(6, 2, 3)])
    scan = next(each for each in made.graph.node if each.op_type == "Scan")
    assert [each.op_type for each in scan.attribute[0].g.node if each.op_type != "Identity"] == ["Add", "LeakyRelu"]
    assert operators(made).count("LSTM") == 1
    assert structure(jn.from_onnx(made)) == structure(graph)


def test_a_network_whose_step_somebody_changed_is_none() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("t", 2, 3), "x")])
    w, r = graph.weight("w", floats(1, 4, 3)), graph.weight("r", floats(1, 4, 4))
    inputs = graph.inputs[0] @ w[0].transpose()
    turned = r[0].transpose()
    _, y = jn.scan(lambda h, x: (jn.tanh(x + h @ turned) * 2.0,) * 2, np.zeros((2, 4), np.float32), inputs)
    graph.output(y)
    assert "RNN" not in operators(agrees(graph, [floats(5, 2, 3)]))


# -- images ------------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("outside", ["zeros", "border", "reflection"])
def test_samples_of_a_grid_are_one_node(mode: str, outside: str) -> None:
    types: Types = [("x", FLOAT, ["n", 3, "h", "w"]), ("grid", FLOAT, ["n", 2, 3, 2])]
    made = node("GridSample", "x grid", "y", mode=mode, padding_mode=outside, align_corners=int(outside == "border"))
    assert comes_back([made], types, [floats(2, 3, 5, 4), floats(2, 2, 3, 2)], "y", 20, tolerance=1e-4) == ["GridSample"]


def test_samples_with_channels_last_are_turned_and_volumes_need_opset_20() -> None:
    shapes = {"x": ("n", 4, 5, 6, 2), "p": ("n", 2, 2, 2, 3)}
    graph = jn.Graph("g", [jn.TensorType(jn.float32, shape, name) for name, shape in shapes.items()])
    graph.output(jn.grid_sample(*graph.inputs))
    arrays = [floats(2, 4, 5, 6, 2), floats(2, 2, 2, 2, 3)]
    assert operators(agrees(graph, arrays)) == ["Transpose", "GridSample", "Transpose"]
    assert "GridSample" not in operators(exported(graph, opset=19))


def test_bins_of_regions_are_one_node() -> None:
    types: Types = [("x", FLOAT, [2, 3, "h", "w"]), ("rois", FLOAT, ["k", 4]), ("which", INT64, ["k"])]
    arrays = [floats(2, 3, 8, 9), np.array([[1, 2, 9, 11], [0, 0, 5, 5]], np.float32), np.array([0, 1])]
    sizes = {"output_height": 2, "output_width": 3, "sampling_ratio": 2}
    made = node("RoiAlign", "x rois which", "y", spatial_scale=0.3, **sizes)
    assert comes_back([made], types, arrays, "y", tolerance=1e-4) == ["RoiAlign"]
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (2, 8, 9, 3), "x"), *[
        jn.TensorType(dtype, shape, name) for name, dtype, shape in (("r", "float32", ("k", 4)), ("i", "int64", ("k",)))
    ]])  # fmt: skip
    graph.output(jn.roi_align(*graph.inputs, 2, mode="max", half_pixel=False))
    arrays[0] = arrays[0].transpose(0, 2, 3, 1)
    assert operators(agrees(graph, arrays, 1e-4)) == ["Transpose", "RoiAlign", "Transpose"]
    uneven = jn.Graph("g", [jn.TensorType(symbol.dtype, symbol.shape, symbol.name) for symbol in graph.inputs])
    uneven.output(jn.roi_align(*uneven.inputs, 2, spatial_scale=0.3))  # in float64, which no attribute holds
    assert "RoiAlign" not in operators(exported(uneven))


# -- activations -------------------------------------------------------------------------------------------------------

ACTIVATIONS: dict[str, Any] = {
    "LeakyRelu": lambda x: jn.leaky_relu(x, 0.3), "Elu": lambda x: jn.elu(x, 1.5), "Celu": lambda x: jn.celu(x, 2.0),
    "Selu": jn.selu, "Softplus": jn.softplus, "Softsign": jn.softsign, "Mish": jn.mish, "HardSwish": jn.hard_swish,
    "HardSigmoid": lambda x: jn.hard_sigmoid(x, 1 / 6, 0.5), "Shrink": lambda x: jn.shrink(x, 0.7, 0.2),
    "ThresholdedRelu": lambda x: jn.thresholded_relu(x, 0.4), "PRelu": lambda x: jn.prelu(x, floats(3)),
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_one_node(name: str) -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n", 3), "x")])
    graph.output(ACTIVATIONS[name](graph.inputs[0]))
    special = np.array([[0, -0.0, np.nan], [-30, 40, 1e-20]] + [[np.inf, 1, -1]] * (name != "Mish"), np.float32)
    made = agrees(graph, [np.concatenate([floats(40, 3) * 3, special])])
    assert operators(made) == [name]
    assert structure(jn.from_onnx(made)) == structure(graph)


def test_activations_of_other_dtypes_and_opsets_stay_apart() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float64, ("n",), "x")])
    graph.output(jn.leaky_relu(graph.inputs[0], 0.1))  # float32 attributes round it
    assert "LeakyRelu" not in operators(exported(graph))
    swish = jn.Graph("g", [jn.TensorType(jn.float32, ("n",), "x")])
    swish.output(swish.inputs[0] * jn.sigmoid(swish.inputs[0] * 0.5))
    assert operators(exported(swish)) == ["Mul", "Sigmoid", "Mul"]
    assert operators(exported(swish, opset=24)) == ["Swish"]


# -- codes -------------------------------------------------------------------------------------------------------------


def test_dynamic_quantisation_and_products_of_codes_are_their_nodes() -> None:
    nodes = [
        node("DynamicQuantizeLinear", "x", "a scale zero"), node("MatMulInteger", "a w zero own", "sums"),
        node("Cast", "sums", "f", to=FLOAT), node("Mul", "f scale", "y"),
    ]  # fmt: skip
    signed = {"w": RNG.integers(-100, 100, (6, 5)).astype(np.int8), "own": np.array(3, np.int8)}
    unsigned = {"w": RNG.integers(0, 200, (6, 5)).astype(np.uint8), "own": RNG.integers(0, 200, 5).astype(np.uint8)}
    for weights in (signed, unsigned):
        found = comes_back(nodes, [("x", FLOAT, ["n", 6])], [floats(3, 6)], "y", weights=weights)
        assert found == ["DynamicQuantizeLinear", "MatMulInteger", "Cast", "Mul"]
    codes = [RNG.integers(-100, 100, shape).astype(np.int8) for shape in ((2, 6), (6, 3))]
    plain = [node("MatMulInteger", "a b", "y")]
    assert comes_back(plain, [("a", INT8, ["n", 6]), ("b", INT8, [6, 3])], codes, "y") == ["MatMulInteger"]
    conv = [nodes[0], node("ConvInteger", "a w zero", "y", pads=[1, 1, 1, 1])]
    kernel = {"w": RNG.integers(-100, 100, (4, 3, 3, 3)).astype(np.int8)}
    found = comes_back(conv, [("x", FLOAT, ["n", 3, 6, 6])], [floats(3, 3, 6, 6)], "y", weights=kernel)
    assert found == ["DynamicQuantizeLinear", "ConvInteger"]


def test_codes_alone_are_read() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n", 4), "x")])
    graph.output(jn.dynamic_quantize(graph.inputs[0])[0])
    assert operators(agrees(graph, [floats(5, 4)])) == ["DynamicQuantizeLinear"]


# -- transformers ------------------------------------------------------------------------------------------------------

HEADS: Types = [("q", FLOAT, ["n", 4, "l", 8]), ("k", FLOAT, ["n", 2, "s", 8]), ("v", FLOAT, ["n", 2, "s", 6])]
CACHES: Types = [("pk", FLOAT, ["n", 2, "p", 8]), ("pv", FLOAT, ["n", 2, "p", 6])]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("opset", [23, 24])
@pytest.mark.parametrize("causal", [0, 1])
def test_attention_with_caches_and_masks_is_one_node(opset: int, causal: int) -> None:
    heads, caches = [floats(2, 4, 3, 8), floats(2, 2, 5, 8), floats(2, 2, 5, 6)], [floats(2, 2, 4, 8), floats(2, 2, 4, 6)]
    cached = node("Attention", "q k v _ pk pv", "y keys values", is_causal=causal, softcap=2.0)
    assert comes_back([cached], [*HEADS, *CACHES], [*heads, *caches], "y keys values", opset) == ["Attention"]
    for mask in (("mask", FLOAT, ["n", 1, "l", "s"]), ("mask", BOOL, ["l", "s"])):
        array = floats(2, 1, 3, 5) if mask[1] == FLOAT else np.array([[1, 0, 1, 1, 0], [1] * 5, [0, 0, 0, 1, 1]], bool)
        made = node("Attention", "q k v mask", "y", is_causal=causal, scale=0.1)
        assert comes_back([made], [*HEADS, mask], [*heads, array], "y", opset) == ["Attention"]
    if opset == 23:
        long = ("mask", BOOL, ["l", "all"])
        made = node("Attention", "q k v mask pk pv", "y keys", is_causal=causal)
        found = comes_back([made], [*HEADS, long, *CACHES], [*heads, RNG.random((3, 9)) > 0.4, *caches], "y keys", opset)
        assert found == ["Attention"]


def test_attention_of_the_graph_is_a_node_from_opset_23_on() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, tuple(shape), name) for name, _, shape in HEADS])
    graph.output(jn.attention(*graph.inputs, is_causal=True))
    arrays = [floats(2, 4, 3, 8), floats(2, 2, 5, 8), floats(2, 2, 5, 6)]
    assert operators(agrees(graph, arrays, opset=23)) == ["Attention"]
    assert "MatMul" in operators(agrees(graph, arrays))


def test_heads_side_by_side_are_split_around_the_node() -> None:
    types: Types = [("q", FLOAT, ["n", "l", 32]), ("k", FLOAT, ["n", "s", 16]), ("v", FLOAT, ["n", "s", 16])]
    made = node("Attention", "q k v", "y", q_num_heads=4, kv_num_heads=2)
    found = comes_back([made], types, [floats(2, 3, 32), floats(2, 5, 16), floats(2, 5, 16)], "y", 23)
    assert found.count("Attention") == 1
    assert "Softmax" not in found


def test_rotated_positions_are_one_node() -> None:
    tables: Types = [("c", FLOAT, [20, 3]), ("s", FLOAT, [20, 3]), ("p", INT64, ["n", "l"])]
    arrays = [floats(20, 3), floats(20, 3), np.arange(10).reshape(2, 5)]
    made = node("RotaryEmbedding", "x c s p", "y", num_heads=4, rotary_embedding_dim=6)
    found = comes_back([made], [("x", FLOAT, ["n", "l", 32]), *tables], [floats(2, 5, 32), *arrays], "y", 23)
    assert found.count("RotaryEmbedding") == 1
    assert "Mul" not in found[found.index("RotaryEmbedding") :]
    graph = jn.Graph("g", [jn.TensorType(jn.float32, shape, name) for name, shape in (
        ("x", ("n", 4, "l", 8)), ("c", ("n", "l", 4)), ("s", ("n", "l", 4)))])  # fmt: skip
    graph.output(jn.rotary_embedding(*graph.inputs, interleaved=True))
    given = [floats(2, 4, 3, 8), floats(2, 3, 4), floats(2, 3, 4)]
    assert operators(agrees(graph, given, opset=23)) == ["RotaryEmbedding"]
    assert "Mul" in operators(agrees(graph, given))


@pytest.mark.parametrize("dtype", ["float32", "int64", "float16"])
def test_elements_and_positions_of_top_k_are_one_node(dtype: str) -> None:
    g = jn.Graph("g", [jn.TensorType(dtype, ("n", 8), "x")])
    values, positions = jn.top_k(g.inputs[0], 3)
    smallest, _ = jn.bottom_k(g.inputs[0], 2)
    g.output(values, positions, smallest)
    made = jn.to_onnx(g)
    if dtype != "float16":  # which is carried in float32, function by function
        assert [node.op_type for node in made.graph.node if node.op_type != "Identity"] == ["TopK", "TopK"]
    assert structure(jn.from_onnx(made)) == structure(g)
    again = jn.to_onnx(jn.from_onnx(made))
    assert len(again.graph.node) == len(made.graph.node)
    x = (np.random.default_rng(0).normal(size=(4, 8)) * 50).astype(dtype)
    for found, wanted in zip(by_onnxruntime(made, g, [x]), jn.evaluate(g, x), strict=True):
        np.testing.assert_array_equal(found, wanted)
