"""Defines what the evaluator makes of an SSA value in one lane: an integer, a condition, a pointer, or nothing known."""

from __future__ import annotations

from typing import TypeAlias

from ....promotion.dataclass import dataclass
from ...integers import signed
from ..terms.formulas import Formula
from ..terms.polynomials import Polynomial, constant


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer of `width` bits, which is congruent to `value` modulo 2 ** width, in every run that the context allows.

    Attributes:
        is_number: whether `value` is the signed number itself, wherever the value is computed.
    """

    value: Polynomial
    width: int
    is_number: bool = False


def integer(value: Polynomial, width: int) -> Integer:
    """Returns an integer; a constant is wrapped to its width."""
    number = value.number
    return Integer(value if number is None else constant(signed(number, width)), width)


@dataclass(frozen=True, slots=True)
class Condition:
    """An i1, which is true where `formula` holds."""

    formula: Formula


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address: `offset` bytes, modulo 2 ** 64, behind the parameter at position `base`."""

    base: int
    offset: Polynomial


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


__all__ = ["Condition", "Contents", "Integer", "Pointer", "Unknown", "Value", "integer"]
