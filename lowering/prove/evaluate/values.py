"""Defines what the evaluator makes of an SSA value in one lane: an integer, a condition, a pointer, or nothing known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from typing import TypeAlias

from xdsl.ir import Operation

from ....promotion.dataclass import dataclass
from ...integers import signed
from ..terms.formulas import Formula, both
from ..terms.polynomials import Polynomial, TooLarge, constant

MAX_NEEDS = 400


@dataclass(frozen=True, slots=True)
class Need:
    """What must be shown before a term stands for the value of an operation: that an integer fits its width.

    Only what looks at more than the low bits has needs: what is only added and multiplied on may wrap, as the low bits of the
    result are those of the exact one.

    Attributes:
        value: the exact integer.
        width: in bits, of a signed number.
        under: conditions under which the operation matters, besides those of whoever asks.
        op: the operation that looks at the number.
        what: the need in words, if it is none that the number fits.
    """

    value: Polynomial
    width: int
    under: Formula
    op: Operation
    what: str = ""


@dataclass(frozen=True, slots=True)
class Reads:
    """A promise about contents of an array that was used: the load must be inside the array."""

    op: Operation


Needs: TypeAlias = tuple[Need | Reads, ...]


def merged(*needs: Iterable[Need | Reads]) -> Needs:
    """Returns all needs, each once, in order."""
    found = tuple(dict.fromkeys(chain(*needs)))
    if len(found) > MAX_NEEDS:
        raise TooLarge
    return found


def under(condition: Formula, needs: Needs) -> Needs:
    """Returns needs that matter only where a condition holds."""
    return tuple([replace(each, under=both(each.under, condition)) if isinstance(each, Need) else each for each in needs])


def of_ways(*ways: tuple[Formula, Needs]) -> Needs:
    """Returns the needs of a value that is one of several, each by a condition.

    What all of them need is needed whichever it is: with conditions it would be there twice, and four times a choice later.
    """
    shared = frozenset(ways[0][1]).intersection(*[needs for _, needs in ways[1:]]) if ways else frozenset()
    return merged(
        [each for each in ways[0][1] if each in shared] if ways else (),
        *[under(condition, tuple([each for each in needs if each not in shared])) for condition, needs in ways],
    )


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer of `width` bits, which is congruent to `value` modulo 2 ** width."""

    value: Polynomial
    width: int
    needs: Needs = ()


def integer(value: Polynomial, width: int, needs: Needs = ()) -> Integer:
    """Returns an integer; a constant is wrapped to its width."""
    number = value.number
    return Integer(value if number is None else constant(signed(number, width)), width, needs)


@dataclass(frozen=True, slots=True)
class Condition:
    """An i1."""

    formula: Formula
    needs: Needs = ()


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address: `offset` bytes, modulo 2 ** 64, behind the parameter at position `base`."""

    base: int
    offset: Polynomial
    needs: Needs = ()


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that is not modelled. reason: why, as far as anybody asks."""

    reason: str


@dataclass(frozen=True, slots=True)
class Contents:
    """What all elements of an array of integers are between.

    Attributes:
        bits: the width of an element.
    """

    low: Polynomial
    high: Polynomial
    bits: int

    def is_element(self, offset: Polynomial, bits: int) -> bool:
        """Returns whether a number of this width, as many bytes behind the array's beginning, is one of its elements."""
        size = self.bits // 8
        return bits == self.bits and offset.divisor % size == 0 and offset.constant_part % size == 0


Value: TypeAlias = Integer | Condition | Pointer | Unknown


__all__ = [
    "Condition", "Contents", "Integer", "Need", "Needs", "Pointer", "Reads", "Unknown", "Value", "integer", "merged", "of_ways",
    "under",
]  # fmt: skip
