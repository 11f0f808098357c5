"""Handles distances between points, which are norms of their differences."""

from __future__ import annotations

import math

import numpy as np

from ....promotion.dtype import float32
from ...construction import primitives
from ...functions import reductions
from ...functions.building import apply
from ...symbol import Symbol
from ..node import Node, Number
from ..registry import handles


def _norm(differences: Symbol, p: Number) -> Symbol:
    order = int(p) if math.isfinite(p) and p == int(p) else p
    return reductions.norm(differences, order, (len(differences.shape) - 1,), False)


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
