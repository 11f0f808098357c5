"""Finds one of two values that positions choose along a new axis."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .....promotion.dtype import int64
from ....dims.dim import Extent, lower_bound
from ....functions.positions import is_never_negative
from ....functions.triangles import one_hot as ones_at
from ....graph import Graph
from ....symbol import Symbol
from ...handlers.creation import chosen_at
from ..body import Constant
from ..equality import found_among
from .composed import Composed, Size, plain

_VALUES = ("float32", "float16", "int64")
"""Dtypes of values for which onnxruntime has a kernel, with positions and a depth in int64."""


def one_hot(root: Symbol, graph: Graph) -> Composed | None:
    """Return the node of values that positions choose: two of a vector, or 0 and 1 at positions that are not negative."""
    if root.dtype.name not in _VALUES or not root.shape or len(root.inputs) not in (1, 3):
        return None
    equal = root.inputs[0]
    if equal.op.name != "equal" or equal.inputs[0].op.name != "reshape":
        return None
    apart, counted = equal.inputs
    axis = len(root.shape) - len(counted.shape)
    least = lower_bound(root.shape[axis]) if 0 <= axis < len(root.shape) else None
    if not least or least < 0:  # onnxruntime takes 0 for a negative depth
        return None
    depth = root.shape[axis]
    source = apart.inputs[0]
    if root.op.name == "cast":
        return _ones(root, source, depth, axis, graph)
    for positions in _unwrapped(source):
        for values in _pairs(root.inputs[1]):

            def make(_: Graph, at: Symbol, pair: Symbol) -> Symbol:
                return chosen_at(at, depth, pair, axis)

            if positions.shape and found_among(graph, make, (positions, values), (root,)) is not None:
                return plain("OneHot", (positions, Size((depth,), True), values), root, axis=axis)
    return None


def _ones(root: Symbol, positions: Symbol, depth: Extent, axis: int, graph: Graph) -> Composed | None:
    if not positions.shape or positions.dtype is not int64 or not is_never_negative(positions):
        return None  # OneHot has no single positions, and counts negative ones from the end

    def make(_: Graph, at: Symbol) -> Symbol:
        return ones_at(at, depth, root.dtype, axis)

    if found_among(graph, make, (positions,), (root,)) is None:
        return None
    values = Constant(np.array([0, 1], root.dtype.numpy), root.dtype)
    return plain("OneHot", (positions, Size((depth,), True), values), root, axis=axis)


def _unwrapped(source: Symbol) -> Iterator[Symbol]:
    if source.op.name == "where" and source.inputs[2].dtype is int64:
        yield source.inputs[2]


def _pairs(value: Symbol) -> Iterator[Symbol]:
    for _ in range(3):
        if not value.inputs:
            return
        value = value.inputs[0]
        if value.shape == (2,):
            yield value
