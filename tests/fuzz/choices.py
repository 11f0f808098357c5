"""Draws the decisions of a generator from a seed, records them as small numbers, and draws them again from a record.

A case is a pure function of the numbers that were drawn, so shorter and smaller records are simpler cases of the same
kind. 0 is always the simplest choice; numbers that a replayed record lacks are 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

MOST = 20_000
"""How many numbers one case may draw."""


class Choices:
    """Draws the decisions of a generator.

    Attributes:
        record: the numbers drawn so far; `Choices(record=…)` draws them again.
    """

    def __init__(self, seed: str = "", record: Iterable[int] | None = None) -> None:
        self._random = Random(seed)
        self._given = None if record is None else list(record)
        self.record: list[int] = []

    def below(self, count: int) -> int:
        """Returns a number from 0 to count - 1."""
        if len(self.record) >= MOST:
            raise RuntimeError(f"a case of more than {MOST} decisions")
        if self._given is None:
            number = self._random.randrange(count)
        else:
            at = len(self.record)
            number = min(self._given[at], count - 1) if at < len(self._given) else 0
        self.record.append(number)
        return number

    def integer(self, low: int, high: int) -> int:
        return low + self.below(high - low + 1)

    def one(self, *options: T) -> T:
        return options[self.below(len(options))]

    def flag(self, of: int = 2) -> bool:
        """Returns True once in `of` times."""
        return self.below(of) == of - 1

    def several(self, options: Sequence[T], low: int, high: int, distinct: bool = False) -> list[T]:
        left = list(options)
        found = []
        for _ in range(min(self.integer(low, high), len(left)) if distinct else self.integer(low, high)):
            at = self.below(len(left))
            found.append(left.pop(at) if distinct else left[at])
        return found

    def order(self, count: int) -> list[int]:
        return self.several(range(count), count, count, distinct=True)

    def weighted(self, options: Iterable[tuple[int, T]]) -> T:
        """Returns one of the options of (weight, option) pairs."""
        pairs = list(options)
        number = self.below(sum(weight for weight, _ in pairs))
        for weight, option in pairs:
            if number < weight:
                return option
            number -= weight
        raise AssertionError

    def seed(self) -> int:
        """Returns a seed for data."""
        return self.below(1 << 30)


Record = list[int]
Draw = Any
"""`Choices`, or an object with the same methods that draws by hypothesis."""
