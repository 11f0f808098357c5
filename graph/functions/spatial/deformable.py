"""Defines `deform_conv`: a convolution whose taps are moved by data."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...construction import primitives
from ...dims.dim import product
from ...errors import describing, mistake
from ...graph import graph_of
from ...ops.opdef import accumulator
from ...protocols import TensorLike
from ...symbol import Symbol
from ...types import shape_text
from ..building import apply
from ..joining import concat
from ..linalg import matmul
from ..positions import counting
from .geometry import Padding, PerAxis, Windows, kernel_span, numbers_per_axis, padding_pairs
from .sampling import image_of, linear_taps


def convolved_at(
    x: Symbol, weights: Symbol, offset: Symbol, mask: Symbol | None, over: Windows, group: int, offset_groups: int
) -> Symbol:
    """Convolve images (N, C, H, W) with weights (M, C / group, R, S), whose taps offsets (N, 2 · taps, …) move.

    mask: (N, taps, …), by which taps are multiplied, or None.
    """
    batch, channels = x.shape[0], x.shape[1]
    taps, length = math.prod(over.kernel), product(over.sizes)
    spread = (batch * offset_groups, channels // offset_groups, *x.shape[2:])
    image = image_of(primitives.reshape(x, spread), False)
    moves = primitives.reshape(offset, (batch * offset_groups, taps, 2, length))
    factors = None if mask is None else primitives.reshape(mask, (batch * offset_groups, taps, length))
    columns: list[Symbol] = []
    for number, position in enumerate(over.taps):
        where = [apply("add", moves[:, number, axis], base) for axis, base in enumerate(_bases(offset, over, position))]
        value = image.weighted([linear_taps(each) for each in where], True)
        if factors is not None:
            value = apply("mul", value, image.beside(factors[:, number]))
        columns.append(primitives.reshape(value, (batch, channels, 1, length)))
    filters, depth = weights.shape[0], weights.shape[1] * taps
    matrix = primitives.reshape(weights, (group, filters // group, depth))
    wide = primitives.reshape(concat(columns, 2), (batch, group, depth, length))
    return primitives.reshape(matmul(matrix, wide), (batch, filters, *over.sizes))


def _bases(offset: Symbol, over: Windows, position: Sequence[int]) -> list[Symbol]:
    """Return, for each axis, where a tap of all windows (1, windows) lies, before it is moved: in the dtype of offsets."""
    shifts = [index * gap - first for index, gap, first in zip(position, over.dilations, over.low, strict=True)]
    graph, lines = offset.graph, list(zip(over.sizes, over.strides, shifts, strict=True))
    known = [np.arange(n) * step + shift for n, step, shift in lines if isinstance(n, int) and isinstance(shift, int)]
    if len(known) == len(lines):
        grid = np.meshgrid(*known, indexing="ij")
        return [graph.constant(base.reshape(1, -1).astype(offset.dtype.numpy), offset.dtype) for base in grid]
    found = []
    for axis, (count, step, shift) in enumerate(lines):
        at = apply("mul", counting(graph, count), step) if step != 1 else counting(graph, count)
        at = at if shift == 0 else apply("add", at, shift if isinstance(shift, int) else graph.dim_value(shift))
        beside = [count if each == axis else 1 for each in range(len(over.sizes))]
        wide = apply("broadcast_to", primitives.reshape(at.cast(offset.dtype), beside), shape=over.sizes)
        found.append(primitives.reshape(wide, (1, product(over.sizes))))
    return found


def deform_conv(
    x: TensorLike, kernel: TensorLike, offset: TensorLike, mask: TensorLike | None = None, stride: PerAxis = 1,
    dilation: PerAxis = 1, padding: Padding = 0, groups: int = 1, offset_groups: int = 1, bias: TensorLike | None = None,
) -> Symbol:  # fmt: skip
    """Convolve images with windows whose taps are moved by offsets (Dai et al., 2017) and weighted by a mask.

    As ONNX's DeformConv and torchvision's deform_conv2d, with channels last. Taps are read between pixels, linearly, and are 0
    outside. Operands join in a float dtype, the result's; 16-bit floats are computed in float32 and rounded once.

    Args:
        x: (N, H, W, C), of known C. Symbolic H and W leave room for one window at least, which a launch checks.
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
    whole = [*value.shape[3:], *factors.shape]
    fits = len(value.shape) == 4 and len(factors.shape) == 4 and all(size != 0 for size in value.shape[1:3])
    if not fits or not all(isinstance(size, int) and size > 0 for size in whole):
        what = f"{shape_text(value.shape)} and a kernel {shape_text(factors.shape)}"
        expected = "(N, H, W, C) and (R, S, C / groups, M), of known C and M and a known kernel"
        raise mistake(op, what, operands, expected, "fix the sizes")
    *space, channels = value.shape[1], value.shape[2], int(value.shape[3])  # type: ignore[arg-type]
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
    graph = value.graph
    if any(isinstance(count, int) and count < 1 for count in counts):
        raise mistake(op, f"a kernel {tuple(taps)} over {shape_text(space)}", operands, "a smaller kernel", "padding=1")
    for size in (*space, *counts):
        graph.shape_checks.require_at_least(size, 1, f"{op}: a kernel {tuple(taps)} over {shape_text(space)} has a window")
    per_window = math.prod(taps) * offset_groups
    wanted = [(moves, 2 * per_window, "offsets")] + ([(rest[0], per_window, "a mask")] if mask is not None else [])
    for symbol, count, name in wanted:
        what, expected = f"{name} {shape_text(symbol.shape)}", f"(N, {counts[0]}, {counts[1]}, {count})"
        agree = [graph.shape_checks.decide(*pair) for pair in zip(symbol.shape[1:], (*counts, count), strict=False)]
        if len(symbol.shape) != 4 or False in agree or symbol.shape[3] != count:
            raise mistake(op, what, (*operands, symbol), expected, "check offset_groups=")
        with describing(op, *operands, symbol):
            for size, each in zip(symbol.shape[1:3], counts, strict=True):
                graph.shape_checks.require_equal(size, each, f"{what}; {expected} is expected")
    low, high = zip(*pairs, strict=True)
    over = Windows(tuple(taps), strides, dilations, low, high, tuple(counts))
    found = convolved_at(
        _first(value), factors.permute((3, 2, 0, 1)), _first(moves), None if mask is None else _first(rest[0]), over, groups,
        offset_groups,
    ).permute((0, 2, 3, 1))  # fmt: skip
    return primitives.cast(found if bias is None else apply("add", found, rest[-1]), result)


def _first(x: Symbol) -> Symbol:
    return x.permute((0, 3, 1, 2))
