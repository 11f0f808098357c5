"""Defines reference implementations of what works along an axis in order: scatters, sorts, running extremes and products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...promotion.arrays import Array
from .elementwise import larger, smaller
from .numerics import double, to_dtype, working
from .registry import REFERENCE, BoundSymbol, row

_COMBINE = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum"}
"""Reduction of a scatter → the map that combines an element with an update."""


@row("scatter")
def scatter(symbol: BoundSymbol, a: Array, positions: Array, updates: Array) -> Array:
    """Write updates one step along the axis after the other, so that of equal positions the last one is applied last."""
    axis, reduction = symbol.attrs["axis"], symbol.attrs["reduction"]
    result = np.moveaxis(a.copy(), axis, 0)
    steps, values = np.moveaxis(positions, axis, 0), np.moveaxis(updates, axis, 0)
    others = np.indices(result.shape[1:], sparse=True)
    extent = result.shape[0]
    bound = BoundSymbol(_COMBINE.get(reduction, ""), symbol.dtype, (), (symbol.inputs[0], symbol.inputs[0]))
    for number in range(len(steps)):
        step, value = steps[number, ...], values[number, ...]
        wide = np.minimum(step, np.uint64(2**63 - 1)).astype(np.int64) if step.dtype.kind == "u" else step.astype(np.int64)
        at = np.where(wide < 0, wide + extent, wide)
        inside = (at >= 0) & (at < extent)
        where = tuple([np.broadcast_to(each, at.shape)[inside] for each in (at, *others)])
        given = value[inside]
        if reduction != "none":
            old = result[where]
            given = REFERENCE[bound.op](BoundSymbol(bound.op, symbol.dtype, old.shape, bound.inputs), old, given)
        result[where] = given
    return np.ascontiguousarray(np.moveaxis(result, 0, axis))


@row("argsort")
def argsort(symbol: BoundSymbol, a: Array) -> Array:
    return _argsort(symbol, a, symbol.attrs["descending"])


@row("sort")
def sort(symbol: BoundSymbol, a: Array) -> Array:
    return np.take_along_axis(a, argsort(symbol, a), symbol.attrs["axis"])


@row("sort_block")
@row("sort_lines")
def sort_block(symbol: BoundSymbol, a: Array) -> Array:
    return np.sort(a, symbol.attrs["axis"])


@row("top_positions")
def top_positions(symbol: BoundSymbol, a: Array) -> Array:
    order = _argsort(symbol, a, symbol.attrs["largest"])
    return np.take(order, np.arange(symbol.attrs["k"]), symbol.attrs["axis"])


def _argsort(symbol: BoundSymbol, a: Array, descending: bool) -> Array:
    """Sort as NumPy does, NaN last; a descending order is the ascending one of the mirrored elements, mirrored."""
    axis, dtype = symbol.attrs["axis"], symbol.inputs[0].dtype
    values = working(a, dtype) if dtype.bits >= 16 or dtype.is_bool else a.astype(np.float32 if dtype.is_float else np.int64)
    if not descending:
        return np.argsort(values, axis, kind="stable").astype(np.int64)
    mirrored = np.argsort(np.flip(values, axis), axis, kind="stable").astype(np.int64)
    return np.asarray(values.shape[axis] - 1 - np.flip(mirrored, axis), np.int64)


@row("sorted_positions")
def sorted_positions(symbol: BoundSymbol, a: Array) -> Array:
    return np.argsort(a, -1, kind="stable").astype(np.int64)


@row("least_positions")
def least_positions(symbol: BoundSymbol, a: Array) -> Array:
    return sorted_positions(symbol, a)[..., : symbol.attrs["k"]]


@row("searchsorted")
def searchsorted(symbol: BoundSymbol, a: Array, values: Array) -> Array:
    """Search the elements that NumPy knows the order of; NaN comes last there, too."""
    dtype = symbol.inputs[0].dtype
    within, wanted = working(a, dtype), working(values, dtype)
    found = np.searchsorted(within, wanted, side=symbol.attrs["side"])
    return np.asarray(found, np.int64)


@row("sort_keys")
def sort_keys(symbol: BoundSymbol, a: Array) -> Array:
    positions = np.argsort(a, -1, kind="stable").astype(np.int64)
    ranked = np.take_along_axis(a, positions, -1).astype(np.int64)
    rows = [(ranked << np.int64(32)) + positions, positions]
    return np.stack(rows if symbol.shape[-2] == 2 else [*rows, np.zeros_like(positions)], -2)


def _scan(name: str, combine: Callable[[Array, Array], Array], first: Callable[[BoundSymbol], object]) -> None:
    @row(name)
    def implementation(symbol: BoundSymbol, a: Array) -> Array:
        """Combine the elements one after the other along the axis, from the end where `reverse`."""
        values = np.moveaxis(double(a) if symbol.dtype.is_float else working(a, symbol.dtype), symbol.attrs["axis"], 0)
        backwards = symbol.attrs.get("reverse", False)
        values = values[::-1] if backwards else values
        result = np.empty_like(values)
        so_far = np.full(values.shape[1:], first(symbol), values.dtype)
        for position, value in enumerate(values):
            combined = combine(so_far, value)
            result[position] = so_far if symbol.attrs.get("exclusive", False) else combined
            so_far = combined
        return to_dtype(np.moveaxis(result[::-1] if backwards else result, 0, symbol.attrs["axis"]), symbol.dtype)


def _lowest(symbol: BoundSymbol) -> object:
    return -np.inf if symbol.dtype.is_float else 0 if symbol.dtype.is_bool else symbol.dtype.min_value


def _highest(symbol: BoundSymbol) -> object:
    return np.inf if symbol.dtype.is_float else 1 if symbol.dtype.is_bool else symbol.dtype.max_value


_scan("cumprod", np.multiply, lambda symbol: 1)
_scan("cummax", larger, _lowest)
_scan("cummin", smaller, _highest)
