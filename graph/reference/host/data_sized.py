"""Computes the rows whose sizes the values decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dtype import string
from ....promotion.errors import UserError
from ...ops.attributes import parsed_options
from ..registry import BoundSymbol, row


def _options(symbol: BoundSymbol) -> Mapping[str, Any]:
    return parsed_options(symbol.attrs["options"])


@row("nonzero")
def nonzero(symbol: BoundSymbol, x: Array) -> Array:
    return found_positions(symbol, x, lambda holds: np.array(np.nonzero(holds), np.int64).reshape(holds.ndim, -1))


def found_positions(symbol: BoundSymbol, x: Array, positions: Callable[[Array], Array]) -> Array:
    """Returns where elements are not 0. positions: finds where truth values hold that have an axis, an axis in each row."""
    if not x.ndim:  # of a scalar, one column without rows if it is not 0
        return np.zeros((0, int(bool(x))), np.int64)
    return positions(x if x.dtype.kind == "b" else x != ("" if symbol.inputs[0].dtype is string else 0))


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


@row("require")
def require(symbol: BoundSymbol, x: Array, holds: Array) -> Array:
    if not holds:
        raise UserError(_options(symbol)["problem"])
    return x


_CHUNK = 64
"""Boxes that are compared with each other at once."""
_FEW = 2048
"""Up to so many boxes are put in order at once; of more, first the best."""


@row("non_max_suppression")
def non_max_suppression(symbol: BoundSymbol, boxes: Array, scores: Array) -> Array:
    """Take the boxes of each class by falling score, and drop those that overlap one that was taken."""
    return suppressed_boxes(symbol, boxes, scores, _suppressed)


def suppressed_boxes(
    symbol: BoundSymbol, boxes: Array, scores: Array, suppress: Callable[[Array, Iterable[Array], int, float], Array]
) -> Array:
    """Return (batch, class, box) of the boxes that `suppress` takes of each class.

    Its arguments are low and high corners and areas of the boxes of a batch, (5, n), candidates in order, in one array or
    several, and the limits of the number and of overlaps.
    """
    options = _options(symbol)
    measured = _measured(boxes.astype(np.float32).transpose(0, 2, 1), options["centered"])
    limit, most, least = options["limit"], float(np.float32(options["iou"])), np.float32(options["score"])
    found: list[Array] = [np.zeros((0, 3), np.int64)]
    for batch in range(scores.shape[0]):
        for number in range(scores.shape[1]):
            taken = suppress(measured[batch], _by_score(scores[batch, number], least, limit), limit, most)
            found.append(np.stack([np.full_like(taken, batch), np.full_like(taken, number), taken], 1))
    return np.concatenate(found)


def _suppressed(measured: Array, ordered: Iterable[Array], limit: int, most: float) -> Array:
    taken = np.zeros(0, np.int64)
    for candidates in ordered:
        for at in range(0, candidates.size, _CHUNK):
            if taken.size >= limit:
                return taken[:limit]
            left = candidates[at : at + _CHUNK]
            if taken.size:
                left = left[~_overlaps(measured, taken, left, most).any(0)]
            covers = _overlaps(measured, left, left, most)
            alive = np.ones(left.size, np.bool_)
            for position in range(left.size):
                if alive[position]:
                    alive[position + 1 :] &= ~covers[position, position + 1 :]
            taken = np.concatenate([taken, left[alive]])
    return taken[:limit]


def _by_score(scores: Array, least: Any, limit: int) -> Iterator[Array]:
    """Yield the positions of scores above the least one by falling score, equal ones in their order: the best first, then the
    others, which are needed only where the best overlap each other."""
    left = np.flatnonzero(scores > least)
    count = max(4 * limit, _FEW // 4)
    if left.size > max(_FEW, count):
        bound = np.partition(scores[left], left.size - count)[left.size - count]
        is_best = scores[left] >= bound
        best, left = left[is_best], left[~is_best]
        yield best[np.argsort(-scores[best], kind="stable")]
    yield left[np.argsort(-scores[left], kind="stable")]


def _overlaps(measured: Array, first: Array, second: Array, most: float) -> Array:
    """Return which of some boxes share more than a part of their union with which of others."""
    ones, others = measured[:, first, None], measured[:, None, second]
    upper, lower = np.minimum(ones[2:4], others[2:4]), np.maximum(ones[:2], others[:2])
    shared = np.prod(np.maximum(upper - lower, np.float32(0)), 0)
    union = ones[4] + others[4] - shared
    return np.asarray(np.where(union > 0, shared / np.where(union > 0, union, np.float32(1)), np.float32(0)) > most)


def _measured(boxes: Array, centered: bool) -> Array:
    """Return low and high corners and areas, (…, 5, n), of boxes (…, 4, n): corners in any order, or (x, y, width, height)."""
    first, second = boxes[..., :2, :], boxes[..., 2:, :]
    if centered:
        half = second / np.float32(2)
        first, second = first - half, first + half
    result = np.empty((*boxes.shape[:-2], 5, boxes.shape[-1]), np.float32)
    low = np.minimum(first, second, out=result[..., :2, :])
    high = np.maximum(first, second, out=result[..., 2:4, :])
    np.prod(high - low, -2, out=result[..., 4, :])
    return result
