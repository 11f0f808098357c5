"""Level 3: races in shared memory, bank conflicts and sectors.

Every warp has a vector clock; barriers, mbarriers, atomics and accesses with an order join them. For every byte of shared
memory the last writer and the last reads of every warp are kept: two accesses by different warps, one of them a write, that
nothing orders are a race. Asynchronous copies and products are accesses of further agents, ordered by mbarriers and waits.

Source: C. Flanagan, S. N. Freund, "FastTrack: Efficient and Precise Dynamic Race Detection", PLDI 2009; CUDA C++ Best Practices
Guide, "Shared Memory and Memory Banks", "Coalesced Access to Global Memory".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .mbarriers import MBarrier
from .memory import GlobalMemory, SharedMemory, Space
from .types import Array

if TYPE_CHECKING:
    from .machine import Machine
    from .scheduler import Cta

Statistics = dict[int, tuple[int, int, int]]
"""PTX line → (executions by warps, passes at least, passes needed)."""
Wait = tuple[int, int]
"""An agent, and its clock when it did something."""


class History:
    """Who touched the bytes of one block's shared memory.

    Agents are the warps, then copies into shared memory, copies out of it, and the products of every warpgroup.
    """

    def __init__(self, machine: Machine, size: int) -> None:
        warps = machine.lanes // 32
        agents = warps + 2 + -(-warps // 4)
        self.clock = np.zeros((agents, agents), np.int64)
        np.fill_diagonal(self.clock, 1)
        self.writer = np.zeros(size, np.int64)
        self.written = np.zeros(size, np.int32)
        self.write_line = np.zeros(size, np.int32)
        self.read = np.zeros((size, agents), np.int32)
        self.read_line = np.zeros(size, np.int32)
        self.addresses: dict[tuple[str, int], Array] = {}

    def join(self, warps: Array) -> None:
        """A barrier among warps: everything before it is ordered before everything behind it."""
        self.clock[warps] = self.clock[warps].max(0)
        self.clock[warps, warps] += 1


class Races:
    """Races and statistics of a machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.conflicts: Statistics = {}
        self.sectors: Statistics = {}
        self.warp = np.arange(machine.lanes) // 32

    def history(self, cta: Cta) -> History:
        found = cta.agents.get("history")
        if not isinstance(found, History):
            found = cta.agents["history"] = History(self.machine, cta.shared.octets.size)
        return found

    def barrier(self, cta: Cta, lanes: Array | None, waiting: Array | None) -> None:
        history = self.history(cta)
        warps = self.machine.lanes // 32
        if lanes is None or waiting is None:
            history.join(np.flatnonzero(cta.live.reshape(-1, 32).any(1)))
            return
        arrived = np.flatnonzero(lanes.reshape(warps, 32).any(1))
        waited = np.flatnonzero(waiting.reshape(warps, 32).any(1))
        if arrived.size:
            seen = history.clock[arrived].max(0)
            history.clock[waited] = np.maximum(history.clock[waited], seen)
            history.clock[arrived, arrived] += 1

    # -- asynchronous agents and mbarriers; blocks of clusters are not followed

    def release(self, cta: Cta, warp: int, barrier: MBarrier) -> None:
        """A warp arrives at an mbarrier."""
        history = self.history(cta)
        barrier.learn(history.clock[warp])
        history.clock[warp, warp] += 1

    def acquire(self, cta: Cta, warp: int, barrier: MBarrier) -> None:
        """A warp saw a phase of an mbarrier end."""
        if barrier.clock is not None:
            history = self.history(cta)
            history.clock[warp] = np.maximum(history.clock[warp], barrier.clock)

    def _follow(self, cta: Cta, warp: int, agent: int) -> None:
        """An asynchronous agent starts something that a warp asked for."""
        history = self.history(cta)
        history.clock[agent] = np.maximum(history.clock[agent], history.clock[warp])
        history.clock[agent, agent] += 1
        history.clock[warp, warp] += 1

    def issue(self, cta: Cta, shared: SharedMemory, warp: int, places: Array) -> None:
        """A bulk copy into shared memory starts."""
        if self.machine.cluster_size == 1:
            agent = self.machine.lanes // 32
            self._follow(cta, warp, agent)
            self.touch(cta, places, np.full(places.size, agent), True)

    def complete(self, cta: Cta, shared: SharedMemory, barrier: MBarrier) -> None:
        """A bulk copy into shared memory has landed."""
        barrier.learn(self.history(cta).clock[self.machine.lanes // 32])

    def read_by(
        self, cta: Cta, shared: SharedMemory, warp: int, places: Array, warpgroup: int | None
    ) -> Wait:
        """A bulk copy out of shared memory, or a product of a warpgroup, starts. Gives what waiting for it teaches."""
        if self.machine.cluster_size > 1:
            return 0, 0
        agent = self.machine.lanes // 32 + (1 if warpgroup is None else 2 + warpgroup)
        self._follow(cta, warp, agent)
        self.touch(cta, places, np.full(places.size, agent), False)
        return agent, int(self.history(cta).clock[agent, agent])

    def caught_up(self, cta: Cta, warps: Array, wait: Wait) -> None:
        """Warps have waited for what an agent did until then."""
        clock = self.history(cta).clock
        clock[warps, wait[0]] = np.maximum(clock[warps, wait[0]], wait[1])

    def word(self, shared: SharedMemory, offset: int, warp: int, write: bool) -> None:
        """An mbarrier is made, or used; uses do not race with each other."""
        cta = self.machine.cta
        if shared is cta.shared and self.machine.cluster_size == 1:
            self.touch(cta, offset + np.arange(8), np.full(8, warp), write)

    def access(
        self, space: Space, offset: Array, size: int, lanes: Array | None, write: bool, ordered: bool
    ) -> None:
        """An access of lanes; `offset` in bytes. Atomics and accesses with an order make edges, they do not race."""
        warps = self.warp if lanes is None else self.warp[lanes]
        if ordered:
            self._order(space, offset, warps)
        if isinstance(space, GlobalMemory):
            self._count(self.sectors, self._sector_passes(offset, size, warps))
            return
        if not isinstance(space, SharedMemory):
            return
        self._count(self.conflicts, self._bank_passes(offset, size, warps))
        cta = self.machine.cta
        if space is cta.shared and not ordered and self.machine.cluster_size == 1:
            places = offset.astype(np.int64)[:, None] + np.arange(size)
            self.touch(cta, places.reshape(-1), np.repeat(warps, size), write)

    def _order(self, space: Space, offset: Array, warps: Array) -> None:
        """Warps that access an address this way, one after the other, know what those before them knew."""
        history = self.history(self.machine.cta)
        for place, warp in dict.fromkeys(zip(offset.tolist(), warps.tolist(), strict=True)):
            known = history.addresses.get((space.kind, place))
            if known is not None:
                history.clock[warp] = np.maximum(history.clock[warp], known)
            history.addresses[space.kind, place] = history.clock[warp].copy()
            history.clock[warp, warp] += 1

    def touch(self, cta: Cta, places: Array, agents: Array, write: bool) -> None:
        """Check and note accesses to bytes."""
        history = self.history(cta)
        line = self.machine.instruction_at(self.machine.scheduler.pc).line
        clock = history.clock
        writer, written = history.writer[places], history.written[places]
        race = (writer != agents) & (written > clock[agents, writer])
        if np.count_nonzero(race):
            first = int(np.flatnonzero(race)[0])
            place = int(places[first])
            self._report(
                write,
                place,
                int(agents[first]),
                "written",
                int(writer[first]),
                int(history.write_line[place]),
            )
        if write:
            reads = history.read[places] > clock[agents]
            reads[np.arange(places.size), agents] = False
            if np.count_nonzero(reads):
                first = int(np.flatnonzero(reads.any(1))[0])
                other = int(np.flatnonzero(reads[first])[0])
                place = int(places[first])
                self._report(write, place, int(agents[first]), "read", other, int(history.read_line[place]))
            history.writer[places] = agents
            history.written[places] = clock[agents, agents]
            history.write_line[places] = line
        else:
            history.read[places, agents] = clock[agents, agents]
            history.read_line[places] = line

    def _report(
        self, write: bool, place: int, agent: int, other_verb: str, other: int, other_line: int
    ) -> None:
        warps = self.machine.lanes // 32

        def name(index: int) -> str:
            kinds = ["a bulk copy", "a bulk copy", *["a product"] * index]
            return kinds[index - warps] if index >= warps else f"warp {index}"

        verb = "writes" if write else "reads"
        message = (
            f"{name(agent)} {verb} shared byte {place}, {other_verb} by {name(other)} at PTX line {other_line}; "
            "no barrier orders them"
        )
        self.machine.violation("race", message, [32 * agent] if agent < warps else [])

    # -- statistics

    def _count(self, table: Statistics, passes: tuple[int, int, int]) -> None:
        line = self.machine.instruction_at(self.machine.scheduler.pc).line
        old = table.get(line, (0, 0, 0))
        table[line] = (old[0] + passes[0], old[1] + passes[1], old[2] + passes[2])

    def _bank_passes(self, offset: Array, size: int, warps: Array) -> tuple[int, int, int]:
        together = 32 if size <= 4 else 32 * 4 // size
        executions = least = needed = 0
        for warp in np.unique(warps).tolist():
            own = offset[warps == warp].astype(np.int64)
            executions += 1
            for start in range(0, own.size, together):
                words = own[start : start + together, None] // 4 + np.arange(-(-size // 4))
                least += 1
                needed += _passes(words.reshape(-1))
        return executions, least, needed

    def _sector_passes(self, offset: Array, size: int, warps: Array) -> tuple[int, int, int]:
        executions = least = touched = 0
        for warp in np.unique(warps).tolist():
            own = offset[warps == warp].astype(np.int64)
            sectors = np.unique(own[:, None] // 32 + np.arange(-(-size // 32)))
            octets = np.unique(own).size * size
            executions += 1
            least += -(-octets // 32)
            touched += sectors.size
        return executions, least, touched


def _passes(words: Array) -> int:
    """How often the banks must be read: the largest number of different words in one bank."""
    return int(np.bincount(np.unique(words) % 32, minlength=32).max())
