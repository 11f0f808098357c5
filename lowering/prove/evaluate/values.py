"""Defines what the evaluator makes of an SSA value in one lane: an integer, a condition, a pointer, or nothing known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from typing import TypeAlias

from xdsl.ir import Operation

from ....promotion.dataclass import dataclass
from ...integers import signed
from ..terms.formulas import Formula, both, substituted
from ..terms.polynomials import Polynomial, TooLarge, constant

MAX_NEEDS = 400


@dataclass(frozen=True, slots=True)
class Need:
    """What must be shown before a term stands for the value of an operation: that an integer fits its width.

    Attributes:
        value: the exact integer.
        width: in bits, of a signed number.
        is_observed: whether something looks at more than the low bits. What is only added and multiplied on may wrap, as the
            low bits of the result are those of the exact one.
        under: conditions under which the operation matters, besides those of whoever asks.
        op: the operation whose result it is.
    """

    value: Polynomial
    width: int
    is_observed: bool
    under: Formula
    op: Operation


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


def replaced(needs: Needs, atom: int, value: Polynomial) -> Needs:
    """Returns needs with a value in place of an atom."""
    return tuple(
        [replace(each, value=each.value.substituted(atom, value), under=substituted(each.under, atom, value))
         if isinstance(each, Need) else each for each in needs]
    )  # fmt: skip


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


Value: TypeAlias = Integer | Condition | Pointer | Unknown


__all__ = [
    "Condition", "Integer", "Need", "Needs", "Pointer", "Reads", "Unknown", "Value", "integer", "merged", "replaced", "under",
]  # fmt: skip
