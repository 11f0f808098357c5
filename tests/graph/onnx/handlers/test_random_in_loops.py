"""Random operators in loops and functions: each iteration draws its own numbers, however the loop runs, and each node too.

The witness is Philox in Python's integers, with the numbers of the iterations in its counter.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ....support.philox import split, uniform

onnx = pytest.importorskip("onnx")
from onnx import parser  # noqa: E402

SEED = int(np.float32(3).view(np.uint32))


def model(text: str, functions: str = "") -> Any:
    made = parser.parse_model('<ir_version: 8, opset_import: ["" : 17, "own" : 1]>\n' + text + functions)
    onnx.checker.check_model(made, full_check=True)
    return made


def wanted(*iterations: int, count: int = 3) -> Any:
    return uniform(count, *split(SEED, 0, *iterations))


def ops(graph: jn.Graph) -> set[str]:
    return {symbol.op.name for symbol in graph.symbols}


LOOP = """g (int64 trips) => (float[n, 3] y) { yes = Constant <value = bool {1}> ()
   y = Loop (trips, yes) <body = b (int64 i, bool going) => (bool again, float[3] o) {
      again = Identity (going) o = RandomUniform <shape = [3] %s> () }> }"""
GROWS = """g (float[n] x, int64 trips) => (float[m] y) { yes = Constant <value = bool {1}> ()
   y = Loop (trips, yes, x) <body = b (int64 i, bool going, float[k] s) => (bool again, float[l] next) {
      again = Identity (going) total = ReduceSum <keepdims = 0> (s) zero = Constant <value_float = 0.0> ()
      none = Mul (total, zero) u = RandomUniform <shape = [3] %s> () u2 = Add (u, none)
      next = Concat <axis = 0> (s, u2) }> }"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["", ", seed = 3.0"])
def test_compiled_and_unrolled_loops_draw_the_same(seed: str) -> None:
    made = model(LOOP % seed)
    rolled, unrolled = jn.from_onnx(made), jn.from_onnx(made, constants={"trips": np.array(5)})
    assert "loop" in ops(rolled)
    assert "loop" not in ops(unrolled)
    trips, alone = np.array(5), jn.evaluate(unrolled)
    assert len(np.unique(alone)) == 15
    if seed:
        np.testing.assert_array_equal(alone, [wanted(step) for step in range(5)])
    for device in ("cpu", "ptxsim"):
        np.testing.assert_array_equal(jn.compile(unrolled, device=device, cache=False)(), alone)
    compiled = jn.compile(rolled, device="cpu", cache=False)
    for found in (jn.evaluate(rolled, trips), compiled(trips), compiled(trips), jn.compile_onnx(made)(trips)):
        np.testing.assert_array_equal(found, alone)
    many = compiled(np.array(1000))
    np.testing.assert_array_equal(many[:5], alone)
    assert len(np.unique(many, axis=0)) == 1000
    assert compiled(np.array(0)).shape == (0, 3)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", ["", ", seed = 3.0"])
def test_loops_of_the_host_draw_the_same(seed: str) -> None:
    made, x = model(GROWS % seed), np.zeros(2, np.float32)
    driven, unrolled = jn.from_onnx(made), jn.from_onnx(made, constants={"trips": np.array(4)})
    assert "host_loop" in ops(driven)
    assert not {"loop", "host_loop"} & ops(unrolled)
    alone = jn.evaluate(unrolled, x)
    for found in (jn.evaluate(driven, x, np.array(4)), jn.compile(driven, device="cpu", cache=False)(x, np.array(4))):
        np.testing.assert_array_equal(found, alone)
    assert len(np.unique(alone)) == 13
    if seed:
        np.testing.assert_array_equal(alone[2:].reshape(4, 3), [wanted(step) for step in range(4)])


NESTED = """g (int64 m, int64 n) => (float[m, n, 3] y) { yes = Constant <value = bool {1}> ()
   y = Loop (m, yes) <body = b (int64 i, bool going) => (bool again, float[n, 3] rows) {
      again = Identity (going)
      rows = Loop (n, yes) <body = c (int64 j, bool going2) => (bool again2, float[3] o) {
         again2 = Identity (going2) o = RandomUniform <shape = [3], seed = 3.0> () }> }> }"""


@pytest.mark.slow
@pytest.mark.parametrize("known", [{}, {"m": 3}, {"n": 2}, {"m": 3, "n": 2}, {"n": 200}])
def test_loops_inside_each_other(known: dict[str, int]) -> None:
    sizes = {"m": 3, "n": known.get("n", 2)}
    text = NESTED if "n" in known else NESTED.replace("int64 n)", "float[n] x)").replace(
        "yes = Constant <value = bool {1}> ()", "yes = Constant <value = bool {1}> () n = Size (x)", 1)  # fmt: skip
    graph = jn.from_onnx(model(text), constants={name: np.array(size) for name, size in known.items()})
    given = [np.array(3)] if "m" not in known else []
    given += [np.zeros(2, np.float32)] if "n" not in known else []
    expected = [[wanted(i, j) for j in range(sizes["n"])] for i in range(3)]
    assert len(np.unique(expected)) == 9 * sizes["n"]
    for found in (jn.evaluate(graph, *given), jn.compile(graph, device="cpu", cache=False)(*given)):
        np.testing.assert_array_equal(found, expected)


def test_a_loop_that_its_numbers_end() -> None:
    """A first loop counts, and a second one makes the rows: both draw the same numbers."""
    made = model("""g (float limit) => (float[n, 1] y) { yes = Constant <value = bool {1}> ()
       most = Constant <value = int64 {500}> ()
       y = Loop (most, yes) <body = b (int64 i, bool going) => (bool again, float[1] o) {
          o = RandomUniform <shape = [1], seed = 3.0> () small = Less (o, limit) zero = Constant <value_ints = [0]> ()
          again = Squeeze (small, zero) }> }""")
    graph, limit = jn.from_onnx(made), np.float32(0.95)
    expected: list[Any] = []
    while not expected or expected[-1][0] < limit:
        expected.append(wanted(len(expected), count=1))
    assert len(expected) > 3
    for found in (jn.evaluate(graph, limit), jn.compile(graph, device="cpu", cache=False)(limit)):
        np.testing.assert_array_equal(found, expected)


SCANS = {
    "RandomUniformLike": "o = RandomUniformLike <seed = 3.0> (a)",
    "RandomNormalLike": "o = RandomNormalLike (a)",
    "Bernoulli": "half = Constant <value = float {0.5}> () z = Constant <value = float {0.0}> () b0 = Mul (a, z) "
    "p = Add (b0, half) o = Bernoulli (p)",
    "Dropout": "r = Constant <value_float = 0.5> () t = Constant <value = bool {1}> () o = Dropout (a, r, t)",
    "Multinomial": "zero = Constant <value_ints = [0]> () q = Unsqueeze (a, zero) s = Multinomial <sample_size = 5> (q) "
    "s1 = Squeeze (s, zero) o = Cast <to = 1> (s1)",
}


@pytest.mark.one_in(12)
@pytest.mark.parametrize("backwards", [0, 1])
@pytest.mark.parametrize("case", SCANS)
def test_scans(case: str, backwards: int) -> None:
    made = model("g (float[t, 5] x) => (float[t, 5] y) { y = Scan <num_scan_inputs = 1, "
                 f"scan_input_directions = [{backwards}], scan_output_directions = [{backwards}], "
                 "body = b (float[5] a) => (float[5] o) {" + SCANS[case] + "}> (x) }")  # fmt: skip
    x = np.ones((20, 5), np.float32)
    rolled, unrolled = jn.from_onnx(made), jn.from_onnx(made, sizes={"t": 20})
    assert "loop" in ops(rolled)
    assert "loop" not in ops(unrolled)
    expected = jn.evaluate(unrolled, x)
    assert len(np.unique(expected, axis=0)) >= 10
    for found in (jn.evaluate(rolled, x), jn.compile(rolled, device="cpu", cache=False)(x)):
        np.testing.assert_allclose(found, expected, 1e-5, 1e-6)
    if case == "RandomUniformLike":
        rows = [wanted(step, count=5) for step in range(20)]
        np.testing.assert_array_equal(expected, rows[::-1] if backwards else rows)


def test_scans_with_a_batch_and_sequences() -> None:
    old = onnx.helper.make_model(
        parser.parse_model('<ir_version: 8, opset_import: ["" : 8]>\n' """g (float[2, 3, 4] x) => (float[2, 3, 4] y) {
           y = Scan <num_scan_inputs = 1, body = b (float[4] a) => (float[4] o) {
              o = RandomUniformLike <seed = 3.0> (a) }> ("", x) }""").graph,
        opset_imports=[onnx.helper.make_opsetid("", 8)], ir_version=8,
    )  # fmt: skip
    found = jn.evaluate(jn.from_onnx(old), np.zeros((2, 3, 4), np.float32))
    np.testing.assert_array_equal(found.reshape(6, 4), [wanted(step, count=4) for step in range(6)])
    made = model("""g (float[3, 4] x) => (float[n, 4] y) { s = SplitToSequence <axis = 0, keepdims = 0> (x)
       m = SequenceMap <body = b (float[4] a) => (float[4] o) { o = RandomUniformLike <seed = 3.0> (a) }> (s)
       y = ConcatFromSequence <axis = 0, new_axis = 1> (m) }""")
    found = jn.evaluate(jn.from_onnx(made), np.zeros((3, 4), np.float32))
    np.testing.assert_array_equal(found, [wanted(step, count=4) for step in range(3)])


DRAWS = """<domain: "own", opset_import: ["" : 17, "own" : 1]>
%s (a) => (b) { %s }"""


@pytest.mark.slow
def test_each_node_has_a_stream_of_its_own() -> None:
    """Outside, in loops, in branches, and in functions that are called twice, from functions and from loops."""
    loop = """%s = Loop (m, yes) <body = b (int64 i, bool going) => (bool again, float[4] o) {
       again = Identity (going) o = %s }>"""
    drawn = "RandomNormal <shape = [4]> ()"
    loops = loop % ("d", drawn) + loop % ("e", drawn) + loop % ("f", "own.twice (x)")
    functions = DRAWS % ("draws", "b = RandomNormalLike (a)")
    functions += DRAWS % ("twice", "c = own.draws (a) d = own.draws (a) b = Sub (c, d)")
    made = model(f"""g (float[4] x, int64 m, bool c) => (float[4] a, float[4] b, float[n, 4] d, float[n, 4] e, float[n, 4] f,
          float[4] h, float[4] k, float[4] l, float[4] p) {{ yes = Constant <value = bool {{1}}> ()
       a = {drawn} b = {drawn} {loops}
       h = If (c) <then_branch = t1 () => (float[4] o1) {{ o1 = {drawn} }},
                   else_branch = t2 () => (float[4] o2) {{ o2 = {drawn} }}>
       k = own.draws (x) l = own.draws (x) p = own.twice (x) }}""", functions)
    graph = jn.from_onnx(made)
    compiled = jn.compile(graph, device="cpu", cache=False)
    rows: list[Any] = []
    for is_true in (True, False):
        feeds = np.zeros(4, np.float32), np.array(6), np.array(is_true)
        found = compiled(*feeds)
        for one, other in zip(found, jn.evaluate(graph, *feeds), strict=True):
            np.testing.assert_allclose(one, other, 1e-4, 1e-6)
        rows += [found[5]] if rows else [row for each in found for row in np.atleast_2d(each)]
    assert len(rows) == 25
    assert len(np.unique(np.abs(rows))) == 100
    for one, other in combinations(rows, 2):
        assert abs(one - other).max() > 1e-3
        assert abs(one + other).max() > 1e-3


def test_streams_depend_on_nothing_else_in_a_model() -> None:
    """A loop that is imported several ways, or a branch that is not taken, changes no other node's numbers."""
    text = """g (bool c, int64 m) => (float[n, 3] r, float[3] y) { yes = Constant <value = bool {1}> ()
       u = If (c) <then_branch = p () => (float[3] v) { v = RandomUniform <shape = [3]> () },
                   else_branch = q () => (float[3] w) { w = Constant <value_floats = [1.0, 2.0, 3.0]> () }>
       r = Loop (m, yes) <body = b (int64 i, bool going) => (bool again, float[3] o) {
          again = Identity (going) d = RandomUniform <shape = [3]> () o = Add (d, u) }>
       y = RandomUniform <shape = [3]> () }"""
    made, (c, m) = model(text), (np.array(False), np.array(3))
    every = jn.evaluate(jn.from_onnx(made), c, m)
    for constants, left in (({"c": c}, [m]), ({"m": m}, [c]), ({"c": c, "m": m}, [])):
        for one, other in zip(jn.evaluate(jn.from_onnx(made, constants=constants), *left), every, strict=True):
            np.testing.assert_array_equal(one, other)
