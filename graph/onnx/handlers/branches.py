"""Selects between tensors of different sizes: a size that the condition decides is known when a run has come as far."""

from __future__ import annotations

from ....promotion.dtype import int64, string
from ...dims.dim import Extent
from ...functions.building import apply
from ...functions.host.data_sized import size_of
from ...functions.joining import pad
from ...functions.positions import counting
from ...region import is_compiled_region
from ...symbol import Symbol
from ..messages import SizeNeededError
from ..node import Node
from ..values import Value


class EitherShape:
    """Selects between the results of the branches of one If, whose equal pairs of sizes become one size."""

    def __init__(self, node: Node, flag: Symbol, condition: Value) -> None:
        self._node, self._flag, self._condition = node, flag, condition
        self._sizes: dict[tuple[Extent, Extent], Extent] = {}

    def selected(self, yes: Symbol, no: Symbol) -> Symbol:
        """Return one of two tensors that differ in sizes. Both are computed.

        Raises `ValueNeededError` or `UnsupportedError` for other ranks and dtypes, inside of loops and branches, and where the
        condition comes from single numbers that are arguments: a model is specialised to these, and computes one branch.
        """
        node = self._node
        error = node.needed(self._condition, "the type of what an If returns")
        is_alike = yes.dtype is no.dtype and yes.dtype is not string and len(yes.shape) == len(no.shape)
        if not is_alike or is_compiled_region(node.graph) or isinstance(error, SizeNeededError):
            raise error
        deciding = set(getattr(error, "inputs", ()))
        if deciding and all(symbol.size == 1 for symbol in node.graph.inputs if symbol.name in deciding):
            raise error
        for axis, pair in enumerate(zip(yes.shape, no.shape, strict=True)):
            if pair[0] != pair[1]:
                size = self._size(*pair)
                yes, no = (_resized(self._node, each, axis, size) for each in (yes, no))
        return apply("where", self._flag, yes, no)

    def _size(self, yes: Extent, no: Extent) -> Extent:
        if (yes, no) not in self._sizes:
            counts = [_number(self._node, extent) for extent in (yes, no)]
            self._sizes[yes, no] = size_of(apply("where", self._flag, *counts))
        return self._sizes[yes, no]


def _number(node: Node, extent: Extent) -> Symbol:
    return node.constant(extent, int64) if isinstance(extent, int) else node.graph.dim_value(extent)


def _resized(node: Node, x: Symbol, axis: int, size: Extent) -> Symbol:
    """Return a tensor with another size of an axis; what lies beyond its own is not looked at."""
    extent = x.shape[axis]
    if not isinstance(extent, int) or extent == 0:
        x = pad(x, [(0, int(number == axis)) for number in range(len(x.shape))])
        extent = extent + 1
    positions = apply("minimum", counting(x.graph, size), _number(node, extent - 1))
    return apply("gather", x, positions, axis=axis)
