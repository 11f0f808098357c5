"""Finds operands that are complex: what an operation is of them follows from what it is of their parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...promotion.dtype import DType
from ..functions.names.exports import on_parts
from ..ops.complex.parts import NAMES, PARTS
from ..ops.opdef import OpDef


def by_parts(graph: Any, row: OpDef, operands: Sequence[Any], attrs: Any, dtype: DType | None) -> Any:
    """Return what a row computes of complex operands, or in a complex dtype; None without them, or if it only moves values."""
    is_complex = dtype is not None and dtype.is_complex
    for operand in operands:
        own = getattr(operand, "dtype", None)
        is_complex = is_complex or type(operand) is complex or (type(own) is DType and own.is_complex)
    if not is_complex or row.name in NAMES:
        return None
    return on_parts()(graph, row, operands, attrs or {}, dtype)


def with_parts(graph: Any, op: str, values: Sequence[Any], position: int, source: Any, target: DType) -> Any:
    """Return an operand of `op` in the complex dtype that promotion gives it. Casts of its parts are in the ledger."""
    part = PARTS[target]
    parts = [graph.apply(name, (source,)) for name in ("real", "imag")] if source.dtype.is_complex else [source]
    found = [each if each.dtype is part else graph.implicit_cast(op, values, position, each, part) for each in parts]
    if len(found) == 1:
        found.append(graph.apply("broadcast_to", (graph.scalar(0.0, part),), {"shape": source.shape}))
    return graph.apply("complex", found)
