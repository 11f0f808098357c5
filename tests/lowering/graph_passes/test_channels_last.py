"""Permutations to channels-first move towards the outputs: the values stay, and between convolutions none is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.graph_passes.channels_last import keep_channels_last
from joinery.lowering.graph_passes.expand import expand

FIRST, LAST = (0, 3, 1, 2), (0, 2, 3, 1)


def orders(graph: jn.Graph) -> list[Any]:
    """Returns the permutations of values that are no constants."""
    return [s.attrs["axes"] for s in graph.symbols if s.op.name == "permute" and not _is_constant(s.inputs[0])]


def _is_constant(symbol: Any) -> bool:
    return symbol.op.name == "constant" or (symbol.op.kind == "view" and _is_constant(symbol.inputs[0]))


def built(steps: Callable[[Any, Any], Any]) -> jn.Graph:
    """Makes a graph that takes x (2, 5, 6, 4) with channels last, and y (2, 4, 5, 6) with channels first, as two that it sees
    with channels first."""
    types = [jn.TensorType(jn.float32, (2, 5, 6, 4), "x"), jn.TensorType(jn.float32, (2, 4, 5, 6), "y")]
    graph = jn.Graph("g", types)
    x, y = graph.inputs
    made = steps(jn.max(jn.windows(x, 1, 1), axis=4).permute(FIRST), y)
    graph.output(*(made if isinstance(made, tuple) else (made,)))
    return graph


C = np.arange(4, dtype=np.float32).reshape(4, 1, 1)

STEPS: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "maps": (lambda x, y: jn.relu(x * 2 + C).permute(LAST), 0),
    "a scalar and a row": (lambda x, y: (x + np.float32(3) + np.ones((1, 6), np.float32)).permute(LAST), 0),
    "where": (lambda x, y: jn.where(x > 0, x, C).permute(LAST), 0),
    "another order": (lambda x, y: (x + y).permute(LAST), 1),
    "reduction, axes kept": (lambda x, y: jn.sum(x, axis=(2, 3), keepdims=True).permute(LAST), 0),
    "reduction over channels": (lambda x, y: jn.max(x, axis=1), 0),
    "reduction to channels": (lambda x, y: jn.sum(x, axis=(2, 3)), 0),
    "reduction over one of space": (lambda x, y: jn.max(x, axis=2), 1),
    "argmax": (lambda x, y: jn.argmax(x, axis=1), 0),
    "argmax in the order of channels first": (lambda x, y: jn.argmax(x), 1),
    "pad": (lambda x, y: jn.pad(x, ((0, 0), (1, 2), (0, 1), (2, 0))).permute(LAST), 0),
    "slice": (lambda x, y: x[:, 1:, ::2, ::-1].permute(LAST), 0),
    "flip": (lambda x, y: jn.flip(x, (1, 2)).permute(LAST), 0),
    "cumsum": (lambda x, y: jn.cumsum(x, 1).permute(LAST), 0),
    "concat": (lambda x, y: jn.concat([x, y, x * 2], 1).permute(LAST), 1),
    "windows": (lambda x, y: jn.max(jn.windows(x, (2, 2), (2, 3)), axis=(4, 5)).permute(LAST), 0),
    "flattened space": (lambda x, y: x.reshape(2, 120), 1),
    "flattened after pooling": (lambda x, y: jn.sum(x, axis=(2, 3), keepdims=True).reshape(2, 4), 0),
    "matrix product": (lambda x, y: x @ np.ones((6, 3), np.float32), 1),
    "gather": (lambda x, y: jn.gather(x, np.array([2, 0]), 1), 1),
    "broadcast": (lambda x, y: jn.broadcast_to(x, (3, 2, 4, 5, 6)), 1),
    "two readers": (lambda x, y: (jn.relu(x).permute(LAST), x + 1), 1),
    "lower rank beside it": (lambda x, y: x + jn.sum(y, axis=(0, 2, 3)).reshape(4, 1, 1), 2),
    "higher rank": (lambda x, y: x + y.reshape(1, 2, 4, 5, 6), 1),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", STEPS)
def test_values_and_what_is_left(name: str) -> None:
    steps, left = STEPS[name]
    graph = built(steps)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-9, 9, (2, 5, 6, 4)).astype(np.float32), rng.integers(-9, 9, (2, 4, 5, 6)).astype(np.float32)]
    rewritten = keep_channels_last(expand(graph))
    assert len(orders(rewritten)) == left
    for found, expected in zip(results(rewritten, arrays), results(graph, arrays), strict=True):
        np.testing.assert_array_equal(found, expected)
    for found, expected in zip(results(graph, arrays, compiled=True), results(graph, arrays), strict=True):
        np.testing.assert_array_equal(found, expected)


def results(graph: jn.Graph, arrays: Any, compiled: bool = False) -> tuple[Any, ...]:
    found = jn.compile(graph, device="cpu", cache=False)(*arrays) if compiled else jn.evaluate(graph, *arrays)
    return found if isinstance(found, tuple) else (found,)


def test_graphs_without_windows_are_left_alone() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (2, 3, 4), "x")])
    graph.output(jn.relu(graph.inputs[0].permute((0, 2, 1))).permute((0, 2, 1)))
    expanded = expand(graph)
    assert keep_channels_last(expanded) is expanded


def test_the_graph_it_is_given_names_and_checks_stay() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n", 5, 6, "c"), "x")])
    taken = jn.windows(graph.inputs[0], 2, 1)
    graph.output(jn.relu(jn.max(taken, axis=4).permute(FIRST)).permute(LAST), names=["result"])
    expanded = expand(graph)
    text = str(expanded)
    rewritten = keep_channels_last(expanded)
    assert str(expanded) == text
    assert rewritten.output_names == ("result",)
    assert [symbol.name for symbol in rewritten.inputs] == ["x"]
    assert not orders(rewritten)
