"""Dim algebra: evaluation is a homomorphism, forms are canonical, text is invertible, decisions are sound."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Callable
from typing import Any

import joinery as jn
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joinery import Dim, UserError
from joinery.graph.dims.binding import extent_at
from joinery.graph.dims.dim import (
    ceil_div,
    dim,
    dims_equal,
    evaluate_dim,
    exact_quotient,
    lower_bound,
    maximum,
    minimum,
    product,
)
from joinery.graph.dims.long import excess

from ...support.tiers import examples

NAMES = ("a", "b", "seq")
Env = dict[str, int]
Both = tuple[Any, Callable[[Env], int]]

environments = st.fixed_dictionaries({name: st.integers(0, 40) for name in NAMES})


def _leaf() -> st.SearchStrategy[Both]:
    names = st.sampled_from(NAMES).map(lambda name: (dim(name), lambda env: env[name]))
    numbers = st.integers(-5, 9).map(lambda value: (value, lambda env: value))
    return st.one_of(names, names, numbers)


def _floor(x: int, y: int) -> int:
    return x // y


def _combine(children: st.SearchStrategy[Both]) -> st.SearchStrategy[Both]:
    """An expression as a Dim, and as a function on sizes that uses Python's own integers."""
    pairs = st.tuples(children, children)
    divisors = st.tuples(children, st.integers(1, 6))
    return st.one_of(
        pairs.map(lambda p: (p[0][0] + p[1][0], lambda env: p[0][1](env) + p[1][1](env))),
        pairs.map(lambda p: (p[0][0] - p[1][0], lambda env: p[0][1](env) - p[1][1](env))),
        pairs.map(lambda p: (p[0][0] * p[1][0], lambda env: p[0][1](env) * p[1][1](env))),
        pairs.map(lambda p: (maximum(p[0][0], p[1][0]), lambda env: max(p[0][1](env), p[1][1](env)))),
        pairs.map(lambda p: (minimum(p[0][0], p[1][0]), lambda env: min(p[0][1](env), p[1][1](env)))),
        divisors.map(lambda p: (p[0][0] // p[1], lambda env: p[0][1](env) // p[1])),
        divisors.map(lambda p: (p[0][0] % p[1], lambda env: p[0][1](env) % p[1])),
    )


expressions = st.recursive(_leaf(), _combine, max_leaves=6)


@settings(max_examples=examples(400))
@given(expressions, environments)
def test_evaluation_is_a_homomorphism(both: Both, env: Env) -> None:
    extent, meaning = both
    assert evaluate_dim(extent, env) == meaning(env)


@settings(max_examples=examples(200))
@given(expressions, environments)
def test_lower_bounds_hold(both: Both, env: Env) -> None:
    extent, meaning = both
    bound = lower_bound(extent)
    assert bound is None or bound <= meaning(env)


@settings(max_examples=examples(200))
@given(expressions, expressions, environments)
def test_decided_equality_is_right(first: Both, second: Both, env: Env) -> None:
    verdict = dims_equal(first[0], second[0])
    assert verdict is None or verdict == (first[1](env) == second[1](env))


@settings(max_examples=examples(200))
@given(expressions)
def test_text_is_invertible(both: Both) -> None:
    extent = both[0]
    assert Dim.parse(str(extent)) == extent
    assert type(Dim.parse(str(extent))) is type(extent)
    assert hash(Dim.parse(str(extent))) == hash(extent)


@settings(max_examples=examples(100))
@given(expressions, st.fixed_dictionaries({name: st.integers(0, 9) for name in NAMES}), environments)
def test_substitution_is_evaluation_in_another_environment(both: Both, shift: Env, env: Env) -> None:
    extent, meaning = both
    if isinstance(extent, Dim):
        moved = extent.substitute({name: dim(name) + shift[name] for name in NAMES})
        assert evaluate_dim(moved, env) == meaning({name: env[name] + shift[name] for name in NAMES})


@settings(max_examples=examples(100))
@given(expressions, environments)
def test_terms_are_the_value(both: Both, env: Env) -> None:
    """What a code generator computes from `.terms` is the value."""

    def value_of(extent: Any) -> int:
        if isinstance(extent, int):
            return extent
        total = 0
        for coefficient, monomial in extent.terms:
            for atom, power in monomial:
                if isinstance(atom, str):
                    coefficient *= env[atom] ** power
                    continue
                x, y = (value_of(argument) for argument in atom.args)
                known = {"max": lambda x, y: max(x, y), "floordiv": _floor, "mod": lambda x, y: x % y}
                coefficient *= known[atom.kind](x, y) ** power
            total += coefficient
        return total

    assert value_of(both[0]) == both[1](env)


B, S = dim("batch"), dim("seq")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (B + S, S + B),
        (2 * (B + 1) - 2, 2 * B),
        ((2 * B + 1) // 2, B),
        ((6 * B) % 4, 2 * (B % 2)),
        (B * S * 64 // (B * S), 64),
        ((B * S + S) // S, B + 1),
        (B - minimum(1, B), maximum(B - 1, 0)),
        (maximum(B + 1, S + 1), maximum(B, S) + 1),
        (minimum(B, S) + maximum(B, S), B + S),
        (-maximum(-B, -S), minimum(B, S)),
        (maximum(B, 0), B),
        (minimum(B, B + 3), B),
        (B // -2, -B // 2),
        (B - B, 0),
        (B**2, B * B),
        (10 // B, 10 // dim("batch")),
        (10 % B, 10 % dim("batch")),
    ],
)
def test_equal_values_have_equal_structure(left: Any, right: Any) -> None:
    assert left == right
    assert hash(left) == hash(right)
    assert type(left) is type(right)


def test_text_is_readable() -> None:
    shown = [2 * B + 1, minimum(B, 64), maximum(B - 1, 0), ceil_div(B, 64) * 64, B * S**2 - 3, -B, B % 4]
    assert [str(extent) for extent in shown] == [
        "2*batch + 1", "min(batch, 64)", "max(batch - 1, 0)", "64*((batch + 63) // 64)", "batch*seq**2 - 3", "-batch",
        "(batch % 4)",
    ]  # fmt: skip
    assert repr(B) == "Dim('batch')"
    assert repr(B + 1) == "Dim.parse('batch + 1')"


def test_constant_results_are_plain_ints() -> None:
    for extent in (B - B + 3, 0 * B, (4 * B) // (2 * B), B**0):
        assert type(extent) is int


@pytest.mark.parametrize(
    ("left", "right", "verdict"),
    [
        (B, B, True),
        (B, S, None),
        (B, 4, None),
        (B, B + 1, False),
        (2 * B + 1, 2 * S, False),
        (B, -1, False),
        (B * S + 1, 0, False),
        (3, 4, False),
        (minimum(B, 4), 5, False),
        (maximum(B, 4), 3, False),
    ],
)
def test_equality_is_decided_where_it_can_be(left: Any, right: Any, verdict: bool | None) -> None:
    assert dims_equal(left, right) is verdict


def test_exact_quotient() -> None:
    assert exact_quotient(B * S + B, B) == S + 1
    assert exact_quotient(6 * B, 3) == 2 * B
    assert exact_quotient(B, S) is None
    assert exact_quotient(3 * B, 2) is None
    assert exact_quotient(6, 4) is None
    assert exact_quotient(7, B) is None


def test_division_by_zero_at_launch_follows_the_numeric_contract() -> None:
    assert (B // S).evaluate({"batch": 7, "seq": 0}) == 0
    assert (B % S).evaluate({"batch": 7, "seq": 0}) == 7


def test_names_and_products() -> None:
    assert B.symbols() == {"batch"}
    assert ((B + 1) // S * maximum(dim("heads"), 2)).symbols() == {"batch", "seq", "heads"}
    assert B.name == "batch"
    assert (B + 1).name is None
    assert (2 * B).name is None
    assert (B * B).name is None
    assert product([2, B, 3]) == 6 * B
    assert product([]) == 1


def test_a_dim_survives_pickling_and_is_immutable() -> None:
    extent = (B * 3 + S) // 4
    assert pickle.loads(pickle.dumps(extent)) == extent
    with pytest.raises(AttributeError, match="immutable"):
        B._hash = 3  # type: ignore[misc]


@pytest.mark.parametrize("name", ["", "2x", "a b", "max", "min", "a-b", 3])
def test_bad_names_are_refused(name: Any) -> None:
    with pytest.raises(UserError, match="is not a dim name"):
        Dim(name)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it ends early"),
        ("batch +", "it ends early"),
        ("batch batch", "unexpected 'batch'"),
        ("(batch", r"expected \)"),
        ("batch // 0", "division by zero"),
        ("max batch", r"expected \( after max"),
        ("batch $ 2", "unexpected '\\$'"),
        ("batch ** 65", "exponent from 0 to 64"),
        ("2 ** (0-1)", "exponent from 0 to 64"),
        ("9" * 41, "more than 40 digits"),
        ("((9**64)**64)**64", "more than 256 bits"),
        ("(" * 70 + "a" + ")" * 70, "nested deeper"),
        ("__import__('os')", "unexpected"),
        ("a" * 10_001, "at most 10000"),
    ],
)
def test_malformed_expressions_are_refused(text: str, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        Dim.parse(text)


def test_expressions_that_would_explode_are_refused() -> None:
    with pytest.raises(UserError, match="beyond the limits"):
        Dim.parse("(a + b + c + d + e + f + g + h)**64")


def test_a_missing_size_is_named_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"'batch' is not given; did you mean 'batches'"):
        (B + 1).evaluate({"batches": 3})
    with pytest.raises(UserError, match="given: none"):
        B.evaluate({})


def test_truth_and_order_do_not_exist() -> None:
    with pytest.raises(UserError, match="not known before launch"):
        bool(B)
    with pytest.raises(TypeError):
        B < 3  # type: ignore[operator]  # noqa: B015
    assert B != 3


def test_static_division_by_zero_is_refused() -> None:
    with pytest.raises(UserError, match="divided by zero"):
        B // 0
    with pytest.raises(UserError, match="remainder by zero"):
        B % 0


@pytest.mark.one_in(2)
@pytest.mark.parametrize("count", [12, 40, 400])
def test_choices_among_many_sizes_end(count: int) -> None:
    with pytest.raises(jn.UserError, match="characters"):
        jn.Dim.parse(f"min({', '.join(f'a{number}' for number in range(count))})")


@pytest.mark.parametrize("word", ["min", "max", "mod", "floordiv"])
def test_words_of_expressions_are_no_names(word: str) -> None:
    for read in (jn.dim, jn.Dim.parse, lambda name: jn.TensorType(jn.float32, (name,))):
        with pytest.raises(jn.UserError, match="expected"):
            read(word)


@given(st.lists(st.tuples(st.integers(-6, 9), st.integers(1, 6), st.integers(1, 3)), max_size=6), st.integers(0, 200))
def test_quotients_of_quotients_are_one(steps: list[tuple[int, int, int]], size: int) -> None:
    extent: Any = jn.dim("n")
    value = size
    for add, divisor, factor in steps:
        extent, value = (factor * extent + add) // divisor, (factor * value + add) // divisor
    assert evaluate_dim(extent, {"n": size}) == value
    assert jn.Dim.parse(str(extent)) == extent
    if all(factor == 1 for _, _, factor in steps):
        assert str(extent).count("//") <= 1


def test_what_runs_need_may_be_longer_than_any_size() -> None:
    names = [jn.dim(f"n{number}") for number in range(4)]
    value = product([(name - 1) // 3 + name // 7 + name % 5 + 1 for name in names]) * 3
    assert len(str(value)) > 2048
    with pytest.raises(jn.UserError, match="characters, more than 2048"):
        maximum(value - 1000, 0)
    over = excess(value, 1000)
    for sizes in itertools.product((0, 1, 20), repeat=4):
        env = {f"n{number}": size for number, size in enumerate(sizes)}
        expected = max(math.prod((size - 1) // 3 + size // 7 + size % 5 + 1 for size in sizes) * 3 - 1000, 0)
        assert evaluate_dim(over, env) == extent_at(str(over), env) == expected
    assert pickle.loads(pickle.dumps(over.terms)) == over.terms
