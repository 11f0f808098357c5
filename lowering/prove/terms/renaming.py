"""Copies terms for another program, lane or iteration: each unknown that may differ there is another one, with own facts."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from .atoms import Terms
from .counts import Counted, Prefix, Slot
from .formulas import Flag, Formula, mapped
from .orders import Element, Meaning
from .polynomials import Polynomial


class Renaming:
    """What the terms of one program are in another one, or those of one lane, or iteration, in another one.

    Every atom that may depend on what is renamed is another one there, with the same facts about the others' copies; all else
    is the same number. Two runs of one function share nothing but their sizes, so that all that is said of one program by its
    terms is said of any other by their copies.
    """

    def __init__(self, terms: Terms, *of: Hashable, same: Iterable[int] = ()) -> None:
        """Starts with nothing copied.

        Args:
            of: PROGRAM, or LANE, or that and loops whose iteration is another one, too.
            same: atoms that are one number in both runs. Their facts about the other run are not said by the copies.
        """
        self._terms = terms
        self._of = frozenset(of)
        self._same = frozenset(same)
        self._values: dict[int, Polynomial] = {}
        self._formulas: dict[Formula, Formula] = {}

    def polynomial(self, polynomial: Polynomial) -> Polynomial:
        """Returns the polynomial in the other run."""
        return polynomial.mapped(self._atom)

    def formula(self, formula: Formula) -> Formula:
        """Returns the formula in the other run."""
        found = self._formulas.get(formula)
        if found is None:
            found = self._formulas[formula] = mapped(formula, self.polynomial, self._flag)
        return found

    def _atom(self, number: int) -> Polynomial:
        value = self._values.get(number)
        if value is None:
            own = self._terms.atoms[number]
            if self._of.isdisjoint(own.depends) or number in self._same:
                value = Polynomial([((number,), 1)])
            else:
                value = self._terms.atom(
                    ("renamed", self._of, number, self._same), f"{own.name}'", own.low, own.high, own.depends,
                    lambda made: [self.formula(fact) for fact in self._with(number, made, own.facts)],
                    self._meaning(own.meaning),
                )  # fmt: skip
            self._values[number] = value
        return value

    def _meaning(self, own: Meaning | None) -> Meaning | None:
        """Returns which element a copy is: the array, with its order, is the same for all programs and lanes."""
        element = None if own is None else own.element
        counted = None if own is None else own.counted
        if element is not None:
            element = Element(element.array, self.polynomial(element.offset), self.formula(element.live), element.order)
        if counted is not None:
            counted = self._counted(counted)
        return None if element is None and counted is None else Meaning(element=element, counted=counted)

    def _counted(self, own: Counted) -> Counted:
        of, live = self.polynomial, self.formula(own.live)
        if isinstance(own, Slot):
            return Slot(own.counter, of(own.amount), live, tuple(map(of, own.program)))
        return Prefix(own.scan, of(own.lane), of(own.value), of(own.total), live, tuple(map(of, own.run)))

    def _with(self, number: int, made: Polynomial, facts: tuple[Formula, ...]) -> tuple[Formula, ...]:
        """Returns facts, in which the atom itself is its copy from now on."""
        self._values[number] = made
        return facts

    def _flag(self, number: int) -> Formula:
        terms = self._terms
        depends = terms.flag_depends(number)
        if self._of.isdisjoint(depends):
            return Flag(number)
        key = ("renamed", self._of, number, self._same)
        name = f"{terms.flag_names[number]}'"
        return Flag(terms.flag(key, name, depends, lambda made: [self.formula(fact) for fact in terms.flag_facts(number)]))


__all__ = ["Renaming"]
