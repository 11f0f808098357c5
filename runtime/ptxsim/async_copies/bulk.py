"""Executes bulk copies, and keeps the pending asynchronous copies of a block.

Source: PTX ISA, "Data Movement: cp.async.bulk, cp.reduce.async.bulk". Loads land when nothing else in the block can
proceed (delivery "late"), at issue ("early"), or in random order ("random"); their targets are in flight until then. Stores
read their source when a wait enforces it, or at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

import numpy as np

from ....lowering.ptx.syntax import Instruction
from ....promotion.arrays import Array
from ....promotion.dataclass import dataclass
from ....promotion.errors import UnsupportedError
from ..arithmetic.floats import from_bf16, nearest_bf16
from ..checks.findings import Fault
from ..checks.races import Wait
from ..core.binding import Binding
from ..core.blocks import Cta
from ..core.context import MachineContext
from ..core.modifiers import Modifiers
from ..core.types import Mask, Step
from ..memory.access import Router, address_of, hints
from ..memory.spaces import SharedMemory
from .copies import CopyQueue
from .mbarriers import Objects, check_not_opaque, check_shown, lanes_of

_IN_FLIGHT = 0xA9
WRITING, READING = 1, 2
"""Marks in `Space.flight`: bytes that a pending copy writes, or reads."""


@dataclass(slots=True)
class BulkQueue:
    """The pending bulk copies of a block: loads in order of issue, stores as (lane, group, action)."""

    committed: Array
    loads: list[Callable[[], None]] = field(default_factory=list)
    stores: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)


def bulk_of(machine: MachineContext, cta: Cta) -> BulkQueue:
    found = cta.agents.get("bulk")
    if not isinstance(found, BulkQueue):
        found = cta.agents["bulk"] = BulkQueue(np.zeros(machine.lanes, np.int64))
    return found


def wake(machine: MachineContext, cta: Cta) -> bool:
    """Lands one pending load, or carries out one pending arrival of cp.async; returns False if there is none."""
    queue = cta.agents.get("bulk")
    if isinstance(queue, BulkQueue) and queue.loads:
        index = int(machine.random.integers(len(queue.loads))) if machine.delivery == "random" else 0
        queue.loads.pop(index)()
        return True
    copies = cta.agents.get("cp.async")
    if isinstance(copies, CopyQueue) and copies.arrivals:
        copies.arrivals.pop(0)()
        return True
    return False


def finish(machine: MachineContext, cta: Cta) -> None:
    """Ends a block: every store is carried out, and loads are dropped. Reports copies that were not waited for."""
    queue = cta.agents.get("bulk")
    if not isinstance(queue, BulkQueue):
        return
    if queue.loads:
        machine.violation("in flight", "the block ends with copies into shared memory that were never waited for")
    if queue.stores:
        lanes = [lane for lane, _, _ in queue.stores]
        late = [lane for lane, group, _ in queue.stores if group >= queue.committed[lane]]
        text = (
            "never committed"
            if late
            else "never waited for; the block's shared memory may be gone when they read it"
        )
        machine.violation("in flight", f"the block ends with bulk stores that were {text}", lanes)
    for _, _, action in queue.stores:
        action()
    queue.stores.clear()


def _mark(machine: MachineContext, shared: SharedMemory, offsets: Array, mark: int) -> None:
    """Marks bytes that a pending copy writes or reads."""
    if shared.flight is None:
        return
    busy = shared.flight[offsets]
    if np.count_nonzero(busy == WRITING) or (mark == WRITING and np.count_nonzero(busy)):
        machine.violation(
            "in flight", "a bulk copy of shared bytes that another pending copy writes or reads"
        )
    shared.flight[offsets] = mark


def asynchronous_read(
    machine: MachineContext, shared: SharedMemory, offsets: Array, warpgroup: int
) -> list[Wait]:
    """Checks bytes that a product of a warpgroup reads; returns the stamps by which its end is known."""
    _proxy(machine, shared, offsets)
    if shared.flight is not None and np.count_nonzero(shared.flight[offsets] == WRITING):
        machine.violation("in flight", "an asynchronous read of shared bytes that a pending copy writes")
    if machine.races is None:
        return []
    return machine.races.product(machine.cta, warpgroup, offsets)


def _proxy(machine: MachineContext, shared: SharedMemory, offsets: Array) -> None:
    """Checks that bytes written through the generic proxy were fenced before the asynchronous proxy reads them."""
    check_not_opaque(machine, shared, offsets)
    if shared.dirty is not None and np.count_nonzero(shared.dirty[offsets]):
        machine.violation(
            "proxy",
            "an asynchronous read of shared bytes that ordinary stores wrote, without fence.proxy.async",
        )
    if shared.defined is not None and not shared.defined[offsets].all():
        machine.violation("uninitialised", "an asynchronous read of shared bytes that nothing has written")


def _write(machine: MachineContext, shared: SharedMemory, offsets: Array, octets: Array) -> None:
    shared.octets[offsets] = octets
    if shared.defined is not None and shared.flight is not None:
        shared.defined[offsets] = True
        shared.flight[offsets] = 0
    if shared.dirty is not None:
        shared.dirty[offsets] = False


# -- loads


Target = tuple[SharedMemory, int, Array]
"""Shared memory, the offset of an mbarrier in it, and the offsets of the bytes that a copy writes."""


def load_into(
    machine: MachineContext, targets: list[Target], data: Callable[[], Array], size: int, lane: int
) -> None:
    """Starts a copy into shared memory, of one block or of several."""
    cta = machine.cta
    phases = []
    for shared, at, offsets in targets:
        if machine.delivery != "early":
            _mark(machine, shared, offsets, WRITING)
            shared.octets[offsets] = _IN_FLIGHT
        check_not_opaque(machine, shared, offsets)
        barrier = shared.mbarrier(at, lane)
        phases.append(barrier.phase)
        check_shown(machine, barrier, lane)
        if machine.races is not None:
            machine.races.copy_in(cta, lane, offsets, barrier)

    def land() -> None:
        octets = data()
        for (shared, at, offsets), phase in zip(targets, phases, strict=True):
            _write(machine, shared, offsets, octets)
            found = shared.mbarrier(at, lane)
            if found.phase != phase:
                text = "an mbarrier's phase ended before all bytes were there that copies started in it bring"
                machine.violation("mbarrier", text, [lane])
            found.add_bytes(machine, -size)
            machine.changes += 1

    if machine.delivery == "early":
        land()
    else:
        bulk_of(machine, cta).loads.append(land)


def check_shared(shared: SharedMemory, start: int, size: int, align: int, lane: int) -> None:
    if start % align:
        raise Fault("alignment", f"shared address {start:#x} is no multiple of {align}", [lane])
    if start + size > shared.size:
        raise Fault(
            "bounds",
            f"{size} bytes at shared address {start:#x}; {shared.size} bytes of shared memory",
            [lane],
        )


def shared_offsets(router: Router, address: Array, lanes: Array) -> list[tuple[int, SharedMemory, int]]:
    """Returns every lane's address in shared memory: (lane, memory, offset)."""
    found = []
    for space, _, offset, who in router.parts(address, lanes):
        if not isinstance(space, SharedMemory):
            raise Fault("bounds", "an address outside shared memory", lanes)
        found += [
            (int(lane), space, int(at))
            for lane, at in zip(who if who is not None else lanes, offset, strict=True)
        ]
    return found


def multicast_targets(machine: MachineContext, shared: SharedMemory, mask: int | None) -> list[SharedMemory]:
    if mask is None:
        return [shared]
    others = machine.cta.others
    if mask >> len(others):
        raise Fault("cluster", f"a multicast mask {mask:#x} for a cluster of {len(others)}")
    return [other.shared for rank, other in enumerate(others) if mask >> rank & 1]


def copy(k: Binding, i: Instruction) -> Step:
    """Builds cp.async.bulk and cp.reduce.async.bulk without a tensor."""
    modifiers = Modifiers(i)
    reduce_ = i.opcode == "cp" and modifiers.has("reduce")
    modifiers.require("async", "bulk")
    if modifiers.has("prefetch"):
        return _prefetch(modifiers)
    spaces = [w for w in modifiers.left if w in ("global", "shared::cta", "shared::cluster")]
    if len(spaces) != 2:
        raise UnsupportedError(f"{modifiers.where}: expected two state spaces")
    modifiers.left = [w for w in modifiers.left if w not in spaces]
    to, source = spaces
    policy = hints(modifiers)
    multicast = modifiers.has("multicast::cluster")
    grouped = modifiers.has("bulk_group")
    barrier = not grouped and modifiers.has("mbarrier::complete_tx::bytes")
    operation, type_ = "", ""
    if reduce_:
        operation, type_ = modifiers.choice(REDUCTIONS), modifiers.choice(_REDUCED)
        modifiers.drop("noftz")
    modifiers.done()
    loading = barrier and source == "global" and to.startswith("shared")
    between = barrier and source == "shared::cta" and to == "shared::cluster"
    storing = grouped and to == "global" and source == "shared::cta"
    if not (loading or between or storing):
        raise UnsupportedError(f"{modifiers.where}: this combination of spaces and completion is not known")
    modifiers.operands(3 + barrier + multicast + policy)
    if reduce_ and not grouped:
        raise UnsupportedError(f"{modifiers.where}: only reductions to global memory are known")
    size = k.full(i.operands[2], "u32")
    target_address, source_address = address_of(k, i.operands[0]), address_of(k, i.operands[1])
    target_router, source_router = Router(k, to), Router(k, source)
    objects = (
        Objects(k, i, i.operands[3], "shared::cluster" if to == "shared::cluster" else "shared")
        if barrier
        else None
    )
    group_mask = k.full(i.operands[4], "u16") if multicast else None
    machine = k.machine

    def step(mask: Mask) -> None:
        lanes = lanes_of(mask, k.lanes)
        for lane in lanes.tolist():
            own = np.array([lane])
            count = int(size()[lane])
            if count % 16:
                raise Fault("alignment", f"a bulk copy of {count} bytes; expected a multiple of 16", [lane])
            span = np.arange(count)
            if objects is not None:
                ((_, shared, start),) = shared_offsets(target_router, target_address(own), own)
                ((_, _, at),) = objects.each(own)
                data = _source(machine, source_router, source_address(own), own, count)
                homes = multicast_targets(
                    machine, shared, int(group_mask()[lane]) if group_mask is not None else None
                )
                for home in homes:
                    check_shared(home, start, count, 16, lane)
                load_into(machine, [(home, at, start + span) for home in homes], data, count, lane)
                continue
            ((_, shared, start),) = shared_offsets(source_router, source_address(own), own)
            check_shared(shared, start, count, 16, lane)
            address = int(target_address(own)[0])
            if address % 16:
                raise Fault("alignment", f"global address {address:#x} is no multiple of 16", [lane])
            offset = machine.memory.one(address, count, True)
            store_from(
                machine,
                lane,
                shared,
                start + span,
                writer(machine, offset + span, shared, start + span, operation, type_),
            )

    return step


def _source(machine: MachineContext, router: Router, address: Array, own: Array, count: int) -> Callable[[], Array]:
    if router.space == "global":
        position = int(address[0])
        if position % 16:
            raise Fault("alignment", f"global address {position:#x} is no multiple of 16", own)
        offset = machine.memory.one(position, count, False)
        return lambda: machine.memory.octets[offset : offset + count].copy()
    ((_, shared, start),) = shared_offsets(router, address, own)
    check_shared(shared, start, count, 16, int(own[0]))
    _proxy(machine, shared, start + np.arange(count))
    return lambda: shared.octets[start : start + count].copy()


def _prefetch(modifiers: Modifiers) -> Step:
    modifiers.drop("tensor", "1d", "2d", "3d", "4d", "5d", "L2", "global", "tile")
    modifiers.drop_prefixed("L2::")
    modifiers.done()
    return lambda mask: None


# -- stores

REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
_REDUCED = ("u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64", "b32", "b64")
_DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": np.uint16, "u8": np.uint8, "u16": np.uint16,
          "u32": np.uint32, "s32": np.int32, "u64": np.uint64, "s64": np.int64, "b32": np.uint32, "b64": np.uint64}  # fmt: skip


def store_from(
    machine: MachineContext, lane: int, shared: SharedMemory, offsets: Array, action: Callable[[], None]
) -> None:
    """Starts a copy out of shared memory, in the bulk group that the lane commits next."""
    _proxy(machine, shared, offsets)
    cta, races = machine.cta, machine.races
    wait = races.copy_out(cta, lane, offsets) if races is not None else (0, 0)
    early = machine.delivery == "early"

    def perform() -> None:
        if shared.flight is not None:
            shared.flight[offsets] = 0
        action()
        machine.changes += 1

    def waited() -> None:
        if not early:
            perform()
        if races is not None:
            races.copied_out(cta, lane, wait)

    if early:
        perform()
    else:
        _mark(machine, shared, offsets, READING)
    queue = bulk_of(machine, cta)
    queue.stores.append((lane, int(queue.committed[lane]), waited))


def writer(
    machine: MachineContext, target: Array, shared: SharedMemory, source: Array, operation: str, type_: str
) -> Callable[[], None]:
    """Returns a function that writes bytes of shared memory to offsets in global memory, or combines their
    elements with those there."""

    def write() -> None:
        octets = shared.octets[source]
        if operation:
            octets = _combined(machine.memory.octets[target], octets, operation, type_)
        machine.memory.octets[target] = octets

    return write


def _combined(old: Array, new: Array, operation: str, type_: str) -> Array:
    dtype = np.dtype(_DTYPES[{"f32.ftz": "f32", "tf32": "f32", "tf32.ftz": "f32"}.get(type_, type_)])
    a, b = np.ascontiguousarray(old).view(dtype), np.ascontiguousarray(new).view(dtype)
    if type_ == "bf16":
        x, y = from_bf16(a), from_bf16(b)
        wide = {"add": np.add, "min": np.fmin, "max": np.fmax}[operation](x, y)
        return nearest_bf16(np.asarray(wide, np.float32)).view(np.uint8)
    functions: dict[str, Callable[[Array, Array], Array]] = {
        "add": np.add, "min": np.fmin, "max": np.fmax, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
        "inc": lambda x, y: np.where(x >= y, 0, x + 1), "dec": lambda x, y: np.where((x == 0) | (x > y), y, x - 1),
    }  # fmt: skip
    return np.ascontiguousarray(np.asarray(functions[operation](a, b)).astype(dtype)).view(np.uint8)


def commit(k: Binding, i: Instruction) -> Step:
    modifiers = Modifiers(i)
    modifiers.require("async", "bulk", "commit_group")
    modifiers.done()
    modifiers.operands(0)
    machine = k.machine

    def step(mask: Mask) -> None:
        bulk_of(machine, machine.cta).committed[lanes_of(mask, k.lanes)] += 1

    return step


def wait(k: Binding, i: Instruction) -> Step:
    """Builds cp.async.bulk.wait_group{.read} N: the stores of all but the newest N groups of the lane are
    carried out."""
    modifiers = Modifiers(i)
    modifiers.require("async", "bulk", "wait_group")
    modifiers.drop("read")
    modifiers.done()
    modifiers.operands(1)
    newest = k.constant(i.operands[0], "a number of groups")
    machine = k.machine

    def step(mask: Mask) -> None:
        queue = bulk_of(machine, machine.cta)
        if not queue.stores:
            return
        here = np.zeros(k.lanes, np.bool_)
        here[lanes_of(mask, k.lanes)] = True
        left = []
        for lane, group, action in queue.stores:
            if here[lane] and group < queue.committed[lane] - newest:
                action()
            else:
                left.append((lane, group, action))
        queue.stores = left

    return step
