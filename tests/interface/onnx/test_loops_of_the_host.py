"""Loops whose bodies read states that change their sizes, and what runs on the host inside of loops, against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import onnx
import pytest

from ...support.onnx_export.structure import structure
from ...support.onnx_texts import by_onnxruntime, model

pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(5)
GO = "go = Constant <value = bool {1}> () one = Constant <value = int64 {1}> () axis = Constant <value = int64[1] {0}> ()"


def floats(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def is_written(graph: Any, *runs: dict[str, Any]) -> None:
    """ONNX's checker accepts what the graph is written as, onnxruntime computes the same of it, and it is read back as the
    graph."""
    made = jn.to_onnx(graph)
    onnx.checker.check_model(made, full_check=True)
    assert structure(jn.from_onnx(made)) == structure(graph)
    for feeds in runs:
        found = jn.evaluate(graph, *[feeds[str(symbol.name)] for symbol in graph.inputs])
        for value, want in zip(found if isinstance(found, tuple) else (found,), by_onnxruntime(made, feeds), strict=True):
            assert (value.dtype, value.shape) == (want.dtype, want.shape)
            if want.dtype == object:
                assert value.tolist() == want.tolist()
            else:
                np.testing.assert_allclose(value, want, 1e-5, 1e-6)


def agrees(made: Any, *runs: dict[str, Any], exact: bool = False) -> Any:
    """The host drives loops of the graph, and the compiled model and the evaluator return what onnxruntime does."""
    graph = jn.from_onnx(made)
    assert any(symbol.op.name in ("host_loop", "host_branch") for symbol in graph.symbols)
    compiled = jn.compile_onnx(made, device="cpu", threads=1)
    for feeds in runs:
        expected = by_onnxruntime(made, feeds)
        found = compiled.run(feeds)
        defined = jn.evaluate(graph, *[feeds[str(symbol.name)] for symbol in graph.inputs])
        results = [found.values(), defined if isinstance(defined, tuple) else (defined,)]
        for values in results:
            for value, want in zip(values, expected, strict=True):
                if isinstance(want, list):
                    value, want = np.array(value), np.array(want)
                assert (value.dtype, value.shape) == (want.dtype, want.shape)
                if exact or want.dtype.kind not in "f":
                    np.testing.assert_array_equal(value, want)
                else:
                    np.testing.assert_allclose(value, want, 1e-5, 1e-6)
    is_written(graph, *runs)
    return compiled


GREEDY = """
  out, logits = Loop (steps, go, ids) <
    body = b (int64 i, bool c, int64[1, k] x) => (bool more, int64[1, l] y, float[1, 16] scores) {
    e = Gather (table, x)
    m = ReduceMean <keepdims = 0> (e, mid)
    scores = MatMul (m, across)
    best = ArgMax <axis = 1, keepdims = 1> (scores)
    length = Size (x)
    moved = Add (best, length)
    next = Mod (moved, sixteen)
    y = Concat <axis = 1> (x, next)
    ends = Equal (next, end)
    last = Squeeze (ends)
    more = Not (last)
  }>"""


def greedy() -> Any:
    table = floats(16, 8)
    return model(
        "(int64[1, s] ids, int64 steps) => (int64[1, t] out, float[n, 1, 16] logits)", f"{GO} {GREEDY}", table=table,
        across=np.ascontiguousarray(table.T), mid=np.array([1]), sixteen=np.array(16), end=np.array(3),
    )  # fmt: skip


def test_tokens_are_read_and_joined_until_one_of_them_ends_the_loop(tmp_path: Path) -> None:
    runs = [{"ids": RNG.integers(0, 16, (1, count)), "steps": np.array(steps)}
            for count, steps in ((3, 5), (1, 0), (2, 40), (7, 1), (1, 40), (5, 40))]  # fmt: skip
    compiled = agrees(greedy(), *runs)
    assert len(compiled.parts) == 1  # one body for all sizes, and nothing around it
    assert "Loop body" in compiled.plan()
    compiled.profile(**runs[0])
    compiled.save(tmp_path / "greedy.joinery")
    with pytest.raises(jn.UserError, match=r"how large its values are, which no budget limits(.|\n)*open_loops=True"):
        jn.load(tmp_path / "greedy.joinery")
    again = jn.load(tmp_path / "greedy.joinery", budget=jn.Budget(open_loops=True))
    for feeds in runs:
        for one, other in zip(again.run(feeds).values(), compiled.run(feeds).values(), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_cache_of_keys_and_values_grows_with_attention_over_it() -> None:
    body = f"""{GO}
      x1, keys, values, rows = Loop (steps, go, x, k0, v0) <
        body = b (int64 i, bool c, float[1, 8] h, float[p, 8] k, float[p, 8] v)
          => (bool more, float[1, 8] h1, float[q, 8] k1, float[q, 8] v1, float[1, 8] row) {{
        a = MatMul (h, wk)  k1 = Concat <axis = 0> (k, a)
        b = MatMul (h, wv)  v1 = Concat <axis = 0> (v, b)
        kt = Transpose <perm = [1, 0]> (k1)
        s = MatMul (h, kt)  w = Softmax <axis = 1> (s)
        row = MatMul (w, v1)  h1 = Tanh (row)
        more = Identity (c)
      }}>"""
    made = model(
        "(float[1, 8] x, float[n, 8] k0, float[n, 8] v0, int64 steps) => "
        "(float[1, 8] x1, float[m, 8] keys, float[m, 8] values, float[t, 1, 8] rows)", body,
        wk=0.2 * floats(8, 8), wv=0.2 * floats(8, 8),
    )  # fmt: skip
    sizes = ((0, 3), (4, 0), (2, 20), (1, 1), (0, 0))
    agrees(made, *[{"x": floats(1, 8), "k0": floats(n, 8), "v0": floats(n, 8), "steps": np.array(t)} for n, t in sizes])


CASES = {
    "shrinks": (
        "y = Slice (v, one1, big) left = Size (y) more = Less (two, left)",
        {"two": np.array(2), "one1": np.array([1]), "big": np.array([1 << 40])},
    ),
    "doubles": ("w = Add (v, v) y = Concat <axis = 0> (v, w) n = Size (y) more = Less (n, most)", {"most": np.array(50)}),
    "what values choose": (
        "h = Mul (v, half) t = Greater (h, low) y = Compress <axis = 0> (h, t) n = Size (y) more = Greater (n, zero)",
        {"half": np.float32(0.5), "low": np.float32(0.4), "zero": np.array(0)},
    ),
    "a branch returns other sizes": (
        "s = ReduceSum <keepdims = 0> (v) p = Less (s, top) more = Identity (p)"
        "y = If (p) <then_branch = t () => (float[a] u) { u = Concat <axis = 0> (v, v) },"
        "            else_branch = e () => (float[b] u) { u = Slice (v, first, second) }>",
        {"top": np.float32(30), "first": np.array([0]), "second": np.array([1])},
    ),
    "a loop inside of it appends": (
        "y = Loop (three, go, v) <body = in (int64 j, bool d, float[o] z) => (bool d1, float[r] z1) {"
        "  l = ReduceMax <keepdims = 0> (z)  l1 = Unsqueeze (l, axis)  z1 = Concat <axis = 0> (z, l1)  d1 = Identity (d) }>"
        "n = Size (y) more = Less (n, most)",
        {"three": np.array(3), "most": np.array(21)},
    ),
    "a scan inside of it": (
        "zero = Sub (v, v) f = ReduceSum <keepdims = 0> (zero)"
        "last, y0 = Scan <num_scan_inputs = 1, body = sc (float c0, float e) => (float c1, float o) {"
        " c1 = Add (c0, e) o = Tanh (c1) }> (f, v)"
        "l1 = Unsqueeze (last, axis) y = Concat <axis = 0> (y0, l1) n = Size (y) more = Less (n, most)",
        {"most": np.array(12)},
    ),
    "a shape of two axes that changes": (
        "col = Unsqueeze (v, axis) n = Shape (v) sq = Concat <axis = 0> (n, n) big = Expand (col, sq)"
        "r = ReduceMean <keepdims = 0> (big, axis) h = Slice (r, axis, ones) y = Concat <axis = 0> (r, h) k = Size (y)"
        "more = Less (k, most)",
        {"most": np.array(9), "ones": np.array([1])},
    ),
    "sizes of the index": (
        "ii = Unsqueeze (i, axis) s = ReduceSum <keepdims = 0> (v) y = Expand (s, ii) more = Less (i, most)",
        {"most": np.array(7)},
    ),
}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("case", CASES)
def test_a_state(case: str) -> None:
    nodes, arrays = CASES[case]
    body = f"{GO} out = Loop (, go, x) <body = b (int64 i, bool c, float[k] v) => (bool more, float[l] y) {{ {nodes} }}>"
    made = model("(float[n] x) => (float[m] out)", body, **arrays)
    agrees(made, *[{"x": np.abs(floats(count)) + 1} for count in (1, 3, 4)])


def sequence_loop(grow: str) -> Any:
    nodes = f"""
      last = SequenceAt (s, minus) first = SequenceAt (s, zero) all = ConcatFromSequence <axis = 0> (s)
      m = ReduceMean <keepdims = 1> (all, axis) twice = Add (last, first) new = Sub (twice, m)
      {grow} n = SequenceLength (t) n1 = Cast <to = 1> (n) most = Abs (a) large = ReduceMax <keepdims = 0> (most)
      goal = Mul (large, six) more = Less (n1, goal)"""
    body = f"""{GO} s0 = SequenceConstruct (x, x)
      xs = Loop (, go, s0) <body = b (int64 i, bool c, seq(float[2, k]) s) => (bool more, seq(float[2, k]) t) {{ {nodes} }}>"""
    return model("(float[2, n] x, float[1] a) => (seq(float[2, n]) xs)", body, six=np.float32(6), zero=np.array(0),
                 minus=np.array(-1), minus2=np.array(-2))  # fmt: skip


@pytest.mark.one_in(8)
@pytest.mark.parametrize("grow", [
    "t = SequenceInsert (s, new)", "t = SequenceInsert (s, new, zero)", "t = SequenceInsert (s, new, minus)",
    "u = SequenceInsert (s, new) v = SequenceInsert (u, twice) t = SequenceErase (v, zero)",
    "u = SequenceInsert (s, new) v = SequenceInsert (u, twice) t = SequenceErase (v, minus2)",
    "u = SequenceInsert (s, new) v = SequenceInsert (u, twice) t = SequenceErase (v)",
])  # fmt: skip
def test_a_sequence_is_read_while_it_grows(grow: str) -> None:
    runs = [{"x": floats(2, width), "a": np.array([large], np.float32)} for width, large in ((3, 1), (1, 1.5), (2, 0))]
    agrees(sequence_loop(grow), *runs)


@pytest.mark.slow
def test_many_known_iterations_are_not_unrolled() -> None:
    nodes = "s = ReduceSum <keepdims = 1> (v) u = Tanh (s) y = Concat <axis = 0> (v, u) more = Identity (c)"
    body = f"{GO} out = Loop (trips, go, x) <body = b (int64 i, bool c, float[k] v) => (bool more, float[l] y) {{ {nodes} }}>"
    made = model("(float[n] x) => (float[m] out)", body, trips=np.array(1200))
    agrees(made, {"x": floats(3)}, {"x": floats(1)})


def test_a_loop_in_a_branch_runs_if_the_branch_is_taken() -> None:
    grow = "n0 = Size (v) m = Cast <to = 1> (n0) m1 = Unsqueeze (m, axis) y = Concat <axis = 0> (v, m1) n = Size (y)"
    body = f"""{GO} total = ReduceSum <keepdims = 0> (x) flag = Greater (total, limit)
      out = If (flag) <
        then_branch = t () => (float[a] z) {{
          z = Loop (, go, x) <
            body = b (int64 i, bool c, float[k] v) => (bool more, float[l] y) {{ {grow} more = Less (n, ten) }}>
        }},
        else_branch = e () => (float[a] z) {{
          z0 = Add (x, x) z1 = Tanh (z0) z2 = Mul (z1, x) z3 = Sub (z2, x) z4 = Cos (z3) z5 = Sin (z4)
          z = Concat <axis = 0> (z5, z5)
        }}>"""
    made = model("(float[n] x) => (float[m] out)", body, ten=np.array(10), limit=np.float32(0))
    assert [symbol.op.name for symbol in jn.from_onnx(made).symbols].count("host_branch") == 1
    agrees(made, {"x": np.ones(3, np.float32)}, {"x": -np.ones(3, np.float32)}, {"x": np.ones(12, np.float32)})


def test_strings_grow() -> None:
    body = f"""{GO} out = Loop (steps, go, x) <body = b (int64 i, bool c, string[k] v) => (bool more, string[l] y) {{
      first = Slice (v, zero, ones) w = StringConcat (first, mark) y = Concat <axis = 0> (v, w) more = Identity (c) }}>"""
    made = model("(string[n] x, int64 steps) => (string[m] out)", body, opset=20, zero=np.array([0]), ones=np.array([1]),
                 mark=np.array(["!"], object))  # fmt: skip
    feeds = {"x": np.array(["a", "bc"], object), "steps": np.array(3)}
    assert list(jn.compile_onnx(made, device="cpu").run(feeds)["out"]) == ["a", "bc", "a!", "a!", "a!"]


def test_rows_are_of_one_shape() -> None:
    nodes = "y = Concat <axis = 0> (v, v) n = Size (y) more = Less (n, most) row = Identity (y)"
    body = f"""{GO} out, rows = Loop (steps, go, x) <
      body = b (int64 i, bool c, float[k] v) => (bool more, float[l] y, float[l] row) {{ {nodes} }}>"""
    made = model("(float[n] x, int64 steps) => (float[m] out, float[t, s] rows)", body, most=np.array(50))
    compiled = agrees(made, {"x": floats(3), "steps": np.array(1)}, {"x": floats(3), "steps": np.array(0)})
    with pytest.raises(jn.UserError, match=r"iteration 1 has shape \(12,\), and \(6,\) in the first one"):
        compiled(x=floats(3), steps=np.array(2))


def test_a_state_that_changes_its_rank_is_refused() -> None:
    nodes = "y = Unsqueeze (v, axis) n = ReduceSum <keepdims = 0> (v) more = Less (n, most)"
    body = f"{GO} out = Loop (, go, x) <body = b (int64 i, bool c, float v) => (bool more, float y) {{ {nodes} }}>"
    made = model("(float[n] x) => (float out)", body, most=np.float32(50))
    with pytest.raises(jn.UnsupportedError, match=r"fix: ") as caught:
        jn.from_onnx(made)
    assert any("The host cannot drive it" in note and "before it" in note for note in caught.value.__notes__)


def test_gpus_refuse_loops_of_the_host() -> None:
    with pytest.raises(jn.UnsupportedError, match=r"host_loop(.|\n)*device='cpu'"):
        jn.compile(jn.from_onnx(greedy()), device="ptxsim")
