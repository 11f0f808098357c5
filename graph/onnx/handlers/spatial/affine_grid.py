"""Handles AffineGrid: the positions that affine maps give the pixels of an image, for sizes that may have names."""

from __future__ import annotations

from .....promotion.dtype import float64
from ....dims.dim import Extent, product
from ....functions.building import apply
from ....functions.joining import concat
from ....functions.linalg import matmul
from ....functions.positions import counting
from ....symbol import Symbol
from ...node import Node, Result
from ...registry import handles


def _line(node: Node, extent: Extent, align_corners: bool) -> Symbol:
    """Return coordinates of the pixels of an axis, from -1 to 1: of their centers, or with the outer ones at the ends."""
    at = apply("mul", counting(node.graph, extent).cast(float64), 2.0)
    size = node.graph.dim_value(extent).cast(float64)
    if not align_corners:
        return apply("sub", apply("div", apply("add", at, 1.0), size), 1.0)
    steps = apply("sub", size, 1.0)
    alone = apply("less_equal", steps, 0.0)
    spread = apply("sub", apply("div", at, apply("where", alone, 1.0, steps)), 1.0)
    return apply("where", alone, 0.0, spread)


@handles("AffineGrid")
def affine_grid(node: Node) -> Result:
    """Apply the maps (N, d, d + 1) to the coordinates of all pixels, the last axis of the image first."""
    maps, sizes = node[0], node.sizes(1, "the size of AffineGrid")
    rank = len(sizes) - 2
    node.require(rank in (2, 3) and len(maps.shape) == 3, f"{len(sizes)} sizes; (N, C, H, W) or (N, C, D, H, W) are expected")
    node.require(
        tuple(maps.shape[1:]) == (rank, rank + 1), f"maps {tuple(maps.shape)} for {rank} axes", f"maps (N, {rank}, {rank + 1})"
    )
    spatial, corners = sizes[2:], bool(node.attr("align_corners", 0))
    full = (*spatial, 1)
    columns = []
    for axis in reversed(range(rank)):
        line = _line(node, spatial[axis], corners).reshape(tuple([spatial[axis] if a == axis else 1 for a in range(rank + 1)]))
        columns.append(apply("broadcast_to", line, shape=full))
    columns.append(apply("broadcast_to", node.constant(1.0, float64), shape=full))
    points = concat(columns, rank).cast(maps.dtype)
    flat = points.reshape((product(spatial), rank + 1))
    return matmul(flat, maps.permute((0, 2, 1))).reshape((maps.shape[0], *spatial, rank))

