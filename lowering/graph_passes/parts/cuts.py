"""Says of which operands a slice costs no memory to speak of."""

from __future__ import annotations

from ....graph.symbol import Symbol

SMALL = 1 << 20
"""Bytes of a copy that stays in the caches."""


def is_cut_in_place(symbol: Symbol) -> bool:
    """Returns whether a slice of a symbol, which is reshaped then, is read where it lies: that of what a call brings, or of a
    view of it. What is computed is stored, and its slice is a copy, which counts for nothing if it is small."""
    if isinstance(symbol.nbytes, int) and symbol.nbytes <= SMALL:
        return True
    while symbol.op.kind == "view":
        symbol = symbol.inputs[0]
    return symbol.op.kind == "source"
