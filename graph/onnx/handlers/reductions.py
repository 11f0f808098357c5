"""Handles reductions over axes, positions of extremes, and running sums and products."""

from __future__ import annotations

from collections.abc import Callable

from ....promotion.dtype import float64, int64
from ...dims.dim import Dim, Extent, at_most
from ...functions.building import apply
from ...functions.creation import full
from ...functions.joining import concat
from ...functions.ordered.running import cumprod
from ...functions.ordered.sorting import argsort, top_k
from ...functions.reductions import (
    argmax,
    argmin,
    cumsum,
    log_sum,
    logsumexp,
    max_,
    mean,
    min_,
    prod,
    reduce_l1,
    reduce_l2,
    sum_,
    sum_square,
)
from ...symbol import Symbol
from ..node import Node, Result
from ..registry import handles
from ..sizes.origins import known_sizes

Axes = tuple[int, ...]


def _axes(node: Node, rank: int) -> Axes | None:
    """Return the axes to reduce; all where none are given, None where that means that nothing is reduced."""
    noop = node.attr("noop_with_empty_axes", 0)
    given = node.ints(1, "the axes of a reduction") if node.has(1) else tuple(node.attr("axes", ()) or ())
    if not given:
        return None if noop else tuple(range(rank))
    return node.axes(given, rank)


def _mean(x: Symbol, axes: Axes, keepdims: bool) -> Symbol:
    if x.dtype.is_float:
        return mean(x, axes, keepdims)
    count: Extent = 1
    for axis in axes:
        count = count * x.shape[axis]
    total = sum_(x, axes, keepdims, int64)
    return apply("trunc_div", total, x.graph.dim_value(count))


def _in_float(function: Callable[..., Symbol]) -> Callable[..., Symbol]:
    """Return a reduction that computes integers in float64."""
    return lambda x, axes, keepdims: function(x if x.dtype.is_float else x.cast(float64), axes, keepdims)


def _extreme(function: Callable[..., Symbol], largest: bool) -> Callable[..., Symbol]:
    """Return a reduction that gives the end of the dtype's range for no elements."""

    def end(x: Symbol, shape: list[Extent]) -> Symbol:
        if x.dtype.is_bool:
            return full(x, shape, not largest)
        if x.dtype.is_float:
            return full(x, shape, float("-inf") if largest else float("inf"), x.dtype)
        return full(x, shape, int(x.dtype.min_value if largest else x.dtype.max_value), x.dtype)

    def reduce(x: Symbol, axes: Axes, keepdims: bool) -> Symbol:
        if not axes or all(x.shape[axis] != 0 for axis in axes):
            known = known_sizes(x.graph)
            for axis in axes:  # data may leave nothing; where an input has no elements, a model for its sizes is compiled
                extent = x.shape[axis]
                if isinstance(extent, Dim) and not extent.symbols() <= known and not at_most(1, extent):
                    x = concat((x, end(x, [1 if each == axis else size for each, size in enumerate(x.shape)])), axis)
            return function(x, axis=axes, keepdims=keepdims)
        shape = [1 if axis in axes else extent for axis, extent in enumerate(x.shape)]
        return end(x, shape if keepdims else [extent for axis, extent in enumerate(shape) if axis not in axes])

    return reduce


_REDUCTIONS: dict[str, tuple[Callable[..., Symbol], Callable[[Symbol], Symbol] | None]] = {
    "ReduceSum": (sum_, None),
    "ReduceProd": (prod, None),
    "ReduceMean": (_mean, None),
    "ReduceMax": (_extreme(max_, True), None),
    "ReduceMin": (_extreme(min_, False), None),
    "ReduceL1": (reduce_l1, lambda x: apply("abs", x)),
    "ReduceL2": (_in_float(reduce_l2), lambda x: apply("abs", x)),
    "ReduceLogSum": (_in_float(log_sum), lambda x: apply("log", x if x.dtype.is_float else x.cast(float64))),
    "ReduceLogSumExp": (_in_float(logsumexp), None),
    "ReduceSumSquare": (sum_square, lambda x: apply("mul", x, x)),
}
"""Operator → the reduction, and what remains of it where no axis is reduced, None for the identity."""


@handles(*_REDUCTIONS)
def reduction(node: Node) -> Result:
    """Reduce over axes given as an attribute or, in later versions, an input. The result has the operand's dtype."""
    x = node[0]
    function, pointwise = _REDUCTIONS[node.op]
    keepdims = bool(node.attr("keepdims"))
    axes = _axes(node, len(x.shape))
    if axes is None or not x.shape:
        return x if pointwise is None else pointwise(x).cast(x.dtype)
    return function(x, axes, keepdims).cast(x.dtype)


@handles("ArgMax", "ArgMin")
def position(node: Node) -> Result:
    """Find the first position of an extreme, or with select_last_index the last one."""
    x = node[0]
    function = argmax if node.op == "ArgMax" else argmin
    axis = node.axis(node.attr("axis"), len(x.shape))
    keepdims = bool(node.attr("keepdims"))
    if not node.attr("select_last_index", 0):
        return function(x, axis, keepdims)
    backwards = function(apply("flip", x, axes=(axis,)), axis, keepdims)
    return apply("sub", x.graph.dim_value(x.shape[axis] - 1), backwards)


@handles("CumSum")
def cum_sum(node: Node) -> Result:
    """Compute running sums in the operand's dtype."""
    x = node[0]
    number = node.integer(1, "the axis of CumSum")
    axis = node.axis(number, len(x.shape))
    return cumsum(x, axis, bool(node.attr("exclusive")), bool(node.attr("reverse")), x.dtype)


@handles("CumProd")
def cum_prod(node: Node) -> Result:
    """Compute running products in the operand's dtype."""
    x = node[0]
    axis = node.axis(node.integer(1, "the axis of CumProd"), len(x.shape))
    return cumprod(x, axis, bool(node.attr("exclusive")), bool(node.attr("reverse")), x.dtype)


@handles("TopK")
def largest_elements(node: Node) -> Result:
    """Find the largest or smallest elements, in order; of equal ones the first."""
    x = node[0]
    axis = node.axis(node.attr("axis"), len(x.shape))
    counts: tuple[Extent, ...] = node.counts(1, "the k of TopK") if node.version >= 10 else (int(node.attr("k")),)
    node.require(len(counts) == 1, f"k has {len(counts)} elements; one is expected")
    (k,), largest = counts, bool(node.attr("largest", 1))
    node.ignore("sorted")  # in order is one of the orders that sorted=0 allows
    if isinstance(k, int):
        return top_k(x, k, axis, largest)
    stops = tuple([k if each == axis else extent for each, extent in enumerate(x.shape)])
    ordered = argsort(x, axis, largest)
    best = apply("slice", ordered, starts=(0,) * len(stops), stops=stops, steps=(1,) * len(stops))
    return apply("take_along_axis", x, best, axis=axis), best
