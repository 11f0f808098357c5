"""Handles reads at positions that are data. Positions out of range are an error in PyTorch; here they are clamped."""

from __future__ import annotations

from ....promotion.dtype import bool_, int64
from ...construction import primitives
from ...dims.dim import Dim, Extent, product
from ...functions.building import apply
from ...symbol import Symbol
from ..node import Node
from ..registry import handles
from .shaping import cut


@handles("embedding.default")
def embedding(
    node: Node, weight: Symbol, indices: Symbol, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Symbol:
    """Take rows of a table."""
    return apply("gather", weight, indices, axis=0)


@handles("index_select.default")
def index_select(node: Node, x: Symbol, dim: int, index: Symbol) -> Symbol:
    """Take positions of an axis."""
    if not x.shape:
        return x
    flat = primitives.reshape(index, (1,)) if not index.shape else index
    return apply("gather", x, flat, axis=node.axis(dim, len(x.shape)))


@handles("gather.default")
def gather(node: Node, x: Symbol, dim: int, index: Symbol, sparse_grad: bool = False) -> Symbol:
    """Take an element of an axis for each element of the positions, which may be fewer along other axes."""
    if not x.shape:
        return x if not index.shape else node.broadcast(x, index.shape)
    if 0 in index.shape:
        return node.broadcast(node.number(0, x.dtype))
    if not index.shape:
        index = primitives.reshape(index, (1,))
    axis = node.axis(dim, len(x.shape))
    part = x
    for other, extent in enumerate(index.shape):
        if other != axis:
            part = cut(part, other, 0, extent)
    return node.shaped(apply("take_along_axis", part, index, axis=axis))


def _positions(node: Node, index: Symbol, extent: Extent) -> Symbol:
    """Return positions as int64 from 0 on: negative ones count from the end."""
    wide = index.cast(int64)
    size = node.graph.dim_value(extent) if isinstance(extent, Dim) else node.number(extent, int64)
    return apply("where", apply("less", wide, node.number(0, int64)), apply("add", wide, size), wide)


@handles("index.Tensor", "_unsafe_index.Tensor")
def index(node: Node, x: Symbol, indices: tuple[Symbol | None, ...]) -> Symbol:
    """Index several axes at once; axes that are not next to each other make those of the positions the first."""
    given = [(axis, each) for axis, each in enumerate(indices) if each is not None]
    if not given:
        return x
    if any(each.dtype is bool_ or each.dtype.name == "uint8" for _, each in given):
        node.unsupported("an index by a mask, whose size data decides", "select with torch.where")
    axes = [axis for axis, _ in given]
    rest = [axis for axis in range(len(x.shape)) if axis not in axes]
    if len(given) == 1:
        return node.shaped(apply("gather", x, given[0][1], axis=axes[0]))
    adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
    before = [axis for axis in rest if axis < axes[0]] if adjacent else []
    after = [axis for axis in rest if axis not in before]
    order = (*before, *axes, *after)
    moved = x if order == tuple(range(len(order))) else apply("permute", x, axes=order)
    flat: Symbol | None = None
    for axis, each in given:
        at = _positions(node, each, x.shape[axis])
        flat = at if flat is None else apply("add", apply("mul", flat, node.operand(x.shape[axis], int64)), at)
    assert flat is not None
    shape = (*[x.shape[a] for a in before], product([x.shape[a] for a in axes]), *[x.shape[a] for a in after])
    return node.shaped(apply("gather", primitives.reshape(moved, shape), flat, axis=len(before)))


@handles("index_put.default", "_unsafe_index_put.default")
def index_put(
    node: Node, x: Symbol, indices: tuple[Symbol | None, ...], values: Symbol, accumulate: bool = False
) -> Symbol:
    """Replace elements where a mask holds by one number."""
    (mask, *others) = indices
    if others or mask is None or mask.dtype is not bool_ or accumulate or values.size != 1:
        node.unsupported("writing at positions that are data", "torch.where, or a mask and one number")
    value = primitives.reshape(values, ()).cast(x.dtype)
    wide = primitives.reshape(mask, (*mask.shape, *(1,) * (len(x.shape) - len(mask.shape))))
    return apply("where", wide, value, x)


@handles("take.default")
def take(node: Node, x: Symbol, index: Symbol) -> Symbol:
    """Take elements by their positions in row-major order."""
    flat = primitives.reshape(x, (product(x.shape),))
    return apply("gather", flat, _positions(node, index, flat.shape[0]), axis=0)

