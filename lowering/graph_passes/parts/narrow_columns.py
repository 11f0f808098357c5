"""Reductions to a few columns side by side, as of points or colors, done in wider columns first: whole registers of a row.

    x y z x y z x y z …      48 numbers are a row of 16 points: its sums are 16 sums of each coordinate
    x y z x y z x y z …
    ─────────────────────
    Σ Σ Σ Σ Σ Σ Σ Σ Σ …  →  reduced once more, to x y z

Lanes of a register would be two to four columns otherwise, and the others of it be filled with what is left out.
"""

from __future__ import annotations

import math

from ....graph.ops.building import apply
from ....graph.protocols import SymbolLike

MAX_COLUMNS, MAX_COLUMNS_OF_REGISTERS = 4, 8
"""Most columns, and most where wider ones are whole registers."""
MIN_ROWS = 64
MIN_WIDE, MAX_WIDE, LANES = 16, 128, 16
"""Fewest and most columns of the first reduction, and what they had better be a multiple of."""
_NAMES = frozenset({"reduce_sum", "reduce_prod", "reduce_max", "reduce_min"})


def is_of_narrow_columns(symbol: SymbolLike) -> bool:
    """Returns whether a symbol reduces many rows of a few numbers that lie one after the other."""
    if symbol.op.name not in _NAMES or symbol.dtype.bits < 32:
        return False
    (x,), axes = symbol.inputs, sorted(symbol.attrs["axes"])
    rank = len(x.shape)
    if not axes or axes != list(range(axes[0], rank - 1)) or not all(isinstance(extent, int) for extent in x.shape):
        return False
    return _rows_together(x, axes) > 1 and _lies_in_order(x)


def _rows_together(x: SymbolLike, axes: list[int]) -> int:
    """Returns how many rows become one; 1 where none should."""
    sizes = [extent for extent in x.shape if isinstance(extent, int)]
    rows, columns = math.prod([sizes[axis] for axis in axes]), sizes[-1]
    if rows < MIN_ROWS or not 2 <= columns <= MAX_COLUMNS_OF_REGISTERS or 0 in sizes:
        return 1
    found = [count for count in range(2, MAX_WIDE // columns + 1) if rows % count == 0 and count * columns >= MIN_WIDE]
    whole = [count for count in found if count * columns % LANES == 0]
    if whole:
        return whole[0]
    return found[0] if found and columns <= MAX_COLUMNS else 1


def _lies_in_order(x: SymbolLike) -> bool:
    """Returns whether what is in memory, and x is made of element by element, lies there as x's elements do."""
    pending, seen = [x], {x.id}
    while pending:
        symbol = pending.pop()
        if symbol.op.kind == "view" and symbol.op.name != "reshape":
            return False
        if symbol.op.kind in ("map", "view"):
            for operand in symbol.inputs:
                if operand.id not in seen and any(extent != 1 for extent in operand.shape):
                    seen.add(operand.id)
                    pending.append(operand)
    return True


def reduced_in_wide_columns(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    """Returns the reduction in two: to columns of several rows side by side, and to those of one."""
    axes = sorted(symbol.attrs["axes"])
    count, columns = _rows_together(x, axes), x.shape[-1]
    sizes = [extent for extent in x.shape if isinstance(extent, int)]
    outer, rows = sizes[: axes[0]], math.prod([sizes[axis] for axis in axes])
    axis = (len(outer),)
    wide = apply("reshape", x, shape=(*outer, rows // count, count * sizes[-1]))
    first = apply("reshape", apply(symbol.op.name, wide, axes=axis, keepdims=False), shape=(*outer, count, columns))
    return apply("reshape", apply(symbol.op.name, first, axes=axis, keepdims=False), shape=symbol.shape)
