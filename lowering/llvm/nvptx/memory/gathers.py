"""Lowers gathers along an axis, by `linear_layouts.plans.gathering`, and histograms.

Source of the counters: NVIDIA, "PTX ISA", "Parallel Synchronization and Communication Instructions: atom" (`.shared`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from .....promotion.errors import UnsupportedError
from ....linear_layouts.layout import LANE, REGISTER, WARP, LinearLayout
from ....linear_layouts.linear import ThreadPredicate
from ....linear_layouts.plans.gathering import SharedGather, WarpGather, plan_gather
from ...syntax import attributes, element_name, shape_of
from ...values import V, const, i32, is_integer
from ..context import Handler, KernelContext
from ..nodes import Distributed, Splat
from ..threads import bits_of

# -- gathers ---------------------------------------------------------------------------------


def _gather(k: KernelContext, op: Operation) -> None:
    result, (source, indices) = op.results[0], op.operands
    elem, shape = element_name(result.type), shape_of(result.type)
    node = k.node(source)
    if isinstance(node, Splat):
        k.define(result, Splat(shape, elem, node.value))
        return
    layout = k.layout_of(indices).unique_registers()
    own = k.layout_of(source)
    values = k.ev.at(node, own)
    where = [_index(k, value) for value in k.registers(indices, layout)]
    plan = plan_gather(own, layout, int(attributes(op)["axis"]), bits_of(elem))
    bits = [k.t.to_bits(value, elem) for value in values]
    found = _in_warp(k, plan, bits, where) if isinstance(plan, WarpGather) else _in_memory(k, plan, bits, where, bits_of(elem))
    k.define(result, Distributed(shape, elem, layout, tuple(k.t.from_bits(value, elem) for value in found)))


def _index(k: KernelContext, value: V) -> V:
    """Converts an index to i32; blocks have fewer elements than i32 holds."""
    width = int(value.type[1:])
    return k.f.cast("trunc" if width > 32 else "zext", value, "i32")


def _in_warp(k: KernelContext, plan: WarpGather, values: Sequence[V], indices: Sequence[V]) -> list[V]:
    """Emits a gather within warps: one shuffle for each register that may hold the value."""
    f, t = k.f, k.t
    register_of, lane_of = t.map(plan.register_of), t.map(plan.lane_of)
    register_warp = t.linear((), plan.register_of.warp)
    found = []
    for register, index in enumerate(indices):
        lane = _xor(k, t.with_constant(lane_of, plan.lanes[register], -1), _image(k, index, plan.index_lanes))
        wanted = _xor(k, t.with_constant(register_of, plan.registers[register], -1), _image(k, index, plan.index_registers))
        kept: V | None = None
        for candidate in plan.candidates:
            constant = plan.registers[register] ^ candidate
            offered = t.choose(values, (), plan.register_of.warp, constant)
            got = t.shuffle("idx", offered, lane)
            here = t.with_constant(register_warp, constant, -1)
            kept = got if kept is None else f.select(f.icmp("eq", wanted, here), got, kept)
        assert kept is not None
        found.append(kept)
    return found


def _xor(k: KernelContext, a: V, b: V) -> V:
    return b if is_integer(a, 0) else a if is_integer(b, 0) else k.f.binary("xor", a, b)


def _image(k: KernelContext, index: V, columns: Sequence[int]) -> V:
    """Emits the XOR of the columns of the index's set bits; images are grouped by how far they are shifted."""
    f = k.f
    diagonals: dict[int, int] = {}
    for bit, image in enumerate(columns):
        while image:
            low = image & -image
            shift = low.bit_length() - 1 - bit
            diagonals[shift] = diagonals.get(shift, 0) | 1 << bit
            image ^= low
    total = i32(0)
    for shift, mask in diagonals.items():
        part = f.binary("and", index, i32(mask))
        if shift:
            part = f.binary("shl" if shift > 0 else "lshr", part, i32(abs(shift)))
        total = _xor(k, total, part)
    return total


def _in_memory(k: KernelContext, plan: SharedGather, values: Sequence[V], indices: Sequence[V], width: int) -> list[V]:
    """Emits a gather through shared memory: the source is stored, and each thread loads by its indices."""
    f, t, shared = k.f, k.t, k.shared
    base = shared.reserve(plan.bytes)
    shared.before_writing()
    k.moves.store(base, plan.store, dict(enumerate(values)))
    shared.between()
    address, found = t.map(plan.address), []
    for start, index in zip(plan.bases, indices, strict=True):
        row = t.with_constant(address, start, plan.address.thread_bits)
        at = shared.at(base, f.add(row, f.mul(index, i32(plan.stride))))
        found.append(f.op(f"load i{width}, ptr addrspace(3) {at.operand()}, align {width // 8}", f"i{width}"))
    shared.after_reading()
    return found


# -- histograms ------------------------------------------------------------------------------


def _histogram(k: KernelContext, op: Operation) -> None:
    """Lowers tt.histogram to counters in shared memory.

    Values outside the bins, and masked ones, are not counted. Copies count once.
    """
    result, source = op.results[0], op.operands[0]
    elem, (bins,) = element_name(result.type), shape_of(result.type)
    mask = op.operands[1] if len(op.operands) > 1 else None
    if elem == "i1":
        raise UnsupportedError("nvptx lowering: tt.histogram with counts of i1; fix: a wider integer")
    layout = k.layout_of(source).unique_registers()
    values = k.registers(source, layout)
    masks = None if mask is None else k.registers(mask, layout)
    base = k.shared.reserve(4 * bins)
    counted = k.accesses.coalesced((bins,)).unique_registers()
    k.shared.before_writing()
    own = k.t.indices(counted, 0, range(counted.size(REGISTER)))
    pointers = [k.shared.at(base, k.f.mul(index, i32(4))) for index in own]
    _clear(k, pointers, counted)
    k.shared.between()
    _count(k, base, values, masks, bins, layout)
    k.shared.between()
    counts = [k.f.op(f"load i32, ptr addrspace(3) {pointer.operand()}, align 4", "i32") for pointer in pointers]
    found = tuple(k.f.cast("zext" if elem == "i64" else "trunc", count, elem) for count in counts)
    k.shared.after_reading()
    k.define(result, Distributed((bins,), elem, counted, found))


def _clear(k: KernelContext, pointers: Sequence[V], layout: LinearLayout) -> None:
    with k.t.where(_one_of_copies(k, layout)):
        for pointer in pointers:
            k.f.emit(f"store i32 0, ptr addrspace(3) {pointer.operand()}, align 4")


def _count(
    k: KernelContext, base: V, values: Sequence[V], masks: Sequence[V] | None, bins: int, layout: LinearLayout
) -> None:
    f = k.f
    predicate = _one_of_copies(k, layout)
    for register, value in enumerate(values):
        number = value if value.type in ("i32", "i64") else f.cast("zext" if value.type == "i1" else "sext", value, "i32")
        inside = f.icmp("ult", number, const(bins, number.type))  # negative numbers are large unsigned ones
        guard = k.t.both(predicate, inside)
        guard = guard if masks is None else k.t.both(guard, masks[register])
        with k.t.where(guard):
            pointer = k.shared.at(base, f.mul(_index(k, number), i32(4)))
            f.op(f"atomicrmw add ptr addrspace(3) {pointer.operand()}, i32 1 monotonic", "i32")


def _one_of_copies(k: KernelContext, layout: LinearLayout) -> V | None:
    free = layout.free_masks()
    assert not free[REGISTER]
    return k.t.predicate(ThreadPredicate(free[LANE], free[WARP]))


GATHERS: dict[str, Handler] = {"tt.gather": _gather, "tt.histogram": _histogram}
