"""Builds the map template: elementwise work, broadcasts and re-indexing. A program computes one tile of one,
two or three axes.

The axis that is contiguous in the stores is the last block dimension. A load that is contiguous along another
blocked axis is read in its own order and transposed in registers (`tt.trans`), so both sides of a
transposition touch whole cache lines.
"""

from __future__ import annotations

from ..blocks import Coordinate
from ..emit import Frame, Kernel
from ..schedule import Schedule


def open_frame(kernel: Kernel, schedule: Schedule, grid_axes: list[int]) -> Frame:
    """Opens the frame of one program, with every grid axis at its block or at one position. Block order is
    the schedule's."""
    blocks = dict(schedule.blocks)
    starts = kernel.grid([(axis, blocks.get(axis, 1)) for axis in grid_axes])
    ranks = {axis: rank for rank, (axis, _) in enumerate(schedule.blocks)}
    coordinates: dict[int, Coordinate] = {}
    for axis in grid_axes:
        size = blocks.get(axis, 1)
        coordinates[axis] = starts[axis] if size == 1 else kernel.dimension(axis, size, starts[axis], ranks[axis])
    return Frame(kernel, coordinates)


def build_map(kernel: Kernel, schedule: Schedule) -> list[tuple[int, int]]:
    """Emits the program; returns the grid as (axis, block) pairs."""
    axes = list(range(len(kernel.nest.axes)))
    blocks = dict(schedule.blocks)
    frame = open_frame(kernel, schedule, axes)
    for store in kernel.nest.stores:
        frame.store(store)
    return [(axis, blocks.get(axis, 1)) for axis in axes]
