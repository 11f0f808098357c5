"""Codes that are constants become the numbers that they stand for, wherever they are read."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.ops.control import regions_of
from joinery.lowering.graph_passes import constants
from joinery.lowering.graph_passes.constants import fold_codes

RNG = np.random.default_rng(3)
X = RNG.normal(size=(5, 4)).astype(np.float32)


def _rows(graph: Any) -> list[str]:
    found = [symbol.op.name for symbol in graph.symbols]
    return found + [row for symbol in graph.symbols for region in regions_of(symbol) for row in _rows(region)]


def _quantised(build: Any) -> Any:
    """A graph of x and a flag, with codes and scales."""
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("t", 4), "x"), jn.TensorType("bool", (), "flag")])
    codes = graph.weight("codes", RNG.integers(-100, 100, (4, 4)).astype(np.int8))
    scales = graph.weight("scales", RNG.random(4).astype(np.float32) / 50)
    result = build(*graph.inputs, codes, scales)
    graph.output(*(result if isinstance(result, tuple) else (result,)))
    return graph


def _scanned(x: Any, flag: Any, codes: Any, scales: Any) -> Any:
    def step(h: Any, row: Any) -> Any:
        found = jn.tanh(h @ jn.dequantize(codes, scales, axis=1).transpose() + row)
        return found, found

    return jn.scan(step, np.zeros(4, np.float32), x)


def _nested(x: Any, flag: Any, codes: Any, scales: Any) -> Any:
    def step(h: Any) -> Any:
        return jn.cond(flag, lambda v: v @ jn.dequantize(codes, scales, axis=1), lambda v: v + 1.0, h)

    return jn.fori_loop(0, 3, lambda _, h: step(h), x)


def _read_twice(x: Any, flag: Any, codes: Any, scales: Any) -> Any:
    looped = jn.fori_loop(0, 2, lambda _, h: h @ jn.dequantize(codes, scales, axis=1), x)
    return looped, jn.sum(codes), x @ jn.dequantize(codes, scales, axis=1)


@pytest.mark.parametrize("build", [_scanned, _nested, _read_twice])
def test_bodies_capture_the_numbers(build: Any) -> None:
    graph = _quantised(build)
    folded = fold_codes(graph)
    assert "dequantize" in _rows(graph)
    assert "dequantize" not in _rows(folded)
    kept = [symbol.name for symbol in folded.symbols if symbol.op.name == "weight"]
    assert kept == (["codes"] if build is _read_twice else [])
    assert len([symbol for symbol in folded.symbols if symbol.op.name == "constant" and symbol.shape == (4, 4)]) == 1
    for flag in (True, False):
        arrays = (X, np.array(flag))
        want, got = jn.evaluate(graph, *arrays), jn.evaluate(folded, *arrays)
        for one, other in zip(*[each if isinstance(each, tuple) else (each,) for each in (want, got)], strict=True):
            np.testing.assert_array_equal(one, other)
    compiled = jn.compile(graph, device="cpu")(X, np.array(True))
    want = jn.evaluate(graph, X, np.array(True))
    for one, other in zip(*[each if isinstance(each, tuple) else (each,) for each in (want, compiled)], strict=True):
        np.testing.assert_allclose(one, other, 1e-5, 1e-5)


def test_large_codes_and_codes_of_inputs_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _quantised(_scanned)
    monkeypatch.setattr(constants, "MAX_FOLDED", 8)
    assert fold_codes(graph) is graph
    inputs = jn.Graph("g", [jn.TensorType(jn.int8, (4, 4), "codes"), jn.TensorType(jn.float32, ("t", 4), "x")])
    codes, x = inputs.inputs
    inputs.output(jn.fori_loop(0, 2, lambda _, h: h @ jn.dequantize(codes, 0.5), x))
    assert fold_codes(inputs) is inputs
