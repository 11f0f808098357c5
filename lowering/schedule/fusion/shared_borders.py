"""Finds borders that are read again and again: what filters, pools and differences of neighbours read around a tensor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from ....graph.symbol import Symbol


def shared_borders(symbols: Sequence[Symbol]) -> set[int]:
    """Returns the symbols padded with elements of their own, and the rows joined of parts, that are read again and again, as by
    the taps of a filter: each of these would find the position of every element, or choose its part."""
    readers: dict[int, list[Symbol]] = {}
    for symbol in symbols:
        for operand in symbol.inputs:
            readers.setdefault(operand.id, []).append(symbol)
    found = set()
    for symbol in symbols:
        if symbol.op.name == "pad" and symbol.attrs.get("mode", "constant") != "constant":
            count = len(readers.get(symbol.id, ()))
        elif symbol.op.name == "concat" and symbol.attrs["axis"] == len(symbol.shape) - 1:
            count = _taps(symbol, readers)
        else:
            continue
        if count > 1:
            found.add(symbol.id)
    return found


def _taps(symbol: Symbol, readers: Mapping[int, Sequence[Symbol]]) -> int:
    """Returns how many readers of rows that are joined of parts read elements of several parts: slices, or windows, which are
    many.

    Rows may be reshaped, so that an element of theirs becomes one of pixels.
    """
    axis, ends = symbol.attrs["axis"], [0]
    for part in symbol.inputs:
        extent = part.shape[axis]
        if not isinstance(extent, int):
            return 0
        ends.append(ends[-1] + extent)
    taps = 0
    for reader in readers.get(symbol.id, ()):
        within, taken = 1, [reader]
        if reader.op.name == "reshape" and reader.shape[:axis] == symbol.shape[:axis]:
            within = math.prod([extent if isinstance(extent, int) else 0 for extent in reader.shape[axis + 1 :]])
            taken = list(readers.get(reader.id, ()))
        for each in taken:
            if each.op.name == "windows" and axis in each.attrs["axes"]:
                taps += 2
            elif each.op.name == "slice" and not _is_within_one(each, axis, within, ends):
                taps += 1
    return taps


def _is_within_one(symbol: Symbol, axis: int, within: int, ends: Sequence[int]) -> bool:
    """Whether a slice takes elements of one part, which ends where the next one begins."""
    start, stop = symbol.attrs["starts"][axis], symbol.attrs["stops"][axis]
    if symbol.attrs["steps"][axis] < 0 or not isinstance(start, int) or not isinstance(stop, int):
        return False
    return any(low <= start * within and stop * within <= high for low, high in pairwise(ends))
