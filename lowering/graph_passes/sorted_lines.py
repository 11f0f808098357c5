"""Sorts lines that a program holds whole: keys that are the elements themselves, or that are packed with positions.

A key of 32 bits and the position of its element make one integer of 64, as those of which `sort_keys` makes rows.

Keys of elements have as many bits as these, and are elements again when they are in order. Of floats the order is that of the
integers that their bits are, with the magnitude of negative ones mirrored. Zeros of both signs are equal and keep their order,
so their keys hold positions, in the integers that keys of NaN leave free: there is one NaN, and float32 has 2^24 - 2.

     negative floats       zeros                               positive floats  NaN
    ─────────────────┼──────────────────────────┼─────────────┼────────────────┼──────► key
     mirrored - SPARE  -SPARE - 1 + 2 position + sign  up to 0  their bits
"""

from __future__ import annotations

from ...graph.dims.dim import Dim, Extent, positive_part
from ...graph.ops.building import apply, cast
from ...graph.ops.expansions import as_ordered, counting, first_in_blocks, first_sorted, one_by_one
from ...graph.protocols import SymbolLike
from ...graph.symbol import Symbol
from ...graph.types import MAX_RANK
from ...promotion.dtype import DType, float32, float64, int32, int64
from ..target import MAX_SORTED_BYTES
from ..tt.types import MAX_BLOCK_ELEMENTS

_POSITION = (1 << 32) - 1
"""The bits of a packed key that are the position."""
_SPARE = {int32: (1 << 23) - 1, int64: (1 << 52) - 1}
"""Integers of so many bits below that of -infinity, which are mirrored NaN."""
_FEW = _SPARE[int32] // 2
"""The most elements of a line whose positions keys of 32 bits have room for."""
_LONG_FOR_ONE = {int32: 3072, int64: 512}
"""Lines that have so many keys over the number of those that are wanted are cut into blocks to find these."""
_SHORT = 128
"""Shorter lines are not cut: a sort of one takes as long as the kernels for its blocks."""
_SELECTED = {int32: 8, int64: 5}
"""Up to so many keys are found one after the other, more of them by sorting."""
_NAN = {int32: 0x7FC00000, int64: 0x7FF8000000000000}


def is_sorted_whole(symbol: Symbol, most_bytes: int) -> bool:
    """Returns whether a program may hold the lines that a symbol puts in order, which are `most_bytes` at most."""
    if symbol.op.name not in ("sort", "sorted_positions", "least_positions"):
        return False
    extent = symbol.inputs[0].shape[symbol.attrs["axis"]]
    if not isinstance(extent, int) or not 1 <= extent <= MAX_BLOCK_ELEMENTS:
        return False
    if symbol.op.name == "sort" and symbol.dtype.name == "tensor_float32":  # elements may have bits that a cast takes away
        return False
    if symbol.op.name == "least_positions" and most_bytes > 0 and _has_blocks(symbol.inputs[0], symbol.attrs["k"]):
        return True
    if symbol.op.name == "least_positions":  # few of a long line are chosen otherwise
        most_bytes = min(most_bytes, MAX_SORTED_BYTES)
    return _bytes_of(symbol, extent) <= most_bytes and 2 * extent <= _SPARE[int32]


def _has_blocks(keys: SymbolLike, k: int) -> bool:
    """Whether the `k` least keys of lines are found by blocks."""
    extent = keys.shape[-1]
    return isinstance(extent, int) and extent >= max(_SHORT, 8 * k, _LONG_FOR_ONE[keys.dtype] // k)


def _least_positions(keys: SymbolLike, k: int) -> SymbolLike:
    """Returns the positions of the `k` least keys of lines, in order."""
    if _has_blocks(keys, k):
        return first_in_blocks(keys, k, 2)
    return one_by_one(keys, k) if k <= _SELECTED[keys.dtype] else first_sorted(keys, k)


def _bytes_of(symbol: Symbol, extent: int) -> int:
    """Returns the bytes of a block that has a line of so many keys."""
    size: int = 4 if symbol.op.name == "sort" and symbol.dtype.bits < 64 else 8
    return size << (extent - 1).bit_length()


def sorted_whole(symbol: Symbol, x: SymbolLike) -> SymbolLike:
    """Returns the elements of `x` in order, or the positions that put keys in order, as `symbol` says.

    Lines that are sorted in memory lie there as one piece, so the axis becomes the last one.
    """
    axis, last = symbol.attrs["axis"], len(x.shape) - 1
    extent = x.shape[axis]
    assert isinstance(extent, int)
    if axis < last and _bytes_of(symbol, extent) > MAX_SORTED_BYTES:
        order = tuple([last if d == axis else axis if d == last else d for d in range(last + 1)])
        found = _sorted_along(symbol, apply("permute", x, axes=order), last, "sort_block")
        return apply("permute", found, axes=order)
    return _sorted_along(symbol, x, axis, "sort_block")


def is_sorted_in_memory(symbol: Symbol, most_bytes: int) -> bool:
    """Returns whether lines that a symbol puts in order, of a length that is known at launch or is too large for a block, are
    sorted where they lie. most_bytes: as for `is_sorted_whole`, more than scratch has where processors partition lines."""
    if symbol.op.name not in ("sort", "sorted_positions", "least_positions") or most_bytes <= MAX_SORTED_BYTES:
        return False
    if symbol.op.name == "sort" and symbol.dtype.name == "tensor_float32":
        return False
    extent = symbol.inputs[0].shape[symbol.attrs["axis"]]
    return isinstance(extent, Dim) or (symbol.op.name != "least_positions" and extent > MAX_BLOCK_ELEMENTS)


def sorted_in_memory(symbol: Symbol, x: SymbolLike) -> SymbolLike:
    """Returns what `sorted_whole` does, of lines that are sorted where they lie, along the last axis.

    Keys of 32 bits have room for the positions of zeros in lines of up to `_FEW` elements. Where nobody knows whether there are
    more, there are two sorts, one of which has nothing to do when it runs.
    """
    axis, last = symbol.attrs["axis"], len(x.shape) - 1
    order = tuple([last if d == axis else axis if d == last else d for d in range(last + 1)])
    lines = apply("permute", x, axes=order) if axis < last else x
    extent = lines.shape[last]
    if symbol.op.name == "sort" and as_ordered(x).dtype is float32 and not _is_few(extent):
        all_ = positive_part(1 - extent // (_FEW + 1))  # or none
        # where there is no room for one more axis, the first two become one
        outer = lines.shape[:-1] if last + 1 < MAX_RANK else (lines.shape[0] * lines.shape[1], *lines.shape[2:-1])
        sides = apply("reshape", lines, shape=(1, *outer, extent))
        parts = [_sorted_along(symbol, _slice(sides, 0, all_), len(outer) + 1, "sort_lines"),
                 _sorted_along(symbol, _slice(sides, all_, 1), len(outer) + 1, "sort_lines", float64)]
        found = apply("reshape", apply("concat", *parts, axis=0), shape=lines.shape)
    else:
        found = _sorted_along(symbol, lines, last, "sort_lines")
    return apply("permute", found, axes=order) if axis < last else found


def _is_few(extent: Extent) -> bool:
    return isinstance(extent, int) and extent <= _FEW


def _slice(x: SymbolLike, start: Extent, stop: Extent) -> SymbolLike:
    """Returns some elements along the first axis."""
    rank = len(x.shape)
    return apply("slice", x, starts=(start, *(0,) * (rank - 1)), stops=(stop, *x.shape[1:]), steps=(1,) * rank)


def _sorted_along(symbol: Symbol, x: SymbolLike, axis: int, name: str, wide: DType | None = None) -> SymbolLike:
    """Returns what is found by sorting along an axis. name: of the op that does; wide: what elements are made to be sorted."""
    if symbol.op.name == "least_positions":
        return _least_positions(x, symbol.attrs["k"])
    if symbol.op.name == "sorted_positions":
        packed = apply("add", apply("mul", cast(x, int64), 1 << 32), counting(x, x.shape[axis]))
        return apply("bitwise_and", apply(name, packed, axis=axis), _POSITION)
    descending = symbol.attrs["descending"]
    elements = as_ordered(x) if wide is None else cast(x, wide)
    key = _key(elements, axis, descending) if x.dtype.is_float else elements
    key = apply("bitwise_not", key) if descending else key
    key = apply(name, key, axis=axis)
    key = apply("bitwise_not", key) if descending else key
    if not x.dtype.is_float:
        return _integer(key, x.dtype)
    found = _float(key)  # with what x had, so nothing is rounded, and infinity stays
    return found if found.dtype is x.dtype else apply("cast", found, dtype=x.dtype, rounding="nearest", saturate=False)


def _key(x: SymbolLike, axis: int, descending: bool) -> SymbolLike:
    """Returns the keys of float32 or float64. descending: they will be put in descending order."""
    whole = int32 if x.dtype is float32 else int64
    extent, least = x.shape[axis], int(whole.max_value)
    bits = apply("bitcast", x, dtype=whole)
    position = counting(x, extent)
    last = x.graph.dim_value(extent - 1) if isinstance(extent, Dim) else extent - 1
    position = apply("sub", last, position) if descending else position  # what is equal keeps its order
    first = apply("add", apply("mul", cast(position, whole), 2), -_SPARE[whole] - 1)
    rank = len(x.shape)
    first = apply("reshape", first, shape=tuple([extent if a == axis else 1 for a in range(rank)]))
    zero = apply("where", apply("less", bits, 0), apply("add", first, 1), first)
    mirrored = apply("sub", apply("bitwise_xor", bits, least), _SPARE[whole])
    below = apply("where", apply("equal", x, 0.0), zero, mirrored)
    return apply("where", apply("is_nan", x), _NAN[whole], apply("where", apply("greater", bits, 0), bits, below))


def _float(key: SymbolLike) -> SymbolLike:
    """Returns the floats that keys are of."""
    spare, whole = _SPARE[key.dtype], key.dtype
    zero = apply("shift_left", apply("add", key, spare + 1), whole.bits - 1)
    mirrored = apply("bitwise_xor", apply("add", key, spare), int(whole.max_value))
    below = apply("where", apply("less", key, -spare - 1), mirrored, zero)
    bits = apply("where", apply("greater", key, 0), key, below)
    return apply("bitcast", bits, dtype=float32 if whole is int32 else float64)


def _integer(key: SymbolLike, dtype: DType) -> SymbolLike:
    """Returns the integers that keys of `as_ordered` are of."""
    if dtype.kind == "uint" and dtype.bits >= 32:
        return apply("bitcast", apply("bitwise_xor", key, int(key.dtype.min_value)), dtype=dtype)
    return cast(key, dtype)
