"""States what an order of the elements of an array says of two numbers that were loaded from it.

Such a statement is an assumption of the user about what an array holds, and no fact that defines an atom. It excludes no run in
which that array has the order: a load that the run executes yields the element at its offset, and for every other one there
is a number too, as a sorted array can be continued beyond its ends, and of places outside nothing is said of distinct elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ....promotion.dataclass import dataclass
from .counts import Counted
from .formulas import Formula, at_least, at_most, both, either, equal, implies, less, negated, within
from .polynomials import Polynomial, variable

MAX_ELEMENTS = 8
"""Most elements of one array of which pairs are looked at in one question."""


@dataclass(frozen=True, slots=True)
class Order:
    """How the elements of an array are to each other.

    Attributes:
        is_sorted: none is less than one before it, as signed numbers or as unsigned ones.
        is_distinct: of the first `extent` ones no two are equal.
        size: bytes of an element.
    """

    is_sorted: bool
    is_distinct: bool
    size: int
    extent: Polynomial


@dataclass(frozen=True, slots=True)
class Element:
    """A loaded number.

    Attributes:
        array: the parameter's position.
        offset: of which its address is congruent to the sum with the array's, modulo 2 ** 64; a multiple of the size.
        live: where it is an element at all.
    """

    array: int
    offset: Polynomial
    live: Formula
    order: Order


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a number is that memory holds, or that says where.

    Attributes:
        array: the position of the parameter of whose array it is an element; None if it is none that launches could fill.
        element: the element that it is, of an array whose elements have an order.
        target: the base of pointers to the array whose address it is.
        counted: what a counter held, or a scan made of a block, that it is.
    """

    array: int | None = None
    element: Element | None = None
    target: int | None = None
    counted: Counted | None = None


def orders(elements: Mapping[int, Element]) -> Iterator[Formula]:
    """Yields what orders say of pairs of loaded numbers. elements: by atom."""
    groups: dict[int, list[int]] = {}
    for atom in sorted(elements):
        groups.setdefault(elements[atom].array, []).append(atom)
    for atoms in groups.values():
        for at, one in enumerate(atoms[:MAX_ELEMENTS]):
            for two in atoms[at + 1 : MAX_ELEMENTS]:
                yield from order_of(variable(one), elements[one], variable(two), elements[two])


def order_of(one: Polynomial, first: Element, two: Polynomial, second: Element) -> Iterator[Formula]:
    """Yields what an order says of two numbers that are loaded from one array."""
    order, x, y = first.order, first.offset, second.offset
    live = both(first.live, second.live)
    # An offset of 64 bits is the number that its term is if that is one of 64 bits.
    half = 1 << 63
    exact = both(live, within(x, -half, half - 1), within(y, -half, half - 1))
    yield implies(both(exact, equal(x, y)), equal(one, two))
    if order.is_sorted:
        yield implies(both(exact, less(x, y)), _at_most(one, two))
        yield implies(both(exact, less(y, x)), _at_most(two, one))
    if order.is_distinct:
        last = (order.extent - 1) * order.size
        inside = both(live, at_least(x, 0), at_most(x, last), at_least(y, 0), at_most(y, last))
        yield implies(both(inside, negated(equal(x, y))), negated(equal(one, two)))


def _at_most(one: Polynomial, two: Polynomial) -> Formula:
    """Returns that a number is not above another one, as signed numbers or as the unsigned ones that their bits are."""
    return either(at_most(one, two), both(at_least(one, 0), less(two, 0)))


__all__ = ["MAX_ELEMENTS", "Element", "Meaning", "Order", "order_of", "orders"]
