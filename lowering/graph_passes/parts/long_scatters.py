"""Sums of many integers at few positions (histograms), which are computed in parts that are added up.

Updates come one after the other, and which element an update is for is known only when it comes: one thread takes them all.
Parts have elements of their own. Integers add up to the same in any order; floats do not, and are left in theirs.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....graph.ops.building import apply
from ....graph.protocols import SymbolLike
from ....graph.symbol import Symbol
from ....promotion.dtype import int64, uint64

BEYOND = 1 << 62
"""Positions from here on are beyond all sizes."""
MANY = 65536
"""Updates from which on there are parts."""
_PARTS = 8
_EACH = 4
"""Updates that there are for each element of all parts, which are made and added up besides."""


def is_long_scatter(symbol: Symbol) -> bool:
    """Returns whether a symbol adds many integers to few elements along one axis."""
    if symbol.op.name != "scatter" or symbol.attrs["reduction"] != "add" or not symbol.dtype.is_integer:
        return False
    target, positions = symbol.shape, symbol.inputs[1].shape
    if len(target) != 1 or not isinstance(target[0], int) or not isinstance(positions[0], int):
        return False
    return positions[0] >= MANY and 1 <= target[0] <= positions[0] // (_PARTS * _EACH)


def counts_from_0_on(symbol: SymbolLike) -> bool:
    """Returns whether a symbol is a scatter to int64 positions that leaves out negative ones, as positions beyond all sizes."""
    if symbol.op.name != "scatter" or symbol.inputs[1].op.name != "where" or symbol.inputs[1].dtype is not int64:
        return False
    condition, position, beyond = symbol.inputs[1].inputs
    if condition.op.name != "greater_equal" or condition.inputs[0] is not position or position.shape != symbol.inputs[1].shape:
        return False
    least, far = (_scalar(each) for each in (condition.inputs[1], beyond))
    return least == 0 and far is not None and far >= BEYOND


def with_unsigned_positions(symbol: SymbolLike, operands: Sequence[SymbolLike]) -> SymbolLike:
    """Returns such a scatter with unsigned positions: what is negative is beyond all sizes, and nothing counts from the end."""
    position = apply("bitcast", operands[1].inputs[1], dtype=uint64)
    return apply("scatter", operands[0], position, operands[2], axis=symbol.attrs["axis"], reduction=symbol.attrs["reduction"])


def scatter_in_parts(target: Symbol, positions: Symbol, updates: Symbol) -> SymbolLike:
    """Returns what a long scatter makes of its operands: the sums of the parts, and of updates that are no whole part."""
    (elements,), (count,) = target.shape, positions.shape
    assert isinstance(elements, int)
    assert isinstance(count, int)
    length = count // _PARTS
    whole = length * _PARTS

    def cut(of: SymbolLike, start: int, stop: int) -> SymbolLike:
        return of if stop - start == count else apply("slice", of, starts=(start,), stops=(stop,), steps=(1,))

    def parted(of: SymbolLike) -> SymbolLike:
        return apply("reshape", cut(of, 0, whole), shape=(_PARTS, length))

    zeros = apply("broadcast_to", target.graph.scalar(0, target.dtype), shape=(_PARTS, elements))
    sums = apply("scatter", zeros, parted(positions), parted(updates), axis=1, reduction="add")
    total = apply("reduce_sum", sums, axes=(0,), keepdims=False)
    if whole < count:
        return apply("add", apply("scatter", target, cut(positions, whole, count), cut(updates, whole, count), axis=0,
                                  reduction="add"), total)  # fmt: skip
    return apply("add", target, total)


def _scalar(symbol: SymbolLike) -> int | None:
    """Returns the number that a constant of one element holds; None for any other symbol."""
    value = symbol.attrs["value"] if symbol.op.name == "constant" and not symbol.shape else None
    return None if value is None else int(value)
