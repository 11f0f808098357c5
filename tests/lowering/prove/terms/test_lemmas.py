"""What proofs take for granted of products, quotients and choices holds for all integers of a small box."""

from __future__ import annotations

import itertools
import math
import random

import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.terms.atoms import Terms
from joinery.lowering.prove.terms.formulas import (
    AtMost,
    Both,
    Either,
    Equal,
    Flag,
    Formula,
    Not,
    Truth,
    at_least,
    at_most,
    equal,
    less,
    negated,
)
from joinery.lowering.prove.terms.formulas import holds as found_to_hold
from joinery.lowering.prove.terms.lemmas import (
    FewValues,
    Lemma,
    Limits,
    Multiples,
    Signs,
    multiples,
    products_in,
)
from joinery.lowering.prove.terms.limits import limits
from joinery.lowering.prove.terms.polynomials import Monomial, Polynomial, constant, variable
from joinery.lowering.prove.terms.solver import Budget, Solver

BOX = range(-3, 4)


def value(polynomial: Polynomial, numbers: dict[int, int]) -> int:
    found = 0
    for monomial, factor in polynomial:
        product = factor
        for atom in monomial:
            product *= numbers[atom]
        found += product
    assert polynomial.value(numbers) == found
    return found


def holds(formula: Formula, numbers: dict[int, int]) -> bool:
    match formula:
        case Truth(truth):
            return truth
        case AtMost(polynomial):
            return value(polynomial, numbers) <= 0
        case Equal(polynomial):
            return value(polynomial, numbers) == 0
        case Both(parts):
            return all(holds(part, numbers) for part in parts)
        case Either(parts):
            return any(holds(part, numbers) for part in parts)
        case Not(part):
            return not holds(part, numbers)
        case Flag():
            raise AssertionError("flags have no value")


def said(lemma: Lemma) -> list[Formula]:
    return [lemma.lemma(number) for number in lemma.numbers()]


def test_lemmas_of_products_hold_for_all_factors() -> None:
    a, b, c = variable(0), variable(1), variable(2)
    for other in (b, b - c, b * c, b * 2 - 3):
        lemmas = said(Signs(a, other))
        for numbers in itertools.product(BOX, repeat=3):
            for lemma in lemmas:
                assert holds(lemma, dict(enumerate(numbers))), (other, numbers, lemma)


def test_lemmas_of_limits_hold_for_all_factors_within_them() -> None:
    a, b, c = variable(0), variable(1), variable(2)
    for low, high in ((-3, 3), (-2, 2), (-1, None), (None, -1), (2, 3), (0, 1)):
        for other in (b, b - c, b * c, b * 2 - 3):
            lemmas = said(Limits(a, other, (low, high)))
            for numbers in itertools.product(BOX, repeat=3):
                if (low is None or low <= numbers[0]) and (high is None or numbers[0] <= high):
                    for lemma in lemmas:
                        assert holds(lemma, dict(enumerate(numbers))), (low, high, other, numbers, lemma)


@pytest.mark.slow
def test_lemmas_of_what_a_factor_is_beside_a_number_hold_for_all() -> None:
    a, b, c = variable(0), variable(1), variable(2)
    for times in (-7, -2, -1, 0, 1, 3):
        for factor, other in ((a, b), (a, b - c), (a, b * c), (a, b * 2 - 3), (a - c, b), (a * c, b), (a, a)):
            lemmas = said(Multiples(factor, other, times))
            for numbers in itertools.product(BOX, repeat=3):
                for lemma in lemmas:
                    assert holds(lemma, dict(enumerate(numbers))), (times, factor, other, numbers, lemma)


def test_what_is_said_of_a_product_is_contradicted_by_another_number() -> None:
    """Whatever the product is said to be but what it is, and however large the factors are that nothing is said of."""
    pair = Signs(variable(0), variable(1))
    for one, two in itertools.product(BOX, repeat=2):
        for product in range(-12, 13):
            values = {(): 1, (0,): one, (1,): two, (0, 1): product}
            made = multiples(pair, values)
            assert (made is None) == (product == one * two)
            assert made is None or made.wrong(values)
    assert multiples(pair, {(): 1, (0,): 1, (1,): 2**40, (0, 1): 0}) is None


def with_products(formula: Formula, numbers: dict[Monomial, int]) -> bool:
    """Returns whether a formula holds where products are numbers of their own."""
    match formula:
        case Truth(truth):
            return truth
        case AtMost(polynomial) | Equal(polynomial):
            found = sum(factor * numbers[monomial] for monomial, factor in polynomial)
            return found == 0 if isinstance(formula, Equal) else found <= 0
        case Both(parts):
            return all(with_products(part, numbers) for part in parts)
        case Either(parts):
            return any(with_products(part, numbers) for part in parts)
        case Not(part):
            return not with_products(part, numbers)
        case _:
            raise AssertionError(formula)


@pytest.mark.slow
def test_numbers_contradict_exactly_the_lemmas_that_do_not_hold() -> None:
    """Whatever numbers products are said to be: an answer with lemmas left out is taken for one with all of them."""
    rng = random.Random(3)
    a, b, c = variable(0), variable(1), variable(2)
    made: list[Lemma] = [Signs(a, other) for other in (b, b - c, b * c, b * 2 - 3, a + b)]
    limited = ((-3, 3), (-2, None), (None, 2), (0, 1), (2, 2))
    made += [Limits(a, other, ends) for other in (b, b - c, b * 2 - 3) for ends in limited]
    made += [Multiples(a, other, times) for other in (b, b - c, b * 2 - 3) for times in (-2, 0, 1, 3)]
    made += [FewValues((0, 1), 0, (-3, 3)), FewValues((0, 1, 2), 0, (-3, 3)), FewValues((0, 0), 1, (-3, 3))]
    contradicted = 0
    for _ in range(400):
        atoms = {(atom,): rng.choice(BOX) for atom in range(3)}
        numbers: dict[Monomial, int] = {(): 1, **atoms}
        for lemma in made:
            for monomial in sorted(lemma.monomials):
                product = math.prod([atoms[(atom,)] for atom in monomial])
                numbers.setdefault(monomial, rng.choice((product, product, product + rng.choice((-4, -1, 1, 4)))))
        for lemma in made:
            broken = [each for each in lemma.numbers() if not with_products(lemma.lemma(each), numbers)]
            found = lemma.wrong({**numbers})
            assert bool(found) == bool(broken) == bool({*found} & {*broken}), (numbers, found, broken)
            contradicted += bool(broken)
    assert contradicted > 500


def test_products_that_no_formula_has_are_those_of_their_factors() -> None:
    a, b = variable(0), variable(1)
    for one, two in itertools.product(BOX, repeat=2):
        assert Signs(a, b + 1).wrong({(): 1, (0,): one, (1,): two}) == []


def test_answers_follow_from_others() -> None:
    """Fewer formulas than can hold together are not asked about, nor more than cannot; all others are."""
    terms = Terms()
    x, y = terms.atom("x", "x"), terms.atom("y", "y")
    solver = Solver(terms, Budget(10**6, 10**9))
    low, high, claim = at_least(x, 3), at_most(x, 9), at_most(x + y, 2)
    assert not solver.is_impossible(low, high, claim)
    asked = solver.asked
    assert not solver.is_impossible(low, claim)
    assert solver.asked == asked
    assert solver.is_impossible(low, at_least(y, 0), claim)
    assert solver.is_impossible(low, high, at_least(y, 0), claim)
    assert solver.asked == asked + 1
    assert solver.is_impossible(at_least(y, 0), low, at_most(x + y, 1))
    assert not solver.is_impossible(high, at_least(y, 0), claim)
    assert solver.asked == asked + 3


def test_limits_are_those_of_all_numbers_with_which_formulas_hold() -> None:
    """Each number of a box that satisfies random sums is within them; some of them are as narrow as the numbers are."""
    rng = random.Random(4)
    narrow = 0
    for _ in range(150):
        sums = []
        for _ in range(rng.randint(1, 4)):
            made = constant(rng.randint(-6, 6))
            for atom in range(3):
                made = made + variable(atom) * rng.choice((0, 0, 1, -1, 2, -3))
            sums.append(rng.choice((AtMost, AtMost, Equal))(made))
        formulas = [sums[0], Both(tuple(sums[1:]))] if len(sums) > 2 else sums
        found = limits(formulas, lambda atom: (-3, 3))
        solutions = [each for each in itertools.product(BOX, repeat=3) if all(holds(s, dict(enumerate(each))) for s in sums)]
        for atom, (low, high) in found.items():
            assert None not in (low, high)
            assert all(low <= each[atom] <= high for each in solutions), (sums, atom, low, high)
            narrow += bool(solutions) and (low, high) not in ((-3, 3),)
    assert narrow > 50


def test_lemmas_are_made_of_what_an_atom_is_multiplied_by() -> None:
    s, row, rows, column = (variable(number) for number in range(4))
    pairs = products_in([row * s + column - rows * s])
    assert (s, rows - row) in pairs or (s, row - rows) in pairs


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_lemmas_of_random_polynomials_hold_for_all_numbers(seed: int) -> None:
    """Whatever pairs are chosen, with common factors and constants left out, what is said of them is true."""
    rng = random.Random(seed)
    monomials = [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 0), (0, 1, 2)]
    given = [
        Polynomial([(each, rng.choice([-16, -4, -1, 1, 2, 4, 12])) for each in rng.sample(monomials, 4)]) for _ in range(4)
    ]  # fmt: skip
    pairs = products_in(given)
    for factor, other in pairs:
        assert other.number is None
        lemmas = said(Signs(factor, other))
        for numbers in itertools.product(BOX[1:-1], repeat=3):
            at = dict(enumerate(numbers))
            assert all(holds(lemma, at) for lemma in lemmas), (factor, other, numbers)


def parts(kind: str, terms: Terms, x: Polynomial, y: Polynomial) -> list[Polynomial]:
    match kind:
        case "floor":
            return list(terms.floor_parts(x, y))
        case "truncated":
            return list(terms.truncated_parts(x, y))
        case "smaller":
            return [terms.smaller(x, y)]
        case "larger":
            return [terms.larger(x, y)]
        case "chosen":
            return [terms.chosen(less(x, y), x, y + 1)]
        case "unsigned":
            return [terms.unsigned(x, 3)]
        case _:
            return [terms.wrapped(x * 3 + y, 3)]


def expected(kind: str, x: int, y: int) -> list[int]:
    match kind:
        case "floor":
            return [x // y, x % y]
        case "truncated":
            quotient = 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
            return [quotient, x - quotient * y]
        case "smaller":
            return [min(x, y)]
        case "larger":
            return [max(x, y)]
        case "chosen":
            return [x if x < y else y + 1]
        case "unsigned":
            return [x % 8]
        case _:
            return [(x * 3 + y + 4) % 8 - 4]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("kind", ["floor", "truncated", "smaller", "larger", "chosen", "unsigned", "wrapped"])
@pytest.mark.parametrize("divisor", ["symbol", "number"])
def test_defined_numbers_are_exactly_those_of_python(kind: str, divisor: str) -> None:
    """The facts allow the right number, and no other one, for all operands."""
    for y_value in (-3, -1, 0, 2) if kind == "truncated" else (1, 3):
        if kind == "floor" and y_value < 1:
            continue
        terms = Terms()
        x = terms.atom("x", "x", -4, 3)
        y = constant(y_value) if divisor == "number" else terms.atom("y", "y", 1 if kind == "floor" else -3, 3)
        found = parts(kind, terms, x, y)
        solver = Solver(terms, Budget(10**6, 10**9))
        for x_value in range(-4, 4, 1 if divisor == "symbol" else 2):
            given = [equal(x, x_value), equal(y, y_value)]
            right = expected(kind, x_value, y_value)
            for polynomial, number in zip(found, right, strict=True):
                assert solver.check([*given, equal(polynomial, number)]).verdict == "sat", (x_value, y_value, number)
                assert solver.is_impossible(*given, negated(equal(polynomial, number))), (x_value, y_value, number)


def test_quotients_and_extremes_are_one_number_however_they_are_written() -> None:
    terms = Terms()
    n = terms.atom("n", "n", 0, None)
    block = constant(512)
    assert terms.floor_parts(n * 2 + 1023, constant(1024))[0] == terms.floor_parts(n + 511, block)[0]
    half, _ = terms.floor_parts(n, constant(2))
    assert terms.floor_parts(half + 255, constant(256))[0] == terms.floor_parts(n + 510, block)[0]
    assert terms.larger(n + 763, constant(765)) == terms.larger(n - 2, constant(0)) + 765
    assert terms.smaller(constant(9) - n, constant(3)) == terms.smaller(-n, constant(-6)) + 9
    assert len({terms.larger(n, constant(2)), terms.larger(n, constant(3)), terms.smaller(n, constant(2))}) == 3


@pytest.mark.one_in(8)
@pytest.mark.parametrize("seed", range(24))
def test_numbers_in_normal_form_are_those_of_python(seed: int) -> None:
    """Quotients of quotients with sums around, extremes of them, for numbers on both sides of 0: as the facts allow, alone."""
    rng = random.Random(f"normal form {seed}")
    terms = Terms()
    x = terms.atom("x", "x", *rng.choice([(-9, 9), (0, 9), (-9, 0)]))
    (made, name) = (x, "x")
    for _ in range(rng.randrange(1, 4)):
        factor, rest, divisor = rng.choice([-4, -2, 1, 1, 1, 2, 3, 6]), rng.randrange(-7, 8), rng.choice([1, 2, 3, 4, 6])
        value, text = made * factor + rest, f"({name} * {factor} + {rest})"
        match rng.choice(["//", "//", "//", "%", "min", "max"]):
            case "//":
                made, name = terms.floor_parts(value, constant(divisor))[0], f"({text} // {divisor})"
            case "%":
                made, name = terms.floor_parts(value, constant(divisor))[1], f"({text} % {divisor})"
            case "min":
                made, name = terms.smaller(value, constant(divisor)), f"min({text}, {divisor})"
            case _:
                made, name = terms.larger(constant(divisor), value), f"max({divisor}, {text})"
    solver = Solver(terms, Budget(10**6, 10**9))
    low, high = terms.range(made)
    for number in range(-9, 10):
        given = equal(x, number)
        if solver.is_impossible(given):
            continue
        right = eval(name, {"x": number})
        assert solver.check([given, equal(made, right)]).verdict == "sat", (name, number, right)
        assert solver.is_impossible(given, negated(equal(made, right))), (name, number, right)
        assert low is None or low <= right
        assert high is None or right <= high


@pytest.mark.slow
def test_quotients_by_sizes_that_may_be_0() -> None:
    """Of numbers from 0 on, as of programs, by sizes from 0 on."""
    terms = Terms()
    x, y = terms.atom("x", "x", 0, 6), terms.atom("y", "y", 0, 3)
    quotient, rest = terms.truncated_parts(x, y)
    assert terms.range(quotient)[0] == terms.range(rest)[0] == 0
    solver = Solver(terms, Budget(10**6, 10**9))
    for one, two in itertools.product(range(7), range(4)):
        for polynomial, right in zip((quotient, rest), expected("truncated", one, two), strict=True):
            given = [equal(x, one), equal(y, two)]
            assert solver.check([*given, equal(polynomial, right)]).verdict == "sat"
            assert solver.is_impossible(*given, negated(equal(polynomial, right)))


def test_comparisons_of_polynomials_round_to_whole_numbers() -> None:
    terms = Terms()
    x = terms.atom("x", "x", -20, 20)
    solver = Solver(terms, Budget(10**6, 10**9))
    for factor, rest, number in itertools.product((2, 3), range(-3, 4), BOX):
        for formula, truth in (
            (at_most(x * factor + rest, 0), number * factor + rest <= 0),
            (at_least(x * factor + rest, 0), number * factor + rest >= 0),
            (equal(x * factor + rest, 0), number * factor + rest == 0),
        ):
            assert (solver.check([equal(x, number), formula]).verdict == "sat") == truth


def test_polynomials_are_in_normal_form() -> None:
    x, y = variable(0), variable(1)
    assert (x + y) * (x - y) == x * x - y * y
    assert x + y - x == y
    assert (x * 6 + y * 3 + 7).split(3) == (x * 2 + y + 2, constant(1))
    assert (x * y + x * 3 + y).group(0) == y + 3
    assert (x * x + y).substituted(0, y + 1) == y * y + y * 3 + 1


def test_formulas_hold_for_numbers_as_the_solver_says() -> None:
    """Whether an access is executed is read off numbers that were found for others."""
    rng = random.Random("holds")
    terms = Terms()
    x, y = terms.atom("x", "x"), terms.atom("y", "y")
    flag = Flag(terms.flag("b", "b"))
    solver = Solver(terms, Budget(10**6, 10**9))

    def drawn(depth: int) -> Formula:
        if depth == 0:
            value = x * rng.randrange(-3, 4) + y * rng.randrange(-3, 4) + x * y * rng.choice((0, 0, 1)) + rng.randrange(-6, 7)
            return rng.choice((at_most, equal))(value, 0)
        parts = (drawn(depth - 1), drawn(depth - 1))
        return rng.choice((Both(parts), Either(parts), negated(parts[0])))

    seen = set()
    for _ in range(60):
        formula, numbers = drawn(rng.randrange(3)), (rng.choice(BOX), rng.choice(BOX))
        given = {next(iter(atom.atoms)): number for atom, number in zip((x, y), numbers, strict=True)}
        found = found_to_hold(formula, given)
        assert found == (solver.exact([formula, equal(x, numbers[0]), equal(y, numbers[1])]).verdict == "sat")
        seen.add(found)
    assert seen == {True, False}
    for known, unknown in ((equal(x, 1), flag), (equal(x, 1), equal(y, 0))):
        assert found_to_hold(Both((known, unknown)), {next(iter(x.atoms)): 1}) is None
        assert found_to_hold(Both((known, unknown)), {next(iter(x.atoms)): 2}) is False
        assert found_to_hold(Either((known, unknown)), {next(iter(x.atoms)): 1}) is True
        assert found_to_hold(Not(unknown), {next(iter(x.atoms)): 1}) is None
