"""Lemmas that are said late, and answers that follow from others."""

from __future__ import annotations

import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.terms.atoms import Terms
from joinery.lowering.prove.terms.formulas import Formula, at_least, at_most, equal, less, polynomials_of
from joinery.lowering.prove.terms.lemmas import MAX_PAIRS, products_in
from joinery.lowering.prove.terms.solver import DEFAULT_LIMIT, Budget, Solver

BIG = (1 << 62) + 1


def far_apart(terms: Terms) -> list[Formula]:
    """Two programs whose offsets wrap in 64 bits and would meet in a small array."""
    p, q = terms.atom("p", "p", 0, 2), terms.atom("q", "q", 0, 2)
    k, m = terms.atom("k", "k", 0, 2**29), terms.atom("m", "m", 1, 100)
    first, second = (terms.wrapped(each + k * each * BIG, 64) for each in (p, q))
    inside = [formula for each in (first, second) for formula in (at_least(each, 0), less(each, m))]
    return [*inside, equal(first, second), less(p, q), at_least(k, 1)]


def test_what_few_lemmas_leave_open_is_asked_with_all_of_them() -> None:
    """Without lemmas z3 does not come to an end in all steps of a question, and with all of them it does at once."""
    terms = Terms()
    solver = Solver(terms, Budget(DEFAULT_LIMIT, 10**9))
    assert solver.check(far_apart(terms)).verdict == "unsat"
    assert solver.steps < DEFAULT_LIMIT // 4


def test_fewer_formulas_than_some_with_too_many_products_are_asked_again() -> None:
    """So many products had no lemmas about all of them, and a part of them has."""
    terms = Terms()
    x, y = terms.atom("x", "x"), terms.atom("y", "y")
    others = [terms.atom(number, f"z{number}") for number in range(30)]
    part = [at_most(x * y, -1), at_least(x, 0), at_least(y, 0)]
    products = [at_least(others[i] * others[j], 0) for i in range(30) for j in range(i)]
    whole = [*part[:2], *products, part[2]]
    assert len(products_in(list(polynomials_of(whole)))) > MAX_PAIRS
    solver = Solver(terms, Budget(DEFAULT_LIMIT, 10**9))
    solver.check(whole)
    assert solver.is_impossible(*part)


def test_answers_that_follow_are_not_asked() -> None:
    terms = Terms()
    n, m = terms.atom("n", "n"), terms.atom("m", "m")
    solver = Solver(terms, Budget(DEFAULT_LIMIT, 10**9))
    assert solver.is_impossible(at_least(n, 1), less(n, 1))
    assert solver.is_impossible(at_least(n, 1), at_least(m, 5), less(n, 1))
    assert solver.check([at_least(n, 1), at_least(m, 5), less(n, 9)]).verdict == "sat"
    assert solver.check([at_least(m, 5), less(n, 9)]).verdict == "sat"
    assert solver.asked == 2
    assert solver.is_impossible(at_least(n, 9), less(n, 9))
    assert solver.asked == 3
