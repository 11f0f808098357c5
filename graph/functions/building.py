"""Provides what the public functions share: finding the graph, and doing 16-bit work in float32."""

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
    """Apply the op in the graph of its first symbol."""
    return graph_of(op, *operands).apply(op, operands, attrs)


def as_symbols(op: str, *operands: TensorLike) -> tuple[Symbol, ...]:
    """Return all operands as symbols of one graph."""
    graph = graph_of(op, *operands)
    return tuple([graph.as_symbol(operand, op) for operand in operands])


def symbol_of(op: str, x: TensorLike) -> Symbol:
    """Return the operand, which must be a symbol; raises `UserError` if it is none."""
    return graph_of(op, x).as_symbol(x, op)


def as_floats(op: str, *operands: TensorLike) -> tuple[DType, tuple[Symbol, ...]]:
    """Return the result dtype and the cast operands of a float function of several ops.

    Operands join in a float dtype, implicitly as in `div`, which is the result's; they are then cast to the
    dtype in which such functions are computed.
    """
    graph = graph_of(op, *operands)
    joined = (
        graph.promoted(op, operands, "div") if len(operands) > 1 else graph.promoted(op, operands, "sqrt")
    )
    result = joined[0].dtype
    return result, tuple([primitives.cast(operand, accumulator(result)) for operand in joined])


def in_float(function: Function) -> Function:
    """Decorate a float function of a tensor that is several ops.

    16-bit floats are computed in float32 and rounded once; bools and integers become the rule set's default
    float.
    """

    @functools.wraps(function)
    def wrapped(x: TensorLike, *arguments: object, **options: object) -> Symbol:
        result, (symbol,) = as_floats(function.__name__, x)
        return primitives.cast(function(symbol, *arguments, **options), result)

    return wrapped  # type: ignore[return-value]
