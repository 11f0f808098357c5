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
from ...target import is_table, register_bytes

MAX_COLUMNS, MAX_BYTES = 4, 1024
"""The most columns, and the bytes of all tables that registers hold beside what is computed."""
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
    rows, columns, *lookups = sizes
    source = positions.inputs[0] if positions.op.name == "cast" else positions
    is_short = source.dtype.kind == "uint" and source.dtype.bits in (8, 16)
    if rows * columns * register_bytes(palette.dtype) > MAX_BYTES or math.prod(lookups) < MIN_LOOKUPS * rows:
        return False
    return is_table(palette.dtype, rows, is_short, lambda size: tables.get(size, 0))


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
