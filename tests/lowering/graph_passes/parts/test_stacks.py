"""Reductions over stacks, which are done piece by piece, agree with NumPy: NaN, zeros with signs, equal values, all dtypes."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from ....support.tiers import each

RNG = np.random.default_rng(8)
KINDS = ("sum", "prod", "max", "min", "argmax", "argmin", "mean")
SPECIAL = (0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, 1.0)


def pieces_of(count: int, dtype: str) -> list[Any]:
    if dtype.startswith("float"):
        found = RNG.integers(-3, 4, (count, 7, 33)).astype(dtype)
        found[RNG.random(found.shape) < 0.2] = RNG.choice(SPECIAL)
        found[:, 0, : len(SPECIAL)] = RNG.choice(SPECIAL, (count, len(SPECIAL)))
        return list(found)
    low = 0 if dtype.startswith("u") else -5
    return list(RNG.integers(low, 6, (count, 7, 33)).astype(dtype))


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "kind"), each(("float32", "float64", "float16", "int32", "uint8", "int64"), KINDS))
def test_stacks(dtype: str, kind: str) -> None:
    for count, axis in ((2, 0), (3, 1), (5, 2), (33, 0), (64, 0), (65, 0)):
        pieces = pieces_of(count, dtype)
        graph = jn.Graph("g", [jn.TensorType(dtype, (7, 33)) for _ in pieces])
        stack = jn.stack([x * 2 for x in graph.inputs] if dtype != "uint8" else list(graph.inputs), axis=axis)
        graph.output(getattr(jn, kind)(stack, axis=axis), getattr(jn, kind)(jn.stack(graph.inputs, axis=axis), axis=axis))
        compiled = [np.asarray(each) for each in jn.compile(graph, device="cpu", cache=False)(*pieces)]
        evaluated = [np.asarray(each) for each in jn.evaluate(graph, *pieces)]
        for mine, other in zip(compiled, evaluated, strict=True):
            assert mine.dtype == other.dtype
            assert mine.shape == other.shape
            if mine.dtype.kind == "f":
                np.testing.assert_allclose(mine, other, rtol=2e-3 if dtype == "float16" else 1e-5)
                if kind == "sum":
                    assert not np.signbit(mine[mine == 0]).any()  # sums begin with 0
            else:
                np.testing.assert_array_equal(mine, other, err_msg=f"{dtype} {kind} {count} {axis}")


def test_no_concatenation_is_left() -> None:
    graph = jn.Graph("g", [jn.TensorType("float32", (64, 100), name=f"x{i}") for i in range(4)])
    graph.output(jn.argmax(jn.stack([jn.abs(x) for x in graph.inputs], axis=0), axis=0))
    (kernel,) = jn.compile(graph, device="cpu", cache=False).kernels
    assert "scf.for" not in kernel.ttir


def test_two_reductions_of_one_stack() -> None:
    arrays = pieces_of(6, "float32")
    graph = jn.Graph("g", [jn.TensorType("float32", (7, 33)) for _ in arrays])
    stack = jn.stack([jn.abs(x) for x in graph.inputs], axis=0)
    graph.output(jn.min(stack, axis=0), jn.argmin(stack, axis=0))
    model = jn.compile(graph, device="cpu", cache=False)
    least, where = model(*arrays)
    expected = [np.asarray(each) for each in jn.evaluate(graph, *arrays)]
    np.testing.assert_array_equal(least, expected[0])
    np.testing.assert_array_equal(where, expected[1])
    assert len(model.kernels) == 1


def test_a_stack_that_is_read_twice_stays_one() -> None:
    arrays = pieces_of(3, "int32")
    graph = jn.Graph("g", [jn.TensorType("int32", (7, 33)) for _ in arrays])
    stack = jn.stack(list(graph.inputs), axis=0)
    graph.output(stack, jn.max(stack, axis=0))
    whole, largest = jn.compile(graph, device="cpu", cache=False)(*arrays)
    np.testing.assert_array_equal(whole, np.stack(arrays))
    np.testing.assert_array_equal(largest, np.max(arrays, axis=0))
