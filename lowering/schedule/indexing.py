"""Defines index expressions, which address an element of a symbol from the axes of a nest.

One index is a plain tuple `(offset, terms, dynamic)`, the value `offset + Σ coefficient · axis + Σ
coefficient · value`: `terms` pairs axes of the nest with coefficients, `dynamic` pairs body values (int64,
from gathers) with coefficients. Tuples of ints hash and compare in C, which matters: a schedule evaluates
thousands of them.

An axis map says the same for the members of a group, whose dimensions always run over whole axes: per
dimension the tuple of axes whose row-major product it is, `()` for a dimension the value does not vary along.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from ...graph.location import Location
from ...promotion.dtype import DType
from ..nest import Attributes, Extent
from .extents import contiguous_strides

Terms: TypeAlias = tuple[tuple[int, Extent], ...]
Index: TypeAlias = tuple[Extent, Terms, Terms]
AxisMap: TypeAlias = tuple[tuple[int, ...], ...]

ZERO: Index = (0, (), ())
APART = 2
"""How much longer than neighbours elements that are some apart take, as a share of the work of a value."""


def axis_index(axis: int) -> Index:
    return (0, ((axis, 1),), ())


def constant_index(offset: Extent) -> Index:
    return (offset, (), ())


def shift(index: Index, amount: Extent) -> Index:
    if type(amount) is int and amount == 0:
        return index
    return (index[0] + amount, index[1], index[2])


def scale(index: Index, factor: Extent) -> Index:
    if type(factor) is int:
        if factor == 1:
            return index
        if factor == 0:
            return ZERO
    offset, terms, dynamic = index
    return (
        offset * factor,
        tuple([(axis, value * factor) for axis, value in terms]),
        tuple([(operand, value * factor) for operand, value in dynamic]),
    )


def _merge_terms(lhs: Terms, rhs: Terms) -> Terms:
    if not lhs:
        return rhs
    if not rhs:
        return lhs
    merged: dict[int, Extent] = dict(lhs)
    for key, value in rhs:
        merged[key] = merged[key] + value if key in merged else value
    return tuple(
        sorted(
            [(key, value) for key, value in merged.items() if not (type(value) is int and value == 0)],
            key=_term_key,
        )
    )


def _term_key(term: tuple[int, Extent]) -> int:
    return term[0]


def add(lhs: Index, rhs: Index) -> Index:
    return (lhs[0] + rhs[0], _merge_terms(lhs[1], rhs[1]), _merge_terms(lhs[2], rhs[2]))


def effort(indices: Sequence[Index]) -> int:
    """Returns how many times as long reading at the indices takes as reading neighbours: elements of a row that are apart are
    shuffled together."""
    steps = [value for _, value in indices[-1][1]] if indices else []
    return APART if len(steps) == 1 and type(steps[0]) is int and abs(steps[0]) > 1 else 1


def linear(indices: Iterable[Index], strides: Iterable[Extent]) -> Index:
    """Returns `Σ index · stride`, the position of an element in a buffer with these strides."""
    offset: Extent = 0
    terms: dict[int, Extent] = {}
    dynamic: dict[int, Extent] = {}
    for index, stride in zip(indices, strides, strict=True):
        base, axis_terms, value_terms = index
        if not (type(base) is int and base == 0):
            offset = offset + base * stride
        for axis, value in axis_terms:
            step = value * stride
            terms[axis] = terms[axis] + step if axis in terms else step
        for operand, value in value_terms:
            step = value * stride
            dynamic[operand] = dynamic[operand] + step if operand in dynamic else step
    return (offset, _clean(terms), _clean(dynamic))


def _clean(terms: dict[int, Extent]) -> Terms:
    return tuple(
        sorted([term for term in terms.items() if not (type(term[1]) is int and term[1] == 0)], key=_term_key)
    )


def map_indices(axis_map: AxisMap, extents: Sequence[Extent]) -> tuple[Index, ...]:
    """Returns the index of every dimension of a member: row-major over the dimension's axes, `ZERO` where it
    does not vary."""
    result: list[Index] = []
    for axes in axis_map:
        if not axes:
            result.append(ZERO)
        elif len(axes) == 1:
            result.append((0, ((axes[0], 1),), ()))
        else:
            strides = contiguous_strides(tuple([extents[axis] for axis in axes]))
            result.append((0, tuple(sorted(zip(axes, strides, strict=True), key=_term_key)), ()))
    return tuple(result)


def view_position(index: tuple[Index, ...], terms: Sequence[tuple[int, int]], start: Extent) -> Index:
    """Returns the index in an operand along one of its axes, by the terms of a view."""
    (axis, step), *others = terms
    position = shift(scale(index[axis], step), start)
    for axis, step in others:
        position = add(position, scale(index[axis], step))
    return position


class Entry:
    """A body value before its axes are final: `axes` is a bit mask, `at` an affine expression of the group's
    axes, `lines` the user's lines that the value comes from."""

    __slots__ = ("at", "attrs", "axes", "dtype", "lines", "op", "operands")

    def __init__(
        self,
        op: str,
        dtype: DType,
        axes: int,
        operands: tuple[int, ...],
        attrs: Attributes,
        at: Index | None,
        lines: tuple[Location, ...],
    ) -> None:
        self.op, self.dtype, self.axes, self.operands = op, dtype, axes, operands
        self.attrs, self.at, self.lines = attrs, at, lines


def axes_of(index: tuple[Index, ...], entries: Sequence[Entry]) -> int:
    """Returns the mask of the axes that an index varies along."""
    mask = 0
    for _, terms, dynamic in index:
        for axis, _ in terms:
            mask |= 1 << axis
        for value, _ in dynamic:
            mask |= entries[value].axes
    return mask


def mask_of(axis_map: AxisMap) -> int:
    """Returns the mask of all axes of an axis map."""
    mask = 0
    for axes in axis_map:
        for axis in axes:
            mask |= 1 << axis
    return mask
