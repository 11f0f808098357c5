"""Defines the state of a block that is not in arrays of registers: groups of lanes, and the sixteen barriers.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions: bar, barrier". Arrivals are counted in warps; a warp
has arrived when all its live lanes have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....promotion.arrays import Array
from ..checks.findings import Fault
from ..memory.spaces import SharedMemory
from .types import Mask


class Group:
    """Lanes at one program counter. `mask` is None for all lanes of the block."""

    __slots__ = ("count", "iteration", "jumps", "mask", "pc", "polling")

    def __init__(self, pc: int, mask: Mask, count: int, iteration: int = 0) -> None:
        self.pc = pc
        self.mask = mask
        self.count = count
        self.iteration = iteration
        self.jumps = 0
        self.polling = False

    def lanes(self, count: int) -> Array:
        """Returns which of the block's lanes are in the group."""
        return np.ones(count, np.bool_) if self.mask is None else self.mask


Control = Callable[[Group], bool]
"""Executes a control instruction and moves the group's pc; False when the scheduler must choose again."""
Finish = Callable[[Array, Array], None]
"""Called when a phase ends, with all lanes that arrived and those that wait."""
Synchronised = Callable[["Cta", Array | None, Array | None], None]
"""Called when a phase has ended, with the block, all lanes that arrived and those that waited; None for all lanes."""


class Barrier:
    """One of a block's barriers, in one phase. `expected`: the number of threads; None for all live ones."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.kind = ""
        self.expected: int | None = None
        self.lanes: Array | None = None
        self.waiting: list[tuple[Group, Finish | None]] = []
        self.arrived = 0

    def arrive(
        self,
        cta: Cta,
        group: Group,
        kind: str,
        expected: int | None,
        finish: Finish | None,
        synchronised: Synchronised,
    ) -> None:
        """Lets the lanes of a group arrive; all kinds but "arrive" wait, with the group's pc already behind
        the instruction."""
        lanes = cta.live.size
        if self.lanes is None:
            self.lanes = np.zeros(lanes, np.bool_)
            self.expected = expected
            self.kind = kind
        if self.expected != expected:
            raise Fault(
                "barrier",
                f"barrier {self.number} with {expected} threads; others arrived with {self.expected}",
            )
        if (kind == "red") != (self.kind == "red"):
            raise Fault("barrier", f"barrier {self.number}: bar.red and bar.sync or bar.arrive in one phase")
        mask = group.lanes(cta.live.size)
        twice = mask & self.lanes
        if np.count_nonzero(twice):
            raise Fault(
                "barrier", f"barrier {self.number}: a lane arrives twice in one phase", np.flatnonzero(twice)
            )
        before = _complete_warps(cta, self.lanes)
        self.lanes |= mask
        self.arrived += 32 * int(np.count_nonzero(_complete_warps(cta, self.lanes) & ~before))
        if kind != "arrive":
            cta.groups.remove(group)
            self.waiting.append((group, finish))
        if self.expected is not None and self.arrived > self.expected:
            raise Fault(
                "barrier",
                f"barrier {self.number}: {self.arrived} threads arrived, {self.expected} are expected",
            )
        self.check(cta, synchronised)

    def check(self, cta: Cta, synchronised: Synchronised) -> None:
        """Ends the phase if all expected threads have arrived."""
        if self.lanes is None:
            return
        if self.expected is None:
            if np.count_nonzero(cta.live & ~self.lanes):
                return
        elif self.arrived < self.expected:
            return
        waiting, lanes = self.waiting, self.lanes
        self.lanes, self.waiting, self.arrived = None, [], 0
        released = np.zeros(lanes.size, np.bool_)
        for group, _ in waiting:
            released |= group.lanes(lanes.size)
        for group, finish in waiting:
            if finish is not None:
                finish(lanes, group.lanes(lanes.size))
            group.polling = False
            cta.groups.append(group)
        synchronised(cta, lanes, released)


def _complete_warps(cta: Cta, lanes: Array) -> Array:
    """Returns which warps have a lane among these, and all their live ones."""
    here, live = lanes.reshape(-1, 32), cta.live.reshape(-1, 32)
    return np.asarray(here.any(1) & ~(live & ~here).any(1))


class Cta:
    """The state of one block that is not in arrays of registers."""

    def __init__(
        self, ctaid: tuple[int, int, int], rank: int, shared: SharedMemory, live: Array, entry: int
    ) -> None:
        self.ctaid = ctaid
        self.rank = rank
        self.shared = shared
        self.live = live
        self.live_count = int(np.count_nonzero(live))
        self.groups = [Group(entry, None if live.all() else live.copy(), self.live_count)]
        self.parked: list[Group] = []
        self.barriers: dict[int, Barrier] = {}
        self.waiting: dict[str, list[Group]] = {}
        self.saved: list[Array] | None = None
        self.seen_changes = -1
        self.quantum_over = False
        self.agents: dict[str, Any] = {}
        self.others: list[Cta] = [self]
        self.done = False
