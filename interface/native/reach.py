"""The memory that the accesses of a launch are compared with, and what is said of one that left it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ...lowering.llvm.host.control.sites import Access, Site
from ...promotion.arrays import Array
from ...promotion.dataclass import dataclass

NOTHING: Array = np.zeros((0, 2), np.int64)
"""The known memory of a kernel that follows no addresses."""


@dataclass(slots=True)
class Reach:
    """The memory that the accesses of a checked launch may reach.

    spans: (position of the parameter, first byte, end) behind each pointer.
    known: (first byte, end) of all memory that may lie behind addresses which the kernel loads: see `known_memory`.
    """

    spans: Sequence[tuple[int, int, int]]
    known: Array

    def slots(self, count: int) -> list[int]:
        """What the code of a function with `count` parameters reads behind the status words (`llvm/host/memory/bounds.py`)."""
        found = [0] * (2 * count + 2)
        for position, first, end in self.spans:
            found[2 * position] = first
            found[2 * position + 1] = end - first
        if self.known is not NOTHING:
            found[2 * count :] = self.known.ctypes.data, len(self.known)
        return found

    def left_by(self, site: Site, access: Access, lane: int, address: int) -> str:
        """What the access did that stopped the launch, at an address outside of the memory that it may reach."""
        where = ""
        if lane >= 0:
            where = f", by element {tuple(int(index) for index in np.unravel_index(lane, site.shape))} of the block"
        if not access.parameters:
            return (
                f"{site.message}: address {address & (1 << 64) - 1:#x} is {access.verb}, which lies in no array{where}, "
                "as far as is known; fix: pass the array that it lies in as an argument too, if there is one"
            )
        spans = {position: (first, end) for position, first, end in self.spans}
        position, name = min(access.parameters, key=lambda parameter: abs(address - spans[parameter[0]][0]))
        first, end = spans[position]
        size = access.size
        if not end:
            return f"{site.message}: address {address & (1 << 64) - 1:#x} is {access.verb}{where}; {name!r} is a null pointer"
        return (
            f"{site.message}: element {(address - first) // size} of array {name!r} is {access.verb}{where}, "
            f"which has elements 0 … {(end - first) // size - 1} ({end - first} bytes)"
        )


def known_memory(spans: Iterable[tuple[int, int]]) -> Array:
    """Spans (first byte, end) in order, those that touch merged: int64, of shape (spans, 2)."""
    merged: list[tuple[int, int]] = []
    for first, end in sorted(spans):
        if first == end:
            continue
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((first, end))
    return np.array(merged, np.int64).reshape(-1, 2)
