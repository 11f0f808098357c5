"""Reductions of what is computed of one tensor are one kernel, which reads it once, against NumPy."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.schedule.fusion.grouping import MAX_REDUCED_TOGETHER

X = np.random.default_rng(5).standard_normal((37, 130))
Y = np.random.default_rng(6).standard_normal((37, 130))


def compiled(make: Any, *arrays: Any) -> tuple[list[Any], int]:
    """Returns the results of a function of symbols, and the number of kernels."""
    graph = jn.Graph("g", [jn.TensorType(str(each.dtype), each.shape, f"x{number}") for number, each in enumerate(arrays)])
    graph.output(*make(*graph.inputs))
    model = jn.compile(graph, "cpu", cache=False)
    found = model(*arrays)
    return list(found) if isinstance(found, tuple) else [found], len(model.kernels)


@pytest.mark.parametrize("axis", [0, 1])
def test_functions_of_one_tensor(axis: int) -> None:
    def make(x: Any) -> Any:
        return jn.sum(x, axis=axis), jn.sum(x * x, axis=axis), jn.max(jn.exp(x) * 2, axis=axis), jn.min(x + 1, axis=axis)

    found, kernels = compiled(make, X)
    expected = X.sum(axis), (X * X).sum(axis), (np.exp(X) * 2).max(axis), (X + 1).min(axis)
    assert kernels == 1
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_complex_numbers_are_read_once() -> None:
    x = (X + 1j * Y).astype(np.complex64)
    for copies in (1, 40, 300):
        graph = jn.Graph("g", [jn.TensorType("complex64", (37 * copies, 130), "x")])
        graph.output(jn.sum(graph.inputs[0]))
        model = jn.compile(graph, "cpu", cache=False)
        found = model(np.tile(x, (copies, 1)))
        assert sum(kernel.bytes_read for kernel in model.kernels) < 1.2 * copies * x.nbytes
        np.testing.assert_allclose(found, copies * x.sum(dtype=np.complex128), rtol=1e-4)


def test_other_tensors_axes_and_shapes_are_apart() -> None:
    for make, expected in (
        (lambda x, y: (jn.sum(x * y, axis=1), jn.sum(x, axis=1)), ((X * Y).sum(1), X.sum(1))),
        (lambda x, y: (jn.sum(x * 2, axis=0), jn.sum(x, axis=1)), ((X * 2).sum(0), X.sum(1))),
        (lambda x, y: (jn.sum(jn.permute(x, (1, 0)) + 1, axis=0), jn.sum(x, axis=1)), ((X + 1).sum(1), X.sum(1))),
    ):
        found, _ = compiled(make, X, Y)
        for got, want in zip(found, expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)


def test_reductions_that_need_each_other() -> None:
    def make(x: Any) -> Any:
        return jn.sum(x - jn.mean(x), axis=1), jn.sum(x * x, axis=1), jn.sum(x * jn.sum(x), axis=1), jn.sum(jn.abs(x), axis=1)

    found, _ = compiled(make, X)
    expected = (X - X.mean()).sum(1), (X * X).sum(1), (X * X.sum()).sum(1), np.abs(X).sum(1)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_many_are_several_kernels() -> None:
    count = 2 * MAX_REDUCED_TOGETHER + 1
    found, kernels = compiled(lambda x: [jn.sum(x * (k + 1.0), axis=1) for k in range(count)], X)
    assert kernels == 3
    for k, got in enumerate(found):
        np.testing.assert_allclose(got, (X * (k + 1)).sum(1), rtol=1e-10, atol=1e-10)
