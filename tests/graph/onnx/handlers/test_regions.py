"""If, Loop and Scan as branches and loops of the graph, against onnxruntime. (ONNX's own evaluator has no
directions of scans, and gives rows that are scalars an axis too many.)"""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.ops.control import has_control

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, parser  # noqa: E402

onnxruntime = pytest.importorskip("onnxruntime")

rng = np.random.default_rng(3)


def model(text: str) -> Any:
    made = parser.parse_model('<ir_version: 8, opset_import: ["" : 18]>\n' + text)
    onnx.checker.check_model(made, full_check=True)
    return made


def agree(made: Any, *feeds: dict[str, Any], control: bool = True) -> jn.Graph:
    """The graph has loops or branches, and computes what the reference does: evaluated, and compiled."""
    graph = jn.from_onnx(made)
    assert has_control(graph) == control
    assert graph.casts() == ()
    compiled, session = jn.compile(graph, "cpu"), onnxruntime.InferenceSession(made.SerializeToString())
    for feed in feeds:
        expected = session.run(None, feed)
        for results in (jn.evaluate(graph, **feed), compiled(**feed)):
            found = results if isinstance(results, tuple) else (results,)
            for result, wanted in zip(found, expected, strict=True):
                assert result.shape == np.shape(wanted)
                assert result.dtype == np.asarray(wanted).dtype
                np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)
    return graph


def floats(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


BODY = """
   body = b (int64 i, bool going, float[n] s) => (bool again, float[n] next) {
      half = Constant <value = float {0.5}> ()
      scaled = Mul (s, half)
      next = Add (scaled, x)
      %s
   }"""
YES = "yes = Constant <value = bool {1}> ()\n"
ENDS = "total = ReduceSum <keepdims = 0> (next)\n limit = Constant <value = float {4.0}> ()\n again = Less (total, limit)"


def test_a_trip_count_that_an_input_has() -> None:
    made = model("g (float[n] x, int64 trips, bool start) => (float[n] y) { y = Loop <" + BODY % "again = Identity (going)"
                 + "> (trips, start, x) }")  # fmt: skip
    feeds = [{"x": floats(4), "trips": np.array(n), "start": np.array(flag)} for n in (0, 1, 7) for flag in (True, False)]
    agree(made, *feeds)


def test_a_condition_that_is_left_out_is_true() -> None:
    made = model("g (float[n] x, int64 trips) => (float[n] y) { y = Loop <" + BODY % "again = Identity (going)"
                 + "> (trips, , x) }")  # fmt: skip
    given, run = floats(3), jn.compile(jn.from_onnx(made), "cpu")
    np.testing.assert_allclose(run(x=given, trips=np.array(2)), (given * 1.5) * 0.5 + given, rtol=1e-6)


@pytest.mark.parametrize("trips", ["", "trips"])
def test_early_exit(trips: str) -> None:
    made = model("g (float[n] x, int64 trips) => (float[n] y) {" + YES + "y = Loop <" + BODY % ENDS
                 + f"> ({trips}, yes, x) }}")
    feeds = [{"x": np.abs(floats(3)) + 1, "trips": np.array(n)} for n in (1, 3, 2**63 - 1)]
    agree(made, *(feeds if trips else feeds[:1]))


ROWS = """
   body = b (int64 i, bool going, float[n] s) => (bool again, float[n] next, float[n] row, int64 number) {
      half = Constant <value = float {0.5}> ()
      scaled = Mul (s, half)
      next = Add (scaled, x)
      row = Mul (next, s)
      number = Identity (i)
      %s
   }"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("ends", [True, False])
def test_rows_of_a_length_that_is_known_at_a_run(ends: bool) -> None:
    made = model("g (float[n] x, int64 trips) => (float[n] y, float[k,n] rows, int64[k] numbers) {"
                 + YES + "y, rows, numbers = Loop <"
                 + ROWS % (ENDS if ends else "again = Identity (going)") + "> (trips, yes, x) }")  # fmt: skip
    feeds = [{"x": np.abs(floats(3)) / 4 + 0.6, "trips": np.array(n)} for n in (1, 2, 9)]
    graph = agree(made, *feeds)
    results = jn.compile(graph, "cpu")(x=floats(3), trips=np.array(0))
    assert [result.shape for result in results] == [(3,), (0, 3), (0,)]


def test_a_long_loop_of_known_length_and_rows_after_it() -> None:
    made = model("""g (float[n] x) => (float[n] y, float[k,n] rows, int64[k] numbers) {
        trips = Constant <value = int64 {500}> ()
        yes = Constant <value = bool {1}> ()
        y, r, numbers = Loop <""" + ROWS % "again = Identity (going)" + """> (trips, yes, x)
        rows = Neg (r) }""")  # fmt: skip
    graph = agree(made, {"x": floats(3)})
    assert [str(extent) for extent in graph.outputs[1].shape] == ["500", "n"]
    assert len(graph.symbols) < 40


def test_a_size_is_the_trip_count() -> None:
    made = model("g (float[n] x) => (float[n] y) {" + YES + "trips = Size (x)\n y = Loop <"
                 + BODY % "again = Identity (going)"
                 + "> (trips, yes, x) }")  # fmt: skip
    agree(made, *[{"x": floats(n)} for n in (0, 1, 5)])


def test_a_small_loop_is_unrolled() -> None:
    made = model("g (float[n] x) => (float[n] y) {" + YES + "trips = Constant <value = int64 {3}> ()\n y = Loop <"
                 + BODY % "again = Identity (going)" + "> (trips, yes, x) }")  # fmt: skip
    agree(made, {"x": floats(4)}, control=False)


@pytest.mark.slow
def test_a_state_that_grows_and_is_read_is_unrolled() -> None:
    made = model("""g (float[n] x) => (float[m] y) {
        trips = Constant <value = int64 {100}> ()
        yes = Constant <value = bool {1}> ()
        y = Loop <body = b (int64 i, bool going, float[a] s) => (bool again, float[c] next) {
            p = ReduceMean <keepdims = 0> (s)
            q = Add (x, p)
            next = Concat <axis = 0> (s, q)
            again = Identity (going)
        }> (trips, yes, x) }""")
    agree(made, {"x": floats(2)}, control=False)


def test_nested_loops_with_captures_of_both_levels() -> None:
    made = model("""g (float[n] x, int64 trips) => (float[n] y) {
        yes = Constant <value = bool {1}> ()
        y = Loop <body = outer (int64 i, bool going, float[n] s) => (bool again, float[n] next) {
            f = Cast <to = 1> (i)
            next = Loop <body = inner (int64 j, bool going2, float[n] t) => (bool again2, float[n] u) {
                a = Mul (t, x)
                b = Add (a, s)
                u = Sub (b, f)
                again2 = Identity (going2)
            }> (trips, yes, s)
            again = Identity (going)
        }> (trips, yes, x) }""")
    agree(made, *[{"x": floats(3) / 4, "trips": np.array(n)} for n in (0, 1, 3)])


@pytest.mark.parametrize("length", ["n", "80"])
def test_scan_with_axes_and_directions(length: str) -> None:
    element = TensorProto.FLOAT
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["h", "w"], ["hw"]),
            helper.make_node("Add", ["hw", "a"], ["t"]),
            helper.make_node("Tanh", ["t"], ["u"]),
            helper.make_node("Sub", ["u", "b"], ["next"]),
            helper.make_node("Identity", ["next"], ["row"]),
            helper.make_node("ReduceSum", ["row"], ["total"], keepdims=0),
        ],
        "body",
        [helper.make_tensor_value_info(name, element, [3]) for name in ("h", "a", "b")],
        [helper.make_tensor_value_info(name, element, shape) for name, shape in (("next", [3]), ("row", [3]), ("total", []))],
    )
    node = helper.make_node(
        "Scan", ["h0", "xs", "ys"], ["last", "rows", "totals"], body=body, num_scan_inputs=2, scan_input_axes=[1, 0],
        scan_input_directions=[0, 1], scan_output_axes=[1, 0], scan_output_directions=[1, 0],
    )  # fmt: skip
    size = int(length) if length.isdigit() else length
    infos = [("h0", [3]), ("xs", [3, size]), ("ys", [size, 3]), ("w", [3])]
    results = [("last", [3]), ("rows", [3, size]), ("totals", [size])]
    made = helper.make_model(
        helper.make_graph(
            [node], "g", [helper.make_tensor_value_info(name, element, shape) for name, shape in infos],
            [helper.make_tensor_value_info(name, element, shape) for name, shape in results],
        ),
        opset_imports=[helper.make_opsetid("", 18)], ir_version=8,
    )  # fmt: skip
    for n in [80] if length.isdigit() else [1, 2, 6]:
        agree(made, {"h0": floats(3), "xs": floats(3, n), "ys": floats(n, 3), "w": floats(3)})


@pytest.mark.parametrize("large", [False, True])
def test_an_if_of_large_branches_is_a_branch(large: bool) -> None:
    chain = "\n".join(f"t{n + 1} = Tanh (t{n})" for n in range(8 if large else 1))
    last = f"t{8 if large else 1}"
    made = model(f"""g (float[n] x, bool flag) => (float[n] y, float[n] z) {{
        y, z = If (flag) <
            then_branch = a () => (float[n] p, float[n] q) {{ t0 = Neg (x)
              {chain}
              p = Add ({last}, x)
              q = Identity (x) }},
            else_branch = b () => (float[n] r, float[n] s) {{ r = Add (x, x)
              s = Neg (r) }}
        > }}""")
    agree(made, *[{"x": floats(3), "flag": np.array(flag)} for flag in (True, False)], control=large)


def test_a_condition_that_has_one_element_in_one_branch_and_no_axis_in_the_other() -> None:
    """As exporters write `while n < 20 and token != end`, of which no input becomes a constant."""
    made = parser.parse_model("""<ir_version: 8, opset_import: ["": 16]>
      g (float[1, 4] h, float[4, 4] w) => (float[1, 4] y, int64 n)
        <int64 zero = {0}, int64 one = {1}, int64 most = {20}, int64[1] three = {3}, bool no = {0}, bool yes = {1}> {
      y, n = Loop <body = step (int64 i, bool c, float[1, 4] s, int64 k) => (bool[d] go, float[1, 4] s2, int64 k2) {
        m = MatMul (s, w) s2 = Tanh (m) k2 = Add (k, one) under = Less (k2, most)
        best = ArgMax <axis = 1, keepdims = 0> (s2)
        go = If (under) <then_branch = a () => (bool[e] p) { same = Equal (best, three) p = Not (same) },
                         else_branch = b () => (bool q) { q = Identity (no) }>
      }> (, yes, h, zero)
    }""")
    compiled = jn.compile(jn.from_onnx(made), device="cpu", cache=False)
    rng, counts = np.random.default_rng(0), set()
    for _ in range(8):
        h, w = rng.normal(size=(1, 4)).astype(np.float32), rng.normal(size=(4, 4)).astype(np.float32)
        got = compiled.run({"h": h, "w": w})
        want, count = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"h": h, "w": w})
        np.testing.assert_allclose(got["y"], want, rtol=1e-5, atol=1e-6)
        assert got["n"] == count
        counts.add(int(count))
    assert len(counts) > 1


@pytest.mark.one_in(2)
@pytest.mark.parametrize("directions", ["0", "1"])
def test_a_scan_of_opset_8_with_lengths_from_data(directions: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    made = parser.parse_model(f"""<ir_version: 4, opset_import: ["" : 8]>
      g (int64[2] lengths, float[2, 3] s, float[2, 5, 3] x) => (float[2, 3] last, float[2, 5, 3] rows) {{
        last, rows = Scan <num_scan_inputs = 1, directions = [{directions}],
          body = b (float[3] c, float[3] e) => (float[3] c1, float[3] o) {{ c1 = Add (c, e) o = Mul (c1, e) }}> (lengths, s, x)
      }}""")
    graph = jn.from_onnx(made)
    rng = np.random.default_rng(1)
    session = onnxruntime.InferenceSession(made.SerializeToString())
    model = jn.compile(graph, device="cpu", cache=False)
    for lengths in ([5, 5], [1, 4], [3, 2]):
        feeds = {
            "lengths": np.array(lengths), "s": rng.normal(size=(2, 3)).astype(np.float32),
            "x": rng.normal(size=(2, 5, 3)).astype(np.float32),
        }  # fmt: skip
        for found, want in zip(model.run(feeds).values(), session.run(None, feeds), strict=True):
            np.testing.assert_allclose(found, want, 1e-6, 1e-6)
