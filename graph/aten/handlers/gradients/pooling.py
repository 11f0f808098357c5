"""Handles gradients of poolings: what a window took is given back to its elements."""

from __future__ import annotations

from collections.abc import Sequence

from .....promotion.arrays import Array
from .....promotion.dtype import float32
from ....construction import primitives
from ....dims.dim import Extent, product
from ....functions.building import apply
from ....functions.positions import counting
from ....symbol import Symbol
from ...node import Node
from ...registry import handles
from ..scattering import written
from ..spatial import Averaging, Ranges, adaptive, averaging, divided_by, per_axis, summed


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
        counts: Array | Symbol
        if isinstance(extent, int) and isinstance(count, int):
            windows = averaging(extent, count, *window)
            counts, elements = windows.counts, windows.elements
        else:
            counts, elements = _symbolic(node, extent, count, *window)
        if divisor_override is None:
            found = divided_by(node, found, first + number, counts)
        found = summed(node, found, first + number, elements)
    return _rounded(node, found, grad_output, divisor_override)


def _symbolic(
    node: Node, extent: Extent, count: Extent, size: int, step: int, pad: int, pads_count: bool
) -> tuple[Symbol, Ranges]:
    """Return by how much windows along an axis of symbolic size are divided, and the windows that each element is in."""
    graph = node.graph
    starts = apply("sub", apply("mul", counting(graph, count), step), pad)
    ends = apply("minimum", apply("add", starts, size), graph.dim_value(extent + pad))
    if not pads_count:
        starts, ends = apply("maximum", starts, 0), apply("minimum", ends, graph.dim_value(extent))
    at = apply("add", counting(graph, extent), pad)
    before = apply("add", apply("floor_div", apply("sub", at, size), step), 1)
    behind = apply("add", apply("floor_div", at, step), 1)
    elements = Ranges(
        apply("maximum", before, 0), apply("minimum", behind, graph.dim_value(count)), (size - 1) // step + 1
    )
    return apply("sub", ends, starts), elements


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
        if divisor is None:
            found = divided_by(node, found, first + number, window.counts)
        found = summed(node, found, first + number, window.elements)
    return _rounded(node, found, grad, divisor)


def _rounded(node: Node, found: Symbol, grad: Symbol, divisor: int | None) -> Symbol:
    if divisor is not None:
        found = apply("div", found, node.number(float(divisor), found.dtype))
    return found.cast(grad.dtype)
