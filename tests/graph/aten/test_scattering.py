"""Writes at positions that are data, and the gradients that are such, against NumPy's indexed assignments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.promotion.dtype import DType

from ...support.aten_calls import run, several

RANDOM = np.random.default_rng(7)
X = RANDOM.standard_normal((3, 5)).astype(np.float32)
AT = np.array([[0, 0, 2], [1, 1, 1]])
"""Positions of axis 0 for the first three columns; some are equal."""
SOURCE = RANDOM.standard_normal((2, 4)).astype(np.float32)
I = RANDOM.integers(-4, 5, (3, 5))  # noqa: E741


def elements(combine: Callable[[Any, Any], Any], x: np.ndarray, source: np.ndarray | float, start: Any = None) -> np.ndarray:
    """Combine along axis 0 by a loop; `start` replaces what is written to."""
    result = x.copy()
    if start is not None:
        for row, column in np.ndindex(AT.shape):
            result[AT[row, column], column] = start
    for row, column in np.ndindex(AT.shape):
        at = AT[row, column], column
        value = source[row, column] if isinstance(source, np.ndarray) else x.dtype.type(source)
        result[at] = combine(result[at], value)
    return result


def put(x: np.ndarray, index: Any, values: Any, add: bool = False) -> np.ndarray:
    result = x.copy()
    if add:
        np.add.at(result, index, values)
    else:
        result[index] = values
    return result


def last(old: Any, new: Any) -> Any:
    return new


def sums_over_counts() -> np.ndarray:
    total, counts = elements(np.add, X, SOURCE), elements(lambda old, new: old + 1, np.ones_like(X), SOURCE)
    return total / counts


ROWS = np.array([2, 0, 2])
SLICES = RANDOM.standard_normal((3, 5)).astype(np.float32)
MASK = X > 0
CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], Callable[[], Any]]] = [
    ("scatter.src", (X, 0, AT, SOURCE), {}, lambda: elements(last, X, SOURCE)),
    ("scatter.value", (X, 0, AT, 2.5), {}, lambda: elements(last, X, 2.5)),
    ("scatter.value", (I, 0, AT, 2), {}, lambda: elements(last, I, 2)),
    ("scatter.reduce", (X, 0, AT, SOURCE), {"reduce": "multiply"}, lambda: elements(np.multiply, X, SOURCE)),
    ("scatter.value_reduce", (X, 0, AT, 2.0), {"reduce": "add"}, lambda: elements(np.add, X, 2.0)),
    ("scatter_add.default", (X, 0, AT, SOURCE), {}, lambda: elements(np.add, X, SOURCE)),
    ("scatter_add.default", (X, 0, AT[:0], SOURCE), {}, lambda: X),
    ("scatter_add.default", (MASK, 0, AT, SOURCE > 0), {}, lambda: elements(np.logical_or, MASK, SOURCE > 0)),
    ("scatter_reduce.two", (X, 0, AT, SOURCE, "sum"), {}, lambda: elements(np.add, X, SOURCE)),
    ("scatter_reduce.two", (X, 0, AT, SOURCE, "amax"), {}, lambda: elements(np.maximum, X, SOURCE)),
    ("scatter_reduce.two", (X, 0, AT, SOURCE, "amin", False), {}, lambda: elements(np.minimum, X, SOURCE, math.inf)),
    ("scatter_reduce.two", (X, 0, AT, SOURCE, "prod", False), {}, lambda: elements(np.multiply, X, SOURCE, 1)),
    ("scatter_reduce.two", (I, 0, AT, I[:2], "amax", False), {},
     lambda: elements(np.maximum, I, I[:2], np.iinfo(np.int64).min)),
    ("scatter_reduce.two", (X, 0, AT, SOURCE, "mean"), {}, sums_over_counts),
    ("index_copy.default", (X, 0, np.array([2, 0]), SLICES[:2]), {}, lambda: put(X, [2, 0], SLICES[:2])),
    ("index_add.default", (X, 0, ROWS, SLICES), {"alpha": 2}, lambda: put(X, ROWS, 2 * SLICES, add=True)),
    ("index_add.default", (X, 1, ROWS, SLICES[:, :3]), {},
     lambda: put(X.T, ROWS, SLICES[:, :3].T, add=True).T),
    ("index_fill.int_Scalar", (X, 1, ROWS, 7.0), {}, lambda: put(X, (slice(None), ROWS), 7)),
    ("index_reduce.default", (X, 0, np.array([1, 1]), SLICES[:2], "amax"), {},
     lambda: put(X, 1, np.maximum(X[1], SLICES[:2].max(0)))),
    ("index_reduce.default", (X, 0, np.array([1, 1]), SLICES[:2], "mean", False), {}, lambda: put(X, 1, SLICES[:2].mean(0))),
    ("index_put.default", (X, (np.array([0, 2, 0]),), SLICES, True), {}, lambda: put(X, [0, 2, 0], SLICES, add=True)),
    ("index_put.default", (X, (np.array([0, -1]), np.array([1, -2])), X[0, :2]), {},
     lambda: put(X, ([0, -1], [1, -2]), X[0, :2])),
    ("index_put.default", (X, (None, np.array([[1], [4]])), np.float32(3)), {}, lambda: put(X, (slice(None), [[1], [4]]), 3)),
    ("index_put.default", (X, (MASK,), np.array(9, np.float32)), {}, lambda: put(X, MASK, 9)),
    ("index_put.default", (X, (MASK,), np.arange(MASK.sum(), dtype=np.float32)), {},
     lambda: put(X, MASK, np.arange(MASK.sum()))),
    ("index_put.default", (X, (np.array([True, False, True]),), SLICES[:2], True), {},
     lambda: put(X, np.array([True, False, True]), SLICES[:2], add=True)),
    ("masked_scatter.default", (X, MASK, SLICES), {}, lambda: put(X, MASK, SLICES.reshape(-1)[: MASK.sum()])),
    ("put.default", (X, np.array([0, 7, 0]), X[0, :3], True), {},
     lambda: put(X.reshape(-1), [0, 7, 0], X[0, :3], add=True).reshape(X.shape)),
    ("as_strided_scatter.default", (X, SLICES[:2, :2], (2, 2), (5, 2), 1), {},
     lambda: put(X, np.ix_([0, 1], [1, 3]), SLICES[:2, :2])),
    ("embedding_dense_backward.default", (SLICES, np.array([1, 0, 1]), 4, 0, False), {},
     lambda: put(np.zeros((4, 5), np.float32), [1, 1], SLICES[[0, 2]], add=True)),
    ("embedding_dense_backward.default", (SLICES, np.array([1, 0, 1]), 4, -1, True), {},
     lambda: put(np.zeros((4, 5), np.float32), [1, 0, 1], SLICES / np.array([[2], [1], [2]]), add=True)),
    ("embedding_renorm.default", (X * 4, np.array([2, 0]), 1.0, 2.0), {},
     lambda: put(X * 4, [0, 2], (X / (np.linalg.norm(X * 4, axis=1, keepdims=True) + 1e-7) * 4)[[0, 2]])),
]  # fmt: skip


@pytest.mark.parametrize(("op", "arguments", "options", "witness"), CASES, ids=[f"{n}-{c[0]}" for n, c in enumerate(CASES)])
def test_writes_agree_with_numpy(op: str, arguments: Any, options: Any, witness: Callable[[], Any]) -> None:
    wanted = np.asarray(witness())
    dtype = np.float32 if wanted.dtype.kind == "f" else wanted.dtype
    given = [np.asarray(each) if isinstance(each, np.generic) else each for each in arguments]
    got = run(op, *given, dtype=DType.from_numpy(np.dtype(dtype)), shape=wanted.shape, options=options)
    np.testing.assert_allclose(got, wanted, rtol=1e-5 if dtype == np.float32 else 0, atol=1e-6)


def test_sums_of_16_bit_floats_are_rounded_once() -> None:
    x, source = np.ones(1, ml_dtypes.bfloat16), np.full(256, 2.0**-9, ml_dtypes.bfloat16)
    got = run("scatter_add.default", x, 0, np.zeros(256, np.int64), source, dtype=jn.bfloat16, shape=(1,))
    assert float(got[0]) == 1.5


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_bags_are_sums_means_and_maxima_of_rows(mode: int) -> None:
    table, indices, offsets = RANDOM.standard_normal((6, 4)), np.array([5, 0, 2, 2, 1]), np.array([0, 2, 2])
    bags = [table[indices[0:2]], table[indices[2:2]], table[indices[2:5]]]
    functions = [lambda bag: bag.sum(0), lambda bag: bag.mean(0), lambda bag: bag.max(0)]
    wanted = np.stack([functions[mode](bag) if len(bag) else np.zeros(4) for bag in bags])
    results = [wanted, indices, offsets, offsets]
    call = ("_embedding_bag.default", table, indices, offsets, False, mode)
    if mode == 2:  # which row was the largest has no value
        got = run(*call, dtype=jn.float64, shape=wanted.shape, more=results[1:])
        return np.testing.assert_allclose(got, wanted)
    got = several(*call, results=results)
    np.testing.assert_allclose(got[0], wanted)
    np.testing.assert_array_equal(got[1], [0, 0, 2, 2, 2])
    np.testing.assert_array_equal(got[2], [2, 0, 3])
    grad = RANDOM.standard_normal(wanted.shape)
    back = run("_embedding_bag_dense_backward.default", grad, indices, got[1], got[2], offsets, 6, False, mode, None,
               dtype=jn.float64, shape=table.shape)  # fmt: skip
    moved = RANDOM.standard_normal(table.shape)
    change = several("_embedding_bag.default", moved, indices, offsets, False, mode, results=results)[0]
    assert np.vdot(grad, change) == pytest.approx(np.vdot(back, moved))


def test_bags_of_indices_that_torch_left_empty_are_found_again() -> None:
    indices, offsets, empty = np.array([2, 0, 2]), np.array([0, 1]), np.zeros(0, np.int64)
    grad = RANDOM.standard_normal((2, 5))
    got = run("_embedding_bag_backward.default", grad, indices, offsets, empty, np.array([1, 2]), empty, 3, False, 0, False,
              None, dtype=jn.float64, shape=(3, 5))  # fmt: skip
    np.testing.assert_allclose(got, put(np.zeros((3, 5)), indices, grad[[0, 1, 1]], add=True))
    results = [grad, empty, offsets, offsets]
    table = RANDOM.standard_normal((3, 5))
    assert several("_embedding_bag.default", table, indices, offsets, results=results)[1].shape == (0,)


@pytest.mark.parametrize("padding", [-1, 2])
def test_gradients_of_maxima_of_bags_go_to_the_first_row_that_has_them(padding: int) -> None:
    table = np.round(RANDOM.standard_normal((6, 5)))  # with equal elements
    indices, starts = np.array([2, 0, 2, 5, 1, 1, 3, 2]), np.array([0, 3, 3, 7])  # the second bag has no row
    wanted, rows = np.zeros((4, 5)), np.zeros((4, 5), np.int64)
    bags = [[each for each in bag if each != padding] for bag in np.split(indices, starts[1:])]
    back, grad = np.zeros_like(table), RANDOM.standard_normal((4, 5))
    for number, bag in enumerate(bags):
        if bag:
            wanted[number], rows[number] = table[bag].max(0), np.array(bag)[table[bag].argmax(0)]
            np.add.at(back, (rows[number], np.arange(5)), grad[number])
    counts = np.array([len(bag) for bag in bags])
    owner = np.repeat(np.arange(4), [3, 0, 4, 1])
    results = [wanted, owner, counts, rows]
    got = several("_embedding_bag.default", table, indices, starts, False, 2, False, None, False, padding, results=results)
    np.testing.assert_array_equal(got[0], wanted)
    np.testing.assert_array_equal(got[3][counts > 0], rows[counts > 0])
    for op, given in (("_embedding_bag_dense_backward", ()), ("_embedding_bag_backward", (starts,))):
        more = (False,) if given else ()
        found = run(f"{op}.default", grad, indices, *given, got[1], got[2], got[3], 6, False, 2, *more, None, padding,
                    dtype=jn.float64, shape=table.shape)  # fmt: skip
        np.testing.assert_allclose(found, back)
