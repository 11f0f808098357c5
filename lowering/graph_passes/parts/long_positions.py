"""Positions of extremes down long columns (argmax, argmin over another axis than the last), found in parts of the rows.

Columns are shared out among threads otherwise, and each reads a piece of every row, which memory gives at a tenth of its rate.
Each part finds its own extreme and where it is, in one pass, and the extreme of these, the first of equals, says in which part.
"""

from __future__ import annotations

import math

from ....graph.ops.building import apply
from ....graph.protocols import SymbolLike
from ....graph.symbol import Symbol
from .cuts import FROM_MEMORY, MIN_LENGTH, MIN_PARTS, is_cut_in_place, part_count

MAX_ROW = 4096
"""Bytes of a row up to which a program reads it whole."""
_EXTREMES = {"argmax": "reduce_max", "argmin": "reduce_min"}


def is_long_extreme(symbol: Symbol) -> bool:
    """Returns whether a symbol says where extremes of a few long columns are."""
    if symbol.op.name not in _EXTREMES or len(symbol.attrs["axes"]) != 1:
        return False
    (axis,) = symbol.attrs["axes"]
    x = symbol.inputs[0]
    sizes = [extent for extent in x.shape if isinstance(extent, int)]
    if len(sizes) != len(x.shape) or axis == len(sizes) - 1 or sizes[axis] < MIN_PARTS * MIN_LENGTH:
        return False
    nbytes = math.prod(sizes) * x.dtype.itemsize
    if nbytes < FROM_MEMORY or nbytes // sizes[axis] > MAX_ROW:
        return False
    return sizes[axis] % part_count(sizes[axis]) == 0 or is_cut_in_place(x)


def extreme_of_parts(symbol: Symbol, x: Symbol) -> SymbolLike:
    """Returns the positions as those in the parts, and in which part. x: the new operand.

    Of equal values the first one counts, and of NaN, in a part and among parts, so it does in the whole.
    """
    name, (axis,) = symbol.op.name, symbol.attrs["axes"]
    sizes = [extent for extent in x.shape if isinstance(extent, int)]
    parts = part_count(sizes[axis])
    length = sizes[axis] // parts
    before, behind = sizes[:axis], sizes[axis + 1 :]

    def cut(start: int, stop: int) -> SymbolLike:
        if stop - start == sizes[axis]:
            return x
        starts = tuple([start if each == axis else 0 for each in range(len(sizes))])
        return apply("slice", x, starts=starts, stops=(*before, stop, *behind), steps=(1,) * len(sizes))

    def found(rows: SymbolLike, count: int, each: int) -> tuple[SymbolLike, SymbolLike]:
        divided = apply("reshape", rows, shape=(*before, count, each, *behind))
        return (
            apply(_EXTREMES[name], divided, axes=(axis + 1,), keepdims=False),
            apply(name, divided, axes=(axis + 1,), keepdims=False),
        )

    extremes, positions = found(cut(0, parts * length), parts, length)
    if rest := sizes[axis] - parts * length:
        its = found(cut(parts * length, sizes[axis]), 1, rest)
        extremes, positions = [apply("concat", *each, axis=axis) for each in zip((extremes, positions), its, strict=True)]
    part = apply(name, extremes, axes=(axis,), keepdims=True)
    inside = apply("take_along_axis", positions, part, axis=axis)
    result = apply("add", apply("mul", part, x.graph.scalar(length, part.dtype)), inside)
    return result if symbol.attrs["keepdims"] else apply("reshape", result, shape=symbol.shape)


__all__ = ["MAX_ROW", "extreme_of_parts", "is_long_extreme"]
