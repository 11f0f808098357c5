"""Writes elements and slices at positions that are data, alone or combined with what is there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....promotion.dtype import int64
from ...construction import primitives
from ...dims.dim import Extent, at_most, product
from ...errors import describing, mistake
from ...ops.shape import broadcast_shapes, normalize_axis
from ...protocols import TensorLike
from ...symbol import Symbol
from ..building import apply, as_symbols
from .out_of_range import with_mode

_REDUCTIONS = ("none", "add", "mul", "min", "max")
_MODES = ("drop", "clip", "error")


def scatter(
    x: TensorLike, updates: TensorLike, indices: TensorLike, axis: int = -1, reduction: str = "none", mode: str = "drop"
) -> Symbol:
    """Return `x` with `updates` written at integer positions along `axis`, as ONNX's ScatterElements.

    Element [i, j, k] of `updates` goes to [indices[i, j, k], j, k] for axis 0. Updates are applied in the order of the axis: of
    equal positions the last one stays, and sums are the same in every run. Negative positions count from the end.

    Args:
        updates, indices: of one shape, which is that of `x` but for the axis; elsewhere they may be shorter.
        reduction: "none" replaces elements; "add", "mul", "min", "max" combine them with the updates.
        mode: what becomes of updates at positions out of range, which are refused at once where they are constants. "drop"
            leaves them out, as JAX does. "clip" clamps the positions. "error" raises `UserError` when the graph runs, as NumPy
            and ONNX have it, with the position and the axis; the host looks at them, between two compiled parts, on the CPU
            only.
    """
    data, values, positions = as_symbols("scatter", x, updates, indices)
    with describing("scatter", data, positions, values):
        number = normalize_axis(axis, len(data.shape))
    return _scattered("scatter", data, values, positions, number, reduction, mode)


def scatter_add(
    x: TensorLike, updates: TensorLike, indices: TensorLike, axis: int = -1, mode: str = "drop"
) -> Symbol:
    """Return `x` with `updates` added at integer positions along `axis`; see `scatter`."""
    return scatter(x, updates, indices, axis, "add", mode)


def scatter_mul(
    x: TensorLike, updates: TensorLike, indices: TensorLike, axis: int = -1, mode: str = "drop"
) -> Symbol:
    """Return `x` multiplied by `updates` at integer positions along `axis`; see `scatter`."""
    return scatter(x, updates, indices, axis, "mul", mode)


def scatter_min(
    x: TensorLike, updates: TensorLike, indices: TensorLike, axis: int = -1, mode: str = "drop"
) -> Symbol:
    """Return the minimum of `x` and `updates` at integer positions along `axis`; see `scatter`."""
    return scatter(x, updates, indices, axis, "min", mode)


def scatter_max(
    x: TensorLike, updates: TensorLike, indices: TensorLike, axis: int = -1, mode: str = "drop"
) -> Symbol:
    """Return the maximum of `x` and `updates` at integer positions along `axis`; see `scatter`."""
    return scatter(x, updates, indices, axis, "max", mode)


def put_along_axis(
    x: TensorLike, indices: TensorLike, values: TensorLike, axis: int = -1, mode: str = "drop"
) -> Symbol:
    """Return `x` with `values` at integer positions along `axis`, as numpy.put_along_axis, which changes `x` instead.

    `indices` and `values` broadcast, but for the axis to the shape of `x`. `mode` is that of `scatter`; NumPy's is "error".
    """
    data, positions, updates = as_symbols("put_along_axis", x, indices, values)
    with describing("put_along_axis", data, positions, updates):
        number = normalize_axis(axis, len(data.shape))
        if len(positions.shape) != len(data.shape):
            raise mistake(
                "put_along_axis", f"the data has {len(data.shape)} axes, the indices have {len(positions.shape)}",
                (data, positions, updates), "equal ranks", "insert axes of size 1",
            )  # fmt: skip
        checks = data.graph.shape_checks
        count = broadcast_shapes((positions.shape[number : number + 1], updates.shape[number - len(data.shape) :][:1]), checks)
        shape = (*data.shape[:number], *count, *data.shape[number + 1 :])
    positions, updates = (primitives.broadcast_to(each, shape) for each in (positions, updates))
    return _scattered("put_along_axis", data, updates, positions, number, "none", mode)


def scatter_nd(
    x: TensorLike, updates: TensorLike, indices: TensorLike, reduction: str = "none", mode: str = "drop"
) -> Symbol:
    """Return `x` with `updates` written at tuples of positions, as ONNX's ScatterND.

    The last axis of `indices` holds one position for each of the first axes of `x`; slices of the others are written. The shape
    of `updates` is indices.shape[:-1] + x.shape[indices.shape[-1]:]. Order, reductions and modes are those of `scatter`.
    """
    data, values, positions = as_symbols("scatter_nd", x, updates, indices)
    operands = (data, positions, values)
    if not positions.dtype.is_integer:
        raise mistake("scatter_nd", f"indices of {positions.dtype}", operands, "integers", "cast them with .cast(int64)")
    depth = positions.shape[-1] if positions.shape else -1
    if not isinstance(depth, int) or not 0 <= depth <= len(data.shape):
        problem = f"{'no' if not positions.shape else depth} positions for {len(data.shape)} axes"
        expected = f"a last axis of the indices of known size, 0 to {len(data.shape)}"
        raise mistake("scatter_nd", problem, operands, expected, "reshape the indices to (…, 1)")
    indexed, rest = data.shape[:depth], data.shape[depth:]
    expected_shape = (*positions.shape[:-1], *rest)
    with describing("scatter_nd", *operands):
        if len(values.shape) != len(expected_shape):
            raise mistake(
                "scatter_nd", f"updates with {len(values.shape)} axes", operands,
                "the shape indices.shape[:-1] + x.shape[indices.shape[-1]:]", "broadcast_to that shape",
            )  # fmt: skip
        for number, (one, other) in enumerate(zip(values.shape, expected_shape, strict=True)):
            data.graph.shape_checks.require_equal(one, other, f"axis {number} of the updates")
    for number, extent in enumerate(indexed):
        _require_inside("scatter_nd", positions, operands, extent, number)
    count, slices, inner = product(indexed), product(positions.shape[:-1]), product(rest)
    columns = [
        with_mode("scatter_nd", positions[..., number], extent, number, mode, _MODES, operands)
        for number, extent in enumerate(indexed)
    ]
    # One position is in range or not as it is: scatter drops those that are not.
    linear = primitives.reshape(columns[0] if depth == 1 else _linear(positions, columns, indexed, count), (slices, 1))
    table, rows = primitives.reshape(data, (count, inner)), primitives.reshape(values, (slices, inner))
    written = _scattered("scatter_nd", table, rows, primitives.broadcast_to(linear, (slices, inner)), 0, reduction)
    return primitives.reshape(written, data.shape)


def scatter_nd_add(x: TensorLike, updates: TensorLike, indices: TensorLike, mode: str = "drop") -> Symbol:
    """Return `x` with `updates` added at tuples of positions; see `scatter_nd`."""
    return scatter_nd(x, updates, indices, "add", mode)


def scatter_nd_mul(x: TensorLike, updates: TensorLike, indices: TensorLike, mode: str = "drop") -> Symbol:
    """Return `x` multiplied by `updates` at tuples of positions; see `scatter_nd`."""
    return scatter_nd(x, updates, indices, "mul", mode)


def scatter_nd_min(x: TensorLike, updates: TensorLike, indices: TensorLike, mode: str = "drop") -> Symbol:
    """Return the minimum of `x` and `updates` at tuples of positions; see `scatter_nd`."""
    return scatter_nd(x, updates, indices, "min", mode)


def scatter_nd_max(x: TensorLike, updates: TensorLike, indices: TensorLike, mode: str = "drop") -> Symbol:
    """Return the maximum of `x` and `updates` at tuples of positions; see `scatter_nd`."""
    return scatter_nd(x, updates, indices, "max", mode)


def _linear(positions: Symbol, columns: Sequence[Symbol], indexed: tuple[Extent, ...], count: Extent) -> Symbol:
    """Return positions in row-major order of the indexed axes; `count`, which is out of range, where a part of one is."""
    graph = positions.graph
    total = primitives.broadcast_to(graph.constant(np.zeros((), np.int64)), positions.shape[:-1])
    inside: Symbol | None = None
    for one, extent in zip(columns, indexed, strict=True):
        size = graph.dim_value(extent)
        if one.dtype.kind == "uint" and one.dtype.bits == 64:  # beyond int64 they are out of any range
            one = apply("minimum", one, 1 << 62)
        one = primitives.cast(one, int64)
        at = apply("where", apply("less", one, 0), apply("add", one, size), one)
        here = apply("logical_and", apply("greater_equal", at, 0), apply("less", at, size))
        inside = here if inside is None else apply("logical_and", inside, here)
        total = apply("add", apply("mul", total, size), at)
    return total if inside is None else apply("where", inside, total, graph.dim_value(count))


def _scattered(
    op: str, data: Symbol, updates: Symbol, positions: Symbol, axis: int, reduction: str, mode: str = "drop"
) -> Symbol:
    operands = (data, positions, updates)
    if reduction not in _REDUCTIONS:
        raise mistake(op, f"reduction {reduction!r}", operands, ", ".join(map(repr, _REDUCTIONS)), 'reduction="none"')
    _require_inside(op, positions, operands, data.shape[axis])
    positions = with_mode(op, positions, data.shape[axis], axis, mode, _MODES, operands)
    with describing(op, *operands):
        positions, updates = _lengthened(positions, updates, data, axis)
        return apply("scatter", data, positions, updates, axis=axis, reduction=reduction)


def _lengthened(positions: Symbol, updates: Symbol, data: Symbol, axis: int) -> tuple[Symbol, Symbol]:
    """Return positions and updates as long as the data beside the axis; what is added is out of range, and dropped."""
    checks = data.graph.shape_checks
    short = [
        number != axis and checks.decide(extent, size) is not True and not at_most(extent + 1, size)
        for number, (extent, size) in enumerate(zip(data.shape, positions.shape, strict=False))
    ]
    same = len(positions.shape) == len(updates.shape) == len(data.shape)
    if not any(short) or not same or positions.shape != updates.shape or not positions.dtype.is_integer:
        return positions, updates
    low = (0,) * len(short)
    high = tuple([data.shape[n] - positions.shape[n] if shorter else 0 for n, shorter in enumerate(short)])
    wide = apply("minimum", positions, 1 << 62) if positions.dtype.kind == "uint" and positions.dtype.bits == 64 else positions
    outside = -(1 << 61)
    padded = apply("pad", primitives.cast(wide, int64), low=low, high=high, mode="constant", value=outside)
    return padded, apply("pad", updates, low=low, high=high, mode="constant", value=False if updates.dtype.is_bool else 0)


def _require_inside(op: str, positions: Symbol, operands: tuple[Symbol, ...], extent: Extent, column: int = -1) -> None:
    """Refuse constant positions that are out of range; of tuples of them those in a column."""
    source = positions
    while source.op.name == "broadcast_to":
        source = source.inputs[0]
    if source.op.name not in ("constant", "weight") or not isinstance(extent, int) or not positions.dtype.is_integer:
        return
    values = np.asarray(source.attrs["value"])
    values = values if column < 0 else values[..., column]
    if values.size and (int(values.min()) < -extent or int(values.max()) >= extent):
        problem = f"positions {int(values.min())} to {int(values.max())} on an axis of size {extent}"
        raise mistake(op, problem, operands, f"-{extent} to {extent - 1}", "clip the indices")
