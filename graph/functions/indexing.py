"""Reads elements at positions that are data."""

from __future__ import annotations

from ..errors import describing
from ..ops.shape import normalize_axis
from ..protocols import TensorLike
from ..symbol import Symbol
from .building import apply, as_symbols


def gather(x: TensorLike, indices: TensorLike, axis: int = 0) -> Symbol:
    """Take elements of `axis` at integer positions, as numpy.take.

    The shape is x.shape[:axis] + indices.shape + x.shape[axis+1:]. Negative positions count from the end;
    positions out of range are clamped.
    """
    value, index_symbol = as_symbols("gather", x, indices)
    with describing("gather", value, index_symbol):
        axis_index = normalize_axis(axis, len(value.shape))
    return apply("gather", value, index_symbol, axis=axis_index)


def take_along_axis(x: TensorLike, indices: TensorLike, axis: int = -1) -> Symbol:
    """Take elements of `axis` at integer positions of equal rank, as numpy.take_along_axis.

    The other axes broadcast. Negative positions count from the end; positions out of range are clamped.
    """
    value, index_symbol = as_symbols("take_along_axis", x, indices)
    with describing("take_along_axis", value, index_symbol):
        axis_index = normalize_axis(axis, len(value.shape))
    return apply("take_along_axis", value, index_symbol, axis=axis_index)
