"""Padding as the parts that a padded tensor is made of, each of which is copied as it lies in memory.

    pad(x, edge), of rows:   concat(broadcast(x[:, :1]), x, broadcast(x[:, -1:]))
    reflected:               concat(flip(x[:, 1 : 1 + low]), x, flip(x[:, n - 1 - high : n - 1]))

One kernel for all would find the position of each element. Padding of the outer axes stays, which moves whole rows, and what
lies within an element of the innermost padded axis, such as the channels of a pixel, is one row with it. Zeros around pixels
are zeros around such rows.
"""

from __future__ import annotations

import math
from typing import cast

from ....graph.graph import Graph
from ....graph.ops.building import apply
from ....graph.protocols import SymbolLike
from ....graph.symbol import Symbol
from ...nest import Extent
from ...schedule.extents import is_one, is_zero

LONG_BYTES = 256
"""Bytes within an element of the padded axis from which on positions are found for long runs of bytes anyway."""


def with_borders_apart(graph: Graph) -> Graph:
    """Returns an expanded graph whose padding is parts where it is stored; itself where there is none."""
    outputs = frozenset([symbol.id for symbol in graph.outputs])
    if not any(symbol.op.name == "pad" for symbol in graph.symbols):
        return graph
    readers: list[list[Symbol]] = [[] for _ in graph.symbols]
    for symbol in graph.symbols:
        for operand in symbol.inputs:
            readers[operand.id].append(symbol)
    padded = {
        symbol.id for symbol in graph.symbols
        if symbol.op.name == "pad" and _has_rows(symbol) and _is_stored(symbol, readers, outputs)
    }  # fmt: skip
    if not padded:
        return graph
    target = graph.rewriting()
    new: dict[int, Symbol] = {}
    for symbol in graph.symbols:
        operands = [new[operand.id] for operand in symbol.inputs]
        with target.located(symbol.location):
            new[symbol.id] = _in_parts(symbol, operands[0]) if symbol.id in padded else target.adopt(symbol, operands)
    target.output(*[new[symbol.id] for symbol in graph.outputs], names=graph.output_names)
    return target


def _axis(symbol: Symbol) -> int:
    """Returns the innermost axis that is padded, -1 where none is."""
    low, high = symbol.attrs["low"], symbol.attrs["high"]
    return max([axis for axis in range(len(low)) if not (is_zero(low[axis]) and is_zero(high[axis]))], default=-1)


def _within(symbol: Symbol) -> int:
    """Returns how many elements lie within one of the padded axis."""
    return math.prod([cast(int, extent) for extent in symbol.shape[_axis(symbol) + 1 :]])


def _has_rows(symbol: Symbol) -> bool:
    """Whether parts of the padding can be copied: sizes are known, and rows lie in memory as they are read."""
    axis, (operand,) = _axis(symbol), symbol.inputs
    sizes = (*operand.shape[axis:], symbol.attrs["low"][axis], symbol.attrs["high"][axis])
    if axis < 0 or not all(type(size) is int and size >= 0 for size in sizes) or 0 in operand.shape[axis:]:
        return False
    within = _within(symbol)
    if within == 1:
        return symbol.attrs["mode"] != "constant"
    return within * symbol.dtype.itemsize < LONG_BYTES and _lies_in_rows(operand)


def _lies_in_rows(symbol: Symbol) -> bool:
    """Whether a symbol is stored, or computed element by element of what is, without values of single channels."""
    if symbol.op.kind == "map":
        return all(_is_number(each) or (each.shape == symbol.shape and _lies_in_rows(each)) for each in symbol.inputs)
    if symbol.op.name == "reshape":
        return _lies_in_rows(symbol.inputs[0])
    return symbol.op.kind in ("source", "contract", "reduce")


def _is_number(symbol: Symbol) -> bool:
    return all(map(is_one, symbol.shape))


def _is_stored(symbol: Symbol, readers: list[list[Symbol]], outputs: frozenset[int]) -> bool:
    """Whether a padded tensor is stored, or read once, in order: by what is computed of it element by element, and is stored or
    reduced."""
    if symbol.id in outputs:
        return True
    if symbol.attrs["mode"] == "constant":  # loads put a number around what they read
        return False
    if len(readers[symbol.id]) > 1 or readers[symbol.id][0].op.name == "windows":
        return True
    current, shape = symbol, symbol.shape
    while current.id not in outputs:
        if len(readers[current.id]) != 1:
            return False
        current = readers[current.id][0]
        if current.op.kind == "reduce":
            return True
        if current.op.kind != "map" or current.shape != shape:
            return False
    return True


def _in_parts(symbol: Symbol, x: Symbol) -> Symbol:
    axis, attrs, within = _axis(symbol), symbol.attrs, _within(symbol)
    low, high, extent = (cast(int, size) for size in (attrs["low"][axis], attrs["high"][axis], x.shape[axis]))
    if attrs["mode"] == "constant":
        padded = _padded(_as_rows(x, axis), symbol, low * within, high * within)
    else:
        is_edge = attrs["mode"] == "edge"
        first, last = (0, extent - 1) if is_edge else (1, extent - 1 - high)
        parts = [_border(x, axis, first, low, is_edge), x, _border(x, axis, last, high, is_edge)]
        rows = [_padded(_as_rows(part, axis), symbol, 0, 0) for part in parts if part is not None]
        padded = _symbol(apply("concat", *rows, axis=axis))
    return _reshaped(padded, symbol.shape)


def _border(x: Symbol, axis: int, start: int, count: int, is_edge: bool) -> Symbol | None:
    """Returns `count` elements of an axis: the one at `start` again and again, or those from there on, turned round."""
    if count == 0:
        return None
    rank, shape = len(x.shape), x.shape
    starts = tuple([start if each == axis else 0 for each in range(rank)])
    stops = (*shape[:axis], start + (1 if is_edge else count), *shape[axis + 1 :])
    found = apply("slice", x, starts=starts, stops=stops, steps=(1,) * rank)
    if is_edge:
        return _symbol(apply("broadcast_to", found, shape=(*shape[:axis], count, *shape[axis + 1 :])))
    return _symbol(apply("flip", found, axes=(axis,)))


def _as_rows(x: Symbol, axis: int) -> Symbol:
    """Makes one axis of this and what lies within its elements."""
    return _reshaped(x, (*x.shape[:axis], math.prod([cast(int, extent) for extent in x.shape[axis:]])))


def _padded(rows: Symbol, symbol: Symbol, low: int, high: int) -> Symbol:
    """Pads the last axis of rows so, and those before it as `symbol` does."""
    attrs, outer = symbol.attrs, len(rows.shape) - 1
    lows, highs = (*attrs["low"][:outer], low), (*attrs["high"][:outer], high)
    if all(is_zero(size) for size in (*lows, *highs)):
        return rows
    return _symbol(apply("pad", rows, low=lows, high=highs, mode=attrs["mode"], value=attrs["value"]))


def _reshaped(x: Symbol, shape: tuple[Extent, ...]) -> Symbol:
    return x if x.shape == shape else _symbol(apply("reshape", x, shape=shape))


def _symbol(found: SymbolLike) -> Symbol:
    assert isinstance(found, Symbol)
    return found
