"""Handles sequences and optional values, whose lengths and presence are known while importing."""

from __future__ import annotations

import numpy as np

from ....promotion.dtype import int64
from ...dims.dim import Extent
from ...functions.building import apply
from ...functions.joining import concat, split, stack
from ...functions.positions import counting
from ...symbol import Symbol
from ...types import shape_text
from ..model import Body
from ..node import Node, Result
from ..registry import handles
from ..values import Growing, Known, Optional, Sequence, Sizes, Stacked, Value, objects


def sequence_of(node: Node, position: int) -> tuple[Value, ...]:
    """Return the elements of an input that is a sequence, also an optional one, whose length must be known."""
    value = node.value(position)
    if isinstance(value, Optional) and value.value is not None:
        value = value.value
    if isinstance(value, Stacked):
        length = value.rows.shape[0]
        if not isinstance(length, int):
            raise node.size_needed([length], f"the sequence of input {position} has {length} elements")
        node.require(length <= node.limits.unrolled_nodes, f"a sequence of {length}")
        return tuple([_without(part, 0) for part in split(value.rows, [1] * length, 0)])
    if not isinstance(value, Sequence):
        node.require(False, f"input {position} is no sequence")
        return ()
    return value.items


@handles("SequenceConstruct", structural=True)
def sequence_construct(node: Node) -> Result:
    """Make a sequence of tensors."""
    return Sequence(tuple([node.value(position) for position in range(len(node))]))


@handles("SequenceEmpty", structural=True)
def sequence_empty(node: Node) -> Result:
    """Make a sequence of nothing."""
    node.ignore("dtype")
    return Sequence(())


@handles("SequenceLength", structural=True)
def sequence_length(node: Node) -> Result:
    """Count the elements."""
    value = node.value(0)
    if isinstance(value, Stacked):
        extent = value.rows.shape[0]
        return Known(np.array(extent)) if isinstance(extent, int) else Sizes(objects([extent], ()), int64)
    return Known(np.array(len(sequence_of(node, 0)), np.int64))


def _position(node: Node, position: int, length: int) -> int:
    number = node.integer(position, "a position in a sequence")
    node.require(-length <= number < length, f"position {number} of a sequence of {length}")
    return number % length


@handles("SequenceAt", structural=True)
def sequence_at(node: Node) -> Result:
    """Return one element."""
    value = node.value(0)
    if isinstance(value, Stacked):
        return apply("gather", value.rows, node[1].reshape(()), axis=0)
    items = sequence_of(node, 0)
    return items[_position(node, 1, len(items))]


@handles("SequenceErase", structural=True)
def sequence_erase(node: Node) -> Result:
    """Leave one element out, by default the last one."""
    first = node.value(0)
    if isinstance(first, Stacked):
        return Stacked(_without_row(node, first.rows))
    items = sequence_of(node, 0)
    position = _position(node, 1, len(items)) if node.has(1) else len(items) - 1
    node.require(bool(items), "nothing to erase in an empty sequence")
    return Sequence((*items[:position], *items[position + 1 :]))


@handles("SequenceInsert", structural=True)
def sequence_insert(node: Node) -> Result:
    """Insert an element, by default at the end."""
    first = node.value(0)
    if isinstance(first, Growing):
        node.require(not node.has(2), "an element is inserted at a position of a sequence that a loop makes", "append elements")
        return first.appended(node.value(1), None)
    if isinstance(first, Stacked):
        return Stacked(_with_row(node, first.rows, node[1]))
    items = sequence_of(node, 0)
    number = node.integer(2, "a position in a sequence") if node.has(2) else len(items)
    node.require(-len(items) <= number <= len(items), f"position {number} of a sequence of {len(items)}")
    position = number + len(items) if number < 0 else number
    return Sequence((*items[:position], node.value(1), *items[position:]))


def _with_row(node: Node, rows: Symbol, row: Symbol) -> Symbol:
    """Insert an element into a sequence whose elements are rows."""
    node.require(row.dtype is rows.dtype, f"an element of {row.dtype} in a sequence of {rows.dtype}")
    same = len(row.shape) == len(rows.shape) - 1
    if not same or not all(map(node.graph.shape_checks.decide, row.shape, rows.shape[1:])):
        node.unsupported(
            f"an element of shape {shape_text(row.shape)} in a sequence of elements {shape_text(rows.shape[1:])}, whose "
            "length a run decides", "elements of one shape",
        )  # fmt: skip
    joined = concat((rows, row.reshape((1, *row.shape))), 0)
    if not node.has(2):
        return joined
    length = rows.shape[0]
    at = _from_start(node, 2, length, length)
    numbers = counting(rows.graph, length + 1)
    behind = apply("where", apply("greater", numbers, at), apply("sub", numbers, 1), numbers)
    return apply("gather", joined, apply("where", apply("equal", numbers, at), node.graph.dim_value(length), behind), axis=0)


def _without_row(node: Node, rows: Symbol) -> Symbol:
    """Leave an element out of a sequence whose elements are rows."""
    length = rows.shape[0]
    node.graph.shape_checks.require_at_least(length, 1, "nothing to erase in an empty sequence")
    numbers = counting(rows.graph, length - 1)
    if not node.has(1):
        return apply("gather", rows, numbers, axis=0)
    at = _from_start(node, 1, length, length - 1)
    return apply("gather", rows, apply("where", apply("less", numbers, at), numbers, apply("add", numbers, 1)), axis=0)


def _from_start(node: Node, position: int, length: Extent, most: Extent) -> Symbol:
    """Return a position in a sequence, counted from its start; one that is out of range is the nearest that is not."""
    at = node[position].reshape(()).cast(int64)
    at = apply("where", apply("less", at, 0), apply("add", at, node.graph.dim_value(length)), at)
    return apply("minimum", apply("maximum", at, 0), node.graph.dim_value(most))


@handles("SplitToSequence", structural=True)
def split_to_sequence(node: Node) -> Result:
    """Split a tensor along an axis into parts of given sizes, of one size, or any number of single slices."""
    x = node[0]
    axis = node.axis(node.attr("axis"), len(x.shape))
    extent = x.shape[axis]
    if node.has(1):
        sizes = node.ints(1, "the sizes of SplitToSequence")
        if not node.shape(1):
            if not isinstance(extent, int):
                raise node.size_needed([extent], f"axis {axis} of input 0 has {extent} elements")
            node.require(sizes[0] > 0 and extent <= sizes[0] * node.limits.unrolled_nodes, f"parts of {sizes[0]} of {extent}")
            sizes = tuple([min(sizes[0], extent - start) for start in range(0, extent, sizes[0])])
        return Sequence(split(x, list(sizes), axis))
    keepdims = node.attr("keepdims")
    if not isinstance(extent, int):
        rows = x.permute((axis, *[other for other in range(len(x.shape)) if other != axis]))
        kept = (*x.shape[:axis], 1, *x.shape[axis + 1 :]) if keepdims else rows.shape[1:]
        return Stacked(rows.reshape((extent, *kept)))
    node.require(extent <= node.limits.unrolled_nodes, f"{extent} slices")
    parts = split(x, [1] * extent, axis)
    return Sequence(parts if keepdims else tuple([_without(part, axis) for part in parts]))


def _without(x: Symbol, axis: int) -> Symbol:
    return x.reshape((*x.shape[:axis], *x.shape[axis + 1 :]))


@handles("ConcatFromSequence", structural=True)
def concat_from_sequence(node: Node) -> Result:
    """Join the elements along an axis, or with new_axis=1 along a new one."""
    value = node.value(0)
    if isinstance(value, Stacked):
        return _joined_rows(node, value.rows)
    symbols = [node.symbol_of(item) for item in sequence_of(node, 0)]
    node.require(bool(symbols), "an empty sequence to concatenate")
    rank = len(symbols[0].shape)
    if node.attr("new_axis"):
        return stack(symbols, node.axis(node.attr("axis"), rank + 1))
    return concat(symbols, node.axis(node.attr("axis"), rank))


def _joined_rows(node: Node, rows: Symbol) -> Symbol:
    """Join the slices of a tensor along another axis."""
    rank = len(rows.shape) - 1
    is_new = bool(node.attr("new_axis"))
    axis = node.axis(node.attr("axis"), rank + is_new)
    moved = rows.permute((*range(1, axis + 1), 0, *range(axis + 1, rank + 1)))
    shape = moved.shape
    return moved if is_new else moved.reshape((*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


@handles("SequenceMap", structural=True)
def sequence_map(node: Node) -> Result:
    """Run a subgraph for each element; other sequences are taken element by element, tensors whole."""
    body: Body = node.attr("body")
    first = sequence_of(node, 0)
    results: list[list[Value]] = [[] for _ in body.outputs]
    for number in range(len(first)):
        values = [first[number]]
        for position in range(1, len(node)):
            other = node.value(position)
            if isinstance(other, Sequence):
                node.require(len(other.items) == len(first), "sequences of different lengths")
            values.append(other.items[number] if isinstance(other, Sequence) else other)
        for each, value in zip(results, node.run(body, values, number), strict=True):
            each.append(value)
    if not first:
        for position in range(1, len(node)):
            node.value(position)
    return tuple([Sequence(tuple(each)) for each in results])


@handles("Optional", structural=True)
def optional(node: Node) -> Result:
    """Make an optional value, absent without an operand."""
    node.ignore("type")
    return Optional(node.value(0) if node.has(0) else None)


@handles("OptionalGetElement", structural=True)
def optional_get_element(node: Node) -> Result:
    """Return the value of an optional that has one."""
    value = node.value(0)
    if not isinstance(value, Optional):
        return value
    if value.value is None:
        node.require(False, "the optional is absent")
    return value.value  # type: ignore[return-value]


@handles("OptionalHasElement", structural=True)
def optional_has_element(node: Node) -> Result:
    """Tell whether an optional has a value; an operand that is left out has none."""
    value = node.value(0) if node.has(0) else None
    return Known(np.array(value is not None and not (isinstance(value, Optional) and value.value is None)))
