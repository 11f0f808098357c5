"""Running sums, maxima and minima along few long rows, which are scanned in parts: each begins with what those before it have.

A scan of one row is one chain, which one thread computes an element at a time. Parts of a row are rows of their own, one for
each lane of a register, and threads share them. What each of them comes to is computed first. Results do not depend on the
threads; as with any sum, an overflow may come earlier or later than in another order.
"""

from __future__ import annotations

import math

from ....graph.ops.building import apply
from ....graph.protocols import SymbolLike
from ....graph.symbol import Symbol
from ....promotion.dtype import float32, float64, int32, int64
from .cuts import is_cut_in_place

MAX_ROWS = 8
"""Rows from which on a register has enough of them."""
LONG, MIN_PART = 4096, 128
"""Elements of a row from which on it is scanned in parts, and those of a part."""
_PARTS, MANY_PARTS = range(64, 15, -1), 32
"""Numbers of parts that divide a length best, and where none does."""
_NOTHING = {"cumsum": -0.0, "cummax": -math.inf, "cummin": math.inf}
"""What leaves all elements as they are, zeros of both signs too."""
_KINDS = {"cumsum": ("reduce_sum", "add"), "cummax": ("reduce_max", "maximum"), "cummin": ("reduce_min", "minimum")}


def is_long_scan(symbol: Symbol) -> bool:
    """Returns whether a symbol is a scan of floats along few long rows.

    Sums of integers are not: a step of their chain takes as long as reading its element.
    """
    if symbol.op.name not in _KINDS or symbol.dtype not in (float32, float64):
        return False
    shape, axis = symbol.shape, symbol.attrs["axis"]
    if axis != len(shape) - 1 or not all(isinstance(extent, int) for extent in shape):
        return False
    *rows, length = [extent for extent in shape if isinstance(extent, int)]
    if not 1 <= math.prod(rows) <= MAX_ROWS or length < LONG:
        return False
    return length % _part_count(length) == 0 or is_cut_in_place(symbol.inputs[0])


def _part_count(length: int) -> int:
    return next((parts for parts in _PARTS if length % parts == 0 and parts * MIN_PART <= length), MANY_PARTS)


def scan_in_parts(symbol: Symbol, x: Symbol) -> SymbolLike:
    """Returns a long scan as that of its parts, each combined with what those before it come to. x: its new operand.

    Where no number of parts divides the length, what comes last is a short row of its own.
    """
    kind, exclusive, reverse = symbol.op.name, symbol.attrs["exclusive"], symbol.attrs["reverse"]
    last, (_, combine) = len(x.shape) - 1, _KINDS[kind]
    *rows, length = [extent for extent in x.shape if isinstance(extent, int)]
    parts = _part_count(length)
    rest = length % parts

    def cut(of: SymbolLike, start: int, stop: int) -> SymbolLike:
        return apply("slice", of, starts=(*[0] * last, start), stops=(*rows, stop), steps=(1,) * (last + 1))

    def joined(first: SymbolLike, second: SymbolLike) -> SymbolLike:
        return apply("concat", *((second, first) if reverse else (first, second)), axis=last)

    whole: SymbolLike = x if not rest else cut(x, rest, length) if reverse else cut(x, 0, length - rest)
    divided = apply("reshape", whole, shape=(*rows, parts, length // parts))
    totals = _totals(kind, x, divided)
    nothing = apply("broadcast_to", x.graph.scalar(_NOTHING[kind], x.dtype), shape=(*rows, 1))
    others = cut(totals, 1, parts) if reverse else cut(totals, 0, parts - 1)
    before = apply(kind, joined(nothing, others), axis=last, exclusive=False, reverse=reverse)
    inside = apply(kind, divided, axis=last + 1, exclusive=exclusive, reverse=reverse)
    moved = apply(combine, inside, apply("reshape", before, shape=(*rows, parts, 1)))
    found = apply("reshape", moved, shape=(*rows, length - rest))
    if not rest:
        return found
    at = 0 if reverse else parts - 1
    all_before = apply(combine, cut(before, at, at + 1), cut(totals, at, at + 1))
    end = cut(x, 0, rest) if reverse else cut(x, length - rest, length)
    return joined(found, apply(combine, apply(kind, end, axis=last, exclusive=exclusive, reverse=reverse), all_before))


def _totals(kind: str, x: Symbol, parts: SymbolLike) -> SymbolLike:
    """Returns what each part of x comes to. A running sum of nothing but -0.0, whose bits are the lowest integer, is -0.0,
    where `reduce_sum` is 0."""
    inner, (reduction, _) = len(parts.shape) - 1, _KINDS[kind]
    found = apply(reduction, parts, axes=(inner,), keepdims=False)
    if kind != "cumsum":
        return found
    bits = int32 if x.dtype is float32 else int64
    highest = apply("reduce_max", apply("bitcast", parts, dtype=bits), axes=(inner,), keepdims=False)
    only_zeros = apply("equal", highest, x.graph.scalar(bits.min_value, bits))
    return apply("where", only_zeros, x.graph.scalar(-0.0, x.dtype), found)
