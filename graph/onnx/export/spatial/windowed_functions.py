"""Finds what else windows are made into: convolutions backwards, p-norms of windows, and norms of neighbouring channels.

As in `windowed.py`, a function is found by making it again of what its windows say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....functions import normalization
from ....functions.spatial import pooling
from ....functions.spatial.geometry import Windows
from ....graph import Graph
from ....symbol import Symbol
from ..equality import found_among
from .transposed import convolution_backwards
from .windowed import (
    Windowed,
    chain_of,
    consumers_of,
    find_windowed,
    geometry,
    is_spatial,
    padded_images,
    turned,
    with_channels_first,
)

_MAX_ORDER = 1 << 16


def find_functions(graph: Graph, live: Sequence[Symbol], opset: int) -> dict[int, Windowed]:
    """Return the nodes that stand for several symbols, by the id of the symbol whose value they compute."""
    found = find_windowed(graph, live, opset)
    consumers = consumers_of(live)
    for symbol in live:
        if symbol.op.name == "reshape" and symbol.dtype.name == "float32":
            back = convolution_backwards(graph, symbol, found, consumers)
            if back is not None:
                root, made = with_channels_first(graph, *back, consumers)
                found[root.id] = made
    for symbol in live:
        if symbol.op.name == "windows" and symbol.dtype.name == "float32":
            match = _channels(graph, symbol, consumers) or _norm(graph, symbol, consumers)
            if match is not None and match[0].id not in found:
                root, made = with_channels_first(graph, *match, consumers)
                found[root.id] = made
    return found


def _norm(graph: Graph, taken: Symbol, consumers: Mapping[int, list[Symbol]]) -> tuple[Symbol, Windowed] | None:
    """Return the p-norm of windows, which has an integer for p."""
    if not is_spatial(taken) or len(taken.inputs[0].shape) != len(taken.attrs["axes"]) + 2:
        return None
    roots, attrs = chain_of(taken, consumers, 2), taken.attrs
    for inner, pairs, rounds_up in padded_images(taken, 0.0):
        order, x = _order(inner)
        if not 0 < order < _MAX_ORDER or order != int(order) or len(roots) < (1 if order == 1 else 2):
            continue
        root = roots[0 if order == 1 else 1]
        low, high = (tuple([pair[side] for pair in pairs]) for side in (0, 1))
        over = Windows(attrs["sizes"], attrs["strides"], attrs["dilations"], low, high, attrs["counts"])

        def make(_: Graph, value: Symbol, given: tuple[Windows, float] = (over, order)) -> Symbol:
            return pooling.lp_pooled(value, *given, 1)

        if found_among(graph, make, (x,), (root,)) is not None:
            image, last = turned(x)
            return root, Windowed("LpPool", image, None, {**geometry(taken, pairs, rounds_up), "p": int(order)}, last, True)
    return None


def _order(x: Symbol) -> tuple[float, Symbol]:
    """Return of which power of which values a tensor is; 0 for others."""
    if x.op.name == "abs":
        return 1.0, x.inputs[0]
    if x.op.name == "mul" and x.inputs[0] is x.inputs[1]:
        return 2.0, x.inputs[0]
    if x.op.name == "pow" and x.inputs[0].op.name == "abs":
        return _number(x.inputs[1]), x.inputs[0].inputs[0]
    return 0.0, x


def _number(x: Symbol) -> float:
    """Return the value of a constant number; 0 for others."""
    while x.op.name in ("broadcast_to", "reshape"):
        x = x.inputs[0]
    return float(x.attrs["value"]) if x.op.name == "constant" and x.attrs["value"].size == 1 else 0.0


def _channels(graph: Graph, taken: Symbol, consumers: Mapping[int, list[Symbol]]) -> tuple[Symbol, Windowed] | None:
    """Return the norm over windows of channels, which are the second axis or the last one."""
    chain = chain_of(taken, consumers, 5)
    if [each.op.name for each in chain] != ["reduce_sum", "mul", "add", "pow", "div"] or len(taken.attrs["axes"]) != 1:
        return None
    (axis,), (size,), root = taken.attrs["axes"], taken.attrs["sizes"], chain[-1]
    x, rank = root.inputs[0], len(root.shape)
    alpha, bias, beta = (_number(each.inputs[1]) for each in chain[1:4])
    alpha *= size

    def make(scratch: Graph, value: Symbol) -> Symbol:
        return normalization.lrn(value, size, alpha, beta, bias, axis)

    if rank != 4 or axis not in (1, rank - 1) or size % 2 == 0:  # onnxruntime has odd sizes, and images of four axes
        return None
    if x.shape != root.shape or found_among(graph, make, (x,), (root,)) is None:
        return None
    given = {"size": size, "alpha": alpha, "beta": beta, "bias": bias}
    is_last = axis == rank - 1
    image, last = turned(x) if is_last else (x, False)
    return root, Windowed("LRN", image, None, given, last, is_last)
