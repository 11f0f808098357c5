"""Keeps the groups of a graph and which of them must run before which, while they are formed."""

from __future__ import annotations

from collections.abc import Sequence

from ....promotion.dataclass import dataclass
from ...nest import Extent, Template
from ..groups import Group


@dataclass(frozen=True, slots=True)
class PartStore:
    """Symbol `part` is written to the elements of `whole` (a concat) that start at `offset` along `axis`."""

    part: int
    whole: int
    axis: int
    offset: Extent


class GroupOrder:
    """The groups by their bits, and what each reads from.

    Attributes:
        groups: the groups by bit; absorbed ones are removed.
        before: the mask of the groups that a group reads from, by its bit; absorbed ones lead to their group.
        parts: the stores of a group into concatenations, by its bit.
    """

    def __init__(self) -> None:
        self.groups: dict[int, Group] = {}
        self.before: dict[int, int] = {}
        self.parts: dict[int, list[PartStore]] = {}
        self._absorbed: dict[int, int] = {}  # bit of a group that is part of another one -> bit of that one
        self._next_bit = 1

    def new_group(self, kind: Template, before: int) -> Group:
        group = Group(self._next_bit, kind, [])
        self._next_bit <<= 1
        self.groups[group.bit] = group
        self.before[group.bit] = before
        return group

    def reaches(self, mask: int, targets: int) -> bool:
        """Returns whether a group of `mask` is in `targets` or depends on one of them, directly or not."""
        seen = mask
        while mask:
            if seen & targets:
                return True
            following = 0
            while mask:
                bit = mask & -mask
                mask ^= bit
                following |= self.before[bit]
            mask = following & ~seen
            seen |= following
        return False

    def replace(self, old: int, new: int) -> None:
        """Lets group `new` stand for `old`, which it has absorbed.

        Masks keep the bit of `old` until the pass ends: whatever depends on it depends on `new` through `before`. So replacing
        a group takes no look at all others.
        """
        self.before[new] |= self.before[old]
        self.before[old] = new
        del self.groups[old]
        self._absorbed[old] = new
        if old in self.parts:
            self.parts.setdefault(new, []).extend(self.parts.pop(old))

    def living(self, bit: int) -> int:
        """Returns the bit of the group that one is part of by now."""
        while bit in self._absorbed:
            bit = self._absorbed[bit]
        return bit

    def forget_absorbed(self, by_symbol: Sequence[dict[int, int]], masks: list[int]) -> None:
        """Replaces the bits of groups that were absorbed in `before` and other masks."""
        gone = 0
        for bit in self._absorbed:
            del self.before[bit]
            gone |= bit

        def replaced(mask: int) -> int:
            dead = mask & gone
            mask ^= dead
            while dead:
                bit = dead & -dead
                dead ^= bit
                mask |= self.living(bit)
            return mask

        if gone:
            for found in (self.before, *by_symbol):
                for key, mask in found.items():
                    found[key] = replaced(mask)
            masks[:] = [replaced(mask) for mask in masks]
