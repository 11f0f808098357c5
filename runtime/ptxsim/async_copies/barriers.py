"""The sixteen barriers of a block.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions: bar, barrier". Arrivals are counted in warps; a warp
has arrived when all its live lanes have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..checks.findings import Fault
from ..core.types import Array

if TYPE_CHECKING:
    from ..core.scheduler import Cta, Group, Scheduler

Finish = Callable[[Array, Array], None]
"""Called with all arrived lanes and with those that wait, when a phase ends."""


class Barrier:
    """One barrier in one phase. `expected`: threads; None for all live ones."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.kind = ""
        self.expected: int | None = None
        self.lanes: Array | None = None
        self.waiting: list[tuple[Group, Finish | None]] = []
        self.arrived = 0

    def arrive(
        self,
        scheduler: Scheduler,
        cta: Cta,
        group: Group,
        kind: str,
        expected: int | None,
        finish: Finish | None,
    ) -> None:
        """The lanes of a group arrive; all but "arrive" wait, with the group's pc already behind the instruction."""
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
        mask = scheduler.mask_of(group)
        twice = mask & self.lanes
        if np.count_nonzero(twice):
            raise Fault(
                "barrier", f"barrier {self.number}: a lane arrives twice in one phase", np.flatnonzero(twice)
            )
        before = self._complete_warps(cta)
        self.lanes |= mask
        self.arrived += 32 * int(np.count_nonzero(self._complete_warps(cta) & ~before))
        if kind != "arrive":
            cta.groups.remove(group)
            self.waiting.append((group, finish))
        if self.expected is not None and self.arrived > self.expected:
            raise Fault(
                "barrier",
                f"barrier {self.number}: {self.arrived} threads arrived, {self.expected} are expected",
            )
        self.check(scheduler, cta)

    def _complete_warps(self, cta: Cta) -> Array:
        assert self.lanes is not None
        here, live = self.lanes.reshape(-1, 32), cta.live.reshape(-1, 32)
        return np.asarray(here.any(1) & ~(live & ~here).any(1))

    def check(self, scheduler: Scheduler, cta: Cta) -> None:
        """End the phase if everyone is there."""
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
            released |= scheduler.mask_of(group)
        for group, finish in waiting:
            if finish is not None:
                finish(lanes, scheduler.mask_of(group))
            group.polling = False
            cta.groups.append(group)
        scheduler.machine.synchronised(cta, lanes, released)
