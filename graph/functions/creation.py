"""Tensors of one value. They are broadcast scalars: nothing is stored."""

from __future__ import annotations

from typing import Any

from ...promotion.dtype import float32
from ...promotion.errors import UserError
from .. import primitives
from ..errors import describe
from ..graph import Graph
from ..symbol import Symbol
from ..types import as_shape
from .building import symbol_of


def full(graph: Graph | Symbol, shape: Any, value: Any, dtype: Any = None) -> Symbol:
    """A tensor of `value` everywhere.

    Args:
        graph: the graph it belongs to, or any symbol of it; there is no current graph.
        shape: sizes; ints, names or dims.
        value: a Python scalar that fits `dtype`, or a rank-0 symbol.
        dtype: by default that of the literal (int64, float32, bool).
    """
    owner = graph.graph if isinstance(graph, Symbol) else graph
    if not isinstance(owner, Graph):
        raise UserError(
            f"full: the first argument must be a graph, or a symbol of it, not {describe(graph)}; "
            "fix: full(graph, shape, value), or x.graph for the graph of a symbol x"
        )
    if isinstance(value, Symbol):
        scalar = value if dtype is None else primitives.cast(value, dtype)
    else:
        scalar = owner.scalar(value, dtype)
    return primitives.broadcast_to(scalar, as_shape(shape))


def zeros(graph: Graph | Symbol, shape: Any, dtype: Any = float32) -> Symbol:
    """A tensor of zeros. Arguments as in `full`."""
    return full(graph, shape, 0, dtype)


def ones(graph: Graph | Symbol, shape: Any, dtype: Any = float32) -> Symbol:
    """A tensor of ones. Arguments as in `full`."""
    return full(graph, shape, 1, dtype)


def zeros_like(x: Any, dtype: Any = None) -> Symbol:
    """Zeros of the shape and, unless given, the dtype of `x`."""
    symbol = symbol_of("zeros_like", x)
    return full(symbol, symbol.shape, 0, dtype or symbol.dtype)


def ones_like(x: Any, dtype: Any = None) -> Symbol:
    """Ones of the shape and, unless given, the dtype of `x`."""
    symbol = symbol_of("ones_like", x)
    return full(symbol, symbol.shape, 1, dtype or symbol.dtype)
