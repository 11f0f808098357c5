"""Defines state spaces: bytes with bounds, alignment and, at level 2, which bytes are defined and which are
in flight.

Global and constant variables and buffers share one arena whose addresses start at `GLOBAL_BASE`, so that pointers truncated
to 32 bits miss it. Shared, local and parameter addresses start at 0 in their space; in the generic space each has a window.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....promotion.arrays import Array, NumpyDType
from ....promotion.dataclass import dataclass
from ..async_copies.mbarrier_objects import MBarrier
from ..checks.findings import Fault

GLOBAL_BASE = 1 << 40
SHARED_WINDOW = 1 << 56
LOCAL_WINDOW = 2 << 56
PARAM_WINDOW = 3 << 56
GAP = 512
"""Bytes between buffers, more than any access reads or writes."""
RANK_SHIFT = 24
"""An address in shared::cluster space holds rank + 1 of its block from this bit on; 0 stands for the own block."""


_AT_START = np.uint64(0)


@dataclass(slots=True)
class Site:
    """The allocation that one instruction accessed last: its start, its bytes (-1: none yet), and whether
    kernels may write to it."""

    start: np.uint64 = _AT_START
    room: int = -1
    writable: bool = False


def aligned_bytes(size: int, fill: int = 0) -> Array:
    """Allocates bytes that start at a multiple of 128."""
    raw = np.full(size + 128, fill, np.uint8) if fill else np.zeros(size + 128, np.uint8)
    start = -raw.ctypes.data % 128
    return raw[start : start + size]


class Space:
    """Bytes of a state space, with views of them as elements and vectors of elements."""

    kind = "memory"

    def __init__(self, size: int, fill: int = 0, octets: Array | None = None) -> None:
        self.size = size
        self.octets = aligned_bytes(-(-size // 32) * 32, fill) if octets is None else octets
        self._views: dict[tuple[NumpyDType, int], Array] = {}
        self.defined: Array | None = None
        self.flight: Array | None = None

    def view(self, dtype: NumpyDType, count: int = 1) -> Array:
        key = (dtype, count)
        found = self._views.get(key)
        if found is None:
            found = self.octets.view(dtype)
            found = found.reshape(-1, count) if count > 1 else found
            self._views[key] = found
        return found

    def watch(self, defined: bool) -> Array:
        """Starts to track which bytes are defined, and which are in flight. Returns the former, a bool per byte."""
        self.defined = known = np.full(self.octets.size, defined, np.bool_)
        self.flight = np.zeros(self.octets.size, np.uint8)
        return known

    def offsets(self, address: Array, size: int, lanes: Array | None, write: bool, site: Site) -> Array:
        """Returns byte offsets of accesses of `size` bytes, aligned to it. Raises `Fault` for others. lanes:
        those of the accesses; None for all."""
        if np.count_nonzero(address > max(self.size - size, 0)) or self.size < size:
            self.outside(address, size, lanes)
        check_alignment(address, size, lanes, self.kind)
        return address

    def outside(self, address: Array, size: int, lanes: Array | None) -> None:
        bad = np.flatnonzero(address > self.size - size) if self.size >= size else np.arange(address.size)
        raise Fault(
            "bounds",
            f"{size} bytes at {self.kind} address {int(address[bad[0]]):#x}; {self.size} bytes of {self.kind} memory",
            bad if lanes is None else lanes[bad],
        )


def check_alignment(address: Array, size: int, lanes: Array | None, kind: str) -> None:
    if size > 1:
        odd = address & address.dtype.type(size - 1)
        if np.count_nonzero(odd):
            bad = np.flatnonzero(odd)
            text = f"{kind} address {int(address[bad[0]]):#x} is no multiple of {size}"
            raise Fault("alignment", text, bad if lanes is None else lanes[bad])


class SharedMemory(Space):
    """The shared memory of one block. `mbarriers`: objects by offset; `unfenced`: those that are not visible to the
    asynchronous proxy yet; `opaque`: which words of 8 bytes they occupy; `dirty`: bytes that ordinary stores wrote since the
    last fence."""

    kind = "shared"

    def __init__(self, size: int, fill: int = 0) -> None:
        super().__init__(size, fill)
        self.mbarriers: dict[int, MBarrier] = {}
        self.unfenced: list[MBarrier] = []
        self.dirty: Array | None = None
        self.opaque: Array | None = None

    def watch(self, defined: bool) -> Array:
        self.dirty = np.zeros(self.octets.size, np.bool_)
        self.opaque = np.zeros(self.octets.size // 8, np.bool_)
        return super().watch(defined)

    def mbarrier(self, offset: int, lane: int) -> MBarrier:
        """Returns the mbarrier at a byte offset. Raises `Fault`, for the lane that accesses it, where there
        is none."""
        found = self.mbarriers.get(offset)
        if found is None:
            raise Fault("mbarrier", f"no mbarrier was initialised at shared address {offset:#x}", [lane])
        return found


class ParameterMemory(Space):
    kind = "parameter"


class LocalMemory(Space):
    """The local memory of a block's lanes: `size` bytes for each."""

    kind = "local"

    def __init__(self, size: int, lanes: int) -> None:
        super().__init__(size * lanes, 0x5A)
        self.size = size
        self.starts = np.arange(lanes, dtype=np.uint64) * np.uint64(size)

    def offsets(self, address: Array, size: int, lanes: Array | None, write: bool, site: Site) -> Array:
        super().offsets(address, size, lanes, write, site)
        return address.astype(np.uint64) + (self.starts if lanes is None else self.starts[lanes])


@dataclass(frozen=True, slots=True)
class Allocation:
    """A live range of the arena."""

    name: str
    start: int
    size: int
    writable: bool


class GlobalMemory(Space):
    """The arena of global memory. `allocations` are ordered by their start and are `GAP` bytes apart."""

    kind = "global"

    def __init__(self, size: int, allocations: Sequence[Allocation], octets: Array | None = None) -> None:
        """octets: the bytes, which start at a multiple of 128; None allocates new ones, all 0."""
        super().__init__(size, octets=octets)
        self.allocations = list(allocations)
        self.starts = np.array([a.start for a in allocations], np.uint64)
        self.ends = np.array([a.start + a.size for a in allocations], np.uint64)
        self.base = np.uint64(GLOBAL_BASE)

    def offsets(self, address: Array, size: int, lanes: Array | None, write: bool, site: Site) -> Array:
        offset = address - self.base
        room, writable = site.room, site.writable
        if room < size or np.count_nonzero((offset - site.start) > np.uint64(room - size)):
            writable = self._find(address, offset, size, lanes, write, site)
        if write and not writable:
            self._read_only(offset, lanes)
        check_alignment(address, size, lanes, self.kind)
        return offset

    def _find(
        self, address: Array, offset: Array, size: int, lanes: Array | None, write: bool, site: Site
    ) -> bool:
        """Searches the allocations of an access that spans several, or another one than the last time;
        returns whether all may be written."""
        if not self.allocations:
            where = _named(lanes, np.array([0]))
            raise Fault("bounds", f"global address {int(address[0]):#x}; there is no global memory", where)
        start = np.searchsorted(self.starts, offset, side="right").astype(np.int64) - 1
        known = np.maximum(start, 0)
        room = self.ends[known] - np.uint64(size)
        bad = (start < 0) | (offset > room) | (self.ends[known] - self.starts[known] < size)
        if np.count_nonzero(bad):
            first = int(np.flatnonzero(bad)[0])
            self._outside(int(address[first]), size, _named(lanes, np.flatnonzero(bad)))
        if np.count_nonzero(known != known[0]) == 0:
            found = self.allocations[int(known[0])]
            site.start, site.room, site.writable = np.uint64(found.start), found.size, found.writable
            return found.writable
        return not write or all(self.allocations[i].writable for i in np.unique(known).tolist())

    def _read_only(self, offset: Array, lanes: Array | None) -> None:
        start = np.searchsorted(self.starts, offset, side="right").astype(np.int64) - 1
        for index in np.unique(start).tolist():
            if not self.allocations[index].writable:
                bad = np.flatnonzero(start == index)
                raise Fault(
                    "read-only",
                    f"a write to {self.allocations[index].name}, which is read-only",
                    _named(lanes, bad),
                )

    def _outside(self, address: int, size: int, lanes: Array) -> None:
        offset = address - GLOBAL_BASE
        near = min(self.allocations, key=lambda a: min(abs(offset - a.start), abs(offset - a.start - a.size)))
        where = offset - near.start
        start = (
            f"byte {where} of {near.name} with {near.size} bytes"
            if abs(where) < 1 << 32
            else "outside all buffers"
        )
        raise Fault("bounds", f"{size} bytes at global address {address:#x}, which is {start}", lanes)

    def one(self, address: int, size: int, write: bool) -> int:
        """Returns the offset of one range of any size and alignment. Raises `Fault` if it is not in one
        allocation."""
        offset = address - GLOBAL_BASE
        for allocation in self.allocations:
            if allocation.start <= offset and offset + size <= allocation.start + allocation.size:
                if write and not allocation.writable:
                    raise Fault("read-only", f"a write to {allocation.name}, which is read-only")
                return offset
        if not self.allocations:
            raise Fault("bounds", f"global address {address:#x}; there is no global memory")
        self._outside(address, size, np.array([], np.int64))
        raise AssertionError


def _named(lanes: Array | None, bad: Array) -> Array:
    return bad if lanes is None else lanes[bad]
