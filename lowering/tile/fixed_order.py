"""Fixes the blocks of reduced axes for all targets, which `numerics="reproducible"` needs besides fixed
orders within blocks.

A row is reduced chunk by chunk, so the length of chunks is part of the order in which it is summed up; so is
the number of keys that attention takes at a time. The target chooses all other blocks, including depths of
products: a product is one chain of additions along its contraction, however it is cut.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ..nest import Nest
from .blocks import power_of_two
from .cost_models.axes import capped
from .schedule import Schedule
from .structure import attention_products, contiguous_axis, is_of_whole_lines, reach, reduced_axes, values_of

WHOLE_ROW, LONGEST_WHOLE_ROW, CHUNK = 4096, 16384, 2048
"""Most elements of a row in one block; the same if the row has to be in one block; elements of a chunk of
other rows."""
WHOLE_COLUMN, COLUMN_CHUNK, SCAN_CHUNK = 16, 8, 32
"""Most rows of columns (side by side) in one block; rows of a chunk of longer columns, and of a scan along
columns."""
KEYS = 64


def in_fixed_order(nest: Nest, schedule: Schedule) -> Schedule:
    """Returns the schedule with blocks of reduced axes that depend on nothing but the nest."""
    template = nest.template
    if template == "attention":
        _, values, _ = attention_products(nest)
        keys = capped(nest.axes[values.k].extent, KEYS)
        return replace(schedule, blocks=(*[each for each in schedule.blocks if each[0] != values.k], (values.k, keys)))
    reduced = reduced_axes(nest)
    if template not in ("row", "scan") or not reduced or is_of_whole_lines(nest):
        return schedule
    kept = tuple([each for each in schedule.blocks if each[0] not in reduced])
    inner = _inner(nest, reduced)
    fixed = _blocks(nest, reduced, inner)
    return replace(schedule, blocks=(*kept, *fixed) if inner in reduced else (*fixed, *kept), lanes=False)


def _inner(nest: Nest, reduced: tuple[int, ...]) -> int:
    """Returns the axis that is contiguous in memory, or else the last reduced one."""
    kept = [axis for axis in range(len(nest.axes)) if axis not in reduced]
    found = contiguous_axis(nest, [*kept, *reduced])
    return reduced[-1] if found is None else found


def _blocks(nest: Nest, reduced: tuple[int, ...], inner: int) -> tuple[tuple[int, int], ...]:
    extents = {axis: nest.axes[axis].extent for axis in reduced}
    sizes = {axis: power_of_two(extent) for axis, extent in extents.items() if type(extent) is int}
    whole = prod(sizes.values()) if len(sizes) == len(reduced) else None
    order = [*[axis for axis in reduced if axis != inner], *[axis for axis in reduced if axis == inner]]
    longest = WHOLE_COLUMN if inner not in reduced else LONGEST_WHOLE_ROW if _must_be_whole(nest) else WHOLE_ROW
    if whole is not None and whole <= longest:
        return tuple([(axis, sizes[axis]) for axis in order])
    if inner in reduced:
        return ((inner, capped(nest.axes[inner].extent, CHUNK)),)
    scans = values_of(nest, "scan")
    axis = nest.body[scans[0]].attrs["axis"] if scans else max(reduced, key=lambda each: sizes.get(each, CHUNK))
    return ((axis, capped(nest.axes[axis].extent, SCAN_CHUNK if scans else COLUMN_CHUNK)),)


def _must_be_whole(nest: Nest) -> bool:
    """Returns whether the nest cannot be computed in chunks: it has reductions over different axes, or of a
    scan."""
    over = {frozenset(nest.body[number].attrs["over"]) for number in values_of(nest, "reduce")} - {frozenset()}
    scans = set(values_of(nest, "scan"))
    return len(over) > 1 or any(scans & reach(nest, nest.body[number].operands) for number in values_of(nest, "reduce"))
