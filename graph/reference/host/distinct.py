"""Finds the distinct slices of an array: of slices of one element by counting or sorting numbers, of others by sorting rows."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Protocol

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dtype import DType, string
from ...ops.attributes import parsed_options
from ..registry import BoundSymbol, row

SPREAD = 4
SMALL_RANGE = 1 << 14
"""Integers are counted where their range is at most `SPREAD` times as many as they are, or `SMALL_RANGE`; others are sorted."""


@row("unique")
def unique(symbol: BoundSymbol, x: Array) -> Array:
    options = parsed_options(symbol.attrs["options"])
    axis, part = options["axis"], options["part"]
    found = _distinct(x, symbol.inputs[0].dtype, axis)
    if options["sorted"]:
        if part == "values":
            values = found.values
            if values is None:
                return np.take(x, found.first, axis)
            return values.astype(x.dtype, copy=False).reshape([-1 if number == axis else 1 for number in range(x.ndim)])
        return _part(found, part)
    order = np.argsort(found.first, kind="stable")  # of appearance
    if part == "values":
        return np.take(x, found.first[order], axis)
    if part == "inverse":
        rank = np.empty(order.size, np.int64)
        rank[order] = np.arange(order.size)
        return rank[found.inverse]
    return _part(found, part)[order]


def _part(found: _Distinct, part: str) -> Array:
    match part:
        case "first":
            result = found.first
        case "inverse":
            result = found.inverse
        case _:
            result = found.counts
    return np.asarray(result, np.int64)


def _distinct(x: Array, dtype: DType, axis: int) -> _Distinct:
    """Return the distinct slices in ascending order. They are compared from their first element on.

    NaN equals NaN and comes last; -0 equals 0.
    """
    rows = np.moveaxis(x, axis, 0).reshape(x.shape[axis], math.prod(x.shape[:axis] + x.shape[axis + 1 :]))
    if dtype.is_float:
        rows = rows.astype(np.float64 if dtype.bits == 64 else np.float32)
    if dtype is string or (rows.shape[1] != 1 and dtype.is_float):  # as ranks: NumPy does not order NaN in rows
        codes = np.unique(rows.reshape(-1), return_inverse=True)[1].reshape(rows.shape)
    else:
        codes = rows
    if codes.shape[1] != 1:
        return _Rows(codes)
    line = codes[:, 0]
    if line.dtype.kind == "b":
        line = line.view(np.uint8)
    if line.size and line.dtype.kind in "iu":
        least, most = int(line.min()), int(line.max())
        if most - least < max(SPREAD * line.size, SMALL_RANGE):
            return _Counted(line, least, most - least + 1, codes is rows)
    return _Sorted(line, has_values=codes is rows)


class _Distinct(Protocol):
    """Distinct numbers of a line, or rows: where each is first, which one each element is, and how often it is there.

    `values` are the numbers themselves, None where only `first` says which they are.
    """

    @property
    def values(self) -> Array | None: ...

    @property
    def first(self) -> Array: ...

    @property
    def inverse(self) -> Array: ...

    @property
    def counts(self) -> Array: ...


class _Rows:
    """Rows of codes, all found at once."""

    values = None

    def __init__(self, codes: Array) -> None:
        self.first = self.inverse = self.counts = np.zeros(0, np.int64)
        if len(codes):
            found = np.unique(codes, axis=0, return_index=True, return_inverse=True, return_counts=True)
            self.first, self.inverse, self.counts = found[1], found[2].reshape(-1), found[3]


class _Counted:
    """Integers of a small range, each of which has a position in a table."""

    def __init__(self, line: Array, least: int, extent: int, has_values: bool) -> None:
        self._has_values = has_values
        self._least, self._dtype, self._extent = least, line.dtype, extent
        # Unsigned numbers may be too large for int64 as long as the least of them is not taken off.
        near = line - line.dtype.type(least) if line.dtype.kind == "u" else line.astype(np.int64) - least
        self._positions = near.astype(np.intp)
        self._table = np.bincount(self._positions, minlength=extent)
        self._present = np.flatnonzero(self._table)

    @property
    def values(self) -> Array | None:
        if not self._has_values:
            return None
        if self._dtype.kind == "u":
            return np.asarray(self._present.astype(self._dtype) + self._dtype.type(self._least))
        return (self._present + self._least).astype(self._dtype)

    @cached_property
    def first(self) -> Array:
        table = np.empty(self._extent, np.int64)
        table[self._positions[::-1]] = np.arange(self._positions.size - 1, -1, -1)  # of equal places, the last write stays
        return table[self._present]

    @cached_property
    def inverse(self) -> Array:
        table = np.empty(self._extent, np.int64)
        table[self._present] = np.arange(self._present.size)
        return table[self._positions]

    @property
    def counts(self) -> Array:
        return np.asarray(self._table[self._present])


class _Sorted:
    """Other numbers, or codes of strings: equal ones are side by side in order."""

    def __init__(self, line: Array, has_values: bool) -> None:
        self._line, self._has_values = line, has_values

    @cached_property
    def values(self) -> Array | None:
        if not self._has_values:
            return None
        ordered = np.sort(self._line)
        values = ordered[self._starts(ordered)]
        if values.dtype.kind == "f":  # -0 is 0, and one NaN another: those that are first
            for equal in (values == 0, np.isnan(values)):
                if equal.any():
                    same = np.isnan if np.isnan(values[equal][0]) else np.logical_not
                    values[equal] = self._line[np.argmax(same(self._line))]
        return values

    @cached_property
    def _order(self) -> tuple[Array, Array]:
        """The positions in order, equal numbers as they come, and which of these begin another number."""
        order = np.argsort(self._line, kind="stable")
        return order, self._starts(self._line[order])

    @staticmethod
    def _starts(ordered: Array) -> Array:
        starts = np.ones(ordered.size, np.bool_)
        np.not_equal(ordered[1:], ordered[:-1], out=starts[1:])
        if ordered.dtype.kind == "f":
            starts[1:] &= ~np.isnan(ordered[:-1])  # what follows NaN is NaN
        return starts

    @property
    def first(self) -> Array:
        order, starts = self._order
        return order[starts]

    @property
    def inverse(self) -> Array:
        order, starts = self._order
        inverse = np.empty(order.size, np.int64)
        inverse[order] = np.cumsum(starts) - 1
        return inverse

    @property
    def counts(self) -> Array:
        return np.diff(np.flatnonzero(self._starts(np.sort(self._line))), append=self._line.size)
