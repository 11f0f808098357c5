"""Handles convolutions: windows of a tensor with channels last, times the weights as a matrix.

The permutations from and to channels first cancel between convolutions (`lowering/graph_passes/channels_last.py`).
"""

from __future__ import annotations

import math

import numpy as np

from .....promotion.dtype import float32, int32
from ....dims.dim import Extent, maximum
from ....functions.building import apply
from ....functions.spatial import convolution
from ....functions.spatial.geometry import Windows, kernel_span, padded
from ....functions.spatial.residues import convolved_backwards
from ....functions.spatial.transposed import overlapped
from ....symbol import Symbol
from ...node import Node, Result
from ...registry import handles
from ...values import Known
from ..normalization import per_channel
from ..quantisation import requantised
from .windows import padding, per_axis, windows


def _kernel(node: Node, weights: Symbol | Known) -> tuple[int, ...]:
    """Return the kernel, which the weights have and an attribute may repeat."""
    node.require(len(weights.shape) >= 3, f"weights of {len(weights.shape)} axes; 3 at least are expected")
    kernel = node.static_sizes(weights.shape[2:], "a kernel")
    node.require(math.prod(kernel) <= node.limits.unrolled_nodes, f"a kernel of {math.prod(kernel)} taps", "a smaller kernel")
    stated = node.attr("kernel_shape", None)
    node.require(stated is None or tuple(stated) == kernel, f"kernel_shape {stated} and weights of {list(kernel)}")
    return kernel


def _group(node: Node, x: Symbol, channels: Extent) -> int:
    group: int = node.attr("group", 1)
    node.require(group > 0, f"group is {group}")
    node.require(len(x.shape) >= 3, f"a tensor of {len(x.shape)} axes; batch, channels and space are expected")
    node.require(
        not isinstance(channels, int) or not isinstance(x.shape[1], int) or x.shape[1] == channels * group,
        f"{x.shape[1]} channels, the weights take {channels} for each of {group} groups",
    )
    return group


def kernel_of(node: Node, weights: Symbol | Known) -> Symbol:
    """Return weights (M, C / group, …) as a kernel (…, C / group, M): constants in that order."""
    order = (*range(2, len(weights.shape)), 1, 0)
    if isinstance(weights, Symbol):
        return weights.permute(order)
    name = None if weights.name is None else f"{weights.name}.channels_last"
    return node.symbol_of(Known(np.ascontiguousarray(weights.array.transpose(order)), name))


def channels_last(x: Symbol) -> Symbol:
    """Return a tensor (N, C, …) as (N, …, C)."""
    return x.permute((0, *range(2, len(x.shape)), 1))


def _weights(node: Node, position: int) -> Symbol | Known:
    value = node.value(position)
    return value if isinstance(value, Known) and value.made is None else node[position]


def convolved(node: Node, x: Symbol, weights: Symbol | Known, over: Windows, group: int) -> Symbol:
    """Convolve a tensor (N, C, …) with weights (M, C / group, …), padded with zeros."""
    rank = len(over.kernel)
    wide = padded(channels_last(x), over, 0, 1)
    result = convolution.convolved(wide, kernel_of(node, weights), over.sizes, over.strides, over.dilations, group)
    return result.permute((0, rank + 1, *range(1, rank + 1)))


@handles("Conv")
def conv(node: Node) -> Result:
    """Convolve, with padding, strides, dilations and groups."""
    x, weights = node[0], _weights(node, 1)
    kernel, group = _kernel(node, weights), _group(node, x, weights.shape[1])
    over = windows(node, x.shape[2:], kernel)
    result = convolved(node, x, weights, over, group).cast(x.dtype)
    bias = node.get(2)
    return result if bias is None else apply("add", result, per_channel(bias, len(x.shape)))


@handles("ConvInteger")
def conv_integer(node: Node) -> Result:
    """Convolve integers of 8 bits in int32, without their zero points."""
    return _integer_conv(node, node[0], 1, 2, 3)


def _integer_weights(node: Node, weights: int, w_zero: int) -> Symbol | Known:
    """Return integer weights without their zero point, in int32; constants stay constants."""
    value, zero = node.value(weights), node.value(w_zero) if node.has(w_zero) else None
    rank = len(node.shape(weights))
    if isinstance(value, Known) and (zero is None or isinstance(zero, Known)):
        array = value.array.astype(np.int32)
        if zero is not None:
            array = array - zero.array.astype(np.int32).reshape((-1, *(1,) * (rank - 1)))
        return Known(array, value.name)
    factors = node[weights].cast(int32)
    if zero is None:
        return factors
    offset = node[w_zero].cast(int32)
    shape = () if offset.shape in ((), (1,)) else (*offset.shape, *(1,) * (rank - 1))
    return apply("sub", factors, offset.reshape(shape))


def _integer_conv(node: Node, x: Symbol, weights: int, x_zero: int, w_zero: int) -> Symbol:
    factors = _integer_weights(node, weights, w_zero)
    kernel, group = _kernel(node, factors), _group(node, x, factors.shape[1])
    over = windows(node, x.shape[2:], kernel)
    wide = x.cast(int32)
    if node.has(x_zero):
        wide = apply("sub", wide, node[x_zero].cast(int32).reshape(()))
    return convolved(node, wide, factors, over, group).cast(int32)


@handles("QLinearConv")
def qlinear_conv(node: Node) -> Result:
    """Convolve quantised tensors and quantise the result."""
    total = _integer_conv(node, node[0], 3, 2, 5)
    return requantised_conv(total, node[1], node[4], node[6], node[7], node[8] if node.has(8) else None)


def requantised_conv(
    total: Symbol, x_scale: Symbol, w_scale: Symbol, y_scale: Symbol, y_zero: Symbol, bias: Symbol | None = None
) -> Symbol:
    """Return sums of products (N, M, …) as codes: with a bias, scaled, rounded, moved and clamped."""
    rank = len(total.shape)
    if bias is not None:
        total = apply("add", total, per_channel(bias.cast(int32), rank))
    w_scale = w_scale.cast(float32)
    w_scale = w_scale.reshape(()) if w_scale.shape in ((), (1,)) else per_channel(w_scale, rank)
    product_of_scales = apply("mul", x_scale.cast(float32).reshape(()), w_scale)
    return requantised(total, apply("div", product_of_scales, y_scale.cast(float32).reshape(())), y_zero)


@handles("ConvTranspose")
def conv_transpose(node: Node) -> Result:
    """Convolve backwards."""
    x, weights = node[0], _weights(node, 1)
    rank = len(x.shape) - 2
    kernel, group = _kernel(node, weights), node.attr("group")
    node.require(all(size > 0 for size in kernel), f"a kernel {list(kernel)}")
    node.require(
        group > 0 and rank > 0 and len(kernel) == rank, f"group {group}, a kernel {list(kernel)} for {rank} spatial axes"
    )
    strides, dilations = per_axis(node, "strides", rank), per_axis(node, "dilations", rank)
    node.require(math.prod(strides) <= node.limits.unrolled_nodes, f"strides {list(strides)}", "smaller strides")
    begins, sizes = _transposed(node, x.shape[2:], kernel, strides, dilations)
    channels = weights.shape[0]
    node.require(not isinstance(channels, int) or channels % group == 0, f"{channels} channels in {group} groups")
    node.require(
        not isinstance(channels, int) or not isinstance(x.shape[1], int) or x.shape[1] == channels,
        f"{x.shape[1]} channels, the weights take {channels}",
    )
    result = convolved_backwards(
        channels_last(x), weights if isinstance(weights, Symbol) else weights.array, begins, sizes, strides, dilations, group
    ).permute((0, rank + 1, *range(1, rank + 1)))  # fmt: skip
    result = result.cast(x.dtype)
    bias = node.get(2)
    return result if bias is None else apply("add", result, per_channel(bias, len(x.shape)))


def _transposed(
    node: Node, spatial: tuple[Extent, ...], kernel: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]
) -> tuple[list[Extent], list[Extent]]:
    """Return how much of the full result is cut at the beginning of each axis, and the size of what is left."""
    rank = len(spatial)
    mode, shape = node.attr("auto_pad"), node.attr("output_shape", None)
    node.require(mode in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"), f"auto_pad {mode!r}")
    extra = tuple(node.attr("output_padding", None) or (0,) * rank)
    node.require(not shape or len(shape) >= rank, f"output_shape {shape} for {rank} spatial axes")
    node.require(len(extra) == rank, f"output_padding {list(extra)} for {rank} spatial axes")
    before, after = padding(node, rank)
    begins: list[Extent] = []
    sizes: list[Extent] = []
    for axis, (extent, span) in enumerate(zip(spatial, kernel_span(kernel, dilations), strict=True)):
        full = strides[axis] * (extent - 1) + span + extra[axis]
        if shape or mode.startswith("SAME"):
            size: Extent = shape[axis - rank] if shape else extent * strides[axis]
            total = maximum(full - size, 0)
            begins.append(total // 2 if mode == "SAME_UPPER" else total - total // 2)
            sizes.append(size)
        else:
            begins.append(before[axis] if mode == "NOTSET" else 0)
            sizes.append(full - (before[axis] + after[axis] if mode == "NOTSET" else 0))
        node.require(not isinstance(sizes[-1], int) or sizes[-1] > 0, f"a result of size {sizes[-1]}")
    return begins, sizes


@handles("Col2Im")
def col2im(node: Node) -> Result:
    """Add the columns of windows back into an image."""
    x = node[0]
    image, block = node.ints(1, "the shape of the image"), node.ints(2, "the shape of the blocks")
    rank = len(image)
    node.require(len(block) == rank and all(size > 0 for size in block) and len(x.shape) == 3, "a (N, C, L) tensor and blocks")
    strides, dilations = per_axis(node, "strides", rank), per_axis(node, "dilations", rank)
    before, after = padding(node, rank)
    spans = kernel_span(block, dilations)
    sizes = [(n + b + a - span) // s + 1 for n, b, a, span, s in zip(image, before, after, spans, strides, strict=True)]
    node.require(all(size > 0 for size in sizes), f"blocks {list(block)} in an image {list(image)}")
    taps = math.prod(block)
    node.require(taps <= node.limits.unrolled_nodes, f"blocks of {taps} elements", "smaller blocks")
    apart = x.reshape((x.shape[0], x.shape[1] // taps, *block, *sizes))
    over = Windows(tuple(block), strides, dilations, before, after, tuple(sizes))
    return overlapped(lambda position: apart[(slice(None), slice(None), *position)], over, image, 2)
