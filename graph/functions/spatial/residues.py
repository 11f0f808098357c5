"""Defines transposed convolutions as convolutions forwards, one for all results that read windows of one form.

With stride s, result f of the whole is the sum of x[i] · w[t] over f = i · s + t · dilation. Results whose f leave the same
remainder, a residue, take every s-th tap of the kernel, with stride 1 and no zeros between the elements of x. Residues of as
many taps at the same offsets share their windows, and are one product with more columns; results are interleaved at the end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ....promotion.arrays import Array
from ...dims.dim import Extent
from ...symbol import Symbol
from ..building import apply
from ..creation import zeros
from .convolution import convolved
from .geometry import around

Weights: TypeAlias = Symbol | Array


class Residues(NamedTuple):
    """Residues of one axis that read windows of one form.

    Attributes:
        residues: how many there are; they follow each other.
        taps: how many taps each of them has, which may be none.
        step: how far apart the elements of a window lie.
        reach: how far before its position a window begins.
        firsts: the first tap of each residue.
        apart: how far apart its taps lie in the kernel.
    """

    residues: int
    taps: int
    step: int
    reach: int
    firsts: tuple[int, ...]
    apart: int


def residues_of(size: int, stride: int, dilation: int) -> list[Residues]:
    """Return the residues of an axis, those of one form together, for a kernel of so many taps."""
    found: list[Residues] = []
    for residue in range(stride):
        taps = [tap for tap in range(size) if tap * dilation % stride == residue]
        offsets = [tap * dilation // stride for tap in taps]
        apart, step = (taps[1] - taps[0], offsets[1] - offsets[0]) if len(taps) > 1 else (size, 1)
        one = Residues(1, len(taps), step, max(offsets, default=0), tuple(taps[:1]), apart)
        last = found[-1] if found else None
        if last is not None and (last.taps, last.step, last.reach, last.apart) == (one.taps, one.step, one.reach, one.apart):
            found[-1] = last._replace(residues=last.residues + 1, firsts=last.firsts + one.firsts)
        else:
            found.append(one)
    return found


def convolved_backwards(
    x: Symbol, weights: Weights, begins: Sequence[Extent], sizes: Sequence[Extent], strides: Sequence[int],
    dilations: Sequence[int], groups: int,
) -> Symbol:  # fmt: skip
    """Convolve a tensor (N, …, C) backwards with weights (C, M / groups, …).

    Weights that are an array are put in order here, a symbol by each run.

    Args:
        begins: how many results of the whole are left out at the beginning of each spatial axis.
        sizes: how many there are from there on.
    """
    rank = len(strides)
    kernel = tuple([int(size) for size in weights.shape[2:]])  # type: ignore[arg-type]
    axes = [residues_of(*each) for each in zip(kernel, strides, dilations, strict=True)]
    first = [begin // stride for begin, stride in zip(begins, strides, strict=True)]
    counts = [
        (begin + size - 1) // stride + 1 - start
        for begin, size, stride, start in zip(begins, sizes, strides, first, strict=True)
    ]
    low = [max([each.reach for each in axis]) - start for axis, start in zip(axes, first, strict=True)]
    high = [start + count - extent for start, count, extent in zip(first, counts, x.shape[1:-1], strict=True)]
    wide = around(x, low, high, 0, 1)
    whole = [max([each.reach for each in axis]) for axis in axes]

    def joined(chosen: tuple[Residues, ...]) -> Symbol:
        """Return (N, …, residues along each axis, M), those of the axes that are chosen in one class each."""
        axis = len(chosen)
        if axis < rank:
            parts = [joined((*chosen, each)) for each in axes[axis]]
            return parts[0] if len(parts) == 1 else apply("concat", *parts, axis=1 + rank + axis)
        filters = weights.shape[1] * groups
        shape = (x.shape[0], *counts, *[each.residues for each in chosen])
        if any(each.taps == 0 for each in chosen):
            return zeros(x, (*shape, filters), x.dtype)
        matrix = _matrix(weights, chosen, groups)
        starts = (0, *[most - each.reach for most, each in zip(whole, chosen, strict=True)], 0)
        stops = (wide.shape[0], *[
            start + count + (each.taps - 1) * each.step
            for start, count, each in zip(starts[1:], counts, chosen, strict=False)
        ], wide.shape[-1])  # fmt: skip
        part = wide
        if any(start != 0 for start in starts) or stops != wide.shape:
            part = apply("slice", wide, starts=starts, stops=stops, steps=(1,) * len(starts))
        steps = [each.step for each in chosen]
        symbol = x.graph.constant(matrix) if isinstance(matrix, np.ndarray) else matrix
        result = convolved(part, symbol, counts, (1,) * rank, steps, groups)
        apart = result.reshape((x.shape[0], *counts, groups, *[each.residues for each in chosen], filters // groups))
        last = apart.permute((*range(rank + 1), *range(rank + 2, 2 * rank + 2), rank + 1, 2 * rank + 2))
        return last.reshape((*shape, filters))

    result = joined(())
    if any(stride != 1 for stride in strides):
        order = (0, *[axis for pair in range(rank) for axis in (pair + 1, pair + 1 + rank)], 2 * rank + 1)
        result = result.permute(order)
    wholes = [count * stride for count, stride in zip(counts, strides, strict=True)]
    result = result.reshape((x.shape[0], *wholes, result.shape[-1]))
    cut = [begin - start * stride for begin, start, stride in zip(begins, first, strides, strict=True)]
    rest = [most - size - start for most, size, start in zip(wholes, sizes, cut, strict=True)]
    return around(result, [before * -1 for before in cut], [after * -1 for after in rest], 0, 1)


def _pieces(chosen: Sequence[Residues]) -> list[tuple[slice, ...]]:
    """Return where the taps of each residue of a class lie in weights (C, M / groups, …), turned over."""
    pieces: list[tuple[slice, ...]] = []
    for firsts in itertools.product(*[residues.firsts for residues in chosen]):
        steps = [
            slice(first + (residues.taps - 1) * residues.apart, None, -residues.apart)
            for first, residues in zip(firsts, chosen, strict=True)
        ]
        pieces.append((slice(None), slice(None), *steps))
    return pieces


def _matrix(weights: Weights, chosen: Sequence[Residues], groups: int) -> Symbol | Array:
    """Return the taps of classes of residues, turned over, as a kernel (…, C / groups, groups · residues · M / groups)."""
    rank = len(chosen)
    channels, each = weights.shape[0] // groups, weights.shape[1]
    taps = [residues.taps for residues in chosen]
    pieces = _pieces(chosen)
    one = (groups, channels, each, 1, *taps)
    order = (*range(4, 4 + rank), 1, 0, 3, 2)
    result = (*taps, channels, groups * len(pieces) * each)
    if isinstance(weights, Symbol):
        lines = [weights[piece].reshape(one) for piece in pieces]
        joined = lines[0] if len(lines) == 1 else apply("concat", *lines, axis=3)
        return joined.permute(order).reshape(result)
    arrays: list[Any] = [weights[piece] for piece in pieces]
    whole: Any = np.concatenate([array.reshape(one) for array in arrays], 3)
    return np.ascontiguousarray(whole.transpose(order)).reshape(result)


def weights_of_matrices(
    matrices: Mapping[tuple[int, ...], Array], axes: Sequence[Sequence[Residues]], channels: int, groups: int
) -> Array:
    """Return the weights (C, M / groups, …) whose taps are in these kernels, one for each class that has taps.

    matrices: kernels (…, C / groups, groups · residues · M / groups), by the number of the class along each axis.
    """
    rank = len(axes)
    first = next(iter(matrices))
    among = math.prod([axis[number].residues for axis, number in zip(axes, first, strict=True)])
    each = matrices[first].shape[-1] // (groups * among)
    sizes = [sum([one.residues * one.taps for one in axis]) for axis in axes]
    weights = np.zeros((channels, each, *sizes), matrices[first].dtype)
    order = (rank + 1, rank, rank + 3, rank + 2, *range(rank))
    for numbers, matrix in matrices.items():
        chosen = [axis[number] for axis, number in zip(axes, numbers, strict=True)]
        pieces, taps = _pieces(chosen), [one.taps for one in chosen]
        apart = matrix.reshape((*taps, channels // groups, groups, len(pieces), each)).transpose(order)
        for number, piece in enumerate(pieces):
            weights[piece] = apart[:, :, :, number].reshape((channels, each, *taps))
    return weights
