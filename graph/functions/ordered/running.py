"""Computes running products and extremes along an axis."""

from __future__ import annotations

from ...errors import describing
from ...ops.shape import normalize_axis
from ...protocols import TensorLike
from ...symbol import Symbol
from ...types import DTypeLike
from ..building import apply, symbol_of
from ..reductions import running


def cumprod(
    x: TensorLike, axis: int = -1, exclusive: bool = False, reverse: bool = False, dtype: DTypeLike | None = None
) -> Symbol:
    """Compute running products along `axis`. Dtypes are those of `prod`.

    exclusive: leave the element itself out of its product; reverse: run from the end.
    """
    return running("cumprod", x, axis, exclusive, reverse, dtype)


def cummax(x: TensorLike, axis: int = -1, reverse: bool = False) -> Symbol:
    """Return the largest of the elements so far along `axis`, as numpy.maximum.accumulate; `reverse` runs from the end."""
    return _extreme("cummax", x, axis, reverse)


def cummin(x: TensorLike, axis: int = -1, reverse: bool = False) -> Symbol:
    """Return the smallest of the elements so far along `axis`, as numpy.minimum.accumulate; `reverse` runs from the end."""
    return _extreme("cummin", x, axis, reverse)


def _extreme(op: str, x: TensorLike, axis: int, reverse: bool) -> Symbol:
    symbol = symbol_of(op, x)
    with describing(op, symbol):
        number = normalize_axis(axis, len(symbol.shape))
    return apply(op, symbol, axis=number, exclusive=False, reverse=bool(reverse))
