"""Executes TMA copies, of boxes of tensors between global and shared memory, and instructions on tensor maps.

Source: PTX ISA, "Data Movement: cp.async.bulk.tensor, cp.reduce.async.bulk.tensor", "tensormap.replace",
"tensormap.cp_fenceproxy", "membar, fence". Copies land as in `bulk`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....lowering.ptx.syntax import Address, Instruction, Vector
from ....promotion.arrays import Array
from ....promotion.errors import UnsupportedError, UserError
from ..checks.findings import Fault
from ..core.binding import Binding
from ..core.blocks import Control
from ..core.context import MachineContext
from ..core.control import collective
from ..core.modifiers import Modifiers
from ..core.types import Mask, Step
from ..memory.access import Router, address_of, hints
from .bulk import REDUCTIONS, check_shared, load_into, multicast_targets, shared_offsets, store_from, writer
from .mbarriers import Objects, lanes_of, show_to_copies
from .tensor_maps import FIELDS, MAP_BYTES, TensorView, read_map, set_field


def _octets(offsets: Array, size: int) -> Array:
    """Returns the offsets of the bytes of elements at these offsets."""
    return np.asarray((offsets[:, None] + np.arange(size)).reshape(-1))


def tensor(k: Binding, i: Instruction) -> Step:
    """Builds cp.async.bulk.tensor and cp.reduce.async.bulk.tensor, tiled."""
    modifiers = Modifiers(i)
    reduce_ = modifiers.has("reduce")
    modifiers.require("async", "bulk", "tensor")
    rank = int(modifiers.choice(("1d", "2d", "3d", "4d", "5d"))[0])
    storing = modifiers.has("bulk_group")
    space = modifiers.choice(("shared::cta",) if storing else ("shared::cta", "shared::cluster"))
    modifiers.require("global")
    modifiers.drop("tile")
    policy = hints(modifiers)
    multicast = modifiers.has("multicast::cluster")
    if not storing:
        modifiers.require("mbarrier::complete_tx::bytes")
    operation = modifiers.choice(REDUCTIONS) if reduce_ else ""
    modifiers.done()
    if (storing == multicast and storing) or (reduce_ and not storing):
        raise UnsupportedError(f"{modifiers.where}: this combination of modifiers is not known")
    modifiers.operands(2 + (not storing) + multicast + policy)
    tensor_operand, shared_operand = (i.operands[0], i.operands[1]) if storing else (i.operands[1], i.operands[0])
    if (
        not isinstance(tensor_operand, Address)
        or len(tensor_operand.parts) != 1
        or not isinstance(tensor_operand.parts[0], Vector)
    ):
        raise UserError(f"{modifiers.where}: expected a tensor map and coordinates in braces")
    coordinates = [k.full(o, "s32") for o in tensor_operand.parts[0].elements]
    if len(coordinates) != rank:
        raise UserError(f"{modifiers.where}: {len(coordinates)} coordinates for {rank} dimensions")
    map_address = address_of(k, Address(tensor_operand.base, tensor_operand.offset, ()))
    shared_address, router = address_of(k, shared_operand), Router(k, space)
    objects = (
        None
        if storing
        else Objects(k, i, i.operands[2], "shared::cluster" if space == "shared::cluster" else "shared")
    )
    group_mask = k.full(i.operands[3], "u16") if multicast else None
    machine = k.machine

    def step(mask: Mask) -> None:
        for lane in lanes_of(mask, k.lanes).tolist():
            own = np.array([lane])
            view = map_at(machine, int(map_address(own)[0]), rank, lane)
            ((_, shared, start),) = shared_offsets(router, shared_address(own), own)
            offset, inside = view.offsets([int(c()[lane]) for c in coordinates])
            origin = _origin(machine, view, offset[inside], storing)
            offsets = _octets(view.shared_offsets(start), view.size)
            check_shared(shared, start, view.box_bytes, 128, lane)
            if objects is None:
                kept = np.repeat(inside, view.size)
                target = _octets(origin + offset[inside], view.size)
                action = writer(machine, target, shared, offsets[kept], operation, view.type)
                store_from(machine, lane, shared, offsets[kept], action)
                continue
            ((_, _, at),) = objects.each(own)
            homes = multicast_targets(
                machine, shared, int(group_mask()[lane]) if group_mask is not None else None
            )
            for home in homes:
                check_shared(home, start, view.box_bytes, 128, lane)
            data = _tile(machine, view, origin, offset, inside)
            load_into(machine, [(home, at, offsets) for home in homes], data, view.box_bytes, lane)

    return step


def _tile(
    machine: MachineContext, view: TensorView, origin: int, offset: Array, inside: Array
) -> Callable[[], Array]:
    def read() -> Array:
        found = np.broadcast_to(view.fill, (offset.size, view.size)).copy()
        found[inside] = machine.memory.octets[_octets(origin + offset[inside], view.size)].reshape(
            -1, view.size
        )
        return found.reshape(-1)

    return read


def _origin(machine: MachineContext, view: TensorView, offsets: Array, write: bool) -> int:
    """Returns the tensor's offset in the arena; all elements that are accessed must be in one allocation."""
    if not offsets.size:
        return 0
    low, high = int(offsets.min()), int(offsets.max())
    return machine.memory.one(view.address + low, high - low + view.size, write) - low


def map_at(machine: MachineContext, address: int, rank: int, lane: int) -> TensorView:
    """Returns the map at a generic address, of a parameter or in global memory. Reports a written map that no
    fence has acquired."""
    from_parameters = address >> 56 == 3
    if address % 64:
        raise Fault("alignment", f"the tensor map's address {address:#x} is no multiple of 64", [lane])
    if from_parameters:
        start = address & ((1 << 56) - 1)
        octets = machine.parameters.octets[start : start + MAP_BYTES]
    else:
        if address in machine.unfenced_maps:
            machine.violation(
                "proxy", "a tensor map that was written and not acquired with fence.proxy.tensormap", [lane]
            )
        start = machine.memory.one(address, MAP_BYTES, False)
        octets = machine.memory.octets[start : start + MAP_BYTES]
    if octets.size < MAP_BYTES:
        raise Fault("bounds", "a tensor map that reaches beyond the parameters", [lane])
    return read_map(octets, rank)


def replace_field(k: Binding, i: Instruction) -> Step:
    """Builds tensormap.replace, which sets one field of a map in memory."""
    modifiers = Modifiers(i)
    modifiers.require("replace", "tile")
    name = modifiers.choice(FIELDS)
    space = modifiers.choice(("shared::cta", "global"), "")
    modifiers.require("b1024")
    type_ = modifiers.choice(("b64",) if FIELDS[name][1] == "Q" else ("b32",))
    modifiers.done()
    many = FIELDS[name][2] > 1
    modifiers.operands(3 if many else 2)
    index = k.full(i.operands[1], "u32") if many else None
    value = k.full(i.operands[-1], type_)
    address, router = address_of(k, i.operands[0]), Router(k, "shared" if space == "shared::cta" else space)

    def step(mask: Mask) -> None:
        for lane in lanes_of(mask, k.lanes).tolist():
            own = np.array([lane])
            ((memory, _, position, _),) = router.parts(address(own), own)
            offset = memory.offsets(position, 32, own, True, router.site)
            start = int(offset[0])
            if start % MAP_BYTES:
                raise Fault("alignment", "a tensor map at an address that is no multiple of 128", own)
            set_field(
                memory.octets[start : start + MAP_BYTES],
                name,
                int(index()[lane]) if index else 0,
                int(value()[lane]),
            )

    return step


def copy_map(k: Binding, i: Instruction) -> Control:
    """Builds tensormap.cp_fenceproxy: a warp copies a map from shared to global memory and releases it."""
    modifiers = Modifiers(i)
    modifiers.require(
        "cp_fenceproxy", "global", "shared::cta", "tensormap::generic", "release", "sync", "aligned"
    )
    modifiers.choice(("cta", "cluster", "gpu", "sys"))
    modifiers.done()
    modifiers.operands(3)
    if k.constant(i.operands[2], "a size") != MAP_BYTES:
        raise UserError(f"{modifiers.where}: a tensor map has {MAP_BYTES} bytes")
    target, source = address_of(k, i.operands[0]), address_of(k, i.operands[1])
    router = Router(k, "shared")
    machine = k.machine

    def step(mask: Mask) -> None:
        lanes = lanes_of(mask, k.lanes)
        for lane in lanes[np.unique(lanes // 32, return_index=True)[1]].tolist():
            own = np.array([lane])
            ((memory, _, position, _),) = router.parts(source(own), own)
            start = int(memory.offsets(position, 16, own, False, router.site)[0])
            address = int(target(own)[0])
            if address % MAP_BYTES or start % MAP_BYTES:
                raise Fault("alignment", "a tensor map at an address that is no multiple of 128", own)
            offset = machine.memory.one(address, MAP_BYTES, True)
            machine.memory.octets[offset : offset + MAP_BYTES] = memory.octets[start : start + MAP_BYTES]
            machine.unfenced_maps.add(address)
            machine.changes += 1

    return collective(k, i, step)


def fence(k: Binding, i: Instruction, nothing: Callable[[Binding, Instruction], Step]) -> Step:
    """Builds fences: fence.proxy.async makes ordinary writes visible to copies, and mbarriers too;
    fence.mbarrier_init makes mbarriers visible; fence.proxy.tensormap acquires a map."""
    machine = k.machine
    if "tensormap::generic" in i.modifiers:
        modifiers = Modifiers(i)
        modifiers.require("proxy", "tensormap::generic")
        order = modifiers.choice(("acquire", "release"))
        modifiers.choice(("cta", "cluster", "gpu", "sys"))
        modifiers.done()
        modifiers.operands(2 if order == "acquire" else 0)
        if order == "release":
            return lambda mask: None
        address = address_of(k, i.operands[0])

        def acquire(mask: Mask) -> None:
            machine.unfenced_maps.difference_update(np.unique(address(lanes_of(mask, k.lanes))).tolist())

        return acquire
    plain = nothing(k, i)
    given = set(i.modifiers)
    if {"mbarrier_init", "release", "cluster"} <= given:
        return lambda mask: show_to_copies(machine, mask)
    if "proxy" not in given or not given & {"async", "async.shared::cta"} or "global" in given:
        return plain

    def clean(mask: Mask) -> None:
        show_to_copies(machine, mask)
        if machine.cta.shared.dirty is not None:
            machine.cta.shared.dirty[:] = False
        if machine.races is not None:
            machine.races.fence(machine.cta, lanes_of(mask, k.lanes))

    return clean
