"""Copies terms for another iteration of a loop: every unknown that may differ there is another one, with its own facts."""

from __future__ import annotations

from collections.abc import Hashable

from .atoms import Terms
from .formulas import Flag, Formula, mapped
from .polynomials import Polynomial


class Renaming:
    """What the terms of one iteration of a loop are in another one.

    The copies may differ between iterations as what they are copies of, so that copies of copies are again others.
    """

    def __init__(self, terms: Terms, loop: Hashable, tag: Hashable) -> None:
        """Starts with nothing copied. tag: tells copies for one loop apart."""
        self._terms = terms
        self._loop = loop
        self._tag = tag
        self._values: dict[int, Polynomial] = {}

    def take(self, atom: int, value: Polynomial) -> None:
        """States what stands for an atom. Nothing that is defined by it may have been copied before."""
        self._values[atom] = value

    def polynomial(self, polynomial: Polynomial) -> Polynomial:
        """Returns the polynomial in the other iteration."""
        return polynomial.mapped(self._atom)

    def formula(self, formula: Formula) -> Formula:
        """Returns the formula in the other iteration."""
        return mapped(formula, self.polynomial, self._flag)

    def _atom(self, number: int) -> Polynomial:
        value = self._values.get(number)
        if value is None:
            own = self._terms.atoms[number]
            if self._loop not in own.depends:
                value = Polynomial([((number,), 1)])
            else:
                key = ("renamed", self._loop, self._tag, number)
                value = self._terms.atom(
                    key, f"{own.name}'", own.low, own.high, own.depends,
                    lambda made: [self.formula(fact) for fact in self._with(number, made, own.facts)],
                )  # fmt: skip
            self._values[number] = value
        return value

    def _with(self, number: int, made: Polynomial, facts: tuple[Formula, ...]) -> tuple[Formula, ...]:
        """Returns facts, in which the atom itself is its copy from now on."""
        self._values[number] = made
        return facts

    def _flag(self, number: int) -> Formula:
        terms = self._terms
        depends = terms.flag_depends(number)
        if self._loop not in depends:
            return Flag(number)
        key = ("renamed", self._loop, self._tag, number)
        name = f"{terms.flag_names[number]}'"
        return Flag(terms.flag(key, name, depends, lambda made: [self.formula(fact) for fact in terms.flag_facts(number)]))


__all__ = ["Renaming"]
