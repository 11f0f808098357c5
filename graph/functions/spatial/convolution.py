"""Defines convolutions and poolings of tensors with channels last, as products with windows and reductions over them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from ....promotion.dtype import DType, float32, int32
from ...dims.dim import Extent, ceil_div, maximum, minimum
from ...errors import mistake
from ...graph import graph_of
from ...ops.opdef import accumulator
from ...ops.shape import window_count
from ...protocols import TensorLike
from ...symbol import Symbol
from ...types import Shape, shape_text
from ..building import apply, symbol_of
from ..creation import ones
from ..joining import pad
from ..linalg import matmul
from ..reductions import max_, sum_
from .geometry import Padding, PerAxis, numbers_per_axis, padding_pairs

FEW_TAPS = 64
"""Up to this many taps, a convolution of single channels is a sum of products, with no matrix."""
FEWER_TAPS, MAX_FILTERS, MIN_FILTERS = 25, 16, 8
"""Taps up to which one of the only channel is, with so many filters; with more taps half as many. From there on, products fill
registers better; so they do of windows that are apart, for fewer than `MIN_FILTERS`."""
STORED_TAPS, STORED_OF_A_ROW = 8, 3
"""Taps from which on padding of the only channel is stored, and of a row: each would look whether it is inside."""


def convolved(
    x: Symbol, kernel: Symbol, counts: Sequence[Extent], strides: Sequence[int], dilations: Sequence[int], groups: int
) -> Symbol:
    """Convolve `counts` windows of a tensor (N, …, C) with a kernel (…, C / groups, M)."""
    sizes = tuple([int(size) for size in kernel.shape[:-2]])  # type: ignore[arg-type]
    depth, filters, channels, rank = *kernel.shape[-2:], x.shape[-1], len(kernel.shape) - 2
    taps = math.prod(sizes)
    alone = groups == channels and taps <= FEW_TAPS
    if alone and groups == 1:  # one channel, as of a gray image
        most = MAX_FILTERS if taps <= FEWER_TAPS else MAX_FILTERS // 2
        meet = strides[-1] == 1 or (strides[-1] <= sizes[-1] and taps > 1 and (taps <= FEWER_TAPS or strides[-1] == 2))
        is_wide = meet or (isinstance(filters, int) and filters >= MIN_FILTERS)
        alone = isinstance(filters, int) and 0 < filters <= most and x.dtype.is_float and is_wide
    if alone and groups == 1 and taps >= (STORED_TAPS if rank > 1 else STORED_OF_A_ROW) and x.op.name == "pad":
        x = apply("contiguous", x)
    apart = x if groups == 1 or alone else x.reshape((*x.shape[:-1], groups, depth))
    taken = apply(
        "windows", apart, axes=tuple(range(1, rank + 1)), counts=tuple(counts), sizes=sizes, strides=tuple(strides),
        dilations=tuple(dilations),
    )  # fmt: skip
    if alone:
        return _depthwise(taken, _with_filters_last(kernel).reshape((*sizes, filters)))
    before = len(apart.shape) - 1
    inner = (*range(before + 1, before + 1 + rank), before)
    length = math.prod(sizes) * depth
    matrix = kernel.reshape((length, filters))
    if groups == 1:
        rows = taken.permute((*range(rank + 1), *inner)).reshape((x.shape[0], *counts, length))
        return matmul(rows, matrix)
    rows = taken.permute((0, rank + 1, *range(1, rank + 1), *inner)).reshape((x.shape[0], groups, *counts, length))
    each = filters // groups
    wide = matrix.reshape((length, groups, each)).permute((1, 0, 2)).reshape((groups, *(1,) * (rank - 1), length, each))
    return matmul(rows, wide).permute((0, *range(2, rank + 2), 1, rank + 2)).reshape((x.shape[0], *counts, filters))


def _with_filters_last(kernel: Symbol) -> Symbol:
    """Return a kernel whose filters are neighbours in memory: each tap of each position reads a vector of them."""
    made = kernel
    while made.op.name == "reshape":
        made = made.inputs[0]
    return apply("contiguous", kernel) if made.op.name == "permute" else kernel


def _depthwise(taken: Symbol, kernel: Symbol) -> Symbol:
    """Convolve each channel by itself: a sum of products, tap by tap; in the dtypes in which matrix products sum.

    taken: windows (N, …, channels, *sizes). kernel: (*sizes, filters), as many filters for every channel.
    """
    dtype = taken.dtype
    wide = int32 if dtype.is_bool or (dtype.is_integer and dtype.bits <= 8) else accumulator(dtype)
    value, factors = taken.cast(wide), kernel.cast(wide)
    sizes, filters = kernel.shape[:-1], kernel.shape[-1]
    channels = taken.shape[len(sizes) + 1]
    total: Symbol | None = None
    for position in itertools.product(*[range(int(size)) for size in sizes]):  # type: ignore[arg-type]
        part, factor = value[(..., *position)], factors[position]
        if filters != channels:
            part, factor = part.reshape((*part.shape, 1)), factor.reshape((channels, filters // channels))
        if total is None:
            total = apply("mul", part, factor)
        elif wide.is_float:  # with one rounding, as products of matrices are summed
            total = apply("multiply_add", part, factor, total)
        else:
            total = apply("add", total, apply("mul", part, factor))
    assert total is not None
    result = total if filters == channels else total.reshape((*total.shape[:-2], filters))
    return result.cast(dtype) if dtype.is_float else result


def conv(
    x: TensorLike, kernel: TensorLike, stride: PerAxis = 1, dilation: PerAxis = 1, padding: Padding = 0, groups: int = 1,
    bias: TensorLike | None = None,
) -> Symbol:  # fmt: skip
    """Convolve a tensor (N, …, C), with channels last, with a kernel (…, C / groups, M): a cross-correlation.

    A product with windows, which are not stored; 16-bit floats are summed in float32, 8-bit integers in int32.

    Args:
        stride: how far apart windows begin, one number for all spatial axes or one for each.
        dilation: how far apart the elements of a window lie.
        padding: zeros around the spatial axes: one number, one for each, or (before, after) pairs.
        groups: how many groups the channels fall into, each with filters of its own.
        bias: what is added for each of the M channels of the result.
    """
    return _conv("conv", x, kernel, stride, dilation, padding, groups, bias)


def conv1d(
    x: TensorLike, kernel: TensorLike, stride: PerAxis = 1, dilation: PerAxis = 1, padding: Padding = 0, groups: int = 1,
    bias: TensorLike | None = None,
) -> Symbol:  # fmt: skip
    """Convolve a tensor (N, L, C) with a kernel (K, C / groups, M), as `conv`."""
    return _conv("conv1d", x, kernel, stride, dilation, padding, groups, bias, 1)


def conv2d(
    x: TensorLike, kernel: TensorLike, stride: PerAxis = 1, dilation: PerAxis = 1, padding: Padding = 0, groups: int = 1,
    bias: TensorLike | None = None,
) -> Symbol:  # fmt: skip
    """Convolve a tensor (N, H, W, C) with a kernel (R, S, C / groups, M), as `conv`."""
    return _conv("conv2d", x, kernel, stride, dilation, padding, groups, bias, 2)


def conv3d(
    x: TensorLike, kernel: TensorLike, stride: PerAxis = 1, dilation: PerAxis = 1, padding: Padding = 0, groups: int = 1,
    bias: TensorLike | None = None,
) -> Symbol:  # fmt: skip
    """Convolve a tensor (N, D, H, W, C) with a kernel (Q, R, S, C / groups, M), as `conv`."""
    return _conv("conv3d", x, kernel, stride, dilation, padding, groups, bias, 3)


def _conv(
    op: str, x: TensorLike, kernel: TensorLike, stride: PerAxis, dilation: PerAxis, padding: Padding, groups: int,
    bias: TensorLike | None, rank: int | None = None,
) -> Symbol:  # fmt: skip
    both = value, factors = graph_of(op, x, kernel).promoted(op, (x, kernel), "matmul")
    spatial = len(value.shape) - 2
    if spatial < 1 or len(factors.shape) != len(value.shape) or (rank is not None and spatial != rank):
        what = f"{shape_text(value.shape)} and a kernel {shape_text(factors.shape)}"
        expected = f"{'N, …, C' if rank is None else f'N, {rank} axes of space, C'} and as many axes in the kernel"
        raise mistake(op, what, both, expected, "insert axes of size 1 with x[None]")
    if not all(isinstance(size, int) and size > 0 for size in factors.shape[:-1]):
        raise mistake(op, f"a kernel {shape_text(factors.shape)}", both, "sizes of 1 or more, known now", "fix the sizes")
    depth, filters = factors.shape[-2:]
    if groups < 1 or value.shape[-1] != depth * groups or (isinstance(filters, int) and filters % groups):
        what = f"{value.shape[-1]} channels in {groups} groups, a kernel of {depth} channels to {filters}"
        expected = "channels / groups in the kernel, whose results the groups divide"
        raise mistake(op, what, both, expected, _layout_fix(value.shape, factors.shape, groups))
    sizes = tuple([int(size) for size in factors.shape[:-2]])  # type: ignore[arg-type]
    strides = numbers_per_axis(op, both, "stride", stride, spatial)
    dilations = numbers_per_axis(op, both, "dilation", dilation, spatial)
    wide = _padded(value, padding_pairs(op, both, padding, spatial), 0)
    counts = [window_count(*each) for each in zip(wide.shape[1:-1], sizes, strides, dilations, strict=True)]
    result = convolved(wide, factors, counts, strides, dilations, groups)
    return result if bias is None else apply("add", result, bias)


def _layout_fix(value: Shape, kernel: Shape, groups: int) -> str:
    """Return what to do about channels that do not fit the kernel: permute what has them first, as other libraries do."""
    space, sides = tuple(range(2, len(value))), (value[1], value[-1])
    is_square = len(set(kernel[2:])) == 1 and kernel[0] != kernel[1]
    are_last = kernel[-2] * groups in sides and not (is_square and kernel[1] * groups in sides)
    depth = kernel[-2] if are_last else kernel[1]
    turned = [f"x.permute({(0, *space, 1)})"] if value[1] == depth * groups else []
    if not are_last and depth * groups in sides:
        turned.append(f"kernel.permute({(*space, 1, 0)})")
    return f"channels come last here: {', '.join(turned)}" if turned else "check groups="


def _padded(x: Symbol, pairs: Sequence[tuple[Extent, Extent]], value: float) -> Symbol:
    if all(width == 0 for pair in pairs for width in pair):
        return x
    return pad(x, [(0, 0), *pairs, (0, 0)], value=value)


class PoolingWindows(NamedTuple):
    """The windows of a pooling: their sizes, how far apart they begin, and how far apart their elements lie."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]

    def counts(self, extents: Sequence[Extent], pairs: Sequence[tuple[int, int]], ceil_mode: bool) -> tuple[Extent, ...]:
        """Return how many windows there are; of those that reach beyond the padding, those that begin before it."""
        found: list[Extent] = []
        for extent, (low, high), size, stride, dilation in zip(extents, pairs, *self, strict=True):
            count = window_count(extent + low + high, size, stride, dilation)
            if ceil_mode:
                reach = extent + low + high - (size - 1) * dilation - 1
                count = minimum(ceil_div(maximum(reach + stride, 0), stride), ceil_div(extent + low, stride))
            found.append(count)
        return tuple(found)

    def taken(self, x: Symbol, low: Sequence[Extent], counts: Sequence[Extent], value: float) -> Symbol:
        """Return windows of a tensor (N, …, C), the first of which begins `low` elements before it, padded with `value`."""
        high = [
            maximum((count - 1) * stride + (size - 1) * dilation + 1 - extent - before, 0)
            for count, extent, before, size, stride, dilation in zip(counts, x.shape[1:-1], low, *self, strict=True)
        ]
        wide = _padded(x, list(zip(low, high, strict=True)), value)
        axes = tuple(range(1, len(x.shape) - 1))
        return apply(
            "windows", wide, axes=axes, counts=tuple(counts), sizes=self.sizes, strides=self.strides, dilations=self.dilations
        )


def pooling_windows(
    op: str, x: Symbol, kernel_size: PerAxis, stride: PerAxis | None, dilation: PerAxis, padding: Padding
) -> tuple[PoolingWindows, list[tuple[int, int]]]:
    """Return the windows and the padding that the arguments of a pooling of a tensor (N, …, C) describe."""
    rank = len(x.shape) - 2
    if rank < 1:
        raise mistake(op, f"a tensor {shape_text(x.shape)}", (x,), "N, …, C", "insert axes of size 1 with x[None]")
    sizes = numbers_per_axis(op, (x,), "kernel_size", kernel_size, rank)
    strides = sizes if stride is None else numbers_per_axis(op, (x,), "stride", stride, rank)
    over = PoolingWindows(sizes, strides, numbers_per_axis(op, (x,), "dilation", dilation, rank))
    pairs = padding_pairs(op, (x,), padding, rank)
    if any(max(pair) >= (size - 1) * gap + 1 for pair, size, gap in zip(pairs, sizes, over.dilations, strict=True)):
        raise mistake(op, f"padding {padding}, windows of {sizes}", (x,), "less padding than a window is long", "padding=0")
    return over, pairs


def lowest_of(dtype: DType) -> float:
    """Return the value that is never the largest."""
    return -math.inf if dtype.is_float else False if dtype.is_bool else int(dtype.min_value)


def max_pool(
    x: TensorLike, kernel_size: PerAxis, stride: PerAxis | None = None, dilation: PerAxis = 1, padding: Padding = 0,
    ceil_mode: bool = False,
) -> Symbol:  # fmt: skip
    """Return the largest element of each window of a tensor (N, …, C), with channels last; padding never counts.

    Args:
        stride: how far apart windows begin; by default windows lie side by side.
        ceil_mode: whether a last window may reach beyond the end, as long as it begins before the padding there.
    """
    value = symbol_of("max_pool", x)
    over, pairs = pooling_windows("max_pool", value, kernel_size, stride, dilation, padding)
    counts = over.counts(value.shape[1:-1], pairs, ceil_mode)
    rank = len(counts)
    taken = over.taken(value, [low for low, _ in pairs], counts, lowest_of(value.dtype))
    return max_(taken, axis=tuple(range(rank + 2, 2 * rank + 2)))


def avg_pool(
    x: TensorLike, kernel_size: PerAxis, stride: PerAxis | None = None, dilation: PerAxis = 1, padding: Padding = 0,
    ceil_mode: bool = False, count_boundary: bool = True,
) -> Symbol:  # fmt: skip
    """Return the mean of each window of a float tensor (N, …, C), with channels last; 16-bit floats are summed in float32.

    Args:
        stride: how far apart windows begin; by default windows lie side by side.
        ceil_mode: whether a last window may reach beyond the end, as long as it begins before the padding there.
        count_boundary: whether padding counts, as zeros. What `ceil_mode` adds beyond it never does.
    """
    value = symbol_of("avg_pool", x)
    if not value.dtype.is_float:
        raise mistake("avg_pool", f"a mean of {value.dtype}", (value,), "floats", "cast it first: x.cast(float32)")
    wide = value.cast(float32) if value.dtype.bits < 32 else value
    over, pairs = pooling_windows("avg_pool", value, kernel_size, stride, dilation, padding)
    extents = value.shape[1:-1]
    counts = over.counts(extents, pairs, ceil_mode)
    low = [before for before, _ in pairs]
    counted = [extent + (sum(pair) if count_boundary else 0) for extent, pair in zip(extents, pairs, strict=True)]
    whole = ones(value.graph, (1, *counted, 1), wide.dtype)
    axes = tuple(range(len(counts) + 2, 2 * len(counts) + 2))
    divisor = sum_(over.taken(whole, [0] * len(low) if count_boundary else low, counts, 0), axis=axes)
    return apply("div", sum_(over.taken(wide, low, counts, 0), axis=axes), divisor).cast(value.dtype)
