"""Rows walked in chunks whose partial results stay where they are until the end, on simulated GPUs, beside NumPy."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.tile.templates import row


def reduced(shape: tuple[Any, ...], axis: int, dtype: str = "float32") -> Any:
    graph = jn.Graph("rows")
    x = graph.input(dtype, shape, "x")
    graph.output(jn.sum(x, axis), jn.max(x, axis=axis), jn.argmin(x, axis), jn.mean(x * x, axis), names=list("abcd"))
    return jn.compile(graph, device="ptxsim", cache=False)


def check(model: Any, x: Any, axis: int) -> None:
    wide = x.astype(np.float64)
    sums, most, least, squares = model(x)
    np.testing.assert_allclose(sums, wide.sum(axis), rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(most, x.max(axis))
    np.testing.assert_array_equal(least, x.argmin(axis))
    np.testing.assert_allclose(squares, (wide * wide).mean(axis), rtol=1e-5)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("shape", "axis"), [((300, 40), 0), ((2, 17000), 1), ((9000, 3), 0)])
def test_what_is_left_of_a_chunk_is_neutral(shape: tuple[int, int], axis: int) -> None:
    x = np.random.default_rng(shape[0]).integers(-50, 50, shape).astype(np.float32)  # ties
    check(reduced(shape, axis), x, axis)


def test_segments_of_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row, "_SEGMENT", 2)
    x = np.random.default_rng(1).standard_normal((1, 41000)).astype(np.float32)
    check(reduced((1, 41000), 1), x, 1)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("rows", [1, 7, 33, 70])
def test_symbolic_rows(rows: int) -> None:
    x = np.random.default_rng(rows).standard_normal((rows, 24)).astype(np.float32)
    check(reduced((jn.dim("n"), 24), 0), x, 0)


def test_threads_exchange_nothing_before_the_end() -> None:
    graph = jn.Graph("columns")
    graph.output(jn.sum(graph.input("float32", (4096, 64), "x"), 0))
    model = jn.compile(graph, device="ptxsim", target="sm_90a", cache=False)
    (text,) = [kernel.ttir for kernel in model.kernels]
    loop, after = text.split("scf.yield", 1)
    assert "tt.reduce" not in loop
    assert after.count('"tt.reduce"') == 1


def test_results_over_nan_and_nothing() -> None:
    x = np.random.default_rng(3).standard_normal((300, 40)).astype(np.float32)
    x[250, 3] = np.nan
    _, most, least, _ = reduced((300, 40), 0)(x)
    np.testing.assert_array_equal(most, x.max(0))
    np.testing.assert_array_equal(least, x.argmin(0))
