"""Handles reading and writing at positions that are data."""

from __future__ import annotations

import math

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dtype import int64
from ...dims.dim import Extent, product
from ...functions.building import apply
from ...functions.joining import concat
from ...functions.positions import counting
from ...symbol import Symbol
from ..node import Node, Result
from ..registry import handles
from ..values import Known, Value


def _require_inside(node: Node, position: int, extent: Extent) -> None:
    """Raise `UserError` where constant positions are out of range; others are clamped by a run."""
    value = node.value(position)
    node.require(node.dtype(position).is_integer, f"positions of {node.dtype(position)}; integers are expected")
    if isinstance(value, Known) and isinstance(extent, int) and value.array.size:
        low, high = int(value.array.min()), int(value.array.max())
        node.require(-extent <= low and high < extent, f"positions {low} to {high} on an axis of size {extent}")


@handles("Gather")
def gather(node: Node) -> Result:
    """Take slices of an axis at positions."""
    x = node[0]
    axis = node.axis(node.attr("axis"), len(x.shape))
    _require_inside(node, 1, x.shape[axis])
    return apply("gather", x, node[1], axis=axis)


@handles("GatherElements")
def gather_elements(node: Node) -> Result:
    """Take single elements along an axis; the positions may have fewer of the other axes than the data."""
    x, positions = node[0], node[1]
    axis = node.axis(node.attr("axis"), len(x.shape))
    node.require(
        len(x.shape) == len(positions.shape), f"positions of rank {len(positions.shape)} for data of rank {len(x.shape)}"
    )
    _require_inside(node, 1, x.shape[axis])
    stops = tuple([extent if a == axis else positions.shape[a] for a, extent in enumerate(x.shape)])
    if stops != x.shape:
        x = apply("slice", x, starts=(0,) * len(stops), stops=stops, steps=(1,) * len(stops))
    return apply("take_along_axis", x, positions, axis=axis)


@handles("GatherND")
def gather_nd(node: Node) -> Result:
    """Take slices at tuples of positions, for each batch on its own."""
    x, positions = node[0], node[1].cast(int64)
    batch = node.attr("batch_dims", 0)
    depth = positions.shape[-1] if positions.shape else 0
    node.require(0 <= batch < len(positions.shape), f"batch_dims {batch} of {len(positions.shape)} axes")
    if not isinstance(depth, int):
        node.unsupported(f"tuples of {depth} positions", "give the last axis of the positions a fixed size")
    depth = int(depth)  # type: ignore[arg-type]
    node.require(batch + depth <= len(x.shape), f"{depth} positions after {batch} batch axes, the data has {len(x.shape)} axes")
    indexed, rest = x.shape[batch : batch + depth], x.shape[batch + depth :]
    leading = product(x.shape[:batch])
    flat_positions = positions.reshape((leading, -1, depth))
    linear = _linear(flat_positions, indexed)
    if batch:
        rows = counting(node.graph, leading).reshape((leading, 1))
        linear = apply("add", linear, apply("mul", rows, node.graph.dim_value(product(indexed))))
    table = x.reshape((leading * product(indexed), *rest))
    return apply("gather", table, linear.reshape(positions.shape[:-1]), axis=0)


def _linear(positions: Symbol, sizes: tuple[Extent, ...]) -> Symbol:
    """Return positions in row-major order of tuples of positions on the last axis; negative ones count from the end."""
    graph = positions.graph
    total = graph.constant(np.zeros((), np.int64))
    for number, extent in enumerate(sizes):
        one = positions[..., number]
        size = graph.dim_value(extent)
        wrapped = apply("where", apply("less", one, 0), apply("add", one, size), one)
        inside = apply("maximum", apply("minimum", wrapped, apply("sub", size, 1)), 0)
        total = apply("add", apply("mul", total, size), inside)
    if not sizes:
        total = apply("broadcast_to", total, shape=positions.shape[:-1])
    return total


_COMBINE = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum"}


def scattered(node: Node, x: Symbol, shape: tuple[int, ...], targets: Array, updates: Symbol, reduction: str) -> Symbol:
    """Write `updates` into the flat elements of `x` that `targets` names, in their order.

    Targets are known, so each element of the result is a selection of elements: those that are written once in a first step,
    those written again in further ones. Without a reduction the last update stays.
    """
    flat, source = x.reshape((-1,)), updates.reshape((-1,))
    count = math.prod(shape)
    node.require_few(count, "the elements of a scatter")
    node.require(not targets.size or (targets.min() >= 0 and targets.max() < count), "a position is out of range")
    if reduction == "none":
        chosen = np.full(count, -1, np.int64)
        chosen[targets] = np.arange(targets.size)
        rounds = [chosen]
    else:
        node.require(reduction in _COMBINE, f"reduction {reduction!r}")
        rounds = _rounds(targets, count)
    for chosen in rounds:
        if not (chosen >= 0).any():
            continue
        written = apply("gather", source, node.constant(np.maximum(chosen, 0), int64), axis=0)
        value = written if reduction == "none" else apply(_COMBINE[reduction], flat, written)
        flat = apply("where", node.graph.constant(chosen >= 0), value, flat)
    return flat.reshape(x.shape)


def _rounds(targets: Array, count: int) -> list[Array]:
    """Return, for the first, second, … update of each element, its number, or -1."""
    order = np.argsort(targets, kind="stable")
    ranked = targets[order]
    first = np.searchsorted(ranked, ranked, side="left")
    rank = np.arange(targets.size) - first
    rounds = []
    for number in range(int(rank.max()) + 1 if targets.size else 0):
        chosen = np.full(count, -1, np.int64)
        here = rank == number
        chosen[ranked[here]] = order[here]
        rounds.append(chosen)
    return rounds


@handles("ScatterElements", "Scatter")
def scatter_elements(node: Node) -> Result:
    """Write single elements along an axis, at positions that are constants."""
    x, updates = node[0], node[2]
    axis = node.axis(node.attr("axis"), len(x.shape))
    line = _line(node.value(1), axis)
    if line is not None and not all(isinstance(extent, int) for extent in x.shape):
        replaced = _slices_replaced(node, x, updates, axis, line)
        if replaced is not None:
            return replaced
    shape = node.static_shape(0)
    positions = node.known(1, "the positions of a scatter").astype(np.int64)
    node.require(
        positions.ndim == len(shape) and tuple(positions.shape) == tuple(updates.shape), "positions and updates differ in shape"
    )
    node.require_few(math.prod(shape), "the elements of a scatter")
    outside = [extent > size for a, (extent, size) in enumerate(zip(positions.shape, shape, strict=True)) if a != axis]
    node.require(not any(outside), "positions have more elements than the data beside the axis")
    wrapped = np.where(positions < 0, positions + shape[axis], positions)
    node.require(not wrapped.size or bool((wrapped >= 0).all() and (wrapped < shape[axis]).all()), "a position is out of range")
    grid = np.indices(positions.shape, dtype=np.int64)
    grid[axis] = wrapped
    targets = np.ravel_multi_index(tuple(grid), shape).reshape(-1) if positions.size else np.zeros(0, np.int64)
    return scattered(node, x, shape, targets, updates, node.attr("reduction", "none"))


def _line(positions: Value, axis: int) -> Array | None:
    """Return positions along an axis that are the same in each line, where a constant was broadcast; else None."""
    if not isinstance(positions, Symbol) or positions.op.name != "broadcast_to":
        return None
    (source,) = positions.inputs
    sizes = [1] * (len(positions.shape) - len(source.shape)) + list(source.shape)
    beside = [size for a, size in enumerate(sizes) if a != axis]
    is_line = sizes[axis] == positions.shape[axis] and all(size == 1 for size in beside)
    if source.op.name not in ("constant", "weight") or not is_line:
        return None
    found: Array = source.attrs["value"].reshape(-1).astype(np.int64)
    return found


def _slices_replaced(node: Node, x: Symbol, updates: Symbol, axis: int, line: Array) -> Symbol | None:
    """Replace slices of an axis of known size; of equal positions the last one counts. None if they are no whole slices."""
    extent = x.shape[axis]
    others = [size for a, size in enumerate(x.shape) if a != axis]
    if (
        not isinstance(extent, int)
        or node.attr("reduction", "none") != "none"
        or [size for a, size in enumerate(updates.shape) if a != axis] != others
        or updates.shape[axis] != line.size
    ):
        return None
    node.require(bool(((line >= -extent) & (line < extent)).all()), "a position is out of range")
    node.require_few(extent, "the slices of a scatter")
    taken: Array = np.arange(extent)
    taken[line] = extent + np.arange(line.size)
    return apply("gather", concat([x, updates], axis), node.constant(taken, int64), axis=axis)


@handles("ScatterND")
def scatter_nd(node: Node) -> Result:
    """Write slices at tuples of positions that are constants."""
    x, updates = node[0], node[2]
    positions = node.known(1, "the positions of ScatterND").astype(np.int64)
    depth = positions.shape[-1] if positions.ndim else 0
    node.require(positions.ndim > 0 and depth <= len(x.shape), "positions need a last axis, of at most the data's rank")
    rest = x.shape[depth:]
    reduction = node.attr("reduction", "none")
    by_slices = reduction == "none" and not all(isinstance(extent, int) for extent in rest)
    indexed = node.static_sizes(x.shape[:depth] if by_slices else x.shape, "the data of ScatterND")[:depth]
    wrapped = np.where(positions < 0, positions + np.array(indexed, np.int64), positions)
    node.require(bool((wrapped >= 0).all() and (wrapped < np.array(indexed, np.int64)).all()), "a position is out of range")
    node.require(
        tuple(updates.shape) == (*positions.shape[:-1], *rest), "updates have another shape than positions and data say"
    )
    rows = wrapped.reshape(-1, depth)
    starts: Array = np.zeros(len(rows), np.int64)
    for column, extent in zip(rows.T, indexed, strict=True):
        starts = starts * extent + column
    count = math.prod(indexed)
    if by_slices:
        node.require_few(count, "the slices of ScatterND")
        taken: Array = np.arange(count)
        taken[starts] = count + np.arange(len(starts))  # of equal positions the last one counts
        slices = concat([x.reshape((count, *rest)), updates.reshape((len(rows), *rest))], 0)
        return apply("gather", slices, node.constant(taken, int64), axis=0).reshape(x.shape)
    shape = node.static_shape(0)
    node.require_few(math.prod(shape), "the elements of ScatterND")
    inner = math.prod(shape[depth:])
    targets = (starts[:, None] * inner + np.arange(inner)).reshape(-1).astype(np.int64)
    return scattered(node, x, shape, targets, updates, reduction)


@handles("TensorScatter")
def tensor_scatter(node: Node) -> Result:
    """Write a part of a cache, at a position of its own in each batch: each element of the result is an old or a new one."""
    cache, update = node[0], node[1]
    rank, mode = len(cache.shape), node.attr("mode")
    axis = node.axis(node.attr("axis"), rank)
    node.require(axis > 0 and len(update.shape) == rank, f"axis {axis} of {rank} axes, the first of which is the batch")
    node.require(mode in ("linear", "circular"), f"mode {mode!r}")
    length, size = cache.shape[axis], update.shape[axis]
    steps = counting(node.graph, length).reshape((1, length))
    if node.has(2):
        steps = apply("sub", steps, node[2].cast(int64).reshape((-1, 1)))
    if mode == "circular":
        steps = apply("mod", steps, node.graph.dim_value(length))
    steps = steps.reshape((steps.shape[0], *[length if a == axis else 1 for a in range(1, rank)]))
    inside = apply("logical_and", apply("greater_equal", steps, 0), apply("less", steps, node.graph.dim_value(size)))
    source = apply("maximum", apply("minimum", steps, node.graph.dim_value(size - 1)), 0)
    return apply("where", inside, apply("take_along_axis", update, source, axis=axis), cache)
