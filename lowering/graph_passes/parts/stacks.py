"""Reductions over a stack, done piece by piece: what pieces are put side by side for is to be reduced together.

    a ─┐
    b ─┤ concat ─ reduce_max      ⇒      maximum(maximum(a, b), c)
    c ─┘

An element of the stack is one of all pieces, which is chosen by its position; computed in one loop with what reduces them, each
piece would be evaluated at all positions, under a mask.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....graph.ops.building import apply
from ....graph.protocols import SymbolLike
from ....graph.symbol import Symbol
from ....promotion.dtype import int32
from ..tiles import is_tile

MAX_PIECES = 64
"""The most pieces: as many are computed for each element."""
_POSITIONS = {"argmax": "less_equal", "argmin": "greater_equal"}


def reductions_of_stacks(symbols: Sequence[Symbol], outputs: Sequence[Symbol]) -> frozenset[int]:
    """Returns the ids of the reductions over stacks that nothing else than such reductions reads. symbols: those that the
    outputs need."""
    found = [symbol for symbol in symbols if _is_over_stack(symbol)]
    if not found:
        return frozenset()
    reductions = {symbol.id for symbol in found}
    others = {symbol.id for symbol in outputs}
    for symbol in symbols:
        if symbol.id not in reductions:
            others.update([operand.id for operand in symbol.inputs])
    return frozenset([symbol.id for symbol in found if symbol.inputs[0].id not in others])


def _is_over_stack(symbol: Symbol) -> bool:
    if symbol.op.kind != "reduce" or not (symbol.op.combine or symbol.op.name in _POSITIONS):
        return False
    stack = symbol.inputs[0]
    if stack.op.name != "concat" or is_tile(stack) or stack.dtype.kind not in ("int", "uint", "float") or stack.dtype.bits < 8:
        return False
    axis = stack.attrs["axis"]
    is_of_ones = all(piece.shape[axis] == 1 for piece in stack.inputs)
    return is_of_ones and symbol.attrs["axes"] == (axis,) and 1 < len(stack.inputs) <= MAX_PIECES


def reduced_piece_by_piece(symbol: Symbol, stack: Symbol) -> SymbolLike:
    """Returns the reduction as a tree of operations on the pieces. stack: the new operand."""
    pieces = [apply("reshape", piece, shape=symbol.shape) for piece in stack.inputs]
    if symbol.op.name in _POSITIONS:
        return _position(symbol, stack, pieces)
    if symbol.op.name == "reduce_sum" and symbol.dtype.is_float:  # sums begin with 0, so that those of -0 are 0
        pieces[0] = apply("add", pieces[0], stack.graph.scalar(0.0, symbol.dtype))
    while len(pieces) > 1:
        pairs = [pieces[at : at + 2] for at in _evens(pieces)]
        pieces = [apply(symbol.op.combine, *pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return pieces[0]


def _evens(sequence: Sequence[object]) -> range:
    return range(0, len(sequence), 2)


def _position(symbol: Symbol, stack: Symbol, pieces: Sequence[SymbolLike]) -> SymbolLike:
    """Returns the number of the first piece that is the largest, or the least; of the first NaN if there is one."""
    graph, order = stack.graph, _POSITIONS[symbol.op.name]
    found: list[tuple[SymbolLike, SymbolLike]] = [(piece, graph.scalar(number, int32)) for number, piece in enumerate(pieces)]

    def joined(left: tuple[SymbolLike, SymbolLike], right: tuple[SymbolLike, SymbolLike]) -> tuple[SymbolLike, SymbolLike]:
        better = apply("logical_not", apply(order, right[0], left[0]))
        if stack.dtype.is_float:  # what is compared with NaN is not less; NaN itself stays
            better = apply("logical_and", better, apply("equal", left[0], left[0]))
        return apply("where", better, right[0], left[0]), apply("where", better, right[1], left[1])

    while len(found) > 1:
        found = [joined(*found[at : at + 2]) if at + 1 < len(found) else found[at] for at in _evens(found)]
    return apply("cast", found[0][1], dtype=symbol.dtype, rounding="nearest", saturate=True)
