"""Shape rules against NumPy for static sizes, and what happens with symbolic ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joinery.graph.checks import Checks, ShapeError
from joinery.graph.ops.building import apply
from joinery.graph.ops.shape import broadcast_shapes

from ...support.tiers import examples

Make = Callable[..., Any]
SHAPES = [(), (1,), (3,), (0,), (2, 3), (1, 3), (2, 1), (0, 3), (4, 1, 3), (4, 2, 1), (2, 0, 1)]


@pytest.mark.parametrize(("first", "second"), list(itertools.product(SHAPES, SHAPES)))
def test_broadcasting_is_numpys(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    try:
        expected = np.broadcast_shapes(first, second)
    except ValueError:
        with pytest.raises(ShapeError, match="do not broadcast"):
            broadcast_shapes([first, second], Checks())
    else:
        assert broadcast_shapes([first, second], Checks()) == expected


sizes = st.integers(0, 3)


@settings(max_examples=examples(150))
@given(st.lists(st.lists(sizes, max_size=3), min_size=3, max_size=3))
def test_three_operands_broadcast_as_in_numpy(shapes: list[list[int]]) -> None:
    tuples = [tuple(shape) for shape in shapes]
    try:
        expected: Any = np.broadcast_shapes(*tuples)
    except ValueError:
        expected = ShapeError
    try:
        assert broadcast_shapes(tuples, Checks()) == expected
    except ShapeError:
        assert expected is ShapeError


MATMULS = [((2, 3), (3, 4)), ((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)),
           ((6, 1, 2, 3), (5, 3, 4)), ((3,), (5, 3, 4)), ((5, 2, 3), (3,)), ((0, 3), (3, 4)), ((2, 0), (0, 4))]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), MATMULS)
def test_matmul_shapes_are_numpys(make: Make, first: tuple[int, ...], second: tuple[int, ...]) -> None:
    a, b = make(("float32", first), ("float32", second)).inputs
    assert (a @ b).shape == (np.zeros(first) @ np.zeros(second)).shape


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (), (-1, 0)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reduction_shapes_are_numpys(make: Make, axis: Any, keepdims: bool) -> None:
    (x,) = make(("float32", (2, 3, 4))).inputs
    expected = np.zeros((2, 3, 4)).sum(axis=axis, keepdims=keepdims).shape
    for function in (jn.sum, jn.max, jn.mean, jn.var, jn.any, jn.logsumexp, jn.stdev, jn.norm, jn.prod):
        assert function(x, axis=axis, keepdims=keepdims).shape == expected, function


@pytest.mark.parametrize("target", [(6, 4), (-1,), (2, -1, 2), (24,), (1, 24, 1), (4, 3, -1)])
def test_reshape_computes_the_missing_size(make: Make, target: tuple[int, ...]) -> None:
    (x,) = make(("float32", (2, 3, 4))).inputs
    assert jn.reshape(x, target).shape == np.zeros((2, 3, 4)).reshape(target).shape


def test_reshape_tracks_symbolic_products(make: Make) -> None:
    graph = make(("float32", ("batch", "seq", 64)))
    (x,) = graph.inputs
    batch, seq, _ = x.shape
    assert jn.reshape(x, (batch, seq, 8, 8)).shape == (batch, seq, 8, 8)
    assert jn.reshape(x, (-1, 64)).shape == (batch * seq, 64)
    assert jn.reshape(x, (batch, -1)).shape == (batch, 64 * seq)
    assert jn.reshape(jn.reshape(x, (-1, 8)), (batch, seq, -1)).shape == (batch, seq, 64)
    assert graph.checks == ()


def test_reshape_that_may_fail_is_checked_at_launch(make: Make) -> None:
    graph = make(("float32", ("batch", 6)))
    (x,) = graph.inputs
    y = jn.reshape(x, (-1, 4))
    assert str(y.shape[0]) == "batch + (batch // 2)"
    ((lhs, rhs, message),) = graph.checks
    assert {lhs.evaluate({"batch": 2}), rhs.evaluate({"batch": 2})} == {12}
    assert lhs.evaluate({"batch": 3}) != rhs.evaluate({"batch": 3})
    assert "reshape of (batch, 6)" in message


def test_two_names_never_unify_silently(make: Make) -> None:
    x, y = make(("float32", ("batch", 4)), ("float32", ("seq", 4))).inputs
    for build in (lambda: x + y, lambda: jn.concat([x, y], 1), lambda: x @ y.T @ x.T @ y):
        with pytest.raises(jn.UserError, match=r"different names(.|\n)*rebind"):
            build()


def test_rebind_says_that_two_sizes_are_equal(make: Make) -> None:
    graph = make(("float32", ("batch", 4)), ("float32", ("seq", 4)))
    x, y = graph.inputs
    moved = jn.rebind(x, ("seq", None), message="batch and seq differ")
    assert moved.shape == y.shape
    assert (moved + y).shape == y.shape
    assert [check.message for check in graph.checks] == ["batch and seq differ"]
    graph.output(moved + y)
    ones = np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(jn.evaluate(graph, ones, ones), 2 * ones)
    with pytest.raises(jn.UserError, match="batch and seq differ"):
        jn.evaluate(graph, ones, np.ones((2, 4), np.float32))


def test_expression_against_a_name_becomes_a_check(make: Make) -> None:
    graph = make(("float32", ("batch",)), ("float32", ("seq",)))
    x, y = graph.inputs
    total = jn.concat([x, x]) + y
    assert str(total.shape[0]) == "seq"
    assert len(graph.checks) == 1
    total + y  # the same equality again needs no second check
    assert len(graph.checks) == 1
    graph.output(total)
    with pytest.raises(jn.UserError, match="2\\*batch must equal seq"):
        jn.evaluate(graph, np.ones(2, np.float32), np.ones(5, np.float32))
    assert jn.evaluate(graph, np.ones(2, np.float32), np.ones(4, np.float32)).tolist() == [2.0] * 4


def test_a_refused_op_leaves_no_check_behind(make: Make) -> None:
    graph = make(("float32", ("batch", 3)), ("float32", (5, 4)))
    x, y = graph.inputs
    with pytest.raises(jn.UserError, match="do not broadcast"):
        x + y
    with pytest.raises(jn.UserError, match="out of range"):
        x[7, 9]
    assert graph.checks == ()


def test_concat_and_split_add_and_cut_symbolic_sizes(make: Make) -> None:
    graph = make(("float32", ("batch", 3)), ("float32", ("seq", 3)))
    x, y = graph.inputs
    both = jn.concat([x, y, x])
    assert str(both.shape[0]) == "2*batch + seq"
    first, second = jn.split(both, [x.shape[0] + y.shape[0], x.shape[0]])
    assert (str(first.shape[0]), second.shape[0]) == ("batch + seq", x.shape[0])
    assert graph.checks == ()


def test_the_empty_reduction_is_a_check_for_symbolic_sizes(make: Make) -> None:
    graph = make(("float32", ("batch", 3)))
    (x,) = graph.inputs
    graph.output(jn.max(x, axis=0))
    assert jn.evaluate(graph, np.arange(6, dtype=np.float32).reshape(2, 3)).tolist() == [3, 4, 5]
    with pytest.raises(jn.UserError, match="max: axis 0 must not be empty"):
        jn.evaluate(graph, np.zeros((0, 3), np.float32))


def test_max_over_a_non_empty_axis_of_an_empty_tensor_is_fine(run: Callable[..., Any]) -> None:
    assert run(lambda x: jn.max(x, axis=1), np.zeros((0, 3), np.float32)).shape == (0,)


def test_layer_norm_vectors_must_fit(make: Make) -> None:
    graph = make(("float32", ("batch", "width")))
    (x,) = graph.inputs
    jn.layer_norm(x, np.ones(8, np.float32))
    assert [str(check.lhs) for check in graph.checks] in (["8"], ["width"])
    with pytest.raises(jn.UserError, match="has shape \\(8, 1\\)"):
        jn.layer_norm(x, np.ones((8, 1), np.float32))


@pytest.mark.parametrize(("norm", "name"), [(jn.layer_norm, "scale"), (jn.layer_norm, "bias"), (jn.rms_norm, "scale")])
def test_vectors_of_norms_do_not_broadcast(make: Make, norm: Callable[..., Any], name: str) -> None:
    """Along an axis of any size as along one of a fixed size, where the fix of the message gives what it says."""
    graph = make(("float32", ("batch", "width")), ("float32", (4, 5)), ("float32", ("batch", 1)), ("float32", ("k",)))
    x, fixed, narrow, vector = graph.inputs
    one = np.ones(1, np.float32)
    for value in (x, fixed):
        with pytest.raises(jn.UserError, match=r"operand 1 has shape \(1,\)"):
            norm(value, **{name: one})
    with pytest.raises(jn.UserError, match=r"operand 1 has shape \(k,\)(?s:.*)expected: +\(1,\)(?s:.*)fix: .*of one element"):
        norm(narrow, **{name: vector})
    assert str(norm(narrow, **{name: one}).shape) == "(Dim('batch'), 1)"
    width = jn.dim("width")
    assert norm(x, **{name: jn.broadcast_to(graph.constant(one), (width,))}).shape == x.shape


def test_a_slice_of_all_of_an_axis_has_its_size() -> None:
    """A part of one that begins at 0 has `max(stop, 0)`; a difference is a size of an axis only where it is 0 or more."""
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("d",), "x")])
    x = graph.inputs[0]
    windows = apply("windows", x, axes=(0,), counts=(x.shape[0] - 2,), sizes=(3,), strides=(1,), dilations=(1,))
    rows, taps = windows.shape
    whole = apply("slice", windows, starts=(0, 1), stops=(rows, taps), steps=(1, 1))
    assert whole.shape == (rows, 2)
    shorter = apply("slice", windows, starts=(0, 0), stops=(rows - 1, taps), steps=(1, 1))
    assert str(shorter.shape[0]) == "max(d - 3, 0)"
