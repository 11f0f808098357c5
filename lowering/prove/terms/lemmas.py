"""Makes linear facts about products, so that a solver of linear arithmetic takes each product for a variable of its own.

A polynomial is seen as s·L + rest for each of its atoms s. What holds of s·L by the signs of s and L is true of all integers;
nothing is approximated, and what they leave out makes the solver find a model that is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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


def product_lemmas(factor: Polynomial, other: Polynomial) -> list[Formula]:
    """Returns what the signs of two integers say of their product, as far as it is not known by itself."""
    product = factor * other
    found: list[Formula] = [implies(equal(other, 0), equal(product, 0)), implies(equal(factor, 0), equal(product, 0))]
    opposite = -product
    # Either side as it is and with its sign turned, with what says that it is 0 or more, and 1 or more.
    rests = [(rest, at_least(rest, 0), at_least(rest, 1)) for rest in (other, -other)]
    for s in (factor, -factor):
        not_negative, positive = at_least(s, 0), at_least(s, 1)
        for rest, rest_not_negative, rest_positive in rests:
            value = product if (s is factor) == (rest is other) else opposite
            # s >= 0 and rest >= 1 give s·rest >= s; s >= 1 and rest >= 0 give s·rest >= rest.
            found.append(implies(both(not_negative, rest_positive), at_least(value, s)))
            found.append(implies(both(positive, rest_not_negative), at_least(value, rest)))
    return found


def bounded_lemmas(factor: Polynomial, other: Polynomial, limits: Range) -> list[Formula]:
    """Returns what the limits of an integer say of its product with another one.

    limits: between which numbers the factor is. 0 <= s <= 3000 and L >= 0 give s·L <= 3000·L, which is linear.
    """
    low, high = limits
    product = factor * other
    found: list[Formula] = []
    for is_upper, end in ((True, high), (False, low)):
        if end is None or abs(end) > _MAX_END or (not is_upper and end in (0, 1)):  # signs say these already
            continue
        above, below = at_most(product, other * end), at_least(product, other * end)
        found.append(implies(at_least(other, 0), above if is_upper else below))
        found.append(implies(at_most(other, 0), below if is_upper else above))
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
                found[atom, _reduced(other - abs(number))] = None
    return [(variable(atom), group) for atom, group in found]


def _undivided(polynomial: Polynomial) -> Polynomial:
    """Returns a polynomial without the common divisor of its coefficients, and without the rest that its constant leaves."""
    divisor = polynomial.divisor
    return polynomial.split(divisor)[0] if divisor > 1 else polynomial


def _reduced(group: Polynomial) -> Polynomial:
    """Returns a polynomial without the common divisor of its coefficients, and with a positive last one."""
    whole, rest = group.split(group.divisor)
    reduced = group if rest.terms else whole
    return reduced if reduced.terms[-1][1] > 0 else -reduced


def small_factors(terms: Terms, monomial: Monomial) -> Iterator[Formula]:
    """Yields, for a product with a factor that has few values, what the product is for each of them."""
    for position, atom in enumerate(monomial):
        low, high = terms.atoms[atom].low, terms.atoms[atom].high
        if low is None or high is None or high - low >= _MAX_VALUES:
            continue
        rest = Polynomial([(monomial[:position] + monomial[position + 1 :], 1)])
        whole = Polynomial([(monomial, 1)])
        for value in range(low, high + 1):
            yield implies(equal(variable(atom), value), equal(whole, rest * value))
        return


__all__ = ["bounded_lemmas", "product_lemmas", "products_in", "small_factors"]
