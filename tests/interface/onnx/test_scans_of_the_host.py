"""Scans whose bodies need the host: sizes from data, strings, states that grow, and what stands around and inside of them."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from ...support.onnx_export.structure import structure
from ...support.onnx_texts import by_onnxruntime, model
from .test_loops_of_the_host import RNG, agrees, floats

pytest.importorskip("onnxruntime")


def scan(body: str, states: str, sources: str, results: str, **attributes: list[int]) -> str:
    """Returns a Scan: `body` is its whole subgraph."""
    given = ", ".join(f"{name} = {values}" for name, values in attributes.items())
    count = len(sources.split(","))
    names = ", ".join(filter(None, (states, sources)))
    return f"{results} = Scan <num_scan_inputs = {count}, {given + ', ' if given else ''}body = {body}> ({names})"


COUNTED = """b (float[3] h, float[3] e) => (float[3] h1, float[1] total, float[3] seen) {
  p = NonZero (e) pt = Transpose <perm = [1, 0]> (p) found = GatherND (e, pt)
  total = ReduceSum <keepdims = 1> (found, axis) h1 = Add (h, total) seen = Mul (h1, e) }"""


@pytest.mark.slow
@pytest.mark.parametrize("length", [40, 600, "n"])
def test_sizes_from_data_stay_inside(length: int | str) -> None:
    text = scan(COUNTED, "h", "x", "last, totals, rows")
    made = model(f"(float[3] h, float[{length}, 3] x) => (float[3] last, float[{length}, 1] totals, float[{length}, 3] rows)",
                 text, axis=np.array([0]))  # fmt: skip
    sizes = [length] if isinstance(length, int) else [1, 5, 300]
    runs = []
    for size in sizes:  # small integers, whose sums are exact however much cancels
        x = RNG.integers(-9, 10, (size, 3)) * RNG.integers(0, 2, (size, 3))
        runs.append({"h": RNG.integers(-9, 10, 3).astype(np.float32), "x": x.astype(np.float32)})
    compiled = jn.compile_onnx(made, device="cpu", threads=1)
    for feeds in runs:
        for value, want in zip(compiled.run(feeds).values(), by_onnxruntime(made, feeds), strict=True):
            np.testing.assert_array_equal(value, want)
    if length != 40:  # which is unrolled
        agrees(made, *runs, exact=True)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("back", [0, 1])
@pytest.mark.parametrize("front", [0, 1])
@pytest.mark.parametrize("axes", [(0, 0), (1, -1), (-1, 1)])
def test_axes_and_directions(axes: tuple[int, int], back: int, front: int) -> None:
    body = """b (float h, float[3] e, float[2] f) => (float h1, float[1] total, float[3] row) {
      p = NonZero (e) n = Size (p) m = Cast <to = 1> (n) h1 = Add (h, m) t = ReduceMax <keepdims = 1> (f, axis)
      total = Add (t, h1) row = Mul (e, h1) }"""
    text = scan(body, "h", "x, z", "last, totals, rows", scan_input_axes=[axes[0], 0], scan_input_directions=[back, front],
                scan_output_axes=[0, axes[1]], scan_output_directions=[front, back])  # fmt: skip
    x, rows = ("n, 3", "m, 3") if not axes[0] else ("3, n", "3, m")
    made = model(f"(float h, float[{x}] x, float[n, 2] z) => (float last, float[t, 1] totals, float[{rows}] rows)", text,
                 axis=np.array([0]))  # fmt: skip
    runs = []
    for size in (1, 4, 9):
        shape = (size, 3) if not axes[0] else (3, size)
        runs.append({"h": floats(), "x": floats(*shape) * (floats(*shape) > 0), "z": floats(size, 2)})
    agrees(made, *runs)


def test_a_state_that_is_read_grows_with_each_slice() -> None:
    body = """b (float[k] v, float[2] e) => (float[l] v1, float[1] mean) {
      mean = ReduceMean <keepdims = 1> (v, axis) m = ReduceSum <keepdims = 1> (e, axis) new = Mul (m, mean)
      v1 = Concat <axis = 0> (v, new) }"""
    for length in ("n", 1100):
        made = model(f"(float[s] v, float[{length}, 2] x) => (float[t] out, float[{length}, 1] means)",
                     scan(body, "v", "x", "out, means", scan_input_directions=[1]), axis=np.array([0]))  # fmt: skip
        compiled = jn.compile_onnx(made, device="cpu", threads=1)
        for size in (1, 6) if length == "n" else (length,):  # onnxruntime has one type of a state
            v, x, means = floats(2), 0.5 * floats(size, 2), []
            found = compiled(v=v, x=x)
            for row in x[::-1]:
                means.append([v.mean()])
                v = np.append(v, row.sum() * v.mean())
            np.testing.assert_allclose(found[0], v, 1e-4, 1e-4)
            np.testing.assert_allclose(found[1], means, 1e-4, 1e-4)
    assert any(symbol.op.name == "host_loop" for symbol in jn.from_onnx(made).symbols)


def test_strings() -> None:
    body = """b (string h, string[2] e) => (string h1, string[2] o) {
      first = Gather (e, zero) h1 = StringConcat (h, first) o = StringConcat (mark, e) }"""
    made = model("(string h, string[n, 2] x) => (string last, string[n, 2] rows)",
                 scan(body, "h", "x", "last, rows", scan_input_directions=[1], scan_output_directions=[1]), opset=20,
                 zero=np.array(0), mark=np.array(["!", "?"], object))  # fmt: skip
    graph = jn.from_onnx(made)
    written, compiled = jn.to_onnx(graph), jn.compile_onnx(made, device="cpu")
    assert structure(jn.from_onnx(written)) == structure(graph)
    for size in (1, 3):
        feeds = {"h": np.array("-", object), "x": np.array([["a", "b"], ["cd", "e"], ["", "f"]], object)[:size]}
        # onnxruntime 1.32 gathers the first string of a row alone, so what is written is for ONNX's own evaluator
        results = [compiled.run(feeds).values(), jn.evaluate(graph, **feeds), ReferenceEvaluator(written).run(None, feeds)]
        for values in results:
            for value, want in zip(values, by_onnxruntime(made, feeds), strict=True):
                assert np.array(value).tolist() == want.tolist()


INSIDE = {
    "a branch of other sizes": (
        """p = NonZero (e) n = Size (p) many = Less (one, n)
           u = If (many) <then_branch = t () => (float[a] r) { d = Shape (p) two = Slice (d, first, second)
                            w = Expand (h, two) r = Mul (w, w) },
                          else_branch = f () => (float[b] r2) { q = Unsqueeze (h, axis) r2 = Neg (q) }>
           total = ReduceSum <keepdims = 0> (u) h1 = Add (h, total) o = Add (e, total)""",
        {"one": np.array(1), "first": np.array([1]), "second": np.array([2])},
    ),
    "a loop until there is enough": (
        """p = NonZero (e) n = Size (p) go = Less (zero, n)
           u = Loop (n, go, e) <body = in (int64 i, bool c, float[k] z) => (bool d, float[l] z1) {
             z1 = Concat <axis = 0> (z, e) m = Size (z1) d = Less (m, most) }>
           total = ReduceSum <keepdims = 0> (u) t = Tanh (total) h1 = Add (h, t) o = Mul (e, h1)""",
        {"zero": np.array(0), "most": np.array(8)},
    ),
    "a scan over what values choose": (
        """p = NonZero (e) pt = Transpose <perm = [1, 0]> (p) chosen = GatherND (e, pt)
           none = Sub (e, e) some = Slice (none, first, second) given = Concat <axis = 0> (chosen, some)
           last, sums = Scan <num_scan_inputs = 1, body = in (float c0, float y) => (float c1, float z) {
             s = Mul (y, scale) c1 = Add (c0, s) z = Identity (c1) }> (h, given)
           total = ReduceSum <keepdims = 0> (sums) h1 = Add (last, total) o = Mul (e, last)""",
        {"first": np.array([0]), "second": np.array([1])},
    ),
    "a scan of the host over its own slices": (
        """pairs = Unsqueeze (e, axis) both = Concat <axis = 0> (pairs, pairs)
           last, sums = Scan <num_scan_inputs = 1, scan_input_directions = [1], body = in (float c0, float[3] y) =>
             (float c1, float z) { p = NonZero (y) n = Size (p) m = Cast <to = 1> (n) c = Mul (m, scale) c1 = Add (c0, c)
             z = Identity (c1) }> (h, both)
           total = ReduceSum <keepdims = 0> (sums) h1 = Tanh (total) o = Mul (e, last)""",
        {},
    ),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", INSIDE)
def test_inside_stands(case: str) -> None:
    nodes, arrays = INSIDE[case]
    body = f"b (float h, float[3] e) => (float h1, float[3] o) {{ {nodes} }}"
    made = model("(float h, float[n, 3] x, float scale) => (float last, float[n, 3] rows)",
                 scan(body, "h", "x", "last, rows"), axis=np.array([0]), **arrays)  # fmt: skip
    runs = [{"h": floats(), "x": np.round(floats(size, 3)), "scale": floats()} for size in (1, 2, 7)]
    runs[1]["x"][0] = 0
    agrees(made, *runs)


def test_boxes_are_suppressed_image_by_image() -> None:
    body = """b (int64 h, float[6, 4] boxes, float[2, 6] scores) => (int64 h1, int64[2] many) {
      b1 = Unsqueeze (boxes, axis) s1 = Unsqueeze (scores, axis)
      kept = NonMaxSuppression (b1, s1, most, overlap, least) n = Shape (kept) count = Gather (n, zero)
      total = Add (h, count) h1 = Identity (total) pair = Unsqueeze (count, axis) sum = Unsqueeze (total, axis)
      many = Concat <axis = 0> (pair, sum) }"""
    made = model("(float[n, 6, 4] boxes, float[2, n, 6] scores) => (int64 last, int64[2, n] rows)",
                 scan(body, "start", "boxes, scores", "last, rows", scan_input_axes=[0, 1], scan_output_axes=[1]),
                 axis=np.array([0]), zero=np.array(0), start=np.array(0), most=np.array([3]), overlap=np.float32([0.3]),
                 least=np.float32([0.2]))  # fmt: skip
    runs = []
    for size in (1, 5):
        corner = RNG.uniform(size=(size, 6, 2)).astype(np.float32)
        scores = RNG.uniform(size=(2, size, 6)).astype(np.float32)
        runs.append({"boxes": np.concatenate([corner, corner + 0.4], -1), "scores": scores})
    agrees(made, *runs, exact=True)


def batched(body: str, lengths: str, states: str, sources: str, results: str, directions: str = "") -> str:
    """Returns a Scan of opset 8, which has a batch."""
    count = len(sources.split(","))
    given = f"directions = [{directions}], " if directions else ""
    names = ", ".join(filter(None, (states, sources)))
    return f"{results} = Scan <num_scan_inputs = {count}, {given}body = {body}> ({lengths}, {names})"


def of_sequences(signature: str, text: str, **arrays: Any) -> Any:
    made = model(signature, text, opset=8, **arrays)
    made.ir_version = 4
    for name in arrays:  # which is an input, too, that old
        value = next(each for each in made.graph.initializer if each.name == name)
        made.graph.input.append(onnx.helper.make_tensor_value_info(name, value.data_type, list(value.dims)))
    return made


def same(made: Any, *runs: dict[str, Any], ops: tuple[str, ...], **options: Any) -> None:
    graph = jn.from_onnx(made, **options)
    names = [symbol.op.name for symbol in graph.symbols]
    assert all(op in names for op in ops), names
    compiled = jn.compile(graph, device="cpu", threads=1)
    for feeds in runs:
        for results in (jn.evaluate(graph, **feeds), compiled(**feeds)):
            for value, want in zip(results, by_onnxruntime(made, feeds), strict=True):
                assert (value.dtype, value.shape) == (want.dtype, want.shape)
                np.testing.assert_allclose(value, want, 1e-5, 1e-5)


@pytest.mark.one_in(18)
@pytest.mark.parametrize("directions", ["0, 0", "1, 0", "0, 1", "1, 1"])
@pytest.mark.parametrize("has_lengths", [False, True])
@pytest.mark.parametrize("size", ["symbolic", "large"])
def test_sequences_of_a_batch_are_two_loops(directions: str, has_lengths: bool, size: str) -> None:
    body = """b (float[3] c, float[3] e, float f) => (float[3] c1, float[3] o, float p) {
      m = Mul (e, f) c1 = Add (c, m) o = Tanh (c1) p = Neg (f) }"""
    batch, steps = ("b", "n") if size == "symbolic" else ("3", "40")
    text = batched(body, "lengths" if has_lengths else "", "s", "x, z", "last, rows, others", directions)
    lengths = f"int64[{batch}] lengths, " if has_lengths else ""
    given = f"{lengths}float[{batch}, 3] s, float[{batch}, {steps}, 3] x, float[{batch}, {steps}] z"
    results = f"float[{batch}, 3] last, float[{batch}, {steps}, 3] rows, float[{batch}, {steps}] others"
    made = of_sequences(f"({given}) => ({results})", text)
    runs = []
    for rows, count in ((2, 5), (1, 1), (4, 3)) if size == "symbolic" else ((3, 40), (3, 40)):
        feeds = {"s": floats(rows, 3), "x": floats(rows, count, 3), "z": floats(rows, count)}
        runs.append(feeds | ({"lengths": RNG.integers(1, count + 1, rows)} if has_lengths else {}))
    same(made, *runs, ops=("loop",))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("directions", ["0", "1"])
@pytest.mark.parametrize("has_lengths", [False, True])
def test_sequences_of_a_batch_whose_steps_need_the_host(directions: str, has_lengths: bool) -> None:
    body = """b (float[3] c, float[3] e) => (float[3] c1, float[3] o) {
      s1 = Add (c, e) w = Abs (e) large = ReduceSum <axes = [0], keepdims = 0> (w) most = Mul (large, six)
      p = Loop (, , s1) <body = in (int64 i, bool g, float[k] z) => (bool g1, float[l] z1) {
        z1 = Concat <axis = 0> (z, e) m = Shape (z1) q = Squeeze <axes = [0]> (m)
        q1 = Cast <to = 1> (q) g1 = Less (q1, most) }>
      t = ReduceMean <axes = [0], keepdims = 1> (p) c1 = Add (c, t) o = Mul (c1, e) }"""
    text = batched(body, "lengths" if has_lengths else "", "s", "x", "last, rows", directions)
    lengths = "int64[b] lengths, " if has_lengths else ""
    made = of_sequences(f"({lengths}float[b, 3] s, float[b, n, 3] x) => (float[b, 3] last, float[b, n, 3] rows)", text,
                        six=np.float32(6))  # fmt: skip
    runs = []
    for rows, count in ((2, 5), (1, 1), (3, 2)):
        feeds = {"s": floats(rows, 3), "x": floats(rows, count, 3)}
        runs.append(feeds | ({"lengths": RNG.integers(1, count + 1, rows)} if has_lengths else {}))
    same(made, *runs, ops=("host_loop",))


@pytest.mark.parametrize("length", ["3", "n"])
def test_rows_whose_sizes_values_decide(length: str) -> None:
    body = """b (float h, float[4] e) => (float h1, int64[1, k] o) {
      o = NonZero (e) n = Size (o) m = Cast <to = 1> (n) h1 = Add (h, m) }"""
    made = model(f"(float h, float[{length}, 4] x) => (float last, int64[{length}, 1, k] rows)",
                 scan(body, "h", "x", "last, rows"))  # fmt: skip
    compiled = jn.compile_onnx(made, device="cpu", threads=1)
    assert jn.from_onnx(made).outputs[1].shape[0] == (3 if length == "3" else jn.dim("n"))
    for row in ([1, 0, 2, 0], [0, 0, 0, 0], [1, 1, 1, 1]):
        feeds = {"h": floats(), "x": np.array([row, row[::-1], row], np.float32)}
        for value, want in zip(compiled.run(feeds).values(), by_onnxruntime(made, feeds), strict=True):
            np.testing.assert_array_equal(value, want)
    told = r"iteration 2 has shape \(1, 2\), and \(1, 1\) in the first|axis 2: .* is 1, not .* = 2"
    with pytest.raises(jn.UserError, match=told):
        compiled(h=floats(), x=np.array([[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0]], np.float32))


def test_a_scan_of_no_slice() -> None:
    made = model("(float[3] h, float[n, 3] x) => (float[3] last, float[n, 1] totals, float[n, 3] rows)",
                 scan(COUNTED, "h", "x", "last, totals, rows"), axis=np.array([0]))  # fmt: skip
    compiled = jn.compile_onnx(made, device="cpu", threads=1)
    last, totals, rows = compiled(h=np.ones(3, np.float32), x=np.zeros((0, 3), np.float32))
    assert (last.tolist(), totals.shape, rows.shape) == ([1, 1, 1], (0, 1), (0, 3))


@pytest.mark.parametrize("lengths", [[0, 2], [1, 4]])
def test_lengths_that_no_sequence_has_end_a_run_if_that_is_asked_for(lengths: list[int]) -> None:
    body = "b (float[3] c, float[3] e) => (float[3] c1, float[3] o) { c1 = Add (c, e) o = Tanh (c1) }"
    made = of_sequences("(int64[b] lengths, float[b, 3] s, float[b, n, 3] x) => (float[b, 3] last, float[b, n, 3] rows)",
                        batched(body, "lengths", "s", "x", "last, rows"))  # fmt: skip
    feeds = {"lengths": np.array(lengths), "s": floats(2, 3), "x": floats(2, 3, 3)}
    with pytest.raises(jn.UserError, match="Scan"):
        jn.evaluate(jn.from_onnx(made, check_positions=True), **feeds)
    last, rows = jn.evaluate(jn.from_onnx(made), **feeds)
    for row, length in enumerate(lengths):  # clipped
        total = feeds["s"][row] + np.cumsum(feeds["x"][row], 0)[:length]
        np.testing.assert_allclose(rows[row, : min(length, 3)], np.tanh(total), 1e-5, 1e-5)
        np.testing.assert_allclose(last[row], total[-1] if length else feeds["s"][row], 1e-5, 1e-5)
