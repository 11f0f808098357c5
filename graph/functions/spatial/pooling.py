"""Defines poolings that are no plain maximum or mean: with positions, by p-norms; and how positions put elements back."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....promotion.dtype import int64
from ...construction import primitives
from ...dims.dim import Extent, product
from ...errors import describing, mistake
from ...graph import graph_of
from ...ops.opdef import accumulator
from ...protocols import TensorLike
from ...symbol import Symbol
from ...types import DimLike, Shape, as_extent, shape_text
from ..building import apply, as_floats, symbol_of
from ..creation import full
from ..ordered.scattering import scatter
from ..positions import positions
from ..reductions import argmax, max_
from .convolution import lowest_of, pooling_windows
from .geometry import Padding, PerAxis, Windows, numbers_per_axis, padded, padding_pairs


def windows_of(x: Symbol, over: Windows, value: float, first: int) -> Symbol:
    """Return the windows of a tensor whose spatial axes begin at `first`, padded with `value`; their elements come last."""
    wide = padded(x, over, value, first)
    axes = tuple(range(first, first + len(over.kernel)))
    return apply(
        "windows", wide, axes=axes, counts=over.sizes, sizes=over.kernel, strides=over.strides, dilations=over.dilations
    )


# -- positions ---------------------------------------------------------------------------------------------------------


def pooled_with_positions(x: Symbol, over: Windows, first: int, column_major: bool = False) -> tuple[Symbol, Symbol]:
    """Return the largest element of each window and where it lies in its image, counted in row-major order.

    The first one counts where several are largest. Padding never does: of windows that hold nothing else than the lowest
    value it is the first element inside the image.
    """
    rank, spatial = len(over.kernel), x.shape[first : first + len(over.kernel)]
    taken = windows_of(x, over, lowest_of(x.dtype), first)
    best = max_(taken, axis=tuple(range(len(x.shape), len(x.shape) + rank)))
    tap = argmax(apply("reshape", taken, shape=(*best.shape, math.prod(over.kernel))), -1)
    graph = x.graph

    def number(value: Extent) -> Symbol:
        return graph.dim_value(value) if not isinstance(value, int) else graph.scalar(value, int64)

    total: Symbol | None = None
    for axis in reversed(range(rank)) if column_major else range(rank):
        step, gap = over.strides[axis], over.dilations[axis]
        below = math.prod(over.kernel[axis + 1 :])
        within = apply("rem", apply("trunc_div", tap, number(below)), number(over.kernel[axis]))
        begin = apply("mul", positions(best, first + axis), number(step))
        here = apply("sub", apply("add", begin, apply("mul", within, number(gap))), number(over.low[axis]))
        if over.low[axis] != 0:
            here = apply("where", apply("less", here, number(0)), apply("mod", here, number(gap)), here)
        total = here if total is None else apply("add", apply("mul", total, number(spatial[axis])), here)
    assert total is not None
    return best, total


def max_pool_with_indices(
    x: TensorLike, kernel_size: PerAxis, stride: PerAxis | None = None, dilation: PerAxis = 1, padding: Padding = 0,
    ceil_mode: bool = False,
) -> tuple[Symbol, Symbol]:  # fmt: skip
    """Return what `max_pool` returns, and where in its image each element was: the row-major position among the axes of space.

    The positions are int64, of the shape of the result, as torch's `return_indices`; `max_unpool` takes them. Of equal elements
    it is the first one, and NaN is larger than all. The arguments are those of `max_pool`; integers have less than 64 bits.

    Example:
        >>> g = jn.Graph("g", [jn.TensorType(jn.float32, (1, "h", "w", 3), "x")])
        >>> [y.dtype.name for y in jn.max_pool_with_indices(g.inputs[0], 2)]
        ['float32', 'int64']
    """
    op = "max_pool_with_indices"
    value = symbol_of(op, x)
    if not value.dtype.is_float and value.dtype.bits == 64:
        raise mistake(op, f"positions of {value.dtype}", (value,), "floats, or integers of 32 bits and less", "x.cast(int32)")
    over = _windows(op, value, kernel_size, stride, dilation, padding, ceil_mode)
    return pooled_with_positions(value, over, 1)


def _windows(
    op: str, x: Symbol, kernel_size: PerAxis, stride: PerAxis | None, dilation: PerAxis, padding: Padding, ceil_mode: bool
) -> Windows:
    over, pairs = pooling_windows(op, x, kernel_size, stride, dilation, padding)
    low, high = zip(*pairs, strict=True)
    counts = over.counts(x.shape[1:-1], pairs, ceil_mode)
    return Windows(over.sizes, over.strides, over.dilations, low, high, counts)


def put_back(x: Symbol, indices: Symbol, size: Extent, axis: int) -> Symbol:
    """Return zeros with the elements of a tensor at positions along an axis, which becomes one of `size` elements."""
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    return scatter(full(x.graph, shape, False if x.dtype.is_bool else 0, x.dtype), x, indices, axis)


def spread(x: Symbol, indices: Symbol, shape: Shape) -> Symbol:
    """Return zeros of a shape with elements at positions in all of it, in row-major order."""
    values, where = (primitives.reshape(each, (product(each.shape),)) for each in (x, indices))
    return primitives.reshape(put_back(values, where, product(shape), 0), shape)


def max_unpool(
    x: TensorLike, indices: TensorLike, kernel_size: PerAxis, stride: PerAxis | None = None, padding: Padding = 0,
    output_size: Sequence[DimLike] | None = None,
) -> Symbol:  # fmt: skip
    """Put elements back to where `max_pool_with_indices` found them; zeros elsewhere. As torch's max_unpool2d.

    Args:
        x: (N, …, C), with channels last, of any dtype that is stored.
        indices: integers of the shape of `x`: positions in an image, in row-major order. Those out of range are dropped.
        kernel_size: the sizes of the windows of the pooling.
        stride: how far apart they begin; by default windows lie side by side.
        padding: how far they reached beyond the image.
        output_size: the sizes of the image's axes of space; by default those that the windows just cover.

    Raises `UserError` where the shapes differ.

    Example:
        >>> g = jn.Graph("g", [jn.TensorType(jn.float32, (1, 4, 4, 3), "x")])
        >>> jn.max_unpool(*jn.max_pool_with_indices(g.inputs[0], 2), 2).shape
        (1, 4, 4, 3)
    """
    op = "max_unpool"
    graph = graph_of(op, x, indices)
    value, where = graph.as_symbol(x, op), graph.as_symbol(indices, op)
    rank = len(value.shape) - 2
    if rank < 1 or len(where.shape) != len(value.shape) or not where.dtype.is_integer:
        what = f"{shape_text(value.shape)} and positions {where.dtype} {shape_text(where.shape)}"
        raise mistake(op, what, (value, where), "N, …, C, and integers of that shape", "indices of max_pool_with_indices")
    for axis, (one, other) in enumerate(zip(value.shape, where.shape, strict=True)):
        if graph.shape_checks.decide(one, other) is False:
            raise mistake(op, f"axis {axis} is {one}, of the positions {other}", (value, where), "equal sizes", "slice one")
        with describing(op, value, where):
            graph.shape_checks.require_equal(one, other, f"axis {axis} of elements and positions")
    sizes = numbers_per_axis(op, (value, where), "kernel_size", kernel_size, rank)
    strides = sizes if stride is None else numbers_per_axis(op, (value, where), "stride", stride, rank)
    pairs = padding_pairs(op, (value, where), padding, rank)
    image: tuple[Extent, ...] = tuple([
        (extent - 1) * step + size - low - high
        for extent, step, size, (low, high) in zip(value.shape[1:-1], strides, sizes, pairs, strict=True)
    ]) if output_size is None else tuple([as_extent(each, f"{op}: output_size") for each in output_size])  # fmt: skip
    if len(image) != rank or any(isinstance(extent, int) and extent < 0 for extent in image):
        raise mistake(op, f"an image {shape_text(image)}", (value, where), f"{rank} sizes, 0 or more", "output_size=(h, w)")
    batch, channels = value.shape[0], value.shape[-1]
    count = product(value.shape[1:-1])
    flat, at = (primitives.reshape(each, (batch, count, channels)) for each in (value, where))
    return primitives.reshape(put_back(flat, at, product(image), 1), (batch, *image, channels))


# -- norms -------------------------------------------------------------------------------------------------------------


def powers(x: Symbol, order: float) -> Symbol:
    """Return |x| to a power."""
    if order == 1:
        return apply("abs", x)
    return apply("mul", x, x) if order == 2 else apply("pow", apply("abs", x), order)


def root(x: Symbol, order: float) -> Symbol:
    """Return the root of a sum of `powers`."""
    if order == 1:
        return x
    return apply("sqrt", x) if order == 2 else apply("pow", x, 1 / order)


def lp_pooled(x: Symbol, over: Windows, order: float, first: int) -> Symbol:
    """Return the p-norm of each window; 16-bit floats are summed in float32."""
    taken = windows_of(powers(primitives.cast(x, accumulator(x.dtype)), order), over, 0.0, first)
    axes = tuple(range(len(x.shape), len(taken.shape)))
    return primitives.cast(root(apply("reduce_sum", taken, axes=axes, keepdims=False), order), x.dtype)


def lp_pool(
    x: TensorLike, kernel_size: PerAxis, stride: PerAxis | None = None, dilation: PerAxis = 1, padding: Padding = 0,
    ceil_mode: bool = False, p: float = 2.0,
) -> Symbol:  # fmt: skip
    """Return the p-norm of each window of a tensor (N, …, C), with channels last: (Σ |x|ᵖ) to the power 1/p; padding adds 0.

    As ONNX's LpPool. 16-bit floats are summed in float32 and rounded once; integers become the rule set's default float. The
    arguments are those of `max_pool`, and

    Args:
        p: a positive number: 1 for sums of magnitudes, 2 for Euclidean norms.

    Example:
        >>> g = jn.Graph("g", [jn.TensorType(jn.float32, (1, 6, 2), "x")])
        >>> jn.lp_pool(g.inputs[0], 3).shape
        (1, 2, 2)
    """
    op = "lp_pool"
    result, (value,) = as_floats(op, x)
    if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0 < p < math.inf:
        raise mistake(op, f"p is {p!r:.40}", (value,), "a positive number", "p=2")
    over = _windows(op, value, kernel_size, stride, dilation, padding, ceil_mode)
    return primitives.cast(lp_pooled(value, over, float(p), 1), result)
