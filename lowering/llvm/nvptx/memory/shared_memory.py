"""Manages the shared memory of a block: one dynamic buffer that moves reuse in turn, with barriers only between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .....promotion.dataclass import dataclass
from ....linear_layouts.f2 import Span
from ...ir import Function
from ...values import ConstantInt, Global, V, i32, is_integer
from ..targets import WARP_SIZE
from ..threads import ALL_LANES, Threads

BUFFER = "jn_shared"
ALIGNMENT = 1024


@dataclass(frozen=True, slots=True)
class WarpRegions:
    """The bytes that each warp accesses in a move within warps.

    They are start + any combination of `inside`, XOR those of `warps` that stand for the set bits of the warp's number.
    """

    start: int
    inside: tuple[int, ...]
    warps: tuple[int, ...]

    def are_apart(self, other: WarpRegions) -> bool:
        """Whether no other warp accesses there what a warp accesses here."""
        if self.start != other.start:
            return False
        both = Span((*self.inside, *other.inside))
        own, theirs = ([both.reduce(each)[0] for each in regions.warps] for regions in (self, other))
        return own == theirs and all(map(both.add, own))


@dataclass(frozen=True, slots=True)
class Pending:
    """The accesses to memory used by moves that may still be going on.

    readers: "warp" or "block", the threads that may still read what was exchanged last. copies: whether bulk copies
    to global memory, which the first thread has started, may be in flight. regions: of warps that may still read,
    those of all moves since the last barrier.
    """

    readers: str = ""
    copies: bool = False
    regions: tuple[WarpRegions, ...] = ()


class SharedMemory:
    """Emits accesses to the buffer of a block. `bytes`: the size that the kernel needs."""

    def __init__(self, threads: Threads) -> None:
        self.t = threads
        self.f: Function = threads.f
        self.bytes = 0
        self.largest = 0  # the most bytes that one move has needed
        self._floor = 0  # the bytes below belong to a loop
        self.barriers = 0
        self.others = False  # whether there are threads that never come to barriers
        self.pending = Pending()

    def reserve(self, size: int) -> V:
        """Reserves memory for one move; the next one may get the same."""
        self.bytes = max(self.bytes, self._floor + size)
        self.largest = max(self.largest, size)
        return self.at(self.buffer(), i32(self._floor))

    def buffer(self) -> Global:
        """Returns the shared memory of the launch, which is declared on first use."""
        self.f.module.globals.setdefault(
            BUFFER, f"@{BUFFER} = external addrspace(3) global [0 x i8], align {ALIGNMENT}"
        )
        return Global(BUFFER, "ptr addrspace(3)")

    @property
    def is_used(self) -> bool:
        """Whether moves have used memory that is not kept."""
        return self.bytes > self._floor

    def room(self, limit: int) -> int:
        """Returns the bytes of a limit that are left for a loop to keep, besides those that moves have needed so far."""
        return limit - self._floor - max(self.bytes - self._floor, 0)

    def with_kept(self, size: int) -> int:
        """Returns the bytes that the kernel needs so far, if a loop keeps this many."""
        return max(self.bytes, self._floor + size)

    @contextmanager
    def kept(self, size: int) -> Iterator[V]:
        """Reserves memory that moves leave alone as long as this is open."""
        start = self._floor
        self._floor += -(-size // ALIGNMENT) * ALIGNMENT
        self.bytes = max(self.bytes, self._floor)
        yield self.at(self.buffer(), i32(start))
        self._floor = start

    def at(self, base: V, offset: V) -> V:
        """Emits an address, `offset` bytes (i32) from the base."""
        if is_integer(offset, 0):
            return base
        if isinstance(base, Global) and isinstance(offset.printed(), ConstantInt):  # a constant, which is valid everywhere
            return V(f"getelementptr (i8, ptr addrspace(3) {base.operand()}, i32 {offset.operand()})", base.type)
        text = f"getelementptr i8, ptr addrspace(3) {base.operand()}, i32 {offset.operand()}"
        return self.f.pure(text, "ptr addrspace(3)")

    def address(self, base: V, thread: V, constant: int, thread_bits: int) -> V:
        """Emits base + (thread ^ constant), where `thread` has only bits of `thread_bits`.

        The bits of the constant beyond these are added last, so that accesses take them as immediates.
        """
        own = self.at(base, self.t.with_constant(thread, constant & thread_bits, thread_bits))
        return self.at(own, i32(constant & ~thread_bits))

    def barrier(self) -> None:
        """Emits a barrier of all threads of the block: memory is in order afterwards."""
        self.finish_copies()
        if self.t.warps == 1:
            self.t.call("bar.warp.sync", [ALL_LANES], "void")
        elif self.others:
            self.t.call("barrier.cta.sync.aligned.count", [i32(1), i32(self.t.warps * WARP_SIZE)], "void")
        else:
            self.t.call("barrier.cta.sync.aligned.all", [i32(0)], "void")
        self.barriers += 1
        self.pending = Pending()

    def finish_copies(self, reading: bool = False) -> None:
        """Makes the thread that has started bulk copies to global memory wait for them.

        reading: only until they have read their source.
        """
        if self.pending.copies:
            with self.f.when(self.t.is_first()):
                self.t.call(f"cp.async.bulk.wait.group{'.read' if reading else ''}", [i32(0)], "void")

    def regions(self, inside: Sequence[int], warps: Sequence[int]) -> WarpRegions:
        """Returns the regions of the next move."""
        return WarpRegions(self._floor, tuple(inside), tuple(warps))

    def before_writing(self, regions: WarpRegions | None = None) -> None:
        """Waits until no thread reads what the last move left. regions: of a move within warps."""
        before = self.pending.regions
        only_warps = regions is not None and self.pending == Pending("warp", regions=before)
        if regions is not None and only_warps and all(map(regions.are_apart, before)):
            self.t.call("bar.warp.sync", [ALL_LANES], "void")
        elif self.pending.readers:
            self.barrier()

    def between(self, warp_local: bool = False) -> None:
        """Waits until all threads have written."""
        if warp_local:
            self.t.call("bar.warp.sync", [ALL_LANES], "void")
        else:
            self.barrier()

    def after_reading(self, regions: WarpRegions | None = None) -> None:
        before = self.pending
        if regions is None or before.readers == "block":
            self.pending = Pending("block", before.copies)
        else:
            self.pending = Pending("warp", before.copies, tuple(dict.fromkeys([*before.regions, regions])))

    def copies_start(self) -> None:
        """Records that the first thread has started bulk copies from here to global memory."""
        self.pending = Pending("block", copies=True)

    def several_ways(self, copies: bool) -> bool:
        """Records that several branches meet here, so that the last move may have been any of theirs.

        Returns whether bulk copies to global memory may be in flight now.
        copies: whether they may have been started on a branch that has not been lowered yet.
        """
        self.pending = Pending("block", copies=self.pending.copies or copies)
        return self.pending.copies

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Restores the state afterwards."""
        before = (self.bytes, self.largest, self.barriers, self.pending)
        yield
        self.bytes, self.largest, self.barriers, self.pending = before
