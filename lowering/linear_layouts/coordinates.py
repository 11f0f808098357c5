"""Coordinates and their row-major indices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod


def flatten(coordinate: Sequence[int], shape: Sequence[int]) -> int:
    """Returns the row-major index of a coordinate; ValueError when it is outside the shape."""
    if len(coordinate) != len(shape):
        raise ValueError(f"{tuple(coordinate)} is no coordinate of shape {tuple(shape)}")
    result = 0
    for index, size in zip(coordinate, shape, strict=True):
        if not 0 <= index < size:
            raise ValueError(f"{tuple(coordinate)} is outside shape {tuple(shape)}")
        result = result * size + index
    return result


def unflatten(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    found = []
    for size in reversed(shape):
        flat, index = divmod(flat, size)
        found.append(index)
    return tuple(reversed(found))


def axis_mask(shape: Sequence[int], axis: int) -> int:
    """Returns the bits of a flattened coordinate that belong to one dim."""
    return (shape[axis] - 1) * prod(shape[axis + 1 :])
