"""Sizes as text against Python's own arithmetic, and the sizes of dims from the shapes of arrays."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joinery.graph.dims.binding import ArrayShape, bind_dims, extent_at, parse_extent, solve
from joinery.graph.dims.dim import Dim, evaluate_dim
from joinery.promotion.errors import UserError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7), ("n", 5), ("2*n + 1", 11), ("n*m - 3", 32), ("-n + 9", 4), ("(n + m)*2", 24),
        ("n // 2 * 2", 4),
        ("n % 3", 2), ("-n // 2", -3), ("n**2", 25), ("-n**2", -25), ("2*-n**2", -50), ("(-n)**2", 25),
        ("n**3*2", 250), ("min(n, m, 3)", 3), ("max(n, 2*m)", 14), ("10 - 3 - 2", 5),
        ("past.length + 1", 100),
        ("  n+m ", 12), ("2*-n", -10), ("n - -m", 12), ("n // zero", 0), ("n % zero", 5),
    ],
)  # fmt: skip
def test_values(text, value):
    assert extent_at(text, {"n": 5, "m": 7, "zero": 0, "past.length": 99}) == value


@given(st.recursive(
    st.one_of(st.integers(0, 50).map(str), st.sampled_from(["a", "b"])),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner).map("({0[0]}{0[1]}{0[2]})".format),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        inner.map(lambda t: f"-{t}"),
        inner.map(lambda t: f"-({t})**2"),
    ),
    max_leaves=12,
))  # fmt: skip
def test_agrees_with_python(text):
    dims = {"a": 3, "b": 8}
    try:
        expected = eval(text, {"min": min, "max": max}, dims)
    except ZeroDivisionError:
        return  # the numeric contract gives a value where Python has none
    refused = ""
    try:
        size = parse_extent(text)
    except UserError as error:
        refused = str(error)
    if refused:
        assert re.search("beyond the limits|more than|by zero", refused)
    else:
        assert evaluate_dim(size, dims) == expected


@pytest.mark.parametrize(
    ("text", "value", "dims", "answer"),
    [
        ("2*n", 8, {}, ("n", 4)), ("2*n", 7, {}, None), ("n + m", 9, {"m": 2}, ("n", 7)),
        ("n + m", 9, {}, None),
        ("n*n", 9, {}, None), ("n*m", 6, {"m": 0}, None), ("n + 5", 2, {}, None),
        ("-n + 9", 4, {}, ("n", 5)),
    ],
)  # fmt: skip
def test_solving(text, value, dims, answer):
    size = parse_extent(text)
    assert isinstance(size, Dim)
    assert solve(size, value, dims) == answer


def shapes(*entries):
    return [ArrayShape(name, tuple(map(parse_extent, declared)), given) for name, declared, given in entries]


@pytest.mark.parametrize(
    ("entries", "dims"),
    [
        ([], {}),
        ([("x", (3, "n"), (3, 4)), ("y", ("n", "m"), (4, 0))], {"n": 4, "m": 0}),
        ([("x", ("2*n + m",), (11,)), ("y", ("m",), (3,))], {"n": 4, "m": 3}),
        ([("x", ("n + m",), (7,)), ("y", ("m*k",), (6,)), ("z", ("k + 1",), (4,))], {"k": 3, "m": 2, "n": 5}),
    ],
)
def test_dims_are_bound(entries, dims):
    assert bind_dims(shapes(*entries), "model") == dims


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([("x", (3, "n"), (2, 4))], r"^m: input 'x' expects shape \(3, n\), got \(2, 4\): axis 0 is 2, not 3"),
        ([("x", ("n",), (2,)), ("y", ("n",), (3,))], "^m: n is 2 from input 'x' axis 0 but 3 from input 'y' axis 0"),
        ([("x", ("n*k",), (2,))], r"axis 0 is 2, but k\*n does not determine 'k'"),
        ([("x", ("2*n",), (3,))], r"axis 0 is 3, but 2\*n does not determine 'n'"),
        ([("x", ("n", "n + 1"), (3, 3))], r"axis 1 must be n \+ 1 = 4 \(n = 3 from input 'x' axis 0\), got 3"),
    ],
)
def test_disagreement_is_explained(entries, message):
    with pytest.raises(UserError, match=message):
        bind_dims(shapes(*entries), "m")


def test_a_sum_of_many_names_is_read_in_a_moment():
    names = [f"a{i}" for i in range(1500)]
    assert extent_at("+".join(names), dict.fromkeys(names, 1)) == 1500
