"""Pads that remove elements, of sizes that are numbers and of sizes that have names. onnxruntime witnesses."""

from __future__ import annotations

import itertools
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ....support.onnx_models import model, node

F = np.float32


def padding(pads: tuple[int, ...], shape: list[int | str], mode: str) -> Any:
    nodes = [node("Pad", "x pads value" if mode == "constant" else "x pads", mode=mode)]
    return model(nodes, {"x": (F, shape)}, constants={"pads": np.array(pads), "value": F(9)}, opset=21)


def expected(made: Any, x: Any) -> Any:
    """What onnxruntime computes, None where it refuses."""
    onnxruntime = pytest.importorskip("onnxruntime")
    onnxruntime.set_default_logger_severity(4)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    try:
        return session.run(None, {"x": x})[0]
    except Exception:  # its classes have no common base
        return None


@pytest.mark.one_in(2)
@pytest.mark.parametrize("before", [-4, -3, -1, 0, 2, 4])
def test_a_constant_around_what_remains(before: int) -> None:
    for after in (-4, -2, -1, 0, 1, 4):
        symbolic = jn.from_onnx(padding((before, after), ["n"], "constant"))
        for n in (0, 1, 3):
            x = np.arange(1, n + 1, dtype=F)
            made = padding((before, after), [n], "constant")
            want = expected(made, x)
            assert (want is None) == (n + before + after < 0)
            if want is None:
                with pytest.raises(jn.UserError, match=r"remove more than axis 0|must equal|not be negative"):
                    jn.evaluate(jn.from_onnx(made), x)
                with pytest.raises(jn.UserError, match=r"must equal|not be negative"):
                    jn.evaluate(symbolic, x)
                continue
            for graph in (jn.from_onnx(made), symbolic):
                np.testing.assert_array_equal(jn.evaluate(graph, x), want)


@pytest.mark.parametrize("mode", ["edge", "reflect"])
def test_edges_of_what_remains(mode: str) -> None:
    for before, after in itertools.product((-2, -1, 0, 1), (-1, 0, 1)):
        symbolic = jn.from_onnx(padding((before, after), ["n"], mode))
        for n in (3, 5):
            x = np.arange(1, n + 1, dtype=F)
            made = padding((before, after), [n], mode)
            want = expected(made, x)
            if want is None or not want.size:
                continue
            for graph in (jn.from_onnx(made), symbolic):
                np.testing.assert_array_equal(jn.evaluate(graph, x), want)


@pytest.mark.parametrize(
    ("pads", "shape"), [((-3, 0, 3, 0), (1, 3)), ((2, 0, -4, 0), (2, 2)), ((0, 1, 0, -1), (2, 3)), ((-1, -1, 2, 0), (2, 1))]
)
def test_compiled_matrices(pads: tuple[int, ...], shape: tuple[int, ...]) -> None:
    x = np.arange(1, 1 + shape[0] * shape[1], dtype=F).reshape(shape)
    made = padding(pads, ["n", "m"], "constant")
    found, want = jn.compile(jn.from_onnx(made), device="cpu")(x), expected(made, x)
    assert found.shape == want.shape
    np.testing.assert_array_equal(found, want)


def test_what_a_launch_refuses() -> None:
    x = np.ones((4, 1), F)
    made = padding((0, -1, 0, -1), ["n", "m"], "constant")
    assert expected(made, x) is None
    compiled = jn.compile(jn.from_onnx(made), device="cpu")
    with pytest.raises(jn.UserError, match="m = 1"):
        compiled(x)
    assert compiled(np.ones((4, 2), F)).shape == (4, 0)
    with pytest.raises(jn.UserError, match=r"Pad[\s\S]*widths -1 and -1 remove more than axis 1 has"):
        jn.from_onnx(padding((0, -1, 0, -1), [4, 1], "constant"))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("pads", [(2, 0, 1, 0), (0, 7, 3, 5), (-1, 1, 0, 4), (0, -2, 0, 0)])
def test_elements_that_wrap_around(pads: tuple[int, ...]) -> None:
    symbolic = jn.from_onnx(padding(pads, ["n", "m"], "wrap"))
    compiled = jn.compile(symbolic, device="cpu")
    for n, m in ((2, 3), (1, 5), (4, 4)):
        x = np.arange(n * m, dtype=F).reshape(n, m)
        low, high = pads[:2], pads[2:]
        kept = x[max(-low[0], 0) : n - max(-high[0], 0), max(-low[1], 0) : m - max(-high[1], 0)]
        if not kept.size:
            continue
        want = np.pad(kept, [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)], "wrap")
        for run in (lambda x: jn.evaluate(symbolic, x), compiled, jn.compile(jn.from_onnx(padding(pads, [n, m], "wrap")))):
            np.testing.assert_array_equal(run(x), want)
    if max(pads) > 0:
        with pytest.raises(jn.UserError, match="must not be empty in mode 'wrap'"):
            compiled(np.ones((0, 0), F))


def test_widths_of_wrapped_elements_may_be_sizes() -> None:
    nodes = [node("Shape", "q", "s"), node("Pad", "x s", mode="wrap")]
    made = model(nodes, {"x": (F, ["n"]), "q": (F, ["a", "b"])}, opset=21)
    graph = jn.from_onnx(made)
    for n, before, after in ((3, 2, 7), (1, 0, 4), (0, 0, 0), (5, 0, 0)):
        x = np.arange(n, dtype=F)
        want = np.pad(x, (before, after), "wrap") if n else x
        np.testing.assert_array_equal(jn.evaluate(graph, x, np.zeros((before, after), F)), want)
