"""Handles poolings: reductions over windows, axis by axis where the order does not matter."""

from __future__ import annotations

import math

from .....promotion.dtype import float32
from ....dims.dim import Extent, at_most, product
from ....functions.building import apply
from ....functions.creation import full
from ....functions.positions import counting
from ....functions.spatial.convolution import lowest_of
from ....functions.spatial.geometry import Windows, along, padded
from ....functions.spatial.pooling import lp_pooled, pooled_with_positions, powers, root, spread
from ....graph import Graph
from ....symbol import Symbol
from ....types import Shape, shape_text
from ...node import Node, Result
from ...registry import handles
from .windows import padding, per_axis, windows


def _separably(op: str, x: Symbol, over: Windows) -> Symbol:
    """Combine the elements of each window of a padded tensor, along one axis after the other."""
    for axis, size in enumerate(over.kernel):
        result = along(x, over, axis, 0)
        for offset in range(1, size):
            result = apply(op, result, along(x, over, axis, offset))
        x = result
    return x


def _over(node: Node, x: Symbol) -> Windows:
    node.require(len(x.shape) >= 3, f"a tensor of {len(x.shape)} axes; batch, channels and space are expected")
    return windows(node, x.shape[2:], node.attr("kernel_shape"))


def largest(node: Node, x: Symbol) -> Symbol:
    """Return the largest element of each window of images with channels first."""
    over = _over(node, x)
    return _separably("maximum", padded(x, over, lowest_of(x.dtype)), over)


@handles("MaxPool")
def max_pool(node: Node) -> Result:
    """Take the largest element of each window, and on request its position; padding never counts."""
    x = node[0]
    order = node.attr("storage_order", 0)
    if not node.wants(1):
        return largest(node, x)
    over = _over(node, x)
    node.require(order in (0, 1), f"storage_order {order}")
    best, where = pooled_with_positions(x, over, 2, bool(order))
    images = counting(node.graph, product(x.shape[:2])).reshape((*x.shape[:2], *(1,) * len(over.kernel)))
    return best, apply("add", where, apply("mul", images, node.graph.dim_value(product(x.shape[2:]))))


def counted(graph: Graph, spatial: Shape, over: Windows, include: int) -> Symbol:
    """Return how many elements of each window count: those of the input, or of the padded input as the model states it."""
    total: Symbol | None = None
    for axis, extent in enumerate(spatial):
        low, high = (over.low[axis], over.high[axis]) if include else (0, 0)
        line: tuple[Extent, ...] = (1, 1, *(extent if a == axis else 1 for a in range(len(over.kernel))))
        ones = full(graph, line, 1.0, float32)
        if include:
            ones = full(graph, tuple([n + low + high if a == axis + 2 else 1 for a, n in enumerate(line)]), 1.0, float32)
        single = Windows(
            (over.kernel[axis],), (over.strides[axis],), (over.dilations[axis],), (0 if include else over.low[axis],), (0,),
            (over.sizes[axis],),
        )  # fmt: skip
        flat = ones.reshape((1, 1, ones.shape[axis + 2]))
        count = _separably("add", padded(flat, single, 0.0), single)
        shaped = count.reshape((1, 1, *(over.sizes[axis] if a == axis else 1 for a in range(len(over.kernel)))))
        total = shaped if total is None else apply("mul", total, shaped)
    assert total is not None
    return total


@handles("AveragePool")
def average_pool(node: Node) -> Result:
    """Take the mean of each window; the padding counts as zeros on request, what rounding up adds never does."""
    return averaged(node, node[0])


def averaged(node: Node, x: Symbol, by_kernel: bool = False) -> Symbol:
    """Return the mean of each window of images with channels first.

    by_kernel: whether sums are divided by the elements of a whole window where the padding counts, whatever rounding up adds.
    """
    over = _over(node, x)
    value = x.cast(float32) if x.dtype.bits < 32 else x
    total = _separably("add", padded(value, over, 0.0), over)
    include = node.attr("count_include_pad", 0)
    if include and by_kernel:
        return apply("div", total, float(math.prod(over.kernel))).cast(x.dtype)
    counts = counted(node.graph, x.shape[2:], over, include).cast(total.dtype)
    return apply("div", total, counts).cast(x.dtype)


def _order(node: Node) -> float:
    order = float(node.attr("p"))
    node.require(0 < order < math.inf, f"p is {order}")
    return order


@handles("LpPool")
def lp_pool(node: Node) -> Result:
    """Take the p-norm of each window; the padding counts as zeros."""
    x = node[0]
    rank = len(x.shape)
    last = x.permute((0, *range(2, rank), 1))
    return lp_pooled(last, _over(node, x), _order(node), 1).permute((0, rank - 1, *range(1, rank - 1)))


@handles("GlobalLpPool")
def global_lp_pool(node: Node) -> Result:
    """Take the p-norm over all of space."""
    x, order = node[0], _order(node)
    value = x.cast(float32) if x.dtype.bits < 32 else x
    axes = tuple(range(2, len(x.shape)))
    return root(apply("reduce_sum", powers(value, order), axes=axes, keepdims=True), order).cast(x.dtype)


@handles("MaxUnpool")
def max_unpool(node: Node) -> Result:
    """Put elements back to where MaxPool found them, zeros elsewhere.

    They count in an image of the size that the attributes imply; a larger `output_shape` adds zeros after it.
    """
    x = node[0]
    shape = node.shape(0)
    rank = len(shape) - 2
    kernel = node.attr("kernel_shape")
    node.require(rank > 0 and len(kernel) == rank, f"a kernel {kernel} for {rank} spatial axes")
    strides = per_axis(node, "strides", rank)
    before, after = padding(node, rank)
    sizes = [(n - 1) * s + k - b - a for n, s, k, b, a in zip(shape[2:], strides, kernel, before, after, strict=True)]
    node.require(all(not isinstance(size, int) or size > 0 for size in sizes), f"an image of {sizes}")
    inferred = (*shape[:2], *sizes)
    image = spread(x, node[1], inferred)
    if not node.has(2):
        return image
    wanted = node.sizes(2, "the output_shape of MaxUnpool")
    node.require(
        len(wanted) == len(inferred) and all(at_most(i, w) for w, i in zip(wanted, inferred, strict=True)),
        f"output_shape {wanted} for an image of {shape_text(inferred)}",
    )  # fmt: skip
    high = tuple([w - i for w, i in zip(wanted, inferred, strict=True)])
    return apply("pad", image, low=(0,) * len(high), high=high, mode="constant", value=0.0)
