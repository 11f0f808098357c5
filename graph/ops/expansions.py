"""Defines composites by primitive ops.

`expand(symbol, *operands)` builds the value of the composite `symbol` from `operands` (its inputs, or their
counterparts in another graph) on the operands' graph. Numerics: the work is done in `accumulator(dtype)`,
that is float32 for 16-bit floats and tensor_float32, and rounded once at the end; softmax and logsumexp
subtract the maximum; variances take two passes.
"""

from __future__ import annotations

import math

from ...promotion.dtype import float32, float64, int32, int64
from ..dims.dim import Extent, maximum, product
from ..protocols import SymbolLike
from .building import apply as _apply
from .building import cast as _cast
from .opdef import accumulator


def _reduce(name: str, x: SymbolLike, axes: tuple[int, ...], keepdims: bool = True) -> SymbolLike:
    return _apply(name, x, axes=axes, keepdims=keepdims) if axes else x


def _count(x: SymbolLike, axes: tuple[int, ...], correction: int | float = 0) -> float | SymbolLike:
    """Return the number of elements over `axes` less `correction`, at least 0, as a divisor for `x`."""
    extent: Extent = product(x.shape[axis] for axis in axes)
    if isinstance(extent, int):
        return float(max(extent - correction, 0))
    if isinstance(correction, int):
        return _cast(_apply_source(x, maximum(extent - correction, 0)), x.dtype)
    count = _cast(_apply_source(x, extent), x.dtype)
    return _apply("maximum", _apply("sub", count, float(correction)), 0.0)


def _apply_source(x: SymbolLike, extent: Extent) -> SymbolLike:
    result: SymbolLike = x.graph.dim_value(extent)
    return result


def _mean(x: SymbolLike, axes: tuple[int, ...], keepdims: bool) -> SymbolLike:
    return _apply("div", _reduce("reduce_sum", x, axes, keepdims), _count(x, axes))


def softmax(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    x = _cast(x, accumulator(symbol.dtype))
    axes = (symbol.attrs["axis"],)
    powers = _apply("exp_shifted", x, _reduce("reduce_max", x, axes))
    return _cast(_apply("div_approximate", powers, _reduce("reduce_sum", powers, axes)), symbol.dtype)


def logsoftmax(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    """Compute x - max - log(count of max + sum of the others' weights), whose two terms have one sign.

    log1p keeps the weights of the others where the largest element stands alone.
    """
    x = _cast(x, accumulator(symbol.dtype))
    axes = (symbol.attrs["axis"],)
    top = _reduce("reduce_max", x, axes)
    scale = _apply("div", 1.0, _apply("exp_shifted", top, top))
    weights = _apply("exp_shifted_unchecked", x, top)
    others = _reduce("reduce_sum", _apply("where_below", weights, x, top), axes)
    count = _reduce("reduce_sum", _apply("one_unless_below", x, top), axes)
    beyond_one = _apply("add", _apply("mul", others, scale), _apply("sub", count, 1.0))
    return _cast(_apply("sub", _apply("sub", x, top), _apply("log1p", beyond_one)), symbol.dtype)


def logsumexp(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    """Compute log(sum(exp(x - max))) + max.

    An infinite or NaN maximum is not subtracted: exp and log then give -inf, inf and NaN by themselves.
    """
    x = _cast(x, accumulator(symbol.dtype))
    axes = symbol.attrs["axes"]
    largest = _reduce("reduce_max", x, axes)
    finite = _apply("less", _apply("abs", largest), math.inf)
    shift = _apply("where", finite, largest, 0.0)
    total = _reduce("reduce_sum", _apply("exp", _apply("sub", x, shift)), axes)
    result = _cast(_apply("add", _apply("log", total), shift), symbol.dtype)
    return result if symbol.attrs["keepdims"] else _apply("reshape", result, shape=symbol.shape)


def mean(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    x = _cast(x, accumulator(symbol.dtype))
    return _cast(_mean(x, symbol.attrs["axes"], symbol.attrs["keepdims"]), symbol.dtype)


def var(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    x = _cast(x, accumulator(symbol.dtype))
    axes = symbol.attrs["axes"]
    centred = _apply("sub", x, _mean(x, axes, True))
    total = _reduce("reduce_sum", _apply("mul", centred, centred), axes, symbol.attrs["keepdims"])
    return _cast(_apply("div", total, _count(x, axes, symbol.attrs["correction"])), symbol.dtype)


_GELU = {"none": "x_phi", "tanh": "x_sigmoid_tanh", "quick": "x_sigmoid_quick"}


def gelu(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    x = _cast(x, accumulator(symbol.dtype))
    return _cast(_apply(_GELU[symbol.attrs["approximate"]], x), symbol.dtype)


def silu(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    return _cast(_apply("x_sigmoid", _cast(x, accumulator(symbol.dtype))), symbol.dtype)


def layer_norm(symbol: SymbolLike, x: SymbolLike, *vectors: SymbolLike) -> SymbolLike:
    work = accumulator(symbol.dtype)
    x = _cast(x, work)
    axes = (len(x.shape) - 1,)
    centred = _apply("sub", x, _mean(x, axes, True))
    variance = _mean(_apply("mul", centred, centred), axes, True)
    result = _apply("mul", centred, _apply("rsqrt", _apply("add", variance, float(symbol.attrs["epsilon"]))))
    remaining = list(vectors)
    if symbol.attrs["has_scale"]:
        result = _apply("mul", result, _cast(remaining.pop(0), work))
    if symbol.attrs["has_bias"]:
        result = _apply("add", result, _cast(remaining.pop(0), work))
    return _cast(result, symbol.dtype)


def rms_norm(symbol: SymbolLike, x: SymbolLike, *vectors: SymbolLike) -> SymbolLike:
    work = accumulator(symbol.dtype)
    x = _cast(x, work)
    square = _mean(_apply("mul", x, x), (len(x.shape) - 1,), True)
    result = _apply("mul", x, _apply("rsqrt", _apply("add", square, float(symbol.attrs["epsilon"]))))
    if symbol.attrs["has_scale"]:
        result = _apply("mul", result, _cast(vectors[0], work))
    return _cast(result, symbol.dtype)


# -- order -------------------------------------------------------------------------------------------------------------

SELECTED = 8
"""Up to so many largest or smallest elements are found one after the other, each by a reduction; more of them by sorting."""
_LONG = 2048
"""Lines of so many elements are cut into blocks first."""


def argsort(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    """Sort by keys of 32 bits that carry positions: once, or of 64-bit values by the lower and then by the upper half.

    The second sort is stable, so it keeps the order of the first one among equal upper halves.
    """
    return _in_order(x, symbol.attrs["axis"], symbol.attrs["descending"])


def sort(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    """Take the elements at positions that put them in order."""
    axis = symbol.attrs["axis"]
    return _apply("take_along_axis", x, _in_order(x, axis, symbol.attrs["descending"]), axis=axis)


def _in_order(x: SymbolLike, axis: int, descending: bool) -> SymbolLike:
    return _from_last(_order_of(_order_keys(_last(x, axis), descending)), axis)


def _order_of(keys: SymbolLike) -> SymbolLike:
    """Return the positions that put int32 or int64 keys in order along the last axis, equal ones as they come."""
    if keys.dtype is int32:
        return _sorted_positions(keys)
    along = len(keys.shape) - 1
    lower = _apply("sub", _apply("bitwise_and", keys, (1 << 32) - 1), 1 << 31)
    order = _sorted_positions(_cast(lower, int32))
    upper = _cast(_apply("shift_right", keys, 32), int32)
    ranks = _sorted_positions(_apply("take_along_axis", upper, order, axis=along))
    return _apply("take_along_axis", order, ranks, axis=along)


def top_positions(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    """Find the positions of the least keys."""
    axis, k, largest = symbol.attrs["axis"], symbol.attrs["k"], symbol.attrs["largest"]
    keys = _order_keys(_last(x, axis), largest)
    return _from_last(_first_positions(keys, k) if k > 0 else _first(_order_of(keys), 0), axis)


def _first(rows: SymbolLike, k: int) -> SymbolLike:
    """Return the first `k` elements along the last axis."""
    rank = len(rows.shape)
    return _apply("slice", rows, starts=(0,) * rank, stops=(*rows.shape[:-1], k), steps=(1,) * rank)


def _first_positions(keys: SymbolLike, k: int) -> SymbolLike:
    """Return the positions of the `k` least keys of lines, in order: of long lines by blocks."""
    extent, along = keys.shape[-1], len(keys.shape) - 1
    if keys.dtype is int64 and k == 1:
        return _apply("argmin", keys, axes=(along,), keepdims=True)
    if isinstance(extent, int) and extent >= max(_LONG, 32 * k):
        return first_in_blocks(keys, k, 16)
    if k == 1 or (k <= SELECTED and not isinstance(extent, int)):
        return one_by_one(keys, k)
    return _apply("least_positions", keys, axis=along, k=k)


def one_by_one(keys: SymbolLike, k: int) -> SymbolLike:
    """Find least keys one after the other: int32 keys in numbers that carry positions, so that all differ from each other."""
    extent, along = keys.shape[-1], (len(keys.shape) - 1,)
    numbers = counting(keys, extent)

    def least(values: SymbolLike) -> SymbolLike:
        return _apply("reduce_min", values, axes=along, keepdims=True)

    largest = int(int64.max_value)
    if keys.dtype is int32:
        packed = _apply("add", _apply("mul", _cast(keys, int64), 1 << 32), numbers)
        found = [least(packed)]
        while len(found) < k:  # the next one is the least of those that are larger
            found.append(least(_apply("where", _apply("greater", packed, found[-1]), packed, largest)))
    else:
        key = least(keys)
        found = [least(_apply("where", _apply("equal", keys, key), numbers, largest))]
        while len(found) < k:  # an equal one at a higher position, or the least of the larger ones
            is_equal = _apply("bitwise_and", _apply("equal", keys, key), _apply("greater", numbers, found[-1]))
            is_left = _apply("bitwise_or", _apply("greater", keys, key), is_equal)
            key = least(_apply("where", is_left, keys, largest))
            found.append(least(_apply("where", _apply("bitwise_and", is_left, _apply("equal", keys, key)), numbers, largest)))
    rows = found[0] if k == 1 else _apply("concat", *found, axis=along[0])
    return _apply("bitwise_and", rows, (1 << 32) - 1) if keys.dtype is int32 else rows


def least_positions(symbol: SymbolLike, keys: SymbolLike) -> SymbolLike:
    """Find a few by reductions; of others find a limit where few of the keys are wanted, and sort all of them else."""
    k, extent = symbol.attrs["k"], keys.shape[-1]
    if k <= SELECTED:
        return one_by_one(keys, k)
    is_sorted = keys.dtype is int64 or (isinstance(extent, int) and extent < 16 * k)
    return first_sorted(keys, k) if is_sorted else _chosen(keys, k)


def first_sorted(keys: SymbolLike, k: int) -> SymbolLike:
    """Return the positions of the `k` least keys of lines, in order, of all that are sorted."""
    return _first(_order_of(keys), k)


def first_in_blocks(keys: SymbolLike, k: int, least: int) -> SymbolLike:
    """Find the `k` blocks of a line whose least keys come first, and the keys in them.

    No other block has one of the first `k`: each of those blocks has a key before all of its, or an equal one at a lower
    position. Blocks keep their order, so that equal keys do, and are of such a size that there are as many as keys to look at.
    least: the fewest elements of a block, a power of two. Lines have an extent that is known, of `8 * k` elements or more.
    """
    extent, rank = keys.shape[-1], len(keys.shape)
    assert isinstance(extent, int)
    size = max(least, 1 << round(math.log2(extent / k) / 2))
    count = -(-extent // size)
    low, high = (0,) * rank, (*(0,) * (rank - 1), count * size - extent)
    padded = _apply("pad", keys, low=low, high=high, mode="constant", value=int(keys.dtype.max_value)) if high[-1] else keys
    cut = _apply("reshape", padded, shape=(*keys.shape[:-1], count, size))
    lowest = _apply("reduce_min", cut, axes=(rank,), keepdims=False)
    blocks = _first_positions(lowest, k)
    blocks = _apply("take_along_axis", blocks, _sorted_positions(_cast(blocks, int32)), axis=rank - 1)
    first = _apply("reshape", _apply("mul", blocks, size), shape=(*keys.shape[:-1], k, 1))
    positions = _apply("reshape", _apply("add", first, counting(keys, size)), shape=(*keys.shape[:-1], k * size))
    inside = _apply("take_along_axis", padded, positions, axis=rank - 1)
    return _apply("take_along_axis", positions, _first_positions(inside, k), axis=rank - 1)


def _chosen(keys: SymbolLike, k: int) -> SymbolLike:
    """Find the key that `k` others do not exceed, bit by bit, by counting; then sort those, and as many equal ones as are left.

    What is chosen is written one after the other, in the order of the positions, to a line of `k`.
    """
    last = len(keys.shape) - 1
    extent = keys.shape[last]
    wide = int32 if isinstance(extent, int) and extent < 1 << 31 else int64

    def count(mask: SymbolLike) -> SymbolLike:
        return _apply("reduce_sum", _cast(mask, wide), axes=(last,), keepdims=True)

    enough = _apply("greater_equal", count(_apply("less", keys, 0)), k)
    limit = _apply("mul", _cast(enough, int32), -(1 << 31))
    for bit in reversed(range(31)):
        upper = _apply("add", limit, 1 << bit)
        limit = _apply("where", _apply("greater_equal", count(_apply("less", keys, upper)), k), limit, upper)
    below, equal = _apply("less", keys, limit), _apply("equal", keys, limit)
    both = _apply("add", _cast(below, int64), _apply("mul", _cast(equal, int64), 1 << 32))  # two counts in one number
    before = _apply("cumsum", both, axis=last, exclusive=True, reverse=False)
    first, then = (_apply("bitwise_and", each, (1 << 32) - 1) for each in (before, _apply("shift_right", before, 32)))
    then = _apply("add", then, _cast(count(below), int64))
    slots = _apply("where", below, first, _apply("where", equal, then, k))
    shape = (*keys.shape[:-1], k)
    empty = _apply("broadcast_to", _apply_source(keys, 0), shape=shape)
    numbers = _apply("broadcast_to", counting(keys, extent), shape=keys.shape)
    chosen = _apply("scatter", empty, slots, numbers, axis=last, reduction="none")
    order = _sorted_positions(_apply("take_along_axis", keys, chosen, axis=last))
    return _apply("take_along_axis", chosen, order, axis=last)


def _order_keys(x: SymbolLike, descending: bool) -> SymbolLike:
    """Return int32 keys in whose order the elements are, or int64 ones for 64-bit values.

    Floats are ordered as the integers that their bits are, with the magnitude of negative ones mirrored; both zeros have one
    key, and NaN the largest.
    """
    key = wide = as_ordered(x)
    if x.dtype.is_float:
        plain = _apply("where", _apply("is_nan", wide), math.nan, _apply("add", wide, 0.0))
        bits = _apply("bitcast", plain, dtype=int32 if wide.dtype is float32 else int64)
        key = _apply("where", _apply("less", bits, 0), _apply("bitwise_xor", bits, int(bits.dtype.max_value)), bits)
    return _apply("bitwise_not", key) if descending else key


def as_ordered(x: SymbolLike) -> SymbolLike:
    """Return the elements as float32 or float64, or as integers of 32 or 64 bits with a sign in whose order they are."""
    dtype = x.dtype
    if dtype.is_float:
        return _cast(x, float64 if dtype is float64 else float32)
    if dtype.kind == "uint" and dtype.bits >= 32:
        signed = int64 if dtype.bits == 64 else int32
        return _apply("bitwise_xor", _apply("bitcast", x, dtype=signed), int(signed.min_value))
    return _cast(x, int64 if dtype.bits == 64 else int32)


def _sorted_positions(keys: SymbolLike) -> SymbolLike:
    """Return the positions that put int32 keys in order along the last axis, equal ones as they come."""
    return _apply("sorted_positions", keys, axis=len(keys.shape) - 1)


def sorted_positions(symbol: SymbolLike, keys: SymbolLike) -> SymbolLike:
    """Take the row of positions of sorted keys."""
    rows = _apply("sort_keys", keys)
    rank = len(rows.shape)
    starts, stops = tuple([int(a == rank - 2) for a in range(rank)]), (*rows.shape[:-2], 2, rows.shape[-1])
    return _apply("reshape", _apply("slice", rows, starts=starts, stops=stops, steps=(1,) * rank), shape=keys.shape)


def _last(x: SymbolLike, axis: int) -> SymbolLike:
    """Move an axis to the end."""
    order = (*[a for a in range(len(x.shape)) if a != axis], axis)
    return x if axis == len(x.shape) - 1 else _apply("permute", x, axes=order)


def _from_last(x: SymbolLike, axis: int) -> SymbolLike:
    """Move the last axis to where `axis` was before `_last`."""
    last = len(x.shape) - 1
    return x if axis == last else _apply("permute", x, axes=(*range(axis), last, *range(axis, last)))


def counting(x: SymbolLike, extent: Extent) -> SymbolLike:
    """Return 0, 1, …, extent - 1 as int64."""
    ones = _apply("broadcast_to", _apply_source(x, 1), shape=(extent,))
    return _apply("cumsum", ones, axis=0, exclusive=True, reverse=False)
