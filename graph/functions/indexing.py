"""Reads elements at positions that are data."""

from __future__ import annotations

from ..errors import describing, mistake
from ..ops.shape import normalize_axis
from ..protocols import TensorLike
from ..symbol import Symbol
from .building import apply, as_symbols
from .joining import stack
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


def gather_nd(x: TensorLike, indices: TensorLike, batch_dims: int = 0, mode: str = "clip") -> Symbol:
    """Take slices at tuples of positions, the last axis of `indices`: one position for each of the first axes of `x`.

    The shape is indices.shape[:-1] + x.shape[batch_dims + indices.shape[-1]:]. As ONNX's GatherND; tuples are those of
    `scatter_nd`. Negative positions count from the end. `mode` is that of `gather`.

    Args:
        batch_dims: so many first axes are those of `x` and of `indices`; each batch is read on its own.
    """
    value, index_symbol = as_symbols("gather_nd", x, indices)
    if isinstance(batch_dims, bool) or not hasattr(batch_dims, "__index__"):
        raise mistake("gather_nd", f"batch_dims is {batch_dims!r:.60}", (value, index_symbol), "an int", "batch_dims=0")
    batch, operands = int(batch_dims), (value, index_symbol)
    result = apply("gather_nd", value, index_symbol, batch_dims=batch)  # which looks at ranks and sizes
    if mode == "clip":
        return result
    depth = index_symbol.shape[-1]
    if not isinstance(depth, int):
        raise mistake("gather_nd", f"mode {mode!r} for tuples of {depth} positions", operands, "a fixed number", "mode='clip'")
    columns = [
        with_mode("gather_nd", index_symbol[..., number], value.shape[batch + number], batch + number, mode, _MODES, operands)
        for number in range(depth)
    ]
    return apply("gather_nd", value, stack(columns, -1), batch_dims=batch) if columns else result


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
