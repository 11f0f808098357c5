"""Handles poolings: reductions over windows, axis by axis where the order does not matter."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .....promotion.arrays import Array
from .....promotion.dtype import DType, float32, int64
from ....dims.dim import Extent
from ....functions.building import apply
from ....functions.creation import full
from ....functions.ordered.scattering import scatter
from ....graph import Graph
from ....symbol import Symbol
from ....types import Shape
from ...node import Node, Result
from ...registry import handles
from .windows import Windows, along, padded, padding, per_axis, tap, windows


def _lowest(dtype: DType) -> float:
    return -math.inf if dtype.is_float else int(dtype.min_value)


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


@handles("MaxPool")
def max_pool(node: Node) -> Result:
    """Take the largest element of each window, and on request its position; padding never counts."""
    x = node[0]
    over = _over(node, x)
    wide = padded(x, over, _lowest(x.dtype))
    order = node.attr("storage_order", 0)
    if not node.wants(1):
        return _separably("maximum", wide, over)
    shape = node.static_shape(0)
    node.require_few(math.prod([size for size in over.sizes if isinstance(size, int)]), "the positions of MaxPool")
    node.require_few(shape[0] * shape[1], "the positions of MaxPool")
    best: Symbol | None = None
    where: Symbol | None = None
    for position in over.taps:
        value = tap(wide, over, position)
        numbers = node.constant(_positions(shape, over, position, order), int64)
        if best is None or where is None:
            best, where = value, apply("broadcast_to", numbers, shape=value.shape)
            continue
        larger = apply("greater", value, best)
        if x.dtype.is_float:
            larger = apply(
                "logical_or", larger, apply("logical_and", apply("is_nan", value), apply("logical_not", apply("is_nan", best)))
            )
        best, where = apply("where", larger, value, best), apply("where", larger, numbers, where)
    assert best is not None
    assert where is not None
    images = np.arange(shape[0] * shape[1], dtype=np.int64).reshape(shape[0], shape[1], *(1,) * len(over.kernel))
    return best, apply("add", where, node.constant(images * math.prod(shape[2:]), int64))


def _positions(shape: tuple[int, ...], over: Windows, position: tuple[int, ...], column_major: int) -> Array:
    """Return the flat positions of one tap of each window in its image; those in the padding are never chosen."""
    spatial = shape[2:]
    total: Array = np.zeros((1, 1, *(1,) * len(spatial)), np.int64)
    for axis, offset in enumerate(position):
        count, low = int(over.sizes[axis]), int(over.low[axis])  # type: ignore[arg-type]
        here = np.arange(count, dtype=np.int64) * over.strides[axis] + offset * over.dilations[axis] - low
        stride = math.prod(spatial[:axis]) if column_major else math.prod(spatial[axis + 1 :])
        total = total + (here * stride).reshape(count, *(1,) * (len(spatial) - 1 - axis))
    return total


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
    x = node[0]
    over = _over(node, x)
    value = x.cast(float32) if x.dtype.bits < 32 else x
    total = _separably("add", padded(value, over, 0.0), over)
    counts = counted(node.graph, x.shape[2:], over, node.attr("count_include_pad", 0)).cast(total.dtype)
    return apply("div", total, counts).cast(x.dtype)


def _power(node: Node) -> tuple[Callable[[Symbol], Symbol], Callable[[Symbol], Symbol]]:
    order = float(node.attr("p"))
    node.require(0 < order < math.inf, f"p is {order}")
    if order == 1:
        return (lambda x: apply("abs", x)), (lambda x: x)
    if order == 2:
        return (lambda x: apply("mul", x, x)), (lambda x: apply("sqrt", x))
    return (lambda x: apply("pow", apply("abs", x), order)), (lambda x: apply("pow", x, 1 / order))


@handles("LpPool")
def lp_pool(node: Node) -> Result:
    """Take the p-norm of each window; the padding counts as zeros."""
    x = node[0]
    over = _over(node, x)
    power, root = _power(node)
    value = x.cast(float32) if x.dtype.bits < 32 else x
    return root(_separably("add", padded(power(value), over, 0.0), over)).cast(x.dtype)


@handles("GlobalLpPool")
def global_lp_pool(node: Node) -> Result:
    """Take the p-norm over all of space."""
    x = node[0]
    power, root = _power(node)
    value = x.cast(float32) if x.dtype.bits < 32 else x
    axes = tuple(range(2, len(x.shape)))
    return root(apply("reduce_sum", power(value), axes=axes, keepdims=True)).cast(x.dtype)


@handles("MaxUnpool")
def max_unpool(node: Node) -> Result:
    """Put elements back to where MaxPool found them, zeros elsewhere.

    They count in an image of the size that the attributes imply; a larger `output_shape` adds zeros after it.
    """
    x = node[0]
    shape = node.static_shape(0)
    rank = len(shape) - 2
    kernel = node.attr("kernel_shape")
    node.require(rank > 0 and len(kernel) == rank, f"a kernel {kernel} for {rank} spatial axes")
    strides = per_axis(node, "strides", rank)
    before, after = padding(node, rank)
    sizes = [(n - 1) * s + k - b - a for n, s, k, b, a in zip(shape[2:], strides, kernel, before, after, strict=True)]
    node.require(all(size > 0 for size in sizes), f"an image of {sizes}")
    inferred = (*shape[:2], *sizes)
    zeros = full(node.graph, (math.prod(inferred),), 0.0, x.dtype)
    image = scatter(zeros, x.reshape((-1,)), node[1].reshape((-1,)), 0).reshape(inferred)
    if not node.has(2):
        return image
    wanted = node.ints(2, "the output_shape of MaxUnpool")
    node.require(
        len(wanted) == len(inferred) and all(w >= i for w, i in zip(wanted, inferred, strict=True)), f"output_shape {wanted}"
    )
    high = tuple([w - i for w, i in zip(wanted, inferred, strict=True)])
    return apply("pad", image, low=(0,) * len(high), high=high, mode="constant", value=0.0)
