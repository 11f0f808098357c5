"""Finds windows in gathers at equally spaced positions, as a graph's windows are written, and unfolding in other exports."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .....promotion.arrays import Array
from ....dims.dim import Extent, at_most
from ....functions.building import apply
from ....ops.shape import window_count
from ....symbol import Symbol

_ARRAYS = ("constant", "weight")


class _Spaced(NamedTuple):
    """Positions (number, size) of the elements of windows along one axis."""

    number: Extent
    size: int
    stride: int
    dilation: int


def windows_at(x: Symbol, order: tuple[int, ...]) -> Symbol | None:
    """Return the windows that a permutation of gathers is, if all of them lie inside of the axes, else None."""
    found: list[tuple[int, _Spaced]] = []
    while x.op.name == "gather":
        source, axis = x.inputs[0], x.attrs["axis"]
        spaced = _spaced(x.inputs[1])
        if spaced is None or (found and axis <= found[-1][0]) or not _fits(source.shape[axis], spaced):
            break
        found.append((axis, spaced))
        x = source
    axes = [axis for axis, _ in found]
    kept = [axis + sum(other < axis for other in axes) for axis in range(len(x.shape))]
    inner = {kept[axis] + 1: (axis, spaced) for axis, spaced in found}
    tail = order[len(kept) :]
    if not found or order[: len(kept)] != tuple(kept) or sorted(tail) != sorted(inner):
        return None
    chosen = [inner[position] for position in tail]
    numbers = [spaced for _, spaced in chosen]
    return apply(
        "windows", x, axes=tuple([axis for axis, _ in chosen]), counts=tuple([each.number for each in numbers]),
        sizes=tuple([each.size for each in numbers]), strides=tuple([each.stride for each in numbers]),
        dilations=tuple([each.dilation for each in numbers]),
    )  # fmt: skip


def _fits(extent: Extent, spaced: _Spaced) -> bool:
    """Return whether all positions are known to lie on an axis: a gather clamps others."""
    span = (spaced.size - 1) * spaced.dilation + 1
    if spaced.number == window_count(extent, span, spaced.stride, 1):
        return True
    return at_most((spaced.number - 1) * spaced.stride + span, extent)


def _spaced(positions: Symbol) -> _Spaced | None:
    """Return equally spaced positions: constants, or the sum of a multiple of 0, 1, … in a column and of constants in a row."""
    if len(positions.shape) != 2:
        return None
    if positions.op.name in _ARRAYS:
        array = np.asarray(positions.attrs["value"])
        if not array.size or array[0, 0] != 0:
            return None
        stride, dilation = _step(array[:, 0]), _step(array[0])
        if not stride or not dilation or (array != array[:, :1] + array[:1]).any():
            return None
        return _Spaced(len(array), array.shape[1], stride, dilation)
    if positions.op.name != "add":
        return None
    starts, inside = positions.inputs
    row = _constant(inside)
    if row is None or row.ndim != 1 or not row.size or row[0] != 0 or len(starts.shape) != 2 or starts.shape[1] != 1:
        return None
    dilation, stride = _step(row), 1
    while starts.op.name in ("mul", "add", "reshape"):
        if starts.op.name == "reshape":
            (starts,) = starts.inputs
            continue
        factor = _constant(starts.inputs[1])
        if factor is None or factor.ndim or (starts.op.name == "add" and factor != 0):
            return None
        stride *= int(factor) if starts.op.name == "mul" else 1
        starts = starts.inputs[0]
    if not dilation or stride < 1 or not _counts_up(starts):
        return None
    return _Spaced(positions.shape[0], row.size, stride, dilation)


def _step(row: Array) -> int:
    """Return how far apart the numbers of a row are, 1 for one number, 0 where that varies or is not positive."""
    steps = np.diff(row)
    return 1 if not steps.size else max(int(steps[0]), 0) if (steps == steps[0]).all() else 0


def _constant(symbol: Symbol) -> Array | None:
    return np.asarray(symbol.attrs["value"]) if symbol.op.name in _ARRAYS else None


def _counts_up(symbol: Symbol) -> bool:
    """Return whether a vector is 0, 1, 2, …: the running sum of ones, without the element itself."""
    if len(symbol.shape) != 1 or symbol.op.name != "cumsum" or not symbol.attrs["exclusive"] or symbol.attrs["reverse"]:
        return False
    ones = symbol.inputs[0]
    one = _constant(ones.inputs[0]) if ones.op.name == "broadcast_to" else None
    return one is not None and one.size == 1 and bool((one == 1).all())
