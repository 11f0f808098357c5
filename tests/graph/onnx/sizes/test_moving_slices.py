"""Slices in loops that start at the number of the iteration are one loop for all sizes, and those of onnxruntime."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from ....support.onnx_texts import agrees, model, serves

ONES: dict[str, Any] = {"one": [1], "zero": [0], "two": [2], "three": [3], "yes": True, "front": [0]}
LENGTH = "n = Shape <start = 1, end = 2> (x) "
BOUNDS = {  # how often, and the bounds of the slice in iteration i
    "one element": ("t = Identity (n)", "a = Unsqueeze (i, zero) b = Add (a, one)", "a, b, one", "r"),
    "three elements": ("t = Sub (n, two)", "a = Unsqueeze (i, zero) b = Add (a, three)", "a, b, one", "r"),
    "blocks of three": ("t = Div (n, three)", "v = Unsqueeze (i, zero) a = Mul (v, three) w = Add (v, one) b = Mul (three, w)",
                        "a, b, one", "r"),
    "every other of three": ("t = Sub (n, two)", "a = Unsqueeze (i, zero) b = Add (a, three)", "a, b, one, two", "r"),
    "from the end": ("t = Identity (n)", "v = Unsqueeze (i, zero) b = Sub (n, v) a = Sub (b, one)", "a, b, one", "r"),
    "along two axes": ("t = Identity (n)", "v = Unsqueeze (i, zero) a = Concat <axis = 0> (zero, v) w = Add (v, one) "
                       "b = Concat <axis = 0> (one, w) axes = Constant <value_ints = [0, 1]> ()", "a, b, axes", "r"),
}


def looped(trips: str, bounds: str, given: str, more: str = "", opset: int = 18) -> Any:
    """A model that adds up, in a loop, what slices of its input hold."""
    body = f"{LENGTH} {trips} y = Loop (t, yes, first) <body = b (int64 i, bool c, float[p] s) => (bool c2, float[p] s2) {{ " \
           f"c2 = Identity (c) {bounds} r = Slice (x, {given}) {more} q = ReduceSum <keepdims = 0> (r, one) " \
           f"h = Tanh (s) s2 = Add (h, q) }}>"
    return model("(float[p, n] x, float[p] first) => (float[p] y)", body, opset, **ONES)


def feeds(*lengths: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    return [{"x": rng.normal(size=(2, n)).astype(np.float32), "first": np.ones(2, np.float32)} for n in lengths]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", BOUNDS)
def test_one_loop_serves_all_sizes(name: str) -> None:
    trips, bounds, given, _ = BOUNDS[name]
    graph = agrees(looped(trips, bounds, given), *feeds(2, 3, 4, 9, 400))
    assert [symbol.op.name for symbol in graph.symbols].count("loop") == 1
    assert len(graph.symbols) < 12


def test_slices_of_a_row_that_another_loop_chooses() -> None:
    inner = "z = Loop (m, yes, s) <body = d (int64 j, bool g, float[p] e) => (bool g2, float[p] e2) { g2 = Identity (g) " \
            "k = Mul (i, m) at = Add (k, j) a = Unsqueeze (at, zero) b = Add (a, one) r = Slice (x, a, b, one) " \
            "q = ReduceSum <keepdims = 0> (r, one) h = Tanh (e) e2 = Add (h, q) }>"
    body = f"{LENGTH} m = Constant <value = int64 {{3}}> () t = Div (n, three) y = Loop (t, yes, first) <body = b " \
           f"(int64 i, bool c, float[p] s) => (bool c2, float[p] s2) {{ c2 = Identity (c) {inner} s2 = Identity (z) }}>"
    agrees(model("(float[p, n] x, float[p] first) => (float[p] y)", body, **ONES), *feeds(3, 5, 30))


def test_a_state_that_grows_by_slices_needs_no_sizes() -> None:
    body = f"{LENGTH} y = Loop (n, yes, first) <body = b (int64 i, bool c, float[p, k] s) => (bool c2, float[p, l] s2) {{ " \
           "c2 = Identity (c) a = Unsqueeze (i, zero) b = Add (a, one) r = Slice (x, a, b, one) " \
           "h = ReduceMean <keepdims = 1> (s, one) q = Add (h, r) s2 = Concat <axis = 1> (s, q) }>"
    made = model("(float[p, n] x, float[p, 1] first) => (float[p, m] y)", body, **ONES)
    runs = feeds(1, 4, 60)
    for run in runs:
        run["first"] = np.ones((2, 1), np.float32)
    agrees(made, *runs)


def test_sizes_with_which_a_slice_leaves_the_axis_are_refused_or_compiled_for() -> None:
    """Slices are clamped: beyond the end they are empty, so that another size would be wrong, and a clamped start too."""
    made = looped("t = Shape (many)", "a = Unsqueeze (i, zero) b = Add (a, one)", "a, b, one")
    del made.graph.input[:]
    made.graph.input.extend(model("(float[p, n] x, float[p] first, float[m] many) => (float[p] y)", "y = Neg (x)").graph.input)
    runs = [{**feed, "many": np.zeros(m, np.float32)} for feed in feeds(5, 300) for m in (0, 3, 5, 7)]
    serves(made, *runs)
    compiled = jn.compile(jn.from_onnx(made), device="cpu")
    compiled(*runs[2].values())
    with pytest.raises(jn.UserError, match=r"a slice of 1 of the n elements along axis 1 .* must lie inside of it"):
        compiled(*runs[3].values())


def test_a_loop_without_iterations_requires_nothing() -> None:
    agrees(looped("t = Sub (n, two)", "a = Unsqueeze (i, zero) b = Add (a, three)", "a, b, one"), *feeds(2))


@pytest.mark.slow
@pytest.mark.parametrize("bounds", [
    "a = Unsqueeze (i, zero) v = Neg (a) b = Add (v, three)",  # another size in each iteration
    "v = Unsqueeze (i, zero) a = Sub (v, one) b = Add (a, one)",  # from -1, which counts from the end
    "v = Unsqueeze (i, zero) a = Mul (v, v) b = Add (a, one)",
])  # fmt: skip
def test_other_slices_are_those_of_each_iteration(bounds: str) -> None:
    serves(looped("t = Identity (n)", bounds, "a, b, one"), *feeds(2, 5, 90))
