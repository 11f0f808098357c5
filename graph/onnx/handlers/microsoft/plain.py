"""Handles operators of com.microsoft that are like ones of ai.onnx, but for a name, an order or a layout."""

from __future__ import annotations

from .....promotion.dtype import int64, uint8
from ....functions.building import apply
from ....functions.host.data_sized import unique
from ....functions.quantization.codes import dequantize
from ....functions.reductions import sum_
from ....functions.shaping import unsqueeze
from ....symbol import Symbol
from ...node import Node, Result
from ...registry import handles
from ..spatial.pooling import averaged, largest
from .fused import unpacked
from .quantised import plain, quantised_as

_DOMAIN = "com.microsoft"


@handles("ExpandDims", domain=_DOMAIN)
def expand_dims(node: Node) -> Result:
    """Insert an axis of size 1."""
    x = node[0]
    return unsqueeze(x, (node.axis(node.integer(1, "the axis of ExpandDims"), len(x.shape) + 1),))


@handles("Unique", domain=_DOMAIN)
def distinct(node: Node) -> Result:
    """Return distinct elements in the order in which they come first, which one each is, and counts."""
    node.require(len(node[0].shape) == 1, f"{len(node[0].shape)} axes; one is expected")
    values, _, inverse, counts = unique(node[0], None, False)
    return values, inverse, counts


@handles("CDist", domain=_DOMAIN)
def distances(node: Node) -> Result:
    """Compute the distance of each row of one matrix from each of another."""
    a, b, metric = node[0], node[1], node.attr("metric", "sqeuclidean")
    node.require(metric in ("euclidean", "sqeuclidean"), f"metric {metric!r}")
    node.require(len(a.shape) == len(b.shape) == 2, f"{len(a.shape)} and {len(b.shape)} axes; matrices are expected")
    difference = apply("sub", a.reshape((a.shape[0], 1, a.shape[1])), b.reshape((1, *b.shape)))
    squares = sum_(apply("mul", difference, difference), 2, dtype=a.dtype)
    return apply("sqrt", squares) if metric == "euclidean" else squares


def _first(x: Symbol) -> Symbol:
    rank = len(x.shape)
    return x.permute((0, rank - 1, *range(1, rank - 1)))


def _last(x: Symbol) -> Symbol:
    return x.permute((0, *range(2, len(x.shape)), 1))


@handles("NhwcMaxPool", domain=_DOMAIN)
def max_pool_of_channels_last(node: Node) -> Result:
    """Take the largest code of each window of images with channels last."""
    return _last(largest(node, _first(node[0])))


@handles("QLinearAveragePool", domain=_DOMAIN)
def quantised_average_pool(node: Node) -> Result:
    """Take the mean of what the codes of each window stand for."""
    is_last = bool(node.attr("channels_last", 0))
    x = plain(node, 0)
    found = averaged(node, _first(x) if is_last else x, by_kernel=True)
    return quantised_as(node, _last(found) if is_last else found, 3)


@handles("GatherBlockQuantized", domain=_DOMAIN)
def gather_of_blocks(node: Node) -> Result:
    """Take slices of codes at positions, and return the numbers that they stand for by the scale of each block."""
    codes, positions, scales = node[0], node[1], node[2]
    block, bits = node.attr("block_size", 128), node.attr("bits", 4)
    node.require(block > 0, f"block_size {block}")
    is_packed = codes.dtype is uint8
    node.require(not is_packed or bits in (2, 4, 8), f"bits {bits}", "2, 4 or 8 bits")
    rank = len(codes.shape)
    axis, along = (node.axis(node.attr(name, default), rank) for name, default in (("gather_axis", 0), ("quantize_axis", 1)))
    fits = axis != along and len(scales.shape) == rank and (not is_packed or along == rank - 1)
    node.require(fits, f"gather_axis {axis} and quantize_axis {along} of {rank} axes, a scale of {len(scales.shape)}")
    positions = positions.cast(int64)
    codes, scales = (apply("gather", each, positions, axis=axis) for each in (codes, scales))
    zero = apply("gather", node[3], positions, axis=axis) if node.has(3) else None
    if is_packed:
        codes = unpacked(codes, bits)
        middle = apply("broadcast_to", node.constant(1 << (bits - 1), uint8), shape=scales.shape)
        zero = middle if zero is None else unpacked(zero, bits)[..., : scales.shape[-1]]
    return dequantize(codes, scales, zero, scales.dtype, along + (len(positions.shape) - 1 if along > axis else 0), block)
