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

MAX_PIECES = 32
"""The most pieces: chains of operations are as long."""
_POSITIONS = {"argmax": "less_equal", "argmin": "greater_equal"}


def reductions_of_stacks(symbols: Sequence[Symbol], outputs: Sequence[Symbol]) -> frozenset[int]:
    """Returns the ids of the reductions over stacks that nothing else reads. symbols: those that the outputs need."""
    readers: dict[int, int] = {symbol.id: 1 for symbol in outputs}
    for symbol in symbols:
        for operand in symbol.inputs:
            readers[operand.id] = readers.get(operand.id, 0) + 1
    return frozenset([symbol.id for symbol in symbols if _is_over_stack(symbol) and readers[symbol.inputs[0].id] == 1])


def _is_over_stack(symbol: Symbol) -> bool:
    if symbol.op.kind != "reduce" or not (symbol.op.combine or symbol.op.name in _POSITIONS):
        return False
    stack = symbol.inputs[0]
    if stack.op.name != "concat" or stack.dtype.kind not in ("int", "uint", "float") or stack.dtype.bits < 8:
        return False
    axis = stack.attrs["axis"]
    is_of_ones = all(piece.shape[axis] == 1 for piece in stack.inputs)
    return is_of_ones and symbol.attrs["axes"] == (axis,) and 1 < len(stack.inputs) <= MAX_PIECES


def reduced_piece_by_piece(symbol: Symbol, stack: Symbol) -> SymbolLike:
    """Returns the reduction as a chain of operations on the pieces. stack: the new operand."""
    pieces = [apply("reshape", piece, shape=symbol.shape) for piece in stack.inputs]
    if symbol.op.name in _POSITIONS:
        return _position(symbol, stack, pieces)
    total = pieces[0]
    if symbol.op.name == "reduce_sum" and symbol.dtype.is_float:  # sums begin with 0, so that those of -0 are 0
        total = apply("add", total, stack.graph.scalar(0.0, symbol.dtype))
    for piece in pieces[1:]:
        total = apply(symbol.op.combine, total, piece)
    return total


def _position(symbol: Symbol, stack: Symbol, pieces: Sequence[SymbolLike]) -> SymbolLike:
    """Returns the number of the first piece that is the largest, or the least; of the first NaN if there is one."""
    best, graph = pieces[0], stack.graph
    where: SymbolLike = graph.scalar(0, int32)
    for number, piece in enumerate(pieces[1:], 1):
        better = apply("logical_not", apply(_POSITIONS[symbol.op.name], piece, best))
        if stack.dtype.is_float:  # what is compared with NaN is not less; NaN itself stays
            better = apply("logical_and", better, apply("equal", best, best))
        best = apply("where", better, piece, best)
        where = apply("where", better, graph.scalar(number, int32), where)
    return apply("cast", where, dtype=symbol.dtype, rounding="nearest", saturate=True)
