"""Defines state spaces: bytes with bounds, alignment and, at level 2, which bytes are defined and which are
in flight.

Global and constant variables and buffers share one arena of bytes, with addresses from `GLOBAL_BASE` on, so that pointers
truncated to 32 bits miss it. In the arena they lie side by side; their addresses are `GAP` bytes apart. Shared, local and
parameter addresses start at 0 in their space; in the generic space each has a window.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....promotion.arrays import Array, NumpyDType
from ....promotion.dataclass import dataclass
from ..async_copies.mbarrier_objects import MBarrier
from ..checks.findings import Fault

GLOBAL_BASE = 1 << 48
"""Behind the addresses of the host, none of which is ever one here."""
SHARED_WINDOW = 1 << 56
LOCAL_WINDOW = 2 << 56
PARAM_WINDOW = 3 << 56
GAP = 1 << 37
"""Addresses from one allocation to the next that belong to none: more than an index of 32 bits reaches, of elements of any
size. They cost nothing, as the bytes of allocations lie side by side."""
MAX_ALLOCATIONS = (SHARED_WINDOW - GLOBAL_BASE) // GAP - 2
"""The most allocations that have addresses below the windows of other spaces."""
RANK_SHIFT = 24
"""An address in shared::cluster space holds rank + 1 of its block from this bit on; 0 stands for the own block."""


_AT_START = np.uint64(0)


def address_at(number: int, start: int) -> int:
    """Returns the address of an allocation: of which number it is, and where its bytes start in the arena."""
    return GLOBAL_BASE + number * GAP + start


@dataclass(frozen=True, slots=True)
class PointerSource:
    """An argument that is an address, for checks of what is computed from it, and for messages.

    allocation: the address of the allocation that it points into; -1 for a null pointer. size: bytes from the address on.
    is_table: whether addresses lie in its memory.
    """

    name: str
    address: int
    size: int
    allocation: int
    is_table: bool = False


@dataclass(slots=True)
class Site:
    """The allocation that one instruction accessed last: its address, its start in the arena, its bytes (-1: none
    yet), and whether kernels may write to it.

    sources: the arguments of which one is the origin of all addresses of the instruction; empty if that is not known.
    """

    address: np.uint64 = _AT_START
    start: np.uint64 = _AT_START
    room: int = -1
    writable: bool = False
    sources: tuple[PointerSource, ...] = ()


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
    """A live range of the arena, with the address of its first byte."""

    name: str
    start: int
    size: int
    writable: bool
    address: int


class GlobalMemory(Space):
    """The arena of global memory. The addresses of `allocations` are ordered."""

    kind = "global"

    def __init__(self, size: int, allocations: Sequence[Allocation], octets: Array | None = None) -> None:
        """octets: the bytes, which start at a multiple of 128; None allocates new ones, all 0."""
        super().__init__(size, octets=octets)
        self.allocations = sorted(allocations, key=lambda each: each.address)
        self.starts = np.array([a.address for a in self.allocations], np.uint64)
        self.sizes = np.array([a.size for a in self.allocations], np.uint64)
        self.ends = self.starts + self.sizes
        self.shifts = self.starts - np.array([a.start for a in self.allocations], np.uint64)

    def offsets(self, address: Array, size: int, lanes: Array | None, write: bool, site: Site) -> Array:
        offset = address - site.address
        room = site.room
        if room < size or np.count_nonzero(offset > np.uint64(room - size)):
            return self._find(address, size, lanes, write, site)
        if write and not site.writable:
            self._read_only(address, lanes)
        check_alignment(address, size, lanes, self.kind)
        return offset + site.start

    def _find(self, address: Array, size: int, lanes: Array | None, write: bool, site: Site) -> Array:
        """Returns the offsets of an access that spans several allocations, or is in another one than the last time."""
        if not self.allocations:
            where = _named(lanes, np.array([0]))
            raise Fault("bounds", f"global address {int(address[0]):#x}; there is no global memory", where)
        found = np.searchsorted(self.starts, address, side="right").astype(np.int64) - 1
        known = np.maximum(found, 0)
        bad = (found < 0) | (self.sizes[known] < size) | (address > self.ends[known] - np.uint64(size))
        if site.sources:
            allowed = np.zeros(address.size, np.bool_)
            for source in site.sources:
                allowed |= self.starts[known] == np.uint64(max(source.allocation, 0))
            bad |= ~allowed
        if np.count_nonzero(bad):
            first = int(np.flatnonzero(bad)[0])
            self._outside(int(address[first]), size, _named(lanes, np.flatnonzero(bad)), site.sources)
        if np.count_nonzero(known != known[0]) == 0:
            only = self.allocations[int(known[0])]
            site.address, site.start = np.uint64(only.address), np.uint64(only.start)
            site.room, site.writable = only.size, only.writable
        if write and not all(self.allocations[i].writable for i in np.unique(known).tolist()):
            self._read_only(address, lanes)
        check_alignment(address, size, lanes, self.kind)
        return address - self.shifts[known]

    def _read_only(self, address: Array, lanes: Array | None) -> None:
        found = np.searchsorted(self.starts, address, side="right").astype(np.int64) - 1
        for index in np.unique(found).tolist():
            if not self.allocations[index].writable:
                bad = np.flatnonzero(found == index)
                raise Fault(
                    "read-only",
                    f"a write to {self.allocations[index].name}, which is read-only",
                    _named(lanes, bad),
                )

    def _outside(self, address: int, size: int, lanes: Array, sources: tuple[PointerSource, ...] = ()) -> None:
        where = f"{size} bytes at global address {address:#x}, which is"
        if sources:
            raise Fault("bounds", f"{where} {self._beyond_source(address, size, sources)}", lanes)
        near = min(self.allocations, key=lambda a: _distance(address, a))
        if _distance(address, near) > GAP // 2:
            raise Fault("bounds", f"{where} outside all buffers", lanes)
        beyond = _beyond(address, size, near)
        text = f"byte {address - near.address} of {near.name} with {near.size} bytes, {beyond}"
        raise Fault("bounds", f"{where} {text} (the nearest memory: from which argument the address comes is not known)", lanes)

    def _beyond_source(self, address: int, size: int, sources: tuple[PointerSource, ...]) -> str:
        """Describes an address by the argument that it was computed from."""
        ranges = {each.address: each for each in self.allocations}
        source = min(sources, key=lambda each: abs(address - each.address))
        if source.allocation < 0:
            return f"outside all buffers: it is {address} bytes from {source.name}, a null pointer"
        allocation = ranges[source.allocation]
        beyond = _beyond(address, size, allocation)
        if (source.address, source.size) != (allocation.address, allocation.size):
            low = allocation.address - source.address
            beyond = _beyond(address, size, allocation, ("the start of its memory", "the end of its memory"))
            beyond += f", bytes {low} to {low + allocation.size}"
        text = f"byte {address - source.address} of {source.name} with {source.size} bytes, {beyond}"
        other = self.at(address)
        return text if other is None or other is allocation else f"{text}, in the memory of {other.name}"

    def at(self, address: int) -> Allocation | None:
        """Returns the allocation that holds the byte at an address."""
        index = int(np.searchsorted(self.starts, np.uint64(address), side="right")) - 1
        found = self.allocations[index] if index >= 0 else None
        return found if found is not None and address < found.address + found.size else None

    def one(self, address: int, size: int, write: bool, sources: tuple[PointerSource, ...] = ()) -> int:
        """Returns the offset of one range of any size and alignment. Raises `Fault` if it is not in one
        allocation, that of one of the sources."""
        if not self.allocations:
            raise Fault("bounds", f"global address {address:#x}; there is no global memory")
        found = self.at(address) if 0 <= address < SHARED_WINDOW else None
        is_foreign = sources and found is not None and found.address not in [each.allocation for each in sources]
        if found is None or is_foreign or address + size > found.address + found.size:
            self._outside(address, size, np.array([], np.int64), sources)
            raise AssertionError
        if write and not found.writable:
            raise Fault("read-only", f"a write to {found.name}, which is read-only")
        return address - found.address + found.start


def _distance(address: int, allocation: Allocation) -> int:
    return max(allocation.address - address, address - allocation.address - allocation.size, 0)


def _beyond(address: int, size: int, allocation: Allocation, ends: tuple[str, str] = ("its start", "its end")) -> str:
    """Says by how many bytes an access is outside of an allocation."""
    if address < allocation.address:
        return f"{allocation.address - address} bytes before {ends[0]}"
    return f"{address + size - allocation.address - allocation.size} bytes beyond {ends[1]}"


def _named(lanes: Array | None, bad: Array) -> Array:
    return bad if lanes is None else lanes[bad]
