"""Rows of a short array of a few columns that positions pick, as colors of a palette, picked column by column.

    palette  r g b      position p  →  r[p]  g[p]  b[p]
             r g b
             …          each column is a table that registers hold, and the results are stored side by side
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ....graph.ops.building import apply
from ....graph.protocols import SymbolLike
from ....graph.symbol import Symbol

MAX_COLUMNS, MAX_BYTES, MAX_WIDE = 4, 1024, 512
"""The most columns, the bytes of all tables that registers hold beside what is computed, and those of one table whose
positions are not of 8 or 16 bits."""
MIN_LOOKUPS = 16
"""How many times as many positions as rows there are at least."""


def is_of_palette(symbol: Symbol, tables: Mapping[int, int]) -> bool:
    """Returns whether a symbol picks rows of a palette. tables: by the bytes of an element, the longest that registers hold."""
    if symbol.op.name != "gather" or symbol.attrs["axis"] != 0:
        return False
    palette, positions = symbol.inputs
    if len(palette.shape) != 2 or palette.dtype.kind not in ("int", "uint", "float") or palette.dtype.bits < 8:
        return False
    sizes = [extent for extent in (*palette.shape, *positions.shape) if isinstance(extent, int)]
    if len(sizes) < 2 + len(positions.shape) or not 2 <= sizes[1] <= MAX_COLUMNS:
        return False
    size = 4 if palette.dtype.is_float and palette.dtype.bits < 32 else palette.dtype.itemsize  # in registers
    rows, bytes_ = sizes[0], sizes[0] * size
    source = positions.inputs[0] if positions.op.name == "cast" else positions
    is_short = source.dtype.kind == "uint" and source.dtype.bits in (8, 16)
    fits = 1 < rows <= tables.get(size, 0) and bytes_ * sizes[1] <= MAX_BYTES and (is_short or bytes_ <= MAX_WIDE)
    return fits and math.prod(sizes[2:]) >= MIN_LOOKUPS * rows


def picked_by_column(symbol: Symbol, palette: Symbol, positions: Symbol) -> SymbolLike:
    """Returns the rows as columns side by side. palette, positions: the new operands."""
    rows, columns = palette.shape
    assert isinstance(columns, int)
    found = []
    for column in range(columns):
        one = apply("slice", palette, starts=(0, column), stops=(rows, column + 1), steps=(1, 1))
        table = apply("reshape", one, shape=(rows,))
        elements = positions.graph.apply("gather", (table, positions), symbol.attrs)
        found.append(apply("reshape", elements, shape=(*positions.shape, 1)))
    return apply("concat", *found, axis=len(positions.shape))
