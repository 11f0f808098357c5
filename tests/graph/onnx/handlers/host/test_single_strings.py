"""Strings that are taken out of vectors one by one, written into them, and constants of strings, as onnxruntime has them."""

from __future__ import annotations

import importlib.util
from typing import Any

import joinery as jn
import numpy as np
import pytest

from .....support.onnx_models import ReferenceEvaluator, helper, node
from .....support.onnx_models import model as of_nodes
from .....support.onnx_texts import model, serves

pytestmark = pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="onnxruntime is not installed")
NAMES = np.array(["x", "yy", "z"], object)
GRID = np.array([["a", "bb"], ["c", "dd"], ["e", ""]], object)
ONE = np.array("one", object)


def where(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


CASES = {
    "the best class": ("(float[n] p) => (string y)", "a = ArgMax<keepdims=0>(p) y = Gather(names, a)", {"p": np.eye(3)[1]}),
    "the best classes": ("(float[b, 3] p) => (string[b] y)", "a = ArgMax<axis=1, keepdims=0>(p) y = Gather(names, a)",
                         {"p": np.eye(3)[[2, 0]]}),
    "a known position": ("(string[n] x) => (string y)", "i = Constant<value_int=-1>() y = Gather(x, i)", {"x": NAMES}),
    "GatherND": ("(string[n, m] x, int64[2] i) => (string y)", "y = GatherND(x, i)", {"x": GRID, "i": where(2, 0)}),
    "GatherElements": ("(string[n] x, int64[k] i) => (string[k] y)", "y = GatherElements(x, i)",
                       {"x": NAMES, "i": where(1, -1, 0, 1)}),
    "without its axis": ("(string[1] x) => (string y)",
                         "i = Constant<value_ints=[0]>() s = Squeeze(x, i) y = StringConcat(s, s)",
                         {"x": NAMES[:1]}),
    "selected": ("(bool c, string x, string z) => (string y)", "y = Where(c, x, z)",
                 {"c": np.array(True), "x": ONE, "z": np.array("", object)}),
    "of a sequence": ("(string[n] x, int64 i) => (string y)", "s = SplitToSequence<keepdims=0>(x) y = SequenceAt(s, i)",
                      {"x": NAMES, "i": np.array(1)}),
    "compared": ("(string[n] x, string s, int64 i) => (bool y)", "a = Gather(x, i) y = Equal(a, s)",
                 {"x": NAMES, "s": np.array("z", object), "i": np.array(2)}),
    "spread": ("(string x) => (string[2, 3] y)", "s = Constant<value_ints=[2, 3]>() y = Expand(x, s)", {"x": ONE}),
    "rows of a loop": ("(string[n] x, int64 trips) => (string[k] y)",
                       """go = Constant<value = bool {1}>() y = Loop(trips, go) <body = b(int64 i, bool c) =>
                           (bool d, string o) { d = Identity(c) o = Gather(x, i) }>""", {"x": NAMES, "trips": np.array(2)}),
    "the state of a loop": ("(string s, int64 trips) => (string y)",
                            """go = Constant<value = bool {1}>() y = Loop(trips, go, s) <body = b(int64 i, bool c, string a) =>
                                (bool d, string o) { d = Identity(c) o = StringConcat(a, a) }>""",
                            {"s": ONE, "trips": np.array(3)}),
    "of a branch": ("(bool c, string[n] x, int64 i, int64 j) => (string y)",
                    """y = If(c) <then_branch = p() => (string u) { u = Gather(x, i) }, else_branch = q() => (string w) {
                        w = Gather(x, j) }>""", {"c": np.array(False), "x": NAMES, "i": np.array(0), "j": np.array(2)}),
    "ScatterElements": ("(string[n] x, int64[k] i, string[k] u) => (string[n] y)", "y = ScatterElements(x, i, u)",
                        {"x": NAMES, "i": where(2, 0), "u": GRID[:2, 0]}),
    "ScatterElements along rows": ("(string[n, m] x, int64[k, l] i, string[k, l] u) => (string[n, m] y)",
                                   "y = ScatterElements<axis=1>(x, i, u)",
                                   {"x": GRID, "i": np.array([[1], [0], [-1]]), "u": NAMES[:, None]}),
    "ScatterElements of fewer rows": ("(string[3, 2] x, int64[1, 1] i, string[1, 1] u) => (string[3, 2] y)",
                                      "y = ScatterElements(x, i, u)", {"x": GRID, "i": np.array([[2]]), "u": GRID[:1, :1]}),
    "ScatterND": ("(string[n, m] x, int64[k, 1] i, string[k, m] u) => (string[n, m] y)", "y = ScatterND(x, i, u)",
                  {"x": GRID, "i": np.array([[2], [0]]), "u": GRID[:2]}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_single_strings(name: str) -> None:
    signature, body, feeds = CASES[name]
    made = model(signature, body, 20, **({"names": NAMES} if "names" in body else {}))
    feeds = {key: array.astype(np.float32) if array.dtype == np.float64 else array for key, array in feeds.items()}
    serves(made, feeds)


@pytest.mark.parametrize("reduction", ["add", "mul", "min", "max"])
@pytest.mark.parametrize("op", ["ScatterElements", "ScatterND"])
def test_strings_are_not_combined(op: str, reduction: str) -> None:
    tuples = "k" if op == "ScatterElements" else "k, 1"
    signature = f"(string[n] x, int64[{tuples}] i, string[k] u) => (string[n] y)"
    with pytest.raises(jn.UserError, match="values of string cannot be combined"):
        jn.from_onnx(model(signature, f'y = {op}<reduction="{reduction}">(x, i, u)'))


@pytest.mark.parametrize("value", [{"value_string": "b"}, {"value_strings": ["b", "é"]}, {"value_strings": ["", "b"]}])
@pytest.mark.parametrize("opset", [12, 20])
def test_constants_of_strings(value: dict[str, Any], opset: int) -> None:
    x = np.array(["b", "é"], object)
    made = model("(string[2] x) => (bool[2] y)", "y = Equal(x, k)", 20)
    made.graph.node.insert(0, helper.make_node("Constant", [], ["k"], **value))
    serves(made, {"x": x})
    alone = of_nodes([node("Constant", "", "k", **value)], {}, "k", opset=opset)
    (found,) = [jn.evaluate(jn.from_onnx(alone))]
    (want,) = ReferenceEvaluator(alone).run(None, {})
    assert (np.shape(found), np.asarray(found).tolist()) == (np.shape(want), np.asarray(want).tolist())


def test_constants_of_two_values_are_refused() -> None:
    made = of_nodes([node("Constant", "", "k", value_string="b", value_int=3)], {}, "k", opset=20)
    with pytest.raises(jn.UserError, match=r"2 values; one attribute of value, value_float, .*, value_strings is expected"):
        jn.from_onnx(made)
