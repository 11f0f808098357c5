"""Holds the composites that look elements up: slices at tuples of positions, and positions in a sorted vector."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...promotion.dtype import DType, int64
from ...promotion.literals import Operand
from ...promotion.result_rules import JOIN, Promotion, ResultRule
from ...promotion.rules import RuleSet
from ..checks import Checks, ShapeError
from ..dims.dim import Dim, Extent, maximum, positive_part, product
from ..protocols import SymbolLike
from ..types import Shape
from .attributes import Attributes
from .building import apply, cast
from .opdef import INDEXED, OpDef
from .shape import indexable

_MAX_SORTED = 1 << 32
"""So many elements are searched at most: half as many steps as for all that 64 bits can count."""


def _searched(rule_set: RuleSet, operands: Sequence[Operand], op: str, dtype: DType | None) -> Promotion:
    return Promotion(JOIN.apply(rule_set, operands, op=op).casts, int64)


SEARCHED = ResultRule("SEARCHED", "operands are cast to their join; the result is int64, a position", _searched)


def _search_shape(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    """Return the shape of the values; what is searched is a vector."""
    within, values = shapes
    if len(within) != 1:
        raise ShapeError(f"what is searched has {len(within)} axes", "a sorted vector", "search one row at a time")
    (extent,) = within
    if isinstance(extent, Dim):
        checks.add(maximum(extent, _MAX_SORTED), _MAX_SORTED, "searchsorted: at most 2^32 elements are searched")
    elif extent > _MAX_SORTED:
        raise ShapeError(f"{extent} elements to search", "at most 2^32")
    return values


def _gather_shape(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    """Return indices.shape[:-1] + x.shape[batch_dims + indices.shape[-1]:]."""
    shape, indices = shapes
    batch = attrs["batch_dims"]
    if not indices or not 0 <= batch < len(indices):
        problem = f"batch_dims {batch}, the indices have {len(indices)} axes"
        raise ShapeError(problem, "fewer batch axes than axes of the indices", "batch_dims=0")
    depth = indices[-1]
    if not isinstance(depth, int) or batch + depth > len(shape):
        raise ShapeError(
            f"tuples of {depth} positions after {batch} batch axes, the operand has {len(shape)} axes",
            f"a last axis of the indices of known size, 0 to {max(len(shape) - batch, 0)}", "reshape the indices to (…, 1)",
        )  # fmt: skip
    for axis, (one, other) in enumerate(zip(shape[:batch], indices[:batch], strict=True)):
        if checks.decide(one, other) is False:
            raise ShapeError(f"batch axis {axis} is {one} in the operand and {other} in the indices", "equal sizes")
        checks.require_equal(one, other, f"gather_nd: batch axis {axis}")
    for axis in range(batch, batch + depth):
        indexable(shape[axis], indices[:-1], axis, checks)
    return (*indices[:-1], *shape[batch + depth :])


def gather_nd(symbol: SymbolLike, x: SymbolLike, indices: SymbolLike) -> SymbolLike:
    """Gather from one table of slices, at positions in row-major order of the indexed axes."""
    batch = symbol.attrs["batch_dims"]
    depth = int(indices.shape[-1])  # type: ignore[arg-type] # inferring the shape requires it
    indexed, rest = x.shape[batch : batch + depth], x.shape[batch + depth :]
    lead = indices.shape[:-1]
    if indices.dtype.kind == "uint" and indices.dtype.bits == 64:  # beyond int64 they are clamped all the same
        indices = apply("minimum", indices, 1 << 62)
    indices = cast(indices, int64)
    total = apply("broadcast_to", _size(x, 0), shape=lead)
    for number, extent in enumerate(indexed):
        column = tuple([number if axis == len(lead) else 0 for axis in range(len(lead) + 1)])
        stops = tuple([start + 1 if axis == len(lead) else lead[axis] for axis, start in enumerate(column)])
        one = apply("slice", indices, starts=column, stops=stops, steps=(1,) * len(stops))
        one = apply("reshape", one, shape=lead)
        size, last = _size(x, extent), _size(x, extent - 1)
        counted = apply("where", apply("less", one, 0), apply("add", one, size), one)
        inside = apply("maximum", apply("minimum", counted, last), 0)
        total = apply("add", apply("mul", total, size), inside) if number else inside
    stride: Extent = product(indexed)
    for axis in reversed(range(batch)):  # the batch of each tuple: its table begins at a multiple of the number of slices
        ones = apply("broadcast_to", _size(x, 1), shape=(lead[axis],))
        numbers = apply("cumsum", ones, axis=0, exclusive=True, reverse=False)
        apart = apply("reshape", numbers, shape=(lead[axis], *(1,) * (len(lead) - 1 - axis)))
        total = apply("add", total, apply("mul", apart, _size(x, stride)))
        stride = stride * lead[axis]
    table = apply("reshape", x, shape=(product(x.shape[: batch + depth]), *rest))
    return apply("gather", table, total, axis=0)


def _size(x: SymbolLike, extent: Extent) -> SymbolLike:
    result: SymbolLike = x.graph.dim_value(extent)
    return result


def searchsorted(symbol: SymbolLike, within: SymbolLike, values: SymbolLike) -> SymbolLike:
    """Search as often as the number of elements has bits. If that is known at launch only, there is a search for each of some
    numbers of bits, all but one of which have no values to search then: an empty vector is never read.
    """
    (extent,) = within.shape
    if extent == 0:
        return apply("broadcast_to", _size(within, 0), shape=symbol.shape)
    side = symbol.attrs["side"]
    if isinstance(extent, int):
        return _searched_bits(within, values, side, extent.bit_length())
    rows = values if values.shape else apply("reshape", values, shape=(1,))
    count, *rest = rows.shape
    ends = [count * positive_part(1 - extent // (1 << bits)) for bits in (0, *_TIERS)]  # all values, or none
    parts = [apply("broadcast_to", _size(within, 0), shape=(ends[0], *rest))]
    for start, end, bits in zip(ends, (*ends[1:], count), (*_TIERS, _MAX_SORTED.bit_length()), strict=True):
        parts.append(_searched_bits(within, _rows(rows, start, end), side, bits))
    return apply("reshape", apply("concat", *parts, axis=0), shape=symbol.shape)


_TIERS = (12, 20)
"""Bits of sizes for which there are searches of their own, where sizes are known at launch only."""


def _rows(x: SymbolLike, start: Extent, stop: Extent) -> SymbolLike:
    """Return some of the first axis."""
    rest = x.shape[1:]
    return apply("slice", x, starts=(start, *(0,) * len(rest)), stops=(stop, *rest), steps=(1,) * (len(rest) + 1))


def _searched_bits(within: SymbolLike, values: SymbolLike, side: str, bits: int) -> SymbolLike:
    """Find each position bit by bit, from the upper one: how many elements are known to come before the value."""
    (extent,) = within.shape
    dtype = within.dtype
    size = _size(within, extent)
    is_nan = apply("is_nan", values) if dtype.is_float else None
    before = apply("broadcast_to", _size(within, 0), shape=values.shape)
    for bit in reversed(range(bits)):
        reached = apply("add", before, 1 << bit)
        element = apply("gather", within, apply("sub", reached, 1), axis=0)
        precedes = apply("less" if side == "left" else "less_equal", element, values)
        if is_nan is not None:  # NaN comes last, and equals NaN
            beyond = apply("logical_and", is_nan, apply("less_equal", element, math.inf)) if side == "left" else is_nan
            precedes = apply("logical_or", precedes, beyond)
        precedes = apply("logical_and", precedes, apply("less_equal", reached, size))
        before = apply("where", precedes, reached, before)
    return before


ROWS = (
    OpDef("gather_nd", "composite", 2, "Slices of x at tuples of positions, the last axis of the indices: one for each axis "
          "after the first `batch_dims`, which x and indices share. Negative positions count from the end, others are clamped "
          "into range.", INDEXED, _gather_shape, attrs=("batch_dims",), expand=gather_nd, traits=frozenset(("any_dtype",)),
          onnx=("GatherND", 13), cost=4),
    OpDef("searchsorted", "composite", 2, "For each value the number of elements of a sorted vector that come before it; "
          "`side` \"right\" counts equal ones as well. As numpy.searchsorted: NaN comes last.", SEARCHED, _search_shape,
          attrs=("side",), expand=searchsorted),
)  # fmt: skip
