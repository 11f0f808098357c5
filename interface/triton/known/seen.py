"""Remembers the memory that addresses of earlier launches led to, as long as what holds it is alive."""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....promotion.arrays import Array
from ....runtime.host.addresses import distinct, mapped
from .holders import FAR_LOOKS, NEAR_LOOKS, Owned, Span, outermost, span_of

_MAX_HOLDERS = 8
"""Holders of the same memory that are remembered before those that are gone are forgotten."""
_FEW = 128
"""Addresses up to which one after the other is looked up."""


class Spans:
    """Memory in order, with what holds it, which is not kept alive.

    None of it lies in another: both first bytes and ends grow.
    """

    def __init__(self, certain: bool = False) -> None:
        """certain: whether what is known is there as long as the object is."""
        self._certain = certain
        self.starts: list[int] = []
        self.ends: list[int] = []
        self._holders: list[list[Callable[[], Any]]] = []

    def replace(self, owned: Sequence[tuple[Span, list[Any]]]) -> None:
        """Forget what was known, and know this."""
        self.starts = [first for (first, _), _ in owned]
        self.ends = [end for (_, end), _ in owned]
        self._holders = [] if self._certain else [_references(holders) for _, holders in owned]

    def add(self, span: Span, holders: list[Any]) -> None:
        """Know one more, in place of what is gone and was there, and of what lies in it."""
        low, high = bisect_right(self.ends, span[0]), bisect_left(self.starts, span[1])
        if high - low == 1 and (self.starts[low], self.ends[low]) == span:
            self._holders[low] = [each for each in self._holders[low] if each() is not None][-_MAX_HOLDERS:]
            self._holders[low] += _references(holders)
            return
        owned: list[Owned] = [(number, self._span(number)) for number in range(low, high) if self._is_there(number)]
        kept = outermost([*owned, (-1, span)])
        former = self._holders
        self._holders[low:high] = [
            _references(holders) if numbers[0] < 0 else former[numbers[0]] for _, numbers in kept
        ]
        self.starts[low:high] = [first for (first, _), _ in kept]
        self.ends[low:high] = [end for (_, end), _ in kept]

    def around(self, addresses: Sequence[int]) -> tuple[list[Span], list[int]]:
        """The memory that these addresses lie in, and those that lie in none that is known and still there."""
        left = []
        there: dict[int, bool] = {}
        ends = self.ends
        for address, number in zip(addresses, positions(self.starts, addresses), strict=True):
            known = False
            if number >= 0 and address < ends[number]:
                found = there.get(number)
                known = there[number] = self._is_there(number) if found is None else found
            if not known:
                left.append(address)
        return [self._span(number) for number, known in there.items() if known], left

    def _span(self, number: int) -> Span:
        return self.starts[number], self.ends[number]

    def all(self) -> list[Span]:
        """All that is known."""
        return list(zip(self.starts, self.ends, strict=True))

    def _is_there(self, number: int) -> bool:
        if self._certain:
            return True
        span = self._span(number)
        return any((holder := each()) is not None and _has(holder, span) for each in self._holders[number])


def _has(holder: Any, span: Span) -> bool:
    """Whether something that had this memory still has it."""
    try:
        storage = holder.untyped_storage()
        return bool(storage.data_ptr() == span[0] and storage.nbytes() == span[1] - span[0])  # half the time of the next
    except (AttributeError, RuntimeError, NotImplementedError):
        return span_of(holder) == span


def positions(starts: Sequence[int], addresses: Sequence[int]) -> Sequence[int]:
    """For each address the number of the last that is no larger, -1 if there is none. starts: in order."""
    if len(addresses) <= _FEW:
        return [bisect_right(starts, address) - 1 for address in addresses]
    found: list[int] = (np.searchsorted(np.array(starts, np.int64), addresses, side="right") - 1).tolist()
    return found


class Seen:
    """The memory that addresses led to in earlier launches."""

    def __init__(self) -> None:
        self.known = Spans()
        self.lock = threading.RLock()

    def among(self, numbers: Sequence[Array]) -> list[Span]:
        """The memory of what is alive that the numbers lie in; all of it if one is an address in none, which may lead back."""
        addresses = distinct(numbers)
        if not addresses:
            return []
        search = Search(self)
        spans, left = search.find(addresses)
        return search.everything() if left else spans

    def everything(self) -> list[Span]:
        """The memory of all that is alive."""
        return Search(self).everything()


class Search:
    """Looks for the memory behind addresses of one launch, which keeps all alive that has memory when it begins."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._certain = Spans(certain=True)
        self._far = 0  # looks of `FAR_LOOKS` that were taken

    def find(self, addresses: Sequence[int]) -> tuple[list[Span], list[int]]:
        """The memory of what is alive that addresses lie in, and those that are addresses in none.

        It looks through all that is alive when one lies in none that is easy to find, but once in a launch.
        """
        spans, left = self._certain.around(addresses)
        if not left:
            return spans, left
        with self._seen.lock:
            known, left = self._seen.known.around(left)
            spans += known
            left = mapped(left) if left else left  # other numbers lead nowhere, whoever is alive
            if left and self._far < len(FAR_LOOKS):
                found, left = self._look(left)
                spans += found
        return list(dict.fromkeys(spans)), left

    def _look(self, left: list[int]) -> tuple[list[Span], list[int]]:
        spans: list[Span] = []
        for look in NEAR_LOOKS:
            all_found = outermost(look())
            for number in _around(all_found, left):
                span, holders = all_found[number]
                self._seen.known.add(span, holders)
                spans.append(span)
            left = [address for address in left if not any(first <= address < end for first, end in spans)]
            if not left:
                return spans, left
        while left and self._go_far():
            found, left = self._certain.around(left)
            spans += found
        return spans, left

    def _go_far(self) -> bool:
        """Look further than before; returns whether that was possible."""
        if self._far == len(FAR_LOOKS):
            return False
        found = outermost(FAR_LOOKS[self._far]())
        self._far += 1
        self._seen.known.replace(found)
        self._certain.replace(found)
        return True

    def everything(self) -> list[Span]:
        """The memory of all that is alive."""
        with self._seen.lock:
            while self._go_far():
                pass
        return self._certain.all()


def _around(found: Sequence[tuple[Span, list[Any]]], addresses: Sequence[int]) -> list[int]:
    """The numbers of those that an address lies in."""
    numbers = positions([span[0] for span, _ in found], addresses)
    pairs = zip(addresses, numbers, strict=True)
    return list({number: None for address, number in pairs if number >= 0 and address < found[number][0][1]})


def _references(holders: Sequence[Any]) -> list[Callable[[], Any]]:
    return list(map(_reference, holders))


def _reference(holder: Any) -> Callable[[], Any]:
    """What returns a holder of memory while it is alive; None for a storage, to which no weak reference leads."""
    try:
        return weakref.ref(holder)
    except TypeError:
        return _gone


def _gone() -> None:
    return None


__all__ = ["Search", "Seen", "Spans"]
