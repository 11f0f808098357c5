"""Models of more launches than one function of the driver has."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.llvm.host.driver_launches import MAX_LAUNCHES

LAYERS = 2 * MAX_LAUNCHES + 3


def _layers(x: Any, weights: Any) -> Any:
    for _ in range(LAYERS):
        x = jn.tanh(x @ weights) + 0.125
    return x


def _expected(x: Any, weights: Any) -> Any:
    for _ in range(LAYERS):
        x = np.tanh(x @ weights) + np.float32(0.125)
    return x


@pytest.mark.slow
@pytest.mark.parametrize("rows", [3, "n"])
def test_a_deep_network(rows: Any) -> None:
    """One kernel for each layer; sizes are known, or at launch alone. Profiles count every launch."""
    weights = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32) / 4
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (rows, 8), "x")])
    graph.output(_layers(graph.inputs[0], graph.constant(weights)))
    model = jn.compile(graph, "cpu", cache=False)
    assert len(model.kernels) >= LAYERS
    x = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
    np.testing.assert_allclose(model(x), _expected(x, weights), rtol=1e-4, atol=1e-5)
    assert len(str(model.profile(x, repeat=1)).splitlines()) >= LAYERS


@pytest.mark.slow
def test_in_an_iteration_of_a_loop() -> None:
    weights = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32) / 4
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (3, 8), "x")])
    w = graph.constant(weights)
    graph.output(jn.fori_loop(0, 2, lambda _, h: _layers(h, w), graph.inputs[0]))
    x = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
    expected = _expected(_expected(x, weights), weights)
    np.testing.assert_allclose(jn.compile(graph, "cpu", cache=False)(x), expected, rtol=1e-4, atol=1e-5)
