"""Sizes as text: values against Python's own arithmetic, and everything else refused."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joinery.graph.dims.dim import dim, evaluate_dim, maximum, minimum
from joinery.promotion.errors import UserError
from joinery.runtime.model.dim_expressions import parse_size


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7), ("n", 5), ("2*n + 1", 11), ("n*m - 3", 32), ("-n + 9", 4), ("(n + m)*2", 24),
        ("n // 2 * 2", 4),
        ("n % 3", 2), ("-n // 2", -3), ("n**2", 25), ("-n**2", -25), ("2*-n**2", -50), ("(-n)**2", 25),
        ("n^3*2", 250), ("min(n, m, 3)", 3), ("max(n, 2*m)", 14),
        ("floordiv(m, 2)", 3), ("ceildiv(m, 2)", 4), ("mod(m, 4)", 3), ("10 - 3 - 2", 5),
        ("past.length + 1", 100),
        ("  n+m ", 12), ("2*-n", -10), ("n - -m", 12), ("n // zero", 0), ("n % zero", 5),
        ("ceildiv(n, zero)", 0),
    ],
)  # fmt: skip
def test_values(text, value):
    size = parse_size(text)
    assert size.evaluate({"n": 5, "m": 7, "zero": 0, "past.length": 99}) == value


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
    assert parse_size(text).evaluate(dims) == expected


@given(
    st.integers(0, 6),
    st.integers(0, 6),
    st.lists(st.tuples(st.sampled_from("+-*/%<>"), st.integers(0, 3)), max_size=6),
)
def test_agrees_with_the_dims_of_graphs(first, second, steps):
    """`TensorSpec` shapes are the text of the graph's dims: both sides must read it alike, division by zero
    included."""
    operands = [dim("n"), dim("m"), dim("n") + 1, 2]
    value = dim("n")
    for symbol, index in steps:
        other = operands[index]
        value = {
            "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.floordiv,
            "%": operator.mod, "<": minimum, ">": maximum,
        }[symbol](value, other)  # fmt: skip
    extents = {"n": first, "m": second}
    assert parse_size(str(value)).evaluate(extents) == evaluate_dim(value, extents)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "ends too early"), ("n +", "ends too early"), ("(n", r"expected '\)'"),
        ("n)", r"unexpected '\)'"),
        ("2n", "unexpected 'n'"), ("n n", "unexpected 'n'"), ("n; m", "unexpected ';' at column 2"),
        ("*n", r"unexpected '\*'"),
        ("sin(n)", "no function 'sin'"), ("__import__(n)", "no function '__import__'"),
        ("floordiv(n)", "two operands"),
        ("n**m", "exponents are integers"), ("2**65", "exponents are integers"), ("n[0]", r"unexpected '\['"),
        ("(" * 200 + "n" + ")" * 200, "nested deeper"), ("-" * 200 + "n", "nested deeper"),
        ("n" + "+n" * 500, "operators"),
        ("n" * 20_000, "20000 characters"), ("1.5", "unexpected '.'"), ("'n'", "unexpected"),
    ],
)  # fmt: skip
def test_what_is_no_size(text, message):
    with pytest.raises(UserError, match=message):
        parse_size(text)


def test_unknown_dims():
    with pytest.raises(UserError, match=r"size 'n \+ q': dim 'q' has no value; known dims: n"):
        parse_size("n + q").evaluate({"n": 1})


@pytest.mark.parametrize(
    ("text", "value", "dims", "answer"),
    [
        ("2*n", 8, {}, ("n", 4)), ("2*n", 7, {}, None), ("n + m", 9, {"m": 2}, ("n", 7)),
        ("n + m", 9, {}, None),
        ("n*n", 9, {}, None), ("n*m", 6, {"m": 0}, None), ("n + 5", 2, {}, None), ("3", 3, {}, None),
        ("-n + 9", 4, {}, ("n", 5)),
    ],
)  # fmt: skip
def test_solving(text, value, dims, answer):
    assert parse_size(text).solve(value, dims) == answer
