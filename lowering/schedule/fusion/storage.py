"""Decides which floating symbols are stored, and by which kernel: the second half of fusion.

After `Grouping.run` every reduction, scan and matmul has its group. What still floats is evaluated where it
is read, except the graph's outputs, operands a matmul cannot evaluate on its tiles, and producers that
several kernels would repeat at more than the cost of a load. Consumers are visited before producers, so the
symbol closest to its readers is the one stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ....graph.symbol import Symbol
from ..costs import is_scalar, op_cost
from ..extents import is_one
from ..groups import Group, align, is_distinct, reshaped_map
from ..indexing import AxisMap
from ..views import storage_root
from .grouping import Grouping

NARROW_STEPS = 6
"""Elementwise work, as in `costs.py`, that readers do again if fewer bytes are stored for it: codes are made floats in four."""


def assign_storage(grouping: Grouping) -> dict[int, int]:
    """Stores outputs, symbols that must be stored, and expensive ones that several kernels read.

    Returns, by position of the output, the id of the storage root that it shares memory with. An output that
    is missing must be copied: it is an input, a constant, or the same memory as another output.
    """
    bound = _bind_outputs(grouping)
    _store_narrow(grouping, set(bound.values()))
    _drop_cheap_stores(grouping, set(bound.values()))
    users = [0] * len(grouping.symbols)

    def may_float(symbol: Symbol) -> bool:
        return symbol.id not in grouping.group_of and not grouping.in_memory(symbol) and grouping.expensive(symbol)

    for symbol in reversed(grouping.symbols):
        key = symbol.id
        if symbol.op.kind == "source" or (key in grouping.group_of and key not in grouping.must_store):
            continue
        mask = grouping.evaluators.get(key, 0)
        for consumer in grouping.consumers[key]:
            group = grouping.group_of.get(consumer)
            if group is not None:
                mask |= group.bit
            elif consumer in grouping.stored:
                mask |= grouping.evaluators.get(consumer, 0)
            else:
                mask |= users[consumer]
        users[key] = mask
        if key in grouping.stored or grouping.in_memory(symbol):
            continue
        repeated = mask & (mask - 1) and symbol.op.kind != "view" and grouping.expensive(symbol)
        if repeated and _narrow_source(symbol, may_float) is not None:
            repeated = 0  # that one is stored
        if key in grouping.must_store or repeated:
            _store(grouping, symbol, mask)
    return bound


def _bind_outputs(grouping: Grouping) -> dict[int, int]:
    bound: dict[int, int] = {}
    taken: set[int] = set()
    for position, key in enumerate(grouping.outputs):
        symbol = grouping.symbols[key]
        root = storage_root(symbol)
        if root.op.kind == "source" or root.id in taken:
            continue
        taken.add(root.id)
        bound[position] = root.id
        group = grouping.group_of.get(root.id)
        if group is not None and group.is_storable(root):
            grouping.store_member(root, group)
        elif root.id not in grouping.stored:
            grouping.require(root)
            grouping.must_store.add(root.id)
    return bound


def _store_narrow(grouping: Grouping, bound: Collection[int]) -> None:
    """Stores codes of few bits in the place of what they stand for, which readers compute of them."""
    for group in grouping.groups.values():
        for key in list(group.stores):
            fixed = key in grouping.forced or key in bound
            narrow = None if fixed else _narrow_source(grouping.symbols[key], group.is_storable)
            if narrow is not None:
                del group.stores[key]
                del grouping.stored[key]
                grouping.store_member(narrow, group)


def _narrow_source(start: Symbol, may_store: Callable[[Symbol], bool]) -> Symbol | None:
    """Returns the narrowest symbol that may be stored and of which another one is computed in a few steps, with scalars."""
    symbol, found, work = start, None, 0
    while symbol.op.kind == "map" and work + op_cost(symbol) <= NARROW_STEPS:
        work += op_cost(symbol)
        inside = [operand for operand in symbol.inputs if not _is_number(operand)]
        if len(inside) != 1 or inside[0].shape != start.shape:
            break
        symbol = inside[0]
        narrower = symbol.dtype.bits < (start if found is None else found).dtype.bits
        if narrower and storage_root(symbol) is symbol and may_store(symbol):
            found = symbol
    return found


def _drop_cheap_stores(grouping: Grouping, bound: Collection[int]) -> None:
    """Drops the stores of members that are one cheap op on another stored member (`p * p` next to `p`), which
    readers repeat."""
    for group in grouping.groups.values():
        for key in list(reversed(group.stores)):
            symbol = grouping.symbols[key]
            if symbol.op.kind != "map" or op_cost(symbol) > 2 or key in grouping.forced or key in bound:
                continue
            large = {storage_root(o).id for o in symbol.inputs if o.id in group.members and not is_scalar(o)}
            others = [o for o in symbol.inputs if o.id not in group.members]
            narrower = any(o.dtype.bits > symbol.dtype.bits for o in symbol.inputs if o.id in group.members)
            if len(large) == 1 and large <= group.stores.keys() and not narrower and all(is_scalar(o) for o in others):
                del group.stores[key]
                del grouping.stored[key]


def _store(grouping: Grouping, symbol: Symbol, users: int) -> None:
    if symbol.op.name == "concat" and symbol.id not in grouping.interleaved:
        grouping.store_parts(symbol)
        for bit in _bits(users):
            grouping.before[bit] |= grouping.stored[symbol.id] & ~bit
        return
    host = None
    if symbol.id not in grouping.interleaved:
        host = _host(grouping, symbol, users) or _sibling(grouping, symbol, users)
    if host is None:
        host = grouping.map_group(symbol)
    host.stores[symbol.id] = None
    grouping.stored[symbol.id] = host.bit
    grouping.evaluators[symbol.id] = host.bit
    for bit in _bits(users & ~host.bit):
        grouping.before[bit] |= host.bit


def _bits(mask: int) -> list[int]:
    bits = []
    while mask:
        bit = mask & -mask
        mask ^= bit
        bits.append(bit)
    return bits


def _host(grouping: Grouping, symbol: Symbol, users: int) -> Group | None:
    """Makes `symbol` a member of a group that evaluates all its elements anyway; returns the group, or
    None."""
    for bit in _bits(users):
        group = grouping.groups[bit]
        if group.kind in ("attention", "scan", "ordered") or symbol.id in grouping.forced:
            continue
        axis_map = floating_maps(grouping, group, symbol).get(symbol.id)
        if axis_map is None or not _is_whole(group, axis_map, symbol):
            continue
        others = users & ~bit
        if others and grouping.reaches(grouping.before[bit], others):
            continue
        group.members[symbol.id] = axis_map
        return group
    return None


def _is_whole(group: Group, axis_map: AxisMap, symbol: Symbol) -> bool:
    """Returns whether the axes of `axis_map` are all of the group's (kept) axes, each once, and give every
    element of `symbol`."""
    if not is_distinct(axis_map):
        return False
    if any(not axes and not is_one(extent) for axes, extent in zip(axis_map, symbol.shape, strict=True)):
        return False
    axes = {axis for dimension in axis_map for axis in dimension}
    whole = set(range(len(group.axes)))
    if group.kind == "contract":
        whole -= {axis for depth in group.depth.values() for axis in depth}
        whole = {axis for axis in whole if not is_one(group.axes[axis])}
    return axes == whole


def floating_maps(grouping: Grouping, group: Group, target: Symbol) -> dict[int, AxisMap]:
    """Returns the axis maps at which `group` evaluates the floating symbols it reads, down to `target`, by
    symbol id: the first map met for each."""
    found: dict[int, AxisMap] = {}
    pending: list[tuple[Symbol, AxisMap]] = []

    def read(operand: Symbol, rank: int, result: AxisMap) -> None:
        offset = rank - len(operand.shape)
        pending.append(
            (operand, tuple([() if is_one(e) else result[offset + d] for d, e in enumerate(operand.shape)]))
        )

    for key, axis_map in list(group.members.items()):
        symbol = grouping.symbols[key]
        if key in group.reads:
            for operand, operand_map in zip(symbol.inputs, group.reads[key], strict=True):
                pending.append((operand, operand_map))
        elif symbol.op.kind == "map":
            for operand in symbol.inputs:
                read(operand, len(symbol.shape), axis_map)
        elif key not in grouping.group_of:
            pending.append((symbol, axis_map))
    while pending:
        symbol, axis_map = pending.pop()
        if symbol.id in found or symbol.id < target.id or symbol.id in grouping.group_of:
            continue
        if grouping.in_memory(symbol) and not grouping.stored.get(storage_root(symbol).id, 0) & group.bit:
            continue
        found[symbol.id] = axis_map
        if symbol.op.kind == "map":
            for operand in symbol.inputs:
                read(operand, len(symbol.shape), axis_map)
        elif symbol.op.name == "permute":
            inverse: list[tuple[int, ...]] = [()] * len(axis_map)
            for position, axis in enumerate(symbol.attrs["axes"]):
                inverse[axis] = axis_map[position]
            pending.append((symbol.inputs[0], tuple(inverse)))
        elif symbol.op.name == "reshape":
            below = reshaped_map(
                Group(0, "contract", list(group.axes)), axis_map, symbol.shape, symbol.inputs[0].shape
            )
            if below is not None:
                pending.append((symbol.inputs[0], below))
    return found


def _sibling(grouping: Grouping, symbol: Symbol, users: int) -> Group | None:
    """Makes `symbol` a member of a map group of its shape that reads some of the same memory and is ordered
    neither before nor after it; returns the group, or None."""
    if symbol.id in grouping.forced:
        return None
    leaves = _leaves(grouping, symbol)
    for group in grouping.groups.values():
        if group.kind != "map" or group.bit in grouping.parts:
            continue
        first = grouping.symbols[next(iter(group.members))]
        if first.shape != symbol.shape or leaves.isdisjoint(_leaves(grouping, first)):
            continue
        before = grouping.direct[symbol.id]
        if grouping.reaches(before, group.bit) or grouping.reaches(
            grouping.before[group.bit] | group.bit, users
        ):
            continue
        group.members[symbol.id] = align(group.members[first.id], len(symbol.shape))
        grouping.before[group.bit] |= before
        return group
    return None


def _leaves(grouping: Grouping, symbol: Symbol) -> set[int]:
    leaves: set[int] = set()
    pending, seen = list(symbol.inputs), {symbol.id}
    while pending:
        current = pending.pop()
        if current.id in seen:
            continue
        seen.add(current.id)
        if grouping.in_memory(current):
            if not is_scalar(current):
                leaves.add(storage_root(current).id)
        elif current.id not in grouping.group_of:
            pending.extend(current.inputs)
    return leaves


def _is_number(symbol: Symbol) -> bool:
    """Returns whether a symbol is a source of one element, or that in another dtype."""
    return is_scalar(symbol.inputs[0] if symbol.op.name == "cast" else symbol)
