"""Running sums along few long rows, which are scanned in parts: each begins with the sum of those before it.

A scan of one row is one chain, which one thread computes an element at a time. Parts of a row are rows of their own, one for
each lane of a register, and threads share them. Their sums are computed first. Results do not depend on the threads; as with
any sum, an overflow may come earlier or later than in another order.
"""

from __future__ import annotations

import math

from ...graph.ops.building import apply
from ...graph.protocols import SymbolLike
from ...graph.symbol import Symbol
from ...promotion.dtype import float32, float64, int32, int64

MAX_ROWS = 8
"""Rows from which on a register has enough of them."""
LONG, MIN_PART = 16384, 1024
"""Elements of a row from which on it is scanned in parts, and those of a part."""
_PARTS = range(64, 15, -1)


def is_long_scan(symbol: Symbol) -> bool:
    """Returns whether a symbol is a running sum of floats along few long rows, whose length is a multiple of some parts.

    Sums of integers are not: a step of their chain takes as long as reading its element.
    """
    if symbol.op.name != "cumsum" or symbol.dtype not in (float32, float64):
        return False
    shape, axis = symbol.shape, symbol.attrs["axis"]
    if axis != len(shape) - 1 or not all(isinstance(extent, int) for extent in shape):
        return False
    *rows, length = [extent for extent in shape if isinstance(extent, int)]
    return 1 <= math.prod(rows) <= MAX_ROWS and length >= LONG and _part_count(length) is not None


def _part_count(length: int) -> int | None:
    return next((parts for parts in _PARTS if length % parts == 0 and parts * MIN_PART <= length), None)


def scan_in_parts(symbol: Symbol, x: Symbol) -> SymbolLike:
    """Returns a long scan as that of its parts, to each of which the sum of those before it is added. x: its new operand.

    Before the first part is -0.0, the sum of nothing that leaves both zeros as they are; so is what is before others, if it is
    nothing but -0.0, whose bits are the lowest integer. A sum is 0 there.
    """
    graph, last = x.graph, len(x.shape) - 1
    *rows, length = [extent for extent in x.shape if isinstance(extent, int)]
    parts = _part_count(length)
    assert parts is not None

    cut = apply("reshape", x, shape=(*rows, parts, length // parts))
    zero = graph.scalar(-0.0, x.dtype)
    bits = int32 if x.dtype is float32 else int64
    highest = apply("reduce_max", apply("bitcast", cut, dtype=bits), axes=(last + 1,), keepdims=False)
    only_zeros = apply("equal", highest, graph.scalar(bits.min_value, bits))
    sums = apply("where", only_zeros, zero, apply("reduce_sum", cut, axes=(last + 1,), keepdims=False))
    nothing = apply("broadcast_to", zero, shape=(*rows, 1))
    reverse, steps = symbol.attrs["reverse"], (1,) * (last + 1)
    first, stop = (1, parts) if reverse else (0, parts - 1)
    others = apply("slice", sums, starts=(*[0] * last, first), stops=(*rows, stop), steps=steps)
    shifted = apply("concat", *((others, nothing) if reverse else (nothing, others)), axis=last)
    before = apply("cumsum", shifted, axis=last, exclusive=False, reverse=reverse)
    inside = apply("cumsum", cut, axis=last + 1, exclusive=symbol.attrs["exclusive"], reverse=reverse)
    moved = apply("add", inside, apply("reshape", before, shape=(*rows, parts, 1)))
    return apply("reshape", moved, shape=(*rows, length))
