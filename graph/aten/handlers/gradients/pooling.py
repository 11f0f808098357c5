"""Handles gradients of poolings: what a window took is given back to its elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .....promotion.arrays import Array
from .....promotion.dtype import DType, float32
from ....construction import primitives
from ....dims.dim import Extent, product
from ....functions.building import apply
from ....functions.positions import counting
from ....symbol import Symbol
from ...node import Node
from ...registry import handles
from ..scattering import written
from ..spatial import Averaging, adaptive, along, averaging, per_axis


@handles("max_pool2d_with_indices_backward.default", "max_pool3d_with_indices_backward.default")
def max_pool_backward(
    node: Node, grad_output: Symbol, x: Symbol, kernel_size: tuple[int, ...], stride: tuple[int, ...],
    padding: tuple[int, ...], dilation: tuple[int, ...], ceil_mode: bool, indices: Symbol,
) -> Symbol:  # fmt: skip
    """Add each gradient at the position that was the largest of its window."""
    return _at_largest(node, grad_output, x, indices, 2 if node.kind.startswith("max_pool2d") else 3)


def _at_largest(node: Node, grad_output: Symbol, x: Symbol, indices: Symbol, rank: int) -> Symbol:
    before, spatial = x.shape[:-rank], x.shape[-rank:]
    images, count = product(before), product(grad_output.shape[-rank:])
    grad, at = (primitives.reshape(each, (images, count)) for each in (grad_output, indices))
    start = node.broadcast(node.number(0.0, x.dtype), (images, product(spatial)))
    if 0 in grad.shape or 0 in start.shape:
        return node.shaped(start)
    return node.shaped(written(start, at, grad, 1, "add"))


@handles("adaptive_max_pool2d_backward.default", "adaptive_max_pool3d_backward.default")
def adaptive_max_pool_backward(node: Node, grad_output: Symbol, x: Symbol, indices: Symbol) -> Symbol:
    """Add each gradient at the position that was the largest of its window."""
    return _at_largest(node, grad_output, x, indices, int(node.kind[len("adaptive_max_pool")]))


@handles("avg_pool2d_backward.default", "avg_pool3d_backward.default")
def average_pool_backward(
    node: Node, grad_output: Symbol, x: Symbol, kernel_size: tuple[int, ...], stride: tuple[int, ...],
    padding: tuple[int, ...], ceil_mode: bool, count_include_pad: bool, divisor_override: int | None,
) -> Symbol:  # fmt: skip
    """Share each gradient among the elements of its window."""
    rank = int(node.kind[len("avg_pool")])
    sizes = per_axis(kernel_size, rank)
    steps, pads = per_axis(stride, rank) or sizes, per_axis(padding, rank)
    first = len(x.shape) - rank
    found = grad_output.cast(float32) if grad_output.dtype.bits == 16 else grad_output
    for number in range(rank):
        extent, count = x.shape[first + number], grad_output.shape[first + number]
        window = (sizes[number], steps[number], pads[number], count_include_pad)
        shares: Array | Symbol
        if isinstance(extent, int) and isinstance(count, int):
            shares = _shares(averaging(extent, count, *window), divisor_override)
        else:
            shares = _symbolic_shares(node, extent, count, *window, divisor_override is None, found.dtype)
        found = along(node, found, first + number, shares)
    return _rounded(node, found, grad_output, divisor_override)


def _symbolic_shares(
    node: Node, extent: Extent, count: Extent, size: int, step: int, pad: int, pads_count: bool, is_divided: bool, dtype: DType
) -> Symbol:
    """Return which share of the gradient of a window (a row) an element (a column) gets, along an axis of symbolic size."""
    starts = apply("sub", apply("mul", counting(node.graph, count), step), pad)
    ends = apply("minimum", apply("add", starts, size), node.graph.dim_value(extent + pad))
    at = primitives.reshape(counting(node.graph, extent), (1, extent))
    from_start, to_end = (primitives.reshape(each, (count, 1)) for each in (starts, ends))
    inside = apply("logical_and", apply("greater_equal", at, from_start), apply("less", at, to_end)).cast(dtype)
    if not is_divided:
        return inside
    if not pads_count:
        starts, ends = apply("maximum", starts, 0), apply("minimum", ends, node.graph.dim_value(extent))
    counts = apply("maximum", apply("sub", ends, starts), 1)
    return apply("div", inside, primitives.reshape(counts.cast(dtype), (count, 1)))


@handles("_adaptive_avg_pool2d_backward.default", "_adaptive_avg_pool3d_backward.default")
def adaptive_average_pool_backward(node: Node, grad_output: Symbol, x: Symbol) -> Symbol:
    """Share each gradient among the elements of its window."""
    rank = int(node.kind[len("_adaptive_avg_pool")])
    first = len(x.shape) - rank
    pairs: Sequence[tuple[Extent, Extent]] = list(zip(x.shape[first:], grad_output.shape[first:], strict=True))
    windows = [adaptive(*node.static(pair, "the gradient of adaptive pooling")) for pair in pairs]
    return _shared(node, grad_output, first, windows, None)


def _shared(node: Node, grad: Symbol, first: int, windows: Sequence[Averaging], divisor: int | None) -> Symbol:
    """Divide gradients by the sizes of windows, and add them at each of their elements, along one axis after the other."""
    found = grad.cast(float32) if grad.dtype.bits == 16 else grad
    for number, window in enumerate(windows):
        found = along(node, found, first + number, _shares(window, divisor))
    return _rounded(node, found, grad, divisor)


def _shares(window: Averaging, divisor: int | None) -> Array:
    """Return which share of the gradient of a window (a row) an element (a column) gets."""
    matrix: Array = window.inside if divisor is not None else window.inside / np.maximum(window.counts, 1)
    return matrix.T


def _rounded(node: Node, found: Symbol, grad: Symbol, divisor: int | None) -> Symbol:
    if divisor is not None:
        found = apply("div", found, node.number(float(divisor), found.dtype))
    return found.cast(grad.dtype)
