"""Finds which axes of a nest are contiguous in memory, on which every cost model relies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...nest import Affine, Extent, Nest
from ...schedule.costs import LONGEST_WHOLE_ROW, MAX_KEPT, name_cost
from ...schedule.templates import IN_ORDER
from ...target import MAX_TOGETHER, MIN_SIDE
from ..blocks import power_of_two
from ..schedule import is_whole
from ..structure import accesses, contiguous_axis, reach, reduced_axes, unit_axis, values_of


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


def transposed_axis(nest: Nest, inner: int, few: int = 4) -> int | None:
    """Returns the axis along which a load that strides along `inner` is contiguous, or None; also if it has at most `few`
    positions."""
    for value in nest.loads:
        at: Affine = value.attrs["at"]
        step, unit = at.coefficient(inner), unit_axis(at)
        far = type(step) is not int or abs(step) > 1
        if (
            unit is not None
            and unit != inner
            and far
            and not value.operands
            and not is_whole(nest.axes[unit].extent, few)
        ):
            return unit
    return None


class TransposedCopy(NamedTuple):
    """The axes that are contiguous in the source and in the result of a copy, but for what is side by side in both: so many
    elements, along further axes."""

    partner: int
    inner: int
    together: int
    beside: tuple[int, ...]


def transposed_copy(nest: Nest) -> TransposedCopy | None:
    """Returns the axes of a copy whose source and result are contiguous along different ones."""
    if len(nest.body) != 1 or len(nest.stores) != 1 or nest.body[0].op != "load" or nest.body[0].dtype.is_bool:
        return None
    load, target = nest.body[0], nest.stores[0].at
    source: Affine = load.attrs["at"]
    if load.operands:
        return None
    together, beside = 1, list[int]()
    rest = [axis for axis in range(len(nest.axes)) if not is_whole(nest.axes[axis].extent, 1)]
    if not load.attrs["guarded"]:
        while (axis := next((a for a in rest if source.coefficient(a) == target.coefficient(a) == together), None)) is not None:
            extent = nest.axes[axis].extent
            if type(extent) is not int:
                break
            together *= extent
            beside.append(axis)
            rest.remove(axis)
    if together > 1 and together * load.dtype.itemsize > MAX_TOGETHER:
        return None
    inner = next((a for a in rest if target.coefficient(a) == together), None)
    partner = next((a for a in rest if source.coefficient(a) == together), None)
    if partner is None and not load.attrs["guarded"]:
        partner = next((a for a in rest if source.coefficient(a) == -together), None)
    if inner is None or partner is None or inner == partner:
        return None
    sides = [nest.axes[axis].extent for axis in (inner, partner)]
    is_plain = together == 1 and source.coefficient(partner) == 1
    if not is_plain and any(type(extent) is int and extent < MIN_SIDE for extent in sides):
        return None
    step = source.coefficient(inner)
    return None if type(step) is int and abs(step) <= together else TransposedCopy(partner, inner, together, tuple(beside))


def padded_transposition(nest: Nest, inner: int) -> int | None:
    """Returns the axis that is contiguous in what is copied under a mask, as an image with padding is, or None."""
    if len(nest.loads) != 1 or len(nest.stores) != 1 or nest.stores[0].at.coefficient(inner) != 1:
        return None
    (load,) = nest.loads
    at = load.attrs["at"]
    unit = unit_axis(at)
    step = at.coefficient(inner)
    far = type(step) is not int or abs(step) > 1
    return unit if load.attrs["guarded"] and not load.attrs["strides"] and unit != inner and far else None


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


LONGEST_SEGMENT, SHORTEST_SEGMENT, UNKNOWN_SEGMENT = 1 << 20, 1 << 10, 1 << 16
"""Most and least positions of a line that a program of a scatter owns, and those of lines whose number is known at launch only.
Every program of a line reads all of its positions."""
WHOLE_LINE = 1 << 48
"""The segment of lines that are not cut: more positions than memory has."""


def ordered_blocks(
    nest: Nest, lanes: int, programs: int, any_lines: bool = False, is_cut: Callable[[Extent, Extent], bool] = lambda *_: True
) -> tuple[tuple[int, int], ...]:
    """Returns the blocks of a nest that works in order: of the innermost line axis, and of the positions of a scatter.

    The lines of a block are worked on together, if they lie side by side in memory, or in any case with `any_lines`. The lines
    of a scatter are cut where there are fewer than `programs` blocks of them, and `is_cut` holds for the numbers of positions
    of a line and of its updates.
    """
    value = next(value for value in nest.body if value.op in IN_ORDER)
    fixed = [value.attrs[name] for name in IN_ORDER[value.op]]
    at = nest.stores[0].at
    lines = [axis for axis in range(len(nest.axes)) if axis not in fixed]
    unit = [axis for axis in lines if at.coefficient(axis) == 1]
    inner = unit or (lines[-1:] if any_lines else [])
    blocks = [(inner[0], lanes if any_lines else capped(nest.axes[inner[0]].extent, lanes))] if inner else []
    if value.op == "scatter" and fixed[0] >= 0:
        target, over = (1 if axis < 0 else nest.axes[axis].extent for axis in fixed)
        cut = is_cut(target, over)
        segment = _segment(nest, fixed[0], lines, dict(blocks), programs) if cut else capped(target, WHOLE_LINE)
        blocks.insert(0, (fixed[0], segment))
    return tuple(blocks)


def _segment(nest: Nest, target: int, lines: Sequence[int], blocks: dict[int, int], programs: int) -> int:
    found: Extent = nest.axes[target].extent
    for axis in lines:
        extent = nest.axes[axis].extent
        found = found * ((extent + blocks.get(axis, 1) - 1) // blocks.get(axis, 1))
    extent = nest.axes[target].extent
    if type(found) is not int:
        return capped(extent, UNKNOWN_SEGMENT)
    return capped(extent, max(SHORTEST_SEGMENT, min(power_of_two(-(-found // programs)), LONGEST_SEGMENT)))


MIN_WORK = 4
"""Work of an element of a long row from which on it is kept."""
LONGEST_SEARCHED = 1 << 20
"""Most elements of a row in one block of which only extremes and their positions are wanted: nothing is kept of it."""
_SOURCES = frozenset({"load", "const", "dim", "index", "reduce"})


def longest_whole_row(nest: Nest) -> int:
    """Returns the most elements of a row in one block of the host."""
    reduced, reductions = set(reduced_axes(nest)), values_of(nest, "reduce")
    operands = {each for number in reductions for each in nest.body[number].operands}
    if reductions and all(nest.body[number].attrs["kind"] in ("argmax", "argmin") for number in reductions):
        written = any(reduced & set(nest.body[store.value].axes) for store in nest.stores)
        if not written and all(nest.body[each].op == "load" for each in operands):
            return LONGEST_SEARCHED
    again = operands.union([store.value for store in nest.stores if reduced & set(nest.body[store.value].axes)])
    if not any(reach(nest, [number]) & set(reductions) for number in again):
        return LONGEST_WHOLE_ROW
    long = [value for value in nest.body if value.op not in _SOURCES and reduced & set(value.axes)]
    kept = max(1, sum(nest.body[each].op not in _SOURCES for each in operands), sum(name_cost(v.op) >= MIN_WORK for v in long))
    return max(LONGEST_WHOLE_ROW, MAX_KEPT // (max([value.dtype.itemsize for value in nest.body]) * kept))
