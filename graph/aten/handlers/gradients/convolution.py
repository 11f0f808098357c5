"""Handles gradients of convolutions, which are convolutions again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from .....promotion.dtype import float32
from ....dims.dim import Extent, product
from ....functions.building import apply
from ....functions.joining import stack
from ....functions.linalg import matmul
from ....functions.spatial.convolution import conv
from ....symbol import Symbol
from ...node import Node
from ...registry import handles
from ..shaping import cut
from ..spatial import convolution, per_axis


@handles("convolution_backward.default")
def convolution_backward(
    node: Node, grad_output: Symbol, x: Symbol, weight: Symbol, bias_sizes: tuple[Extent, ...] | None, stride: tuple[int, ...],
    padding: tuple[int, ...], dilation: tuple[int, ...], transposed: bool, output_padding: tuple[int, ...], groups: int,
    output_mask: tuple[bool, ...],
) -> tuple[Symbol | None, Symbol | None, Symbol | None]:  # fmt: skip
    """Return the gradients that are asked for, of image, kernel and what is added."""
    rank = len(weight.shape) - 2
    node.require(len(x.shape) == rank + 2, "the gradient of a convolution of a single image", "a batch of images")
    steps, pads, gaps = per_axis(stride, rank), per_axis(padding, rank), per_axis(dilation, rank)
    image = kernel = added = None
    if output_mask[0] and transposed:
        image = convolution(node, grad_output, weight, None, steps, pads, gaps, False, (0,) * rank, groups)
    elif output_mask[0]:
        image = _image(node, grad_output, x, weight, steps, pads, gaps, groups)
    if output_mask[1]:
        windows, values = (grad_output, x) if transposed else (x, grad_output)
        kernel = _kernel(node, values, windows, weight, steps, pads, gaps, groups)
    if output_mask[2]:
        wide = grad_output.cast(float32) if grad_output.dtype.bits == 16 else grad_output
        axes = (0, *range(2, rank + 2))
        added = apply("reduce_sum", wide, axes=axes, keepdims=False).cast(node.result(2).dtype)
    return image, kernel, added


def _image(
    node: Node, grad: Symbol, x: Symbol, weight: Symbol, steps: Sequence[int], pads: Sequence[int], gaps: Sequence[int],
    groups: int,
) -> Symbol:  # fmt: skip
    """Convolve backwards: to the size of the image, whose last elements no window may have reached.

    Of symbolic sizes these are cut off behind the most elements that there may be: one fewer than a step.
    """
    sizes = node.static(weight.shape[2:], "the kernel of a convolution")
    extra = []
    for axis, (step, pad, gap) in enumerate(zip(steps, pads, gaps, strict=True)):
        rest = x.shape[2 + axis] - ((grad.shape[2 + axis] - 1) * step - 2 * pad + gap * (sizes[axis] - 1) + 1)
        extra.append(rest if isinstance(rest, int) else step - 1)
    found = convolution(node, grad, weight, None, tuple(steps), tuple(pads), tuple(gaps), True, tuple(extra), groups)
    for axis in range(2, len(x.shape)):
        if not isinstance(x.shape[axis], int):
            found = cut(found, axis, 0, x.shape[axis])
    return node.shaped(found, x.shape)


def _kernel(
    node: Node, grad: Symbol, x: Symbol, weight: Symbol, steps: Sequence[int], pads: Sequence[int], gaps: Sequence[int],
    groups: int,
) -> Symbol:  # fmt: skip
    """Correlate the image with the gradient: images are channels, and steps between windows are gaps between elements."""
    wide = float32 if x.dtype.bits == 16 else x.dtype
    rank, dtype = len(steps), node.result(1).dtype
    alone = groups != 1 and weight.shape[:2] == (groups, 1)
    if not alone and any(not isinstance(extent, int) for extent in (*grad.shape[2:], *x.shape[2:])):
        return _by_positions(node, grad.cast(wide), x.cast(wide), weight, steps, pads, gaps, groups).cast(dtype)
    if alone:
        return _alone(node, grad.cast(wide), x.cast(wide), weight, steps, pads, gaps).cast(dtype)
    batch, channels, *sizes = x.shape
    spatial = tuple(range(2, rank + 2))
    if groups == 1:
        images = apply("permute", x.cast(wide), axes=(1, *spatial, 0))
    else:  # channels of one group are images, and images of one group its channels
        apart = apply("reshape", x.cast(wide), shape=(batch, groups, channels // groups, *sizes))
        turned = apply("permute", apart, axes=(2, *range(3, rank + 3), 1, 0))
        images = apply("reshape", turned, shape=(channels // groups, *sizes, batch * groups))
    taps = apply("permute", grad.cast(wide), axes=(*spatial, 0, 1))
    found = conv(images, taps, gaps, steps, [(pad, pad) for pad in pads], groups)
    for axis in range(rank):
        found = cut(found, axis + 1, 0, weight.shape[axis + 2])
    return apply("permute", found, axes=(rank + 1, 0, *range(1, rank + 1))).cast(dtype)


def _parts(
    node: Node, grad: Symbol, x: Symbol, weight: Symbol, steps: Sequence[int], pads: Sequence[int], gaps: Sequence[int]
) -> Iterator[Symbol]:
    """Yield, for each element of a kernel, the elements of the image that it multiplied, in the shape of the gradient."""
    low = (0, 0, *pads)
    wide = apply("pad", x, low=low, high=low, mode="constant", value=0.0) if any(pads) else x
    sizes = node.static(weight.shape[2:], "the kernel of a convolution")
    for position in itertools.product(*map(range, sizes)):
        part = wide
        for axis, (offset, step, gap) in enumerate(zip(position, steps, gaps, strict=True)):
            first, count = offset * gap, grad.shape[axis + 2]
            part = cut(part, axis + 2, first, first + (count - 1) * step + 1, step)
        yield node.shaped(part, (*x.shape[:2], *grad.shape[2:]))


def _by_positions(
    node: Node, grad: Symbol, x: Symbol, weight: Symbol, steps: Sequence[int], pads: Sequence[int], gaps: Sequence[int],
    groups: int,
) -> Symbol:  # fmt: skip
    """Return the gradient of a kernel as a product for each of its elements: sums run over images and symbolic sizes."""
    batch, count = x.shape[0], product(grad.shape[2:])

    def grouped(values: Symbol) -> Symbol:
        channels = values.shape[1] // groups
        apart = apply("reshape", values, shape=(batch, groups, channels, count))
        turned = apply("permute", apart, axes=(1, 2, 0, 3))
        return apply("reshape", turned, shape=(groups, channels, batch * count))

    left = grouped(grad)
    found = [matmul(left, grouped(part).transpose()) for part in _parts(node, grad, x, weight, steps, pads, gaps)]
    return apply("reshape", stack(found, 3), shape=weight.shape)


def _alone(
    node: Node, grad: Symbol, x: Symbol, weight: Symbol, steps: Sequence[int], pads: Sequence[int], gaps: Sequence[int]
) -> Symbol:
    """Return the gradient of a kernel with one channel per group: a sum of products for each of its elements."""
    axes = (0, *range(2, len(x.shape)))
    found = [
        apply("reduce_sum", apply("mul", part, grad), axes=axes, keepdims=False)
        for part in _parts(node, grad, x, weight, steps, pads, gaps)
    ]
    return apply("reshape", stack(found, 1), shape=weight.shape)
