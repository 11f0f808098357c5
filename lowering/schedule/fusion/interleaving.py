"""Finds concatenations of few elements, which one kernel stores side by side in registers: colors, coordinates, pairs."""

from __future__ import annotations

import math
from collections.abc import Callable

from ....graph.symbol import Symbol
from ..costs import op_cost
from ..extents import is_one

MAX_PARTS = 32
"""Parts of a concatenation whose elements are stored side by side."""
MIN_ROWS = 16
"""Elements of a part that are stored together with those of the others."""
MAX_ROW_BYTES = 256
"""Bytes that rows of several elements of each part have less than: longer ones are stored part by part as fast, or faster."""
LARGE_BYTES = 12 << 20
"""Bytes of a concatenation from which on rows of any length are stored whole: caches do not keep the lines that parts share."""
MAX_STEPS = 4
"""Elementwise work, as in `costs.py`, on all parts of such a row: each lane does that of all of them."""
_EVEN = frozenset({"slice", "permute", "broadcast_to", "flip"})
"""Views whose elements lie in memory at even distances, if those of their operands do."""


def interleaves(symbol: Symbol, in_memory: Callable[[Symbol], bool]) -> bool:
    """Returns whether a concatenation puts few elements of few parts side by side, which one kernel stores together.

    Parts are computed element by element of what lies in memory at even distances; else every kernel that stores them would
    compute all parts for each element. So it does for parts of several elements, whose work is a copy, or little more.
    """
    axis, shape = symbol.attrs["axis"], symbol.shape
    if axis != len(shape) - 1 or axis == 0 or len(symbol.inputs) > MAX_PARTS:
        return False
    rows = shape[-2]
    if type(rows) is int and rows < MIN_ROWS:
        return False
    single = all(is_one(operand.shape[axis]) for operand in symbol.inputs)
    if not single and not _is_short_or_large(symbol):
        return False
    pending, seen = list(symbol.inputs), {operand.id for operand in symbol.inputs}
    work = 0
    while pending:
        current = pending.pop()
        if in_memory(current) or current.op.kind == "source":
            continue
        if not (current.op.kind == "map" or current.op.name in _EVEN or _adds_ones(current)):
            return False
        work += op_cost(current) if current.op.kind == "map" else 0
        if not single and work > MAX_STEPS:
            return False
        fresh = [operand for operand in current.inputs if operand.id not in seen]
        seen.update([operand.id for operand in fresh])
        pending += fresh
    return True


def _is_short_or_large(symbol: Symbol) -> bool:
    """Returns whether the rows of a concatenation are short, or all of it is more than caches hold."""
    sizes = [extent for extent in symbol.shape if type(extent) is int]
    if type(symbol.shape[-1]) is int and sizes[-1] * symbol.dtype.itemsize < MAX_ROW_BYTES:
        return True
    return len(sizes) == len(symbol.shape) and math.prod(sizes) * symbol.dtype.itemsize >= LARGE_BYTES


def adds_outer_products(symbol: Symbol) -> bool:
    """Returns whether a symbol adds a product of columns with rows, as a product with a small matrix does for each step."""
    if symbol.op.name != "multiply_add" or len(symbol.shape) < 2:
        return False
    left, right = (operand.shape for operand in symbol.inputs[:2])
    is_outer = len(left) > 1 and is_one(left[-1]) and len(right) > 1 and is_one(right[-2])
    return is_outer and not is_one(symbol.shape[-2])  # a tap of the only channel has one row


def _adds_ones(symbol: Symbol) -> bool:
    """Returns whether a symbol is a reshape that only adds and removes dimensions of one element."""
    if symbol.op.name != "reshape":
        return False
    before, after = ([extent for extent in each.shape if not is_one(extent)] for each in (symbol.inputs[0], symbol))
    return before == after
