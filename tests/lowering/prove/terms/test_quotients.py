"""Quotients of sizes and of programs: one number has one atom, and what is said of it is what Python computes."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.terms.atoms import Terms
from joinery.lowering.prove.terms.formulas import equal, holds, less, negated, polynomials_of
from joinery.lowering.prove.terms.polynomials import ONE, Polynomial, constant, variable
from joinery.lowering.prove.terms.solver import DEFAULT_LIMIT, Budget, Solver


def is_number(solver: Solver, value: Polynomial, expected: int, *given: Polynomial) -> bool:
    """Whether a term is a number, and may be, where `given` are 0."""
    formulas = [equal(each, 0) for each in given]
    return solver.model([*formulas, equal(value, expected)]) is not None and solver.is_impossible(
        *formulas, negated(equal(value, expected))
    )


@pytest.mark.one_in(8)
@pytest.mark.parametrize("seed", range(8))
def test_quotients_beside_each_other_are_those_of_python(seed: int) -> None:
    """In any order, with divisors that divide each other or do not, of sums and of quotients."""
    random = Random(seed)
    terms = Terms()
    n = terms.larger(terms.atom("n", "n", 0), constant(random.choice((0, 1, 2, 7))))
    solver = Solver(terms, Budget(DEFAULT_LIMIT, 10**9))
    divisors, values, numbers = (2, 3, 4, 6, 12, 64, 192), [n], [lambda x: x]
    for _ in range(8):
        at, times = random.randrange(len(values)), random.choice((1, 1, 2, 3))
        add, by = random.randint(-9, 200), random.choice(divisors)
        part = random.randrange(2)
        values.append(terms.floor_parts(values[at] * times + add, constant(by))[part])
        numbers.append(lambda x, of=numbers[at], times=times, add=add, by=by, part=part: divmod(of(x) * times + add, by)[part])
    low, _ = terms.range(n)
    for x in [low, *[low + random.randint(1, 400) for _ in range(6)]]:
        for value, number in zip(values, numbers, strict=True):
            assert is_number(solver, value, number(x), n - x), (seed, x, terms.text(value))


def test_a_quotient_of_a_known_quotient_is_one_of_that() -> None:
    """(n + 187) // 192 beside (n - 2) // 3 has no n in it any more; without it, it has."""
    terms = Terms()
    n = terms.atom("n", "n", 2)
    rows, _ = terms.floor_parts(n - 2, constant(3))
    blocks, _ = terms.floor_parts(n + 187, constant(192))
    assert blocks == terms.floor_parts(rows + 63, constant(64))[0]
    assert terms.text(rows) == "(n - 2 // 3)"
    other = Terms()
    n = other.atom("n", "n", 2)
    assert other.text(other.floor_parts(n + 187, constant(192))[0]) == "(n + 187 // 192)"


@pytest.mark.slow
def test_parts_of_the_number_of_programs() -> None:
    """Where a divisor divides the number of programs, quotients are in the range that is said, whatever the signs of sizes."""
    for is_floor, is_nested in product((False, True), repeat=2):
        terms = Terms()
        n, m = (terms.atom(name, name) for name in "nm")
        k, j = (terms.atom(name, name, 1) for name in "kj")
        cases = [(k * j * 8, k * j), (k * 12, k)]
        if not is_floor:
            cases += [(n * m * -8, n * m), (n * 8, n), (n * -8, n), (n * -8, -n), (n * m + n * 3, n), ((n + 1) * k * 5, n + 1)]
        for number, (grid, divisor) in enumerate(cases):
            p = terms.atom(("program", number), "p", 0, None, (), lambda made, grid=grid: [less(made, grid)])
            terms.below[next(iter(p.atoms))] = grid
            parts = terms.floor_parts if is_floor else terms.truncated_parts
            quotient, rest = parts(p, divisor)
            inner = parts(quotient, constant(2))[0] if is_nested else None
            for sizes in product((-3, -1, 0, 1, 2, 3), repeat=4):
                values = dict(zip([next(iter(each.atoms)) for each in (n, m, k, j)], sizes, strict=True))
                if min(sizes[2:]) < 1:
                    continue
                d = divisor.value(values)
                for program in range(max(grid.value(values), 0)):
                    q = 0 if d == 0 else abs(program) // abs(d) * (1 if d > 0 else -1)
                    for term, value in ((quotient, q), (rest, program - q * d), (inner, int(q / 2))):
                        if term is not None:
                            low, high = terms.range(term)
                            assert low is None or low <= value
                            assert high is None or value <= high
                            bound = terms.below.get(next(iter(term.atoms))) if term.atoms else None
                            assert bound is None or 0 <= value < bound.value(values)
    terms = Terms()
    k, j = (terms.atom(name, name, 1) for name in "kj")
    p = terms.atom("p", "p", 0, None, (), lambda made: [less(made, k * j * 8)])
    terms.below[next(iter(p.atoms))] = k * j * 8
    assert terms.range(terms.floor_parts(p, k * j)[0]) == (0, 7)
    assert terms.range(terms.floor_parts(p, k)[0])[1] is None


def test_exact_quotients_of_polynomials() -> None:
    random = Random(3)
    found = 0
    for _ in range(400):
        def drawn(terms: int) -> Polynomial:
            total = constant(random.choice((0, 0, 1, -3)))
            for _ in range(terms):
                monomial = ONE * random.choice((-2, -1, 1, 1, 3))
                for _ in range(random.randrange(3)):
                    monomial = monomial * variable(random.randrange(3))
                total = total + monomial
            return total

        one, two, other = drawn(3), drawn(2), drawn(1)
        if two.terms:
            assert (one * two).exact_quotient(two) == one
            quotient = (one * two + other).exact_quotient(two)
            assert quotient is None or quotient * two == one * two + other
            found += quotient is None
        assert one.exact_quotient(constant(0)) is None
    assert found > 50


@pytest.mark.parametrize("is_least", [False, True])
def test_a_maximum_is_one_of_two_numbers_where_that_is_not_less(is_least: bool) -> None:
    terms = Terms()
    n, m = terms.atom("n", "n", -9, 9), terms.atom("m", "m", -9, 9)
    extreme = terms.smaller if is_least else terms.larger
    for one, two in ((n, m), (n - 2, constant(0)), (n * 2, m + 3), (n, constant(1))):
        for times, own in product((-3, 1, 2), (one, two)):
            made = extreme(one, two)
            formula = terms.same(made * times + m, own * times + m)
            assert not {next(iter(made.atoms))} & {atom for each in polynomials_of([formula]) for atom in each.atoms}
            for x, y in product(range(-5, 6), repeat=2):
                values = {next(iter(n.atoms)): x, next(iter(m.atoms)): y}
                numbers = one.value(values), two.value(values)
                expected = own.value(values) == (min(numbers) if is_least else max(numbers))
                assert holds(formula, values) is expected
    assert terms.same(n, m) == equal(n, m)
    assert terms.same(extreme(n, m), n + 1) == equal(extreme(n, m), n + 1)
