"""Finds which axes of a nest are contiguous in memory, on which every cost model relies."""

from __future__ import annotations

from collections.abc import Sequence

from ..nest import Affine, Extent, Nest
from .blocks import power_of_two
from .schedule import is_whole
from .structure import accesses, contiguous_axis, unit_axis


def capped(extent: Extent, cap: int) -> int:
    """Returns the block of an axis: its extent rounded up to a power of two, at most `cap`."""
    return min(power_of_two(extent), cap) if type(extent) is int else cap


def inner_axis(nest: Nest) -> int:
    """Returns the axis that is contiguous in the widest store, else in most of the loads, else the last
    one."""
    widest = max(nest.stores, key=lambda store: len(store.at.terms), default=None)
    found = unit_axis(widest.at) if widest is not None else None
    if found is None:
        found = contiguous_axis(nest, range(len(nest.axes)))
    return len(nest.axes) - 1 if found is None else found


def transposed_axis(nest: Nest, inner: int) -> int | None:
    """Returns the axis along which a load that strides along `inner` is contiguous, or None."""
    for value in nest.loads:
        at: Affine = value.attrs["at"]
        step, unit = at.coefficient(inner), unit_axis(at)
        far = type(step) is not int or abs(step) > 1
        if (
            unit is not None
            and unit != inner
            and far
            and not value.operands
            and not is_whole(nest.axes[unit].extent, 4)
        ):
            return unit
    return None


def next_axis(nest: Nest, inner: int, candidates: Sequence[int] | None = None) -> int | None:
    """Returns the axis other than `inner` with the smallest known step in the widest access, or None."""
    allowed = [
        axis for axis in (range(len(nest.axes)) if candidates is None else candidates) if axis != inner
    ]
    if not allowed:
        return None
    at = max((at for at, _ in accesses(nest)), key=lambda at: len(at.terms), default=Affine())
    steps = {axis: abs(step) for axis, step in at.terms if axis in allowed and type(step) is int}
    return min(steps, key=lambda axis: steps[axis]) if steps else allowed[-1]
