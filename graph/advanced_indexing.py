"""Implements `symbol[...]` with positions that are arrays: what NumPy calls advanced indexing.

The other entries are applied first, with whole axes where positions stand. One array is a gather along its axis; several are
one along their axes joined to one, whose positions are those of row-major order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..promotion.dtype import int64
from ..promotion.errors import UserError
from .checks import ShapeError
from .dims.dim import Dim, Extent, maximum, product
from .errors import describing
from .ops.building import apply, cast
from .ops.shape import broadcast_shapes
from .protocols import SymbolT
from .types import Shape, shape_text

Entries = tuple[Any, ...]
_FAR = 1 << 62


def are_positions(entry: object) -> bool:
    """Return whether an entry of an index is an array, a list or a symbol. What has no axes and a known value is a number."""
    return isinstance(entry, list) or hasattr(entry, "graph") or (isinstance(entry, np.ndarray) and entry.ndim > 0)


def index_by_arrays(x: SymbolT, entries: Entries, basic: Callable[[SymbolT, Entries], SymbolT]) -> SymbolT:
    """Return the elements of `x` at positions that are arrays, as NumPy's advanced indexing does.

    Positions broadcast. Their axes stand where the first of them stood, or before all others if a slice, None or Ellipsis is
    between any two of them; numbers count as positions there. Negative ones count from the end. Those of arrays must be in
    range, where sizes are known; those of symbols are clamped, as by `gather`. A mask is the positions where it is true.

    Args:
        basic: what applies an index without arrays.
    """
    with describing("index", x):
        entries = _without_masks(entries, x.shape)
    found = basic(x, tuple([slice(None) if are_positions(entry) else entry for entry in entries]))
    hidden = len(x.shape) - sum(entry is not None and entry is not Ellipsis for entry in entries)
    axis = source = first = 0
    axes: list[int] = []
    sources: list[int] = []
    joined: list[int] = []
    for number, entry in enumerate(entries):
        if entry is Ellipsis:
            axis, source = axis + hidden, source + hidden
        elif entry is None:
            axis += 1
        elif isinstance(entry, slice):
            axis, source = axis + 1, source + 1
        else:
            first = first if joined else axis
            joined.append(number)
            if are_positions(entry):
                axes.append(axis)
                sources.append(source)
                axis += 1
            source += 1
    if joined[-1] - joined[0] >= len(joined):
        first = 0
    with describing("index", x):
        positions = [_positions(x, entry, axis) for entry, axis in zip(filter(are_positions, entries), sources, strict=True)]
        rank = len(broadcast_shapes([each.shape for each in positions], x.graph.shape_checks))
    others = [axis for axis in range(len(found.shape)) if axis not in axes]
    if axes[-1] - axes[0] >= len(axes):
        found = x.graph.apply("permute", (found,), {"axes": (*axes, *others)})
        axes = list(range(len(axes)))
    at, shape = axes[0], found.shape
    if len(axes) > 1:
        total = _row_major(x, positions, shape[at : at + len(axes)])
        merged = (*shape[:at], product(shape[at : at + len(axes)]), *shape[at + len(axes) :])
        found = x.graph.apply("reshape", (found,), {"shape": merged})
        positions = [total]
    found = x.graph.apply("gather", (found, positions[0]), {"axis": at})
    if at != first:
        order = [axis for axis in range(len(found.shape)) if not at <= axis < at + rank]
        order[first:first] = range(at, at + rank)
        found = x.graph.apply("permute", (found,), {"axes": tuple(order)})
    return found


def _without_masks(entries: Entries, shape: Shape) -> Entries:
    """Return the entries with arrays for lists, and with the positions where they are true for masks that are arrays."""
    known = [_array(entry) if isinstance(entry, list) else entry for entry in entries]
    counts = [_axes_of(entry) for entry in known]
    result: list[Any] = []
    axis = 0
    for entry, count in zip(known, counts, strict=True):
        if entry is Ellipsis:
            axis += max(len(shape) - sum(counts), 0)
            result.append(entry)
        elif isinstance(entry, np.ndarray) and entry.dtype == bool and entry.ndim:
            masked = shape[axis : axis + count]
            if masked != entry.shape:
                raise ShapeError(
                    f"axis {axis}: a mask of shape {shape_text(entry.shape)} for axes of {shape_text(masked)}",
                    "a mask as long as its axes", "select with joinery.where(mask, x, other)",
                )  # fmt: skip
            result.extend(np.nonzero(entry))
        else:
            result.append(entry)
        axis += count
    return tuple(result)


def _axes_of(entry: object) -> int:
    if entry is None or entry is Ellipsis:
        return 0
    return entry.ndim if isinstance(entry, np.ndarray) and entry.dtype == bool and entry.ndim else 1


def _array(entry: list[Any]) -> np.ndarray[Any, Any]:
    try:
        array = np.asarray(entry)
    except (ValueError, TypeError, UserError):
        array = np.asarray(None)
    if array.dtype.kind not in "iub" and array.size:
        raise ShapeError(
            f"{entry!r:.60} (list) is no list of ints", "ints, or lists of them",
            "joinery.stack makes a symbol of a list of symbols",
        )  # fmt: skip
    return array if array.size else array.astype(np.int64)


def _positions(x: SymbolT, entry: Any, axis: int) -> SymbolT:
    """Return positions along an axis as a symbol."""
    if isinstance(entry, np.ndarray):
        return x.graph.as_symbol(_in_range(entry, x.shape[axis], axis), "index")
    if entry.dtype.kind not in ("int", "uint"):
        raise ShapeError(
            f"axis {axis}: {entry!r:.60} is no position", "integers",
            "select with joinery.where(mask, x, other)" if entry.dtype.is_bool else "cast to int64",
        )  # fmt: skip
    symbol: SymbolT = entry
    return symbol


def _in_range(array: np.ndarray[Any, Any], extent: Extent, axis: int) -> np.ndarray[Any, Any]:
    if array.dtype.kind not in "iu":
        raise ShapeError(f"axis {axis}: positions of {array.dtype}", "integers", "array.astype(numpy.int64)")
    if isinstance(extent, Dim) or not array.size:
        return array
    wrong = array[(array < -extent) | (array >= extent)]
    if wrong.size:
        raise ShapeError(
            f"index {wrong.flat[0]} is out of range on axis {axis} of size {extent}",
            f"-{extent} to {extent - 1}" if extent else "no index: the axis is empty",
            "numpy.clip the array",
        )
    return np.where(array < 0, array + np.int64(extent), array).astype(np.int64)


def _row_major(x: SymbolT, positions: Sequence[SymbolT], sizes: Shape) -> SymbolT:
    """Return the positions in row-major order over axes of these sizes, each counted from the end if negative, and clamped."""
    total: Any = None
    for each, extent in zip(positions, sizes, strict=True):
        size, last = x.graph.dim_value(extent), x.graph.dim_value(maximum(extent, 1) - 1)
        is_wide = each.dtype.kind == "uint" and each.dtype.bits == 64
        wide = apply("minimum", each, x.graph.as_symbol(np.uint64(_FAR))) if is_wide else each
        one = cast(wide, int64)
        counted = apply("where", apply("less", one, 0), apply("add", one, size), one)
        inside = apply("maximum", apply("minimum", counted, last), 0)
        total = inside if total is None else apply("add", apply("mul", total, size), inside)
    found: SymbolT = total
    return found
