"""Defines the stored layouts of constants (`ConstantSpec.layout`): "plain", or "panels:<n>" for matrices that
`tt.dot` reads panel by panel.

A (…, K, N) matrix in panels of n columns is stored as (…, ceil(N / n), K, n), the last panel padded with
zeros. "panels:<n>:t" stores the transpose of the constant, which is then (…, N, K), that way.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import numpy as np

from ...promotion.arrays import Array
from ...promotion.errors import UserError

_PANELS = re.compile(r"panels:([1-9][0-9]{0,4})(:t)?")


class Panels(NamedTuple):
    """The columns of a panel, and whether the matrix in panels is the transpose of the constant."""

    width: int
    transposed: bool


def panels_of(layout: str) -> Panels | None:
    """Returns the panels of a layout; None for the plain one. Raises `UserError` for a layout that does not exist."""
    if layout == "plain":
        return None
    match = _PANELS.fullmatch(layout)
    if match is None:
        raise UserError(
            f'unknown constant layout {layout!r}; expected "plain", "panels:<columns>" or "panels:<columns>:t"'
        )
    return Panels(int(match.group(1)), match.group(2) is not None)


def stored_shape(shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """Returns the shape in memory of a constant of this shape. Raises `UserError` for panels of anything but
    matrices."""
    panels = panels_of(layout)
    if panels is None:
        return shape
    if len(shape) < 2:
        raise UserError(f"layout {layout!r} is for matrices, not for shape {shape}")
    *batch, rows, columns = shape
    if panels.transposed:
        rows, columns = columns, rows
    return (*batch, math.ceil(columns / panels.width), rows, panels.width)


def pack(array: Array, layout: str) -> Array:
    """Returns the array in its stored layout; the array itself when that is plain."""
    panels = panels_of(layout)
    if panels is None:
        return array
    stored = np.zeros(stored_shape(array.shape, layout), array.dtype)
    matrix = np.swapaxes(array, -1, -2) if panels.transposed else array
    for panel in range(stored.shape[-3]):
        columns = matrix[..., panel * panels.width : (panel + 1) * panels.width]
        stored[..., panel, :, : columns.shape[-1]] = columns
    return stored


def unpack(stored: Array, shape: tuple[int, ...], layout: str) -> Array:
    """Inverts `pack`: returns the plain array of the given shape."""
    panels = panels_of(layout)
    if panels is None:
        return stored.reshape(shape)
    blocks = stored.reshape(stored_shape(shape, layout))
    rows = np.moveaxis(blocks, -3, -2)  # (…, K, panels, n)
    width = rows.shape[-2] * rows.shape[-1]  # not -1: there may be no elements to infer it from
    joined = rows.reshape(*shape[:-2], rows.shape[-3], width)[..., : shape[-2 if panels.transposed else -1]]
    return np.ascontiguousarray(np.swapaxes(joined, -1, -2) if panels.transposed else joined)
