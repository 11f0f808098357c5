"""Defines convolutions backwards, and the sum of windows that overlap: what is spread over an image is added up there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ...dims.dim import Extent, exact_quotient
from ...errors import mistake
from ...graph import graph_of
from ...protocols import TensorLike
from ...symbol import Symbol
from ...types import DimLike, as_extent, shape_text
from ..building import apply, symbol_of
from .geometry import (
    Padding,
    PerAxis,
    Windows,
    around,
    kernel_span,
    numbers_per_axis,
    padding_pairs,
    spread,
)
from .residues import Weights, convolved_backwards


def conv_transpose(
    x: TensorLike, kernel: TensorLike, stride: PerAxis = 1, dilation: PerAxis = 1, padding: Padding = 0,
    output_padding: PerAxis = 0, groups: int = 1, bias: TensorLike | None = None,
) -> Symbol:  # fmt: skip
    """Convolve a tensor (N, …, C) backwards with a kernel (…, M / groups, C): each element adds the kernel, scaled by it.

    It is the transpose of `conv`, as MAX's conv2d_transpose and torch's conv_transpose2d, with channels last. An axis of n
    elements becomes one of stride · (n - 1) + dilation · (k - 1) + 1 + output_padding, less the padding. Dtypes are those of
    `conv`: operands join, 16-bit floats are summed in float32, 8-bit integers in int32.

    Args:
        x: (N, …, C), with one to any number of axes of space; sizes may be symbolic.
        kernel: (…, M / groups, C), of known sizes.
        stride: how far apart the kernel is added, one number for all spatial axes or one for each.
        dilation: how far apart the elements of the kernel lie.
        padding: how much of the result is cut at its ends: one number, one for each axis, or (before, after) pairs.
        output_padding: how much is added at the end of each axis: which of the sizes that `conv` makes equal is meant.
        groups: how many groups the channels fall into, each with filters of its own.
        bias: what is added for each of the M channels of the result.

    Raises `UserError` for operands whose axes, channels or groups do not fit.

    Example:
        >>> g = jn.Graph("g", [jn.TensorType(jn.float32, (1, "n", 1), "x")])
        >>> jn.conv_transpose(g.inputs[0], np.ones((3, 4, 1), np.float32), stride=2).shape
        (1, Dim.parse('2*n + 1'), 4)
    """
    op = "conv_transpose"
    both = value, factors = graph_of(op, x, kernel).promoted(op, (x, kernel), "matmul")
    rank = len(value.shape) - 2
    if rank < 1 or len(factors.shape) != len(value.shape):
        what = f"{shape_text(value.shape)} and a kernel {shape_text(factors.shape)}"
        raise mistake(op, what, both, "N, …, C and as many axes in the kernel", "insert axes of size 1 with x[None]")
    if not all(isinstance(size, int) and size > 0 for size in factors.shape):
        raise mistake(op, f"a kernel {shape_text(factors.shape)}", both, "sizes of 1 or more, known now", "fix the sizes")
    channels = factors.shape[-1]
    if type(groups) is not int or groups < 1 or value.shape[-1] != channels or int(channels) % groups:  # type: ignore[arg-type]
        what = f"{value.shape[-1]} channels in {groups} groups, a kernel for {channels}"
        raise mistake(op, what, both, "a kernel (…, M / groups, C), where groups divides C", "check groups=")
    taps = [int(size) for size in factors.shape[:rank]]  # type: ignore[arg-type]
    strides, dilations = (
        numbers_per_axis(op, both, name, numbers, rank) for name, numbers in (("stride", stride), ("dilation", dilation))
    )
    extra = numbers_per_axis(op, both, "output_padding", output_padding, rank, 0)
    if any(more >= max(step, gap) for more, step, gap in zip(extra, strides, dilations, strict=True)):
        raise mistake(op, f"output_padding {output_padding} of stride {stride}", both, "less than a stride", "output_padding=0")
    begins, sizes = [], []
    spans = kernel_span(taps, dilations)
    for extent, span, step, more, (low, high) in zip(
        value.shape[1:-1], spans, strides, extra, padding_pairs(op, both, padding, rank), strict=True
    ):
        size = (extent - 1) * step + span + more - low - high
        if isinstance(size, int) and size <= 0:
            raise mistake(op, f"a result of {size} elements along an axis", both, "1 or more", "less padding")
        begins.append(low)
        sizes.append(size)
    order = (rank + 1, rank, *range(rank))
    if not isinstance(kernel, Symbol) and factors.op.name == "constant":
        first: Weights = np.ascontiguousarray(factors.attrs["value"].transpose(order))
    else:
        first = apply("permute", factors, axes=order)
    result = convolved_backwards(value, first, begins, sizes, strides, dilations, groups)
    return result if bias is None else apply("add", result, bias)


def overlapped(part: Callable[[tuple[int, ...]], Symbol], over: Windows, image: Sequence[Extent], first: int) -> Symbol:
    """Add windows up where they lie in an image.

    Args:
        part: the elements of all windows at one position in them, with the axes of `over.sizes` from axis `first` on.
        image: the sizes of the axes that these become.
    """
    total: Symbol | None = None
    for position in over.taps:
        wide = spread(part(position), over.strides, first)
        low = [offset * dilation - pad for offset, dilation, pad in zip(position, over.dilations, over.low, strict=True)]
        here = wide.shape[first : first + len(low)]
        high = [size - extent - before for size, extent, before in zip(image, here, low, strict=True)]
        term = around(wide, low, high, 0.0, first)
        total = term if total is None else apply("add", total, term)
    assert total is not None
    return total


def col2im(
    x: TensorLike, image_shape: Sequence[DimLike], block_shape: Sequence[int], stride: PerAxis = 1, dilation: PerAxis = 1,
    padding: Padding = 0,
) -> Symbol:  # fmt: skip
    """Add windows (N, L, K · C) up where they lie in an image (N, …, C), as ONNX's Col2Im and torch's fold, with channels last.

    It is the transpose of taking windows: the rows are those that `conv` multiplies with a kernel of K elements, of which each
    has C channels. Sums are of the dtype of `x`.

    Args:
        x: (N, L, K · C): L windows in row-major order, each of the elements of `block_shape`, channels last.
        image_shape: the sizes of the axes of space; ints, names or dims.
        block_shape: the sizes of a window; K is their product.
        stride: how far apart windows begin, one number for all axes or one for each.
        dilation: how far apart the elements of a window lie.
        padding: how far windows reach beyond the image: one number, one for each axis, or (before, after) pairs.

    Raises `UserError` where L is not the number of such windows.

    Example:
        >>> g = jn.Graph("g", [jn.TensorType(jn.float32, (1, 9, 4), "x")])
        >>> jn.col2im(g.inputs[0], (4, 4), (2, 2)).shape
        (1, 4, 4, 1)
    """
    op = "col2im"
    value = symbol_of(op, x)
    image, block = tuple([as_extent(size, f"{op}: image_shape") for size in image_shape]), tuple(block_shape)
    rank = len(image)
    sized = len(block) == rank and rank > 0 and all(type(size) is int and size > 0 for size in block)
    if not sized or len(value.shape) != 3:
        what = f"{shape_text(value.shape)}, an image {shape_text(image)} and blocks {block}"
        raise mistake(op, what, (value,), "(N, windows, elements) and as many sizes of blocks as of the image, 1 or more",
                      "block_shape=(2, 2)")  # fmt: skip
    strides, dilations = (
        numbers_per_axis(op, (value,), name, numbers, rank) for name, numbers in (("stride", stride), ("dilation", dilation))
    )
    pairs = padding_pairs(op, (value,), padding, rank)
    sizes = [
        (size + low + high - span) // step + 1
        for size, (low, high), span, step in zip(image, pairs, kernel_span(block, dilations), strides, strict=True)
    ]
    if any(isinstance(size, int) and size < 1 for size in sizes):
        raise mistake(op, f"blocks {block} in an image {shape_text(image)}", (value,), "an image that holds one", "padding=1")
    depth = exact_quotient(value.shape[2], math.prod(block))
    if depth is None:
        what = f"rows of {value.shape[2]} elements for blocks {block}"
        raise mistake(op, what, (value,), f"a multiple of {math.prod(block)}", "check block_shape=")
    apart = value.reshape((value.shape[0], *sizes, *block, depth))
    lows, highs = zip(*pairs, strict=True)
    over = Windows(block, strides, dilations, lows, highs, tuple(sizes))
    whole = (slice(None),) * (rank + 1)
    return overlapped(lambda position: apart[(*whole, *position)], over, image, 1)
