"""Plans the memory of the temporaries: one arena, shared by buffers whose lifetimes do not overlap.

The method is greedy best fit, largest buffers first (Pisarchyk and Lee 2020, "Efficient memory management for
deep neural net inference", greedy by size). A size known only at launch is an integer multiple of a
polynomial in the runtime dims (`1536 * batch*seq`); buffers with the same polynomial are packed together in
units of it, exactly as static ones are in bytes. Buffers of different polynomials share nothing: which of
`batch` and `batch*seq` is larger is not known (a dim may be 0).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...promotion.dataclass import dataclass
from ...promotion.errors import InternalError
from ..nest import Buffer, Extent
from .extents import ALIGNMENT, align_up, exact_quotient, product

_SPAN, _LONG = 32, 1024
"""Kernels of a span of time, and from which number on a buffer counts for all of them."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A buffer lives from the kernel that first writes it to the last that reads it, both included."""

    buffer: Buffer
    first: int
    last: int

    def overlaps(self, other: Lifetime) -> bool:
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Byte offset of every temporary in the arena, by `Buffer.index`, and the arena's size. All are multiples
    of 64."""

    offsets: tuple[Extent, ...]
    size: Extent


def byte_size(buffer: Buffer) -> Extent:
    return product(buffer.shape) * buffer.dtype.itemsize


def plan_memory(lifetimes: Sequence[Lifetime]) -> MemoryPlan:
    """Assigns every temporary its offset in the arena, in bytes. `lifetimes[i]` is that of the temporary with index i."""
    offsets: list[Extent] = [0] * len(lifetimes)
    classes: dict[Extent, list[tuple[Lifetime, int]]] = {1: []}
    for lifetime in lifetimes:
        count, unit = _units(align_up(byte_size(lifetime.buffer), ALIGNMENT))
        classes.setdefault(unit, []).append((lifetime, count))
    total: Extent = 0
    for unit, members in classes.items():
        starts, count = _pack(members)
        for (lifetime, _), start in zip(members, starts, strict=True):
            offsets[lifetime.buffer.index] = total + unit * start
        total = total + unit * count
    return MemoryPlan(tuple(offsets), total)


def _units(size: Extent) -> tuple[int, Extent]:
    """Splits `size` into (count, unit): the count is a multiple of the alignment, the unit is 1 or has
    coefficients without a common factor."""
    if isinstance(size, int):
        return size, 1
    count = math.gcd(*[coefficient for coefficient, _ in size.terms])
    unit = exact_quotient(size, count)
    if unit is None:
        raise InternalError(f"schedule: {size} is not divisible by its content {count}")
    return count, unit


class _Assigned:
    """The buffers that have offsets, by spans of time: most live for a few kernels of very many."""

    def __init__(self) -> None:
        self._spans: dict[int, list[tuple[int, int, Lifetime]]] = {}
        self._long: list[tuple[int, int, Lifetime]] = []

    def add(self, start: int, end: int, lifetime: Lifetime) -> None:
        if lifetime.last - lifetime.first > _LONG:
            self._long.append((start, end, lifetime))
            return
        for span in range(lifetime.first // _SPAN, lifetime.last // _SPAN + 1):
            self._spans.setdefault(span, []).append((start, end, lifetime))

    def alive_with(self, lifetime: Lifetime) -> list[tuple[int, int]]:
        """Returns where the buffers lie that live at the same time as one does, in order of their offsets."""
        near = [self._spans.get(span, ()) for span in range(lifetime.first // _SPAN, lifetime.last // _SPAN + 1)]
        found = {
            other.buffer.index: (start, end)
            for each in (self._long, *near)
            for start, end, other in each
            if lifetime.overlaps(other)
        }
        return sorted(found.values())


def _pack(buffers: Sequence[tuple[Lifetime, int]]) -> tuple[list[int], int]:
    """Returns offsets and their total: best fit, the largest buffers first, each in the tightest gap left by those alive."""
    offsets = [0] * len(buffers)
    assigned = _Assigned()
    total = 0
    for number in sorted(range(len(buffers)), key=lambda n: (-buffers[n][1], buffers[n][0].first)):
        lifetime, size = buffers[number]
        best, best_waste, cursor = -1, -1, 0
        for start, end in assigned.alive_with(lifetime):
            gap = start - cursor
            if gap >= size and (best < 0 or gap - size < best_waste):
                best, best_waste = cursor, gap - size
            cursor = max(cursor, end)
        if best < 0:
            best = cursor
        offsets[number] = best
        assigned.add(best, best + size, lifetime)
        total = max(total, best + size)
    return offsets, total
