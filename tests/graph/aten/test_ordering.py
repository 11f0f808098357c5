"""Orders, running extremes and distinct elements against NumPy, and against programs of loops where NumPy has none."""

from __future__ import annotations

import math
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.aten.importing import import_program
from joinery.graph.aten.program import Call, Program, Ref, Source
from joinery.graph.types import TensorType

from ...support.aten_calls import run, several

RANDOM = np.random.default_rng(5)
X = RANDOM.integers(-3, 4, (4, 7)).astype(np.float32)
WITH_NAN = np.where(RANDOM.random((4, 7)) < 0.3, np.float32(math.nan), X).astype(np.float32)
I = RANDOM.integers(0, 3, (4, 7))  # noqa: E741


def assert_equal(got: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert len(got) == len(wanted)
    for mine, theirs in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("x", [X, WITH_NAN, I], ids=["floats", "with NaN", "integers"])
@pytest.mark.parametrize("axis", [0, -1])
def test_sort_is_stable_and_puts_nan_last(x: np.ndarray, axis: int) -> None:
    order = np.argsort(x, axis, kind="stable")
    wanted = [np.take_along_axis(x, order, axis), order]
    assert_equal(several("sort.default", x, axis, results=wanted), wanted)
    assert_equal(several("sort.stable", x, stable=True, dim=axis, results=wanted), wanted)
    assert_equal([run("argsort.stable", x, stable=True, dim=axis, dtype=jn.int64, shape=x.shape)], [order])


def test_equal_elements_keep_their_order_when_it_descends() -> None:
    order = np.argsort(-I, 1, kind="stable")
    wanted = [np.take_along_axis(I, order, 1), order]
    assert_equal(several("sort.default", I, 1, True, results=wanted), wanted)


def test_bools_are_in_order_and_stay_bools() -> None:
    x = I > 0
    order = np.argsort(x, 1, kind="stable")
    wanted = [np.take_along_axis(x, order, 1), order]
    assert_equal(several("sort.default", x, results=wanted), wanted)


def test_topk_returns_the_largest_or_the_smallest() -> None:
    order = np.argsort(-X, 1, kind="stable")[:, :3]
    wanted = [np.take_along_axis(X, order, 1), order]
    assert_equal(several("topk.default", X, 3, results=wanted), wanted)
    order = np.argsort(X, 0, kind="stable")[:2]
    wanted = [np.take_along_axis(X, order, 0), order]
    assert_equal(several("topk.default", X, 2, 0, False, True, results=wanted), wanted)


@pytest.mark.parametrize("size", [0, 1, 2, 9])
def test_topk_of_a_symbolic_number(size: int) -> None:
    types = (TensorType("float32", ("n // 2",)), TensorType("int64", ("n // 2",)))
    call = Call("node", "aten.topk.default", (Ref("x"), jn.dim("n") // 2), {}, types)
    outputs = (("values", Ref("node", 0)), ("positions", Ref("node", 1)))
    graph = import_program(Program("one", (Source("x", TensorType("float32", ("n",))),), (call,), outputs, {}))
    x = np.random.default_rng(size).permutation(size).astype(np.float32)
    order = np.argsort(-x)[: size // 2]
    assert_equal(list(jn.compile(graph, device="cpu")(x)), [x[order], order])


def test_kthvalue_counts_from_one() -> None:
    order = np.argsort(X, 1, kind="stable")[:, 2:3]
    wanted = [np.take_along_axis(X, order, 1), order]
    assert_equal(several("kthvalue.default", X, 3, 1, True, results=wanted), wanted)
    flat = [each[:, 0] for each in wanted]
    assert_equal(several("kthvalue.default", X, 3, 1, results=flat), flat)


def test_medians_are_the_lower_ones_and_nan_where_there_is_one() -> None:
    order = np.argsort(X, 0, kind="stable")[1:2]
    wanted = [np.take_along_axis(X, order, 0), order]
    assert_equal(several("median.dim", X, 0, True, results=wanted), wanted)
    found = several("median.dim", WITH_NAN, 1, results=[WITH_NAN[:, 0], I[:, 0]])[0]
    assert np.array_equal(np.isnan(found), np.isnan(WITH_NAN).any(1))
    assert run("median.default", X, dtype=jn.float32, shape=()) == np.sort(X, None)[(X.size - 1) // 2]


def test_nanmedian_leaves_nan_out() -> None:
    x = WITH_NAN.copy()
    x[0] = math.nan
    values, at = several("nanmedian.dim", x, 1, results=[x[:, 0], I[:, 0]])
    for row, value, place in zip(x, values, at, strict=True):
        present = np.sort(row[~np.isnan(row)])
        wanted = present[(len(present) - 1) // 2] if len(present) else math.nan
        np.testing.assert_array_equal(value, wanted)
        np.testing.assert_array_equal(row[place], value)


def test_mode_is_the_smallest_of_the_most_frequent() -> None:
    values, at = several("mode.default", I, 1, results=[I[:, 0], I[:, 0]])
    for row, value, place in zip(I, values, at, strict=True):
        names, counts = np.unique(row, return_counts=True)
        assert value == names[counts.argmax()]
        assert place == np.flatnonzero(row == value)[-1]


@pytest.mark.parametrize(("op", "function"), [("cummax", np.maximum), ("cummin", np.minimum)])
@pytest.mark.parametrize("x", [X, WITH_NAN], ids=["floats", "with NaN"])
def test_running_extremes_have_the_last_position_of_each(op: str, function: np.ufunc, x: np.ndarray) -> None:
    best = function.accumulate(x, 1)
    at = np.zeros(x.shape, np.int64)
    for row in range(x.shape[0]):
        place = 0
        for column, value in enumerate(x[row]):
            if np.isnan(value) or (not np.isnan(best[row, column]) and value == best[row, column]):
                place = column
            at[row, column] = place
    assert_equal(several(f"{op}.default", x, 1, results=[best, at]), [best, at])


def test_running_products_are_those_of_numpy() -> None:
    np.testing.assert_array_equal(run("cumprod.default", I + 1, 1, dtype=jn.int64, shape=I.shape), np.cumprod(I + 1, 1))


def test_logarithms_of_running_sums_lose_nothing_beside_large_ones() -> None:
    x = np.array([[-200.0, -math.inf, 0.0, 200.0], [math.inf, 1.0, math.inf, 2.0], [-math.inf, -math.inf, 3.0, math.nan]])
    with np.errstate(all="ignore"):
        wanted = np.logaddexp.accumulate(x, 1)
    got = run("logcumsumexp.default", x, 1, dtype=jn.float64, shape=x.shape)
    np.testing.assert_allclose(got, wanted, rtol=1e-15)
    assert got[0, 0] == -200


def decided(op: str, *arguments: Any, x: np.ndarray, results: list[tuple[Any, Any]]) -> Any:
    """Run an operator whose sizes data decides, compiled."""
    call = Call("node", f"aten.{op}", arguments, {}, tuple(TensorType(*each) for each in results))
    outputs = tuple((f"output{n}", Ref("node", n)) for n in range(len(results)))
    source = Source("x", TensorType(jn.DType.from_numpy(x.dtype), x.shape))
    return jn.compile(import_program(Program("one", (source,), (call,), outputs, {})), "cpu")(x)


def test_positions_of_what_is_not_zero() -> None:
    np.testing.assert_array_equal(decided("nonzero.default", Ref("x"), x=I, results=[("int64", ("u0", 2))]), np.argwhere(I))


def test_a_mask_selects_as_many_elements_as_it_holds_for() -> None:
    mask = I > 1
    source = (Source("x", TensorType("float32", X.shape)), Source("mask", TensorType("bool", X.shape)))
    for op, arguments in (("index.Tensor", (Ref("x"), (Ref("mask"),))), ("masked_select.default", (Ref("x"), Ref("mask")))):
        call = Call("node", f"aten.{op}", arguments, {}, (TensorType("float32", ("u3",)),))
        model = jn.compile(import_program(Program("one", source, (call,), (("output", Ref("node")),), {})), "cpu")
        for holds in (mask, ~mask, np.zeros_like(mask)):
            np.testing.assert_array_equal(model(X, holds), X[holds])


def test_masks_may_follow_each_other() -> None:
    """x[x > 0][:, mask]: the first size is known when the second one is decided."""
    rows = TensorType("float32", ("u0", 7))
    calls = (
        Call("first", "aten.index.Tensor", (Ref("x"), (Ref("rows"),)), {}, (rows,)),
        Call("second", "aten.index.Tensor", (Ref("first"), (None, Ref("columns"))), {}, (TensorType("float32", ("u0", "u1")),)),
    )
    sources = tuple(Source(name, TensorType(*kind)) for name, kind in (
        ("x", ("float32", (4, 7))), ("rows", ("bool", (4,))), ("columns", ("bool", (7,)))))  # fmt: skip
    model = jn.compile(import_program(Program("two", sources, calls, (("output", Ref("second")),), {})), "cpu")
    down, across = np.array([True, False, True, True]), I[0] > 0
    np.testing.assert_array_equal(model(X, down, across), X[down][:, across])


def test_of_no_elements_nothing_is_selected() -> None:
    empty, mask = np.zeros(0, np.float32), np.zeros(0, np.bool_)
    assert run("nonzero.default", empty, dtype=jn.int64, shape=(0, 1)).shape == (0, 1)
    assert run("masked_select.default", empty, mask, dtype=jn.float32, shape=(0,)).shape == (0,)
    with pytest.raises(jn.UnsupportedError, match="exactly 3 elements that are not zero"):
        run("nonzero.default", X[0], dtype=jn.int64, shape=(3, 1))
    with pytest.raises(jn.UnsupportedError, match="a number of distinct elements that is known beforehand"):
        run("_unique2.default", X, dtype=jn.float32, shape=(3,))


def test_distinct_elements_and_slices() -> None:
    values, inverse, counts = decided(
        "_unique2.default", Ref("x"), True, True, True, x=I, results=[("int64", ("u0",)), ("int64", (4, 7)), ("int64", ("u0",))]
    )
    names, where, often = np.unique(I, return_inverse=True, return_counts=True)
    assert_equal([values, inverse, counts], [names, where.reshape(I.shape), often])
    shapes: list[tuple[Any, Any]] = [("int64", ("u1", 7)), ("int64", (0,)), ("int64", (0,))]
    rows, *empty = decided("unique_dim.default", Ref("x"), 0, x=I[[0, 1, 0]], results=shapes)
    np.testing.assert_array_equal(rows, np.unique(I[[0, 1, 0]], axis=0))
    assert [each.shape for each in empty] == [(0,), (0,)]
