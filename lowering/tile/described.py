"""Accesses as blocks of described tensors: what TMA copies can move.

An access of a nest is one to a tensor whose axes are the nest's, with their strides, if it starts where its buffer starts and
one of its block dimensions lies contiguously. Such a tensor is handed to the kernel as a descriptor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..nest import Affine, Extent, Nest
from ..schedule.extents import exact_quotient
from .blocks import Dimension
from .words import Word

ALIGNMENT = 16
"""Bytes: strides of a tensor map are multiples of it, and so is a row of a block."""
MOST_AXES = 5
LEAST_ROWS = 8
"""Of a block: what a swizzle repeats after."""
DTYPES = frozenset(("float16", "bfloat16"))
"""Of operands that matrix instructions take as they lie in memory."""


@dataclass(frozen=True, slots=True)
class Access:
    """A load (a number of the nest's body) or store (a number of its stores) through a descriptor; `axes` of the nest,
    outermost first, are those of the tensor."""

    is_store: bool
    number: int
    axes: tuple[int, ...]

    def at(self, nest: Nest) -> Affine:
        at: Affine = nest.stores[self.number].at if self.is_store else nest.body[self.number].attrs["at"]
        return at

    def strides(self, nest: Nest) -> tuple[Extent, ...]:
        at = self.at(nest)
        return tuple([at.coefficient(axis) for axis in self.axes])


def described_axes(
    nest: Nest, at: Affine, itemsize: int, places: Mapping[int, Dimension | Word]
) -> tuple[int, ...] | None:
    """The axes of the tensor that a block at `places` is a part of, the two of the block last; None if a descriptor cannot say
    it."""
    blocked = [axis for axis, _ in at.terms if isinstance(places[axis], Dimension)]
    unit = [axis for axis in blocked if at.coefficient(axis) == 1]
    rest = [axis for axis, _ in at.terms if axis not in blocked]
    if at.offset != 0 or len(blocked) != 2 or len(unit) != 1 or len(at.terms) > MOST_AXES:
        return None
    rows = next(axis for axis in blocked if axis != unit[0])
    step = ALIGNMENT // itemsize
    for axis in (*rest, rows):
        stride = at.coefficient(axis)
        if exact_quotient(stride, step) is None or (type(stride) is int and stride <= 0):
            return None
    row_block, column_block = places[rows], places[unit[0]]
    assert isinstance(row_block, Dimension)
    assert isinstance(column_block, Dimension)
    if row_block.size < LEAST_ROWS or column_block.size % step or row_block.may_precede or column_block.may_precede:
        return None
    if any(type(nest.axes[axis].extent) is int and not nest.axes[axis].extent for axis, _ in at.terms):
        return None
    return (*rest, rows, unit[0])
