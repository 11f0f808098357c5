"""Defines the stored layouts of constants (`ConstantSpec.layout`): "plain", "panels:<n>" for matrices that `tt.dot` reads panel
by panel, and "winograd:<c>:<n>" and "winograd4:<c>:<n>" for the filters of convolutions in tiles.

A (…, K, N) matrix in panels of n columns is stored as (…, ceil(N / n), K, n), the last panel padded with
zeros. "panels:<n>:t" stores the transpose of the constant, which is then (…, N, K), that way. "panels:<n>:<r>x<s>" keeps r rows
of the matrix together, column by column, as instructions read them that multiply r neighbours of k at once (`vpdpbusd`, four
bytes): rows come in segments of s, which are padded with zeros to whole groups of r, and the matrix is stored as
(…, ceil(N / n), K / s · ceil(s / r), n, r).

"winograd:<c>:<n>" stores what F(2×2, 3×3) multiplies with (`lowering/graph_passes/winograd.py`) instead of N filters of 3 × 3
taps and c channels, which have the axes of taps, channels and filters in this order, however they are grouped:
(ceil(N / n), 16, c, n), for panels of n filters 4 × 4 sums of taps. "winograd4:<c>:<n>" has the 6 × 6 of F(4×4, 3×3). The
filters do not follow from them.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import numpy as np

from ...promotion.arrays import Array
from ...promotion.errors import InternalError, UserError

_PANELS = re.compile(r"panels:([1-9][0-9]{0,4})(?::([1-9][0-9]?)x([1-9][0-9]{0,9}))?(:t)?")
_WINOGRAD = re.compile(r"winograd(4?):([1-9][0-9]{0,8}):([1-9][0-9]{0,4})")
_TAPS = 3
_CHANNELS = 64
"""Channels of filters that are transformed together, in the nearest caches."""
_NEAR, _FAR = 5 / 8, 3 / 2
"""The points of F(4, 3) but 0 and infinity, with both signs (`lowering/tile/templates/winograd_sums.py`)."""


class Panels(NamedTuple):
    """The columns of a panel, and whether the matrix in panels is the transpose of the constant.

    together: rows that lie together, column by column. segment: rows of a segment, where there are several; else 0.
    """

    width: int
    transposed: bool
    together: int = 1
    segment: int = 0

    def groups(self, rows: int) -> int:
        """Returns the groups of rows that a matrix has. Raises `UserError` if it has no whole number of segments."""
        if rows % self.segment:
            raise UserError(f"segments of {self.segment} rows are no layout of a matrix with {rows} rows")
        return rows // self.segment * math.ceil(self.segment / self.together)


class Winograd(NamedTuple):
    """The channels of filters, how many filters a panel has, and how many sums of taps there are along each axis."""

    channels: int
    width: int
    sums: int


def layout_of(layout: str) -> Panels | Winograd | None:
    """Returns what a layout says; None for the plain one. Raises `UserError` for a layout that does not exist."""
    if layout == "plain":
        return None
    match = _PANELS.fullmatch(layout)
    if match is not None:
        width, together, segment, turned = match.groups()
        return Panels(int(width), turned is not None, int(together or 1), int(segment or 0))
    match = _WINOGRAD.fullmatch(layout)
    if match is not None:
        large, channels, width = match.groups()
        return Winograd(int(channels), int(width), 6 if large else 4)
    raise UserError(
        f'unknown constant layout {layout!r}; expected "plain", "panels:<columns>", "panels:<columns>:<rows>x<segment>", '
        'either of these with ":t", "winograd:<channels>:<filters>", or "winograd4:<channels>:<filters>"'
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
        case Winograd(channels, width, sums):
            filters = shape[-1] if shape else 0
            if math.prod(shape) != _TAPS * _TAPS * channels * filters:
                raise UserError(f"layout {layout!r} is for filters of 3 × 3 taps and {channels} channels, not {shape}")
            return (math.ceil(filters / width), sums * sums, channels, width)
        case Panels(width, transposed) as panels:
            if len(shape) < 2:
                raise UserError(f"layout {layout!r} is for matrices, not for shape {shape}")
            *batch, rows, columns = shape
            if transposed:
                rows, columns = columns, rows
            if panels.segment:
                return (*batch, math.ceil(columns / width), panels.groups(rows), width, panels.together)
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
    if found.segment:
        return np.ascontiguousarray(_together(matrix, found))
    for panel in range(stored.shape[-3]):
        columns = matrix[..., panel * found.width : (panel + 1) * found.width]
        stored[..., panel, :, : columns.shape[-1]] = columns
    return stored


def _together(matrix: Array, panels: Panels) -> Array:
    """Returns a matrix in panels of columns whose rows lie together in groups."""
    *batch, rows, columns = matrix.shape
    width, together, segment = panels.width, panels.together, panels.segment
    groups, wide = panels.groups(rows), math.ceil(columns / width)
    padded = np.zeros((*batch, rows // segment, -(-segment // together) * together, wide * width), matrix.dtype)
    padded[..., :segment, :columns] = matrix.reshape(*batch, rows // segment, segment, columns)
    apart = padded.reshape(*batch, groups, together, wide, width)
    return np.moveaxis(apart, (-2, -4, -1, -3), (-4, -3, -2, -1))


def _apart(stored: Array, shape: tuple[int, ...], panels: Panels) -> Array:
    """Inverts `_together`: returns the matrix, for the shape of the constant."""
    *batch, rows, columns = shape if not panels.transposed else (*shape[:-2], shape[-1], shape[-2])
    segment, together, wide = panels.segment, panels.together, stored.shape[-4]
    apart = np.moveaxis(stored, (-4, -3, -2, -1), (-2, -4, -1, -3))
    padded = -(-segment // together) * together
    whole = apart.reshape(*batch, rows // segment, padded, wide * panels.width)[..., :segment, :columns]
    return whole.reshape(*batch, rows, columns)


def _transform(filters: Array, stored: Array) -> None:
    """Fills `stored` (panels, 16 or 36, channels, width) with sums of the taps of filters (3, 3, channels, filters)."""
    width, side = stored.shape[-1], math.isqrt(stored.shape[1])
    sums = _sums if side == 4 else _many_sums
    with np.errstate(all="ignore"):
        for number, panel in enumerate(stored):
            for start in range(0, filters.shape[2], _CHANNELS):
                rows = slice(start, start + _CHANNELS)
                part = filters[:, :, rows, number * width : (number + 1) * width]
                across = sums(part[:, 0], part[:, 1], part[:, 2])  # (taps, channels, filters) for each of the four or six
                for column, (first, second, third) in enumerate(across):
                    for row, found in enumerate(sums(first, second, third)):
                        panel[side * row + column, rows, : part.shape[-1]] = found


def _sums(first: Array, second: Array, third: Array) -> tuple[Array, ...]:
    half = np.float32(0.5)
    outer, middle = (first + third) * half, second * half
    return first, outer + middle, outer - middle, third


def _many_sums(first: Array, second: Array, third: Array) -> tuple[Array, ...]:
    """Returns what F(4, 3) multiplies with, in float64: their factors are no powers of two."""
    first, second, third = (taps.astype(np.float64, copy=False) for taps in (first, second, third))
    near, far = _NEAR**2, _FAR**2
    found = [first / (near * far)]
    for point, square, other in ((_NEAR, near, far), (_FAR, far, near)):
        scale = 1 / (2 * square * (square - other))
        even, odd = (first + square * third) * scale, second * (point * scale)
        found += [even + odd, even - odd]
    return *found, third


def unpack(stored: Array, shape: tuple[int, ...], layout: str) -> Array:
    """Inverts `pack`: returns the plain array of the given shape. Raises `InternalError` for a layout that has no inverse."""
    panels = layout_of(layout)
    if panels is None:
        return stored.reshape(shape)
    if isinstance(panels, Winograd):
        raise InternalError(f"constants do not follow from the layout {layout!r}")
    blocks = stored.reshape(stored_shape(shape, layout))
    if panels.segment:
        matrix = _apart(blocks, shape, panels)
        return np.ascontiguousarray(np.swapaxes(matrix, -1, -2) if panels.transposed else matrix)
    rows = np.moveaxis(blocks, -3, -2)  # (…, K, panels, n)
    width = rows.shape[-2] * rows.shape[-1]  # not -1: there may be no elements to infer it from
    joined = rows.reshape(*shape[:-2], rows.shape[-3], width)[..., : shape[-2 if panels.transposed else -1]]
    return np.ascontiguousarray(np.swapaxes(joined, -1, -2) if panels.transposed else joined)
