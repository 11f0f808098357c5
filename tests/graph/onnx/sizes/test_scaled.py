"""Sizes that go through floats come back as quotients of integers that agree with the floats at every size."""

from __future__ import annotations

import itertools

import joinery as jn
import numpy as np
import pytest

from ....support.onnx_models import agrees, model, node
from ....support.tiers import both_tiers, share

F = np.float32
SCALES = (0.1, 0.3, 1 / 3, 0.5, 0.6, 0.7, 1.1, 1.6, 2.0, 2.2, 2.5, 7.77)


@both_tiers
def test_scaled_and_rounded(in_full: bool) -> None:
    cases = list(itertools.product(("Floor", "Ceil", "Round"), SCALES, (1, 11), ("Mul", "Div")))
    refused = 0
    for rounds, scale, code, op in share(cases, 1, 5, in_full):
        dtype = F if code == 1 else np.float64
        nodes = [node("Shape", "x", "n"), node("Cast", "n", "f", to=code), node(op, "f s", "m"), node(rounds, "m", "r"),
                 node("Cast", "r", "k", to=7), node("ConstantOfShape", "k")]  # fmt: skip
        made = model(nodes, {"x": (F, ["n"])}, constants={"s": dtype(scale)}, opset=17)
        try:
            graph = jn.from_onnx(made)
        except jn.UnsupportedError:  # the rounding has no regular form
            refused += 1
            graph = None
        for size in (0, 1, 3, 7, 10, 20, 30, 77, 1000, 65535):
            value = dtype(size) * dtype(scale) if op == "Mul" else dtype(size) / dtype(scale)
            want = int({"Floor": np.floor, "Ceil": np.ceil, "Round": np.rint}[rounds](value))
            if graph is not None:
                assert jn.evaluate(graph, np.zeros(size, F)).shape == (want,)
            elif size:
                assert jn.evaluate(jn.from_onnx(made, sizes={"n": size}), np.zeros(size, F)).shape == (want,)
    assert refused < len(cases) / 3


def test_several_steps_in_floats() -> None:
    """As an exporter writes a scale: in float64, rounded to float32, then down."""
    nodes = [node("Shape", "x", "n"), node("Cast", "n", "f", to=11), node("Mul", "f s", "m"), node("Cast", "m", "g", to=1),
             node("Sub", "g one", "h"), node("Floor", "h", "r"), node("Cast", "r", "k", to=7), node("Add", "k two", "q"),
             node("ConstantOfShape", "q")]  # fmt: skip
    made = model(nodes, {"x": (F, ["n"])}, constants={"s": np.float64(0.6), "one": F(1), "two": np.array([2])}, opset=17)
    graph = jn.from_onnx(made)
    for size in (0, 1, 5, 20, 33, 1000):
        want = int(np.floor(F(size * 0.6) - F(1))) + 2
        assert jn.evaluate(graph, np.zeros(size, F)).shape == (want,)


def test_what_is_no_size_in_the_end_is_computed_by_the_run() -> None:
    nodes = [node("Shape", "x", "n"), node("Cast", "n", "f", to=1), node("Mul", "f s", "m"), node("Sqrt", "m", "r"),
             node("Mul", "x r")]  # fmt: skip
    made = model(nodes, {"x": (F, ["n"])}, constants={"s": F(0.6)}, opset=17)
    for size in (1, 5, 7):
        agrees(made, np.arange(size, dtype=F))
    assert [symbol.op.name for symbol in jn.from_onnx(made).symbols].count("sqrt") == 1


def test_sizes_that_differ_stay_apart() -> None:
    nodes = [node("Shape", "x", "n"), node("Shape", "z", "m"), node("Cast", "n", "f", to=1), node("Cast", "m", "g", to=1),
             node("Div", "f g", "q"), node("Cast", "q", "k", to=7), node("ConstantOfShape", "k")]  # fmt: skip
    made = model(nodes, {"x": (F, ["n"]), "z": (F, ["m"])}, opset=17)
    with pytest.raises(jn.UnsupportedError, match=r"computed from sizes; .*, sizes={'m': number, 'n': number}\)"):
        jn.from_onnx(made)
    assert jn.evaluate(jn.from_onnx(made, sizes={"n": 7, "m": 2}), np.zeros(7, F), np.zeros(2, F)).shape == (3,)
