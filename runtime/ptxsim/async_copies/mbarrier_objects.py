"""Defines the mbarrier objects, which are kept beside the bytes of shared memory; the bytes hold a pattern."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ....promotion.arrays import Array
from ..checks.findings import Fault

MAX_COUNT = (1 << 20) - 1


class Counter(Protocol):
    """The machine that runs a block: it counts changes that polling lanes may see."""

    changes: int


class MBarrier:
    """An mbarrier object: expected arrivals, pending arrivals, pending bytes, and the phase.

    `lane` initialised it. `fenced`: whether that lane has made it visible to the asynchronous proxy since. For level 3, see
    `history`: `made` and `fenced_at` are stamps of these events; `agent` stands for the copies whose bytes it counts, with the
    stamps base + 1, base + 2, … of its phases; `arriving` joins what all lanes that have arrived knew, and `clock`
    is what a lane learns by waiting for the last phase.
    """

    def __init__(self, count: int, lane: int = 0) -> None:
        self.expected = count
        self.pending = count
        self.bytes = 0
        self.phase = 0
        self.lane = lane
        self.fenced = False
        self.made = self.fenced_at = self.agent = self.base = 0
        self.arriving: Array | None = None
        self.clock: Array | None = None

    def check(self, machine: Counter) -> None:
        if self.pending == 0 and self.bytes == 0:
            self.phase += 1
            self.pending = self.expected
            self.clock = self.arriving
        machine.changes += 1

    def arrive(self, machine: Counter, count: int) -> int:
        state = (self.phase << 20) | self.pending
        if count > self.pending:
            raise Fault(
                "mbarrier",
                f"{count} arrivals where {self.pending} of {self.expected} are pending in this phase",
            )
        self.pending -= count
        self.check(machine)
        return state

    def add_bytes(self, machine: Counter, count: int) -> None:
        self.bytes += count
        if abs(self.bytes) > MAX_COUNT:
            raise Fault("mbarrier", f"a count of {self.bytes} bytes; at most {MAX_COUNT}")
        self.check(machine)

    def teach(self, row: Array) -> None:
        self.arriving = row if self.arriving is None else np.maximum(self.arriving, row)
