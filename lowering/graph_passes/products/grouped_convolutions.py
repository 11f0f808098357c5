"""Convolutions of few channels in a group: sums of products, for which each lane has a filter.

A group by itself is a product with few rows, of its matrix of few columns: 4 channels to 4 filters would fill a quarter of a
register. Here the channels of all groups lie in planes instead: plane d holds the d-th channel of the group of each filter,
as many numbers as there are filters. A result is the sum over planes and taps of numbers side by side times the filters' own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from ....graph.ops.building import apply
from ....graph.protocols import SymbolLike
from ....graph.symbol import Symbol
from ....promotion.dataclass import dataclass
from ....promotion.dtype import float32, float64

MAX_CHANNELS, MAX_FILTERS = 4, 8
"""Most channels of a group, and most filters, for each of which planes hold the group's channels once more: with more, blocks
of products are filled well enough, and planes take longer to store than a product."""
MAX_MATRIX, MAX_CHANNELS_OF_SMALL = 16, 8
"""Most numbers of a tap's matrix of a group that may have more channels, and how many then."""
MIN_TAPS, SMALL_MATRIX = 2, 4
"""Fewest taps for each place of the image, steps of windows counted, as places that few taps read are stored for little; and
the numbers of a tap's matrix up to which products waste so much of a register that one tap is enough."""
MAX_PRODUCTS = 100
"""Most products of a result, each of which is code of its own."""


@dataclass(frozen=True, slots=True)
class _Groups:
    """A product of windows of channels in groups, as `functions/spatial/convolution.py` makes it.

    taken: the windows (N, …, groups, channels, *sizes). matrix: (length, filters), length the sizes times the channels.
    """

    taken: SymbolLike
    matrix: SymbolLike
    groups: int
    channels: int
    filters: int


def is_narrow_in_groups(symbol: Symbol) -> bool:
    """Returns whether a symbol is a convolution in groups of few channels and few filters each, but more than one channel."""
    if symbol.op.name != "matmul" or symbol.dtype not in (float32, float64) or symbol.attrs["accumulate"] is not symbol.dtype:
        return False
    if symbol.attrs["precision"] != "ieee" or any(operand.dtype is not symbol.dtype for operand in symbol.inputs):
        return False
    found = _groups_of(*symbol.inputs)
    if found is None:
        return False
    attrs, channels, each = found.taken.attrs, found.channels, found.filters // found.groups
    taps, matrix = math.prod(attrs["sizes"]), channels * each
    is_narrow = channels <= MAX_CHANNELS or (channels <= MAX_CHANNELS_OF_SMALL and matrix <= MAX_MATRIX)
    is_read = matrix <= SMALL_MATRIX or taps >= MIN_TAPS * math.prod(attrs["strides"])
    return channels > 1 and 0 < each <= MAX_FILTERS and is_narrow and is_read and taps * channels <= MAX_PRODUCTS


def _groups_of(left: SymbolLike, right: SymbolLike) -> _Groups | None:
    """Returns the windows and the matrix of a convolution in groups, given the operands of the product; None if it is none."""
    around = right.inputs[0] if right.op.name == "reshape" else right  # along one axis there is nothing to reshape
    taken, matrix = _through(left, ("reshape", "permute")), _through(around, ("permute", "reshape"))
    if taken is None or matrix is None or taken.op.name != "windows" or len(matrix.shape) != 2:
        return None
    sizes, counts = taken.attrs["sizes"], taken.attrs["counts"]
    rank = len(sizes)
    if taken.attrs["axes"] != tuple(range(1, rank + 1)) or len(taken.shape) != 2 * rank + 3:
        return None
    groups, channels, filters = *taken.shape[rank + 1 : rank + 3], matrix.shape[1]
    if not (isinstance(groups, int) and isinstance(channels, int) and isinstance(filters, int)) or groups < 1:
        return None
    length, each = math.prod(sizes) * channels, filters // groups
    order = (0, rank + 1, *range(1, rank + 1), *range(rank + 3, 2 * rank + 3), rank + 2)
    rows = left.inputs[0]
    is_same = (
        tuple(rows.attrs["axes"]) == order
        and left.shape == (taken.shape[0], groups, *counts, length)
        and matrix.shape == (length, filters)
        and tuple(around.attrs["axes"]) == (1, 0, 2)
        and around.inputs[0].shape == (length, groups, each)
        and right.shape == (groups, *(1,) * (rank - 1), length, each)
    )
    return _Groups(taken, matrix, groups, channels, filters) if is_same else None


def _through(symbol: SymbolLike, views: Sequence[str]) -> SymbolLike | None:
    """Returns what views of these kinds, the last one first, are of; None for others."""
    for name in views:
        if symbol.op.name != name:
            return None
        (symbol,) = symbol.inputs
    return symbol


def _is_permuted(matrix: SymbolLike) -> bool:
    """Returns whether filters of neighbouring results lie apart: each tap of each vector would be gathered."""
    while matrix.op.kind == "view":
        if matrix.op.name == "permute":
            return True
        (matrix,) = matrix.inputs
    return False


def sum_over_planes(left: SymbolLike, right: SymbolLike) -> SymbolLike:
    """Returns the product (N, groups, …, filters / groups) as a sum of products of planes, begun with 0."""
    found = _groups_of(left, right)
    assert found is not None
    attrs, x = found.taken.attrs, found.taken.inputs[0]
    rank, each = len(attrs["axes"]), found.filters // found.groups
    space = x.shape[: rank + 1]
    planes: SymbolLike = apply("permute", x, axes=(*range(rank + 1), rank + 2, rank + 1))
    if each > 1:
        planes = apply("reshape", planes, shape=(*space, found.channels, found.groups, 1))
        planes = apply("broadcast_to", planes, shape=(*space, found.channels, found.groups, each))
        planes = apply("reshape", planes, shape=(*space, found.channels, found.filters))
    windows = apply("windows", apply("contiguous", planes), **attrs)
    matrix = apply("contiguous", found.matrix) if _is_permuted(found.matrix) else found.matrix
    total: SymbolLike | None = None
    for number, (*tap, channel) in enumerate(itertools.product(*map(range, attrs["sizes"]), range(found.channels))):
        starts = (*(0,) * (rank + 1), channel, 0, *tap)
        stops = (*windows.shape[: rank + 1], channel + 1, found.filters, *[at + 1 for at in tap])
        part = apply("slice", windows, starts=starts, stops=stops, steps=(1,) * len(starts))
        part = apply("reshape", part, shape=(*windows.shape[: rank + 1], found.filters))
        factors = apply("slice", matrix, starts=(number, 0), stops=(number + 1, found.filters), steps=(1, 1))
        factors = apply("reshape", factors, shape=(found.filters,))
        total = apply("multiply_add", part, factors, 0.0 if total is None else total)
    assert total is not None
    total = apply("reshape", total, shape=(*windows.shape[: rank + 1], found.groups, each))
    return apply("permute", total, axes=(0, rank + 1, *range(1, rank + 1), rank + 2))
