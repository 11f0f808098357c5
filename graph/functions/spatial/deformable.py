"""Defines `deform_conv`: a convolution whose taps are moved by data."""

from __future__ import annotations

import math

import numpy as np

from ...construction import primitives
from ...errors import mistake
from ...graph import graph_of
from ...ops.opdef import accumulator
from ...protocols import TensorLike
from ...symbol import Symbol
from ...types import shape_text
from ..building import apply
from ..joining import concat
from ..linalg import matmul
from .geometry import Padding, PerAxis, Windows, kernel_span, numbers_per_axis, padding_pairs
from .sampling import image_of, linear_taps


def convolved_at(
    x: Symbol, weights: Symbol, offset: Symbol, mask: Symbol | None, over: Windows, group: int, offset_groups: int
) -> Symbol:
    """Convolve images (N, C, H, W) with weights (M, C / group, R, S), whose taps offsets (N, 2 · taps, …) move.

    mask: (N, taps, …), by which taps are multiplied, or None. over: all of its sizes are known.
    """
    batch, channels = x.shape[0], x.shape[1]
    counts: list[int] = [int(size) for size in over.sizes]  # type: ignore[arg-type]
    low: list[int] = [int(size) for size in over.low]  # type: ignore[arg-type]
    taps, length = math.prod(over.kernel), math.prod(counts)
    spread = (batch * offset_groups, channels // offset_groups, *x.shape[2:])
    image = image_of(primitives.reshape(x, spread), False)
    moves = primitives.reshape(offset, (batch * offset_groups, taps, 2, length))
    factors = None if mask is None else primitives.reshape(mask, (batch * offset_groups, taps, length))
    columns: list[Symbol] = []
    for number, position in enumerate(over.taps):
        bases = np.meshgrid(
            *[
                np.arange(count) * stride - first + index * dilation
                for count, stride, first, index, dilation in zip(
                    counts, over.strides, low, position, over.dilations, strict=True
                )
            ],
            indexing="ij",
        )  # fmt: skip
        where = [
            apply("add", moves[:, number, axis], x.graph.constant(base.reshape(1, -1).astype(offset.dtype.numpy), offset.dtype))
            for axis, base in enumerate(bases)
        ]
        value = image.weighted([linear_taps(each) for each in where], True)
        if factors is not None:
            value = apply("mul", value, image.beside(factors[:, number]))
        columns.append(primitives.reshape(value, (batch, channels, 1, length)))
    filters, depth = weights.shape[0], weights.shape[1] * taps
    matrix = primitives.reshape(weights, (group, filters // group, depth))
    wide = primitives.reshape(concat(columns, 2), (batch, group, depth, length))
    return primitives.reshape(matmul(matrix, wide), (batch, filters, *over.sizes))


def deform_conv(
    x: TensorLike, kernel: TensorLike, offset: TensorLike, mask: TensorLike | None = None, stride: PerAxis = 1,
    dilation: PerAxis = 1, padding: Padding = 0, groups: int = 1, offset_groups: int = 1, bias: TensorLike | None = None,
) -> Symbol:  # fmt: skip
    """Convolve images with windows whose taps are moved by offsets (Dai et al., 2017) and weighted by a mask.

    As ONNX's DeformConv and torchvision's deform_conv2d, with channels last. Taps are read between pixels, linearly, and are 0
    outside. Operands join in a float dtype, the result's; 16-bit floats are computed in float32 and rounded once.

    Args:
        x: (N, H, W, C), of known H, W and C.
        kernel: (R, S, C / groups, M).
        offset: (N, H', W', offset_groups · R · S · 2): for each window and tap how far it is moved along both axes, in pixels.
        mask: (N, H', W', offset_groups · R · S): by what each tap is multiplied.
        stride, dilation, padding, groups, bias: those of `conv`.
        offset_groups: how many groups the channels fall into, each with offsets of its own.

    Raises `UserError` for operands whose axes, channels or groups do not fit.

    Example:
        >>> x, moves = jn.TensorType(jn.float32, (1, 6, 6, 2), "x"), jn.TensorType(jn.float32, (1, 4, 4, 18), "moves")
        >>> g = jn.Graph("g", [x, moves])
        >>> jn.deform_conv(g.inputs[0], np.ones((3, 3, 2, 5), np.float32), g.inputs[1]).shape
        (1, 4, 4, 5)
    """
    op = "deform_conv"
    given = [x, kernel, offset, *[each for each in (mask, bias) if each is not None]]
    joined = graph_of(op, *given).promoted(op, given, "layer_norm")
    result = joined[0].dtype
    value, factors, moves, *rest = [primitives.cast(each, accumulator(result)) for each in joined]
    operands = (value, factors, moves)
    whole = [*value.shape[1:], *factors.shape]
    if len(value.shape) != 4 or len(factors.shape) != 4 or not all(isinstance(size, int) and size > 0 for size in whole):
        what = f"{shape_text(value.shape)} and a kernel {shape_text(factors.shape)}"
        raise mistake(op, what, operands, "(N, H, W, C) and (R, S, C / groups, M) of known sizes, but for N", "fix the sizes")
    *space, channels = [int(size) for size in value.shape[1:]]  # type: ignore[arg-type]
    *taps, depth, filters = [int(size) for size in factors.shape]  # type: ignore[arg-type]
    if min(groups, offset_groups) < 1 or depth * groups != channels or filters % groups or channels % offset_groups:
        what = f"{channels} channels in {groups} groups, {offset_groups} of offsets, a kernel of {depth} channels to {filters}"
        raise mistake(op, what, operands, "groups that divide channels and filters", "check groups= and offset_groups=")
    strides, dilations = (
        numbers_per_axis(op, operands, name, numbers, 2) for name, numbers in (("stride", stride), ("dilation", dilation))
    )
    pairs = padding_pairs(op, operands, padding, 2)
    counts = [
        (size + low + high - span) // step + 1
        for size, (low, high), span, step in zip(space, pairs, kernel_span(taps, dilations), strides, strict=True)
    ]
    if min(counts) < 1:
        raise mistake(op, f"a kernel {tuple(taps)} over {tuple(space)}", operands, "a smaller kernel", "padding=1")
    per_window = math.prod(taps) * offset_groups
    wanted = [(moves, 2 * per_window, "offsets")] + ([(rest[0], per_window, "a mask")] if mask is not None else [])
    for symbol, count, name in wanted:
        if len(symbol.shape) != 4 or symbol.shape[1:] != (*counts, count):
            what = f"{name} {shape_text(symbol.shape)}"
            raise mistake(op, what, (*operands, symbol), f"(N, {counts[0]}, {counts[1]}, {count})", "check offset_groups=")
    low, high = zip(*pairs, strict=True)
    over = Windows(tuple(taps), strides, dilations, low, high, tuple(counts))
    found = convolved_at(
        _first(value), factors.permute((3, 2, 0, 1)), _first(moves), None if mask is None else _first(rest[0]), over, groups,
        offset_groups,
    ).permute((0, 2, 3, 1))  # fmt: skip
    return primitives.cast(found if bias is None else apply("add", found, rest[-1]), result)


def _first(x: Symbol) -> Symbol:
    return x.permute((0, 3, 1, 2))
