"""Loops in loops and branches in branches: importing takes no longer for each level than for the one before."""

from __future__ import annotations

import time
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ....support.onnx_texts import by_onnxruntime, model

CONSTANTS = {
    "zero": np.float32(0), "yes": np.array(True), "five": np.array(5), "hundred": np.array(100), "zero1": np.array([0]),
    "tenth": np.float32(0.05),
}  # fmt: skip


def made_of(nodes: str, depth: int, inside: str) -> Any:
    names = {name: array for name, array in CONSTANTS.items() if name in nodes}
    signature = "(float[n] x, int64 m) => (float[k] y)" if " m" in nodes or "(m" in nodes else "(float[n] x) => (float[k] y)"
    return model(signature, f"s = ReduceSum <keepdims = 0> (x) p = Greater (s, zero) {nodes} y = Identity (y{depth})",
                 **names, **({} if "zero" in names else {"zero": CONSTANTS["zero"]}))  # fmt: skip


def branches(depth: int, inside: str) -> Any:
    nodes = inside
    for level in range(1, depth + 1):
        nodes = (
            f"y{level} = If (p) <then_branch = t{level} () => (float[a{level}] o{level}) {{"
            f" {nodes} o{level} = Neg (y{level - 1}) }},"
            f" else_branch = e{level} () => (float[b{level}] q{level}) {{ q{level} = Abs (x) }}>"
        )
    return made_of(nodes, depth, inside)


def loops(depth: int, inside: str, trips: str) -> Any:
    nodes = inside
    for level in range(1, depth + 1):
        nodes = (
            f"y{level} = Loop ({trips}, yes, x) <body = t{level} (int64 i{level}, bool c{level}, float[k{level}] s{level}) => "
            f"(bool g{level}, float[l{level}] o{level}) {{ {nodes} w{level} = Mul (y{level - 1}, tenth)"
            f" o{level} = Add (w{level}, s{level}) g{level} = Identity (c{level}) }}>"
        )
    return made_of(nodes, depth, inside)


INSIDE = {
    "an operator that nobody knows": "y0 = Foo (x)",
    "a size that data decides": "z0 = NonZero (x) z1 = Cast <to = 1> (z0) y0 = Squeeze (z1, zero1)",
    "nothing particular": "y0 = Tanh (x)",
}
SECONDS = 15.0
"""Of processor time; twice as long for each level would be hours."""


def imported(made: Any, refused: bool) -> None:
    start = time.process_time()
    if refused:
        with pytest.raises(jn.UnsupportedError, match="Foo"):
            jn.from_onnx(made)
    else:
        jn.from_onnx(made)
    assert time.process_time() < start + SECONDS


@pytest.mark.one_in(4)
@pytest.mark.parametrize("inside", INSIDE)
def test_branches(inside: str) -> None:
    made = branches(20, INSIDE[inside])
    imported(made, "nobody" in inside)
    if "nobody" in inside:
        return
    compiled = jn.compile_onnx(branches(7, INSIDE[inside]), device="cpu", threads=1)
    for x in ([1, 2, 0], [-1, -2, 0], [0.5, 3]):
        feeds = {"x": np.array(x, np.float32)}
        np.testing.assert_allclose(compiled(**feeds), by_onnxruntime(branches(7, INSIDE[inside]), feeds)[0], 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("trips", ["five", "hundred"])
@pytest.mark.parametrize("inside", ["an operator that nobody knows", "nothing particular"])
def test_loops(inside: str, trips: str) -> None:
    imported(loops(6, INSIDE[inside], trips), "nobody" in inside)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("depth", [2, 3, 4])
def test_loops_of_a_few_iterations_each(depth: int) -> None:
    x = np.array([0.5, -1, 2], np.float32)
    want = np.tanh(x)
    for _ in range(depth):
        want = x + 5 * np.float32(0.05) * want
    found = jn.compile_onnx(loops(depth, INSIDE["nothing particular"], "five"), device="cpu", threads=1)(x)
    np.testing.assert_allclose(found, want, 1e-4)
