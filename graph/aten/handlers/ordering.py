"""Handles what puts elements in order, and running products and extremes. NaN is beyond infinity, as in PyTorch."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....promotion.dtype import DType, bool_, float32, int8, int64
from ...construction import primitives
from ...dims.dim import Extent
from ...functions import reductions
from ...functions.building import apply
from ...functions.control.loops import scan
from ...functions.ordered import running
from ...functions.ordered.sorting import argsort, top_k
from ...functions.positions import positions
from ...symbol import Symbol
from ..node import Node
from ..registry import handles
from .shaping import cut


def along(x: Symbol, at: Symbol, axis: int) -> Symbol:
    """Return elements at positions along an axis."""
    return apply("take_along_axis", x, at, axis=axis)


def _orderable(x: Symbol) -> Symbol:
    return x.cast(int8) if x.dtype is bool_ else x


def _kept(x: Symbol, axis: int, keepdim: bool) -> Symbol:
    """Return a tensor without an axis of size 1, unless it is kept."""
    return x if keepdim else primitives.reshape(x, (*x.shape[:axis], *x.shape[axis + 1 :]))


def _single(node: Node, x: Symbol) -> tuple[Symbol, Symbol]:
    """Return what an operator on an axis returns of a tensor without axes."""
    return x, node.number(0, int64)


@handles("sort.default", "sort.stable", "argsort.stable")
def sort(
    node: Node, x: Symbol, dim: int = -1, descending: bool = False, stable: bool | None = None
) -> Symbol | tuple[Symbol, Symbol]:
    """Return the elements of an axis in order, equal ones in that of their positions, and these."""
    if x.shape:
        axis = node.axis(dim, len(x.shape))
        order = argsort(_orderable(x), axis, descending)
        found = along(x, order, axis), order
    else:
        found = _single(node, x)
    return found[1] if node.kind == "argsort" else found


@handles("topk.default")
def topk(
    node: Node, x: Symbol, k: Extent, dim: int = -1, largest: bool = True, sorted: bool = True  # noqa: A002 - ATen's name
) -> tuple[Symbol, Symbol]:
    """Return the largest or smallest elements of an axis in order, and their positions."""
    if not x.shape:
        return tuple([node.shaped(each, node.result(0).shape) for each in _single(node, x)])  # type: ignore[return-value]
    axis = node.axis(dim, len(x.shape))
    if isinstance(k, int):
        _, order = top_k(_orderable(x), k, axis, largest)
    else:
        order = cut(argsort(_orderable(x), axis, largest), axis, 0, k)
    return along(x, order, axis), order


@handles("kthvalue.default")
def kthvalue(node: Node, x: Symbol, k: Extent, dim: int = -1, keepdim: bool = False) -> tuple[Symbol, Symbol]:
    """Return the k-th smallest elements of an axis, counted from 1, and their positions."""
    if not x.shape:
        return _single(node, x)
    axis = node.axis(dim, len(x.shape))
    at = cut(argsort(_orderable(x), axis), axis, k - 1, k)
    return _kept(along(x, at, axis), axis, keepdim), _kept(at, axis, keepdim)


@handles("median.dim", "nanmedian.dim")
def median(node: Node, x: Symbol, dim: int = -1, keepdim: bool = False) -> tuple[Symbol, Symbol]:
    """Return the lower median of an axis and its position: a NaN if there is one, or without regard to them."""
    if not x.shape:
        return _single(node, x)
    return _median(node, x, node.axis(dim, len(x.shape)), keepdim, node.kind == "nanmedian")


@handles("median.default", "nanmedian.default")
def median_of_all(node: Node, x: Symbol) -> Symbol:
    """Return the lower median of all elements."""
    flat = primitives.reshape(x, (x.size,))
    if x.size == 0:
        return node.number(math.nan if x.dtype.is_float else int(x.dtype.min_value), x.dtype)
    return _median(node, flat, 0, False, node.kind == "nanmedian")[0]


def _median(node: Node, x: Symbol, axis: int, keepdim: bool, skips: bool) -> tuple[Symbol, Symbol]:
    order = argsort(_orderable(x), axis)
    last = node.operand(x.shape[axis] - 1, int64)
    half = node.number(1, int64)
    position = apply("shift_right", last, half)
    if x.dtype.is_float:
        absent = reductions.sum_(apply("is_nan", x), axis, True)
        if skips:
            present = apply("maximum", apply("sub", last, absent), node.number(0, int64))
            position = apply("shift_right", present, half)
        else:
            position = apply("where", apply("greater", absent, node.number(0, int64)), last, position)
    at = along(order, node.broadcast(position, (*x.shape[:axis], 1, *x.shape[axis + 1 :])), axis)
    return _kept(along(x, at, axis), axis, keepdim), _kept(at, axis, keepdim)


@handles("mode.default")
def mode(node: Node, x: Symbol, dim: int = -1, keepdim: bool = False) -> tuple[Symbol, Symbol]:
    """Return the most frequent elements of an axis, the smallest of several, and the last position of each."""
    if not x.shape:
        return _single(node, x)
    axis = node.axis(dim, len(x.shape))
    order = argsort(_orderable(x), axis)
    ordered = along(x, order, axis)
    position = node.broadcast(positions(ordered, axis), ordered.shape)
    before = _shifted(node, ordered, axis)
    begins = apply("logical_or", apply("not_equal", ordered, before), apply("equal", position, node.number(0, int64)))
    start = running.cummax(apply("where", begins, position, node.number(0, int64)), axis)
    at = reductions.argmax(apply("sub", position, start), axis, True)
    return _kept(along(ordered, at, axis), axis, keepdim), _kept(along(order, at, axis), axis, keepdim)


def _shifted(node: Node, x: Symbol, axis: int) -> Symbol:
    """Return the element before each one of an axis."""
    at = apply("maximum", apply("sub", positions(x, axis), node.number(1, int64)), node.number(0, int64))
    return apply("gather", x, primitives.reshape(at, (x.shape[axis],)), axis=axis)


# -- running -----------------------------------------------------------------------------------------------------------


@handles("cumprod.default")
def cumprod(node: Node, x: Symbol, dim: int, dtype: DType | None = None) -> Symbol:
    """Compute running products."""
    if not x.shape:
        return x.cast(node.dtype)
    return running.cumprod(x.cast(node.dtype), node.axis(dim, len(x.shape)), dtype=node.dtype)


@handles("cummax.default", "cummin.default")
def running_extreme(node: Node, x: Symbol, dim: int) -> tuple[Symbol, Symbol]:
    """Return the largest or smallest of the elements so far, and the last position that has it."""
    if not x.shape:
        return _single(node, x)
    axis = node.axis(dim, len(x.shape))
    wide = _orderable(x)
    largest = node.kind == "cummax"
    best = (running.cummax if largest else running.cummin)(wide, axis)
    holds = apply("greater_equal" if largest else "less_equal", wide, best)
    if x.dtype.is_float:
        holds = apply("logical_or", holds, apply("is_nan", x))
    position = node.broadcast(positions(x, axis), x.shape)
    at = running.cummax(apply("where", holds, position, node.number(0, int64)), axis)
    return best.cast(x.dtype), at


@handles("logcumsumexp.default")
def logcumsumexp(node: Node, x: Symbol, dim: int) -> Symbol:
    """Compute the logarithms of running sums of exponentials, one element after the other: no sum loses what is small."""
    if not x.shape:
        return x
    axis = node.axis(dim, len(x.shape))
    wide = x.cast(float32) if x.dtype.bits == 16 else x
    order = (axis, *[a for a in range(len(x.shape)) if a != axis])
    rows = apply("permute", wide, axes=order)
    lowest = node.number(-math.inf, wide.dtype)
    start = node.broadcast(lowest, rows.shape[1:])

    def step(state: Symbol, row: Symbol) -> tuple[Symbol, Symbol]:
        high, low = apply("maximum", state, row), apply("minimum", state, row)
        added = apply("add", high, apply("log1p", apply("exp", apply("sub", low, high))))
        total = apply("where", apply("equal", low, high.graph.scalar(-math.inf, high.dtype)), high, added)
        whole = apply("where", apply("equal", high, high.graph.scalar(math.inf, high.dtype)), high, total)
        return whole, whole

    _, found = scan(step, start, rows)
    back: Sequence[int] = [order.index(a) for a in range(len(order))]
    return apply("permute", found, axes=tuple(back)).cast(x.dtype)
