"""Finds arctangents of ratios: of numbers that are in [0, 1] by how they are made, as `atan2` makes them."""

from __future__ import annotations

from ...graph.symbol import Symbol
from ...promotion.dtype import float32
from .constant_values import holds_array


def is_arctangent_of_ratio(symbol: Symbol) -> bool:
    """Returns whether a symbol is an arctangent in float32 of `where(c, 1, x / y)`, with x / y in [0, 1] or NaN.

    It has a shorter form there."""
    if symbol.op.name != "atan" or symbol.dtype is not float32 or symbol.inputs[0].op.name != "where":
        return False
    _, one, ratio = symbol.inputs[0].inputs
    return _number(one) == 1 and ratio.op.name == "div" and _is_smaller(ratio.inputs[0], _nonzero(ratio.inputs[1]))


def _nonzero(x: Symbol) -> Symbol:
    """Returns the divisor d of `where(d == 0, 1, d)`: beside a dividend from 0 to d, 1 makes a zero."""
    if x.op.name != "where" or _number(x.inputs[1]) != 1:
        return x
    is_zero, _, divisor = x.inputs
    same = is_zero.op.name == "equal" and is_zero.inputs[0].id == divisor.id and _number(is_zero.inputs[1]) == 0
    return divisor if same else x


def _is_smaller(x: Symbol, y: Symbol) -> bool:
    """Returns whether x is `where(b > a, a, b)` and y `where(b > a, b, a)`, of magnitudes: 0 <= x <= y, or one is NaN."""
    if x.op.name != "where" or y.op.name != "where" or x.inputs[0].id != y.inputs[0].id:
        return False
    greater, a, b = x.inputs
    chosen = greater.op.name == "greater" and [each.id for each in greater.inputs] == [b.id, a.id]
    return chosen and [y.inputs[1].id, y.inputs[2].id] == [b.id, a.id] and a.op.name == b.op.name == "abs"


def _number(x: Symbol) -> float | None:
    """Returns what a constant without dimensions is."""
    while x.op.name == "broadcast_to":
        x = x.inputs[0]
    return float(x.attrs["value"]) if holds_array(x) and not x.shape else None
