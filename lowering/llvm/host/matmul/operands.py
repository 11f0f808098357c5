"""Describes the operands of a product in memory, and what of the product is read."""

from __future__ import annotations

from collections.abc import Sequence

from .....promotion.dataclass import dataclass
from ...elementwise import constant
from ...values import V, i64
from ..loops.coordinates import Bound
from ..nodes import Affine, Map, Node, Splat
from ..scalars import ZERO
from .decoding import Decoding


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix in memory: element [i, j] at `pointer + i · row + j · column` (elements), with limits from its mask.

    gathered: its rows begin at the offsets that `row` points to.  decoding: how micro-kernels make floats of it, if memory
    holds it in fewer bits, with the arguments of that in `decoded`.  moved: memory holds bytes that are 128 more, unsigned.
    """

    pointer: V
    row: V
    column: V
    bounds: tuple[Bound, ...]
    gathered: bool = False
    decoding: Decoding | None = None
    decoded: tuple[V, ...] = ()
    moved: bool = False

    def limits(self, dim: int) -> set[str]:
        """Returns the limits that its mask sets on a dimension."""
        return {bound.limit.operand() for bound in self.bounds if bound.dim == dim}


def rows_of(bounds: Sequence[Bound]) -> tuple[Bound, ...]:
    """Returns the bounds of rows."""
    return tuple([bound for bound in bounds if bound.dim == 0])


@dataclass(frozen=True, slots=True)
class Wanted:
    """The bounds beyond which the product, and its right operand, are never read."""

    result: Sequence[Bound] = ()
    right: Sequence[Bound] = ()

    @property
    def left(self) -> tuple[Bound, ...]:
        """The bounds beyond which rows of the left operand, which are those of the result, are never read."""
        return rows_of(self.result)

    @property
    def turned(self) -> Wanted:
        """The bounds of the transposed product."""
        return Wanted([Bound(1 - bound.dim, bound.limit) for bound in self.result])


def within(shape: tuple[int, ...], bound: Bound) -> Map:
    """Returns the mask of a block that a bound says."""
    coordinate = Affine(shape, "i64", ZERO, tuple(i64(1) if d == bound.dim else None for d in range(len(shape))))
    return Map(shape, "i1", "arith.cmpi", (coordinate, Splat(shape, "i64", bound.limit)), {"predicate": "slt", "bound": bound})


def shared_limits(left: Sequence[Bound], right: Sequence[Bound]) -> list[V]:
    """Returns the limits along k beyond which both operands are zero, given the bounds of each."""
    known = {bound.limit.operand() for bound in left if bound.dim == 1}
    return [bound.limit for bound in right if bound.dim == 0 and bound.limit.operand() in known]


def cut(product: Map, limits: Sequence[V]) -> Node:
    """Returns products along the second dimension, zero beyond limits as they are anyway: sums of them then end there."""
    node: Node = product
    for limit in limits:
        zero = Splat(product.shape, product.elem, constant(0, product.elem))
        node = Map(product.shape, product.elem, "arith.select", (within(product.shape, Bound(1, limit)), node, zero))
    return node


EVERYTHING = Wanted()
