"""Indexing against NumPy: shapes and values, static and symbolic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joinery.graph.dims.dim import evaluate_dim

from ..support.tiers import examples

Make = Callable[..., Any]

bounds = st.one_of(st.none(), st.integers(-7, 7))
steps = st.sampled_from([None, 1, 2, 3, -1, -2, -5])
slices = st.builds(slice, bounds, bounds, steps)
entries = st.one_of(slices, slices, st.none(), st.integers(-2, 1))


@settings(max_examples=examples(300))
@given(st.lists(entries, max_size=4), st.booleans(), st.tuples(st.integers(0, 5), st.integers(0, 5)))
def test_static_indexing_is_numpys(key: list[Any], ellipsis: bool, shape: tuple[int, int]) -> None:
    index = (..., *key) if ellipsis else tuple(key)
    array = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.int64, shape)])
    try:
        expected = array[index]
    except IndexError:
        with pytest.raises(jn.UserError, match="index"):
            graph.inputs[0][index]
        return
    graph.output(graph.inputs[0][index])
    result = jn.evaluate(graph, array)
    assert result.shape == expected.shape
    np.testing.assert_array_equal(result, expected)


@settings(max_examples=examples(300))
@given(bounds, bounds, steps, st.integers(0, 8))
def test_symbolic_slices_are_numpys_for_every_size(start: Any, stop: Any, step: Any, size: int) -> None:
    """Int bounds are clamped as in NumPy, whatever the size turns out to be."""
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.int64, ("n",))])
    result = graph.inputs[0][start:stop:step]
    array = np.arange(size)
    expected = array[start:stop:step]
    assert evaluate_dim(result.shape[0], {"n": size}) == len(expected)
    graph.output(result)
    np.testing.assert_array_equal(jn.evaluate(graph, array), expected)
    assert graph.checks == ()


def test_neighbouring_differences_have_equal_symbolic_shapes(make: Make) -> None:
    graph = make(("float32", ("n",)))
    (x,) = graph.inputs
    assert (x[1:] - x[:-1]).shape == (x[1:]).shape
    assert str(x[1:].shape[0]) == "max(n - 1, 0)"
    assert x[::-1].shape == x.shape
    assert x[:] is x
    assert x[..., None].shape == (x.shape[0], 1)
    assert graph.checks == ()


def test_a_dim_as_bound_must_lie_in_range(make: Make) -> None:
    """`table[:seq]` has exactly seq rows; a launch with more is refused."""
    graph = make(("float32", (8, 2)), ("float32", ("seq", 2)))
    table, x = graph.inputs
    rows = table[: x.shape[0]]
    assert rows.shape == x.shape
    graph.output(rows + x)
    full = np.arange(16, dtype=np.float32).reshape(8, 2)
    np.testing.assert_array_equal(jn.evaluate(graph, full, np.zeros((3, 2), np.float32)), full[:3])
    with pytest.raises(jn.UserError, match="slice :seq:1 on axis 0 of size 8: seq is beyond the end"):
        jn.evaluate(graph, full, np.zeros((9, 2), np.float32))


def test_a_dim_as_position(make: Make) -> None:
    graph = make(("float32", ("n", 2)))
    (x,) = graph.inputs
    last = x[x.shape[0] - 1]
    graph.output(last, x[-1])
    array = np.arange(6, dtype=np.float32).reshape(3, 2)
    for value in jn.evaluate(graph, array):
        np.testing.assert_array_equal(value, array[-1])
    with pytest.raises(jn.UserError, match="must"):
        jn.evaluate(graph, array[:0])


def test_an_int_position_on_a_symbolic_axis_is_checked(make: Make) -> None:
    graph = make(("float32", ("n",)))
    graph.output(graph.inputs[0][3])
    assert jn.evaluate(graph, np.arange(4, dtype=np.float32)) == 3
    with pytest.raises(jn.UserError, match="index 3: axis 0 must have more than 3 elements"):
        jn.evaluate(graph, np.arange(3, dtype=np.float32))


def test_negative_steps_are_normalised(make: Make) -> None:
    (x,) = make(("float32", (9,))).inputs
    y = x[7:2:-2]
    assert dict(y.attrs) == {"starts": (7,), "stops": (2,), "steps": (-2,)}
    assert x[::-1].attrs["stops"] == (-1,)
    empty = x[2:7:-1]
    assert empty.shape == (0,)
    assert empty.attrs["starts"] >= empty.attrs["stops"]
    assert x[8:3].attrs["stops"] >= x[8:3].attrs["starts"]


def test_indexing_makes_at_most_one_slice_and_one_reshape(make: Make) -> None:
    graph = make(("float32", (4, 5, 6)))
    before = len(graph.symbols)
    graph.inputs[0][1, None, ..., ::-1, None]
    assert [symbol.op.name for symbol in graph.symbols[before:]] == ["slice", "reshape"]


@pytest.mark.parametrize("index", [np.int64(1), np.uint8(1), 1])
def test_numpy_integers_are_positions(make: Make, index: Any) -> None:
    (x,) = make(("float32", (4, 5))).inputs
    assert x[index].shape == (5,)


positions = st.one_of(
    st.lists(st.integers(-3, 2), max_size=4),
    st.lists(st.integers(-3, 2), min_size=2, max_size=2).map(lambda rows: [[row] for row in rows]),
    st.just([True, False, True]),
    st.integers(-3, 2).map(np.int64),
)
SHAPE = (3, 4, 3, 5)


@settings(max_examples=examples(60))
@given(st.lists(st.one_of(positions, positions, st.none(), slices), min_size=1, max_size=4), st.integers(0, 4), st.booleans())
def test_positions_that_are_arrays(key: list[Any], ellipsis: int, symbolic: bool) -> None:
    """As lists and arrays, which are known, and as inputs, which are not; with sizes that are known at launch only, too."""
    index = tuple(key) if ellipsis > len(key) else (*key[:ellipsis], ..., *key[ellipsis:])
    array = np.arange(int(np.prod(SHAPE)), dtype=np.int64).reshape(SHAPE)
    shape = ("a", 4, "b", 5) if symbolic else SHAPE
    known = jn.Graph("g", inputs=[jn.TensorType(jn.int64, SHAPE)])
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.int64, shape)])
    entries, fed = [], []
    for entry in index:
        given = np.asarray(entry, np.int64) if isinstance(entry, list) and True not in entry else None
        if given is not None:
            fed.append(given)
            entries.append(graph.input(jn.int64, given.shape, name=f"i{len(fed)}"))
        else:
            entries.append(np.asarray(entry) if isinstance(entry, list) and not symbolic else entry)
    if symbolic and any(isinstance(entry, list) for entry in entries):
        return  # masks of sizes that are not known are refused
    try:
        expected = array[index]
    except IndexError:
        with pytest.raises(jn.UserError, match="index"):
            known.inputs[0][index]
        return
    known.output(known.inputs[0][index])
    np.testing.assert_array_equal(jn.evaluate(known, array), expected)
    graph.output(graph.inputs[0][tuple(entries)])
    found = jn.evaluate(graph, array, *fed)
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
def test_compiled_positions_are_clamped(dtype: str) -> None:
    array, large = np.arange(12.0).reshape(3, 4), 2**63 + 5 if dtype == "uint64" else 100
    positions = np.array([0, 2, large]).astype(dtype)
    graph = jn.Graph("g", [jn.TensorType(jn.float64, (3, 4)), jn.TensorType(jn.DType(dtype), (3,))])
    x, i = graph.inputs
    graph.output(x[i], x[:, i], x[i, i], x[1, i])
    model = jn.compile(graph, "cpu", cache=False)
    clipped = np.minimum(positions.astype(object), 100).astype(np.int64)
    rows, columns = np.minimum(clipped, 2), np.minimum(clipped, 3)
    wanted = array[rows], array[:, columns], array[rows, columns], array[1, columns]
    for found, expected in zip(model(array, positions), wanted, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_axes_and_arrays_without_elements() -> None:
    nothing, array = np.zeros(0, np.int64), np.zeros((3, 0))
    graph = jn.Graph("g", [jn.TensorType(jn.float64, (3, 0)), jn.TensorType(jn.int64, (0,))])
    x, i = graph.inputs
    assert x[[[]]].shape == array[np.zeros((1, 0), int)].shape == (1, 0, 0)
    graph.output(x[nothing, nothing], x[np.zeros((3, 0), bool)], x[i, i])
    assert [found.shape for found in jn.evaluate(graph, array, nothing)] == [(0,)] * 3


def test_wide_positions_in_every_semantics() -> None:
    array = np.arange(12.0).reshape(3, 4)
    for semantics in ("max", "torch", "triton"):
        graph = jn.Graph("g", [jn.TensorType(jn.float64, (3, 4)), jn.TensorType(jn.uint64, (2,))], semantics=semantics)
        x, i = graph.inputs
        graph.output(x[i, i])
        np.testing.assert_array_equal(jn.evaluate(graph, array, np.array([1, 2**63], np.uint64)), array[[1, 2], [1, 3]])


def test_a_mask_of_a_size_that_is_not_known(make: Make) -> None:
    (x,) = make(("float32", ("n",))).inputs
    with pytest.raises(jn.UserError, match=r"a mask of shape \(2,\) for axes of \(n,\)"):
        x[np.array([True, False])]
    assert x[[0, 1]].shape == (2,)
