"""Defines functions that change shapes.

All of them are views: no arithmetic, and no copy before something reads the result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..checks import ShapeError
from ..construction import primitives
from ..dims.dim import Dim, product
from ..errors import describing, mistake
from ..indexing import index
from ..ops.shape import normalize_axes, normalize_axis, window_count
from ..protocols import TensorLike
from ..symbol import Symbol
from ..types import Axis, ShapeLike, as_shape, shape_text
from .building import apply, symbol_of


def reshape(x: TensorLike, shape: ShapeLike) -> Symbol:
    """Return the same elements in row-major order under another shape.

    shape: sizes (ints, names, dims), one of which may be -1 and is computed. Element counts must be equal:
    decided now, or checked at launch when that depends on symbolic sizes.
    """
    return primitives.reshape(symbol_of("reshape", x), shape)


def permute(x: TensorLike, axes: Sequence[int]) -> Symbol:
    """Reorder axes: axis i of the result is axis axes[i] of `x`."""
    return primitives.permute(symbol_of("permute", x), axes)


def transpose(x: TensorLike, axis_1: int = -1, axis_2: int = -2) -> Symbol:
    """Swap two axes, by default the last two."""
    return primitives.transpose(symbol_of("transpose", x), axis_1, axis_2)


def broadcast_to(x: TensorLike, shape: ShapeLike) -> Symbol:
    """Repeat `x` along new leading axes and along axes of size 1."""
    return primitives.broadcast_to(symbol_of("broadcast_to", x), shape)


def expand(x: TensorLike, shape: ShapeLike) -> Symbol:
    """Broadcast `x` against `shape` in both directions (ONNX Expand).

    An axis of size 1 in `shape` keeps the size of `x`.
    """
    symbol = symbol_of("expand", x)
    target = list(as_shape(shape, "expand: shape"))
    missing = len(symbol.shape) - len(target)
    target = [*(1,) * max(missing, 0), *target]
    for axis in range(-min(len(symbol.shape), len(target)), 0):
        if target[axis] == 1:
            target[axis] = symbol.shape[axis]
    return primitives.broadcast_to(symbol, tuple(target))


def squeeze(x: TensorLike, axis: Axis = None) -> Symbol:
    """Remove axes of size 1: the named ones, or all whose size is the int 1.

    That a named symbolic axis has size 1 is checked at launch. Raises `UserError` for named axes of other
    sizes.
    """
    symbol = symbol_of("squeeze", x)
    with describing("squeeze", symbol):
        if axis is None:
            axes: tuple[int, ...] = tuple([a for a, extent in enumerate(symbol.shape) if extent == 1])
        else:
            axes = normalize_axes(axis, len(symbol.shape))
        for axis_index in axes:
            extent = symbol.shape[axis_index]
            if isinstance(extent, Dim):
                symbol.graph.shape_checks.add(extent, 1, f"squeeze: axis {axis_index} must have size 1")
            elif extent != 1:
                raise ShapeError(
                    f"axis {axis_index} has size {extent}",
                    "axes of size 1",
                    f"index it instead: x[…, 0] on axis {axis_index}",
                )
    return primitives.reshape(symbol, tuple([e for a, e in enumerate(symbol.shape) if a not in axes]))


def unsqueeze(x: TensorLike, axis: int | tuple[int, ...] | list[int]) -> Symbol:
    """Insert axes of size 1 so that they have the positions `axis` in the result."""
    symbol = symbol_of("unsqueeze", x)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    rank = len(symbol.shape) + count
    with describing("unsqueeze", symbol):
        axes = normalize_axes(axis, rank)
    remaining = iter(symbol.shape)
    return primitives.reshape(
        symbol, tuple([1 if axis_index in axes else next(remaining) for axis_index in range(rank)])
    )


def flatten(x: TensorLike, start_axis: int = 0, end_axis: int = -1) -> Symbol:
    """Merge axes `start_axis` to `end_axis`, both included, into one.

    A scalar becomes a vector of one element.
    """
    symbol = symbol_of("flatten", x)
    if not symbol.shape:
        return primitives.reshape(symbol, (1,))
    with describing("flatten", symbol):
        first, last = (normalize_axis(axis, len(symbol.shape)) for axis in (start_axis, end_axis))
        if first > last:
            raise ShapeError(f"start_axis {start_axis} comes after end_axis {end_axis}", fix="swap the two")
    shape = symbol.shape
    return primitives.reshape(symbol, (*shape[:first], product(shape[first : last + 1]), *shape[last + 1 :]))


def flip(x: TensorLike, axis: Axis = None) -> Symbol:
    """Reverse the order of the elements along `axis` (None: all axes)."""
    symbol = symbol_of("flip", x)
    with describing("flip", symbol):
        axes = normalize_axes(axis, len(symbol.shape))
    return apply("flip", symbol, axes=axes) if axes else symbol


def windows(
    x: TensorLike,
    sizes: int | Sequence[int],
    axes: int | Sequence[int] | None = None,
    strides: int | Sequence[int] = 1,
    dilations: int | Sequence[int] = 1,
) -> Symbol:
    """Return all windows of `sizes` elements along `axes`, as a view (numpy.lib.stride_tricks.sliding_window_view).

    Each of the axes becomes the number of windows along it, and the elements of a window come as new last axes. Convolution is
    a product with the windows, pooling a reduction over them; neither stores them.

    Args:
        axes: which axes; None means the last ones, as many as there are sizes.
        strides: how far apart windows begin, one number for all axes or one for each.
        dilations: how far apart the elements of a window lie.
    """
    symbol = symbol_of("windows", x)
    with describing("windows", symbol):
        lengths = (sizes,) if isinstance(sizes, int) else tuple(sizes)
        rank = len(symbol.shape)
        if len(lengths) > rank:
            raise ShapeError(f"{len(lengths)} sizes, the tensor has {rank} axes", "at most one size per axis")
        which = tuple(range(rank - len(lengths), rank)) if axes is None else _in_order(axes, rank)
        steps, gaps = (each if not isinstance(each, int) else (each,) * len(lengths) for each in (strides, dilations))
        numbers = (lengths, tuple(steps), tuple(gaps))
        if any(len(each) != len(which) for each in numbers):
            raise ShapeError(f"sizes {lengths}, strides {strides}, dilations {dilations} for {len(which)} axes", "one each")
        counts = tuple([
            window_count(symbol.shape[axis], size, stride, dilation) if min(size, stride, dilation) > 0 else 0
            for axis, size, stride, dilation in zip(which, *numbers, strict=True)
        ])  # fmt: skip
    return apply("windows", symbol, axes=which, counts=counts, sizes=numbers[0], strides=numbers[1], dilations=numbers[2])


def _in_order(axes: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """Return different axes in the order given, counted from 0."""
    normalize_axes(axes, rank)
    return tuple([normalize_axis(axis, rank) for axis in ((axes,) if isinstance(axes, int) else axes)])


def slice_tensor(x: TensorLike, indices: TensorLike) -> Symbol:
    """Return `x[indices]`, as NumPy indexes: by ints, slices, None, Ellipsis, dims, and arrays or symbols of integers."""
    return index(symbol_of("slice_tensor", x), indices)


def rebind(x: TensorLike, shape: ShapeLike, message: str = "") -> Symbol:
    """Return `x` under other dims that are stated to equal, size by size, its own; checked at launch.

    This is the way to say that two names are the same size: `rebind(x, ("seq",))` for an `x` of shape
    (batch,).

    Args:
        shape: one size per axis; None keeps the axis as it is.
        message: what to report when a launch violates it.
    """
    symbol = symbol_of("rebind", x)
    entries = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if len(entries) != len(symbol.shape):
        raise mistake(
            "rebind", f"{len(entries)} sizes for {len(symbol.shape)} axes of {shape_text(symbol.shape)}", (symbol,),
            "one size per axis", "None keeps a size",
        )  # fmt: skip
    target = as_shape(
        [old if new is None else new for old, new in zip(symbol.shape, entries, strict=True)], "rebind: shape"
    )
    with describing("rebind", symbol):
        for axis, (old, new) in enumerate(zip(symbol.shape, target, strict=True)):
            symbol.graph.shape_checks.add(old, new, message or f"rebind axis {axis}: {old} must equal {new}")
    return symbol if target == symbol.shape else apply("reshape", symbol, shape=target)


def size(x: TensorLike) -> Symbol:
    """Return the number of elements as an int64 scalar."""
    symbol = symbol_of("size", x)
    count = product(symbol.shape)
    return symbol.graph.constant(np.int64(count)) if isinstance(count, int) else symbol.graph.dim_value(count)


def shape_to_tensor(x: TensorLike) -> Symbol:
    """Return the shape of `x` as an int64 vector."""
    symbol = symbol_of("shape_to_tensor", x)
    graph, shape = symbol.graph, symbol.shape
    if all(isinstance(extent, int) for extent in shape):
        return graph.constant(np.array(shape, dtype=np.int64))
    parts = [apply("reshape", graph.dim_value(extent), shape=(1,)) for extent in shape]
    return graph.apply("concat", parts, {"axis": 0}) if len(parts) > 1 else parts[0]
