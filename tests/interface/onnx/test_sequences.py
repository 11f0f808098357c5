"""Inputs that are sequences or optional: their tensors are arguments, and onnxruntime computes the same of the same lists."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from onnx import helper, numpy_helper

from ...support import onnx_texts as texts

FLOATS = helper.make_tensor_type_proto(1, None)
RNG = np.random.default_rng(1)


def floats(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def model(nodes: list[Any], inputs: dict[str, Any], outputs: list[str], constants: dict[str, Any] | None = None) -> Any:
    declared = [helper.make_value_info(name, kind) for name, kind in inputs.items()]
    results = [helper.make_tensor_value_info(name, 1, None) for name in outputs]
    tensors = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", declared, results, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def joining() -> Any:
    nodes = [
        helper.make_node("SequenceAt", ["xs", "last"], ["x"]), helper.make_node("ConcatFromSequence", ["xs"], ["all"], axis=0),
        helper.make_node("ReduceSum", ["all", "first"], ["sum"]), helper.make_node("Mul", ["sum", "x"], ["y"]),
    ]  # fmt: skip
    constants = {"last": np.array(-1), "first": np.array([0])}
    return model(nodes, {"xs": helper.make_sequence_type_proto(FLOATS)}, ["y"], constants)


def test_lists_are_arguments_and_their_values_are_not_compiled() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    made = joining()
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    run = jn.compile_onnx(made, device="cpu")
    for lengths in ((2, 1), (3,), (2, 1), (1, 4, 2), (2, 1)):
        arrays = [floats(length, 3) for length in lengths]
        (want,) = session.run(None, {"xs": arrays})
        np.testing.assert_allclose(run(arrays), want, 1e-5, 1e-6)
        np.testing.assert_allclose(run.run({"xs": arrays})["y"], want, 1e-5, 1e-6)
    assert len(run.models) == 3
    assert run.constants == ()


def test_the_graph_has_an_input_for_each_tensor() -> None:
    types = [jn.TensorType(jn.float32, ("n", 3)), jn.TensorType(jn.float32, (1, 3))]
    graph = jn.from_onnx(joining(), elements={"xs": types})
    assert [(symbol.name, str(symbol.shape[0])) for symbol in graph.inputs] == [("xs.0", "n"), ("xs.1", "1")]
    x, y = floats(4, 3), floats(1, 3)
    np.testing.assert_allclose(jn.evaluate(graph, x, y), (x.sum(0) + y[0]) * y, 1e-5, 1e-6)


def test_a_position_that_is_an_argument_is_specialised_to() -> None:
    nodes = [helper.make_node("SequenceAt", ["xs", "at"], ["y"])]
    at = helper.make_tensor_type_proto(7, [])
    run = jn.compile_onnx(model(nodes, {"xs": helper.make_sequence_type_proto(FLOATS), "at": at}, ["y"]), device="cpu")
    arrays = [floats(2), floats(3)]
    for position in (1, 0, -1):
        np.testing.assert_array_equal(run(arrays, np.array(position)), arrays[position])
    assert "at" in run.constants


def test_optionals_are_there_or_not() -> None:
    nodes = [
        helper.make_node("OptionalHasElement", ["o"], ["there"]),
        helper.make_node("If", ["there"], ["y"], then_branch=helper.make_graph(
            [helper.make_node("OptionalGetElement", ["o"], ["v"]), helper.make_node("Add", ["v", "x"], ["a"])], "then", [],
            [helper.make_tensor_value_info("a", 1, None)],
        ), else_branch=helper.make_graph(
            [helper.make_node("Neg", ["x"], ["b"])], "else", [], [helper.make_tensor_value_info("b", 1, None)])),
    ]  # fmt: skip
    inputs = {"o": helper.make_optional_type_proto(FLOATS), "x": helper.make_tensor_type_proto(1, ["n"])}
    made = model(nodes, inputs, ["y"])
    run = jn.compile_onnx(made, device="cpu")
    x, other = floats(3), floats(3)
    np.testing.assert_array_equal(run(other, x), other + x)
    np.testing.assert_array_equal(run(None, x), -x)
    np.testing.assert_array_equal(run(x, x), x + x)
    assert len(run.models) == 2
    graph = jn.from_onnx(made, elements={"o": jn.TensorType(jn.float32, ("n",))})
    assert [symbol.name for symbol in graph.inputs] == ["o", "x"]
    graph = jn.from_onnx(made, elements={"o": None})
    assert [symbol.name for symbol in graph.inputs] == ["x"]


def test_what_is_missing_or_wrong_is_named() -> None:
    with pytest.raises(jn.UnsupportedError, match=r"'xs' is a sequence.*fix: from_onnx\(…, elements=\{'xs': \[TensorType"):
        jn.from_onnx(joining())
    with pytest.raises(jn.UserError, match=r"elements\['xs'\] is 3; fix: a list of the TensorType of each element"):
        jn.from_onnx(joining(), elements={"xs": 3})
    with pytest.raises(jn.UserError, match=r"elements\['xs'\] has 'float32'; fix: a TensorType for each tensor"):
        jn.from_onnx(joining(), elements={"xs": ["float32"]})
    with pytest.raises(jn.UserError, match=r"elements has \['ys'\]; the inputs are xs"):
        jn.from_onnx(joining(), elements={"xs": [jn.TensorType(jn.float32, (1, 3))], "ys": []})
    made = model([helper.make_node("Neg", ["x"], ["y"])], {"x": helper.make_tensor_type_proto(1, ["n"])}, ["y"])
    with pytest.raises(jn.UserError, match=r"the input is a tensor; fix: elements= is for sequences and optionals"):
        jn.from_onnx(made, elements={"x": jn.TensorType(jn.float32, (1,))})
    with pytest.raises(jn.UserError, match=r"input 'xs' is str; fix: pass a NumPy array"):
        jn.compile_onnx(joining(), device="cpu")(["text"])


SPLITS = {
    "an element": ("(float[b, t] x, int64 i) => (float[n, t] y)", "s = SplitToSequence<axis=0, keepdims=KEPT> (x) "
                   "y = SequenceAt (s, i)"),
    "joined along another axis": ("(float[b, t] x, int64 i) => (float[u, v] y)", "s = SplitToSequence<axis=0, keepdims=1> (x) "
                                  "y = ConcatFromSequence<axis=1> (s)"),
    "stacked behind": ("(float[b, t] x, int64 i) => (float[u, v] y)", "s = SplitToSequence<axis=-1, keepdims=0> (x) "
                       "y = ConcatFromSequence<axis=1, new_axis=1> (s)"),
    "counted": ("(float[b, t] x, int64 i) => (int64 y)", "s = SplitToSequence<axis=1, keepdims=KEPT> (x) "
                "y = SequenceLength (s)"),
    "without one": ("(float[b, t] x, int64 i) => (float[u, v] y)", "s = SplitToSequence<axis=1, keepdims=1> (x) "
                    "r = SequenceErase (s, i) e = SequenceAt (s, i) l = SequenceInsert (r, e) "
                    "y = ConcatFromSequence<axis=1> (l)"),
    "three axes": ("(float[b, t, 2] x, int64 i) => (float[u, v, w] y)", "s = SplitToSequence<axis=1, keepdims=1> (x) "
                   "y = ConcatFromSequence<axis=0> (s)"),
}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize("case", SPLITS)
def test_slices_of_an_axis_of_any_size_are_one_model(case: str, kept: int) -> None:
    pytest.importorskip("onnxruntime")
    signature, body = SPLITS[case]
    last = (2,) if case == "three axes" else ()
    feeds = [{"x": floats(*shape, *last), "i": np.array(at)} for shape, at in (((2, 3), 1), ((4, 2), -1), ((5, 5), 0))]
    made = texts.model(signature if kept else signature.replace("[n, t] y", "[t] y"), body.replace("KEPT", str(kept)), 18)
    assert isinstance(texts.serves(made, *feeds), jn.Model)


def test_a_split_names_the_size_that_it_needs_and_no_other() -> None:
    made = texts.model(
        "(float[b, t] x) => (float[u, v] y)",
        """s = SplitToSequence<axis=0, keepdims=0> (x)
           m = SequenceMap (s) <body = f (float[t] e) => (float[t] o) { o = Neg (e) }>
           y = ConcatFromSequence<axis=0, new_axis=1> (m)""", 18,
    )  # fmt: skip
    with pytest.raises(jn.UnsupportedError, match=r"input 0 has b elements.*fix: from_onnx\(…, sizes={'b': number}\)"):
        jn.from_onnx(made)
    x = floats(3, 4)
    np.testing.assert_array_equal(jn.evaluate(jn.from_onnx(made, sizes={"b": 3}), x), -x)
    parts = texts.model("(float[b, t] x) => (float[b, u] y)", "n = Constant<value_int=2> () "
                        "s = SplitToSequence<axis=1>(x, n) z = Constant<value_int=0> () y = SequenceAt (s, z)", 18)  # fmt: skip
    with pytest.raises(jn.UnsupportedError, match=r"axis 1 of.* has t elements.*fix: from_onnx\(…, sizes={'t': number}\)"):
        jn.from_onnx(parts)
    np.testing.assert_array_equal(jn.evaluate(jn.from_onnx(parts, sizes={"t": 4}), x), x[:, :2])
