"""Detects races between the programs of a launch, by shadow memory and the happens-before order that atomics
make.

The method follows C. Flanagan and S. N. Freund, "FastTrack: efficient and precise dynamic race detection",
PLDI 2009: an access is an *epoch* (program, clock); the last plain write of an element is one epoch, its
readers since then are a set. Programs take the place of threads, and run one after the other: two of them are
ordered only where one acquired what the other released, so that a race is found whatever the order in which
the programs happened to run. Sets of epochs are linked lists that elements share, since most blocks of
elements are read by the same programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dataclass import dataclass


class Node(NamedTuple):
    """An access of one program; `rest` is the number of the next one in the set (0 ends it)."""

    program: int
    clock: int
    op: int
    is_write: bool
    rest: int


class Conflict(NamedTuple):
    """Elements (positions in the access) that race with earlier accesses of one operation; `earlier` is the
    access that the first element races with."""

    positions: Array
    earlier: Node


@dataclass(slots=True)
class _Region:
    """Memory that arrays share, in granules of `1 << shift` bytes. The tables hold the number of a node per
    granule."""

    size: int
    shift: int
    writer: Array
    readers: Array
    atomics: Array | None = None
    released: Array | None = None  # the vector clock that the last release left, an object per granule

    def refine(self, shift: int) -> None:
        """Split the granules into smaller ones."""
        times = 1 << (self.shift - shift)
        self.shift = shift
        for name in ("writer", "readers", "atomics", "released"):
            old = getattr(self, name)
            if old is not None:
                setattr(self, name, np.repeat(old, times))


class Access(NamedTuple):
    """How an operation touches memory, as other programs see it."""

    reads: bool
    writes: bool
    is_atomic: bool
    acquires: bool = False
    releases: bool = False


PLAIN_READ = Access(True, False, False)
PLAIN_WRITE = Access(False, True, False)


class RaceDetector:
    """Watches the accesses of all programs of one launch, program by program."""

    def __init__(self) -> None:
        self._nodes: list[Node] = [Node(-1, 0, 0, False, 0)]
        self._numbers: dict[Node, int] = {}
        self._regions: list[_Region] = []
        self._places: dict[int, tuple[_Region, int]] = {}  # array → its region, and its first byte there
        self._program = 0
        self._now = 1
        self._clock: Array | None = None  # what the program knows of the others; None: nothing

    # Memory

    def register(self, arrays: Sequence[Array], first: int = 0) -> None:
        """Give arrays, numbered from `first`, their shadow. Arrays whose memory overlaps share it."""
        spans = sorted(
            (int(a.__array_interface__["data"][0]), a.nbytes, number)
            for number, a in enumerate(arrays, first)
        )
        start = end = 0
        members: list[tuple[int, int]] = []
        for address, size, number in spans:
            if members and address >= end:
                self._region(start, end, members, arrays, first)
                members = []
            if not members:
                start = end = address
            members.append((number, address - start))
            end = max(end, address + size)
        if members:
            self._region(start, end, members, arrays, first)

    def _region(
        self, start: int, end: int, members: list[tuple[int, int]], arrays: Sequence[Array], first: int
    ) -> None:
        shift = min(min(arrays[number - first].itemsize, 8).bit_length() for number, _ in members) - 1
        for number, offset in members:
            for amount in (arrays[number - first].itemsize, offset):
                while shift and amount & ((1 << shift) - 1):
                    shift -= 1
        count = ((end - start) >> shift) + 1
        region = _Region(end - start, shift, np.zeros(count, np.int32), np.zeros(count, np.int32))
        self._regions.append(region)
        for number, offset in members:
            self._places[number] = (region, offset)

    # Programs

    def enter(self, program: int) -> None:
        """Begin the next program, which knows nothing of the others."""
        self._program, self._now, self._clock = program, 1, None

    def _own(self) -> Array:
        clock = np.zeros(self._program + 1, np.int32) if self._clock is None else self._clock.copy()
        clock[self._program] = self._now
        return clock

    def _knows(self, node: Node) -> bool:
        """Return whether the access happened before what the program does now."""
        if node.program == self._program:
            return True
        clock = self._clock
        return clock is not None and node.program < len(clock) and bool(clock[node.program] >= node.clock)

    def _unordered(self, number: int, only_writes: bool) -> Node | None:
        while number:
            node = self._nodes[number]
            if (node.is_write or not only_writes) and not self._knows(node):
                return node
            number = node.rest
        return None

    def _number(self, node: Node) -> int:
        found = self._numbers.get(node)
        if found is None:
            found = self._numbers[node] = len(self._nodes)
            self._nodes.append(node)
        return found

    # Accesses

    def access(self, array: int, offsets: Array, size: int, kind: Access, op: int) -> list[Conflict]:
        """Record an access to elements of `size` bytes at byte `offsets` of an array; return the earlier
        accesses that it races with.

        Acquiring comes before, releasing after the access. Within one operation all lanes acquire before any releases, which
        can only hide races among lanes of atomics.
        """
        region, start = self._places[array]
        granule = 1 << region.shift
        if size < granule or (size & (granule - 1)):
            region.refine(max(0, (size & -size).bit_length() - 1))
            granule = 1 << region.shift
        if region.shift and ((offsets + start) & (granule - 1)).any():
            region.refine(0)
            granule = 1
        at = (offsets + start) >> region.shift
        per_lane = size // granule
        if per_lane > 1:
            at = (at[:, None] + np.arange(per_lane)).reshape(-1)
        if kind.acquires:
            self._acquire(region, at)
        conflicts = self._conflicts(region, at, kind)
        self._record(region, at, kind, op)
        if kind.writes:
            self._release(region, at, kind)
        return [Conflict(conflict.positions // per_lane, conflict.earlier) for conflict in conflicts]

    def _conflicts(self, region: _Region, at: Array, kind: Access) -> list[Conflict]:
        checks: list[tuple[Array | None, bool]] = [(region.writer, True)]
        if kind.writes:
            checks.append((region.readers, False))
        if not kind.is_atomic:
            checks.append((region.atomics, not kind.writes))
        found = []
        for table, only_writes in checks:
            if table is None:
                continue
            heads = table[at]
            guilty: dict[int, dict[int, Node]] = {}  # the operation of the other side → set of accesses → one of them
            for head in _distinct(heads):
                if head and (earlier := self._unordered(head, only_writes)) is not None:
                    guilty.setdefault(earlier.op, {})[int(head)] = earlier
            for sets in guilty.values():
                positions = np.flatnonzero(np.isin(heads, list(sets)))
                found.append(Conflict(positions, sets[int(heads[positions[0]])]))
        return found

    def _record(self, region: _Region, at: Array, kind: Access, op: int) -> None:
        if not kind.is_atomic and kind.writes:
            region.writer[at] = self._number(Node(self._program, self._now, op, True, 0))
            region.readers[at] = 0
            if region.atomics is not None:
                region.atomics[at] = 0
            return
        if not kind.is_atomic:
            table = region.readers
        elif region.atomics is None:
            table = region.atomics = np.zeros_like(region.writer)
        else:
            table = region.atomics
        heads = table[at]
        if (heads == heads[0]).all():
            table[at] = self._extended(int(heads[0]), op, kind)
            return
        distinct, inverse = np.unique(heads, return_inverse=True)
        table[at] = np.array([self._extended(int(head), op, kind) for head in distinct], np.int32)[inverse]

    def _extended(self, head: int, op: int, kind: Access) -> int:
        """Return the set with this access in it, and without accesses that race only with what this one races
        with too."""
        rest, is_write = head, kind.writes
        while (
            rest and (node := self._nodes[rest]).program == self._program and (is_write or not node.is_write)
        ):
            if node.clock == self._now and node.is_write == is_write:
                return head
            rest = node.rest
        supersedes = is_write or not kind.is_atomic  # a set of plain readers holds no writes
        if (
            rest
            and supersedes
            and self._clock is not None
            and self._unordered(rest, only_writes=False) is None
        ):
            rest = 0
        return self._number(Node(self._program, self._now, op, is_write, rest))

    # Order

    def _acquire(self, region: _Region, at: Array) -> None:
        if region.released is None:
            return
        for clock in {id(each): each for each in region.released[at].tolist() if each is not None}.values():
            mine = self._own()
            mine[: len(clock)] = np.maximum(mine[: len(clock)], clock)
            self._clock = mine

    def _release(self, region: _Region, at: Array, kind: Access) -> None:
        """Store the program's clock at a write with release, joined with what others released there if it
        also reads. A write without release drops what was released, unless it is an atomic update."""
        if kind.releases:
            if region.released is None:
                region.released = np.full(len(region.writer), None, object)
            left = self._own()
            if kind.reads:
                for clock in {
                    id(each): each for each in region.released[at].tolist() if each is not None
                }.values():
                    left[: len(clock)] = np.maximum(left[: len(clock)], clock)
            cell = np.empty((), object)
            cell[()] = left
            region.released[at] = cell
            self._now += 1
        elif region.released is not None and not (kind.reads and kind.is_atomic):
            region.released[at] = None


def _distinct(heads: Array) -> list[int]:
    if not heads.size:
        return []
    first = int(heads[0])
    if (heads == first).all():
        return [first]
    return [int(head) for head in np.unique(heads)]


__all__ = ["PLAIN_READ", "PLAIN_WRITE", "Access", "Conflict", "Node", "RaceDetector"]
