"""Makes linear facts about products, so that a solver of linear arithmetic takes each product for a variable of its own.

A polynomial is seen as s·L + rest for each of its atoms s. What holds of s·L by the signs of s and L is true of all integers;
nothing is approximated, and what they leave out makes the solver find a model that is none.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from math import prod

from .atoms import Range, Terms
from .formulas import Formula, at_least, at_most, both, equal, implies
from .polynomials import Monomial, Polynomial, variable

MAX_PAIRS = 300
_MAX_PAIRED = 12
_MAX_NUMBERS = 4
_MAX_FACTOR = 1 << 20
_MAX_VALUES = 16
_MAX_END = 1 << 30
"""Largest end of a range that is said of products: 2^30 programs and sizes are more than there are, and types go beyond."""

Values = MutableMapping[Monomial, int]
"""Numbers of atoms and of products, which are variables; a product that is missing is the product of its atoms."""


class Signs:
    """What the signs of two integers say of their product.

    Attributes:
        monomials: the products in it.
    """

    __slots__ = ("factor", "monomials", "other", "product")

    def __init__(self, factor: Polynomial, other: Polynomial) -> None:
        """Starts with the two."""
        self.factor, self.other, self.product = factor, other, factor * other
        self.monomials = _products(self.product) | _products(other)

    def wrong(self, values: Values) -> list[int]:
        """Returns which of the lemmas numbers contradict."""
        one, two, product = number_of(self.factor, values), number_of(self.other, values), number_of(self.product, values)
        if one == 0 or two == 0:
            return [] if product == 0 else [0] if two == 0 else [1]
        if (one < 0) != (two < 0):
            product = -product
        first = 2 + 4 * (one < 0) + 2 * (two < 0)
        return [first + number for number, least in enumerate((abs(one), abs(two))) if product < least]

    def lemma(self, number: int) -> Formula:
        """Returns one of the lemmas."""
        factor, other, product = self.factor, self.other, self.product
        if number < 2:
            return implies(equal(factor if number else other, 0), equal(product, 0))
        # Either side as it is and with its sign turned.
        is_turned, rest_is_turned, is_second = (number - 2) // 4, (number - 2) // 2 % 2, number % 2
        s, rest = -factor if is_turned else factor, -other if rest_is_turned else other
        value = product if is_turned == rest_is_turned else -product
        if is_second:  # s >= 1 and rest >= 0 give s·rest >= rest
            return implies(both(at_least(s, 1), at_least(rest, 0)), at_least(value, rest))
        return implies(both(at_least(s, 0), at_least(rest, 1)), at_least(value, s))  # and the other way round

    def numbers(self) -> Iterable[int]:
        """Returns the numbers of the lemmas."""
        return range(10)


class Limits:
    """What the limits of an integer say of its product with another one.

    0 <= s <= 3000 and L >= 0 give s·L <= 3000·L, which is linear.

    Attributes:
        monomials: the products in it.
    """

    __slots__ = ("ends", "factor", "monomials", "other", "product")

    def __init__(self, factor: Polynomial, other: Polynomial, ends: Range) -> None:
        """Starts with the two. ends: between which numbers the factor is."""
        self.factor, self.other, self.product, self.ends = factor, other, factor * other, ends
        self.monomials = _products(self.product) | _products(other)

    def wrong(self, values: Values) -> list[int]:
        """Returns which of the lemmas numbers contradict."""
        two, product = number_of(self.other, values), number_of(self.product, values)
        found = []
        for number, end in enumerate(self.ends):
            if end is not None and self._is_said(number):
                bound, is_low = end * two, number == 0
                if product < bound and (two >= 0 if is_low else two <= 0):
                    found.append(2 * number + (not is_low))
                if product > bound and (two <= 0 if is_low else two >= 0):
                    found.append(2 * number + is_low)
        return found

    def lemma(self, number: int) -> Formula:
        """Returns one of the lemmas."""
        end, is_negative = self.ends[number // 2], number % 2
        assert end is not None
        above, below = at_most(self.product, self.other * end), at_least(self.product, self.other * end)
        if is_negative:
            return implies(at_most(self.other, 0), above if number < 2 else below)
        return implies(at_least(self.other, 0), below if number < 2 else above)

    def numbers(self) -> Iterable[int]:
        """Returns the numbers of the lemmas."""
        return [2 * number + turned for number in range(2) if self._is_said(number) for turned in range(2)]

    def _is_said(self, number: int) -> bool:
        end = self.ends[number]
        return end is not None and abs(end) <= _MAX_END and not (number == 0 and end in (0, 1))  # signs say these already


class Multiples:
    """What a number that an integer is beside says of its product with another one.

    L >= 7 and s >= 0 give s·L >= 7·s, which is linear. Of all numbers that L could be these are said of what a solver found.

    Attributes:
        monomials: the products in it.
    """

    __slots__ = ("factor", "monomials", "other", "product", "times")

    def __init__(self, factor: Polynomial, other: Polynomial, times: int) -> None:
        """Starts with the two. times: the number that `other` is compared with."""
        self.factor, self.other, self.product, self.times = factor, other, factor * other, times
        self.monomials = _products(self.product) | _products(other) | _products(factor)

    def wrong(self, values: Values) -> list[int]:
        """Returns which of the lemmas numbers contradict."""
        one, two, product = number_of(self.factor, values), number_of(self.other, values), number_of(self.product, values)
        difference = product - one * self.times
        found = []
        for number in self.numbers():
            is_negative, is_below = number // 2, number % 2
            holds = (one <= 0 if is_negative else one >= 0) and (two <= self.times if is_below else two >= self.times)
            if holds and (difference > 0 if is_negative != is_below else difference < 0):
                found.append(number)
        return found

    def lemma(self, number: int) -> Formula:
        """Returns one of the lemmas."""
        is_negative, is_below = number // 2, number % 2
        sign = at_most(self.factor, 0) if is_negative else at_least(self.factor, 0)
        side = at_most(self.other, self.times) if is_below else at_least(self.other, self.times)
        relation = at_most if is_negative != is_below else at_least
        return implies(both(sign, side), relation(self.product, self.factor * self.times))

    def numbers(self) -> Iterable[int]:
        """Returns the numbers of the lemmas."""
        return range(4)


def multiples(pair: Signs, values: Values) -> Multiples | None:
    """Returns what is to be said of a pair whose product is not what numbers say; None if it is, or they are too large."""
    one, two, product = number_of(pair.factor, values), number_of(pair.other, values), number_of(pair.product, values)
    return None if product == one * two or abs(two) > _MAX_FACTOR else Multiples(pair.factor, pair.other, two)


class FewValues:
    """What a product is for each value of a factor that has few.

    Attributes:
        monomials: the products in it.
    """

    __slots__ = ("atom", "ends", "monomials", "rest", "whole")

    def __init__(self, whole: Monomial, position: int, ends: tuple[int, int]) -> None:
        """Starts with a product. position: of the factor that has few values, from and to `ends`."""
        self.whole, self.atom, self.ends = whole, whole[position], ends
        self.rest = whole[:position] + whole[position + 1 :]
        self.monomials = frozenset([each for each in (self.whole, self.rest) if len(each) > 1])

    def wrong(self, values: Values) -> list[int]:
        """Returns which of the lemmas numbers contradict."""
        value = value_of((self.atom,), values)
        if value_of(self.whole, values) == value * value_of(self.rest, values):
            return []
        return list(self.numbers())  # one after the other would take as many questions

    def lemma(self, number: int) -> Formula:
        """Returns one of the lemmas."""
        value = self.ends[0] + number
        rest, whole = Polynomial([(self.rest, 1)]), Polynomial([(self.whole, 1)])
        return implies(equal(variable(self.atom), value), equal(whole, rest * value))

    def numbers(self) -> Iterable[int]:
        """Returns the numbers of the lemmas."""
        return range(self.ends[1] - self.ends[0] + 1)


Lemma = Signs | Limits | Multiples | FewValues


def few_values(terms: Terms, monomial: Monomial) -> FewValues | None:
    """Returns what a product is by a factor that has few values; None if there is none."""
    for position, atom in enumerate(monomial):
        low, high = terms.atoms[atom].low, terms.atoms[atom].high
        if low is not None and high is not None and high - low < _MAX_VALUES:
            return FewValues(monomial, position, (low, high))
    return None


def _products(polynomial: Polynomial) -> frozenset[Monomial]:
    return frozenset([monomial for monomial, _ in polynomial.terms if len(monomial) > 1])


def value_of(monomial: Monomial, values: Values) -> int:
    """Returns the number that values give a monomial, which is a variable of its own if they have it."""
    found = values.get(monomial)
    if found is None:
        found = values[monomial] = prod([values[(atom,)] for atom in monomial])
    return found


def number_of(polynomial: Polynomial, values: Values) -> int:
    """Returns the number that a polynomial is for values of its monomials."""
    found = 0
    for monomial, factor in polynomial.terms:
        value = values.get(monomial)
        found += factor * (value_of(monomial, values) if value is None else value)
    return found


def products_in(polynomials: Iterable[Polynomial]) -> list[tuple[Polynomial, Polynomial]]:
    """Returns pairs of factors whose lemmas say what is needed of the products in polynomials, recursively.

    Besides each atom with what it is multiplied by in one of the polynomials, they are the sums and differences of what it is
    multiplied by in two of them.
    """
    # Offsets count bytes and assumptions elements: what s is multiplied by is compared without common factors, too.
    given = list(dict.fromkeys(polynomials))
    waiting = [_undivided(polynomial) for polynomial in given]
    seen: set[Polynomial] = set()
    groups: dict[int, list[Polynomial]] = {}
    found: dict[tuple[int, Polynomial], None] = {}
    while waiting and len(found) < MAX_PAIRS:
        polynomial = waiting.pop()
        if polynomial in seen or polynomial.is_linear:
            continue
        seen.add(polynomial)
        for atom in sorted({each for monomial, _ in polynomial if len(monomial) > 1 for each in monomial}):
            group = polynomial.group(atom)
            if group.number is not None:
                continue
            waiting.append(group)
            own = groups.setdefault(atom, [])
            if group in own:
                continue
            beside = own[-_MAX_PAIRED:]
            for each in (group, *[group - other for other in beside], *[group + other for other in beside]):
                if each.number is None:
                    found[atom, _reduced(each)] = None
            own.append(group)
    multiplied: dict[int, dict[Polynomial, None]] = {}
    factors: dict[int, set[int]] = {}
    for polynomial in given:
        for monomial, factor in polynomial:
            if len(monomial) == 1:
                factors.setdefault(monomial[0], set()).add(factor)
        for atom in {each for monomial, _ in polynomial if len(monomial) > 1 for each in monomial}:
            multiplied.setdefault(atom, {})[polynomial.group(atom)] = None
    for atom in groups:  # s * 16 beside s * n: what n - 16 says
        own, numbers = list(multiplied.get(atom, ())), factors.get(atom, set())
        for number in sorted(each for each in numbers if 1 < abs(each) < _MAX_FACTOR)[:_MAX_NUMBERS]:
            for other in own[:_MAX_NUMBERS]:
                found[atom, _reduced(_positive(other) - abs(number))] = None
    return [(variable(atom), group) for atom, group in found]


def _undivided(polynomial: Polynomial) -> Polynomial:
    """Returns a polynomial without the common divisor of its coefficients, and without the rest that its constant leaves."""
    divisor = polynomial.divisor
    return polynomial.split(divisor)[0] if divisor > 1 else polynomial


def _positive(group: Polynomial) -> Polynomial:
    return group if group.terms[-1][1] > 0 else -group


def _reduced(group: Polynomial) -> Polynomial:
    """Returns a polynomial without the common divisor of its coefficients, and with a positive last one."""
    whole, rest = group.split(group.divisor)
    reduced = group if rest.terms else whole
    return _positive(reduced)


__all__ = ["MAX_PAIRS", "FewValues", "Lemma", "Limits", "Multiples", "Signs", "Values", "few_values",
    "multiples", "number_of", "products_in", "value_of"]
