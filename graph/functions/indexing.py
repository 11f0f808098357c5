"""Reads elements at positions that are data."""

from __future__ import annotations

from ..errors import describing
from ..ops.shape import normalize_axis
from ..protocols import TensorLike
from ..symbol import Symbol
from .building import apply, as_symbols
from .ordered.out_of_range import with_mode

_MODES = ("clip", "error")


def gather(x: TensorLike, indices: TensorLike, axis: int = 0, mode: str = "clip") -> Symbol:
    """Take elements of `axis` at integer positions, as numpy.take.

    The shape is x.shape[:axis] + indices.shape + x.shape[axis+1:]. Negative positions count from the end.

    Args:
        mode: what becomes of positions out of range. "clip" clamps them. "error" raises `UserError` when the graph runs, as
            NumPy does, with the position and the axis; the host looks at them, between two compiled parts, on the CPU only.
    """
    value, index_symbol = as_symbols("gather", x, indices)
    with describing("gather", value, index_symbol):
        axis_index = normalize_axis(axis, len(value.shape))
    operands = (value, index_symbol)
    index_symbol = with_mode("gather", index_symbol, value.shape[axis_index], axis_index, mode, _MODES, operands)
    return apply("gather", value, index_symbol, axis=axis_index)


def take_along_axis(x: TensorLike, indices: TensorLike, axis: int = -1, mode: str = "clip") -> Symbol:
    """Take elements of `axis` at integer positions of equal rank, as numpy.take_along_axis.

    The other axes broadcast. Negative positions count from the end. `mode` is that of `gather`.
    """
    value, index_symbol = as_symbols("take_along_axis", x, indices)
    with describing("take_along_axis", value, index_symbol):
        axis_index = normalize_axis(axis, len(value.shape))
    operands = (value, index_symbol)
    index_symbol = with_mode("take_along_axis", index_symbol, value.shape[axis_index], axis_index, mode, _MODES, operands)
    return apply("take_along_axis", value, index_symbol, axis=axis_index)
