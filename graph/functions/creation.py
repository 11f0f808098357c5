"""Creates tensors of one value, as broadcast scalars that take no storage."""

from __future__ import annotations

import functools

from ...promotion.dtype import float32
from ...promotion.errors import UserError
from ..construction import primitives
from ..errors import describe
from ..graph import Graph
from ..protocols import TensorLike
from ..symbol import Symbol
from ..types import DTypeLike, ShapeLike, as_shape
from .building import Function, symbol_of

_FIRST = {
    "full": "graph, shape, value", "arange": "graph, stop", "eye": "graph, n",
    **dict.fromkeys(("hann_window", "hamming_window", "blackman_window"), "graph, size"),
}  # fmt: skip


def owner_of(op: str, graph: object) -> Graph:
    """Return the graph that was given, or that of the symbol that was given.

    Raises `UserError` for anything else.
    """
    owner = graph.graph if isinstance(graph, Symbol) else graph
    if not isinstance(owner, Graph):
        raise UserError(
            f"{op}: the first argument must be a graph, or a symbol of it, not {describe(graph)}; "
            f"fix: {op}({_FIRST.get(op, 'graph, shape')}), or x.graph for the graph of a symbol x"
        )
    return owner


def creates(function: Function) -> Function:
    """Decorate a function that makes a tensor from nothing, so that a missing graph is its first error."""

    @functools.wraps(function)
    def checked(*arguments: object, **options: object) -> Symbol:
        owner_of(function.__name__, options["graph"] if "graph" in options else arguments[0] if arguments else None)
        return function(*arguments, **options)

    return checked  # type: ignore[return-value]


@creates
def full(graph: Graph | Symbol, shape: ShapeLike, value: TensorLike, dtype: DTypeLike | None = None) -> Symbol:
    """Create a tensor that holds `value` everywhere.

    Args:
        graph: the graph it belongs to, or any symbol of it; there is no current graph.
        shape: sizes; ints, names or dims.
        value: a Python scalar that fits `dtype`, or a rank-0 symbol.
        dtype: by default that of the literal (int64, float32, bool).
    """
    owner = owner_of("full", graph)
    if isinstance(value, Symbol):
        scalar = value if dtype is None else primitives.cast(value, dtype)
    else:
        scalar = owner.scalar(value, dtype)
    return primitives.broadcast_to(scalar, as_shape(shape))


@creates
def zeros(graph: Graph | Symbol, shape: ShapeLike, dtype: DTypeLike = float32) -> Symbol:
    """Create a tensor of zeros. The arguments are those of `full`."""
    return full(graph, shape, 0, dtype)


@creates
def ones(graph: Graph | Symbol, shape: ShapeLike, dtype: DTypeLike = float32) -> Symbol:
    """Create a tensor of ones. The arguments are those of `full`."""
    return full(graph, shape, 1, dtype)


def zeros_like(x: TensorLike, dtype: DTypeLike | None = None) -> Symbol:
    """Create zeros of the shape and, unless given, the dtype of `x`."""
    symbol = symbol_of("zeros_like", x)
    return full(symbol, symbol.shape, 0, dtype or symbol.dtype)


def ones_like(x: TensorLike, dtype: DTypeLike | None = None) -> Symbol:
    """Create ones of the shape and, unless given, the dtype of `x`."""
    symbol = symbol_of("ones_like", x)
    return full(symbol, symbol.shape, 1, dtype or symbol.dtype)
