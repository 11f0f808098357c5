"""Defines what a name of a model stands for while the model is imported.

Only what is computed at a run becomes a `Symbol`. Constants stay arrays, sizes stay expressions of dims, and sequences and
optional values, whose lengths are known while importing, never reach the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np

from ...promotion.arrays import Array
from ...promotion.dataclass import dataclass
from ...promotion.dtype import DType, string
from ..dims.dim import Dim, Extent
from ..graph import Graph
from ..symbol import Symbol


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A constant: an array (of objects for strings), and the name of the initialiser that it is, if it is one.

    A tensor that holds one number everywhere is a broadcast view of it, whatever its size. What is kept as codes says how a
    graph computes it of these, which graphs do: `made`.
    """

    array: Array
    name: str | None = None
    made: Callable[[Graph, dict[int, tuple[Known, Symbol]]], Symbol] | None = None

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return string if self.array.dtype.hasobject else DType.from_numpy(self.array.dtype)

    @property
    def shape(self) -> tuple[Extent, ...]:
        """The sizes of the axes."""
        return tuple(self.array.shape)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A size divided by a positive number, exactly: what sizes become on their way through floats."""

    dividend: Extent
    divisor: int


@dataclass(frozen=True, slots=True)
class IsZero:
    """Whether a size is 0, which is known at launch."""

    size: Dim


@dataclass(frozen=True, slots=True, eq=False)
class Tabulated:
    """A function of a size in floats, rounded as they are.

    Attributes:
        size: what it is a function of.
        values: where the size is 0, 1, 2, …
        op, operands, dtype: how it is computed at a run.
    """

    size: Dim
    values: Array
    op: str
    operands: tuple[object, ...]
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """A scalar or vector of sizes, some of which are known only at launch.

    Attributes:
        items: an array of objects: ints, dims, ratios or tables where `dtype` is a float, truths where it is that of truths.
        dtype: an integer dtype, or another one on the way from sizes to sizes.
    """

    items: Array
    dtype: DType

    @property
    def shape(self) -> tuple[Extent, ...]:
        """The sizes of the axes."""
        return tuple(self.items.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """A sequence of tensors whose length is known."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Optional:
    """An optional value that is absent, or is `value`."""

    value: Value | None


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """What an iteration of a loop appends: a tensor along an axis, or without an axis one element of a sequence.

    Attributes:
        flag: a condition that decides whether it is appended; None if it always is.
    """

    value: Value
    axis: int | None
    flag: Symbol | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Growing:
    """A state of a loop while its body is imported, to which iterations append and which they do not read."""

    pieces: tuple[Piece, ...] = ()

    def appended(self, value: Value, axis: int | None) -> Growing:
        """Return the state with one piece more."""
        return Growing((*self.pieces, Piece(value, axis)))


@dataclass(frozen=True, slots=True, eq=False)
class Stacked:
    """A sequence whose length is a size: the slices of a tensor along axis 0."""

    rows: Symbol


@dataclass(frozen=True, slots=True, eq=False)
class Maps:
    """A sequence of dictionaries, one for each row of a matrix, that have the elements of the row under these keys."""

    rows: Symbol
    keys: tuple[int | str, ...]


Tensor: TypeAlias = "Known | Sizes | Symbol"
Value: TypeAlias = "Known | Sizes | Symbol | Sequence | Optional | Growing | Stacked | Maps"
COMPOSITE = (Sequence, Optional, Growing, Stacked, Maps)
"""Values that are no tensors."""


def objects(items: Iterable[object], shape: tuple[int, ...]) -> Array:
    """Return an array of objects; NumPy itself would look inside them."""
    entries = list(items)
    array: Array = np.empty(len(entries), dtype=object)
    for position, entry in enumerate(entries):
        array[position] = entry
    return array.reshape(shape)


def from_items(items: Array, dtype: DType) -> Known | Sizes | None:
    """Return integers as a constant, others as `Sizes`; None if one does not fit the dtype, so that arithmetic would wrap."""
    flat = items.reshape(-1).tolist()
    if all(type(item) is int for item in flat):
        if dtype.is_float:
            return Known(np.array(flat, np.float64).astype(dtype.numpy).reshape(items.shape))
        if not all(dtype.contains_integer(item) for item in flat):
            return None
        return Known(np.array(flat, dtype.numpy).reshape(items.shape))
    return Sizes(items, dtype)
