"""Executes mbarrier instructions: barriers in shared memory that count arrivals and bytes.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier". The objects are kept beside the bytes; the
bytes hold a pattern. A state (the result of an arrival) holds the phase from bit 20 on and the pending count below.
"""

from __future__ import annotations

import numpy as np

from ....lowering.ptx.syntax import Address, Instruction, Operand, Sink
from ....promotion.arrays import Array
from ....promotion.errors import UnsupportedError, UserError
from ..checks.findings import Fault
from ..core.binding import Binding
from ..core.context import MachineContext
from ..core.modifiers import Modifiers
from ..core.types import Mask, Step
from ..memory.access import Router, address_of
from ..memory.spaces import SharedMemory
from .mbarrier_objects import MAX_COUNT, MBarrier

_PATTERN = 0xB7
_ORDERS = ("release", "relaxed", "acquire")
_SCOPES = ("cta", "cluster", "gpu", "sys")


class Objects:
    """The mbarrier objects that an address operand names, lane by lane."""

    def __init__(self, k: Binding, i: Instruction, operand: Operand, space: str) -> None:
        if not isinstance(operand, Address):
            raise k.refuse(operand, "an address")
        self.machine = k.machine
        self.address = address_of(k, operand)
        self.router = Router(k, space)

    def each(self, lanes: Array) -> list[tuple[int, SharedMemory, int]]:
        """Returns (lane, shared memory, offset) for each lane."""
        found = []
        where = self.address(lanes)
        for space, _, start, who in self.router.parts(where, lanes):
            if not isinstance(space, SharedMemory):
                raise Fault(
                    "mbarrier", "an mbarrier outside shared memory", who if who is not None else lanes
                )
            offset = space.offsets(start, 8, who, True, self.router.site)
            found += [
                (int(lane), space, int(at))
                for lane, at in zip(who if who is not None else lanes, offset, strict=True)
            ]
        return found


def check_not_opaque(machine: MachineContext, shared: SharedMemory, offsets: Array, lanes: Array | None = None) -> None:
    """Reports accesses to the bytes of an mbarrier by other instructions, before mbarrier.inval. lanes: the
    lane of each row of offsets.

    PTX ISA, "mbarrier.inval": an mbarrier object must be invalidated before its memory is used for anything else.
    """
    if not shared.mbarriers or shared.opaque is None:
        return
    bad = shared.opaque[offsets >> 3]
    if np.count_nonzero(bad):
        offset = int(offsets[bad][0]) & ~7
        text = f"the bytes of the mbarrier at {offset:#x} are accessed like others, without mbarrier.inval before"
        rows = np.flatnonzero(bad.reshape(bad.shape[0], -1).any(1))
        machine.violation("mbarrier", text, () if lanes is None else lanes[rows])


def show_to_copies(machine: MachineContext, mask: Mask) -> None:
    """Executes a fence, which makes the mbarriers that its lanes have initialised visible to the asynchronous
    proxy."""
    shared = machine.cta.shared
    left = []
    for barrier in shared.unfenced:
        if mask is None or mask[barrier.lane]:
            barrier.fenced = True
            if machine.races is not None:
                barrier.fenced_at = machine.races.fence_stamp(machine.cta, barrier.lane)
        else:
            left.append(barrier)
    shared.unfenced = left


def check_shown(machine: MachineContext, barrier: MBarrier, lane: int) -> None:
    """Reports a copy that counts its bytes at an mbarrier without a fence after its initialisation.

    PTX ISA, "membar, fence": .mbarrier_init makes mbarrier.init visible to other proxies; so does fence.proxy.async, as for
    other writes.
    """
    races = machine.races
    if machine.level < 2:
        return
    if not barrier.fenced or (races is not None and not races.knows_fence(machine.cta, lane, barrier)):
        machine.violation(
            "proxy",
            f"a bulk copy to an mbarrier that lane {barrier.lane} initialised, without fence.mbarrier_init or "
            "fence.proxy.async by that lane before the barrier between them",
            [lane],
        )


def lanes_of(mask: Mask, lanes: int) -> Array:
    return np.arange(lanes) if mask is None else np.flatnonzero(mask)


def mbarrier(k: Binding, i: Instruction) -> Step:
    modifiers = Modifiers(i)
    kind = modifiers.choice((
        "init", "inval", "expect_tx", "complete_tx", "arrive", "arrive_drop", "test_wait", "try_wait", "pending_count",
    )) if not {"arrive", "arrive_drop"} & set(i.modifiers) else modifiers.choice(("arrive", "arrive_drop"))  # fmt: skip
    expect = kind.startswith("arrive") and modifiers.has("expect_tx")
    no_complete = kind.startswith("arrive") and modifiers.has("noComplete")
    parity = kind.endswith("_wait") and modifiers.has("parity")
    modifiers.drop(*_ORDERS, *_SCOPES)
    space = modifiers.choice(("shared::cta", "shared::cluster", "shared"), "")
    modifiers.require("b64")
    modifiers.done()
    if kind == "pending_count":
        return _pending_count(k, i, modifiers)
    if kind.endswith("_wait"):
        return _wait(k, i, modifiers, space, parity)
    if kind.startswith("arrive"):
        return _arrive(k, i, modifiers, space, kind == "arrive_drop", expect, no_complete)
    modifiers.operands(1 if kind == "inval" else 2)
    objects = Objects(k, i, i.operands[0], space)
    amount = k.full(i.operands[1], "u32") if kind != "inval" else None
    machine = k.machine

    def step(mask: Mask) -> None:
        for lane, shared, offset in objects.each(lanes_of(mask, k.lanes)):
            value = int(amount()[lane]) if amount is not None else 0
            if kind == "init":
                _initialise(machine, shared, offset, value, lane)
            elif kind == "inval":
                barrier = shared.mbarrier(offset, lane)
                if machine.races is not None:
                    machine.races.removed(machine.cta, lane, offset, barrier)
                del shared.mbarriers[offset]
                if shared.opaque is not None:
                    shared.opaque[offset >> 3] = False
            else:
                barrier = shared.mbarrier(offset, lane)
                barrier.add_bytes(machine, value if kind == "expect_tx" else -value)

    return step


def _initialise(machine: MachineContext, shared: SharedMemory, offset: int, count: int, lane: int) -> None:
    if not 1 <= count <= MAX_COUNT:
        raise Fault("mbarrier", f"an expected count of {count}; expected 1 to {MAX_COUNT}", [lane])
    if offset in shared.mbarriers:
        raise Fault(
            "mbarrier", f"the mbarrier at {offset:#x} is initialised again without mbarrier.inval", [lane]
        )
    barrier = shared.mbarriers[offset] = MBarrier(count, lane)
    shared.unfenced.append(barrier)
    shared.octets[offset : offset + 8] = _PATTERN
    if machine.races is not None:
        machine.races.made(machine.cta, lane, offset, barrier)
    if shared.defined is not None and shared.opaque is not None:
        shared.defined[offset : offset + 8] = True
        shared.opaque[offset >> 3] = True
    machine.changes += 1


def _pending_count(k: Binding, i: Instruction, modifiers: Modifiers) -> Step:
    modifiers.operands(2)
    out = k.destination(i.operands[0], "b32")
    state = k.full(i.operands[1], "b64")

    def step(mask: Mask) -> None:
        np.copyto(out, state() & np.uint64(MAX_COUNT), casting="unsafe", where=True if mask is None else mask)

    return step


def _arrive(
    k: Binding, i: Instruction, modifiers: Modifiers, space: str, drop: bool, expect: bool, no_complete: bool
) -> Step:
    count = modifiers.operands(2, 3)
    wants_state = not isinstance(i.operands[0], Sink)
    if wants_state and space == "shared::cluster":
        raise UserError(f"{modifiers.where}: an arrival at a remote mbarrier gives no state; write _")
    if (expect or no_complete) and count != 3:
        raise UserError(f"{modifiers.where}: expected a count")
    out = k.destination(i.operands[0], "b64")
    objects = Objects(k, i, i.operands[1], space)
    amount = k.full(i.operands[2], "u32") if count == 3 else None
    machine = k.machine

    def step(mask: Mask) -> None:
        for lane, shared, offset in objects.each(lanes_of(mask, k.lanes)):
            barrier = shared.mbarrier(offset, lane)
            value = int(amount()[lane]) if amount is not None else 1
            arrivals = 1 if expect else value
            if machine.races is not None:
                machine.races.used(machine.cta, np.array([lane]), shared, offset, barrier)
                machine.races.release(machine.cta, lane, barrier)
            if expect:
                barrier.bytes += value
            if no_complete and arrivals >= barrier.pending:
                raise Fault("mbarrier", "an arrival with .noComplete completes the phase", [lane])
            if drop:
                barrier.expected -= 1
            out[lane] = barrier.arrive(machine, arrivals)

    return step


def _wait(k: Binding, i: Instruction, modifiers: Modifiers, space: str, parity: bool) -> Step:
    """Builds test_wait and try_wait, which never suspends here."""
    modifiers.operands(3, 4)
    if space == "shared::cluster":
        raise UnsupportedError(f"{modifiers.where}: waiting is for mbarriers of the own block")
    out = k.destination(i.operands[0], "pred")
    objects = Objects(k, i, i.operands[1], space)
    state = k.full(i.operands[2], "u32" if parity else "b64")
    machine = k.machine

    def step(mask: Mask) -> None:
        lanes = lanes_of(mask, k.lanes)
        where, values = objects.address(lanes), state()[lanes]
        alike = not np.count_nonzero(where != where[0]) and not np.count_nonzero(values != values[0])
        failed = False
        for lane, shared, offset in objects.each(lanes[:1] if alike else lanes):
            barrier = shared.mbarrier(offset, lane)
            value = int(state()[lane])
            done = (barrier.phase & 1) != (value & 1) if parity else barrier.phase > value >> 20
            who = lanes if alike else np.array([lane])
            out[who] = done
            failed = failed or not done
            if machine.races is not None:
                machine.races.used(machine.cta, who, shared, offset, barrier)
                if done:
                    machine.races.acquire(machine.cta, who, barrier)
        if failed:
            machine.hard_poll = True

    return step
