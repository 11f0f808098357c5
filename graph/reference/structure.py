"""Defines reference implementations of the source, view, join and index rows, which only move values."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from ...promotion.arrays import Array
from ...promotion.errors import InternalError, UserError
from ..dims.dim import evaluate_dim
from ..ops.attributes import Attributes
from ..ops.opdef import ViewIndex
from ..ops.structural import VIEWS
from .numerics import literal
from .registry import REFERENCE, BoundSymbol, row


@row("input")
def read_input(symbol: BoundSymbol, *operands: Array) -> Array:
    raise InternalError("the values of inputs are given to the evaluator, not computed")


@row("constant", "weight")
def constant(symbol: BoundSymbol) -> Array:
    return np.asarray(symbol.attrs["value"])


@row("dim_value")
def dim_value(symbol: BoundSymbol) -> Array:
    return np.asarray(symbol.attrs["extent"], np.int64)


@row("reshape")
def reshape(symbol: BoundSymbol, a: Array) -> Array:
    if math.prod(symbol.shape) != a.size:
        raise UserError(
            f"reshape: {a.shape} has {a.size} elements, {symbol.shape} has {math.prod(symbol.shape)}; "
            "fix: pass arrays whose sizes satisfy the shape the graph was built with"
        )
    return a.reshape(symbol.shape)


@row("permute")
def permute(symbol: BoundSymbol, a: Array) -> Array:
    return np.transpose(a, symbol.attrs["axes"])


@row("broadcast_to")
def broadcast_to(symbol: BoundSymbol, a: Array) -> Array:
    return np.broadcast_to(a, symbol.shape)


@row("flip")
def flip(symbol: BoundSymbol, a: Array) -> Array:
    return np.flip(a, symbol.attrs["axes"])


@row("slice")
def take_slice(symbol: BoundSymbol, a: Array) -> Array:
    """Slice by (start, stop, step) per axis, in range.

    With a negative step a stop of -1 means "through 0".
    """
    bounds = zip(symbol.attrs["starts"], symbol.attrs["stops"], symbol.attrs["steps"], strict=True)
    index = []
    for start, stop, step in bounds:
        positions = range(start, stop, step)
        if not positions:
            index.append(slice(0, 0))
        else:  # in Python's slices the stop -1 is the last element, and None means "through 0"
            index.append(slice(start, stop if stop >= 0 else None, step))
    return np.asarray(a[tuple(index)])


@row("concat")
def concat(symbol: BoundSymbol, *arrays: Array) -> Array:
    return np.concatenate(arrays, symbol.attrs["axis"])


@row("pad")
def pad(symbol: BoundSymbol, a: Array) -> Array:
    """Pad by mode: "constant" fills with `value`, "edge" repeats the border, "reflect" mirrors around it."""
    widths = list(zip(symbol.attrs["low"], symbol.attrs["high"], strict=True))
    mode = symbol.attrs.get("mode", "constant")
    result = np.empty(symbol.shape, a.dtype)
    if mode == "constant":
        result[...] = literal(symbol.attrs.get("value", 0), symbol.dtype)
        result[tuple(slice(low, low + extent) for (low, _), extent in zip(widths, a.shape, strict=True))] = a
        return result
    for axis, ((low, high), extent) in enumerate(zip(widths, a.shape, strict=True)):
        if not (low or high):
            continue
        if extent == 0:
            raise UserError(
                f'pad: axis {axis} is empty, so mode "{mode}" has nothing to repeat; fix: mode "constant"'
            )
        position = np.arange(-low, extent + high)
        if mode == "edge" or extent == 1:
            position = np.clip(position, 0, extent - 1)
        else:  # a mirror at both ends makes the positions periodic
            position = np.abs(np.mod(position + extent - 1, 2 * extent - 2) - (extent - 1))
        a = np.take(a, position, axis)
    return a


@row("windows")
def windows(symbol: BoundSymbol, a: Array) -> Array:
    """Take the windows as a strided view of the operand's memory."""
    shape, strides = list(a.shape), list(a.strides)
    attrs = symbol.attrs
    for axis, count, stride in zip(attrs["axes"], attrs["counts"], attrs["strides"], strict=True):
        shape[axis] = int(evaluate_dim(count, {}))
        strides[axis] = a.strides[axis] * stride if shape[axis] > 1 else 0  # that of a single window may be any number
    steps = zip(attrs["axes"], attrs["sizes"], attrs["dilations"], strict=True)
    inner = [a.strides[axis] * dilation if size > 1 else 0 for axis, size, dilation in steps]
    own = a.dtype.isbuiltin == 1  # NumPy knows no strides of dtypes of other packages
    bits = a if own else a.view(f"u{a.itemsize}")
    taken = np.lib.stride_tricks.as_strided(bits, (*shape, *attrs["sizes"]), (*strides, *inner), writeable=False)
    return taken if own else taken.view(a.dtype)


@row("gather")
def gather(symbol: BoundSymbol, a: Array, indices: Array) -> Array:
    """Take elements as numpy.take; the shape is a.shape[:axis] + indices.shape + a.shape[axis+1:]."""
    axis = symbol.attrs["axis"]
    return np.take(a, _positions(symbol, a.shape[axis], indices), axis)


@row("take_along_axis")
def take_along_axis(symbol: BoundSymbol, a: Array, indices: Array) -> Array:
    axis = symbol.attrs["axis"]
    return np.take_along_axis(a, _positions(symbol, a.shape[axis], indices), axis)


@row("gather_nd")
def gather_nd(symbol: BoundSymbol, a: Array, indices: Array) -> Array:
    """Take slices with one array of positions for each axis; batch axes have their own numbers."""
    batch, depth = symbol.attrs["batch_dims"], indices.shape[-1]
    lead = indices.shape[:-1]
    numbers = np.indices(lead, sparse=True)[:batch] if batch else ()
    columns = [_positions(symbol, a.shape[batch + n], indices[..., n], batch + n) for n in range(depth)]
    where = tuple([np.broadcast_to(each, lead) for each in (*numbers, *columns)])
    return a[where] if where else np.broadcast_to(a, (*lead, *a.shape))


def _positions(symbol: BoundSymbol, extent: int, indices: Array, axis: int | None = None) -> Array:
    """Return indices as positions in [0, extent): negative ones count from the end, the rest is clamped."""
    if extent == 0 and indices.size:
        which = symbol.attrs["axis"] if axis is None else axis
        raise UserError(f"{symbol.op}: axis {which} is empty, so no index can be read from it")
    if indices.dtype.kind == "u":
        return np.minimum(indices, np.uint64(max(extent - 1, 0))).astype(np.int64)
    wide = indices.astype(np.int64)
    return np.clip(np.where(wide < 0, wide + extent, wide), 0, max(extent - 1, 0))


def _view(name: str, index: ViewIndex) -> None:
    @row(name)
    def implementation(symbol: BoundSymbol, a: Array) -> Array:
        """Return the operand's elements at the indices that the row gives.

        An axis of size 1 has one index.
        """
        found = index(a.shape, symbol.shape, cast(Attributes, symbol.attrs))
        positions = []
        for extent, (terms, start) in zip(a.shape, found, strict=True):
            indices = np.full((1,) * len(symbol.shape), int(evaluate_dim(start, {})), np.int64)
            for axis, step in terms:
                along = [-1 if each == axis else 1 for each in range(len(symbol.shape))]
                indices = indices + (step * np.arange(symbol.shape[axis])).reshape(along)
            positions.append(indices if extent != 1 else np.zeros_like(indices))
        return np.broadcast_to(a[tuple(positions)], symbol.shape)


for _row in VIEWS:
    if _row.index is not None and _row.name not in REFERENCE:
        _view(_row.name, _row.index)
