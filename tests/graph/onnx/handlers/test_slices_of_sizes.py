"""Bounds of slices, quotients and remainders that sizes decide, of either sign: compared with onnxruntime at many sizes."""

from __future__ import annotations

import itertools
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ....support.onnx_models import model, node

ort = pytest.importorskip("onnxruntime")

F, INT = np.float32, np.int64
END = [2**63 - 1]
ONE = {"one": [1], "two": [2], "five": [5], "zero": [0], "minus": [-1], "end": END, "begin": [-(2**63)]}
BOUNDS = {
    "last t": ([node("Neg", "t", "a")], "a end zero"),
    "all but the last t": ([node("Neg", "t", "a")], "zero a zero"),
    "from t - 1": ([node("Sub", "t one", "a")], "a end zero"),
    "to t - 1": ([node("Sub", "t one", "a")], "zero a zero"),
    "to t - 5": ([node("Sub", "t five", "a")], "zero a zero"),
    "from n - 1": ([node("Sub", "n one", "a")], "a end zero"),
    "to n - 1": ([node("Sub", "n one", "a")], "zero a zero"),
    "from -n": ([node("Neg", "n", "a")], "a end zero"),
    "from t - n": ([node("Sub", "t n", "a")], "a end zero"),
    "from n - t to n": ([node("Sub", "n t", "a")], "a n zero"),
    "from -t to t - 1": ([node("Neg", "t", "a"), node("Sub", "t one", "b")], "a b zero"),
    "backwards from t - 1": ([node("Sub", "t one", "a")], "a begin zero minus"),
    "backwards from n - 1 to -t": ([node("Sub", "n one", "a"), node("Neg", "t", "b")], "a b zero minus"),
    "every other from -t": ([node("Neg", "t", "a")], "a end zero two"),
    "backwards by two from t - 5": ([node("Sub", "t five", "a"), node("Neg", "two", "m")], "a begin zero m"),
}


def witness(made: Any) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    made.ir_version = 8
    return ort.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("name", BOUNDS)
def test_slices(name: str) -> None:
    nodes, bounds = BOUNDS[name]
    shapes = [node("Shape", "q", "t"), node("Shape", "x", "n", start=0, end=1)]
    made = model([*shapes, *nodes, node("Slice", f"x {bounds}")], {"x": (F, ["n", 2]), "q": (F, ["t"])}, opset=18,
                 constants={key: np.array(value, INT) for key, value in ONE.items()})  # fmt: skip
    made.graph.output[0].type.tensor_type.elem_type = 1
    graph, session = jn.from_onnx(made), witness(made)
    for n, t in itertools.product((0, 1, 2, 3, 6), (0, 1, 2, 3, 5, 7)):
        x, q = np.arange(2 * n, dtype=F).reshape(n, 2), np.zeros(t, F)
        np.testing.assert_array_equal(jn.evaluate(graph, x, q), session.run(None, {"x": x, "q": q})[0], f"n = {n}, t = {t}")


QUOTIENTS = {
    "(n - 1) / 4": [node("Add", "n minus", "a"), node("Div", "a four", "k")],
    "(n - 1) / 1": [node("Add", "n minus", "a"), node("Div", "a one", "k")],
    "(n - 9) / 4": [node("Sub", "n nine", "a"), node("Div", "a four", "k")],
    "(n - t) / 3": [node("Sub", "n t", "a"), node("Div", "a three", "k")],
    "(n - t) / -3": [node("Sub", "n t", "a"), node("Neg", "three", "m"), node("Div", "a m", "k")],
    "(n - t) mod 3": [node("Sub", "n t", "a"), node("Mod", "a three", "k")],
    "(n - t) fmod 3": [node("Sub", "n t", "a"), node("Mod", "a three", "k", fmod=1)],
}


@pytest.mark.parametrize("name", QUOTIENTS)
def test_integers_are_divided_towards_zero(name: str) -> None:
    nodes = [node("Shape", "x", "n"), node("Shape", "q", "t"), *QUOTIENTS[name], node("Add", "k ten", "s"),
             node("ConstantOfShape", "s")]  # fmt: skip
    numbers = {"minus": -1, "one": 1, "three": 3, "four": 4, "nine": 9, "ten": 10}
    made = model(nodes, {"x": (F, ["n"]), "q": (F, ["t"])}, opset=18,
                 constants={key: np.array([value]) for key, value in numbers.items()})  # fmt: skip
    made.graph.output[0].type.tensor_type.elem_type = 1
    graph, session = jn.from_onnx(made), witness(made)
    for n, t in itertools.product((0, 1, 2, 5, 8, 9), (0, 1, 4, 8)):
        x, q = np.zeros(n, F), np.zeros(t, F)
        assert jn.evaluate(graph, x, q).shape == session.run(None, {"x": x, "q": q})[0].shape, f"n = {n}, t = {t}"


@pytest.mark.parametrize("op", ["Add", "Max", "Where", "Expand", "Pow", "to"])
def test_a_slice_of_one_element_is_broadcast(op: str) -> None:
    """Its size is the smaller of n and 1."""
    nodes = [node("Slice", "x zero one zero", "s")]
    nodes += {
        "Where": [node("Greater", "h s", "g"), node("Where", "g h s")],
        "Expand": [node("Shape", "h", "w"), node("Expand", "s w")],
        "to": [node("Shape", "s", "w"), node("Expand", "h w")],
    }.get(op, [node(op, "h s")])
    made = model(nodes, {"x": (F, ["n", 4]), "h": (F, ["e", 4])}, opset=18,
                 constants={key: np.array(ONE[key], INT) for key in ("zero", "one")})  # fmt: skip
    made.graph.output[0].type.tensor_type.elem_type = 1
    graph, session = jn.from_onnx(made), witness(made)
    for n, e in ((1, 1), (5, 3), (2, 1)):
        x, h = np.arange(4 * n, dtype=F).reshape(n, 4), np.ones((e, 4), F)
        np.testing.assert_allclose(jn.evaluate(graph, x, h), session.run(None, {"x": x, "h": h})[0], rtol=1e-6)
    with pytest.raises(jn.UserError, match=r"reshape of .*n"):
        jn.evaluate(graph, np.zeros((0, 4), F), np.ones((3, 4), F))


def test_slices_of_exported_windows_are_read_back() -> None:
    """Windows of convolutions with strides are written as slices up to 2 * n - 1."""
    rng = np.random.default_rng(0)
    constants = {"w": rng.normal(size=(3, 2, 3, 3)).astype(F), "v": rng.normal(size=(4, 3, 3, 3)).astype(F),
                 "s": np.array([1, 1, 2, 2], F)}  # fmt: skip
    nodes = [node("Conv", "x w", "a", pads=[1, 1, 1, 1], strides=[2, 2]), node("Resize", "a _ s", "b", mode="nearest"),
             node("Conv", "b v", pads=[1, 1, 1, 1], strides=[2, 2])]  # fmt: skip
    graph = jn.from_onnx(model(nodes, {"x": (F, ["n", 2, "h", "k"])}, constants=constants, opset=18))
    again = jn.from_onnx(jn.to_onnx(graph))
    for height, width in ((1, 2), (5, 8), (6, 7)):
        x = rng.normal(size=(2, 2, height, width)).astype(F)
        np.testing.assert_allclose(jn.evaluate(again, x), jn.evaluate(graph, x), rtol=1e-5, atol=1e-6)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("by", [-7, -2, -1, 0, 1, 3])
def test_a_roll_by_a_remainder_of_a_size(by: int) -> None:
    """As torch's exporter writes `roll`: two slices at (by mod n), whose divisor is a size."""
    made = model(
        [node("Shape", "x", "n", start=0, end=1), node("Mod", "by n", "at"), node("Slice", "x zero at zero", "head"),
         node("Slice", "x at n zero", "tail"), node("Concat", "tail head", "y", axis=0)], {"x": (F, ["n", 2])}, opset=18,
        constants={"by": np.array([by], INT), "zero": np.array([0], INT)},
    )  # fmt: skip
    made.graph.output[0].type.tensor_type.elem_type = 1
    graph, session = jn.from_onnx(made), witness(made)
    compiled = jn.compile(graph, device="cpu", cache=False)
    for n in (1, 2, 3, 5, 8):
        x = np.arange(2 * n, dtype=F).reshape(n, 2)
        want = session.run(None, {"x": x})[0]
        np.testing.assert_array_equal(want, np.roll(x, -by, 0))
        for run in (compiled, lambda array: jn.evaluate(graph, array)):
            np.testing.assert_array_equal(run(x), want)
    empty = np.zeros((0, 2), F)  # the remainder has no value, and every slice of nothing is nothing
    assert compiled(empty).shape == jn.evaluate(graph, empty).shape == (0, 2)
