"""Defines polynomials with integer coefficients over numbered atoms, in normal form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import gcd, prod

Monomial = tuple[int, ...]
"""The numbers of its atoms, sorted; an atom stands as often as its power. () is the constant."""

MAX_MONOMIALS = 256
"""Most monomials of one polynomial: products of longer ones are refused."""


MAX_DEGREE = 8
"""Most factors of one monomial: chains of squares double them with each operation."""


class TooLarge(Exception):
    """Raised when a term outgrows its limits; whoever asked for it knows nothing of the value."""


class Polynomial:
    """An immutable sum of monomials. Equal polynomials are equal objects of Python, so that they can be keys."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Iterable[tuple[Monomial, int]]) -> None:
        self.terms: tuple[tuple[Monomial, int], ...] = tuple(sorted(terms))
        self._hash = hash(self.terms)

    @staticmethod
    def _sorted(terms: Iterable[tuple[Monomial, int]]) -> Polynomial:
        """Returns the polynomial of monomials that are in order, as those of another one are."""
        made = object.__new__(Polynomial)
        made.terms = tuple(terms)
        made._hash = hash(made.terms)
        return made

    @staticmethod
    def of(coefficients: Mapping[Monomial, int]) -> Polynomial:
        """Returns the polynomial with these coefficients, of which some may be 0."""
        if len(coefficients) > MAX_MONOMIALS:
            raise TooLarge
        return Polynomial([(monomial, factor) for monomial, factor in coefficients.items() if factor])

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.terms == other.terms

    def __repr__(self) -> str:
        return self.text(lambda atom: f"a{atom}")

    def __iter__(self) -> Iterator[tuple[Monomial, int]]:
        return iter(self.terms)

    def __add__(self, other: Polynomial | int) -> Polynomial:
        found = dict(self.terms)
        for monomial, factor in (other if isinstance(other, Polynomial) else constant(other)).terms:
            found[monomial] = found.get(monomial, 0) + factor
        return Polynomial.of(found)

    def __neg__(self) -> Polynomial:
        return Polynomial._sorted([(monomial, -factor) for monomial, factor in self.terms])

    def __sub__(self, other: Polynomial | int) -> Polynomial:
        if isinstance(other, int):
            return self + -other
        found = dict(self.terms)
        for monomial, factor in other.terms:
            found[monomial] = found.get(monomial, 0) - factor
        return Polynomial.of(found)

    def __mul__(self, other: Polynomial | int) -> Polynomial:
        if isinstance(other, int):
            return Polynomial._sorted([(monomial, factor * other) for monomial, factor in self.terms]) if other else ZERO
        found: dict[Monomial, int] = {}
        if len(self.terms) * len(other.terms) > 16 * MAX_MONOMIALS:
            raise TooLarge
        for one, factor in self.terms:
            for two, times in other.terms:
                monomial = tuple(sorted(one + two)) if one and two else one or two
                if len(monomial) > MAX_DEGREE:
                    raise TooLarge
                found[monomial] = found.get(monomial, 0) + factor * times
        return Polynomial.of(found)

    @property
    def number(self) -> int | None:
        """The value of a constant polynomial; None if it has atoms."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def value(self, numbers: Mapping[int, int]) -> int:
        """Returns the number that the polynomial is for these numbers of its atoms."""
        return sum(factor * prod([numbers[atom] for atom in monomial]) for monomial, factor in self.terms)

    @property
    def constant_part(self) -> int:
        return self.terms[0][1] if self.terms and not self.terms[0][0] else 0

    @property
    def atoms(self) -> frozenset[int]:
        """The numbers of all its atoms."""
        return frozenset(atom for monomial, _ in self.terms for atom in monomial)

    @property
    def is_linear(self) -> bool:
        return all(len(monomial) < 2 for monomial, _ in self.terms)

    @property
    def divisor(self) -> int:
        """The greatest common divisor of the coefficients, without the constant; 0 if there are none."""
        found = 0
        for monomial, factor in self.terms:
            if monomial:
                found = gcd(found, factor)
        return found

    def split(self, divisor: int) -> tuple[Polynomial, Polynomial]:
        """Returns (quotient, rest) by coefficients: self = divisor * quotient + rest, coefficients of rest from 0 on."""
        whole, rest = [], []
        for monomial, factor in self.terms:
            quotient, left = divmod(factor, divisor)
            if quotient:
                whole.append((monomial, quotient))
            if left:
                rest.append((monomial, left))
        return Polynomial._sorted(whole), Polynomial._sorted(rest)

    def exact_quotient(self, divisor: Polynomial) -> Polynomial | None:
        """Returns self / divisor if that is a polynomial with integer coefficients, else None."""
        if not divisor.terms:
            return None
        lead, factor = max(divisor.terms, key=_degree_first)
        quotient, rest = ZERO, self
        while rest.terms:  # its largest monomial is less each time, in an order that products keep
            monomial, times = max(rest.terms, key=_degree_first)
            part = _without(monomial, lead)
            if part is None or times % factor:
                return None
            step = Polynomial([(part, times // factor)])
            quotient, rest = quotient + step, rest - step * divisor
        return quotient

    def group(self, atom: int) -> Polynomial:
        """Returns what the atom is multiplied by, once, in the monomials that have it."""
        found: dict[Monomial, int] = {}
        for monomial, factor in self.terms:
            if atom in monomial:
                rest = list(monomial)
                rest.remove(atom)
                found[tuple(rest)] = found.get(tuple(rest), 0) + factor
        return Polynomial.of(found)

    def substituted(self, atom: int, value: Polynomial) -> Polynomial:
        """Returns the polynomial with a value in place of an atom."""
        if atom not in self.atoms:
            return self
        found = ZERO
        for monomial, factor in self.terms:
            product = constant(factor)
            for each in monomial:
                product = product * (value if each == atom else variable(each))
            found = found + product
        return found

    def mapped(self, value: Callable[[int], Polynomial]) -> Polynomial:
        """Returns the polynomial with a value in place of each atom."""
        values = {atom: value(atom) for atom in sorted(self.atoms)}
        if all(values[atom] == variable(atom) for atom in values):
            return self
        found = ZERO
        for monomial, factor in self.terms:
            product = constant(factor)
            for each in monomial:
                product = product * values[each]
            found = found + product
        return found

    def text(self, name: Callable[[int], str]) -> str:
        """Returns the polynomial as users write it, with these names of its atoms."""
        parts = []
        for monomial, factor in sorted(self.terms, key=lambda term: (-len(term[0]), term[0])):
            factors = [name(atom) for atom in monomial]
            if abs(factor) != 1 or not factors:
                factors.insert(0, str(abs(factor)))
            parts.append(f"{'-' if factor < 0 else '+'} {'*'.join(factors)}")
        found = " ".join(parts) or "0"
        return found.removeprefix("+ ").replace("- ", "-", 1) if found.startswith("-") else found.removeprefix("+ ")


def _degree_first(term: tuple[Monomial, int]) -> tuple[int, Monomial]:
    return len(term[0]), term[0]


def _without(monomial: Monomial, part: Monomial) -> Monomial | None:
    """Returns a monomial divided by another one; None if it is no multiple of that."""
    left = list(monomial)
    for atom in part:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def constant(value: int) -> Polynomial:
    """Returns the polynomial that is this number."""
    return Polynomial([((), value)]) if value else ZERO


def variable(atom: int) -> Polynomial:
    """Returns the polynomial that is this atom."""
    return Polynomial([((atom,), 1)])


ZERO = Polynomial([])
ONE = constant(1)


__all__ = ["MAX_MONOMIALS", "ONE", "ZERO", "Monomial", "Polynomial", "TooLarge", "constant", "variable"]
