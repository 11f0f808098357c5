"""An If whose branches return other sizes: data decides which, and onnxruntime returns the same."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from onnx import helper, numpy_helper

RNG = np.random.default_rng(5)


def floats(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def branch(name: str, nodes: list[Any], *outputs: str) -> Any:
    return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(each, 1, None) for each in outputs])


def model(then: Any, otherwise: Any, outputs: list[str], flag: bool = False) -> Any:
    """An If of whether the sum of x is positive, or of an input."""
    nodes = [] if flag else [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0), helper.make_node("Greater", ["sum", "zero"], ["going"]),
    ]  # fmt: skip
    nodes.append(helper.make_node("If", ["going"], outputs, then_branch=then, else_branch=otherwise))
    inputs = [helper.make_tensor_value_info("x", 1, ["n", 3])]
    inputs += [helper.make_tensor_value_info("going", 9, [])] if flag else []
    arrays = {"zero": np.float32(0), "mask": np.array(1), "one": np.array([1]), "two": np.array([2]), "none": np.array([0])}
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]
    results = [helper.make_tensor_value_info(name, 1, None) for name in outputs]
    graph = helper.make_graph(nodes, "g", inputs, results, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


TWICE = branch("then", [node("Concat", "x x", "a", axis=0)], "a")
CASES: dict[str, tuple[Any, Any, list[str]]] = {
    "twice or once": (TWICE, branch("else", [node("Neg", "x", "b")], "b"), ["y"]),
    "rows or columns": (
        branch("then", [node("Slice", "x none one", "a")], "a"),
        branch("else", [node("Slice", "x one two one", "b")], "b"), ["y"],
    ),
    "something or nothing": (
        branch("then", [node("Exp", "x", "a")], "a"), branch("else", [node("Slice", "x none none", "b")], "b"), ["y"],
    ),
    "sizes from data": (
        branch("then", [
            node("Greater", "x zero", "p"), node("NonZero", "p", "i"), node("Cast", "i", "a", to=1),
        ], "a"),
        branch("else", [node("Slice", "x none two", "s"), node("Transpose", "s", "t"), node("Slice", "t none two", "b")], "b"),
        ["y"],
    ),
    "two results": (
        branch("then", [node("Concat", "x x", "a", axis=0), node("Exp", "a", "c")], "a", "c"),
        branch("else", [node("Neg", "x", "b"), node("Abs", "x", "d")], "b", "d"), ["y", "z"],
    ),
    "large branches": (
        branch("then", [node("Concat", "x x", "a0", axis=0), *[node("Neg", f"a{k}", f"a{k + 1}") for k in range(6)]], "a6"),
        branch("else", [node("Neg", "x", "b0"), *[node("Neg", f"b{k}", f"b{k + 1}") for k in range(6)]], "b6"), ["y"],
    ),
}  # fmt: skip


@pytest.mark.one_in(6)
@pytest.mark.parametrize("case", CASES)
def test_the_branch_that_is_taken_decides_the_size(case: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    made = model(*CASES[case])
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    graph = jn.from_onnx(made)
    run = jn.compile(graph, device="cpu")
    x = np.abs(floats(4, 3))
    for given in (x, -x, x[:2], -x[:2]):
        want = session.run(None, {"x": given})
        for found in (jn.evaluate(graph, given), run(given)):
            for got, expected in zip(found if isinstance(found, tuple) else (found,), want, strict=True):
                assert got.shape == expected.shape
                np.testing.assert_allclose(got, expected, 1e-6, 1e-6)


def test_later_operations_use_the_size() -> None:
    then, otherwise, _ = CASES["twice or once"]
    made = model(then, otherwise, ["y"])
    made.graph.node.append(node("ReduceMean", "y", "m", keepdims=1))
    made.graph.node.append(node("Sub", "y m", "w"))
    made.graph.output[0].name = "w"
    run = jn.compile(jn.from_onnx(made), device="cpu")
    x = np.abs(floats(4, 3))
    np.testing.assert_allclose(run(x), np.concatenate([x, x]) - x.mean(), 1e-5, 1e-5)
    np.testing.assert_allclose(run(-x), x - x.mean(), 1e-5, 1e-5)


def test_other_ranks_and_conditions_that_are_arguments_name_the_fix() -> None:
    flat = branch("else", [node("ReduceSum", "x", "b", keepdims=0)], "b")
    with pytest.raises(jn.UnsupportedError, match=r"\(2\*n, 3\) and float32 \(\); fix: let both return tensors of one dtype"):
        jn.from_onnx(model(TWICE, flat, ["y"]))
    then, otherwise, _ = CASES["twice or once"]
    made = model(then, otherwise, ["y"], flag=True)
    with pytest.raises(jn.UnsupportedError, match=r"constants=\{'going': array\}"):
        jn.from_onnx(made)
    run = jn.compile_onnx(made, device="cpu")
    x = floats(2, 3)
    np.testing.assert_array_equal(run(x, np.array(True)), np.concatenate([x, x]))
    np.testing.assert_array_equal(run(x, np.array(False)), -x)
