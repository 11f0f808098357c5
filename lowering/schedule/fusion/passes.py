"""Kernels that pass several times over what they reduce, and are better cut after the first pass.

`y - mean(y, 0)` passes over the rows twice, and would compute `y` each time: a block of columns is longer than what a kernel
keeps. And `x - mean(x, (0, 2))` passes twice over parts of memory that lie far apart, of which none is fetched ahead when it is
written. A plan shows which kernels do so. In the next one their first pass stores what takes long to compute, and what needs
its results is computed by other kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ....graph.symbol import Symbol
from ..costs import LONGEST_WHOLE_ROW, MAX_KEPT, MAX_WHOLE_COLUMN, is_scalar
from ..extents import is_one, product
from ..groups import Group
from ..views import storage_root
from .grouping import Grouping
from .repeated import known

MIN_WORK, MIN_FAR_WORK = 8, 11
"""Work of an element, as in `costs.py`, from which on reading it takes less time than computing it again: where caches hold
all of them, and from memory."""
FAR = 8 << 20
"""Bytes from which on values are read from memory. What has an extent that is known at launch only is taken for less."""
MIN_FACTORS = 8
"""Factors that are the same for many elements, as those of depthwise filters are, from which on what is computed of them is
stored before it is reduced: a kernel that only stores it loads them once for several rows."""
NARROW_ROW, MIN_NARROW = 8192, 1 << 17
"""Bytes of rows up to which columns are narrow, and of all rows from which on a second kernel is worth its launch: what is
computed of sums of columns takes 0.4 to 1.0 of the time in a kernel of its own."""
APART = 4 << 20
"""Bytes of an operand from which on parts that lie far apart are written by a kernel of its own, in the order of memory."""


def in_one_pass(grouping: Grouping) -> tuple[set[int], set[int], set[int]]:
    """Returns the symbols that first passes should store, those that kernels of their own should, and the reductions of which
    nothing that lies along what they reduce should join the kernel."""
    stored, alone, apart = set[int](), set[int](), set[int]()
    for group in grouping.groups.values():
        if group.kind != "row" or not group.reduced or apart.intersection(group.reads):
            continue
        alone.update(_filtered(grouping, group))
        if len(group.members) < 2:
            continue
        is_walked, is_scattered = _is_walked(group), _is_scattered(grouping, group)
        if is_walked or is_scattered:
            reductions, first, later = _passes(grouping, group)
            found = _computed_again(grouping, group, first, later) if first and later and is_walked else set()
            stored |= found
            is_narrow = is_walked and _has_narrow_columns(grouping, group)
            if found or ((is_scattered or is_narrow) and first and later):
                apart |= reductions
            if is_scattered:
                alone.update(key for key in group.stores if key not in grouping.group_of and _lies_along(group, key))
    return stored, alone, apart


def _passes(grouping: Grouping, group: Group) -> tuple[set[int], list[Symbol], list[Symbol]]:
    """Returns the reductions of the first pass over what is reduced, what that one reads, and what later ones do."""
    needing = set[int]()  # a reduction of the group
    for key in sorted(group.members):
        if key in group.reads or any(operand.id in needing for operand in grouping.symbols[key].inputs):
            needing.add(key)
    reductions = {key for key in group.reads if grouping.symbols[key].inputs[0].id not in needing}
    first = [grouping.symbols[key].inputs[0] for key in reductions]
    later = [grouping.symbols[key].inputs[0] for key in group.reads if key not in reductions]
    for key in (*group.stores, *[part.part for part in grouping.parts.get(group.bit, ())]):
        if _lies_along(group, key):
            (later if key in needing else first).append(grouping.symbols[key])
    return reductions, first, later


def _filtered(grouping: Grouping, group: Group) -> set[int]:
    """Returns the operands of reductions that are sums of many products with factors that several elements share."""
    found = set[int]()
    for key in group.reads:
        (operand,) = grouping.symbols[key].inputs
        root = storage_root(operand)
        if root.id in grouping.group_of or grouping.in_memory(root) or grouping.cost[root.id] < 4 * MIN_FACTORS:
            continue
        size = known(root.shape)
        computed = [symbol for symbol in _below(grouping, group, [root]) if symbol.op.kind == "map"]
        leaves = {each.id: each for symbol in computed for each in symbol.inputs if each.op.kind != "map"}
        shared = sum(not is_scalar(leaf) and 1 < known(leaf.shape) < size for leaf in leaves.values())
        if MIN_FACTORS <= shared <= len(leaves) - MIN_FACTORS:
            found.add(root.id)
    return found


def _lies_along(group: Group, key: int) -> bool:
    """Returns whether a member varies along what the group reduces."""
    return not group.reduced_axes.isdisjoint([axis for axes in group.members[key] for axis in axes])


def _computed_again(grouping: Grouping, group: Group, first: list[Symbol], later: list[Symbol]) -> set[int]:
    """Returns what several passes would compute, and takes longer than reading it."""
    again = _computed(grouping, group, first) & _computed(grouping, group, later)
    inside = {operand.id for key in again for operand in grouping.symbols[key].inputs if operand.id in again}
    return {key for key in again - inside if _is_stored_better(grouping, group, grouping.symbols[key])}


def _computed(grouping: Grouping, group: Group, starts: list[Symbol]) -> set[int]:
    """Returns what is computed elementwise for some symbols, down to what is in memory and to the group's reductions."""
    return {symbol.id for symbol in _below(grouping, group, starts) if symbol.op.kind == "map"}


def _below(grouping: Grouping, group: Group, starts: list[Symbol]) -> Iterator[Symbol]:
    pending, seen = list(starts), set[int]()
    while pending:
        symbol = pending.pop()
        if symbol.id in seen or symbol.id in group.reads:
            continue
        seen.add(symbol.id)
        own = grouping.group_of.get(symbol.id)
        if own is not None and own is not group:
            continue
        if own is None and grouping.in_memory(symbol) and not grouping.stored.get(symbol.id, 0) & group.bit:
            continue
        yield symbol
        pending += symbol.inputs


def _is_scattered(grouping: Grouping, group: Group) -> bool:
    """Returns whether a kernel reduces rows that lie far apart, as of each channel of a batch of images."""
    axes = [axis for axis in range(len(group.axes)) if not is_one(group.axes[axis])]
    reduced = group.reduced_axes
    if not axes or axes[-1] not in reduced or not reduced.issubset(axes):
        return False
    if reduced.issuperset(axes[-len(reduced) :]):
        return False  # they lie side by side
    operands = [grouping.symbols[key].inputs[0] for key in group.reads]
    return any(operand.dtype.itemsize * known(operand.shape) >= APART for operand in operands)


def _has_narrow_columns(grouping: Grouping, group: Group) -> bool:
    """Returns whether a kernel reduces columns of short rows, of which each program has a piece: it would write along them in
    pieces, too, after passes over all rows. A kernel of its own writes whole rows."""
    inner = group.innermost
    if inner is None or inner in group.reduced_axes:
        return False
    extent = group.axes[inner]
    others = [group.axes[axis] for axis in range(len(group.axes)) if axis != inner and axis not in group.reduced_axes]
    if type(extent) is not int or any(not is_one(each) for each in others):
        return False
    operands = [grouping.symbols[key].inputs[0] for key in group.reads]
    return any(
        operand.dtype.itemsize * extent <= NARROW_ROW and operand.dtype.itemsize * known(operand.shape) >= MIN_NARROW
        for operand in operands
    )


def _is_walked(group: Group) -> bool:
    """Returns whether a kernel passes over what it reduces in chunks, of which it keeps nothing."""
    extents = [group.axes[axis] for axis in group.reduced_axes if not is_one(group.axes[axis])]
    whole = prod([1 << (extent - 1).bit_length() for extent in extents if type(extent) is int])
    is_known = all(type(extent) is int for extent in extents)
    if group.innermost in group.reduced_axes:  # of whole rows two values of four bytes may be kept
        return not is_known or whole > max(LONGEST_WHOLE_ROW, MAX_KEPT // 8)
    return not is_known or whole > MAX_WHOLE_COLUMN


def _is_stored_better(grouping: Grouping, group: Group, symbol: Symbol) -> bool:
    size = product([*symbol.shape, symbol.dtype.itemsize])
    is_far = type(size) is int and size >= FAR
    is_floating = symbol.id not in grouping.group_of and grouping.stored.get(symbol.id, group.bit) == group.bit
    return is_floating and grouping.cost[symbol.id] >= (MIN_FAR_WORK if is_far else MIN_WORK)
