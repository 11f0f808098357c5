"""What the public functions share: finding the graph, and doing 16-bit work in float32."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ...promotion.dtype import DType
from ...promotion.result_rules import JOIN_FLOAT
from .. import primitives
from ..dims import Extent
from ..graph import Graph, graph_of
from ..opdef import accumulator
from ..symbol import Symbol

Function = TypeVar("Function", bound=Callable[..., Symbol])


def apply(op: str, *operands: Any, dtype: DType | None = None, **attrs: Any) -> Symbol:
    """The op on the graph of its first symbol."""
    return graph_of(op, *operands).apply(op, operands, attrs, dtype)


def as_symbols(op: str, *operands: Any) -> tuple[Symbol, ...]:
    """All operands as symbols of one graph."""
    graph = graph_of(op, *operands)
    return tuple([graph.as_symbol(operand, op) for operand in operands])


def symbol_of(op: str, x: Any) -> Symbol:
    """The operand, which must be a symbol."""
    return graph_of(op, x).as_symbol(x, op)


def float_dtype(x: Symbol) -> DType:
    """The dtype of a float function of `x`: its own, or the default float for bools and integers."""
    return JOIN_FLOAT.apply(x.graph.rules, [x.dtype]).result


def in_float(function: Function) -> Function:
    """Decorates a float function of a tensor that is several ops: 16-bit floats are computed in float32 and rounded once, bools
    and integers become the rule set's default float."""

    @functools.wraps(function)
    def wrapped(x: Any, *arguments: Any, **options: Any) -> Symbol:
        symbol = symbol_of(function.__name__, x)
        result = float_dtype(symbol)
        value = function(primitives.cast(symbol, accumulator(result)), *arguments, **options)
        return primitives.cast(value, result)

    return wrapped  # type: ignore[return-value]


def extent_scalar(graph: Graph, extent: Extent) -> Symbol:
    """A size as an int64 scalar: a constant when it is known."""
    return graph.dim_value(extent)
