"""Finds, at level 3, races in shared memory and between its proxies.

Two accesses to a byte, one of them a write, are a race if no barrier, mbarrier, wait or atomic orders them, whether lanes make
them or operations that lanes have started: copies and products access memory from their start until some lane has waited for
them. What ordinary stores wrote becomes visible to the asynchronous proxy by a fence of the writing lane, between the store and
the barrier after which the asynchronous access starts; see `history`. Blocks of clusters are not checked.

Source: PTX ISA, "Memory Consistency Model", "Async proxy", "Parallel Synchronization and Communication Instructions".
"""

from __future__ import annotations

import numpy as np

from ....promotion.arrays import Array
from ..async_copies.mbarrier_objects import MBarrier
from ..core.blocks import Cta
from ..core.state import MachineState
from ..memory.spaces import GlobalMemory, SharedMemory, Space
from .history import PENDING, History
from .traffic import Traffic

Wait = tuple[int, int]
"""An agent, and its stamp when it started an operation."""
_MAX_BYTES = 1 << 16
"""Accesses are checked in parts of at most this many bytes."""


class Races:
    """Finds the races of a machine, and keeps statistics of its memory traffic."""

    def __init__(self, machine: MachineState) -> None:
        self.machine = machine
        self.traffic = Traffic()
        self.lanes = np.arange(machine.lanes)
        self.follows = machine.cluster_size == 1

    def history(self, cta: Cta) -> History:
        found = cta.agents.get("history")
        if not isinstance(found, History):
            found = cta.agents["history"] = History(self.machine.lanes, cta.shared.octets.size)
        return found

    # -- barriers among lanes

    def barrier(self, cta: Cta, lanes: Array | None, waiting: Array | None) -> None:
        """Ends a barrier's phase: the waiting lanes learn what the lanes that arrived have done. None stands
        for all lanes."""
        history = self.history(cta)
        if lanes is None or waiting is None:
            history.meet(np.flatnonzero(cta.live))
            return
        arrived, waited = np.flatnonzero(lanes), np.flatnonzero(waiting)
        if arrived.size:
            row = history.publish(arrived)
            history.learn(waited, row)

    def warp_barrier(self, cta: Cta, lanes: Array, members: Array) -> None:
        """Executes bar.warp.sync: lanes of a warp with the same member mask synchronise."""
        history = self.history(cta)
        for key in np.unique((lanes // 32) << 32 | members.astype(np.int64)).tolist():
            history.meet(lanes[((lanes // 32) << 32 | members) == key])

    # -- mbarriers

    def made(self, cta: Cta, lane: int, offset: int, barrier: MBarrier) -> None:
        """Records the initialisation of an mbarrier, which is an ordinary write."""
        history = self.history(cta)
        barrier.agent = history.column(offset)
        barrier.base = int(history.started[barrier.agent])
        self._object_written(cta, lane, offset)
        barrier.made = int(history.stamp[lane // 32])

    def removed(self, cta: Cta, lane: int, offset: int, barrier: MBarrier) -> None:
        """Records mbarrier.inval, a write after which the mbarrier may not be used."""
        history = self.history(cta)
        history.started[barrier.agent] = barrier.base + barrier.phase + 1
        self._object_written(cta, lane, offset)

    def _object_written(self, cta: Cta, lane: int, offset: int) -> None:
        if self.follows:
            self._write(cta, offset + np.arange(8), np.full(8, lane))

    def used(self, cta: Cta, lanes: Array, shared: SharedMemory, offset: int, barrier: MBarrier) -> None:
        """Records that lanes arrive at an mbarrier or test it; such uses race not with each other, but with
        its initialisation."""
        if not self.follows or shared is not cta.shared:
            return
        history = self.history(cta)
        if (history.known[lanes, barrier.lane] < barrier.made).any():
            bad = lanes[history.known[lanes, barrier.lane] < barrier.made]
            text = f"lane {bad[0]} uses the mbarrier at {offset:#x}, made by lane {barrier.lane}"
            self.machine.violation("race", f"{text}; no barrier orders them", bad)
        offsets = offset + np.arange(8)
        history.lanes_read(np.tile(offsets, lanes.size), np.repeat(lanes, 8), self._line())

    def release(self, cta: Cta, lane: int, barrier: MBarrier) -> None:
        """Records that a lane arrives at an mbarrier."""
        barrier.teach(self.history(cta).publish(np.array([lane])))

    def acquire(self, cta: Cta, lanes: Array, barrier: MBarrier) -> None:
        """Records that lanes saw a phase of an mbarrier end."""
        history = self.history(cta)
        if barrier.clock is not None:
            history.learn(lanes, barrier.clock)
        if barrier.phase:
            history.learn_one(lanes, barrier.agent, barrier.base + barrier.phase)

    # -- what lanes start

    def copy_in(self, cta: Cta, lane: int, offsets: Array, barrier: MBarrier) -> None:
        """Records the start of a bulk copy into shared memory, whose bytes an mbarrier counts in its current
        phase."""
        if not self.follows:
            return
        history = self.history(cta)
        known = history.known[lane]
        self._report_writes(cta, "a bulk copy writes", offsets, history.race_with_write(offsets, known))
        self._report_reads(cta, "a bulk copy writes", offsets, *history.race_with_read(offsets, lane))
        bad = offsets[history.invisible(offsets, known)]
        if bad.size:
            text = f"a bulk copy to shared byte {bad[0]}, which ordinary stores wrote, without fence.proxy.async by the writer"
            self.machine.violation("proxy", f"{text} before the barrier between them", [lane])
        history.wrote(offsets, barrier.agent, barrier.base + barrier.phase + 1, self._line(), True)

    def knows_fence(self, cta: Cta, lane: int, barrier: MBarrier) -> bool:
        """Returns whether the fence after an mbarrier's initialisation happens before the lane's next access."""
        return not self.follows or int(self.history(cta).known[lane, barrier.lane]) >= barrier.fenced_at

    def fence_stamp(self, cta: Cta, lane: int) -> int:
        return int(self.history(cta).stamp[lane // 32])

    def copy_out(self, cta: Cta, lane: int, offsets: Array) -> Wait:
        """Records the start of a bulk copy out of shared memory. Returns what a lane learns by waiting for it."""
        if not self.follows:
            return 0, 0
        history = self.history(cta)
        known = history.known[lane]
        agent = history.store_agent(lane)
        self._asynchronous_read(cta, "a bulk copy", offsets, known, [lane])
        return agent, history.agent_read(offsets, agent, self._line())

    def product(self, cta: Cta, warpgroup: int, offsets: Array) -> list[Wait]:
        """Records that a product of a warpgroup starts to read shared memory. Returns what each warp learns
        by waiting for it."""
        if not self.follows:
            return []
        history = self.history(cta)
        lanes = self.lanes[128 * warpgroup : 128 * warpgroup + 128]
        self._asynchronous_read(cta, "a product", offsets, history.known[lanes].min(0), lanes.tolist())
        line = self._line()
        agents = range(history.products + 4 * warpgroup, history.products + 4 * warpgroup + 4)
        return [(agent, history.agent_read(offsets, agent, line)) for agent in agents]

    def _asynchronous_read(self, cta: Cta, who: str, offsets: Array, known: Array, lanes: list[int]) -> None:
        history = self.history(cta)
        self._report_writes(cta, f"{who} reads", offsets, history.race_with_write(offsets, known))
        bad = offsets[history.invisible(offsets, known)]
        if bad.size:
            stored = self._position(history.write_line[bad[0]])
            text = f"{who} reads shared byte {bad[0]}, written by ordinary stores at {stored}"
            self.machine.violation("proxy", f"{text}; the writer made no fence.proxy.async before a barrier between", lanes)

    def product_done(self, cta: Cta, warpgroup: int, waits: list[Wait]) -> None:
        """Records that the warps of a warpgroup have waited for a product, each for its part."""
        history = self.history(cta)
        for number, (agent, stamp) in enumerate(waits):
            first = 128 * warpgroup + 32 * number
            history.learn_one(self.lanes[first : first + 32], agent, stamp)

    def copied_out(self, cta: Cta, lane: int, wait: Wait) -> None:
        """Records that a lane has waited for a bulk copy out of shared memory."""
        if self.follows:
            self.history(cta).learn_one(np.array([lane]), *wait)

    def lanes_copy(self, cta: Cta, shared: SharedMemory, offsets: Array, lanes: Array) -> None:
        """Records the start of cp.async, which writes bytes, one for each of the lanes, until it is waited for."""
        if self.follows and shared is cta.shared:
            self.history(cta).wrote(offsets, lanes, PENDING, self._line(), False)

    def landed(self, cta: Cta, shared: SharedMemory, offsets: Array, lanes: Array) -> None:
        """Records that cp.async has written bytes for lanes that waited."""
        if self.follows and shared is cta.shared:
            self.history(cta).landed(offsets, lanes)

    def fence(self, cta: Cta, lanes: Array) -> None:
        if self.follows:
            self.history(cta).fence(lanes)

    # -- accesses of lanes

    def access(
        self, space: Space, offset: Array, size: int, lanes: Array | None, write: bool, ordered: bool
    ) -> None:
        """Checks and records an access of lanes; `offset` in bytes. Atomics and accesses with an ordering
        synchronise and do not race."""
        who = self.lanes if lanes is None else lanes
        if ordered:
            self._order(space, offset, who)
        if isinstance(space, GlobalMemory):
            self.traffic.count_sectors(self._line(), offset, size, who // 32)
            return
        if not isinstance(space, SharedMemory):
            return
        self.traffic.count_banks(self._line(), offset, size, who // 32)
        cta = self.machine.cta
        if space is cta.shared and not ordered and self.follows:
            step = max(_MAX_BYTES // size, 1)
            for start in range(0, offset.size, step):
                part = offset[start : start + step].astype(np.int64)[:, None] + np.arange(size)
                agents = np.repeat(who[start : start + step], size)
                (self._write if write else self._read)(cta, part.reshape(-1), agents)

    def _order(self, space: Space, offset: Array, lanes: Array) -> None:
        """Passes knowledge on between lanes that access an address with an ordering, one after the other."""
        history = self.history(self.machine.cta)
        for start in np.unique(offset).tolist():
            here = np.unique(lanes[offset == start])
            known = history.addresses.get((space.kind, start))
            if known is not None:
                history.learn(here, known)
            history.addresses[space.kind, start] = history.publish(here)

    def _read(self, cta: Cta, offsets: Array, lanes: Array) -> None:
        history = self.history(cta)
        bad = history.lanes_race_with_write(offsets, lanes)
        if bad.size:
            self._report_writes(cta, f"lane {lanes[bad[0]]} reads", offsets, bad, lanes[bad])
        history.lanes_read(offsets, lanes, self._line())

    def _write(self, cta: Cta, offsets: Array, lanes: Array) -> None:
        history = self.history(cta)
        bad = history.lanes_race_with_write(offsets, lanes)
        if bad.size:
            self._report_writes(cta, f"lane {lanes[bad[0]]} writes", offsets, bad, lanes[bad])
        bad, readers = history.lanes_race_with_read(offsets, lanes)
        if bad.size:
            self._report_reads(cta, f"lane {lanes[bad[0]]} writes", offsets, bad, readers, lanes[bad])
        history.lanes_wrote(offsets, lanes, self._line())

    # -- reports

    def _position(self, line: int) -> str:
        return self.machine.position_of(int(line))

    def _line(self) -> int:
        return self.machine.instruction_at(self.machine.scheduler.pc).line

    def _report_writes(
        self, cta: Cta, what: str, offsets: Array, bad: Array, lanes: Array | None = None
    ) -> None:
        if not bad.size:
            return
        history, offset = self.history(cta), int(offsets[bad[0]])
        writer = int(history.writer[offset])
        who = f"lane {writer}" if writer < history.lanes else "a bulk copy"
        self._report(what, offset, f"written by {who}", int(history.write_line[offset]), lanes)

    def _report_reads(
        self, cta: Cta, what: str, offsets: Array, bad: Array, readers: Array, lanes: Array | None = None
    ) -> None:
        if not bad.size:
            return
        history, offset, reader = self.history(cta), int(offsets[bad[0]]), int(readers[0])
        kinds = [f"warp {reader}", f"the part of warp {reader - history.warps} of a product", "a bulk copy"]
        who = kinds[min(reader // history.warps, 2)]
        self._report(what, offset, f"read by {who}", int(history.read_line[offset]), lanes)

    def _report(self, what: str, offset: int, other: str, line: int, lanes: Array | None) -> None:
        text = f"{what} shared byte {offset}, {other} at {self._position(line)}; no barrier orders them"
        self.machine.violation("race", text, () if lanes is None else np.unique(lanes))
