"""Handles reductions, and distances, which are norms of differences.

No axes stand for all of them, except in `any` and `all`; 16-bit floats are summed in float32.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from ....promotion.dtype import DType, bool_, float32, int64
from ...construction import primitives
from ...functions import reductions
from ...functions.building import apply
from ...symbol import Symbol
from ..node import Node, Number
from ..registry import handles
from .elementwise import is_true

Axes: TypeAlias = "tuple[int, ...] | int | None"


@handles("sum.default", "sum.dim_IntList")
def sum_(node: Node, x: Symbol, dim: Axes = None, keepdim: bool = False, dtype: DType | None = None) -> Symbol:
    """Compute sums; of bools and integers in int64."""
    return reductions.sum_(x, node.axes(dim, len(x.shape)), keepdim, node.dtype)


@handles("mean.default", "mean.dim")
def mean(node: Node, x: Symbol, dim: Axes = None, keepdim: bool = False, dtype: DType | None = None) -> Symbol:
    """Compute means."""
    return reductions.mean(x.cast(node.dtype), node.axes(dim, len(x.shape)), keepdim)


@handles("prod.default", "prod.dim_int")
def prod(node: Node, x: Symbol, dim: int | None = None, keepdim: bool = False, dtype: DType | None = None) -> Symbol:
    """Compute products."""
    return reductions.prod(x, node.axes(dim, len(x.shape)), keepdim, node.dtype)


@handles("amax.default", "max.default")
def amax(node: Node, x: Symbol, dim: Axes = None, keepdim: bool = False) -> Symbol:
    """Return the largest elements."""
    return reductions.max_(x, axis=node.axes(dim, len(x.shape)), keepdims=keepdim)


@handles("amin.default", "min.default")
def amin(node: Node, x: Symbol, dim: Axes = None, keepdim: bool = False) -> Symbol:
    """Return the smallest elements."""
    return reductions.min_(x, axis=node.axes(dim, len(x.shape)), keepdims=keepdim)


@handles("max.dim", "min.dim")
def extreme(node: Node, x: Symbol, dim: int, keepdim: bool = False) -> tuple[Symbol, Symbol]:
    """Return the largest or smallest elements of an axis, and their positions."""
    if not x.shape:
        return x, node.number(0, int64)
    axis = node.axis(dim, len(x.shape))
    value, position = (reductions.max_, reductions.argmax) if node.kind == "max" else (reductions.min_, reductions.argmin)
    return value(x, axis=axis, keepdims=keepdim), position(x, axis, keepdim)


@handles("argmax.default", "argmin.default")
def position(node: Node, x: Symbol, dim: int | None = None, keepdim: bool = False) -> Symbol:
    """Return the positions of the first extremes."""
    if not x.shape:
        return node.number(0, int64)
    found = reductions.argmax if node.kind == "argmax" else reductions.argmin
    return node.shaped(found(x, None if dim is None else node.axis(dim, len(x.shape)), keepdim))


@handles("any.default", "any.dim", "any.dims", "all.default", "all.dim", "all.dims")
def truth(node: Node, x: Symbol, dim: Axes = None, keepdim: bool = False) -> Symbol:
    """Tell whether some or all elements are true; in uint8 for tensors of uint8."""
    value = is_true(x)
    axes = () if isinstance(dim, tuple) and not dim else node.axes(dim, len(x.shape))
    found = reductions.any_ if node.kind == "any" else reductions.all_
    result = found(value, axes, keepdim) if axes else value
    return result if node.dtype is bool_ else result.cast(node.dtype)


@handles("var.correction", "std.correction")
def var(node: Node, x: Symbol, dim: Axes = None, correction: Number | None = None, keepdim: bool = False) -> Symbol:
    """Compute variances, or their roots; the correction is 1 by default."""
    function = reductions.var if node.kind == "var" else reductions.stdev
    return function(x, node.axes(dim, len(x.shape)), keepdim, 1 if correction is None else correction)


@handles("var_mean.correction")
def var_mean(
    node: Node, x: Symbol, dim: Axes = None, correction: Number | None = None, keepdim: bool = False
) -> tuple[Symbol, Symbol]:
    """Compute variances and means."""
    axes = node.axes(dim, len(x.shape))
    return reductions.var(x, axes, keepdim, 1 if correction is None else correction), reductions.mean(x, axes, keepdim)


@handles("cumsum.default")
def cumsum(node: Node, x: Symbol, dim: int, dtype: DType | None = None) -> Symbol:
    """Compute running sums."""
    if not x.shape:
        return x.cast(node.dtype)
    return reductions.cumsum(x, node.axis(dim, len(x.shape)), dtype=node.dtype)


@handles("logsumexp.default")
def logsumexp(node: Node, x: Symbol, dim: Axes, keepdim: bool = False) -> Symbol:
    """Compute log(sum(exp(x)))."""
    return reductions.logsumexp(x, node.axes(dim, len(x.shape)), keepdim)


@handles("linalg_vector_norm.default")
def vector_norm(
    node: Node, x: Symbol, ord: Number = 2, dim: Axes = None, keepdim: bool = False, dtype: DType | None = None  # noqa: A002
) -> Symbol:
    """Compute norms of any order."""
    wide = x.cast(node.dtype)
    return reductions.norm(wide.cast(float32) if wide.dtype.bits == 16 else wide, _order(ord), node.axes(dim, len(x.shape)),
                           keepdim).cast(node.dtype)  # fmt: skip


def _order(number: Number) -> Number:
    return int(number) if math.isfinite(number) and number == int(number) else number


@handles("count_nonzero.default", "count_nonzero.dim_IntList")
def count_nonzero(node: Node, x: Symbol, dim: Axes = None) -> Symbol:
    """Count what is not zero."""
    return reductions.count_nonzero(x, node.axes(dim, len(x.shape)))


# -- distances ---------------------------------------------------------------------------------------------------------


def _norm(differences: Symbol, p: Number) -> Symbol:
    """Return norms along the last axis."""
    return reductions.norm(differences, _order(p), (len(differences.shape) - 1,), False)


@handles("_cdist_forward.default")
def cdist(node: Node, x1: Symbol, x2: Symbol, p: Number, compute_mode: int | None = None) -> Symbol:
    """Return the distances between all rows of one tensor and all of another."""
    *batch, rows, size = x1.shape
    columns = x2.shape[-2]
    if size == 0:
        return node.broadcast(node.number(0.0, node.dtype))
    wide = float32 if x1.dtype.bits == 16 else x1.dtype
    left = primitives.reshape(x1.cast(wide), (*batch, rows, 1, size))
    right = primitives.reshape(x2.cast(wide), (*x2.shape[:-2], 1, columns, size))
    return node.broadcast(_norm(apply("sub", left, right), p).cast(node.dtype))


@handles("_pdist_forward.default")
def pdist(node: Node, x: Symbol, p: Number = 2.0) -> Symbol:
    """Return the distances between all pairs of rows, each pair once."""
    rows, size = x.shape
    (count,) = node.static((rows,), "the rows of pdist")
    first, second = np.triu_indices(count, 1)
    if not first.size or size == 0:
        return node.broadcast(node.number(0.0, node.dtype))
    one, other = (apply("gather", x, node.graph.constant(at.astype(np.int64)), axis=0) for at in (first, second))
    return _norm(apply("sub", one, other), p)
