"""Executes cp.async: copies from global to shared memory that land when they are waited for.

Source: PTX ISA, "Data Movement: Non-bulk copy: cp.async". Until a copy lands, its target holds a pattern and is in flight.
When it lands depends on the policy: "late" at the wait that enforces it, "early" at issue, "random" anywhere between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

import numpy as np

from ....lowering.ptx.syntax import Instruction, Integer, Register
from ....promotion.arrays import Array
from ....promotion.dataclass import dataclass
from ....promotion.errors import UserError
from ..core.binding import Binding
from ..core.blocks import Cta
from ..core.context import MachineContext
from ..core.modifiers import Modifiers
from ..core.types import Mask, Step
from ..memory.access import Router, address_of, hints
from ..memory.spaces import SharedMemory
from .mbarriers import Objects, lanes_of

_IN_FLIGHT = 0xA7
"""The byte that fills the target of a copy while it is in flight."""


@dataclass(slots=True)
class Copy:
    """One instruction's copies: `source` offsets in global memory, `target` offsets in shared memory, and
    `take`, the bytes to read for each.

    `order` numbers the block's instructions that issue copies.
    """

    lanes: Array
    source: Array
    target: Array
    shared: SharedMemory
    size: int
    take: Array
    order: int

    def part(self, chosen: Array) -> Copy:
        """Returns the copies of the chosen lanes."""
        source, target, take = self.source[chosen], self.target[chosen], self.take[chosen]
        return Copy(self.lanes[chosen], source, target, self.shared, self.size, take, self.order)


@dataclass(slots=True)
class CopyQueue:
    """The pending copies of a block, each with its lanes' group numbers, and the arrivals that follow them.

    `committed`: the number of groups that each lane has committed.
    """

    committed: Array
    pending: list[tuple[Copy, Array]] = field(default_factory=list)
    arrivals: list[Callable[[], None]] = field(default_factory=list)
    issued: int = 0


def queue_of(machine: MachineContext, cta: Cta) -> CopyQueue:
    found = cta.agents.get("cp.async")
    if not isinstance(found, CopyQueue):
        found = cta.agents["cp.async"] = CopyQueue(np.zeros(machine.lanes, np.int64))
    return found


def land(machine: MachineContext, copy: Copy, chosen: Array) -> None:
    """Carries out the copies of the chosen lanes."""
    if not np.count_nonzero(chosen):
        return
    source, target, take = copy.source[chosen], copy.target[chosen], copy.take[chosen]
    step = np.arange(copy.size)
    offsets = target.astype(np.int64)[:, None] + step
    source_offsets = source.astype(np.int64)[:, None] + step
    wanted = step < take[:, None]
    octets = np.where(wanted, machine.memory.octets[np.where(wanted, source_offsets, 0)], 0)
    copy.shared.octets[offsets] = octets
    if copy.shared.dirty is not None:
        copy.shared.dirty[offsets] = True
    if machine.races is not None:
        lanes = np.repeat(copy.lanes[chosen], copy.size)
        machine.races.landed(machine.cta, copy.shared, offsets.reshape(-1), lanes)
    if copy.shared.flight is not None and copy.shared.defined is not None:
        copy.shared.flight[offsets] = 0
        known = machine.memory.defined
        copy.shared.defined[offsets] = (
            True if known is None else known[np.where(wanted, source_offsets, 0)] | ~wanted
        )


def deliver(machine: MachineContext, cta: Cta, ready: Array) -> None:
    """Lands, for every pending copy, the lanes whose group number is below their entry in `ready`."""
    queue = queue_of(machine, cta)
    left: list[tuple[Copy, Array]] = []
    for copy, groups in queue.pending:
        chosen = groups < ready[copy.lanes]
        land(machine, copy, chosen)
        if not chosen.all():
            left.append((copy.part(~chosen), groups[~chosen]))
    queue.pending = left


def issue(k: Binding, i: Instruction) -> Step:
    """Builds cp.async.{ca,cg}.shared.global [target], [source], size{, bytes to read | ignored when}{, policy}."""
    modifiers = Modifiers(i)
    modifiers.require("async")
    cache = modifiers.choice(("ca", "cg"))
    modifiers.choice(("shared", "shared::cta"))
    modifiers.require("global")
    policy = hints(modifiers)
    modifiers.done()
    operands = list(i.operands)
    if policy:
        operands.pop()
    if not 3 <= len(operands) <= 4:
        raise UserError(f"{modifiers.where}: {len(i.operands)} operands")
    size = k.constant(operands[2], "a size")
    if size not in ((16,) if cache == "cg" else (4, 8, 16)):
        raise UserError(f"{modifiers.where}: {size} bytes")
    to, source = address_of(k, operands[0]), address_of(k, operands[1])
    take, ignore = None, None
    if len(operands) == 4:
        option = operands[3]
        if isinstance(option, Register) and k.function.registers[option.name] == "pred":
            ignore = k.predicate(option)
        else:
            take = k.full(option, "u32")
    shared, memory = Router(k, "shared"), Router(k, "global", operands[1])
    machine = k.machine
    watch_to = k.watcher(operands[0], [], size, True)
    watch_from = k.watcher(operands[1], [], size, False)
    whole = isinstance(operands[-1], Integer) and len(operands) == 3

    def step(mask: Mask) -> None:
        lanes = np.arange(k.lanes) if mask is None else np.flatnonzero(mask)
        counts = np.full(lanes.size, size, np.int64)
        if take is not None:
            counts = take()[lanes].astype(np.int64)
            if np.count_nonzero(counts > size):
                bad = lanes[counts > size]
                machine.warn("copy size", f"a cp.async that reads more than {size} bytes", bad)
                counts = np.minimum(counts, size)
        elif ignore is not None:
            counts = np.where(ignore()[lanes], 0, size)
        space, _, start, _ = next(shared.parts(to(lanes), lanes))
        assert isinstance(space, SharedMemory)
        target = space.offsets(start, size, lanes, True, shared.site)
        address = source(lanes)
        reading = np.ones(lanes.size, np.bool_) if whole else counts > 0
        offset = np.zeros(lanes.size, np.uint64)
        if np.count_nonzero(reading):
            offset[reading] = _source_offsets(
                machine, memory, address[reading], counts[reading], size, lanes[reading]
            )
        if watch_to is not None and watch_from is not None:
            watch_to(space, target, lanes)
            watch_from(machine.memory, offset[reading & (counts == size)], lanes[reading & (counts == size)])
        queue = queue_of(machine, machine.cta)
        copy = Copy(lanes, offset, target, space, size, counts, queue.issued)
        queue.issued += 1
        offsets = target.astype(np.int64)[:, None] + np.arange(size)
        if machine.races is not None:
            machine.races.lanes_copy(machine.cta, space, offsets.reshape(-1), np.repeat(lanes, size))
        if machine.delivery == "early":
            land(machine, copy, np.ones(lanes.size, np.bool_))
            return
        space.octets[offsets] = _IN_FLIGHT
        if space.flight is not None:
            space.flight[offsets] = 1
        queue.pending.append((copy, queue.committed[lanes].copy()))
        if machine.delivery == "random":
            _sometimes(machine)

    return step


def _source_offsets(
    machine: MachineContext, router: Router, address: Array, counts: Array, size: int, lanes: Array
) -> Array:
    """Returns offsets in global memory. A read of fewer bytes than the copy may end where its buffer ends."""
    full = counts == size
    offset = np.empty(address.size, np.uint64)
    if np.count_nonzero(full):
        offset[full] = machine.memory.offsets(address[full], size, lanes[full], False, router.site)
    for index in np.flatnonzero(~full).tolist():
        offset[index] = machine.memory.one(int(address[index]), int(counts[index]), False, router.site.sources)
    return offset


def _sometimes(machine: MachineContext) -> None:
    """Lands a random part of the pending copies."""
    queue = queue_of(machine, machine.cta)
    left = []
    for copy, groups in queue.pending:
        if machine.random.random() < 0.25:
            land(machine, copy, np.ones(copy.lanes.size, np.bool_))
        else:
            left.append((copy, groups))
    queue.pending = left


def commit(k: Binding, i: Instruction) -> Step:
    modifiers = Modifiers(i)
    modifiers.require("async", "commit_group")
    modifiers.done()
    modifiers.operands(0)
    machine = k.machine

    def step(mask: Mask) -> None:
        queue = queue_of(machine, machine.cta)
        if mask is None:
            queue.committed += 1
        else:
            queue.committed[mask] += 1

    return step


def wait(k: Binding, i: Instruction) -> Step:
    """Builds the waits: wait_group N for all but the newest N groups of the lane, wait_all for all copies,
    committed or not."""
    modifiers = Modifiers(i)
    modifiers.require("async")
    everything = modifiers.choice(("wait_group", "wait_all")) == "wait_all"
    modifiers.done()
    modifiers.operands(0 if everything else 1)
    newest = 0 if everything else k.constant(i.operands[0], "a number of groups")
    machine = k.machine

    def step(mask: Mask) -> None:
        queue = queue_of(machine, machine.cta)
        if not queue.pending:
            return
        ready = queue.committed + 1 if everything else queue.committed - newest
        if mask is not None:
            ready = np.where(mask, ready, 0)
        deliver(machine, machine.cta, ready)

    return step


def arrive(k: Binding, i: Instruction) -> Step:
    """Builds cp.async.mbarrier.arrive: an arrival once the lane's earlier copies have landed; without .noinc
    it also raises the pending count."""
    modifiers = Modifiers(i)
    modifiers.require("async", "mbarrier", "arrive", "b64")
    expected = modifiers.has("noinc")
    space = modifiers.choice(("shared", "shared::cta"), "")
    modifiers.done()
    modifiers.operands(1)
    objects = Objects(k, i, i.operands[0], space)
    machine = k.machine

    def step(mask: Mask) -> None:
        cta = machine.cta
        queue = queue_of(machine, cta)
        issued = queue.issued
        for lane, shared, offset in objects.each(lanes_of(mask, k.lanes)):
            barrier = shared.mbarrier(offset, lane)
            if not expected:
                barrier.pending += 1

            def happen(lane: int = lane, shared: SharedMemory = shared, offset: int = offset) -> None:
                _land_of(machine, queue, issued, lane)
                found = shared.mbarrier(offset, lane)
                if machine.races is not None:
                    machine.races.release(cta, lane, found)
                found.arrive(machine, 1)

            if machine.delivery == "early":
                happen()
            else:
                queue.arrivals.append(happen)

    return step


def _land_of(machine: MachineContext, queue: CopyQueue, issued: int, lane: int) -> None:
    """Lands one lane's part of the copies that were issued before and are still pending."""
    for index, (copy, groups) in enumerate(queue.pending):
        chosen = copy.lanes == lane
        if copy.order < issued and chosen.any():
            land(machine, copy, chosen)
            queue.pending[index] = (copy.part(~chosen), groups[~chosen])
    queue.pending = [(copy, groups) for copy, groups in queue.pending if copy.lanes.size]
