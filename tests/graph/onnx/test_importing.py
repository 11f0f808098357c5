"""How a model becomes a graph: order, scopes, functions, optional inputs, subgraphs, folding, names and messages."""

from __future__ import annotations

import math
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ...support.onnx_models import agrees, body, code, evaluated, helper, model, node, numpy_helper

F = np.float32
X = np.linspace(-2, 2, 6, dtype=F).reshape(2, 3)


def test_nodes_may_stand_in_any_order() -> None:
    made = model([node("Neg", "a", "y"), node("Exp", "x", "a")], {"x": (F, [2, 3])})
    np.testing.assert_allclose(evaluated(made, X)[0], -np.exp(X), rtol=1e-6)


def test_an_output_may_be_an_input_a_constant_or_another_output() -> None:
    made = model([node("Neg", "x", "y")], {"x": (F, [2, 3])}, "y x c y2", constants={"c": X})
    made.graph.node.append(node("Identity", "y", "y2"))
    y, x, c, again = evaluated(made, X)
    for one, other in ((y, -X), (x, X), (c, X), (again, -X)):
        np.testing.assert_array_equal(one, other)


def test_initialisers_are_weights_also_where_they_are_listed_as_inputs() -> None:
    made = model([node("Add", "x w")], {"x": (F, [2, 3]), "w": (F, [3])}, constants={"w": np.ones(3, F)})
    graph = jn.from_onnx(made)
    assert [symbol.name for symbol in graph.inputs] == ["x"]
    assert list(graph.weights) == ["w"]
    np.testing.assert_array_equal(jn.evaluate(jn.from_onnx(made, constants={"w": np.zeros(3, F)}), X), X)


def test_what_is_constant_is_folded_by_the_evaluator() -> None:
    nodes = [node("Exp", "c", "a"), node("ReduceSum", "a _", "s"), node("Mul", "x s")]
    graph = jn.from_onnx(model(nodes, {"x": (F, [2, 3])}, constants={"c": X}))
    assert [symbol.op.name for symbol in graph.symbols] == ["input", "constant", "mul"]
    np.testing.assert_allclose(jn.evaluate(graph, X), X * np.exp(X).sum(keepdims=True), rtol=1e-6)


def test_large_constants_are_computed_by_runs() -> None:
    made = model([node("Exp", "c", "a"), node("Add", "x a")], {"x": (F, [2, 3])}, constants={"c": X})
    graph = jn.from_onnx(made, limits=jn.OnnxLimits(folded_bytes=8))
    assert "exp" in [symbol.op.name for symbol in graph.symbols]
    np.testing.assert_allclose(jn.evaluate(graph, X), X + np.exp(X), rtol=1e-6)


def test_a_tensor_of_one_number_takes_no_memory() -> None:
    shape = np.array([1 << 20, 1 << 20], np.int64)
    filled = node("ConstantOfShape", "s", "c", value=numpy_helper.from_array(np.array([2.5], F)))
    nodes = [filled, node("Gather", "c i", "r"), node("Gather", "r i", "e"), node("Add", "x e")]
    graph = jn.from_onnx(model(nodes, {"x": (F, [2, 3])}, constants={"s": shape, "i": np.array(3, np.int64)}))
    assert all(symbol.size <= 1 for symbol in graph.symbols if symbol.op.name in ("constant", "weight"))
    np.testing.assert_array_equal(jn.compile(graph, device="cpu", cache=False)(X), X + F(2.5))


def function(name: str, inputs: list[str], outputs: list[str], nodes: list[Any], **options: Any) -> Any:
    return helper.make_function("own", name, inputs, outputs, nodes, [helper.make_opsetid("", 23)], **options)


def test_functions_are_inlined_with_attributes_by_reference() -> None:
    inner = node("LeakyRelu", "a", "b")
    reference = inner.attribute.add(name="alpha", type=1)
    reference.ref_attr_name = "slope"
    scale = node("Constant", "", "k")
    factor = scale.attribute.add(name="value_float", type=1)
    factor.ref_attr_name = "factor"
    leaky = function("Leaky", ["a"], ["c"], [inner, scale, node("Mul", "b k", "c")], attributes=["slope"],
                     attribute_protos=[helper.make_attribute("factor", 3.0)])  # fmt: skip
    outer_call = node("Leaky", "p", "q", domain="own")
    outer_call.attribute.add(name="slope", type=1).ref_attr_name = "outer"
    twice = function("Twice", ["p"], ["r"], [outer_call, node("Add", "q q", "r")], attributes=["outer"])
    twice.opset_import.append(helper.make_opsetid("own", 1))
    calls = [node("Twice", "x", "y", domain="own", outer=0.25), node("Leaky", "x", "z", domain="own", factor=2.0)]
    made = model(calls, {"x": (F, [2, 3])}, "y z", functions=[leaky, twice], domains={"own": 1})
    y, z = evaluated(made, X)
    np.testing.assert_allclose(y, 2 * 3 * np.where(X < 0, X * F(0.25), X), rtol=1e-6)
    np.testing.assert_allclose(z, 2 * np.where(X < 0, X * F(0.01), X), rtol=1e-6)


def test_a_body_does_not_see_the_names_of_its_caller() -> None:
    hidden = function("Reads", ["a"], ["b"], [node("Add", "a x", "b")])
    made = model([node("Reads", "x", "y", domain="own")], {"x": (F, [2, 3])}, functions=[hidden], domains={"own": 1})
    with pytest.raises(jn.UserError, match="reads 'x', which nothing defines"):
        jn.from_onnx(made)


def test_a_body_has_its_own_opset() -> None:
    """Axes of a sum are an attribute before opset 13."""
    old = helper.make_function(
        "own", "Old", ["a"], ["b"], [node("ReduceSum", "a", "b", axes=[1])], [helper.make_opsetid("", 11)]
    )
    made = model([node("Old", "x", "y", domain="own")], {"x": (F, [2, 3])}, functions=[old], domains={"own": 1})
    np.testing.assert_allclose(evaluated(made, X)[0], X.sum(1, keepdims=True), rtol=1e-6)


def test_optional_inputs_and_outputs_may_be_left_out() -> None:
    nodes = [node("Clip", "x _ high", "a"), node("Dropout", "a", "y _")]
    agrees(model(nodes, {"x": (F, [2, 3]), "high": (F, [])}), X, np.array(0.5, F))


def test_subgraphs_capture_shadow_and_return_outer_values() -> None:
    then = body([node("Mul", "x x", "t")], {}, "t")
    otherwise = body([node("Neg", "x", "x2")], {}, "x")
    made = model(
        [node("If", "c", "y", then_branch=then, else_branch=otherwise)], {"x": (F, [2, 3])}, constants={"c": np.array(True)}
    )
    np.testing.assert_array_equal(evaluated(made, X)[0], X * X)
    made.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array(False), "c"))
    np.testing.assert_array_equal(evaluated(made, X)[0], X)


def test_a_branch_that_is_data_selects() -> None:
    then, otherwise = body([node("Exp", "x", "t")], {}, "t"), body([node("Neg", "x", "e")], {}, "e")
    made = model([node("If", "c", "y", then_branch=then, else_branch=otherwise)], {"x": (F, [2, 3]), "c": (np.bool_, [])})
    for condition in (True, False):
        agrees(made, X, np.array(condition))


def test_branches_of_different_shapes_need_the_value() -> None:
    then = body([node("ReduceSum", "x _", "t")], {}, "t")
    made = model([node("If", "c", "y", then_branch=then, else_branch=body([node("Neg", "x", "e")], {}, "e"))],
                 {"x": (F, [2, 3]), "c": (np.bool_, [])})  # fmt: skip
    with pytest.raises(jn.UnsupportedError, match=r"values of an input; fix: from_onnx.*constants=\{'c': array\}"):
        jn.from_onnx(made)
    agrees(made, X, constants={"c": np.array(True)})


def loop_body(nodes: list[Any], outputs: str) -> Any:
    return body(nodes, {"i": (np.int64, []), "going": (np.bool_, []), "s": (F, [3])}, outputs)


def test_loops_unroll_with_captures_and_scanned_outputs() -> None:
    nodes = [node("Identity", "going", "on"), node("Add", "s w", "s2"), node("Cast", "i", "f", to=1), node("Mul", "s2 f", "o")]
    inner = loop_body(nodes, "on s2 o")
    made = model([node("Loop", "m c s0", "last all", body=inner)], {"s0": (F, [3]), "w": (F, [3])}, "last all",
                 constants={"m": np.array(3, np.int64), "c": np.array(True)})  # fmt: skip
    agrees(made, np.arange(3, dtype=F), np.ones(3, F))


@pytest.mark.parametrize("limit", [0.5, 3.5, 100.0])
def test_loops_with_a_bound_may_end_early(limit: float) -> None:
    inner = loop_body(
        [node("Add", "s w", "s2"), node("ReduceSum", "s2 _", "t", keepdims=0), node("Less", "t limit", "on")], "on s2"
    )
    made = model([node("Loop", "m c s0", "y", body=inner)], {"s0": (F, [3]), "w": (F, [3]), "limit": (F, [])},
                 constants={"m": np.array(4, np.int64), "c": np.array(True)})  # fmt: skip
    agrees(made, np.zeros(3, F), np.ones(3, F), np.array(limit, F))


def test_a_loop_that_only_data_ends() -> None:
    inner = loop_body(
        [node("Add", "s w", "s2"), node("ReduceSum", "s2 _", "t", keepdims=0), node("Less", "t limit", "on")], "on s2"
    )
    made = model([node("Loop", "_ c s0", "y", body=inner)], {"s0": (F, [3]), "w": (F, [3]), "limit": (F, [])},
                 constants={"c": np.array(True)})  # fmt: skip
    for limit in (0.5, 3.5, 100.0):
        agrees(made, np.zeros(3, F), np.ones(3, F), np.array(limit, F))


@pytest.mark.slow
def test_a_loop_without_end_meets_the_limit() -> None:
    inner = loop_body([node("Identity", "going", "on"), node("Neg", "s", "s2")], "on s2")
    made = model([node("Loop", "_ _ s0", "y", body=inner)], {"s0": (F, [3])})
    with pytest.raises(jn.UserError, match="unrolled to more than 10000"):
        jn.from_onnx(made)


def test_a_loop_of_no_trips_returns_its_state_and_nothing_scanned() -> None:
    inner = loop_body([node("Identity", "going", "on"), node("Neg", "s", "s2"), node("Neg", "s", "o")], "on s2 o")
    inner.output[2].CopyFrom(helper.make_tensor_value_info("o", 1, [3]))
    made = model(
        [node("Loop", "m _ s0", "last all", body=inner)], {"s0": (F, [3])}, "last all", constants={"m": np.array(0, np.int64)}
    )
    last, everything = evaluated(made, np.arange(3, dtype=F))
    np.testing.assert_array_equal(last, np.arange(3))
    assert everything.shape == (0, 3)


@pytest.mark.parametrize("backwards", [0, 1])
def test_scans_run_in_either_direction(backwards: int) -> None:
    inner = body([node("Add", "s x", "s2"), node("Identity", "s2", "o")], {"s": (F, [2]), "x": (F, [2])}, "s2 o")
    scan = node("Scan", "s0 xs", "last all", body=inner, num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[-1],
                scan_input_directions=[backwards], scan_output_directions=[backwards])  # fmt: skip
    made = model([scan], {"s0": (F, [2]), "xs": (F, [2, 3])}, "last all")
    last, everything = evaluated(made, np.zeros(2, F), X)
    order = X[:, ::-1] if backwards else X
    sums = np.cumsum(order, axis=1)
    np.testing.assert_allclose(last, X.sum(1), atol=1e-6)
    np.testing.assert_allclose(everything, sums[:, ::-1] if backwards else sums, atol=1e-6)


def test_sequences_never_reach_the_graph() -> None:
    nodes = [node("SplitToSequence", "x", "parts", axis=1, keepdims=0), node("SequenceAt", "parts i", "first"),
             node("SequenceErase", "parts i", "rest"), node("SequenceInsert", "rest first", "back"),
             node("ConcatFromSequence", "back", "y", axis=0, new_axis=1), node("SequenceLength", "back", "n")]  # fmt: skip
    agrees(model(nodes, {"x": (F, [2, 3])}, "y n", constants={"i": np.array(0, np.int64)}), X)


def test_an_output_that_is_a_sequence_becomes_several() -> None:
    graph = jn.from_onnx(model([node("SplitToSequence", "x", "y", axis=0)], {"x": (F, [2, 3])}))
    assert graph.output_names == ("y.0", "y.1")


def test_a_symbol_says_which_node_of_which_file_it_is(tmp_path: Any) -> None:
    path = tmp_path / "small.onnx"
    made = model([node("Exp", "x", "a"), node("Gelu", "a", "y", name="act")], {"x": (F, [2, 3])})
    path.write_bytes(made.SerializeToString())
    graph = jn.from_onnx(path)
    assert "at small.onnx:1 in Gelu 'act'" in graph.outputs[0].why()
    assert jn.from_onnx(made.SerializeToString()).canonical_key() == graph.canonical_key()


def test_symbols_of_functions_name_the_call_that_they_are_inside_of() -> None:
    graph = jn.from_onnx(
        model([node("Neg", "x", "a"), node("MeanVarianceNormalization", "a", name="mvn", axes=[1])], {"x": (F, [2, 3])})
    )
    assert str(graph.outputs[0].location).startswith("graph:1 in MeanVarianceNormalization 'mvn' > ")


def test_errors_name_file_node_operands_and_fix() -> None:
    made = model([node("Exp", "x", "a"), node("MatMul", "a a", "y", name="bad")], {"x": (F, [2, 3])})
    with pytest.raises(
        jn.UserError, match=r"(?s)^graph: node 1 \(MatMul 'bad'\) on float32 \(2, 3\), float32 \(2, 3\): matmul: .*fix:"
    ):
        jn.from_onnx(made)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (node("Exp", "x", "y", extra=1), "attribute 'extra' is unknown since version 13"),
        (node("Nothing", "x"), "operator Nothing of domain ai.onnx, opset 23, is not supported"),
        (node("Exp", "x x"), "2 inputs, the operator takes 1"),
        (node("Exp", "x", domain="other"), "the model imports no opset of domain 'other'"),
        (node("BatchNormalization", "x x x x x", "y", momentum="high"), None),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused(made: Any, message: str | None) -> None:
    if message is None:  # vectors of another length
        message = "node 0"
    with pytest.raises(jn.JoineryError, match=message):
        jn.from_onnx(model([made], {"x": (F, [2, 3])}))


def test_outputs_that_nobody_makes_are_refused() -> None:
    made = model([node("Dropout", "x", "y m", is_test=1)], {"x": (F, [2, 3])}, "y m", opset=6)
    assert [each.shape for each in evaluated(made, X)] == [(2, 3), (2, 3)]
    pool = node("MaxPool", "x", "y i", kernel_shape=[2])
    found = evaluated(model([pool], {"x": (F, [1, 2, 3])}, "y i"), X[None])
    np.testing.assert_array_equal(found[1], [[[1, 2], [4, 5]]])


def test_inputs_made_constants_are_checked() -> None:
    made = model([node("Reshape", "x s")], {"x": (F, [2, 3]), "s": (np.int64, [2])})
    with pytest.raises(
        jn.UnsupportedError, match=r"the shape of Reshape depends on the values of an input; fix: .*\{'s': array\}"
    ) as caught:
        jn.from_onnx(made)
    assert caught.value.inputs == ("s",)
    agrees(made, X, constants={"s": np.array([3, -1])})
    for bad, message in (([1, 2], "expected an array"), (np.zeros(2, F), "is float32, the input is int64"),
                         (np.zeros(3, np.int64), "has shape")):  # fmt: skip
        with pytest.raises(jn.UserError, match=message):
            jn.from_onnx(made, constants={"s": bad})
    with pytest.raises(jn.UserError, match=r"constants has \['z'\]; the inputs are x, s"):
        jn.from_onnx(made, constants={"z": np.zeros(3)})


def test_dims_get_names() -> None:
    made = model([node("Neg", "x")], {"x": (F, ["batch", "2*n", None, "a-b/c", -1, 3])})
    assert [str(extent) for extent in jn.from_onnx(made).inputs[0].shape] == ["batch", "2*n", "x_2", "a_b_c", "x_4", "3"]


def test_dims_of_two_names_may_be_equal_at_launch() -> None:
    graph = jn.from_onnx(model([node("Add", "x y", "z")], {"x": (F, ["a"]), "y": (F, ["b"])}, "z"))
    np.testing.assert_array_equal(jn.evaluate(graph, X[0], X[1]), X[0] + X[1])
    with pytest.raises(jn.UserError, match="a is 3, not b = 2"):
        jn.evaluate(graph, X[0], X[1, :2])


def test_missing_values_give_infinities_of_constants() -> None:
    """-inf and NaN go through folding as they are."""
    made = model([node("Log", "c", "a"), node("Add", "x a")], {"x": (F, [2])}, constants={"c": np.array([0, -1], F)})
    found = evaluated(made, np.zeros(2, F))[0]
    assert found[0] == -math.inf
    assert math.isnan(found[1])


def test_the_codes_are_onnx_s() -> None:
    assert code(F) == 1
