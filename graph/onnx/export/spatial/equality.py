"""Finds computations by making them again: what a function builds of the same leaves is compared with what a graph has."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ....graph import Graph
from ....ops.attributes import Attributes, fixed
from ....ops.table import OPS
from ....symbol import Symbol


def found_among(
    graph: Graph, make: Callable[..., Symbol], leaves: Sequence[Symbol], candidates: Sequence[Symbol]
) -> Symbol | None:
    """Return the candidate that is what `make`, called with a graph, builds of the leaves."""
    scratch = graph.rewriting()
    inputs = [
        scratch.restore(
            OPS["input"], (), fixed({"index": number, "name": f"leaf{number}"}), leaf.dtype, leaf.shape, leaf.location
        )
        for number, leaf in enumerate(leaves)
    ]
    built = make(scratch, *inputs)
    known = {made.id: leaf.id for made, leaf in zip(inputs, leaves, strict=True)}
    return next((symbol for symbol in candidates if _equal(built, symbol, dict(known))), None)


def _equal(made: Symbol, symbol: Symbol, known: dict[int, int]) -> bool:
    """Return whether two symbols are the same computation of the leaves; `known` has the pairs that are."""
    pending = [(made, symbol)]
    while pending:
        one, other = pending.pop()
        if one.id in known:
            if known[one.id] != other.id:
                return False
            continue
        if one.op is not other.op or one.dtype is not other.dtype or one.shape != other.shape:
            return False
        if not _same_attributes(one.attrs, other.attrs) or len(one.inputs) != len(other.inputs):
            return False
        known[one.id] = other.id
        pending.extend(zip(one.inputs, other.inputs, strict=True))
    return True


def _same_attributes(one: Attributes, other: Attributes) -> bool:
    for name, value in one.items():
        given = other.get(name)
        if isinstance(value, np.ndarray) or isinstance(given, np.ndarray):
            first, second = np.asarray(value), np.asarray(given)
            if first.dtype != second.dtype or not np.array_equal(first, second):
                return False
        elif value != given:
            return False
    return one.keys() == other.keys()
