"""Handles searches in sorted values, and counts of values in intervals."""

from __future__ import annotations

from .....promotion.dtype import bool_, float32, float64, int32, int64
from ....construction import primitives
from ....dims.dim import Dim, Extent, product
from ....functions import reductions
from ....functions.building import apply
from ....functions.host import data_sized
from ....functions.joining import concat
from ....functions.ordered import searching
from ....functions.positions import counting
from ....functions.triangles import spaced
from ....symbol import Symbol
from ...node import Node, Number, Operand
from ...program import decided
from ...registry import handles
from ..creation import spaced_constant
from ..elementwise import is_true
from ..indexing import new_sizes
from ..ordering import along
from ..shaping import cut


@handles("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(
    node: Node, sorted_sequence: Symbol, values: Symbol | Number, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Symbol | None = None,
) -> Symbol:  # fmt: skip
    """Return where values would be inserted in rows of sorted ones, before equal ones or (right) behind them."""
    if sorter is not None:
        sorted_sequence = along(sorted_sequence, sorter, len(sorted_sequence.shape) - 1)
    return _searched(node, sorted_sequence, values, right or side == "right")


@handles("bucketize.Tensor", "bucketize.Scalar")
def bucketize(
    node: Node, values: Symbol | Number, boundaries: Symbol, out_int32: bool = False, right: bool = False
) -> Symbol:
    """Return the intervals between sorted boundaries that values are in."""
    return _searched(node, boundaries, values, right)


def _searched(node: Node, within: Symbol, values: Symbol | Number, right: bool) -> Symbol:
    dtype = node.common(within, values)
    sought = node.broadcast(node.operand(values, dtype)) if not isinstance(values, Symbol) else node.operand(values, dtype)
    within = node.operand(within, dtype)
    size = within.shape[-1]
    if 0 in node.shape or size == 0:
        return node.broadcast(node.number(0, node.dtype))
    if len(within.shape) == 1 and dtype is not bool_:
        found = searching.searchsorted(within, sought, "right" if right else "left")
        if dtype.is_float:  # PyTorch puts NaN behind everything
            found = apply("where", apply("is_nan", sought), node.operand(size, int64), found)
    else:
        found = _halved(node, within, sought, right)
    return node.shaped(found.cast(node.dtype))


def _halved(node: Node, within: Symbol, sought: Symbol, right: bool) -> Symbol:
    """Search each row by halves: after as many steps as the size has bits, one position is left."""
    (size,) = node.static((within.shape[-1],), "rows that are searched")
    within, sought = (each.cast(int32) if each.dtype is bool_ else each for each in (within, sought))
    low = node.broadcast(node.number(0, int64), sought.shape)
    high = node.broadcast(node.number(size, int64), sought.shape)
    last = node.number(size - 1, int64)
    for _ in range(size.bit_length()):
        middle = apply("shift_right", apply("add", low, high), node.number(1, int64))
        found = along(within, apply("minimum", middle, last), len(within.shape) - 1)
        is_beyond = apply("greater" if right else "greater_equal", found, sought)
        is_open = apply("less", low, high)
        low = apply("where", apply("logical_and", is_open, apply("logical_not", is_beyond)),
                    apply("add", middle, node.number(1, int64)), low)  # fmt: skip
        high = apply("where", apply("logical_and", is_open, is_beyond), middle, high)
    return low


@handles("isin.Tensor_Tensor", "isin.Tensor_Scalar", "isin.Scalar_Tensor")
def isin(
    node: Node, elements: Operand, test_elements: Operand, assume_unique: bool = False, invert: bool = False
) -> Symbol:
    """Tell which elements are among others."""
    sought, among = node.operands(elements, test_elements)
    wide = primitives.reshape(node.broadcast(sought), (*node.shape, 1))
    flat = primitives.reshape(among, (*(1,) * len(node.shape), product(among.shape)))
    found = reductions.any_(apply("equal", wide, flat), len(node.shape))
    return apply("logical_not", found) if invert else found


# -- counts ------------------------------------------------------------------------------------------------------------


@handles("bincount.default")
def bincount(node: Node, x: Symbol, weights: Symbol | None = None, minlength: Extent = 0) -> Symbol:
    """Count how often each number occurs, or add its weights; data decides how many numbers there are."""
    (size,) = node.shape
    if not isinstance(size, Dim):
        node.require(x.shape == (0,), f"exactly {size} counts", "export it with sizes that data decides")
        return node.broadcast(node.number(0, node.dtype))
    (name,) = new_sizes(node, x)
    wide = x.cast(int64)
    padded = apply("pad", wide, low=(0,), high=(1,), mode="constant", value=-1)
    least = apply("maximum", apply("add", reductions.max_(padded), node.number(1, int64)), node.operand(minlength, int64))
    data_sized.host("empty_rows", least, sizes=(name,))
    return searching.bincount(wide, None if weights is None else weights.cast(node.dtype), length=name).cast(node.dtype)


@handles("histc.default")
def histc(node: Node, x: Symbol, bins: int = 100, min: Number = 0, max: Number = 0) -> Symbol:  # noqa: A002 - ATen's names
    """Count the elements in equal intervals, from the least to the largest element if no limits are given."""
    flat = primitives.reshape(x, (product(x.shape),))
    wide = flat.cast(float32) if x.dtype.is_float and x.dtype.bits == 16 else flat
    wide = wide.cast(float64) if not x.dtype.is_float else wide
    if x.shape and 0 in x.shape:
        return node.broadcast(node.number(0, node.dtype))
    if min == max:
        low, high = reductions.min_(wide), reductions.max_(wide)
        if min != 0:
            low = high = node.number(min, wide.dtype)
    else:
        low, high = node.number(min, wide.dtype), node.number(max, wide.dtype)
    is_point = apply("equal", low, high)
    half = apply("where", is_point, node.number(1, wide.dtype), node.number(0, wide.dtype))
    low, high = apply("sub", low, half), apply("add", high, half)
    return _counted(node, wide, low, high, bins, None).cast(node.dtype)


def _counted(
    node: Node, x: Symbol, low: Symbol, high: Symbol, bins: int, edges: Symbol | None, weights: Symbol | None = None
) -> Symbol:
    """Count in equal intervals, the last of which contains its upper edge. edges: which decide where rounding would."""
    count, last = node.number(bins, x.dtype), node.number(bins - 1, int64)
    share = apply("div", apply("mul", apply("sub", x, low), count), apply("sub", high, low))
    holds = apply("logical_and", apply("greater_equal", x, low), apply("less_equal", x, high))
    safe = apply("where", holds, share, node.number(0, x.dtype))
    at = apply("minimum", apply("trunc", safe).cast(int64), last)
    if edges is not None:
        at = apply("maximum", at, node.number(0, int64))
        below = apply("less", x, apply("gather", edges, at, axis=0))
        after = apply("minimum", apply("add", at, node.number(1, int64)), node.number(bins, int64))
        beyond = apply("greater_equal", x, apply("gather", edges, after, axis=0))
        down = apply("maximum", apply("sub", at, node.number(1, int64)), node.number(0, int64))
        at = apply("where", below, down, apply("where", beyond, apply("minimum", after, last), at))
    added = node.broadcast(node.number(1, int64), x.shape) if weights is None else weights
    nothing = node.broadcast(node.number(0, added.dtype), (bins,))
    kept = apply("where", holds, at, node.number(1 << 62, int64))  # a scatter drops what is out of range
    return apply("scatter", nothing, kept, added, axis=0, reduction="add")


@handles("histogram.bin_ct", "histogram.bins_tensor")
def histogram(
    node: Node, x: Symbol, bins: int | Symbol = 100, range: tuple[float, float] | None = None,  # noqa: A002 - ATen's name
    weight: Symbol | None = None, density: bool = False,
) -> tuple[Symbol, Symbol]:  # fmt: skip
    """Count the elements in intervals, or add their weights, and return the edges too."""
    size = product(x.shape)
    flat = primitives.reshape(x, (size,))
    weights = None if weight is None else primitives.reshape(weight, (size,))
    if isinstance(bins, Symbol):
        edges, count = bins, bins.shape[0] - 1
        at = searching.searchsorted(edges, flat, "right")
        at = apply("where", apply("equal", flat, edges[-1]), node.operand(count, int64), at)
        holds = apply("logical_and", apply("greater_equal", flat, edges[0]), apply("less_equal", flat, edges[-1]))
        kept = apply("where", holds, apply("sub", at, node.number(1, int64)), node.number(1 << 62, int64))
        added = node.broadcast(node.number(1, x.dtype), flat.shape) if weights is None else weights
        nothing = node.broadcast(node.number(0, x.dtype), (count,))
        counts = apply("scatter", nothing, kept, added, axis=0, reduction="add")
    else:
        low, high, edges = _limits(node, flat, range, bins)
        counts = _counted(node, flat, low, high, bins, edges, weights).cast(x.dtype)
    if density:
        widths = apply("sub", edges[1:], edges[:-1])
        counts = apply("div", apply("div", counts, reductions.sum_(counts)), widths)
    return counts, edges


def _limits(node: Node, x: Symbol, given: tuple[float, float] | None, bins: int) -> tuple[Symbol, Symbol, Symbol]:
    """Return the outer edges of equal intervals, and all of them."""
    if given is None and x.shape[0] != 0:
        first, last = reductions.min_(x), reductions.max_(x)
        half = apply("where", apply("equal", first, last), node.number(0.5, x.dtype), node.number(0.0, x.dtype))
        first, last = apply("sub", first, half), apply("add", last, half)
        return first, last, spaced(first, last, bins + 1)
    low, high = given or (0.0, 1.0)
    low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
    return node.number(low, x.dtype), node.number(high, x.dtype), spaced_constant(node, low, high, bins + 1, x.dtype)


# -- sizes that data decides ----------------------------------------------------------------------------------------------


@handles("unique_consecutive.default")
def unique_consecutive(
    node: Node, x: Symbol, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Symbol, Symbol, Symbol]:
    """Return elements that differ from the one before, which of them each one is, and how often it stands there in a row."""
    values = primitives.reshape(x, (product(x.shape),)) if dim is None else x
    axis = 0 if dim is None else node.axis(dim, len(x.shape))
    extent = values.shape[axis]
    names = new_sizes(node, x)
    node.require(len(names) == 1, "a number of distinct elements that is known beforehand", "leave it out for no elements")
    rest = tuple([a for a in range(len(values.shape)) if a != axis])
    differs = apply("not_equal", cut(values, axis, 1, extent), cut(values, axis, 0, extent - 1))
    changes = reductions.any_(differs, rest) if rest else differs
    begins = apply("pad", changes, low=(1,), high=(0,), mode="constant", value=True)
    starts = data_sized.host("nonzero", begins, sizes=(names[0],))[0]
    found = apply("gather", values, starts, axis=axis)
    inverse, counts = (node.broadcast(node.number(0, int64), node.result(at).shape) for at in (1, 2))
    if return_inverse:
        inverse = apply("sub", reductions.cumsum(begins.cast(int64), 0), node.number(1, int64))
        inverse = node.shaped(inverse, node.result(1).shape)
    if return_counts:
        ends = apply("concat", starts, primitives.reshape(node.operand(extent, int64), (1,)), axis=0)
        counts = apply("sub", cut(ends, 0, 1, names[0] + 1), starts)
    return found, inverse, counts


@handles("repeat_interleave.Tensor")
def repeat_interleave(node: Node, repeats: Symbol, output_size: Extent | None = None) -> Symbol:
    """Return each position as often as a vector says; data decides how many there are, unless the model says it."""
    (size,) = node.shape
    ends = reductions.cumsum(repeats.cast(int64), 0)
    if isinstance(size, Dim) and decided(size):
        total = reductions.sum_(repeats.cast(int64), None)
        data_sized.host("empty_rows", total, sizes=(size,))
    if 0 in (size, repeats.shape[0]):
        return node.broadcast(node.number(0, node.dtype))
    return searching.searchsorted(ends, counting(node.graph, size), "right").cast(node.dtype)


@handles("nonzero_static.default")
def nonzero_static(node: Node, x: Symbol, size: Extent, fill_value: int = -1) -> Symbol:
    """Return the positions of what is not zero, one row each: the first `size`, or fewer and numbers in place of the others."""
    if 0 in node.shape:
        return node.broadcast(node.number(0, int64))
    total = product(x.shape)
    flat = primitives.reshape(is_true(x), (total,))
    row = apply("sub", reductions.cumsum(flat.cast(int64), 0), node.number(1, int64))
    row = apply("where", flat, row, node.number(1 << 62, int64))  # a scatter drops what is out of range
    columns = []
    at = counting(node.graph, total)
    for axis, extent in enumerate(x.shape):
        column = apply("floor_div", at, node.operand(product(x.shape[axis + 1 :]), int64))
        column = apply("mod", column, node.operand(extent, int64))
        start = node.broadcast(node.number(fill_value, int64), (size,))
        columns.append(primitives.reshape(apply("scatter", start, row, column, axis=0, reduction="none"), (size, 1)))
    return concat(columns, 1)
