"""Says in how many parts rows are reduced, and of which operands a slice costs no memory to speak of; makes such slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....graph.ops.attributes import Attributes
from ....graph.symbol import Symbol

SMALL = 1 << 20
"""Bytes of a copy that stays in the caches."""
MIN_PARTS, MAX_PARTS, MIN_LENGTH = 64, 512, 64
"""The fewest and the most parts that rows are reduced in, and the fewest rows of each."""
FEW_PARTS = 16
"""The fewest parts of rows that are not enough for so many: each reads whole rows, and there are some for each thread."""
FROM_MEMORY = 1 << 24
"""Bytes from which on rows come from memory, where programs that read them whole get more in a second."""


MAX_SLICED = 32
"""Symbols that are computed of slices in the place of one slice."""


def part_count(rows: int) -> int:
    """Returns the largest number of equal parts, or the largest that is allowed where none divides the rows."""
    most = min(MAX_PARTS, max(FEW_PARTS, rows // MIN_LENGTH))
    least = MIN_PARTS if most >= MIN_PARTS else max(FEW_PARTS, most // 2)
    return next((parts for parts in range(most, least - 1, -1) if rows % parts == 0), most)


def is_cut_in_place(symbol: Symbol) -> bool:
    """Returns whether a slice of a symbol, which is reshaped then, is read where it lies: that of what a call brings, or of a
    view of it. What is computed is stored, and its slice is a copy, which counts for nothing if it is small."""
    if isinstance(symbol.nbytes, int) and symbol.nbytes <= SMALL:
        return True
    while symbol.op.kind == "view":
        symbol = symbol.inputs[0]
    return symbol.op.kind == "source"


class Slices:
    """Makes slices of symbols of a graph in the graph that is made of it.

    What is computed element by element, and read by what is computed of it alone, is computed of slices of its operands: of its
    own slices, all of it would be stored first.
    """

    def __init__(self, symbols: Sequence[Symbol], outputs: Sequence[Symbol], new: Mapping[int, Symbol]) -> None:
        """Begins with the symbols of a graph that its outputs need. new: the new symbols, by the ids of those."""
        self._new = new
        self._readers: dict[int, set[int]] = {symbol.id: {-1} for symbol in outputs}
        for symbol in symbols:
            for operand in symbol.inputs:
                self._readers.setdefault(operand.id, set()).add(symbol.id)

    def of(self, symbol: Symbol, axis: int, start: int, stop: int) -> Symbol:
        """Returns the positions from `start` to `stop` along an axis of a symbol."""
        inside = self._inside(symbol, axis)
        made: dict[int, Symbol] = {}
        for each in sorted(inside, key=lambda each: each.id):
            operands: list[Symbol] = []
            for operand in each.inputs:
                own = axis + len(operand.shape) - len(symbol.shape)
                if operand.id not in made:
                    is_whole = own < 0 or operand.shape[own] == 1
                    made[operand.id] = self._new[operand.id] if is_whole else sliced(self._new[operand.id], own, start, stop)
                operands.append(made[operand.id])
            shape = (*symbol.shape[:axis], stop - start, *symbol.shape[axis + 1 :])
            made[each.id] = self._new[symbol.id].graph.adopt(each, operands, shape)
        return made[symbol.id] if inside else sliced(self._new[symbol.id], axis, start, stop)

    def _inside(self, symbol: Symbol, axis: int) -> list[Symbol]:
        """Returns the maps of one shape that a symbol is made of and that nothing else reads."""
        found: dict[int, Symbol] = {}
        pending = [symbol]
        while pending and len(found) < MAX_SLICED:
            each = pending.pop()
            only = self._readers.get(each.id, set()) <= found.keys() or each is symbol
            if each.id not in found and each.op.kind == "map" and each.shape == symbol.shape and only:
                found[each.id] = each
                pending += each.inputs
        return list(found.values()) if len(self._readers.get(symbol.id, ())) == 1 else []


def sliced(x: Symbol, axis: int, start: int, stop: int) -> Symbol:
    """Returns the positions from `start` to `stop` along an axis."""
    rank = len(x.shape)
    attrs: Attributes = {
        "starts": tuple([start if a == axis else 0 for a in range(rank)]),
        "stops": tuple([stop if a == axis else extent for a, extent in enumerate(x.shape)]),
        "steps": (1,) * rank,
    }
    return x.graph.apply("slice", (x,), attrs)
