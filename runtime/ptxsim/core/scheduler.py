"""Decides which lanes run next: groups of lanes that share a program counter, smallest first.

A group runs until a control instruction, or until it meets another group, with which it merges. Groups that jump backwards
often, or that poll, yield to the others of their block, so that spin locks between lanes and between warps end; a block that
makes no progress yields to the other blocks. Instructions of whole warps wait for the lanes that are missing (`converge`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from ....promotion.arrays import Array
from ..checks.findings import Fault, Finding, PtxCheckError
from .blocks import Control, Cta, Group
from .types import Mask, Step

QUANTUM = 1000
"""How many backward jumps a group makes before others of its block may run."""
YIELD_AFTER = 1 << 15
"""How many backward jumps a block makes before another block may run."""
SOFT_POLLS = 32
"""How many loads of an unchanged value, or atomics without a change, make a loop count as polling."""


class Program(ABC):
    """The program that a scheduler runs, and the callbacks that it makes.

    Attributes:
        lanes: per block.  budget: the limit on executed instructions of blocks.
        code, control: the step of each program counter, or the control instruction that is there instead.
        stops: for each program counter the next control instruction.
        changes: grows whenever a waiting thread may be able to go on.
        soft_polls, hard_poll: how often loops have read memory that does not change, and whether they wait explicitly.
    """

    def __init__(self, lanes: int, budget: int) -> None:
        self.lanes, self.budget = lanes, budget
        self.code: list[Step] = []
        self.control: dict[int, Control] = {}
        self.stops: list[int] = []
        self.changes = 0
        self.soft_polls = 0
        self.hard_poll = False
        self.findings: list[Finding] = []

    @property
    def end(self) -> int:
        return len(self.code)

    @abstractmethod
    def finding(
        self, kind: str, message: str, pc: int, cta: tuple[int, int, int], lanes: tuple[int, ...] = (), warning: bool = False
    ) -> Finding:
        """Makes a finding at a program counter."""

    @abstractmethod
    def ending(self, cta: Cta, mask: Mask) -> None:
        """Called when lanes are about to exit."""

    @abstractmethod
    def lanes_ended(self, cta: Cta) -> None:
        """Called when lanes have exited."""

    @abstractmethod
    def synchronised(self, cta: Cta, lanes: Array | None, waiting: Array | None) -> None:
        """Called when a barrier phase of these lanes ended, of which some waited; None for all lanes."""

    @abstractmethod
    def wake(self, cta: Cta) -> bool:
        """Completes one pending asynchronous operation; returns whether there was one."""


class Scheduler:
    """Runs the blocks of a machine."""

    def __init__(self, machine: Program) -> None:
        self.machine = machine
        self.executed = 0
        self.runs: dict[tuple[int, int], int] = {}
        self.retries: dict[int, int] = {}
        self.pc = 0
        self.mask: Mask = None

    # -- groups

    def group(self, pc: int, mask: Array, iteration: int = 0) -> Group:
        count = int(np.count_nonzero(mask))
        return Group(pc, None if count == self.machine.lanes else mask, count, iteration)

    def merge(self, into: Group, other: Group) -> None:
        mask = self.mask_of(into) | self.mask_of(other)
        into.count = int(np.count_nonzero(mask))
        into.mask = None if into.count == self.machine.lanes else mask
        into.iteration = min(into.iteration, other.iteration)
        into.polling = into.polling and other.polling

    def mask_of(self, group: Group) -> Array:
        return group.lanes(self.machine.lanes)

    def split(self, group: Group, chosen: Array, count: int) -> Group:
        """Takes the chosen lanes out of a group; returns them as a new one at the same program counter."""
        taken = Group(group.pc, chosen, count, group.iteration)
        group.mask = ~chosen if group.mask is None else group.mask & ~chosen
        group.count -= count
        return taken

    def pick(self, groups: list[Group]) -> tuple[Group, int]:
        """Returns the group to run and the program counter at which it meets another one."""
        best = groups[0]
        if len(groups) == 1:
            return best, self.machine.end
        for group in groups:
            if (group.iteration, group.pc) < (best.iteration, best.pc):
                best = group
        limit = self.machine.end
        for group in groups[:]:
            if group is best:
                continue
            if group.pc == best.pc:
                self.merge(best, group)
                groups.remove(group)
            elif group.pc > best.pc:
                limit = min(limit, group.pc)
        return best, limit

    # -- running

    def run(self, cta: Cta) -> Iterator[str]:
        """Runs a block. Yields "stalled" when it waits for others, "quantum" when it has run for long."""
        machine = self.machine
        while cta.live_count:
            groups = cta.groups
            if not groups:
                if machine.wake(cta):
                    continue
                if cta.parked and not any(cta.waiting.values()):
                    self.report_divergence(cta)
                yield "stalled"
                if not cta.groups and cta.parked and not machine.wake(cta):
                    self.report_divergence(cta)
                continue
            if groups[0].polling and all(group.polling for group in groups):
                if machine.changes == cta.seen_changes and not machine.wake(cta):
                    yield "stalled"
                cta.seen_changes = machine.changes
                for group in groups:
                    group.polling = False
            group, limit = self.pick(groups)
            group.polling = False
            self.advance(cta, group, limit)
            if cta.quantum_over:
                cta.quantum_over = False
                yield "quantum"
        cta.done = True

    def advance(self, cta: Cta, group: Group, limit: int) -> None:
        machine = self.machine
        code, control, stops, runs = machine.code, machine.control, machine.stops, self.runs
        try:
            while True:
                start = group.pc
                stop = stops[start]
                if stop > limit:
                    stop = limit
                mask = group.mask
                for pc in range(start, stop):
                    self.pc = pc
                    code[pc](mask)
                self.executed += stop - start + 1
                runs[(start, stop)] = runs.get((start, stop), 0) + 1
                group.pc = stop
                if stop == limit:
                    return
                if self.executed > machine.budget:
                    raise Fault("budget", f"more than {machine.budget} instructions of blocks were executed")
                self.pc = stop
                self.mask = mask
                if not control[stop](group) or group.pc >= limit:
                    return
        except Fault as fault:
            lanes = fault.lanes
            if not lanes and group.mask is not None:
                lanes = tuple(int(lane) for lane in np.flatnonzero(group.mask)[:1])
            finding = machine.finding(fault.kind, fault.message, self.pc, cta.ctaid, lanes)
            raise PtxCheckError([finding, *machine.findings]) from None

    def backward(self, cta: Cta, group: Group) -> bool:
        """Decides after a jump to a smaller program counter whether the group may go on."""
        machine = self.machine
        group.jumps += 1
        if machine.hard_poll or machine.soft_polls >= SOFT_POLLS:
            machine.hard_poll = False
            machine.soft_polls = 0
            group.polling = True
            group.iteration += 1
            return False
        if group.jumps % QUANTUM == 0:
            if len(cta.groups) > 1:
                group.iteration += 1
                return False
            if group.jumps % YIELD_AFTER == 0:
                cta.quantum_over = True
                return False
        return True

    # -- lanes that wait or end

    def exit(self, cta: Cta, group: Group) -> None:
        """Ends the lanes of a group."""
        machine = self.machine
        machine.ending(cta, group.mask)
        if group.mask is None:
            cta.live[:] = False
        else:
            cta.live &= ~group.mask
        cta.live_count = int(np.count_nonzero(cta.live))
        cta.groups.remove(group)
        cta.groups += cta.parked
        cta.parked = []
        for barrier in list(cta.barriers.values()):
            barrier.check(cta, machine.synchronised)
        machine.lanes_ended(cta)

    def converge(self, cta: Cta, group: Group, members: Array | None, warps: int = 1) -> Group | None:
        """Brings the lanes together that an instruction needs: the live ones of its member mask, or of
        `warps` whole warps.

        Returns the group without the incomplete warps, which wait; None if no warp is complete.
        """
        for parked in [p for p in cta.parked if p.pc == group.pc]:
            self.merge(group, parked)
            cta.parked.remove(parked)
        here = self.mask_of(group)
        executing = np.packbits(here, bitorder="little").view(np.uint32)
        needed = np.packbits(cta.live, bitorder="little").view(np.uint32)
        if members is None:
            missing = (needed & ~executing) != 0
            if warps > 1:
                padded = np.append(missing, np.zeros(-missing.size % warps, np.bool_)).reshape(-1, warps)
                missing = np.repeat(padded.any(1), warps)[: missing.size]
            incomplete = np.repeat(missing, 32) & here
        else:
            lane_bit = np.uint32(1) << (np.arange(here.size, dtype=np.uint32) & np.uint32(31))
            outside = here & ((members & lane_bit) == 0)
            if np.count_nonzero(outside):
                raise Fault(
                    "member mask",
                    "a lane that executes this is not in its member mask",
                    np.flatnonzero(outside),
                )
            incomplete = here & ((members & np.repeat(needed & ~executing, 32)) != 0)
        count = int(np.count_nonzero(incomplete))
        if not count:
            return group
        if count == group.count:
            cta.groups.remove(group)
            cta.parked.append(group)
            self.executed -= 1  # it counts when the other lanes have arrived
            self.retries[group.pc] = self.retries.get(group.pc, 0) + 1
            return None
        cta.parked.append(self.split(group, incomplete, count))
        return group

    def report_divergence(self, cta: Cta) -> None:
        group = min(cta.parked, key=lambda g: g.pc)
        lanes = np.flatnonzero(self.mask_of(group))[:8]
        message = (
            "only some lanes of a warp reach this instruction of the whole warp; the others wait elsewhere"
        )
        machine = self.machine
        finding = machine.finding(
            "divergence", message, group.pc, cta.ctaid, tuple(int(lane) for lane in lanes)
        )
        raise PtxCheckError([finding, *machine.findings])
