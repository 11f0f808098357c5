"""Handles reading and writing at positions that are data."""

from __future__ import annotations

from ....promotion.dtype import int64
from ...dims.dim import Extent
from ...functions.building import apply
from ...functions.indexing import gather_nd
from ...functions.ordered.out_of_range import with_mode
from ...functions.ordered.scattering import scatter, scatter_nd
from ...functions.positions import counting
from ...symbol import Symbol
from ..node import Node, Result
from ..registry import handles
from ..values import Known


def _require_inside(node: Node, position: int, extent: Extent) -> None:
    """Raise `UserError` where constant positions are out of range; others are clamped by a run."""
    value = node.value(position)
    node.require(node.dtype(position).is_integer, f"positions of {node.dtype(position)}; integers are expected")
    if isinstance(value, Known) and isinstance(extent, int) and value.array.size:
        low, high = int(value.array.min()), int(value.array.max())
        node.require(-extent <= low and high < extent, f"positions {low} to {high} on an axis of size {extent}")


@handles("Gather")
def gather(node: Node) -> Result:
    """Take slices of an axis at positions."""
    x = node[0]
    axis = node.axis(node.attr("axis"), len(x.shape))
    _require_inside(node, 1, x.shape[axis])
    return apply("gather", x, _checked(node, node[1], x.shape[axis], axis), axis=axis)


@handles("GatherElements")
def gather_elements(node: Node) -> Result:
    """Take single elements along an axis; the positions may have fewer of the other axes than the data."""
    x, positions = node[0], node[1]
    axis = node.axis(node.attr("axis"), len(x.shape))
    node.require(
        len(x.shape) == len(positions.shape), f"positions of rank {len(positions.shape)} for data of rank {len(x.shape)}"
    )
    _require_inside(node, 1, x.shape[axis])
    stops = tuple([extent if a == axis else positions.shape[a] for a, extent in enumerate(x.shape)])
    if stops != x.shape:
        x = apply("slice", x, starts=(0,) * len(stops), stops=stops, steps=(1,) * len(stops))
    return apply("take_along_axis", x, _checked(node, positions, x.shape[axis], axis), axis=axis)


@handles("GatherND")
def slices(node: Node) -> Result:
    """Take slices at tuples of positions, for each batch on its own."""
    x, positions, batch = node[0], node[1], int(node.attr("batch_dims", 0))
    node.require(0 <= batch < len(positions.shape), f"batch_dims {batch} of {len(positions.shape)} axes")
    depth: Extent = positions.shape[-1]
    if not isinstance(depth, int):
        raise node.size_needed((depth,), f"tuples of {depth} positions")
    node.require(batch + depth <= len(x.shape), f"{depth} positions after {batch} batch axes, the data has {len(x.shape)} axes")
    is_checked = node.checks_positions and positions.op.name not in ("constant", "weight")
    return gather_nd(x, positions, batch, "error" if is_checked else "clip")


def _checked(node: Node, positions: Symbol, extent: Extent, axis: int) -> Symbol:
    """Return positions on an axis, which end a run that are out of range, if the import asks for that."""
    if not node.checks_positions or positions.op.name in ("constant", "weight"):
        return positions
    return with_mode(node.op, positions, extent, axis, "error", ("clip", "error"), ())


@handles("ScatterElements", "Scatter")
def scatter_elements(node: Node) -> Result:
    """Write single elements along an axis; the positions may have fewer of the other axes than the data."""
    x = node[0]
    axis = node.axis(node.attr("axis"), len(x.shape))
    _require_inside(node, 1, x.shape[axis])
    mode = "error" if node.checks_positions else "drop"
    return scatter(x, node[2], node[1], axis, node.attr("reduction", "none"), mode)


@handles("ScatterND")
def write_slices(node: Node) -> Result:
    """Write slices at tuples of positions."""
    depth = node.shape(1)[-1:]
    if depth and not isinstance(depth[0], int):
        raise node.size_needed(depth, f"tuples of {depth[0]} positions")
    mode = "error" if node.checks_positions else "drop"
    return scatter_nd(node[0], node[2], node[1], node.attr("reduction", "none"), mode)


@handles("TensorScatter")
def tensor_scatter(node: Node) -> Result:
    """Write a part of a cache, at a position of its own in each batch: each element of the result is an old or a new one."""
    cache, update = node[0], node[1]
    rank, mode = len(cache.shape), node.attr("mode")
    axis = node.axis(node.attr("axis"), rank)
    node.require(axis > 0 and len(update.shape) == rank, f"axis {axis} of {rank} axes, the first of which is the batch")
    node.require(mode in ("linear", "circular"), f"mode {mode!r}")
    length, size = cache.shape[axis], update.shape[axis]
    steps = counting(node.graph, length).reshape((1, length))
    if node.has(2):
        steps = apply("sub", steps, node[2].cast(int64).reshape((-1, 1)))
    if mode == "circular":
        steps = apply("mod", steps, node.graph.dim_value(length))
    steps = steps.reshape((steps.shape[0], *[length if a == axis else 1 for a in range(1, rank)]))
    inside = apply("logical_and", apply("greater_equal", steps, 0), apply("less", steps, node.graph.dim_value(size)))
    source = apply("maximum", apply("minimum", steps, node.graph.dim_value(size - 1)), 0)
    return apply("where", inside, apply("take_along_axis", update, source, axis=axis), cache)
