"""Lemmas that are said late, and answers that follow from others."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.terms.atoms import Terms
from joinery.lowering.prove.terms.formulas import (
    Flag,
    Formula,
    at_least,
    at_most,
    both,
    equal,
    holds,
    less,
    negated,
    polynomials_of,
)
from joinery.lowering.prove.terms.lemmas import MAX_PAIRS, products_in
from joinery.lowering.prove.terms.models import Model, Models
from joinery.lowering.prove.terms.polynomials import ONE, Polynomial
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


def test_numbers_of_another_question_answer_those_that_they_satisfy() -> None:
    """What they do not satisfy is asked, also where only a lemma about a product says so."""
    terms = Terms()
    n, m = terms.atom("n", "n"), terms.atom("m", "m")
    solver = Solver(terms, Budget(DEFAULT_LIMIT, 10**9))
    assert not solver.is_impossible(at_least(n, 100), at_least(m, 100), at_least(n * m, 1 << 31))
    asked, left = solver.asked, solver.budget.left
    assert not solver.is_impossible(at_least(n, 50), at_least(m, 3), at_least(n * m, 1 << 31))
    assert solver.asked == asked
    assert solver.budget.left < left
    assert solver.is_impossible(at_most(n, -1), at_least(m, 3), at_least(n * m, 1 << 31))
    assert not solver.is_impossible(at_least(n, 1 << 40), at_least(n * m, 1 << 31))
    flag, other = Flag(terms.flag("flag", "flag")), Flag(terms.flag("other", "other"))
    assert not solver.is_impossible(flag, at_least(n, 7))
    assert solver.is_impossible(negated(flag), flag, at_least(n, 7))
    assert not solver.is_impossible(negated(flag), at_least(n, 7))
    assert solver.is_impossible(flag, other, negated(both(flag, other)), at_least(n, 7))
    few = terms.atom("few", "few", 0, 3)
    assert not solver.is_impossible(at_least(n, few), at_least(n, 1000))
    assert solver.is_impossible(at_least(few, n), at_least(n, 1000))


def test_numbers_beyond_the_range_of_a_product_are_no_answer() -> None:
    """A product is a variable of its own, whose range a question without it does not know."""
    terms = Terms()
    n, m = terms.atom("n", "n", 0, 9), terms.atom("m", "m", 0, 9)
    flag = Flag(terms.flag("flag", "flag"))
    models = Models()
    ranges = {(atom,): (0, 9) for each in (n, m) for atom in each.atoms}
    numbers = {key: 5 for key in ranges}
    product_of = tuple(sorted(atom for each in (n, m) for atom in each.atoms))
    models.add(at_least(n, 3), Model(numbers | {product_of: 99}, frozenset()))
    assert [each[product_of] for each in models.satisfying(at_least(n, 3), [at_least(n * m, 90)], ranges)] == [99]
    assert not list(models.satisfying(at_least(n, 3), [at_least(n * m, 90)], ranges | {product_of: (0, 81)}))
    assert not list(models.satisfying(at_least(n, 3), [at_least(n, 6)], ranges))
    assert not list(models.satisfying(at_least(n, 3), [flag], ranges))
    assert list(models.satisfying(at_least(n, 3), [negated(flag)], ranges))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_conditions_that_are_not_needed(seed: int) -> None:
    """What is impossible without some conditions holds for no numbers of a small range without them."""
    random = Random(seed)
    without = 0
    for _ in range(60):
        terms = Terms()
        x = [terms.atom(at, f"x{at}", -4, 4) for at in range(3)]

        def drawn(x: list[Polynomial] = x) -> Formula:
            left = random.choice(x) * random.choice([*x, ONE]) + random.choice(x) * random.choice((-2, -1, 1))
            return random.choice((at_most, at_least, equal))(left, random.choice(x) + random.randint(-9, 9))

        base, conditions, claim = [drawn() for _ in range(2)], [drawn() for _ in range(3)], drawn()
        bounded = random.random() < 0.5
        solver = Solver(terms, Budget(DEFAULT_LIMIT, 10**9))
        solver.conditions.update(conditions)
        found = solver.check([*base, *conditions, claim], bounded)
        if found.verdict == "unsat":
            needed = [each for each in conditions if each not in found.unneeded]
            atoms = [next(iter(each.atoms)) for each in x]
            for numbers in product(range(-4, 5), repeat=3):
                values = dict(zip(atoms, numbers, strict=True))
                assert not all(holds(each, values) for each in (*base, *needed, claim))
            without += len(needed) < len(conditions)
    assert without > 5


def test_limits_of_numbers_that_follow_from_a_condition_rest_on_it() -> None:
    """x <= 3000 is said by a condition alone, and what it says of x * y is said without one."""
    terms = Terms()
    x, y = terms.atom("x", "x", 0), terms.atom("y", "y", 0)
    solver = Solver(terms, Budget(DEFAULT_LIMIT, 10**9))
    condition, other = at_most(x, 3000), at_most(y, 1 << 40)
    solver.conditions.update([condition, other])
    base = [at_most(y, 1 << 19)]
    claim = at_least(x * y, 1 << 31)
    assert solver.is_impossible(*base, condition, other, claim, bounded=True)
    assert condition not in solver.check([*base, condition, other, claim], bounded=True).unneeded
    assert not solver.is_impossible(*base, other, claim, bounded=True)
