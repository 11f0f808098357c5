"""Computes the rows whose sizes the values decide."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...promotion.arrays import Array
from ...promotion.dtype import DType, string
from ...promotion.errors import UserError
from ..ops.attributes import parsed_options
from .registry import BoundSymbol, row


def _options(symbol: BoundSymbol) -> Mapping[str, Any]:
    return parsed_options(symbol.attrs["options"])


@row("nonzero")
def nonzero(symbol: BoundSymbol, x: Array) -> Array:
    if not x.ndim:  # of a scalar, one column without rows if it is not 0
        return np.zeros((0, int(bool(x))), np.int64)
    return np.array(np.nonzero(x != ("" if symbol.inputs[0].dtype is string else 0)), np.int64).reshape(x.ndim, -1)


@row("empty_rows")
def empty_rows(symbol: BoundSymbol, x: Array) -> Array:
    return np.zeros((max(int(x), 0), 0), np.bool_)


@row("positions_in_range")
def positions_in_range(symbol: BoundSymbol, x: Array, size: Array) -> Array:
    options, extent = _options(symbol), int(size)
    outside = (x < -extent) | (x >= extent)
    if outside.any():
        first = tuple(map(int, np.argwhere(outside)[0]))
        where = f"position {int(x[first])}" + (f", element {list(first)} of the indices," if first else "")
        raise UserError(
            f"{options['operation']}: {where} is not on axis {options['axis']}, whose size is {extent}: "
            f"{-extent} to {extent - 1} are; {np.count_nonzero(outside)} of {x.size} positions are out of range; "
            "fix: clip them, or another mode"
        )
    return x


@row("unique")
def unique(symbol: BoundSymbol, x: Array) -> Array:
    options = _options(symbol)
    axis = options["axis"]
    first, inverse, counts = _distinct(x, symbol.inputs[0].dtype, axis)
    if not options["sorted"]:  # in order of appearance
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        first, inverse, counts = first[order], rank[inverse], counts[order]
    match options["part"]:
        case "values":
            return np.take(x, first, axis)
        case "first":
            return first.astype(np.int64)
        case "inverse":
            return inverse.astype(np.int64)
    return counts.astype(np.int64)


def _distinct(x: Array, dtype: DType, axis: int) -> tuple[Array, Array, Array]:
    """Return the first position, the number by position, and the count of each distinct slice, in ascending order.

    Slices are compared from their first element on; NaN equals NaN and comes last.
    """
    rows = np.moveaxis(x, axis, 0).reshape(x.shape[axis], math.prod(x.shape[:axis] + x.shape[axis + 1 :]))
    if not len(rows):
        empty = np.zeros(0, np.int64)
        return empty, empty, empty
    if dtype is string:
        codes = np.unique(rows.reshape(-1), return_inverse=True)[1].reshape(rows.shape)
    elif dtype.is_float:  # values as ranks: NumPy does not order NaN in rows
        codes = np.unique(rows.astype(np.float64), return_inverse=True)[1].reshape(rows.shape)
    else:
        codes = rows
    _, first, inverse, counts = np.unique(codes, axis=0, return_index=True, return_inverse=True, return_counts=True)
    return first, inverse.reshape(-1), counts


@row("non_max_suppression")
def non_max_suppression(symbol: BoundSymbol, boxes: Array, scores: Array) -> Array:
    """Take the boxes of each class by falling score, and drop those that overlap one that was taken."""
    options = _options(symbol)
    corners = _corners(boxes.astype(np.float32), options["centered"])
    found: list[tuple[int, int, int]] = []
    for batch in range(scores.shape[0]):
        low, high = corners[batch, :, :2], corners[batch, :, 2:]
        areas = np.prod(high - low, -1)
        for number in range(scores.shape[1]):
            given = scores[batch, number]
            left = np.argsort(-given, kind="stable")
            left = left[given[left] > np.float32(options["score"])]
            taken = 0
            while left.size and taken < options["limit"]:
                best, left = left[0], left[1:]
                found.append((batch, number, int(best)))
                taken += 1
                sides = np.maximum(np.minimum(high[best], high[left]) - np.maximum(low[best], low[left]), np.float32(0))
                shared = np.prod(sides, -1)
                union = areas[best] + areas[left] - shared
                overlap = np.where(union > 0, shared / np.where(union > 0, union, np.float32(1)), np.float32(0))
                left = left[~(overlap > np.float32(options["iou"]))]
    return np.array(found, np.int64).reshape(-1, 3)


def _corners(boxes: Array, centered: bool) -> Array:
    """Return boxes as (low, low, high, high), from corners in any order or from (x, y, width, height)."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if centered:
        first, second = first - second / np.float32(2), first + second / np.float32(2)
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], -1)
