"""Finds the accesses of a nest that can go through tensor descriptors, which TMA copies move.

An access reads or writes blocks of a tensor whose axes and strides are the nest's if it starts where its buffer starts and one
of its block dimensions is contiguous. The kernel takes such a tensor as a descriptor.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...promotion.dataclass import dataclass
from ..nest import Affine, Extent, Nest
from ..schedule.extents import exact_quotient
from .blocks import Coordinate, Dimension, Merged

ALIGNMENT = 16
"""Alignment in bytes of the strides of a tensor map and of the rows of a block."""
MAX_AXES = 5
MIN_ROWS = 8
"""Least number of rows of a block: the period of a swizzle."""
DTYPES = frozenset(("float16", "bfloat16"))
"""Dtypes whose operands matrix instructions read in their memory layout."""


@dataclass(frozen=True, slots=True)
class DescriptorAccess:
    """A load (`number` indexes the nest's body) or store (`number` indexes its stores) through a descriptor.

    `axes`: the nest's axes that are the tensor's, outermost first.
    """

    is_store: bool
    number: int
    axes: tuple[int, ...]

    def at(self, nest: Nest) -> Affine:
        at: Affine = nest.stores[self.number].at if self.is_store else nest.body[self.number].attrs["at"]
        return at

    def strides(self, nest: Nest) -> tuple[Extent, ...]:
        at = self.at(nest)
        return tuple([at.coefficient(axis) for axis in self.axes])


def descriptor_axes(
    nest: Nest, at: Affine, itemsize: int, coordinates: Mapping[int, Coordinate]
) -> tuple[int, ...] | None:
    """Returns the axes of the tensor that holds the block at `coordinates`, the block's two last.

    None if no descriptor expresses the access.
    """
    if any(isinstance(coordinates[axis], Merged) for axis, _ in at.terms):
        return None
    blocked = [axis for axis, _ in at.terms if isinstance(coordinates[axis], Dimension)]
    unit = [axis for axis in blocked if at.coefficient(axis) == 1]
    rest = [axis for axis, _ in at.terms if axis not in blocked]
    if at.offset != 0 or len(blocked) != 2 or len(unit) != 1 or len(at.terms) > MAX_AXES:
        return None
    rows = next(axis for axis in blocked if axis != unit[0])
    step = ALIGNMENT // itemsize
    for axis in (*rest, rows):
        stride = at.coefficient(axis)
        if exact_quotient(stride, step) is None or (type(stride) is int and stride <= 0):
            return None
    row_block, column_block = coordinates[rows], coordinates[unit[0]]
    assert isinstance(row_block, Dimension)
    assert isinstance(column_block, Dimension)
    if row_block.size < MIN_ROWS or column_block.size % step or row_block.may_precede or column_block.may_precede:
        return None
    if any(type(nest.axes[axis].extent) is int and not nest.axes[axis].extent for axis, _ in at.terms):
        return None
    return (*rest, rows, unit[0])
