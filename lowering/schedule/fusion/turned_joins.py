"""Concatenations that a kernel would read across the rows of the concatenation, or of its parts.

`permute(concat(a, b), (1, 0))` as one kernel picks each element from one of the parts, down a column of it, and so does
`relu(concat(permute(a), permute(b)))`. Stored first, part by part, these are transposed like any other tensors.
"""

from __future__ import annotations

from ....graph.symbol import Symbol
from ..extents import at_most
from .grouping import Grouping
from .repeated import known
from .storage import floating_maps

MIN_ROW, MIN_COLUMN, MIN_ELEMENTS = 5, 33, 1 << 12
"""Elements of a row that is read across, of a row of the kernel that does, and of the whole from which on it is stored."""


def turned_joins(grouping: Grouping) -> set[int]:
    """Returns the concatenations that are better stored."""
    candidates = [symbol for symbol in grouping.symbols if symbol.op.name == "concat" and _may_be_stored(grouping, symbol)]
    found: set[int] = set()
    for group in grouping.groups.values():
        if not candidates or group.kind != "map" or not group.stores:
            continue
        inner = group.innermost
        if inner is None or at_most(group.axes[inner], MIN_COLUMN - 1):
            continue
        maps = floating_maps(grouping, group, candidates[0])  # the first one of all: nothing below it is of interest
        for symbol in candidates:
            axis_map = maps.get(symbol.id)
            if axis_map is None or not any(inner in axes for axes in axis_map):
                continue
            is_turned = any(_is_turned(grouping, part) for part in symbol.inputs)
            if is_turned if inner in axis_map[-1] else not is_turned:
                found.add(symbol.id)
    return found


def _may_be_stored(grouping: Grouping, symbol: Symbol) -> bool:
    if symbol.id in grouping.group_of or symbol.id in grouping.interleaved or grouping.in_memory(symbol):
        return False
    return known(symbol.shape) >= MIN_ELEMENTS and not at_most(symbol.shape[-1], MIN_ROW - 1)


def _is_turned(grouping: Grouping, part: Symbol) -> bool:
    """Returns whether the rows of a part are columns of what it is computed of."""
    pending, seen = [part], set[int]()
    while pending:
        symbol = pending.pop()
        if symbol.id in seen or symbol.id in grouping.group_of or grouping.in_memory(symbol):
            continue
        seen.add(symbol.id)
        if symbol.op.name == "permute" and symbol.attrs["axes"][-1] != len(symbol.shape) - 1:
            (source,) = symbol.inputs
            return not at_most(source.shape[-1], MIN_ROW - 1) and not at_most(symbol.shape[-1], MIN_ROW - 1)
        pending += symbol.inputs if symbol.op.kind in ("map", "view") else ()
    return False
