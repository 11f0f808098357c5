"""Executes instructions of clusters (their barrier, addresses in other blocks' shared memory) and of the
register pool of warpgroups.

Source: PTX ISA, "barrier.cluster", "mapa", "getctarank", "setmaxnreg", "griddepcontrol".
"""

from __future__ import annotations

import numpy as np

from ....lowering.ptx.syntax import Instruction
from ....promotion.arrays import Array
from ....promotion.errors import UserError
from ..checks.findings import Fault
from ..core.binding import Binding
from ..core.blocks import Control, Cta, Group
from ..core.context import MachineContext
from ..core.control import guard_of, guarded
from ..core.modifiers import Modifiers
from ..core.types import Mask, Step
from ..memory.access import address_of
from ..memory.spaces import RANK_SHIFT

REGISTER_POOL = 65_536
"""Registers that the warps of a block share."""


class ClusterBarrier:
    """The barrier of a cluster: arrivals per lane of every block, and the number of phases that are complete."""

    def __init__(self, blocks: int, lanes: int) -> None:
        self.arrived = np.zeros((blocks, lanes), np.int64)
        self.phase = 0

    def check(self, machine: MachineContext, cta: Cta) -> None:
        """Ends the phase if every live lane of the cluster has arrived; lanes that have exited count as arrived."""
        live = np.stack([other.live for other in cta.others])
        if not live.any() or (self.arrived[live] <= self.phase).any():
            return
        self.phase += 1
        machine.changes += 1
        for other in cta.others:
            other.groups += other.waiting.pop("the cluster's barrier", [])


def cluster_barrier(machine: MachineContext, cta: Cta) -> ClusterBarrier:
    home = cta.others[0].agents
    found = home.get("cluster")
    if not isinstance(found, ClusterBarrier):
        found = home["cluster"] = ClusterBarrier(len(cta.others), machine.lanes)
    return found


def barrier(k: Binding, i: Instruction) -> Control:
    """Builds barrier.cluster.arrive and barrier.cluster.wait."""
    modifiers = Modifiers(i)
    modifiers.require("cluster")
    waiting = modifiers.choice(("arrive", "wait")) == "wait"
    modifiers.drop("release", "relaxed", "acquire")
    aligned = modifiers.has("aligned")
    modifiers.done()
    modifiers.operands(0)
    machine = k.machine
    scheduler = machine.scheduler

    def control(group: Group) -> bool:
        cta = machine.cta
        if aligned and group.mask is not None and scheduler.converge(cta, group, None) is None:
            return False
        state = cluster_barrier(machine, cta)
        mask = scheduler.mask_of(group) & cta.live
        own = state.arrived[cta.rank]
        if not waiting:
            twice = mask & (own > state.phase)
            if np.count_nonzero(twice):
                raise Fault(
                    "barrier", "a second barrier.cluster.arrive without a wait", np.flatnonzero(twice)
                )
            own[mask] = state.phase + 1
            group.pc += 1
            state.check(machine, cta)
            return not cta.parked
        if np.count_nonzero(mask & (own == 0)):
            raise Fault(
                "barrier", "barrier.cluster.wait without an arrive", np.flatnonzero(mask & (own == 0))
            )
        group.pc += 1
        if np.count_nonzero(mask & (own > state.phase)):
            cta.groups.remove(group)
            cta.waiting.setdefault("the cluster's barrier", []).append(group)
            return False
        return not cta.parked

    return guarded(k, guard_of(k, i), control)


def map_address(k: Binding, i: Instruction) -> Step:
    """Builds mapa: the address of the same variable in another block of the cluster."""
    modifiers = Modifiers(i)
    generic = not modifiers.has("shared::cluster")
    type_ = modifiers.choice(("u32", "u64"))
    modifiers.done()
    modifiers.operands(3)
    out = k.destination(i.operands[0], type_)
    address = address_of(k, i.operands[1])
    rank = k.full(i.operands[2], "u32")
    machine = k.machine
    offset = np.uint64((1 << RANK_SHIFT) - 1)
    window = np.uint64(0xFF << 56 if generic else 0)

    def step(mask: Mask) -> None:
        where = True if mask is None else mask
        ranks = rank().astype(np.uint64)
        outside = (ranks >= machine.cluster_size) & where
        if np.count_nonzero(outside):
            text = f"mapa for a block that the cluster of {machine.cluster_size} does not have"
            raise Fault("cluster", text, np.flatnonzero(outside))
        own = address(None)
        found = (own & offset) | ((ranks + np.uint64(1)) << np.uint64(RANK_SHIFT)) | (own & window)
        np.copyto(out, found, casting="unsafe", where=where)

    return step


def rank_of(k: Binding, i: Instruction) -> Step:
    """Builds getctarank: the rank of the block whose shared memory contains an address."""
    modifiers = Modifiers(i)
    modifiers.drop("shared::cluster")
    modifiers.choice(("u32", "u64"))
    modifiers.done()
    modifiers.operands(2)
    out = k.destination(i.operands[0], "u32")
    address = address_of(k, i.operands[1])
    machine = k.machine

    def step(mask: Mask) -> None:
        tag = (address(None) >> np.uint64(RANK_SHIFT)) & np.uint64(0xFF)
        own = np.uint64(machine.cta.rank)
        np.copyto(
            out,
            np.where(tag == 0, own, tag - np.uint64(1)),
            casting="unsafe",
            where=True if mask is None else mask,
        )

    return step


# -- registers of warpgroups


def _pool(machine: MachineContext, cta: Cta) -> Array:
    """Returns the registers per thread of every warp, at first .maxnreg or an equal share."""
    found = cta.agents.get("registers")
    if not isinstance(found, np.ndarray):
        share = (
            machine.function.bounds.get("maxnreg", (min(255, REGISTER_POOL // machine.lanes),))[0] // 8 * 8
        )
        found = cta.agents["registers"] = np.full(machine.lanes // 32, share, np.int64)
    return found


def set_registers(k: Binding, i: Instruction) -> Control:
    """Builds setmaxnreg: registers keep their values; an increase waits until the pool has enough."""
    modifiers = Modifiers(i)
    modifiers.require("sync", "aligned", "u32")
    increase = modifiers.choice(("inc", "dec")) == "inc"
    modifiers.done()
    modifiers.operands(1)
    count = k.constant(i.operands[0], "a number of registers")
    machine = k.machine
    if not 24 <= count <= 256 or count % 8:
        raise UserError(f"{modifiers.where}: {count} registers; expected a multiple of 8 from 24 to 256")

    def control(group: Group) -> bool:
        cta = machine.cta
        if group.mask is not None and machine.scheduler.converge(cta, group, None, 4) is None:
            return False
        warps = machine.scheduler.mask_of(group).reshape(-1, 32).any(1)
        padded = np.append(warps, np.zeros(-warps.size % 4, np.bool_)).reshape(-1, 4)
        if not (padded.all(1) | ~padded.any(1)).all():
            raise Fault("setmaxnreg", "not all four warps of a warpgroup execute this together")
        own = _pool(machine, cta)
        if (not increase and (own[warps] < count).any()) or (increase and (own[warps] > count).any()):
            raise Fault(
                "setmaxnreg",
                f"{'an increase' if increase else 'a decrease'} to {count} from {int(own[warps][0])}",
            )
        if increase and int(own[~warps].sum()) * 32 + int(warps.sum()) * 32 * count > REGISTER_POOL:
            group.polling = True
            group.iteration += 1
            return False
        own[warps] = count
        machine.changes += 1
        group.pc += 1
        return not cta.parked

    return guarded(k, guard_of(k, i), control)


def grid_control(k: Binding, i: Instruction) -> Step:
    """Builds griddepcontrol, which does nothing: grids run one after the other here."""
    modifiers = Modifiers(i)
    modifiers.choice(("wait", "launch_dependents"))
    modifiers.done()
    modifiers.operands(0)
    return lambda mask: None
