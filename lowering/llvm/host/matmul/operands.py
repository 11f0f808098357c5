"""Describes the operands of a product in memory, and what of the product is read."""

from __future__ import annotations

from collections.abc import Sequence

from .....promotion.dataclass import dataclass
from ...values import V
from ..loops.coordinates import Bound
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


@dataclass(frozen=True, slots=True)
class Wanted:
    """The bounds beyond which the product, and its right operand, are never read."""

    result: Sequence[Bound] = ()
    right: Sequence[Bound] = ()

    @property
    def turned(self) -> Wanted:
        """The bounds of the transposed product."""
        return Wanted([Bound(1 - bound.dim, bound.limit) for bound in self.result])


EVERYTHING = Wanted()
