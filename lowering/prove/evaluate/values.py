"""Defines what the evaluator makes of an SSA value in one lane: an integer, a condition, a pointer, or nothing known."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ....promotion.dataclass import dataclass
from ...integers import signed
from ..terms.formulas import Formula, at_least, at_most, both, either, implies, less
from ..terms.orders import Order
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
    """An address: `offset` bytes, modulo 2 ** 64, behind the parameter at position `base`.

    A negative base is none of these: see `Terms.target`.
    """

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
        order: how they are to each other; None if nothing is said of that.
        points: for an element that is an address, by its offset and where it is loaded, the bytes of the array that it is of.
    """

    low: Polynomial
    high: Polynomial
    bits: int
    order: Order | None = None
    points: Callable[[Polynomial, Formula], Polynomial] | None = None

    def facts(self, made: Polynomial, live: Formula) -> Formula:
        """Returns what is known of a number of this width that is an element where `live` holds.

        The array may hold unsigned numbers: then its user speaks of those. Each condition has a number of this width that
        satisfies it, as facts exclude no run: that there is one in the range is a condition, too.
        """
        half, all_ = 1 << (self.bits - 1), 1 << self.bits
        inside = both(at_least(made, self.low), at_most(made, self.high))
        unsigned = both(less(made, 0), at_least(made + all_, self.low), at_most(made + all_, self.high))
        some = both(at_most(self.low, self.high), at_most(self.low, all_ - 1), at_least(self.high, -half))
        return implies(both(live, some), either(inside, unsigned))

    def is_element(self, offset: Polynomial, bits: int) -> bool:
        """Returns whether a number of this width, as many bytes behind the array's beginning, is one of its elements."""
        size = self.bits // 8
        return bits == self.bits and offset.divisor % size == 0 and offset.constant_part % size == 0


Value: TypeAlias = Integer | Condition | Pointer | Unknown


__all__ = ["Condition", "Contents", "Integer", "Pointer", "Unknown", "Value", "integer"]
