"""Defines the stored layouts of constants (`ConstantSpec.layout`): "plain", "panels:<n>" for matrices that `tt.dot` reads panel
by panel, and "winograd:<c>:<n>" for the filters of convolutions in tiles.

A (…, K, N) matrix in panels of n columns is stored as (…, ceil(N / n), K, n), the last panel padded with
zeros. "panels:<n>:t" stores the transpose of the constant, which is then (…, N, K), that way.

"winograd:<c>:<n>" stores what F(2×2, 3×3) multiplies with (`lowering/graph_passes/winograd.py`) instead of N filters of 3 × 3
taps and c channels, which have the axes of taps, channels and filters in this order, however they are grouped:
(ceil(N / n), 16, c, n), for panels of n filters 4 × 4 sums of taps. The filters do not follow from them.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import numpy as np

from ...promotion.arrays import Array
from ...promotion.errors import InternalError, UserError

_PANELS = re.compile(r"panels:([1-9][0-9]{0,4})(:t)?")
_WINOGRAD = re.compile(r"winograd:([1-9][0-9]{0,8}):([1-9][0-9]{0,4})")
_TAPS, _SUMS = 3, 4


class Panels(NamedTuple):
    """The columns of a panel, and whether the matrix in panels is the transpose of the constant."""

    width: int
    transposed: bool


class Winograd(NamedTuple):
    """The channels of filters, and how many filters a panel has."""

    channels: int
    width: int


def layout_of(layout: str) -> Panels | Winograd | None:
    """Returns what a layout says; None for the plain one. Raises `UserError` for a layout that does not exist."""
    if layout == "plain":
        return None
    match = _PANELS.fullmatch(layout)
    if match is not None:
        return Panels(int(match.group(1)), match.group(2) is not None)
    match = _WINOGRAD.fullmatch(layout)
    if match is not None:
        return Winograd(int(match.group(1)), int(match.group(2)))
    raise UserError(
        f'unknown constant layout {layout!r}; expected "plain", "panels:<columns>", "panels:<columns>:t" or '
        '"winograd:<channels>:<filters>"'
    )


def is_reversible(layout: str) -> bool:
    """Returns whether the constant follows from what is stored, to the bit."""
    return not isinstance(layout_of(layout), Winograd)


def stored_shape(shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """Returns the shape in memory of a constant of this shape. Raises `UserError` for panels of anything but
    matrices, and for filters of other sizes."""
    match layout_of(layout):
        case None:
            return shape
        case Winograd(channels, width):
            filters = shape[-1] if shape else 0
            if math.prod(shape) != _TAPS * _TAPS * channels * filters:
                raise UserError(f"layout {layout!r} is for filters of 3 × 3 taps and {channels} channels, not {shape}")
            return (math.ceil(filters / width), _SUMS * _SUMS, channels, width)
        case Panels(width, transposed):
            if len(shape) < 2:
                raise UserError(f"layout {layout!r} is for matrices, not for shape {shape}")
            *batch, rows, columns = shape
            if transposed:
                rows, columns = columns, rows
            return (*batch, math.ceil(columns / width), rows, width)


def pack(array: Array, layout: str) -> Array:
    """Returns the array in its stored layout; the array itself when that is plain."""
    found = layout_of(layout)
    if found is None:
        return array
    stored = np.zeros(stored_shape(array.shape, layout), array.dtype)
    if isinstance(found, Winograd):
        _transform(array.reshape(_TAPS, _TAPS, found.channels, array.shape[-1]), stored)
        return stored
    matrix = np.swapaxes(array, -1, -2) if found.transposed else array
    for panel in range(stored.shape[-3]):
        columns = matrix[..., panel * found.width : (panel + 1) * found.width]
        stored[..., panel, :, : columns.shape[-1]] = columns
    return stored


def _transform(filters: Array, stored: Array) -> None:
    """Fills `stored` (panels, 16, channels, width) with sums of the taps of filters (3, 3, channels, filters)."""
    width = stored.shape[-1]
    for number, panel in enumerate(stored):
        part = filters[..., number * width : (number + 1) * width]
        across = _sums(part[:, 0], part[:, 1], part[:, 2])  # (taps, channels, filters) for each of the four
        for column, (first, second, third) in enumerate(across):
            for row, sums in enumerate(_sums(first, second, third)):
                panel[_SUMS * row + column, :, : part.shape[-1]] = sums


def _sums(first: Array, second: Array, third: Array) -> tuple[Array, Array, Array, Array]:
    half = np.float32(0.5)
    with np.errstate(all="ignore"):
        outer, middle = (first + third) * half, second * half
        return first, outer + middle, outer - middle, third


def unpack(stored: Array, shape: tuple[int, ...], layout: str) -> Array:
    """Inverts `pack`: returns the plain array of the given shape. Raises `InternalError` for a layout that has no inverse."""
    panels = layout_of(layout)
    if panels is None:
        return stored.reshape(shape)
    if isinstance(panels, Winograd):
        raise InternalError(f"constants do not follow from the layout {layout!r}")
    blocks = stored.reshape(stored_shape(shape, layout))
    rows = np.moveaxis(blocks, -3, -2)  # (…, K, panels, n)
    width = rows.shape[-2] * rows.shape[-1]  # not -1: there may be no elements to infer it from
    joined = rows.reshape(*shape[:-2], rows.shape[-3], width)[..., : shape[-2 if panels.transposed else -1]]
    return np.ascontiguousarray(np.swapaxes(joined, -1, -2) if panels.transposed else joined)
