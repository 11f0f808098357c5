"""Treats views as index arithmetic: how a reshape maps dimensions, and which symbol of a chain of views to
store."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from ...graph.symbol import Symbol
from ...promotion.dtype import int8, int64, uint8
from ..nest import Extent
from .extents import contiguous_strides, is_one, is_zero
from .groups import Group

DimensionGroups = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


@lru_cache(maxsize=4096)
def reshape_groups(source: tuple[Extent, ...], target: tuple[Extent, ...]) -> DimensionGroups:
    """Splits a reshape into independent parts: pairs of (source dimensions, target dimensions) of equal size.

    Boundaries are where prefix products agree, so no symbolic size has to be compared by order. Dimensions of
    extent 1 appear in no pair. A shape with a zero is one pair: it has no elements to address.
    """
    source_dims = [d for d, extent in enumerate(source) if not is_one(extent)]
    target_dims = [d for d, extent in enumerate(target) if not is_one(extent)]
    if any(is_zero(extent) for extent in source):
        return ((tuple(source_dims), tuple(target_dims)),)
    ends: dict[Extent, int] = {}
    size: Extent = 1
    for position, dimension in enumerate(source_dims):
        size = size * source[dimension]
        ends[size] = position + 1
    groups: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    source_start = target_start = 0
    size = 1
    for position, dimension in enumerate(target_dims):
        size = size * target[dimension]
        source_end = ends.get(size)
        if source_end is not None and source_end > source_start:
            groups.append(
                (tuple(source_dims[source_start:source_end]), tuple(target_dims[target_start : position + 1]))
            )
            source_start, target_start = source_end, position + 1
    if source_start < len(source_dims) or target_start < len(target_dims):
        groups.append((tuple(source_dims[source_start:]), tuple(target_dims[target_start:])))
    return tuple(groups)


def is_counting(symbol: Symbol) -> bool:
    """Returns whether a symbol is a running sum of ones, whose elements are the positions along its axis."""
    if symbol.op.name != "cumsum" or symbol.dtype is not int64:
        return False
    operand = symbol.inputs[0]
    while operand.op.name in ("broadcast_to", "reshape"):
        operand = operand.inputs[0]
    if operand.op.name == "dim_value":
        return is_one(operand.attrs["extent"])
    return is_number(operand) and int(operand.attrs["value"].reshape(())) == 1


def is_number(symbol: Symbol) -> bool:
    """Whether a symbol is a constant of one element, with a name or without: kernels hold its value, on which code depends."""
    return symbol.op.name in ("constant", "weight") and symbol.attrs["value"].size == 1


def progression(symbol: Symbol) -> tuple[int, int] | None:
    """Returns the first number and the step of a constant of integers that differ by a step from one to the next, as positions
    do; None for other symbols."""
    if symbol.op.name != "constant" or symbol.dtype.kind not in ("int", "uint") or symbol.dtype.bits < 8:
        return None
    values = symbol.attrs["value"].reshape(-1)
    if values.size < 2:
        return None
    start, step = int(values[0]), int(values[1]) - int(values[0])
    if max(start, int(values[-1])) > int(int64.max_value):  # positions are of int64
        return None
    if step == 0 or start + step * (values.size - 1) != int(values[-1]):
        return None
    modulo = 1 << 64  # of both ends, which are known to be right, and of all between: no float is involved
    found = np.arange(values.size, dtype=np.uint64) * np.uint64(step % modulo) + np.uint64(start % modulo)
    return (start, step) if (values.astype(np.uint64) == found).all() else None


def storage_root(symbol: Symbol) -> Symbol:
    """Returns the symbol whose contiguous buffer holds `symbol`: a reshape shares the memory of its
    operand."""
    while symbol.op.name == "reshape":
        symbol = symbol.inputs[0]
    return symbol


def computed_of_joins(symbol: Symbol, in_memory: Callable[[Symbol], bool]) -> Symbol | None:
    """Returns what a symbol is a view of, if that is computed element by element of concatenated or padded tensors that are not
    in memory."""
    while symbol.op.kind == "view" and not in_memory(symbol):
        symbol = symbol.inputs[0]
    if symbol.op.kind != "map" or in_memory(symbol):
        return None
    pending, seen = list(symbol.inputs), set[int]()
    while pending:
        current = pending.pop()
        if current.id in seen or in_memory(current):
            continue
        seen.add(current.id)
        if current.op.kind == "join":
            return symbol
        pending += current.inputs if current.op.kind in ("map", "view") else ()
    return None


def is_computed(symbol: Symbol, in_memory: Callable[[Symbol], bool]) -> bool:
    """Returns whether a symbol, or what it is a view of, is computed element by element and not in memory."""
    while symbol.op.kind == "view" and not in_memory(symbol):
        symbol = symbol.inputs[0]
    return symbol.op.kind == "map" and not in_memory(symbol)


def windows_below(symbol: Symbol, in_memory: Callable[[Symbol], bool]) -> Symbol | None:
    """Returns the windows that `symbol` is a chain of views of, if that chain is not in memory."""
    while symbol.op.kind == "view" and not in_memory(symbol):
        if symbol.op.name == "windows":
            return symbol
        symbol = symbol.inputs[0]
    return None


def unsigned_codes(symbol: Symbol) -> Symbol:
    """Returns the codes in uint8 that `symbol` reads as int8 by flipping their highest bit; any other symbol as it is.

    `graph_passes/products/integer_products.py` states products of codes so.
    """
    if symbol.op.name != "bitwise_xor" or symbol.dtype is not int8:
        return symbol
    codes, flip = symbol.inputs
    value = flip.attrs["value"] if flip.op.name in ("constant", "weight") else None
    if value is None or value.size != 1 or int(value.item()) != -128:
        return symbol
    return codes.inputs[0] if codes.op.name == "bitcast" and codes.inputs[0].dtype is uint8 else symbol


def contiguous_taps(symbol: Symbol, windows: Symbol) -> Extent:
    """Returns how many elements along the last dimension of `symbol`, permuted and merged dimensions of `windows`, are
    neighbours in memory; 0 where no more than that is known of it."""
    chain = [symbol]
    while chain[-1] is not windows:
        chain.append(chain[-1].inputs[0])
    source, attrs = windows.inputs[0], windows.attrs
    strides = contiguous_strides(source.shape)
    inner = [strides[axis] * dilation for axis, dilation in zip(attrs["axes"], attrs["dilations"], strict=True)]
    outer = [
        stride * (attrs["strides"][attrs["axes"].index(axis)] if axis in attrs["axes"] else 1)
        for axis, stride in enumerate(strides)
    ]
    steps = zip(windows.shape, [*outer, *inner], strict=True)
    parts: list[tuple[tuple[Extent, Extent], ...]] = [((extent, stride),) for extent, stride in steps]
    for view in reversed(chain[:-1]):
        if view.op.name == "permute":
            parts = [parts[axis] for axis in view.attrs["axes"]]
            continue
        merged: list[tuple[tuple[Extent, Extent], ...]] = [()] * len(view.shape)
        if view.op.name != "reshape":
            return 0
        for sources, targets in reshape_groups(view.inputs[0].shape, view.shape):
            if len(targets) != 1:
                return 0
            merged[targets[0]] = tuple([part for dimension in sources for part in parts[dimension]])
        parts = merged
    run: Extent = 1
    for extent, stride in reversed(parts[-1]):
        if is_one(extent):
            continue
        if stride != run:
            break
        run = run * extent
    return run


def split_dimensions(symbol: Symbol, in_memory: Callable[[Symbol], bool]) -> frozenset[int]:
    """Returns the dimensions of `symbol` that evaluating it inline would split into several loops, as merging
    reshapes of non-contiguous values do.

    The result is conservative: it may include a dimension that in the end need not be split.
    """
    if in_memory(storage_root(symbol)) or symbol.op.kind == "source":
        return frozenset()
    name = symbol.op.name
    if symbol.op.kind == "map":
        rank = len(symbol.shape)
        found: set[int] = set()
        for operand in symbol.inputs:
            offset = rank - len(operand.shape)
            found.update(offset + d for d in split_dimensions(operand, in_memory))
        return frozenset(found)
    if not symbol.inputs:
        return frozenset()
    operand = symbol.inputs[0]
    below = split_dimensions(operand, in_memory)
    if name == "permute":
        return frozenset([position for position, axis in enumerate(symbol.attrs["axes"]) if axis in below])
    if name == "broadcast_to":
        return frozenset([d + len(symbol.shape) - len(operand.shape) for d in below])
    if name == "reshape":
        found = set()
        for source_dims, target_dims in reshape_groups(operand.shape, symbol.shape):
            if len(source_dims) > 1 or (source_dims and source_dims[0] in below):
                found.update(target_dims)
        return frozenset(found)
    return below


def storage_point(symbol: Symbol, group: Group) -> Symbol:
    """Returns the symbol of a chain of views over a member that should be stored so that `symbol` can be
    read.

    It is the earliest one from which every later view is an affine re-indexing of the buffer: storing
    attention's output permuted makes the following merge of heads free, while the split and permutation of a
    projection are left to its readers.
    """
    chain = [symbol]
    while chain[-1].op.kind == "view" and (
        chain[-1].id not in group.members or chain[-1].inputs[0].id in group.members
    ):
        chain.append(chain[-1].inputs[0])
    chain.reverse()
    members = [position for position, view in enumerate(chain) if group.is_storable(view)]
    for position in members:
        if _reads_affinely(chain[position:]):
            return chain[position]
    return chain[members[-1]]


def _reads_affinely(chain: list[Symbol]) -> bool:
    contiguous = True
    for view in chain[1:]:
        if view.op.name != "reshape":
            contiguous = False
        elif not contiguous:
            operand = view.inputs[0]
            if any(len(source_dims) > 1 for source_dims, _ in reshape_groups(operand.shape, view.shape)):
                return False
    return True


def are_in_range(positions: Symbol, extent: Extent) -> bool:
    """Returns whether positions are from 0 to less than the extent: constants, or unsigned integers of few bits."""
    if not isinstance(extent, int):
        return False
    if positions.op.name == "constant":
        values = positions.attrs["value"]
        return bool(values.size) and int(values.min()) >= 0 and int(values.max()) < extent
    dtype, source = positions.dtype, positions
    if positions.op.name == "cast" and positions.inputs[0].dtype.kind == "uint" and dtype.kind in ("int", "uint"):
        (source,) = positions.inputs
    is_kept = int(source.dtype.max_value) <= int(dtype.max_value)
    return is_kept and source.dtype.kind == "uint" and 1 << source.dtype.bits <= extent
