"""Finds smaller cases that fail in the same way, by delta debugging over a list (the choices of a generator,
the lines of a text)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Budget:
    """The time and the number of tries for shrinking."""

    def __init__(self, seconds: float, tries: int) -> None:
        self.end = time.monotonic() + seconds
        self.tries = tries

    def spend(self) -> bool:
        self.tries -= 1
        return self.tries >= 0 and time.monotonic() < self.end


def shorter(items: Sequence[T], fails: Callable[[list[T]], bool], budget: Budget) -> list[T]:
    """Returns the list without items that `fails` does not need, found by leaving out parts, large ones first."""
    current = list(items)
    size = max(1, len(current) // 2)
    while size and current:
        at, removed = len(current), False
        while at > 0:
            low = max(0, at - size)
            candidate = current[:low] + current[at:]
            if not budget.spend():
                return current
            if fails(candidate):
                current, removed = candidate, True
            at = low
        if not removed or size > 1:
            size //= 2
    return current


def lower(numbers: Sequence[int], fails: Callable[[list[int]], bool], budget: Budget) -> list[int]:
    """Returns the list with each number made as small as possible by itself."""
    current = list(numbers)
    for at in range(len(current)):
        if not current[at]:
            continue
        low, high = 0, current[at]
        if not budget.spend():
            return current
        if fails([*current[:at], 0, *current[at + 1 :]]):
            current[at] = 0
            continue
        while high - low > 1 and budget.spend():  # low does not fail, high does
            middle = (low + high) // 2
            if fails([*current[:at], middle, *current[at + 1 :]]):
                high = middle
            else:
                low = middle
        current[at] = high
    return current


def shrunk(record: Sequence[int], fails: Callable[[list[int]], bool], budget: Budget) -> list[int]:
    """Returns the shortest and then lowest list of choices that was found to fail."""
    current = list(record)
    while True:
        before = list(current)
        current = lower(shorter(current, fails, budget), fails, budget)
        if current == before or not budget.spend():
            return current
