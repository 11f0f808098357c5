"""Executes instructions in which the lanes of a warp exchange values.

Source: PTX ISA, "Data Movement: shfl.sync", "Parallel Synchronization: vote.sync, match.sync, redux.sync, activemask,
elect.sync, bar.warp.sync".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....lowering.ptx.syntax import Instruction, Operand, Pair, Sink
from ....promotion.arrays import Array
from ..core.binding import Binding
from ..core.blocks import Control
from ..core.control import collective
from ..core.modifiers import Modifiers
from ..core.types import Mask, Step, number_type


def _pair(operand: Operand) -> tuple[Operand, Operand]:
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, Sink())


def executing(mask: Mask, lanes: int) -> Array:
    return np.ones(lanes, np.bool_) if mask is None else mask


def shuffle(k: Binding, i: Instruction) -> Control:
    modifiers = Modifiers(i)
    modifiers.require("sync", "b32")
    mode = modifiers.choice(("up", "down", "bfly", "idx"))
    modifiers.done()
    modifiers.operands(5)
    value_out, ok_out = _pair(i.operands[0])
    out, ok = k.destination(value_out, "b32"), k.destination(ok_out, "pred")
    wants_ok = not isinstance(ok_out, Sink)
    a = k.full(i.operands[1], "b32")
    b = k.source(i.operands[2], "b32")
    c = k.source(i.operands[3], "b32")
    lanes = np.arange(k.lanes, dtype=np.int64)
    lane, first = lanes & 31, lanes & ~np.int64(31)

    def sources() -> tuple[Array, Array]:
        """Returns from which lane each lane reads, and whether that is inside its segment."""
        amount = np.asarray(b).astype(np.int64) & 31
        control = np.asarray(c).astype(np.int64)
        segment, clamp = control >> 8 & 31, control & 31
        low = lane & segment
        high = low | (clamp & ~segment)
        if mode == "up":
            source = lane - amount
            inside = source >= high
        else:
            source = {"down": lane + amount, "bfly": lane ^ amount, "idx": low | (amount & ~segment)}[mode]
            inside = source <= high
        return first + np.where(inside, source, lane), inside

    fixed = sources() if np.ndim(b) == 0 and np.ndim(c) == 0 else None

    def step(mask: Mask) -> None:
        targets, inside = fixed if fixed is not None else sources()
        if mask is None:
            np.copyto(out, a()[targets])
            if wants_ok:
                np.copyto(ok, inside)
            return
        absent = mask & inside & ~mask[targets]
        if np.count_nonzero(absent):
            k.machine.warn("shuffle", "a read from a lane that does not take part", np.flatnonzero(absent))
        np.copyto(out, a()[targets], where=mask)
        if wants_ok:
            np.copyto(ok, inside, where=mask)

    undefined = k.undefined(i.operands[1])
    nowhere = np.zeros(k.lanes, np.uint8)

    def shadow(mask: Mask) -> list[Array]:
        return [undefined()[fixed[0] if fixed is not None else sources()[0]], nowhere]

    k.shadowed([value_out, ok_out], shadow)
    return collective(k, i, step, i.operands[4])


def _members(k: Binding, operand: Operand) -> Callable[[], Array]:
    """Returns the member mask of every lane, with a bit per lane of its warp."""
    return k.full(operand, "b32")


def _warps(k: Binding, values: Array, mask: Mask, members: Array) -> tuple[Array, Array]:
    """Returns, for each lane, the values of the 32 lanes of its warp, and which of those take part with it."""
    warp = np.repeat(values.reshape(-1, 32), 32, axis=0)
    there = np.repeat(executing(mask, k.lanes).reshape(-1, 32), 32, axis=0)
    bits = (members[:, None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1)
    return warp, there & (bits != 0)


def vote(k: Binding, i: Instruction) -> Control:
    modifiers = Modifiers(i)
    modifiers.require("sync")
    kind = modifiers.choice(("any", "all", "uni", "ballot"))
    modifiers.require("b32" if kind == "ballot" else "pred")
    modifiers.done()
    modifiers.operands(3)
    out = k.destination(i.operands[0], "b32" if kind == "ballot" else "pred")
    source, members = k.predicate(i.operands[1]), _members(k, i.operands[2])
    weights = np.uint32(1) << np.arange(32, dtype=np.uint32)

    def step(mask: Mask) -> None:
        warp, there = _warps(k, np.array(source()), mask, members())
        if kind == "ballot":
            found = ((warp & there) * weights).sum(1, dtype=np.uint32)
        elif kind == "any":
            found = (warp & there).any(1)
        elif kind == "all":
            found = (warp | ~there).all(1)
        else:
            found = (warp | ~there).all(1) | ~(warp & there).any(1)
        np.copyto(out, found, where=True if mask is None else mask)

    k.of_warps = True
    return collective(k, i, step, i.operands[2])


def match(k: Binding, i: Instruction) -> Control:
    modifiers = Modifiers(i)
    modifiers.require("sync")
    kind = modifiers.choice(("any", "all"))
    type_ = modifiers.choice(("b32", "b64"))
    modifiers.done()
    modifiers.operands(3)
    value_out, ok_out = _pair(i.operands[0])
    if kind == "any" and not isinstance(ok_out, Sink):
        raise k.refuse(i.operands[0], "one destination")
    out, ok = k.destination(value_out, "b32"), k.destination(ok_out, "pred")
    values, members = k.full(i.operands[1], type_), _members(k, i.operands[2])
    weights = np.uint32(1) << np.arange(32, dtype=np.uint32)

    def step(mask: Mask) -> None:
        own = np.array(values())
        warp, there = _warps(k, own, mask, members())
        same = (warp == own[:, None]) & there
        where = True if mask is None else mask
        if kind == "any":
            np.copyto(out, (same * weights).sum(1, dtype=np.uint32), where=where)
            return
        equal = (same | ~there).all(1)
        np.copyto(out, np.where(equal, (there * weights).sum(1, dtype=np.uint32), np.uint32(0)), where=where)
        np.copyto(ok, equal, where=where)

    k.of_warps = True
    return collective(k, i, step, i.operands[2])


def reduce(k: Binding, i: Instruction) -> Control:
    modifiers = Modifiers(i)
    modifiers.require("sync")
    name = modifiers.choice(("add", "min", "max", "and", "or", "xor"))
    type_ = modifiers.choice(("b32",) if name in ("and", "or", "xor") else ("u32", "s32"))
    modifiers.done()
    modifiers.operands(3)
    out = k.destination(i.operands[0], type_)
    values, members = k.full(i.operands[1], type_), _members(k, i.operands[2])
    dtype = number_type(type_)
    ufunc: np.ufunc = {
        "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    }[name]  # fmt: skip
    limits = np.iinfo(dtype)
    neutral = {"min": limits.max, "max": limits.min, "and": (1 << 32) - 1}.get(name, 0)

    def step(mask: Mask) -> None:
        warp, there = _warps(k, np.array(values()), mask, members())
        found = ufunc.reduce(np.where(there, warp, dtype.type(neutral)), axis=1, dtype=dtype)
        np.copyto(out, found, where=True if mask is None else mask)

    k.of_warps = True
    return collective(k, i, step, i.operands[2])


def elect(k: Binding, i: Instruction) -> Control:
    """Builds elect.sync, which elects the lowest lane of the member mask."""
    modifiers = Modifiers(i)
    modifiers.require("sync")
    modifiers.done()
    modifiers.operands(2)
    value_out, ok_out = _pair(i.operands[0])
    out, ok = k.destination(value_out, "b32"), k.destination(ok_out, "pred")
    members = _members(k, i.operands[1])
    lane = np.arange(k.lanes) & 31

    def step(mask: Mask) -> None:
        _, there = _warps(k, lane, mask, members())
        first = np.argmax(there, axis=1)
        where = True if mask is None else mask
        np.copyto(out, first, casting="unsafe", where=where)
        np.copyto(ok, first == lane, where=where)

    return collective(k, i, step, i.operands[1])


def warp_barrier(k: Binding, i: Instruction) -> Control:
    """Builds bar.warp.sync."""
    modifiers = Modifiers(i)
    modifiers.require("warp", "sync")
    modifiers.done()
    modifiers.operands(1)
    machine = k.machine
    members = k.full(i.operands[0], "b32")
    return collective(k, i, lambda mask: machine.warp_synchronised(mask, members()), i.operands[0])


def active_mask(k: Binding, i: Instruction) -> Step:
    """Builds activemask, the lanes that execute together; they are not stable, as on a device."""
    modifiers = Modifiers(i)
    modifiers.require("b32")
    modifiers.done()
    modifiers.operands(1)
    out = k.destination(i.operands[0], "b32")

    def step(mask: Mask) -> None:
        packed = np.packbits(executing(mask, k.lanes), bitorder="little").view(np.uint32)
        np.copyto(out, np.repeat(packed, 32), where=True if mask is None else mask)

    return step
