"""Finds values in sorted vectors, and counts how often values occur."""

from __future__ import annotations

import math
import operator

from ....promotion.dtype import float32, float64, int64
from ...construction import primitives
from ...dims.dim import Dim, Extent, lower_bound
from ...errors import describing, mistake
from ...graph import graph_of
from ...ops.opdef import accumulator
from ...protocols import TensorLike
from ...symbol import Symbol
from ...types import DimLike, as_extent
from ..building import apply, symbol_of
from ..host.data_sized import fresh_dim, host
from ..indexing import gather
from ..reductions import accumulated, max_, min_, sum_
from ..triangles import spaced


def searchsorted(
    a: TensorLike, v: TensorLike, side: str = "left", sorter: TensorLike | None = None
) -> Symbol:
    """Return the positions (int64) in a sorted vector where elements of `v` would be inserted, as numpy.searchsorted.

    Args:
        a: a vector in ascending order, NaN last.
        v: values of any shape.
        side: "left" for the first such position, before equal elements, "right" for the last one, behind them.
        sorter: positions that put `a` in order, as `argsort` returns them, where it is not.
    """
    graph = graph_of("searchsorted", a, v)
    within = graph.as_symbol(a, "searchsorted")
    if side not in ("left", "right"):
        raise mistake("searchsorted", f"side is {side!r:.60}", (within, v), '"left" or "right"', 'side="left"')
    if sorter is not None:
        positions = graph.as_symbol(sorter, "searchsorted")
        if len(positions.shape) != 1 or not positions.dtype.is_integer:
            raise mistake("searchsorted", "the sorter is no vector of integers", (within, v, positions),
                          "one position for each element of `a`", "sorter=joinery.argsort(a)")  # fmt: skip
        within = gather(within, positions)
    return graph.apply("searchsorted", (within, v), {"side": side})


def bincount(
    x: TensorLike, weights: TensorLike | None = None, minlength: DimLike = 0, length: DimLike | None = None
) -> Symbol:
    """Count how often each integer from 0 on occurs in a vector, as numpy.bincount.

    Args:
        x: a vector of integers, none of them negative: those count nowhere.
        weights: what each element adds instead of 1. Sums have the dtype that `sum` gives them.
        minlength: the least size of the result, which is otherwise 1 more than the largest element. That is known only when
            the graph has run as far as that, so a compiled model then runs on the CPU.
        length: the size of the result, where it is known beforehand; elements that are not below it count nowhere.
    """
    op = "bincount"
    symbol = symbol_of(op, x)
    if len(symbol.shape) != 1 or not (symbol.dtype.is_integer or symbol.dtype.is_bool):
        problem = f"{symbol.dtype} with {len(symbol.shape)} axes"
        raise mistake(op, problem, (symbol,), "a vector of integers", "flatten or cast it")
    added = _added(op, symbol, weights)
    least = as_extent(minlength, f"{op}: minlength")
    wide = apply("minimum", symbol, 1 << 62) if symbol.dtype.kind == "uint" and symbol.dtype.bits == 64 else symbol
    numbers = primitives.cast(wide, int64)
    if length is not None:
        size = as_extent(length, f"{op}: length")
    elif isinstance(least, int) and symbol.dtype.max_value < least:
        size = least  # no element is beyond it, whatever they are
    else:
        size = _largest(symbol, numbers, least)
    if symbol.dtype.kind == "uint":
        return _counted(symbol, None, added, size)
    return _counted(numbers, apply("greater_equal", numbers, 0), added, size)


def _largest(x: Symbol, numbers: Symbol, least: Extent) -> Extent:
    """Return a name for the size that has a place for every number, and is not less than another one."""
    graph = numbers.graph
    if 8 <= x.dtype.bits < 64 and not x.dtype.is_bool:  # of more elements a register
        is_some = isinstance(x.shape[0], int) and x.shape[0] > 0
        some = x if is_some else apply("pad", x, low=(0,), high=(1,), mode="constant", value=x.dtype.min_value)
        largest = primitives.cast(max_(some), int64)
        if some is not x:
            largest = apply("where", apply("greater", graph.dim_value(x.shape[0]), 0), largest, -1)
    else:
        largest = max_(apply("pad", numbers, low=(0,), high=(1,), mode="constant", value=-1))
    count = apply("maximum", apply("add", largest, 1), graph.dim_value(least))
    return host("empty_rows", count, sizes=(fresh_dim(graph, "bins"),)).shape[0]


def _added(op: str, x: Symbol, weights: TensorLike | None) -> Symbol:
    """Return what each element adds to its count: 1, or its weight."""
    if weights is None:
        return primitives.broadcast_to(x.graph.scalar(1, int64), x.shape)
    given = x.graph.as_symbol(weights, op)
    checks = x.graph.shape_checks
    pairs = list(zip(given.shape, x.shape, strict=False))
    if len(given.shape) != len(x.shape) or any([checks.decide(*pair) is False for pair in pairs]):
        raise mistake(op, "weights of another shape", (x, given), "one weight for each element", "weights.reshape(x.shape)")
    with describing(op, x, given):
        for axis, pair in enumerate(pairs):
            checks.require_equal(*pair, f"axis {axis} of the weights")
    return primitives.cast(given, accumulated(op, given, None))


def _counted(positions: Symbol, holds: Symbol | None, added: Symbol, size: Extent) -> Symbol:
    """Return sums of what is added at each position from 0 to `size`, of elements that a condition holds for, or of all."""
    work = accumulator(added.dtype)
    start = primitives.broadcast_to(positions.graph.scalar(0, work), (size,))
    kept = positions if holds is None else apply("where", holds, positions, 1 << 62)  # out of range: a scatter drops them
    total = apply("scatter", start, kept, primitives.cast(added, work), axis=0, reduction="add")
    return primitives.cast(total, added.dtype)


def histogram(
    a: TensorLike, bins: int | TensorLike = 10, range: tuple[float, float] | None = None,  # noqa: A002 - NumPy's name
    density: bool = False, weights: TensorLike | None = None,
) -> tuple[Symbol, Symbol]:  # fmt: skip
    """Count the elements in intervals, and return the counts and the edges of these, as numpy.histogram.

    Args:
        a: numbers of any shape.
        bins: a number of equal intervals, or a vector of edges in ascending order. The last interval contains its upper edge.
        range: the outer edges of equal intervals; by default the least and the largest element, or (0, 1) of nothing. Where
            these are equal, they are half a unit apart from the edges.
        density: return counts divided by their sum and by the widths of the intervals.
        weights: what each element adds instead of 1, of the shape of `a`.

    NaN, and elements outside, count nowhere; where NaN or an infinite element decides the range, nothing is counted. Edges of
    equal intervals are float32, float64 where `a` is float64 or integers.
    """
    op = "histogram"
    symbol = symbol_of(op, a)
    if not (symbol.dtype.has_arithmetic and (symbol.dtype.is_float or symbol.dtype.is_integer or symbol.dtype.is_bool)):
        raise mistake(op, f"values of {symbol.dtype}", (symbol,), "numbers", "cast them to float32")
    added = primitives.reshape(_added(op, symbol, weights), (-1,))
    flat = primitives.reshape(symbol, (-1,))
    if hasattr(bins, "__index__") and not hasattr(bins, "shape"):
        counts, edges = _equal_bins(flat, operator.index(bins), range, added)
    else:
        if range is not None:
            raise mistake(op, "a range beside edges", (symbol,), "edges alone", "leave the range out")
        edges = symbol.graph.as_symbol(bins, op)
        counts = _between(flat, edges, added)
    if not density:
        return counts, edges
    widths = apply("sub", edges[1:], edges[:-1])
    widths = widths if widths.dtype.is_float else primitives.cast(widths, float64)
    shares = primitives.cast(counts, widths.dtype)
    return apply("div", apply("div", shares, widths), sum_(shares)), edges


def _between(x: Symbol, edges: Symbol, added: Symbol) -> Symbol:
    """Count between edges by searching them."""
    if len(edges.shape) != 1 or edges.shape[0] == 0 or edges.shape[0] == 1:
        raise mistake("histogram", f"edges with {len(edges.shape)} axes", (x, edges), "a vector of 2 edges or more", "bins=10")
    count = edges.shape[0] - 1
    found = searchsorted(edges, x, "right")
    last = edges[-1]
    at = apply("where", apply("equal", x, last), count, found)
    holds = apply("logical_and", apply("greater_equal", x, edges[0]), apply("less_equal", x, last))
    return _counted(apply("sub", at, 1), holds, added, count)


def _equal_bins(x: Symbol, bins: int, limits: tuple[float, float] | None, added: Symbol) -> tuple[Symbol, Symbol]:
    """Count in equal intervals: a product finds the interval, and the edges beside it have the last word."""
    op = "histogram"
    if bins < 1:
        raise mistake(op, f"{bins} intervals", (x,), "1 or more", "bins=10")
    dtype = float64 if x.dtype.is_integer or x.dtype.is_bool or x.dtype is float64 else float32
    values = primitives.cast(x, dtype)
    if limits is None:
        low, high = _range_of(values)
    else:
        first, final = _limits(x, limits)
        low, high = (x.graph.scalar(each, dtype) for each in (first, final))
    edges = spaced(low, high, bins + 1)
    share = apply("mul", apply("div", apply("sub", values, low), apply("sub", high, low)), float(bins))
    holds = apply("logical_and", apply("greater_equal", values, low), apply("less_equal", values, high))
    near = apply("minimum", apply("maximum", primitives.cast(share, int64), 0), bins - 1)
    below = apply("less", values, apply("gather", edges, near, axis=0))
    beyond = apply("greater_equal", values, apply("gather", edges, apply("add", near, 1), axis=0))
    beyond = apply("logical_and", beyond, apply("less", near, bins - 1))
    at = apply("where", below, apply("sub", near, 1), apply("where", beyond, apply("add", near, 1), near))
    return _counted(at, holds, added, bins), edges


def _limits(x: Symbol, limits: tuple[float, float]) -> tuple[float, float]:
    try:
        low, high = (float(each) for each in limits)
    except (TypeError, ValueError):
        low, high = math.nan, math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise mistake("histogram", f"range {limits!r:.60}", (x,), "two finite numbers in ascending order", "range=(0, 1)")
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def _range_of(values: Symbol) -> tuple[Symbol, Symbol]:
    """Return the least and the largest element, which are further apart where they are equal; (0, 1) of nothing."""
    (extent,) = values.shape
    graph, dtype = values.graph, values.dtype
    if extent == 0:
        return graph.scalar(0.0, dtype), graph.scalar(1.0, dtype)
    if isinstance(extent, Dim) and (lower_bound(extent) or 0) < 1:
        is_empty = apply("equal", graph.dim_value(extent), 0)
        low, high = (
            apply("where", is_empty, neutral, reduced(apply("pad", values, low=(0,), high=(1,), mode="constant", value=fill)))
            for reduced, fill, neutral in ((min_, math.inf, 0.0), (max_, -math.inf, 1.0))
        )
    else:
        low, high = min_(values), max_(values)
    is_point = apply("equal", low, high)
    half = apply("where", is_point, graph.scalar(0.5, dtype), graph.scalar(0.0, dtype))
    return apply("sub", low, half), apply("add", high, half)
