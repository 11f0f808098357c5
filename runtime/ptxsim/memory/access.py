"""Executes ld, st and conversions of addresses.

Source: PTX ISA, "Data Movement and Conversion Instructions: ld, st, cvta, isspacep, prefetch", "Generic Addressing".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ....lowering.ptx.instructions import WIDTHS, describe
from ....lowering.ptx.modules import SIZES
from ....lowering.ptx.syntax import Address, Instruction, Integer, Name, Operand, Register, Vector
from ....promotion.arrays import Array
from ....promotion.errors import UnsupportedError, UserError
from ..core.binding import Binding
from ..core.modifiers import Modifiers
from ..core.types import Mask, Step, number_type
from .spaces import LOCAL_WINDOW, PARAM_WINDOW, RANK_SHIFT, SHARED_WINDOW, Site, Space

Addresses = Callable[[Array | None], Array]
"""Returns the addresses of the lanes, or of all lanes for None, as uint64."""

ORDERS = ("weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "mmio")
SCOPES = ("cta", "cluster", "gpu", "sys")
_HINTS = ("ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc")
_SPACES = (
    "global",
    "shared::cta",
    "shared::cluster",
    "shared",
    "local",
    "const",
    "param::entry",
    "param::func",
    "param",
)


def address_of(k: Binding, operand: Operand) -> Addresses:
    """Returns the addresses that `[base + offset]` or a plain register names."""
    if isinstance(operand, Address):
        if operand.parts:
            raise k.refuse(operand, "a plain address")
        base, offset = operand.base, operand.offset
    else:
        base, offset = operand, 0
    if isinstance(base, Register):
        width = WIDTHS[k.function.registers[base.name]]
        if width not in (32, 64):
            raise k.refuse(base, "an address of 32 or 64 bits")
        row = k.source(base, f"u{width}")
        if offset == 0 and width == 64:
            return lambda lanes: row if lanes is None else row[lanes]
        step = row.dtype.type(offset & ((1 << width) - 1))
        if width == 64:
            return lambda lanes: (row if lanes is None else row[lanes]) + step
        return lambda lanes: ((row if lanes is None else row[lanes]) + step).astype(np.uint64)
    if isinstance(base, Name):
        fixed = k.machine.symbol(k.function, base.text, k.where) + offset
    elif isinstance(base, Integer):
        fixed = base.value + offset
    else:
        raise k.refuse(operand, "an address")
    address = np.uint64(fixed & ((1 << 64) - 1))
    everywhere = np.full(k.lanes, address)
    return lambda lanes: everywhere if lanes is None else everywhere[: lanes.size]


Part = tuple[Space, Array | slice, Array, Array | None]
"""A space, the accesses that go there (an index or a slice), their addresses in it, and their lanes."""


class Router:
    """Routes accesses to spaces: all to one, or by the window that contains a generic address."""

    def __init__(self, k: Binding, space: str, address: Operand | None = None) -> None:
        """address: the operand that has the addresses, where the arguments that they come from matter."""
        self.machine = k.machine
        self.space = space
        self.site = Site(sources=() if address is None else k.machine.sources_of(k.function, address))

    def parts(self, address: Array, lanes: Array | None) -> Iterator[Part]:
        machine = self.machine
        if self.space in ("global", "const"):
            yield machine.memory, slice(None), address, lanes
        elif self.space in ("shared", "shared::cta"):
            shared = machine.cta.shared
            if machine.cluster_size > 1 and np.count_nonzero(address >> np.uint64(RANK_SHIFT)):
                address = machine.own_shared(address, lanes)
            yield shared, slice(None), address, lanes
        elif self.space == "local":
            yield machine.local, slice(None), address, lanes
        elif self.space == "param":
            yield machine.parameters, slice(None), address, lanes
        elif self.space == "shared::cluster":
            yield from self.cluster(address, lanes)
        else:
            yield from self.generic(address, lanes)

    def cluster(self, address: Array, lanes: Array | None) -> Iterator[Part]:
        ranks = address >> np.uint64(RANK_SHIFT)
        for rank in np.unique(ranks).tolist():
            chosen = np.flatnonzero(ranks == rank)
            who = chosen if lanes is None else lanes[chosen]
            inner = address[chosen] & np.uint64((1 << RANK_SHIFT) - 1)
            yield self.machine.shared_of(int(rank), who), chosen, inner, who

    def generic(self, address: Array, lanes: Array | None) -> Iterator[Part]:
        window = address >> np.uint64(56)
        kinds = [int(window[0])] if np.count_nonzero(window != window[0]) == 0 else np.unique(window).tolist()
        for kind in kinds:
            chosen: Array | slice = slice(None) if len(kinds) == 1 else np.flatnonzero(window == kind)
            inner = address[chosen] & np.uint64((1 << 56) - 1) if kind else address[chosen]
            who = lanes if isinstance(chosen, slice) else (chosen if lanes is None else lanes[chosen])
            if kind == SHARED_WINDOW >> 56:
                for space, sub, offset, sub_lanes in self.cluster(inner, who):
                    yield space, (sub if isinstance(chosen, slice) else chosen[sub]), offset, sub_lanes
            elif kind == LOCAL_WINDOW >> 56:
                yield self.machine.local, chosen, inner, who
            elif kind == PARAM_WINDOW >> 56:
                yield self.machine.parameters, chosen, inner, who
            else:
                yield self.machine.memory, chosen, inner, who

    @property
    def single(self) -> Callable[[], Space] | None:
        """The one space of all accesses, where there can be only one."""
        machine = self.machine
        if self.space in ("global", "const"):
            return lambda: machine.memory
        if self.space in ("shared", "shared::cta") and machine.cluster_size == 1:
            return lambda: machine.cta.shared
        if self.space == "local":
            return lambda: machine.local
        if self.space == "param":
            return lambda: machine.parameters
        return None


def space_of(modifiers: Modifiers) -> str:
    space = modifiers.choice(_SPACES, "")
    return "param" if space.startswith("param") else space


def vector_of(modifiers: Modifiers) -> int:
    return int(modifiers.choice(("v2", "v4", "v8"), "v1")[1:])


def type_of(modifiers: Modifiers) -> str:
    return modifiers.choice(SIZES)


def order_of(modifiers: Modifiers) -> str:
    """Consumes the ordering and returns it. Memory is sequentially consistent here: orderings matter only to
    checks and to the detection of polling."""
    order = modifiers.choice(ORDERS, "")
    modifiers.drop(*SCOPES)
    return order


def hints(modifiers: Modifiers) -> bool:
    """Consumes cache hints, which have no effect on values. Returns whether a cache policy is an operand."""
    modifiers.drop(*_HINTS)
    policy = modifiers.has("L2::cache_hint")
    modifiers.drop_prefixed("L1::", "L2::")
    return policy


def elements_of(k: Binding, operand: Operand, count: int) -> tuple[Operand, ...]:
    if count == 1:
        return operand.elements if isinstance(operand, Vector) and len(operand.elements) == 1 else (operand,)
    if not isinstance(operand, Vector) or len(operand.elements) != count:
        raise k.refuse(operand, f"{count} registers in braces")
    return operand.elements


def _function_area(k: Binding, operand: Operand) -> bool:
    """Returns whether an address names a `.param` area that lanes own, of a call or of a device function."""
    name = operand.base.text if isinstance(operand, Address) and isinstance(operand.base, Name) else None
    if name is None and not k.function.entry and isinstance(operand, Address):
        return True
    return name is not None and (k.function.name, name) in k.machine.areas


def load(k: Binding, i: Instruction) -> Step:
    modifiers = Modifiers(i)
    order = order_of(modifiers)
    space = space_of(modifiers)
    policy = hints(modifiers)
    count, type_ = vector_of(modifiers), type_of(modifiers)
    modifiers.has("unified")
    modifiers.done()
    modifiers.operands(3 if policy else 2)
    if WIDTHS[type_] == 128:
        raise UnsupportedError(f"{modifiers.where}: accesses of 128-bit elements")
    size = SIZES[type_] * count
    if size > 32:
        raise UserError(f"{modifiers.where}: more than 32 bytes")
    if space == "param" and _function_area(k, i.operands[1]):
        space = "local"
    address = address_of(k, i.operands[1])
    outs = [k.destination(o, type_) for o in elements_of(k, i.operands[0], count)]
    dtype = number_type(type_)
    if dtype.kind == "f":
        dtype = np.dtype(f"u{dtype.itemsize}")
    outs = [out if out.dtype.kind != "f" else out.view(dtype) for out in outs]
    router = Router(k, space, i.operands[1])
    machine = k.machine
    polls = order in ("volatile", "relaxed", "acquire") or "cv" in i.modifiers
    watch = k.watcher(i.operands[1], [o for o in elements_of(k, i.operands[0], count)], size, False)
    single, site = router.single, router.site
    index = np.uint64(size.bit_length() - 1)
    seen: list[Array | None] = [None]

    def fetch(where: Array, lanes: Array | None) -> Array:
        if single is not None:
            space_ = single()
            offset = space_.offsets(where, size, lanes, False, site)
            if watch is not None:
                watch(space_, offset, lanes)
            return np.asarray(space_.view(dtype, count)[offset >> index])
        value = np.empty((where.size, count) if count > 1 else where.size, dtype)
        for space_, chosen, start, who in router.parts(where, lanes):
            offset = space_.offsets(start, size, who, False, site)
            if watch is not None:
                watch(space_, offset, who if who is not None else None)
            value[chosen] = space_.view(dtype, count)[offset >> index]
        return value

    def step(mask: Mask) -> None:
        if mask is None:
            value = fetch(address(None), None)
            if count == 1:
                np.copyto(outs[0], value, casting="unsafe")
            else:
                for j, out in enumerate(outs):
                    np.copyto(out, value[:, j], casting="unsafe")
        else:
            lanes = np.flatnonzero(mask)
            value = fetch(address(lanes), lanes)
            if count == 1:
                outs[0][lanes] = value
            else:
                for j, out in enumerate(outs):
                    out[lanes] = value[:, j]
        if polls:
            if seen[0] is not None and np.array_equal(seen[0], value):
                machine.soft_polls += 1
            seen[0] = value

    return step


def store(k: Binding, i: Instruction) -> Step:
    modifiers = Modifiers(i)
    order_of(modifiers)
    space = space_of(modifiers)
    policy = hints(modifiers)
    count, type_ = vector_of(modifiers), type_of(modifiers)
    modifiers.done()
    modifiers.operands(3 if policy else 2)
    if WIDTHS[type_] == 128:
        raise UnsupportedError(f"{modifiers.where}: accesses of 128-bit elements")
    if space == "const":
        raise UserError(f"{modifiers.where}: constant memory is read-only")
    size = SIZES[type_] * count
    if size > 32:
        raise UserError(f"{modifiers.where}: more than 32 bytes")
    if space == "param" and _function_area(k, i.operands[0]):
        space = "local"
    if space == "param":
        raise UserError(f"{modifiers.where}: parameters of an entry are read-only")
    address = address_of(k, i.operands[0])
    type_of_bits = f"b{WIDTHS[type_]}"
    elements = elements_of(k, i.operands[1], count)
    values = [np.asarray(k.source(o, type_of_bits)) for o in elements]
    dtype = values[0].dtype
    router = Router(k, space, i.operands[0])
    machine = k.machine
    watch = k.watcher(i.operands[0], list(elements), size, True)
    single, site = router.single, router.site
    index = np.uint64(size.bit_length() - 1)
    is_global = space in ("global", "")
    buffer = np.empty((k.lanes, count), dtype)

    def gathered(lanes: Array | None) -> Array:
        if count == 1:
            value = values[0]
            return value if lanes is None or not value.ndim else value[lanes]
        if lanes is None:
            for j, value in enumerate(values):
                buffer[:, j] = value
            return buffer
        found = np.empty((lanes.size, count), dtype)
        for j, value in enumerate(values):
            found[:, j] = value[lanes] if value.ndim else value
        return found

    def step(mask: Mask) -> None:
        lanes = None if mask is None else np.flatnonzero(mask)
        where = address(lanes)
        if is_global:
            machine.changes += 1
        if single is not None:
            space_ = single()
            offset = space_.offsets(where, size, lanes, True, site)
            if watch is not None:
                watch(space_, offset, lanes)
            space_.view(dtype, count)[offset >> index] = gathered(lanes)
            return
        found = gathered(lanes)
        found = (
            np.broadcast_to(found, (where.size, count)) if count > 1 else np.broadcast_to(found, where.shape)
        )
        for space_, chosen, start, who in router.parts(where, lanes):
            offset = space_.offsets(start, size, who, True, site)
            if watch is not None:
                watch(space_, offset, who)
            space_.view(dtype, count)[offset >> index] = found[chosen]

    return step


def convert_address(k: Binding, i: Instruction) -> Step:
    """Builds cvta and cvta.to, which convert between a space and generic addresses."""
    modifiers = Modifiers(i)
    to = modifiers.has("to")
    space = modifiers.choice(
        ("global", "shared::cluster", "shared::cta", "shared", "local", "const", "param::entry", "param")
    )
    type_ = modifiers.choice(("u64", "u32"))
    modifiers.done()
    modifiers.operands(2)
    source = i.operands[1]
    address = address_of(k, source)
    out = k.destination(i.operands[0], type_)
    window = {"s": SHARED_WINDOW, "l": LOCAL_WINDOW, "p": PARAM_WINDOW}.get(space[0], 0)
    if type_ == "u32" and window:
        raise UnsupportedError(f"{modifiers.where}: generic addresses have 64 bits")
    step_by = np.uint64(window)
    machine = k.machine

    def step(mask: Mask) -> None:
        found = address(None)
        if window and to:
            outside = (found >> np.uint64(56)) != np.uint64(window >> 56)
            outside = outside if mask is None else outside & mask
            if np.count_nonzero(outside):
                machine.warn(
                    "address space",
                    f"a generic address that is not in {space} memory",
                    np.flatnonzero(outside),
                )
        found = found - step_by if to else found + step_by
        np.copyto(out, found, casting="unsafe", where=True if mask is None else mask)

    return step


def is_space(k: Binding, i: Instruction) -> Step:
    modifiers = Modifiers(i)
    space = modifiers.choice(
        ("global", "shared::cluster", "shared::cta", "shared", "local", "const", "param::entry", "param")
    )
    modifiers.done()
    modifiers.operands(2)
    out = k.destination(i.operands[0], "pred")
    address = address_of(k, i.operands[1])
    window = {"s": SHARED_WINDOW, "l": LOCAL_WINDOW, "p": PARAM_WINDOW}.get(space[0], 0)

    def step(mask: Mask) -> None:
        np.copyto(
            out,
            (address(None) >> np.uint64(56)) == np.uint64(window >> 56),
            where=True if mask is None else mask,
        )

    return step


def prefetch(k: Binding, i: Instruction) -> Step:
    """Builds a prefetch, which does nothing: its address may be anything."""
    modifiers = Modifiers(i)
    space_of(modifiers)
    modifiers.drop("L1", "L2", "tensormap")
    modifiers.drop_prefixed("L2::")
    modifiers.done()
    modifiers.operands(1)
    if not isinstance(i.operands[0], Address):
        raise UserError(f"{modifiers.where}: {describe(i.operands[0])}, expected an address")
    return lambda mask: None


def create_policy(k: Binding, i: Instruction) -> Step:
    """Builds createpolicy: a cache policy has no effect on values, and its register gets a fixed mark."""
    modifiers = Modifiers(i)
    modifiers.choice(("fractional", "range", "cvt"))
    modifiers.drop_prefixed("L2::")
    modifiers.require("b64")
    modifiers.drop("global")
    modifiers.done()
    out = k.destination(i.operands[0], "b64")

    def step(mask: Mask) -> None:
        np.copyto(out, np.uint64(0x10F0000000000000), where=True if mask is None else mask)

    return step
