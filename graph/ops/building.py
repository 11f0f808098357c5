"""Builds the operations that composites are made of, on the graph of their operands."""

from __future__ import annotations

from typing import Unpack

from ...promotion.dtype import DType
from ..protocols import SymbolLike, TensorLike
from .attributes import Attributes


def apply(name: str, /, *operands: TensorLike, **attrs: Unpack[Attributes]) -> SymbolLike:
    """Apply an op in the graph of its first symbol."""
    graph = next(operand.graph for operand in operands if hasattr(operand, "graph"))
    result: SymbolLike = graph.apply(name, operands, attrs, attrs.get("dtype"))
    return result


def cast(x: SymbolLike, dtype: DType) -> SymbolLike:
    """Convert to a dtype, rounding to nearest; a value of that dtype is returned as it is."""
    return x if x.dtype is dtype else apply("cast", x, dtype=dtype, rounding="nearest", saturate=True)
