"""Puts elements in order along an axis, and finds the largest and smallest ones."""

from __future__ import annotations

import operator

from ...errors import describing, mistake
from ...ops.shape import normalize_axis
from ...protocols import TensorLike
from ...symbol import Symbol
from ..building import apply, symbol_of


def argsort(x: TensorLike, axis: int = -1, descending: bool = False) -> Symbol:
    """Return the positions (int64) along `axis` that put the elements in order, as numpy.argsort(kind="stable").

    Equal elements, and zeros of both signs, keep their order, also with `descending`. NaN is beyond infinity: the last of an
    ascending order, the first of a descending one.
    """
    return _ordered("argsort", x, axis, descending)


def sort(x: TensorLike, axis: int = -1, descending: bool = False) -> Symbol:
    """Return the elements along `axis` in order, as numpy.sort(kind="stable"); NaN as in `argsort`, of no certain bits."""
    return _ordered("sort", x, axis, descending)


def _ordered(op: str, x: TensorLike, axis: int, descending: bool) -> Symbol:
    symbol = symbol_of(op, x)
    with describing(op, symbol):
        return apply(op, symbol, axis=normalize_axis(axis, len(symbol.shape)), descending=bool(descending))


def top_k(x: TensorLike, k: int, axis: int = -1, largest: bool = True) -> tuple[Symbol, Symbol]:
    """Return the `k` largest (or smallest) elements along `axis` in order, and their positions (int64).

    Of equal elements those at lower positions come first. NaN is beyond infinity.
    """
    symbol = symbol_of("top_k", x)
    try:
        count = operator.index(k)
    except TypeError:
        raise mistake("top_k", f"k is {k!r:.60}", (symbol,), "an int", "k=1") from None
    if isinstance(k, bool) or count < 0:
        raise mistake("top_k", f"k is {k!r}", (symbol,), "0 or more elements", "k=1")
    with describing("top_k", symbol):
        number = normalize_axis(axis, len(symbol.shape))
        extent = symbol.shape[number]
        if isinstance(extent, int) and extent < count:
            problem = f"k is {count}, axis {number} has {extent} elements"
            raise mistake("top_k", problem, (symbol,), f"at most {extent}", f"k={extent}")
        positions = apply("top_positions", symbol, axis=number, k=count, largest=bool(largest))
    return apply("take_along_axis", symbol, positions, axis=number), positions


def bottom_k(x: TensorLike, k: int, axis: int = -1) -> tuple[Symbol, Symbol]:
    """Return the `k` smallest elements along `axis` in order, and their positions (int64); see `top_k`."""
    return top_k(x, k, axis, largest=False)
