"""Keeps the numbers that z3 found, which answer other questions that they satisfy as well.

Most questions of a proof that can hold are asked again where a little else is known, under other conditions for example. To try
numbers takes a small part of the time that z3 takes to find them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ....promotion.dataclass import dataclass
from .atoms import Range
from .formulas import AtMost, Both, Either, Equal, Flag, Formula, Not, Truth
from .lemmas import Values, number_of, value_of
from .polynomials import Monomial

_OF_A_CLAIM, _OF_ALL = 6, 16
"""How many models are tried that were found for the same claim, and of the last ones for any."""


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """Numbers with which formulas hold.

    Attributes:
        values: of atoms and of products, which are variables of their own.
        flags: those that are set.
    """

    values: Mapping[Monomial, int]
    flags: frozenset[int]


class Models:
    """The models of a proof, by the claim in whose question each was found."""

    def __init__(self) -> None:
        """Starts with none."""
        self._by_claim: dict[Formula, list[Model]] = {}
        self._last: list[Model] = []

    def add(self, claim: Formula, model: Model) -> None:
        """Keeps a model."""
        self._by_claim.setdefault(claim, []).append(model)
        del self._by_claim[claim][:-_OF_A_CLAIM]
        self._last.append(model)
        del self._last[:-_OF_ALL]

    def satisfying(self, claim: Formula, formulas: Sequence[Formula], ranges: Mapping[Monomial, Range]) -> Iterable[Values]:
        """Yields the numbers with which all formulas hold, those of the same claim first.

        Args:
            claim: the last formula of the question.
            ranges: of all atoms and products in the formulas; atoms that a model does not have are the number next to 0 there.
        """
        own = self._by_claim.get(claim, ())
        for model in dict.fromkeys([*reversed(own), *reversed(self._last)]):
            values = dict(model.values)
            for monomial, (low, high) in ranges.items():
                if len(monomial) == 1 and monomial not in values:
                    values[monomial] = low if low is not None and low > 0 else high if high is not None and high < 0 else 0
            if all(_holds(each, values, model.flags) for each in reversed(formulas)) and all(
                _is_within(value_of(monomial, values), each) for monomial, each in ranges.items()
            ):
                yield values


def _is_within(value: int, ends: Range) -> bool:
    low, high = ends
    return (low is None or value >= low) and (high is None or value <= high)


def _holds(formula: Formula, values: Values, flags: frozenset[int]) -> bool:
    match formula:
        case Truth(value):
            return value
        case AtMost(polynomial):
            return number_of(polynomial, values) <= 0
        case Equal(polynomial):
            return number_of(polynomial, values) == 0
        case Flag(number):
            return number in flags
        case Not(part):
            return not _holds(part, values, flags)
        case Both(parts):
            return all(_holds(part, values, flags) for part in parts)
        case Either(parts):
            return any(_holds(part, values, flags) for part in parts)


__all__ = ["Model", "Models"]
