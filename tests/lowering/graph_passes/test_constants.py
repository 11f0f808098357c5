"""Codes that are constants become the numbers that they stand for, wherever they are read."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.ops.control import regions_of
from joinery.lowering.graph_passes import constants
from joinery.lowering.graph_passes.constants import fold_constants

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


@pytest.mark.one_in(3)
@pytest.mark.parametrize("build", [_scanned, _nested, _read_twice])
def test_bodies_capture_the_numbers(build: Any) -> None:
    graph = _quantised(build)
    folded = fold_constants(graph)
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
    assert fold_constants(graph) is graph
    inputs = jn.Graph("g", [jn.TensorType(jn.int8, (4, 4), "codes"), jn.TensorType(jn.float32, ("t", 4), "x")])
    codes, x = inputs.inputs
    inputs.output(jn.fori_loop(0, 2, lambda _, h: h @ jn.dequantize(codes, 0.5), x))
    assert fold_constants(inputs) is inputs


def _held(graph: Any) -> list[tuple[int, ...]]:
    return sorted([symbol.shape for symbol in graph.symbols if symbol.op.name in ("weight", "constant")])


def _same(graph: Any, *arrays: Any) -> None:
    """What is folded computes the same bits, and so does what is compiled as its graph does."""
    folded = fold_constants(graph)
    wanted = jn.evaluate(graph, *arrays)
    for one, other in zip(wanted, jn.evaluate(folded, *arrays), strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(wanted, jn.compile(graph, device="cpu", cache=False)(*arrays), strict=True):
        np.testing.assert_allclose(one, other, 1e-4, 1e-4)


def test_slices_of_a_weight_are_weights() -> None:
    """The weights of queries, keys and values in one array: each product has its own."""
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (5, 4), "x")])
    (x,) = graph.inputs
    whole = graph.weight("qkv", RNG.normal(size=(12, 4)).astype(np.float32))
    graph.output(*[x @ whole[start : start + 4].transpose() for start in (0, 4, 8)])
    folded = fold_constants(graph)
    assert "slice" not in _rows(folded)
    assert _held(folded) == [(4, 4)] * 3
    _same(graph, X)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("parts", "also", "held"),
    [
        (((0, 9), (3, 12)), False, [(12, 4)]),  # more than there is
        (((0, 4), (4, 8)), True, [(12, 4)]),  # which something else reads, too
        (((0, 4), (8, 12)), False, [(4, 4), (4, 4)]),
    ],
)
def test_slices_that_are_more_than_their_weight_stay(parts: Any, also: bool, held: Any) -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (5, 4), "x")])
    (x,) = graph.inputs
    whole = graph.weight("w", RNG.normal(size=(12, 4)).astype(np.float32))
    graph.output(*[x @ whole[start:stop].transpose() for start, stop in parts], *([jn.sum(whole)] if also else []))
    folded = fold_constants(graph)
    assert _held(folded) == held
    assert (folded is graph) == (held == [(12, 4)])
    _same(graph, X)


def test_loops_capture_views_of_weights_as_weights() -> None:
    """As in an LSTM, whose weights of both directions are one array: nothing is copied before a loop."""
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("t", 4), "x")])
    (x,) = graph.inputs
    whole = graph.weight("w", RNG.normal(size=(2, 4, 4)).astype(np.float32))
    results = []
    for direction in range(2):
        kernel = whole[direction : direction + 1].reshape((4, 4)).transpose()

        def step(h: Any, row: Any, kernel: Any = kernel) -> Any:
            found = jn.tanh(h @ kernel + row)
            return found, found

        results += jn.scan(step, np.zeros(4, np.float32), x)
    graph.output(*results)
    folded = fold_constants(graph)
    assert not {"slice", "reshape", "permute"} & {symbol.op.name for symbol in folded.symbols}
    assert (4, 4) in _held(folded)
    assert (2, 4, 4) not in _held(folded)
    _same(graph, X)


def test_copies_of_constants_are_constants() -> None:
    """Filters of a depthwise convolution, which are stored with filters last: no run copies them, nor numbers of codes."""
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (1, 6, 6, 8), "x")])
    one = graph.weight("w", RNG.normal(size=(8, 1, 3, 3)).astype(np.float32)).permute((2, 3, 1, 0))
    codes = graph.weight("codes", RNG.integers(-100, 100, (8, 1, 3, 3)).astype(np.int8))
    other = jn.dequantize(codes, np.float32(0.01)).permute((2, 3, 1, 0))
    graph.output(*[jn.conv(graph.inputs[0], kernel, groups=8) for kernel in (one, other)])
    assert _rows(graph).count("contiguous") == 2
    folded = fold_constants(graph)
    assert not {"contiguous", "dequantize", "permute"} & set(_rows(folded))
    _same(graph, RNG.normal(size=(1, 6, 6, 8)).astype(np.float32))


def test_regions_capture_single_numbers_of_constants() -> None:
    """An element of a constant has no axes, and keeps none."""
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (5,), "x")])
    (x,) = graph.inputs
    numbers = graph.constant(np.array([[1, 7], [3, 100]], np.float32))
    one, other = numbers[0, 1], numbers[1, 1]
    graph.output(
        jn.while_loop(lambda a: a < other, lambda a: a + one, x[0]), jn.cond(x[0] > 0, lambda: one, lambda: other),
        jn.fori_loop(0, 3, lambda i, a: one + i.cast(jn.float32), x[0]),
    )  # fmt: skip
    assert {symbol.shape for symbol in fold_constants(graph).symbols if symbol.op.name == "constant"} <= {(), (2, 2)}
    _same(graph, np.arange(5, dtype=np.float32))
    codes = jn.Graph("g", [jn.TensorType(jn.float32, (3,), "x")])
    scale = jn.dequantize(codes.constant(np.array(7, np.int8)), np.float32(0.5))
    codes.output(codes.inputs[0] * scale, jn.fori_loop(0, 2, lambda i, a: a + scale, codes.inputs[0][0]))
    _same(codes, np.arange(3, dtype=np.float32))
