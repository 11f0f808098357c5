"""Ifs whose branches return tensors of different ranks, where data decides which one is taken, against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ...support.onnx_texts import by_onnxruntime, model

pytest.importorskip("onnxruntime")

COLUMN = "float[n] x"
EITHER = """one = Constant <value = int64[1] {1}> () zero = Constant <value = float {0.0}> ()
    total = ReduceSum <keepdims = 0> (x) c = Greater (total, zero)"""
TURNED = """<then_branch = a () => (float[k, 1] p) { p = Unsqueeze (x, one) },
    else_branch = b () => (float[n] q) { q = Neg (x) }>"""


def made(nodes: str, inputs: str = COLUMN, outputs: str = "float y") -> Any:
    return model(f"({inputs}) => ({outputs})", nodes)


def runs(count: int = 5) -> list[dict[str, Any]]:
    rng = np.random.default_rng(3)
    positive = np.abs(rng.standard_normal(count)).astype(np.float32)
    return [{"x": positive}, {"x": -positive}, {"x": positive[:1]}, {"x": -positive[:1]}]


def agrees(one: Any, feeds: list[dict[str, Any]], tmp_path: Path | None = None) -> Any:
    """One compiled model, the evaluator, and the model from its file return what onnxruntime does."""
    graph = jn.from_onnx(one)
    compiled = jn.compile_onnx(one, device="cpu", threads=1)
    for each in feeds:
        expected = by_onnxruntime(one, each)
        defined = jn.evaluate(graph, *[each[str(symbol.name)] for symbol in graph.inputs])
        for found in (list(compiled.run(each).values()), defined if isinstance(defined, tuple) else (defined,)):
            for value, want in zip(found, expected, strict=True):
                assert (value.dtype, value.shape) == (want.dtype, want.shape)
                np.testing.assert_allclose(value, want, 1e-5, 1e-6)
    if tmp_path is not None:
        model_ = jn.compile(graph, device="cpu", cache=False)
        model_.save(tmp_path / "m.joinery")
        again = jn.load(tmp_path / "m.joinery", device="cpu")
        for each in feeds:
            np.testing.assert_allclose(again(*each.values()), by_onnxruntime(one, each)[0], 1e-5, 1e-6)
    return graph


def test_the_nodes_behind_become_part_of_both_branches(tmp_path: Path) -> None:
    graph = agrees(made(f"{EITHER} r = If (c) {TURNED} s = Mul (r, r) t = Add (s, x) y = ReduceSum <keepdims = 0> (t)"), runs(),
                   tmp_path)  # fmt: skip
    assert [symbol.op.name for symbol in graph.symbols if symbol.op.kind == "host"][:1] == ["host_branch"]


def test_two_of_them_in_a_row() -> None:
    agrees(made(f"{EITHER} r = If (c) {TURNED} t = ReduceMax <keepdims = 0> (x) d = Less (t, total) s = If (d) <then_branch = "
                "e () => (float[j, k, l] u) { u = Unsqueeze (r, one) }, else_branch = f () => (float[i] v) { v = Sub (x, total)"
                "}> w = Abs (s) y = ReduceSum <keepdims = 0> (w)"), runs())  # fmt: skip


def test_in_a_branch_that_is_not_taken() -> None:
    """The inner If stands in a branch, and is run only where that one is taken."""
    inner = f"r = If (c) {TURNED} s = Add (r, x) z = ReduceMin <keepdims = 0> (s)"
    agrees(made(f"{EITHER} big = Constant <value = float {{2.0}}> () d = Less (total, big) y = If (d) <then_branch = g () => "
                f"(float z) {{ {inner} }}, else_branch = h () => (float v) {{ v = Neg (total) }}>"), runs())  # fmt: skip


REFUSED = f"{EITHER} r = If (c) {TURNED} i = Constant <value = int64[1, 1] {{0}}> () y = ScatterND (r, i, first)"


def test_a_branch_that_the_nodes_behind_do_not_fit_ends_the_run(tmp_path: Path) -> None:
    """The result of one branch has a rank that the next node refuses: in onnxruntime that is an error of a run, too."""
    one = made(REFUSED, "float[n] x, float[1] first", "float[n] y")
    given = {"first": np.ones(1, np.float32)}
    wrong, right, *_ = [{**each, **given} for each in runs()]
    agrees(one, [right], tmp_path)
    with pytest.raises(Exception, match=r"ScatterND|updates"):
        by_onnxruntime(one, wrong)
    graph = jn.from_onnx(one)
    for run in (jn.compile(graph, device="cpu"), lambda *arrays: jn.evaluate(graph, *arrays)):
        with pytest.raises(jn.UserError, match=r"If\) on bool \(\): the condition is True in this run, and nodes behind the If "
                           r".*ScatterND.* updates with 1 axes; fix: inputs for which it is False"):  # fmt: skip
            run(*wrong.values())
    with pytest.raises(jn.UnsupportedError, match="require"):
        jn.to_onnx(graph)


def test_such_a_branch_inside_of_one_that_is_not_taken_ends_no_run() -> None:
    nodes = REFUSED.replace(EITHER, "").replace("y = Scatter", "z = Scatter")
    one = made(f"{EITHER} big = Constant <value = float {{1.0}}> () d = Less (total, big) y = If (d) <then_branch = g () => "
               f"(float[n] z) {{ {nodes} }}, else_branch = h () => (float[n] v) {{ v = Abs (x) }}>",
               "float[n] x, float[1] first", "float[n] y")  # fmt: skip
    given = {"first": np.ones(1, np.float32)}
    agrees(one, [{"x": np.full(4, value, np.float32), **given} for value in (-1.0, 1.0)])
    with pytest.raises(jn.UserError, match="the condition is True in this run"):
        jn.compile_onnx(one, device="cpu").run({"x": np.full(4, 0.1, np.float32), **given})


def test_results_of_the_model_of_other_ranks_are_refused_with_a_fix() -> None:
    problem = r"they return float32 \(n, 1\) and float32 \(n,\); fix: let both return tensors of one dtype and rank"
    with pytest.raises(jn.UnsupportedError, match=problem):
        jn.from_onnx(made(f"{EITHER} y = If (c) {TURNED}", outputs="float[k] y"))


def test_a_number_that_is_an_argument_still_chooses_the_branch() -> None:
    start = "one = Constant <value = int64[1] {1}> ()"
    one = made(f"{start} r = If (c) {TURNED} s = Add (r, x) y = ReduceSum <keepdims = 0> (s)", "float[n] x, bool c")
    with pytest.raises(jn.UnsupportedError, match=r"constants={'c': array}"):
        jn.from_onnx(one)
    compiled = jn.compile_onnx(one, device="cpu")
    for flag in (True, False):
        feeds = {"x": np.arange(3, dtype=np.float32), "c": np.array(flag)}
        np.testing.assert_allclose(next(iter(compiled.run(feeds).values())), by_onnxruntime(one, feeds)[0])
