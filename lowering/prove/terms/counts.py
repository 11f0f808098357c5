"""States what is true of numbers that counters return, and of the places that a scan gives lanes.

As orders do, these statements relate two numbers, and so are no facts that define either: they are added to each question in
which both are. They are true of every two executions, and for any amounts that are added there are numbers that satisfy them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from ....promotion.dataclass import dataclass
from .formulas import Formula, at_least, at_most, both, either, equal, implies, less, negated
from .polynomials import Polynomial, variable

MAX_COUNTED = 8
"""Most numbers of one counter, or of one scan, of which pairs are looked at in one question."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A number that a counter held when an amount was added to it, of which no sum wraps.

    Attributes:
        counter: tells counters apart.
        amount: what was added, 0 or more.
        live: where it was.
        program: the indices of the program, which adds once.
    """

    counter: int
    amount: Polynomial
    live: Formula
    program: tuple[Polynomial, ...]


@dataclass(frozen=True, slots=True)
class Prefix:
    """The sum of the elements of a block up to a lane, of which none is negative and no sum wraps.

    Attributes:
        scan: tells scans apart.
        lane: the last one that is in the sum.
        value: the element there.
        total: the sum of all.
        live: where the scan is done.
        run: the program and the iterations in which it is.
    """

    scan: int
    lane: Polynomial
    value: Polynomial
    total: Polynomial
    live: Formula
    run: tuple[Polynomial, ...]


Counted: TypeAlias = Slot | Prefix


def relations(counted: Mapping[int, Counted]) -> Iterator[Formula]:
    """Yields what is true of numbers and of pairs of them. counted: by atom."""
    groups: dict[tuple[bool, int], list[int]] = {}
    for atom in sorted(counted):
        own = counted[atom]
        group = (True, own.counter) if isinstance(own, Slot) else (False, own.scan)
        groups.setdefault(group, []).append(atom)
    for atoms in groups.values():
        for at, one in enumerate(atoms[:MAX_COUNTED]):
            first = counted[one]
            if isinstance(first, Prefix):
                whole = both(at_least(variable(one), first.value), at_most(variable(one), first.total))
                yield implies(first.live, whole)
            for two in atoms[at + 1 : MAX_COUNTED]:
                second = counted[two]
                if isinstance(first, Slot) and isinstance(second, Slot):
                    yield apart(variable(one), first, variable(two), second)
                elif isinstance(first, Prefix) and isinstance(second, Prefix):
                    yield from rising(variable(one), first, variable(two), second)


def apart(one: Polynomial, first: Slot, two: Polynomial, second: Slot) -> Formula:
    """Returns that of the additions of two programs one found what the other one left, or what came after that."""
    pairs = zip(first.program, second.program, strict=True)
    differs = either(*[negated(equal(own, other)) for own, other in pairs])
    left = either(at_most(one + first.amount, two), at_most(two + second.amount, one))
    return implies(both(first.live, second.live, differs), left)


def rising(one: Polynomial, first: Prefix, two: Polynomial, second: Prefix) -> Iterator[Formula]:
    """Yields that the sum up to the later one of two lanes of a block has the earlier sum, and its own element, in it."""
    same = [equal(own, other) for own, other in zip(first.run, second.run, strict=True)]
    given = both(first.live, second.live, *same)
    yield implies(both(given, less(first.lane, second.lane)), at_most(one + second.value, two))
    yield implies(both(given, less(second.lane, first.lane)), at_most(two + first.value, one))


__all__ = ["MAX_COUNTED", "Counted", "Prefix", "Slot", "apart", "relations", "rising"]
