"""Finds computations by making them again: what a function builds of the same leaves is compared with what a graph has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ....promotion.dtype import DType
from ....promotion.errors import UnsupportedError, UserError
from ...graph import Graph
from ...location import Location
from ...ops.attributes import Attributes, fixed
from ...ops.control import captures_of, regions_of
from ...ops.table import OPS
from ...symbol import Symbol
from ...types import Shape

UNFIT = (UserError, UnsupportedError, ArithmeticError, LookupError, TypeError, ValueError, AssertionError)
"""What functions raise of operands that they were not written for: most guesses check no more than a few shapes."""
_Pairs = set[tuple[int, int]]
"""The ids of symbols that are the same computation."""


def found_among(
    graph: Graph, make: Callable[..., Symbol], leaves: Sequence[Symbol], candidates: Sequence[Symbol]
) -> Symbol | None:
    """Return the candidate that is what `make`, called with a graph, builds of the leaves."""
    (found,) = found_of_several(graph, lambda *given: (make(*given),), leaves, (candidates,))
    return found[0] if found else None


def found_of_several(
    graph: Graph, make: Callable[..., Sequence[Symbol]], leaves: Sequence[Symbol], candidates: Sequence[Sequence[Symbol]]
) -> list[list[Symbol]]:
    """Return for each of the values that `make` builds of the leaves those of its candidates that are the same.

    Leaves are guesses: those that `make` refuses are none of which it built anything.
    """
    scratch = graph.rewriting()
    inputs = [
        leaf_of(scratch, number, leaf.dtype, leaf.shape, leaf.location) for number, leaf in enumerate(leaves)
    ]
    try:
        built = make(scratch, *inputs)
    except UNFIT:
        return [[] for _ in candidates]
    known = {made.id: leaf.id for made, leaf in zip(inputs, leaves, strict=True)}
    return [
        [symbol for symbol in some if _equal(value, symbol, known, set())]
        for value, some in zip(built, candidates, strict=True)
    ]


def leaf_of(scratch: Graph, number: int, dtype: DType, shape: Shape, location: Location) -> Symbol:
    """Return a new input of a graph, which stands for what another graph computes."""
    attrs = fixed({"index": number, "name": f"leaf{number}"})
    return scratch.restore(OPS["input"], (), attrs, dtype, shape, location)


def _equal(made: Symbol, symbol: Symbol, leaves: Mapping[int, int], pairs: _Pairs) -> bool:
    """Return whether two symbols are the same computation of the leaves.

    leaves: the ids of leaves, with those of what they stand for.  pairs: what is known to be the same.
    """
    pending = [(made, symbol)]
    while pending:
        one, other = pending.pop()
        if one.id in leaves:
            if leaves[one.id] != other.id:
                return False
            continue
        if (one.id, other.id) in pairs:
            continue
        if one.op is not other.op or one.dtype is not other.dtype or one.shape != other.shape:
            return False
        if not same_attributes(one.attrs, other.attrs) or len(one.inputs) != len(other.inputs):
            return False
        if one.op.kind == "control" and not _same_regions(one, other):
            return False
        pairs.add((one.id, other.id))
        pending.extend(zip(one.inputs, other.inputs, strict=True))
    return True


def _same_regions(one: Symbol, other: Symbol) -> bool:
    """Return whether two loops or branches run the same bodies on their operands, which are compared elsewhere."""
    regions = list(zip(regions_of(one), regions_of(other), strict=False))
    if len(regions_of(one)) != len(regions_of(other)):
        return False
    for number, (first, second) in enumerate(regions):
        if len(first.inputs) != len(second.inputs) or len(first.outputs) != len(second.outputs):
            return False
        if len(captures_of(one, number)) != len(captures_of(other, number)):
            return False
        leaves = {inner.id: stands.id for inner, stands in zip(first.inputs, second.inputs, strict=True)}
        pairs: _Pairs = set()
        if not all(_equal(*each, leaves, pairs) for each in zip(first.outputs, second.outputs, strict=True)):
            return False
    return True


def same_attributes(one: Attributes, other: Attributes) -> bool:
    """Return whether two symbols have the same attributes, whatever regions they run."""
    for name, value in one.items():
        given = other.get(name)
        if name == "regions":
            continue
        if isinstance(value, np.ndarray) or isinstance(given, np.ndarray):
            first, second = np.asarray(value), np.asarray(given)
            if first.dtype != second.dtype or first.shape != second.shape or first.tobytes() != second.tobytes():
                return False
        elif value != given:
            return False
    return one.keys() == other.keys()
