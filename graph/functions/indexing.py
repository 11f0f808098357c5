"""Reads elements at positions that are data."""

from __future__ import annotations

from ..errors import describing, mistake
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


def gather_nd(x: TensorLike, indices: TensorLike, batch_dims: int = 0) -> Symbol:
    """Take slices at tuples of positions, the last axis of `indices`: one position for each of the first axes of `x`.

    The shape is indices.shape[:-1] + x.shape[batch_dims + indices.shape[-1]:]. As ONNX's GatherND; tuples are those of
    `scatter_nd`. Negative positions count from the end; positions out of range are clamped.

    Args:
        batch_dims: so many first axes are those of `x` and of `indices`; each batch is read on its own.
    """
    value, index_symbol = as_symbols("gather_nd", x, indices)
    if isinstance(batch_dims, bool) or not hasattr(batch_dims, "__index__"):
        raise mistake("gather_nd", f"batch_dims is {batch_dims!r:.60}", (value, index_symbol), "an int", "batch_dims=0")
    return apply("gather_nd", value, index_symbol, batch_dims=int(batch_dims))


def take_along_axis(x: TensorLike, indices: TensorLike, axis: int = -1) -> Symbol:
    """Take elements of `axis` at integer positions of equal rank, as numpy.take_along_axis.

    The other axes broadcast. Negative positions count from the end; positions out of range are clamped.
    """
    value, index_symbol = as_symbols("take_along_axis", x, indices)
    with describing("take_along_axis", value, index_symbol):
        axis_index = normalize_axis(axis, len(value.shape))
    return apply("take_along_axis", value, index_symbol, axis=axis_index)
