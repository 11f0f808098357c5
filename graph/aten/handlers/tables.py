"""Handles tables of rows: bags of them, limits of their norms, and their gradients."""

from __future__ import annotations

import math

from ....promotion.dtype import float32, int64
from ...construction import primitives
from ...dims.dim import Extent, product
from ...functions import reductions
from ...functions.building import apply
from ...functions.positions import counting
from ...symbol import Symbol
from ..node import Node, Number
from ..registry import handles
from .scattering import written


@handles("embedding_renorm.default")
def embedding_renorm(node: Node, weight: Symbol, indices: Symbol, max_norm: Number, norm_type: Number) -> Symbol:
    """Scale the rows that are used and whose norm is beyond a limit, to that limit."""
    rows, _ = weight.shape
    wide = weight.cast(float32) if weight.dtype.bits == 16 else weight
    order = int(norm_type) if math.isfinite(norm_type) and norm_type == int(norm_type) else norm_type
    norm = reductions.norm(wide, order, (1,), True)
    factor = apply("div", node.number(float(max_norm), wide.dtype), apply("add", norm, node.number(1e-7, wide.dtype)))
    at = primitives.reshape(indices, (product(indices.shape),))
    used = written(node.broadcast(node.number(0, int64), (rows,)), at, node.broadcast(node.number(1, int64), at.shape), 0)
    beyond = apply("logical_and", apply("greater", norm, node.number(float(max_norm), wide.dtype)),
                   apply("equal", primitives.reshape(used, (rows, 1)), node.number(1, int64)))  # fmt: skip
    return apply("where", beyond, apply("mul", wide, factor), wide).cast(weight.dtype)


@handles("embedding_dense_backward.default")
def embedding_dense_backward(
    node: Node, grad_output: Symbol, indices: Symbol, num_weights: Extent, padding_idx: int, scale_grad_by_freq: bool
) -> Symbol:
    """Add the gradients of rows of a table; of the row of padding there is none."""
    return _added(node, grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)


def _added(
    node: Node, grad_output: Symbol, indices: Symbol, num_weights: Extent, padding_idx: int, scale_grad_by_freq: bool
) -> Symbol:
    size = grad_output.shape[-1]
    count = product(indices.shape)
    at = primitives.reshape(indices, (count, 1))
    wide = float32 if grad_output.dtype.bits == 16 else grad_output.dtype
    grad = primitives.reshape(grad_output, (count, size)).cast(wide)
    if scale_grad_by_freq:
        ones = node.broadcast(node.number(1, int64), (count, 1))
        total = written(node.broadcast(node.number(0, int64), (num_weights, 1)), at, ones, 0, "add")
        shares = apply("gather", primitives.reshape(total, (num_weights,)), at, axis=0)
        grad = apply("div", grad, shares.cast(wide))
    if padding_idx >= 0:
        padding = apply("equal", at, node.number(padding_idx, at.dtype))
        grad = apply("where", padding, node.number(0.0, wide), grad)
    start = node.broadcast(node.number(0.0, wide), (num_weights, size))
    if count == 0:
        return start.cast(node.dtype)
    return written(start, primitives.broadcast_to(at, (count, size)), grad, 0, "add").cast(node.dtype)


# -- bags --------------------------------------------------------------------------------------------------------------


@handles("_embedding_bag.default", "_embedding_bag_forward_only.default")
def embedding_bag(
    node: Node, weight: Symbol, indices: Symbol, offsets: Symbol, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: Symbol | None = None, include_last_offset: bool = False, padding_idx: int = -1,
) -> tuple[Symbol, Symbol | None, Symbol | None, Symbol | None]:  # fmt: skip
    """Add the rows of each bag, or take their mean (mode 1) or maximum (mode 2). Bags begin at offsets among the indices.

    The other results are the bag of each index, and how many rows each bag has, for the backward pass.
    """
    bags, size = node.result(0).shape
    count = indices.shape[0]
    owner = _owners(node, offsets, count, bags)
    rows = apply("gather", weight, indices, axis=0)
    wide = float32 if weight.dtype.bits == 16 else weight.dtype
    rows = rows.cast(wide)
    if per_sample_weights is not None:
        rows = apply("mul", rows, primitives.reshape(per_sample_weights.cast(wide), (count, 1)))
    present = node.broadcast(node.number(1, int64), (count,))
    if padding_idx >= 0:
        present = apply("not_equal", indices, node.number(padding_idx, indices.dtype)).cast(int64)
    counts = written(node.broadcast(node.number(0, int64), (bags,)), owner, present, 0, "add")
    lowest = -math.inf if mode == 2 else 0.0
    if padding_idx >= 0:
        inside = primitives.reshape(apply("equal", present, node.number(1, int64)), (count, 1))
        rows = apply("where", inside, rows, node.number(lowest, wide))
    start = node.broadcast(node.number(lowest, wide), (bags, size))
    rows_of = primitives.broadcast_to(primitives.reshape(owner, (count, 1)), (count, size))
    found = written(start, rows_of, rows, 0, "max" if mode == 2 else "add")
    largest = _largest(node, rows, found, indices, rows_of) if mode == 2 and count != 0 else None
    column = primitives.reshape(counts, (bags, 1))
    if mode == 1:
        found = apply("div", found, apply("maximum", column, node.number(1, int64)).cast(wide))
    if mode == 2:
        found = apply("where", apply("equal", column, node.number(0, int64)), node.number(0.0, wide), found)
    return found.cast(weight.dtype), *_saved(node, owner, counts, largest)


def _largest(node: Node, rows: Symbol, found: Symbol, indices: Symbol, rows_of: Symbol) -> Symbol:
    """Return the index of the first row that has the maximum of each bag, by columns; of bags without rows it means nothing."""
    count, size = rows.shape
    here = apply("equal", rows, apply("gather", found, primitives.reshape(rows_of[:, 0:1], (count,)), axis=0))
    at = primitives.broadcast_to(primitives.reshape(counting(node.graph, count), (count, 1)), (count, size)).cast(int64)
    last = apply("sub", node.operand(count, int64), node.number(1, int64))
    first = written(node.broadcast(last, found.shape), rows_of, apply("where", here, at, last), 0, "min")
    return apply("gather", indices, first, axis=0)


def _saved(
    node: Node, owner: Symbol, counts: Symbol, largest: Symbol | None
) -> tuple[Symbol | None, Symbol | None, Symbol | None]:
    """Return the bags of indices and their sizes, which PyTorch leaves empty for some sums, and which rows were maxima."""
    found: list[Symbol | None] = []
    for position, symbol in ((1, owner), (2, counts)):
        declared = node.result(position)
        if declared.shape == symbol.shape:
            found.append(symbol.cast(declared.dtype))
        else:
            empty = declared.shape == (0,)
            found.append(node.broadcast(node.number(0, declared.dtype), declared.shape) if empty else None)
    last = node.result(3)
    if largest is not None and largest.shape == last.shape:
        return found[0], found[1], largest.cast(last.dtype)
    return found[0], found[1], node.broadcast(node.number(0, last.dtype), last.shape)


def _owners(node: Node, offsets: Symbol, count: Extent, bags: Extent) -> Symbol:
    """Return the bag of each index: the number of bags that begin at it or before, less one."""
    begins = primitives.reshape(offsets, (1, offsets.shape[0])).cast(int64)
    at = primitives.reshape(counting(node.graph, count), (count, 1))
    before = reductions.sum_(apply("less_equal", begins, at), 1, dtype=int64)
    last = node.operand(bags, int64)
    return apply("minimum", apply("sub", before, node.number(1, int64)), apply("sub", last, node.number(1, int64)))


@handles("_embedding_bag_backward.default")
def embedding_bag_backward(
    node: Node, grad: Symbol, indices: Symbol, offsets: Symbol, offset2bag: Symbol, bag_size: Symbol, maximum_indices: Symbol,
    num_weights: Extent, scale_grad_by_freq: bool, mode: int, sparse: bool, per_sample_weights: Symbol | None = None,
    padding_idx: int = -1,
) -> Symbol:  # fmt: skip
    """Add the gradient of each bag to its rows."""
    node.require(not sparse, "a sparse gradient", "sparse=False")
    owner = offset2bag if offset2bag.shape == indices.shape else _owners(node, offsets, indices.shape[0], grad.shape[0])
    if mode == 2:
        return _from_maxima(node, grad, bag_size, maximum_indices, num_weights)
    return _from_bags(node, grad, indices, owner, bag_size, num_weights, scale_grad_by_freq, mode, per_sample_weights,
                      padding_idx)  # fmt: skip


@handles("_embedding_bag_dense_backward.default")
def embedding_bag_dense_backward(
    node: Node, grad: Symbol, indices: Symbol, offset2bag: Symbol, bag_size: Symbol, maximum_indices: Symbol,
    num_weights: Extent, scale_grad_by_freq: bool, mode: int, per_sample_weights: Symbol | None = None, padding_idx: int = -1,
) -> Symbol:  # fmt: skip
    """Add the gradient of each bag to its rows."""
    if mode == 2:
        return _from_maxima(node, grad, bag_size, maximum_indices, num_weights)
    return _from_bags(node, grad, indices, offset2bag, bag_size, num_weights, scale_grad_by_freq, mode, per_sample_weights,
                      padding_idx)  # fmt: skip


def _from_maxima(node: Node, grad: Symbol, counts: Symbol, maxima: Symbol, num_weights: Extent) -> Symbol:
    """Add the gradient of each bag, by columns, to the row that had its maximum."""
    start = node.broadcast(node.number(0.0, grad.dtype), (num_weights, grad.shape[1]))
    if 0 in grad.shape:
        return start
    is_empty = apply("equal", primitives.reshape(counts, (grad.shape[0], 1)), node.number(0, counts.dtype))
    return written(start, maxima, apply("where", is_empty, node.number(0.0, grad.dtype), grad), 0, "add")


def _from_bags(
    node: Node, grad: Symbol, indices: Symbol, owner: Symbol, counts: Symbol, num_weights: Extent, scale_by_freq: bool,
    mode: int, weights: Symbol | None, padding: int,
) -> Symbol:  # fmt: skip
    """Return the gradient of a table: that of each bag for its rows, or its share of the mean."""
    if mode == 1:
        column = primitives.reshape(apply("maximum", counts, node.number(1, counts.dtype)), (counts.shape[0], 1))
        wide = float32 if grad.dtype.bits == 16 else grad.dtype
        grad = apply("div", grad.cast(wide), column.cast(wide)).cast(grad.dtype)
    rows = apply("gather", grad, owner, axis=0)
    if weights is not None:
        rows = apply("mul", rows, primitives.reshape(weights.cast(rows.dtype), (weights.shape[0], 1)))
    return _added(node, rows, indices, num_weights, padding, scale_by_freq)
