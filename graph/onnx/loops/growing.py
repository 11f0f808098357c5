"""States of loops that grow from one iteration to the next: what iterations append becomes the rows of a loop.

A loop of the graph carries values of fixed types. A state that is only appended to, as the tokens that a decoder has found so
far, need not be carried: after the loop it is what it was before, and behind that the rows that the iterations made.
"""

from __future__ import annotations

from ...functions.building import apply
from ...functions.host.data_sized import compress
from ...functions.joining import concat, stack
from ...region import is_compiled_region
from ...symbol import Symbol
from ...types import shape_text
from ..messages import NoRegionError
from ..node import Node
from ..values import COMPOSITE, Growing, Known, Piece, Sequence, Sizes, Stacked, Value


def only_piece(value: Value) -> Piece:
    """Return what one iteration appends to a state."""
    if not isinstance(value, Growing) or len(value.pieces) != 1:
        raise NoRegionError("a state grows otherwise than by one piece in each iteration")
    return value.pieces[0]


def selected(node: Node, flag: Symbol, yes: Growing, no: Growing) -> Value | None:
    """Return a state to which a condition appends one piece, or one of two; None if the branches differ otherwise."""
    shared = 0
    while shared < min(len(yes.pieces), len(no.pieces)) and yes.pieces[shared] is no.pieces[shared]:
        shared += 1
    more, less = yes.pieces[shared:], no.pieces[shared:]
    common = yes.pieces[:shared]
    if len(more) == len(less) == 1 and more[0].axis == less[0].axis and more[0].flag is less[0].flag is None:
        first, second = node.symbol_of(more[0].value), node.symbol_of(less[0].value)
        if first.shape == second.shape and first.dtype is second.dtype:
            return Growing((*common, Piece(apply("where", flag, first, second), more[0].axis)))
    if len(more) + len(less) == 1:
        (piece,) = (*more, *less)
        holds = flag if more else apply("logical_not", flag)
        if piece.flag is not None:
            holds = apply("logical_and", holds, piece.flag)
        return Growing((*common, Piece(piece.value, piece.axis, holds)))
    return yes if not more and not less else None


def grown(node: Node, before: Value, piece: Piece, rows: Symbol, flags: Symbol | None = None) -> Value:
    """Return a state after a loop: what it was before, and behind it the pieces of all iterations, which are rows."""
    if flags is not None:
        if is_compiled_region(node.graph):
            raise NoRegionError("values decide how much a loop inside of another one appends")
        rows = compress(rows, flags.reshape((rows.shape[0],)), 0)
    if piece.axis is None:
        return Stacked(_after_items(node, before, rows))
    if isinstance(before, COMPOSITE):
        raise NoRegionError("a sequence is joined with a tensor")
    axis, rank = piece.axis, len(rows.shape) - 1
    apart = rows.permute((*range(1, axis + 1), 0, *range(axis + 1, rank + 1)))
    shape = apart.shape
    joined = apart.reshape((*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))
    tensor = node.symbol_of(before) if isinstance(before, (Known, Sizes, Symbol)) else joined
    return joined if tensor.shape[axis] == 0 else concat((tensor, joined), axis)


def _after_items(node: Node, before: Value, rows: Symbol) -> Symbol:
    if isinstance(before, Stacked):
        return concat((before.rows, rows), 0)
    if not isinstance(before, Sequence):
        raise NoRegionError("a tensor is joined with the elements of a sequence")
    items = [node.symbol_of(item) for item in before.items]
    if any(item.shape != rows.shape[1:] for item in items):
        raise NoRegionError(f"elements of a sequence differ in shape: {shape_text(items[0].shape)}")
    return concat((stack(items, 0), rows), 0) if items else rows
