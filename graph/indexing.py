"""Implements `symbol[...]`: NumPy basic indexing as at most one slice and one reshape. Positions that are arrays are another
file's, `advanced_indexing.py`.

Entries are ints, slices (any non-zero step), None and Ellipsis; positions may be dims. Bounds that are ints
are clamped as in NumPy. Bounds and positions that are dims must lie in range, which is decided now or checked
at launch: `table[:seq]` has exactly `seq` rows, and a launch with a larger `seq` is refused.
"""

from __future__ import annotations

import numpy as np

from .advanced_indexing import are_positions, index_by_arrays
from .checks import MAX_SIZE, Checks, ShapeError
from .dims.dim import Dim, Extent, lower_bound, maximum, minimum
from .errors import describing
from .ops.shape import slice_length
from .protocols import SymbolT
from .types import Shape, shape_text

_FAR = 1 << 48
"""Steps from here on reach no second element of any axis in memory."""
Bounds = tuple[Extent, Extent, int]


def index(x: SymbolT, key: object) -> SymbolT:
    """Return the elements of `x` that `key` selects."""
    entries = key if isinstance(key, tuple) else (key,)
    if any(map(are_positions, entries)):
        return index_by_arrays(x, entries, index)
    with describing("index", x):
        bounds, shape = _resolve(x.shape, entries, x.graph.shape_checks)
    whole = [(0, extent, 1) for extent in x.shape]
    result = x
    if bounds != whole:
        starts, stops, steps = (tuple(part) for part in zip(*bounds, strict=True))
        result = x.graph.apply("slice", (x,), {"starts": starts, "stops": stops, "steps": steps})
    if result.shape != shape:
        result = x.graph.apply("reshape", (result,), {"shape": shape})
    return result


def _resolve(source: Shape, entries: tuple[object, ...], checks: Checks) -> tuple[list[Bounds], Shape]:
    """Return start, stop and step for each axis of the source, and the shape of the result."""
    ellipses = sum(entry is Ellipsis for entry in entries)
    if ellipses > 1:
        raise ShapeError("an index can have one Ellipsis only", fix="write the other axes as ':'")
    consumed = sum(entry is not None and entry is not Ellipsis for entry in entries)
    if consumed > len(source):
        raise ShapeError(
            f"{consumed} indices for {len(source)} axes of {shape_text(source)}",
            f"at most {len(source)}",
            "drop an index, or add axes with None",
        )
    position = next((p for p, entry in enumerate(entries) if entry is Ellipsis), len(entries))
    fill = (slice(None),) * (len(source) - consumed)
    bounds: list[Bounds] = []
    shape: list[Extent] = []
    for entry in (*entries[:position], *fill, *entries[position + 1 :]):
        if entry is None:
            shape.append(1)
            continue
        axis = len(bounds)
        if isinstance(entry, slice):
            bounds.append(_slice(entry, source[axis], axis, checks))
            shape.append(slice_length(*bounds[-1]))
        else:
            start = _position(_number(entry, axis), source[axis], axis, checks)
            bounds.append((start, start + 1, 1))
    return bounds, tuple(shape)


def _number(entry: object, axis: int) -> Extent:
    if isinstance(entry, Dim):
        return entry
    is_other = isinstance(entry, bool) or (isinstance(entry, np.ndarray) and entry.dtype.kind not in "iu")
    if is_other or not hasattr(entry, "__index__") or getattr(entry, "shape", ()) != ():
        kind = type(entry).__name__
        mask = kind in ("bool", "bool_") or getattr(getattr(entry, "dtype", None), "name", "") == "bool"
        raise ShapeError(
            f"axis {axis}: {entry!r:.60} ({kind}) is no index",
            "ints, slices, None, Ellipsis, dims, and arrays or symbols of integers",
            "select with joinery.where(mask, x, other)" if mask else "cast positions to int64",
        )
    return int(entry.__index__())


def _position(value: Extent, extent: Extent, axis: int, checks: Checks) -> Extent:
    if isinstance(value, int) and isinstance(extent, int):
        if not -extent <= value < extent:
            raise ShapeError(
                f"index {value} is out of range on axis {axis} of size {extent}",
                f"-{extent} to {extent - 1}" if extent else "no index: the axis is empty",
                "take a slice, which is clamped" if not extent else "use -1 for the last element",
            )
        return value % extent
    if isinstance(value, int) and value < 0:
        checks.require_at_most(
            -value, extent, f"index {value}: axis {axis} must have at least {-value} elements"
        )
        return extent + value
    _require_not_below(value, 0, f"index {value} on axis {axis} must not be negative", checks)
    checks.require_at_most(
        value + 1, extent, f"index {value}: axis {axis} must have more than {value} elements"
    )
    return value


def is_open(bound: Extent) -> bool:
    """Return whether a bound of a slice is a number beyond every axis, as exporters write "to the end"."""
    return isinstance(bound, int) and abs(bound) >= MAX_SIZE


def _slice(entry: slice, extent: Extent, axis: int, checks: Checks) -> Bounds:
    step = 1 if entry.step is None else _number(entry.step, axis)
    if not isinstance(step, int) or step == 0:
        raise ShapeError(
            f"slice step {step} on axis {axis}", "a non-zero int", "use step 1, or -1 to reverse"
        )
    start, stop = (None if bound is None else _number(bound, axis) for bound in (entry.start, entry.stop))
    if isinstance(extent, int) and not isinstance(start, Dim) and not isinstance(stop, Dim):
        first, last, _ = slice(start, stop, step).indices(extent)
        return (first, max(first, last), step) if step > 0 else (first, min(first, last), step)
    what = f"slice {_bound_text(start)}:{_bound_text(stop)}:{step} on axis {axis} of size {extent}"
    if step > 0:
        low = 0 if start is None else _start(start, extent, what, checks)
        high = extent if stop is None else _bound(stop, extent, 0, extent, what, checks)
        return near(low, maximum(high, low), step)
    last_index = extent - 1
    high = last_index if start is None else _bound(start, extent, -1, last_index, what, checks)
    low = -1 if stop is None else _bound(stop, extent, -1, last_index, what, checks)
    return near(high, minimum(low, high), step)


def near(start: Extent, stop: Extent, step: int) -> Bounds:
    """Return bounds within an axis with a step of 1 or -1 if it reaches one element only: strides in bytes fit 64 bits."""
    if step >= _FAR:
        return start, minimum(stop, start + 1), 1
    return (start, maximum(stop, start - 1), -1) if step <= -_FAR else (start, stop, step)


def _start(value: Extent, extent: Extent, what: str, checks: Checks) -> Extent:
    """Return the start of a slice.

    A non-negative int stays as it is even where it may exceed the axis: then the slice is empty and reads
    nothing.
    """
    if isinstance(value, int) and value >= 0 and isinstance(extent, Dim):
        return value
    return _bound(value, extent, 0, extent, what, checks)


def _bound(value: Extent, extent: Extent, low: int, high: Extent, what: str, checks: Checks) -> Extent:
    if isinstance(value, int):
        if is_open(value):
            return low if value < 0 else high
        return maximum(extent + value, low) if value < 0 else minimum(value, high)
    _require_not_below(value, low, f"{what}: {value} is below {low}", checks)
    checks.require_at_most(value, high, f"{what}: {value} is beyond the end")
    return value


def _require_not_below(value: Extent, low: int, message: str, checks: Checks) -> None:
    bound = lower_bound(value)
    if bound is None or bound < low:
        checks.add(maximum(value, low), value, message)


def _bound_text(value: Extent | None) -> str:
    return "" if value is None else str(value)
