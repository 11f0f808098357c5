"""Scatters, TopK and CumProd of models, with positions and sizes that are known when the model runs only."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

RNG = np.random.default_rng(0)
TYPES = {"f": TensorProto.FLOAT, "i": TensorProto.INT64}


def model(
    op: str, inputs: dict[str, tuple[str, list[Any]]], outputs: dict[str, str], opset: int = 24, **attributes: Any
) -> Any:
    constants = {name: array for name, array in attributes.items() if isinstance(array, np.ndarray)}
    given = {name: value for name, value in attributes.items() if name not in constants}
    nodes = [helper.make_node(op, [*inputs, *constants], list(outputs), **given)]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(name, TYPES[kind], shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, TYPES[kind], None) for name, kind in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def agrees(made: Any, *arrays: Any) -> Any:
    """A graph whose compiled form computes what ONNX's own evaluator does, in one plan."""
    graph = jn.from_onnx(made)
    assert not graph.casts()
    compiled = jn.compile(graph, device="cpu", cache=False)
    assert compiled.kernels
    got = compiled(*arrays)
    want = ReferenceEvaluator(made).run(None, {i.name: a for i, a in zip(made.graph.input, arrays, strict=True)})
    for one, other in zip(got if isinstance(got, tuple) else (got,), want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    return graph


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "min", "max"])
def test_scatter_elements_at_positions_from_an_input(reduction: str) -> None:
    inputs = {"x": ("f", ["n", 6]), "i": ("i", ["n", "k"]), "u": ("f", ["n", "k"])}
    made = model("ScatterElements", inputs, {"y": "f"}, axis=1, reduction=reduction)
    positions = np.array([[0, -1, 3, 3], [5, 2, -6, 2]]) if reduction != "none" else np.array([[0, -1, 3], [5, 2, -6]])
    agrees(made, RNG.normal(size=(2, 6)).astype(np.float32), positions, RNG.normal(size=positions.shape).astype(np.float32))


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
def test_scatter_nd_at_positions_from_an_input(reduction: str) -> None:
    inputs = {"x": ("f", ["a", "b", 3]), "i": ("i", ["m", 2]), "u": ("f", ["m", 3])}
    made = model("ScatterND", inputs, {"y": "f"}, reduction=reduction)
    positions = np.array([[0, 1], [1, 3], [0, 0]])
    agrees(made, RNG.normal(size=(2, 4, 3)).astype(np.float32), positions, RNG.normal(size=(3, 3)).astype(np.float32))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("k", [1, 5, 20])
def test_top_k_of_an_axis_of_symbolic_size(largest: int, k: int) -> None:
    made = model("TopK", {"x": ("f", ["n", "m"])}, {"v": "f", "p": "i"}, k=np.array([k]), axis=0, largest=largest)
    agrees(made, RNG.integers(0, 9, (5000, 2)).astype(np.float32) if k == 20 else RNG.normal(size=(7, 3)).astype(np.float32))


@pytest.mark.parametrize("flags", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_running_products_of_an_axis_of_symbolic_size(flags: tuple[int, int]) -> None:
    given = {"axis": np.array(0, np.int64), "exclusive": flags[0], "reverse": flags[1]}
    made = model("CumProd", {"x": ("f", ["n", 3])}, {"y": "f"}, opset=26, **given)
    agrees(made, RNG.normal(size=(9, 3)).astype(np.float32))


def test_elements_go_back_to_where_max_pool_found_them() -> None:
    inputs = {"x": ("f", [1, 2, 2, 2]), "i": ("i", [1, 2, 2, 2])}
    made = model("MaxUnpool", inputs, {"y": "f"}, kernel_shape=[2, 2], strides=[2, 2])
    positions = np.array([0, 3, 9, 14, 17, 18, 28, 31]).reshape(1, 2, 2, 2)
    agrees(made, RNG.normal(size=(1, 2, 2, 2)).astype(np.float32), positions)


@pytest.mark.parametrize(
    ("op", "attributes", "text"),
    [
        ("ScatterElements", {"i": np.array([[7, 0]]), "u": np.zeros((1, 2), np.float32)}, "ScatterElements(.|\n)*position"),
        ("ScatterElements", {"i": np.array([[1, 0]]), "u": np.zeros((2, 2), np.float32)}, "ScatterElements"),
        ("ScatterND", {"i": np.array([[1, 9]]), "u": np.zeros(1, np.float32)}, "ScatterND(.|\n)*positions 9 to 9"),
        ("TopK", {"k": np.array([9])}, "TopK(.|\n)*k is 9, axis 1 has 5"),
        ("TopK", {"k": np.array([-1])}, "TopK(.|\n)*k is -1"),
    ],
)
def test_wrong_models_are_refused_by_node(op: str, attributes: dict[str, Any], text: str) -> None:
    outputs = {"v": "f", "p": "i"} if op == "TopK" else {"y": "f"}
    with pytest.raises(jn.UserError, match=text):
        jn.from_onnx(model(op, {"x": ("f", [2, 5])}, outputs, **attributes))
