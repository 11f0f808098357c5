"""Defines `affine_grid`: the positions that affine maps give the pixels of an image."""

from __future__ import annotations

from collections.abc import Sequence

from ....promotion.dtype import float64
from ...construction import primitives
from ...dims.dim import Extent, product
from ...errors import mistake
from ...graph import Graph
from ...protocols import TensorLike
from ...symbol import Symbol
from ...types import DimLike, as_extent, shape_text
from ..building import apply, as_floats
from ..joining import concat
from ..linalg import matmul
from ..positions import counting


def _line(graph: Graph, extent: Extent, align_corners: bool) -> Symbol:
    """Return coordinates of the pixels of an axis, from -1 to 1: of their centers, or with the outer ones at the ends."""
    at = apply("mul", counting(graph, extent).cast(float64), 2.0)
    size = graph.dim_value(extent).cast(float64)
    if not align_corners:
        return apply("sub", apply("div", apply("add", at, 1.0), size), 1.0)
    steps = apply("sub", size, 1.0)
    alone = apply("less_equal", steps, 0.0)
    spread = apply("sub", apply("div", at, apply("where", alone, 1.0, steps)), 1.0)
    return apply("where", alone, 0.0, spread)


def grid_of(maps: Symbol, sizes: Sequence[Extent], align_corners: bool) -> Symbol:
    """Apply maps (N, d, d + 1) to the coordinates of all pixels of an image of d axes, the last of them first."""
    rank, graph = len(sizes), maps.graph
    columns = []
    for axis in reversed(range(rank)):
        line = _line(graph, sizes[axis], align_corners)
        line = primitives.reshape(line, tuple([sizes[axis] if a == axis else 1 for a in range(rank + 1)]))
        columns.append(apply("broadcast_to", line, shape=(*sizes, 1)))
    columns.append(apply("broadcast_to", graph.scalar(1.0, float64), shape=(*sizes, 1)))
    points = concat(columns, rank).cast(maps.dtype)
    flat = primitives.reshape(points, (product(sizes), rank + 1))
    return primitives.reshape(matmul(flat, maps.permute((0, 2, 1))), (maps.shape[0], *sizes, rank))


def affine_grid(theta: TensorLike, size: Sequence[DimLike], align_corners: bool = False) -> Symbol:
    """Return the grid for `grid_sample` that affine maps make of images, as ONNX's AffineGrid and torch's affine_grid.

    Args:
        theta: (N, d, d + 1), for images of d axes of space, 2 or 3: a matrix and a shift. Integers become the rule set's
            default float; 16-bit floats are computed in float32.
        size: the d sizes of the images' axes of space; ints, names or dims.
        align_corners: whether -1 and 1 are the centers of the outer pixels, or else their outer edges.

    Returns (N, *size, d). Raises `UserError` for maps and sizes of other dimensions.

    Example:
        >>> g = jn.Graph("g", [jn.TensorType(jn.float32, (1, 2, 3), "theta")])
        >>> jn.affine_grid(g.inputs[0], ("h", 7)).shape
        (1, Dim('h'), 7, 2)
    """
    op = "affine_grid"
    result, (maps,) = as_floats(op, theta)
    sizes = tuple([as_extent(extent, f"{op}: size") for extent in size])
    rank = len(sizes)
    if rank not in (2, 3) or len(maps.shape) != 3 or maps.shape[1:] != (rank, rank + 1):
        what = f"maps {shape_text(maps.shape)} for images {shape_text(sizes)}"
        raise mistake(op, what, (maps,), "2 or 3 sizes d, and maps (N, d, d + 1)", "leave batch and channels out of size=")
    return primitives.cast(grid_of(maps, sizes, bool(align_corners)), result)
