"""Finds concatenations of single elements, which one kernel stores side by side in registers: colors, coordinates, pairs."""

from __future__ import annotations

from collections.abc import Callable

from ...graph.symbol import Symbol
from .extents import is_one

MAX_PARTS = 4
"""Parts of a concatenation whose elements are stored side by side."""
MIN_ROWS = 16
"""Elements of a part that are stored together with those of the others."""
_EVEN = frozenset({"slice", "permute", "broadcast_to", "flip"})
"""Views whose elements lie in memory at even distances, if those of their operands do."""


def interleaves(symbol: Symbol, in_memory: Callable[[Symbol], bool]) -> bool:
    """Returns whether a concatenation puts single elements of few parts side by side, which one kernel stores together.

    Parts are computed element by element of what lies in memory at even distances; else every kernel that stores them would
    compute all parts for each element.
    """
    axis, shape = symbol.attrs["axis"], symbol.shape
    if axis != len(shape) - 1 or axis == 0 or len(symbol.inputs) > MAX_PARTS:
        return False
    rows = shape[-2]
    if not all(is_one(operand.shape[axis]) for operand in symbol.inputs) or (type(rows) is int and rows < MIN_ROWS):
        return False
    pending, seen = list(symbol.inputs), {operand.id for operand in symbol.inputs}
    while pending:
        current = pending.pop()
        if in_memory(current) or current.op.kind == "source":
            continue
        if not (current.op.kind == "map" or current.op.name in _EVEN or _adds_ones(current)):
            return False
        fresh = [operand for operand in current.inputs if operand.id not in seen]
        seen.update([operand.id for operand in fresh])
        pending += fresh
    return True


def _adds_ones(symbol: Symbol) -> bool:
    """Returns whether a symbol is a reshape that only adds and removes dimensions of one element."""
    if symbol.op.name != "reshape":
        return False
    before, after = ([extent for extent in each.shape if not is_one(extent)] for each in (symbol.inputs[0], symbol))
    return before == after
