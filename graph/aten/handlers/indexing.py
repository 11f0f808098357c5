"""Handles reads at positions that are data. Positions out of range are an error in PyTorch; here they are clamped.

Where masks select, and where distinct elements are looked for, data decides the size, which has PyTorch's name for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....promotion.dataclass import dataclass
from ....promotion.dtype import DType, bool_, int64
from ...construction import primitives
from ...dims.dim import Dim, Extent, product
from ...functions.building import apply
from ...functions.host import data_sized
from ...ops.shape import broadcast_shapes
from ...symbol import Symbol
from ...types import Shape
from ..node import Node
from ..program import decided
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


@dataclass(frozen=True, slots=True, eq=False)
class Indexed:
    """Several axes of a tensor under positions.

    Attributes:
        order: its axes, with the indexed ones side by side.
        moved: the tensor with its axes in this order.
        before, after: the sizes of the axes before and after those.
        extent: the product of their sizes.
        positions: as int64 in row-major order of them.
        shape: that of the positions.
    """

    order: tuple[int, ...]
    moved: Symbol
    before: tuple[Extent, ...]
    after: tuple[Extent, ...]
    extent: Extent
    positions: Symbol

    @property
    def shape(self) -> tuple[Extent, ...]:
        """The shape of the positions."""
        return self.positions.shape


def is_mask(index: Symbol) -> bool:
    """Return whether an index is true where elements are taken, and no position."""
    return index.dtype is bool_ or index.dtype.name == "uint8"


def indexed(node: Node, x: Symbol, given: Sequence[tuple[int, Symbol]]) -> Indexed:
    """Return what is at positions of axes; axes that are not next to each other make those of the positions the first."""
    axes = [axis for axis, _ in given]
    rest = [axis for axis in range(len(x.shape)) if axis not in axes]
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
    shape = x.shape
    return Indexed(order, moved, tuple([shape[a] for a in before]), tuple([shape[a] for a in after]),
                   product([shape[a] for a in axes]), flat)  # fmt: skip


@handles("index.Tensor", "_unsafe_index.Tensor")
def index(node: Node, x: Symbol, indices: tuple[Symbol | None, ...]) -> Symbol:
    """Index several axes at once."""
    given = [(axis, each) for axis, each in enumerate(indices) if each is not None]
    if not given:
        return x
    given = _without_masks(node, x, given)
    if len(given) == 1:
        return node.shaped(apply("gather", x, given[0][1], axis=given[0][0]))
    selected = indexed(node, x, given)
    table = primitives.reshape(selected.moved, (*selected.before, selected.extent, *selected.after))
    return node.shaped(apply("gather", table, selected.positions, axis=len(selected.before)))


def new_sizes(node: Node, x: Symbol) -> list[Dim]:
    """Return the sizes of the result that data decides, and that the operand does not have."""
    known = {extent for extent in x.shape if isinstance(extent, Dim)}
    return [extent for extent in node.shape if isinstance(extent, Dim) and decided(extent) and extent not in known]


def _without_masks(node: Node, x: Symbol, given: Sequence[tuple[int, Symbol]]) -> list[tuple[int, Symbol]]:
    """Return indices with the positions where a mask holds in place of it; how many they are is the size that PyTorch names."""
    if not any(is_mask(each) for _, each in given):
        return list(given)
    names = new_sizes(node, x)
    node.require(len(given) == 1, "an index by a mask beside others", "one mask alone")
    node.require(len(names) == 1, "an index by a mask, whose size data decides,", "select with torch.where")
    axis, mask = given[0]
    found = data_sized.host("nonzero", mask, sizes=(names[0],))
    return [(axis + number, found[number]) for number in range(len(mask.shape))]


@handles("nonzero.default")
def nonzero(node: Node, x: Symbol) -> Symbol:
    """Return the positions of what is not zero, one row each."""
    count, _ = node.shape
    if not isinstance(count, Dim):  # of no elements there are no positions
        node.require(count == 0, f"exactly {count} elements that are not zero", "export it with sizes that data decides")
        return node.broadcast(node.number(0, int64))
    return apply("permute", data_sized.host("nonzero", x, sizes=(count,)), axes=(1, 0))


@handles("masked_select.default")
def masked_select(node: Node, x: Symbol, mask: Symbol) -> Symbol:
    """Return the elements where a mask holds."""
    (count,) = node.shape
    if not isinstance(count, Dim):  # of no elements none is selected
        node.require(count == 0, f"exactly {count} selected elements", "export it with sizes that data decides")
        return node.broadcast(node.number(0, x.dtype))
    shape = broadcast_shapes((x.shape, mask.shape), node.graph.shape_checks)
    wide, holds = (primitives.reshape(node.broadcast(each, shape), (product(shape),)) for each in (x, mask))
    return apply("gather", wide, data_sized.host("nonzero", holds, sizes=(count,))[0], axis=0)


@handles("_unique2.default")
def unique(
    node: Node, x: Symbol, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False  # noqa: A002
) -> tuple[Symbol, Symbol, Symbol]:
    """Return the distinct elements in order, which of them each one is, and how often it is there."""
    return _distinct(node, primitives.reshape(x, (product(x.shape),)), 0, x.shape)


@handles("unique_dim.default")
def unique_dim(
    node: Node, x: Symbol, dim: int, sorted: bool = True, return_inverse: bool = False,  # noqa: A002
    return_counts: bool = False,
) -> tuple[Symbol, Symbol, Symbol]:  # fmt: skip
    """Return the distinct slices of an axis in order, which of them each one is, and how often it is there."""
    axis = node.axis(dim, len(x.shape))
    return _distinct(node, x, axis, (x.shape[axis],))


def _distinct(node: Node, x: Symbol, axis: int, shape: Shape) -> tuple[Symbol, Symbol, Symbol]:
    names = new_sizes(node, x)
    node.require(len(names) == 1, "a number of distinct elements that is known beforehand", "leave it out for no elements")
    (count,) = names

    def part(name: str, dtype: DType) -> Symbol:
        return data_sized.host("unique", x, sizes=(count,), dtype=dtype, axis=axis, sorted=True, part=name)

    # what is not asked for is empty
    inverse, counts = (node.broadcast(node.number(0, int64), node.result(at).shape) for at in (1, 2))
    if node.result(1).shape == shape:
        inverse = primitives.reshape(part("inverse", int64), shape)
    if node.result(2).shape == (count,):
        counts = part("counts", int64)
    return part("values", x.dtype), inverse, counts


@handles("take.default")
def take(node: Node, x: Symbol, index: Symbol) -> Symbol:
    """Take elements by their positions in row-major order."""
    flat = primitives.reshape(x, (product(x.shape),))
    return apply("gather", flat, _positions(node, index, flat.shape[0]), axis=0)

