"""Shared memory of a block: one dynamic buffer that moves take turns in, with barriers only where one follows another."""

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
    """What each warp touches in a move within warps, in bytes: start + any combination of `inside`, XOR those of `warps` that
    stand for the set bits of its number."""

    start: int
    inside: tuple[int, ...]
    warps: tuple[int, ...]

    def are_apart(self, other: WarpRegions) -> bool:
        """Whether what one warp touches here no other one touches there."""
        if self.start != other.start:
            return False
        both = Span((*self.inside, *other.inside))
        own, theirs = ([both.reduce(each)[0] for each in regions.warps] for regions in (self, other))
        return own == theirs and all(map(both.add, own))


@dataclass(frozen=True, slots=True)
class Pending:
    """What may still go on with memory that moves use. readers: "warp" or "block", who may still read what was exchanged last.
    copies: whether bulk copies to global memory, which the first thread has started, may be on their way. regions: of warps
    that may still read, those of all moves since the last barrier."""

    readers: str = ""
    copies: bool = False
    regions: tuple[WarpRegions, ...] = ()


class SharedMemory:
    """Emits accesses to the buffer of a block. `bytes`: what the kernel needs of it."""

    def __init__(self, threads: Threads) -> None:
        self.t = threads
        self.f: Function = threads.f
        self.bytes = 0
        self.largest = 0  # what one move has needed at most
        self._floor = 0  # what lies below belongs to a loop
        self.barriers = 0
        self.others = False  # whether there are threads that never come to barriers
        self.pending = Pending()

    def reserve(self, size: int) -> V:
        """Memory for one move; the next one may have the same."""
        self.bytes = max(self.bytes, self._floor + size)
        self.largest = max(self.largest, size)
        return self.at(self.buffer(), i32(self._floor))

    def buffer(self) -> Global:
        """The shared memory of the launch, which is declared on first use."""
        self.f.module.globals.setdefault(
            BUFFER, f"@{BUFFER} = external addrspace(3) global [0 x i8], align {ALIGNMENT}"
        )
        return Global(BUFFER, "ptr addrspace(3)")

    @property
    def is_used(self) -> bool:
        """Whether moves have used memory that is not kept."""
        return self.bytes > self._floor

    def room(self, limit: int) -> int:
        """Bytes that are left of a limit for a loop to keep, with as much again as moves have needed so far."""
        return limit - self._floor - max(self.bytes - self._floor, 0)

    @contextmanager
    def kept(self, size: int) -> Iterator[V]:
        """Memory that moves leave alone as long as this is open."""
        start = self._floor
        self._floor += -(-size // ALIGNMENT) * ALIGNMENT
        self.bytes = max(self.bytes, self._floor)
        yield self.at(self.buffer(), i32(start))
        self._floor = start

    def at(self, base: V, offset: V) -> V:
        """An address, `offset` bytes (i32) from the base."""
        if is_integer(offset, 0):
            return base
        if isinstance(base, Global) and isinstance(offset.printed(), ConstantInt):  # a constant, which is known everywhere
            return V(f"getelementptr (i8, ptr addrspace(3) {base.operand()}, i32 {offset.operand()})", base.type)
        text = f"getelementptr i8, ptr addrspace(3) {base.operand()}, i32 {offset.operand()}"
        return self.f.pure(text, "ptr addrspace(3)")

    def address(self, base: V, thread: V, constant: int, thread_bits: int) -> V:
        """base + (thread ^ constant), where `thread` has no other bits than these: what the constant has beyond them is added
        last, for accesses to take it in."""
        own = self.at(base, self.t.with_constant(thread, constant & thread_bits, thread_bits))
        return self.at(own, i32(constant & ~thread_bits))

    def barrier(self) -> None:
        """All threads of the block: memory is in order afterwards."""
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
        """The thread that has started bulk copies to global memory waits for them. reading: until they have read what they
        copy."""
        if self.pending.copies:
            with self.f.when(self.t.is_first()):
                self.t.call(f"cp.async.bulk.wait.group{'.read' if reading else ''}", [i32(0)], "void")

    def regions(self, inside: Sequence[int], warps: Sequence[int]) -> WarpRegions:
        """Those of the next move."""
        return WarpRegions(self._floor, tuple(inside), tuple(warps))

    def before_writing(self, regions: WarpRegions | None = None) -> None:
        """Wait until nobody reads what the last move left. regions: of a move within warps."""
        before = self.pending.regions
        only_warps = regions is not None and self.pending == Pending("warp", regions=before)
        if regions is not None and only_warps and all(map(regions.are_apart, before)):
            self.t.call("bar.warp.sync", [ALL_LANES], "void")
        elif self.pending.readers:
            self.barrier()

    def between(self, warp_local: bool = False) -> None:
        """Wait until everybody has written."""
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
        """The first thread has started bulk copies from here to global memory."""
        self.pending = Pending("block", copies=True)

    def several_ways(self, copies: bool) -> bool:
        """Notes that several branches meet here, so that the last move may have been any of theirs. Returns whether bulk copies
        to global memory may be in flight now.

        copies: whether they may have been started on a branch that has not been lowered yet.
        """
        self.pending = Pending("block", copies=self.pending.copies or copies)
        return self.pending.copies

    @contextmanager
    def trial(self) -> Iterator[None]:
        """What happens inside leaves no trace."""
        before = (self.bytes, self.largest, self.barriers, self.pending)
        yield
        self.bytes, self.largest, self.barriers, self.pending = before
