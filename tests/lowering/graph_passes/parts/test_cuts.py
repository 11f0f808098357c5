"""Long reductions of what is computed element by element: it is computed of slices where parts leave a rest, and not stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest

SIZES = [(100_003,), (1080, 64, 3), (99_991,), (64, 2, 1031)]
"""Of one axis that no number of parts divides, a prime; of axes that are cut, and of some that are not."""


def _model(shape: tuple[int, ...], make: Callable[..., Any], *others: tuple[int, ...], dtype: str = "float32") -> Any:
    graph = jn.Graph("g", [jn.TensorType(dtype, each, f"x{i}") for i, each in enumerate((shape, *others))])
    made = make(*graph.inputs)
    graph.output(*(made if isinstance(made, tuple) else (made,)))
    return jn.compile(graph, "cpu", cache=False)


def _numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("shape", SIZES)
def test_sums_of_what_is_computed(shape: tuple[int, ...]) -> None:
    x, y = _numbers(*shape), _numbers(*shape)
    model = _model(shape, lambda a, b: (jn.mean(jn.exp(a - b) * b), jn.max(jn.abs(a) * b)), shape)
    mean, most = model(x, y)
    wide = np.exp((x - y).astype(np.float64)) * y
    assert np.isclose(mean, wide.mean(), rtol=1e-3, atol=1e-3)
    assert most == (np.abs(x) * y).max()
    assert not [kernel for kernel in model.kernels if kernel.template == "map" and kernel.bytes_written >= x.nbytes]


def test_operands_that_are_broadcast_and_read_twice() -> None:
    """Rows, columns and numbers are no slices of themselves; a chain has two ways from x to its sum."""
    shape = (1031, 101)
    x, row, column = _numbers(*shape), _numbers(101), _numbers(1031, 1)

    def make(a: Any, b: Any, c: Any) -> Any:
        d = jn.tanh(a * b + c)
        return jn.sum(d * jn.exp(-d * 2.0) + d)

    d = np.tanh((x * row + column).astype(np.float64))
    found = _model(shape, make, (101,), (1031, 1))(x, row, column)
    assert np.isclose(found, (d * np.exp(-2 * d) + d).sum(), rtol=1e-4)


def test_what_others_read_as_well_is_computed_once() -> None:
    x = _numbers(100_003)
    model = _model(x.shape, lambda a: (lambda y: (y, jn.sum(y)))(jn.exp(jn.tanh(a))))
    y, total = model(x)
    expected = np.exp(np.tanh(x.astype(np.float64)))
    assert np.allclose(y, expected, rtol=1e-5)
    assert np.isclose(total, expected.sum(), rtol=1e-5)
    assert sum(["exp" in kernel.fused for kernel in model.kernels]) == 1


def test_long_chains() -> None:
    """As long as slices are made of, and longer."""
    x = np.abs(_numbers(70_001)) / 100

    def make(a: Any) -> Any:
        for _ in range(100):
            a = a * 1.001 + 0.001
        return jn.sum(a)

    expected = x.astype(np.float64)
    for _ in range(100):
        expected = expected * 1.001 + 0.001
    assert np.isclose(_model(x.shape, make)(x), expected.sum(), rtol=1e-5)
