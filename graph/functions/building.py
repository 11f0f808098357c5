"""What the public functions share: finding the graph, and doing 16-bit work in float32."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar, Unpack

from ...promotion.dtype import DType
from ..construction import primitives
from ..graph import graph_of
from ..ops.attributes import Attributes
from ..ops.opdef import accumulator
from ..protocols import TensorLike
from ..symbol import Symbol

Function = TypeVar("Function", bound=Callable[..., Symbol])


def apply(op: str, *operands: TensorLike, **attrs: Unpack[Attributes]) -> Symbol:
    """The op on the graph of its first symbol."""
    return graph_of(op, *operands).apply(op, operands, attrs)


def as_symbols(op: str, *operands: TensorLike) -> tuple[Symbol, ...]:
    """All operands as symbols of one graph."""
    graph = graph_of(op, *operands)
    return tuple([graph.as_symbol(operand, op) for operand in operands])


def symbol_of(op: str, x: TensorLike) -> Symbol:
    """The operand, which must be a symbol."""
    return graph_of(op, x).as_symbol(x, op)


def as_floats(op: str, *operands: TensorLike) -> tuple[DType, tuple[Symbol, ...]]:
    """Operands of a float function of several ops, joined in a float dtype (implicitly, as `div` would), then in the dtype such
    functions are computed in; and the dtype of the result."""
    graph = graph_of(op, *operands)
    joined = (
        graph.promoted(op, operands, "div") if len(operands) > 1 else graph.promoted(op, operands, "sqrt")
    )
    result = joined[0].dtype
    return result, tuple([primitives.cast(operand, accumulator(result)) for operand in joined])


def in_float(function: Function) -> Function:
    """Decorates a float function of a tensor that is several ops: 16-bit floats are computed in float32 and rounded once, bools
    and integers become the rule set's default float."""

    @functools.wraps(function)
    def wrapped(x: TensorLike, *arguments: object, **options: object) -> Symbol:
        result, (symbol,) = as_floats(function.__name__, x)
        return primitives.cast(function(symbol, *arguments, **options), result)

    return wrapped  # type: ignore[return-value]
