"""Recurrent networks of any length: loops beyond a few steps, with onnxruntime's results, and one model for all lengths."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from ....support.onnx_models import model, node
from ....support.tiers import each, pairs

SIZE, FEATURES, BATCH = 9, 5, 3
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def network(op: str, direction: str, ragged: bool, layout: int = 0, **attributes: Any) -> Any:
    """A model of one network, whose number of steps is open."""
    rng, count = np.random.default_rng(3), 2 if direction == "bidirectional" else 1
    shapes = {"w": (GATES[op] * SIZE, FEATURES), "r": (GATES[op] * SIZE, SIZE), "b": (2 * GATES[op] * SIZE,)}
    constants = {name: (rng.standard_normal((count, *shape)) / 3).astype(np.float32) for name, shape in shapes.items()}
    inputs = {"x": (np.float32, (BATCH, "t", FEATURES) if layout else ("t", BATCH, FEATURES))}
    if ragged:
        inputs["n"] = (np.int32, (BATCH,))
    made = node(
        op, f"x w r b {'n' if ragged else '_'}", "y h c" if op == "LSTM" else "y h", hidden_size=SIZE, direction=direction,
        layout=layout, **attributes,
    )  # fmt: skip
    return model([made], inputs, "y h c" if op == "LSTM" else "y h", constants=constants, opset=17)


@pytest.mark.one_in(10)
@pytest.mark.parametrize(
    ("op", "direction", "ragged"), pairs(list(GATES), ["forward", "reverse", "bidirectional"], [False, True])
)
def test_one_model_serves_all_lengths(op: str, direction: str, ragged: bool) -> None:
    runtime = pytest.importorskip("onnxruntime")
    made = network(op, direction, ragged, **({"linear_before_reset": 1} if op == "GRU" and ragged else {}))
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    graph = jn.from_onnx(made)
    compiled: Any = jn.compile(graph, "cpu", threads=1, cache=False)
    for steps in (1, 2, 4, 5, 23):
        x = np.random.default_rng(steps).standard_normal((steps, BATCH, FEATURES)).astype(np.float32)
        arrays = [x, np.array([steps, 1, (steps + 1) // 2], np.int32)] if ragged else [x]
        expected = session.run(None, dict(zip(("x", "n"), arrays, strict=False)))
        for results in (compiled(*arrays), jn.evaluate(graph, *arrays)):
            for one, want in zip(results, expected, strict=True):
                np.testing.assert_allclose(one, want, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("op", "layout"), each(list(GATES), [0, 1]))
def test_known_lengths_are_those_of_the_open_one(op: str, layout: int) -> None:
    """A few steps are unrolled, more of them a loop; both count the same."""
    made = network(op, "bidirectional", True, layout)
    compiled: Any = jn.compile(jn.from_onnx(made), "cpu", threads=1, cache=False)
    for steps in (4, 5):
        fixed = jn.from_onnx(made, sizes={"t": steps})
        x = np.random.default_rng(steps).standard_normal((BATCH, steps, FEATURES)).astype(np.float32)
        arrays = [x if layout else x.transpose(1, 0, 2), np.array([steps, 0, 2], np.int32)]
        for one, want in zip(jn.compile(fixed, "cpu", threads=1, cache=False)(*arrays), compiled(*arrays), strict=True):
            assert one.shape == want.shape
            np.testing.assert_allclose(one, want, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_on_a_simulated_gpu() -> None:
    graph = jn.from_onnx(network("LSTM", "forward", False))
    x = np.random.default_rng(0).standard_normal((6, BATCH, FEATURES)).astype(np.float32)
    found: Any = jn.compile(graph, "ptxsim", cache=False)(x)
    for one, want in zip(found, jn.evaluate(graph, x), strict=True):
        np.testing.assert_allclose(one, want, rtol=1e-5, atol=1e-6)
