"""Finds axes that broadcasting takes to be 1: a slice of one element has a size of 1 or, of an empty axis, 0."""

from __future__ import annotations

from ...dims.dim import Dim, Extent, at_most
from ...functions.building import apply
from ...symbol import Symbol


def broadcastable(*symbols: Symbol) -> tuple[Symbol, ...]:
    """Return operands in which a symbolic size of 1 at most is 1, checked at launch, where another one is none of both."""
    return tuple([_with_units(symbol, [other.shape for other in symbols if other is not symbol]) for symbol in symbols])


def with_units(symbol: Symbol, shape: tuple[Extent, ...]) -> tuple[Symbol, tuple[Extent, ...]]:
    """Return an operand and the shape that it is broadcast with, where such sizes of either are 1."""
    target, multiples = list(shape), list(symbol.shape)
    for axis in range(-min(len(shape), len(symbol.shape)), 0):
        extent = shape[axis]
        if isinstance(extent, Dim) and at_most(extent, 1) and symbol.shape[axis] not in (1, extent):
            target[axis] = 1
            multiples[axis] = multiples[axis] * extent
    if tuple(multiples) != symbol.shape:  # there and back: a launch checks that sizes multiplied by them are the same
        symbol = apply("reshape", apply("reshape", symbol, shape=tuple(multiples)), shape=symbol.shape)
    return _with_units(symbol, [tuple(target)]), tuple(target)


def _with_units(symbol: Symbol, others: list[tuple[Extent, ...]]) -> Symbol:
    rank = len(symbol.shape)
    found = list(symbol.shape)
    for axis, extent in enumerate(symbol.shape):
        if isinstance(extent, Dim) and at_most(extent, 1):
            beside = [shape[axis - rank] for shape in others if rank - axis <= len(shape)]
            if any(other not in (1, extent) for other in beside):
                found[axis] = 1
    if tuple(found) == symbol.shape:
        return symbol
    return apply("reshape", symbol, shape=tuple(found))
