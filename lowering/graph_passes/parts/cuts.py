"""Says in how many parts rows are reduced, and of which operands a slice costs no memory to speak of."""

from __future__ import annotations

from ....graph.symbol import Symbol

SMALL = 1 << 20
"""Bytes of a copy that stays in the caches."""
MIN_PARTS, MAX_PARTS, MIN_LENGTH = 64, 512, 64
"""The fewest and the most parts that rows are reduced in, and the fewest rows of each."""
FROM_MEMORY = 1 << 24
"""Bytes from which on rows come from memory, where programs that read them whole get more in a second."""


def part_count(rows: int) -> int:
    """Returns the largest number of equal parts, or the largest that is allowed where none divides the rows."""
    most = min(MAX_PARTS, max(MIN_PARTS, rows // MIN_LENGTH))
    return next((parts for parts in range(most, MIN_PARTS - 1, -1) if rows % parts == 0), most)


def is_cut_in_place(symbol: Symbol) -> bool:
    """Returns whether a slice of a symbol, which is reshaped then, is read where it lies: that of what a call brings, or of a
    view of it. What is computed is stored, and its slice is a copy, which counts for nothing if it is small."""
    if isinstance(symbol.nbytes, int) and symbol.nbytes <= SMALL:
        return True
    while symbol.op.kind == "view":
        symbol = symbol.inputs[0]
    return symbol.op.kind == "source"
