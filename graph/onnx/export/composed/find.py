"""Finds functions of several symbols that are one node of ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....graph import Graph
from ....symbol import Symbol
from . import (
    attention,
    deformed,
    losses,
    moved,
    norms,
    products,
    quantised,
    recurrent,
    sampling,
    selected,
    signal,
)
from .activations import Activations
from .composed import Composed

_LOSSES = ("negate", "mul", "where", "reduce_sum", "mean", "div")
"""Rows that a loss may end with."""


def find_composed(
    graph: Graph, live: Sequence[Symbol], consumers: Mapping[int, list[Symbol]], opset: int
) -> dict[int, Composed]:
    """Return the nodes that stand for several symbols, by the ids of the symbols that are their results.

    A node stands where its first result does: what it reads is computed before.
    """
    found: dict[int, Composed] = {}
    activations = Activations(graph, opset)
    for symbol in live:
        if symbol.id in found:
            continue
        made = activations.found(symbol) or activations.clip(symbol, consumers)
        _add(made or _of_symbol(graph, symbol, consumers, opset), found)
    for symbol in reversed(live):  # a loss is made of losses that are not reduced
        if symbol.op.name in _LOSSES and symbol.id not in found:
            _add(losses.loss(symbol, graph, consumers, found), found)
    return found


def _add(made: Composed | None, found: dict[int, Composed]) -> None:
    """Add a node, unless it would stand before what it reads, or another one has one of its results."""
    if made is None:
        return
    first = min([root.id for root in made.roots])
    if all(operand.id < first for operand in made.inputs) and not any(root.id in found for root in made.roots):
        found.update(dict.fromkeys([root.id for root in made.roots], made))


def _of_symbol(
    graph: Graph, symbol: Symbol, consumers: Mapping[int, list[Symbol]], opset: int
) -> Composed | None:
    row = symbol.op.name
    made: Composed | None = None
    if row == "matmul":
        made = quantised.product(symbol, consumers, graph) or recurrent.network(symbol, consumers, graph)
    if row in ("matmul", "where") and made is None and opset >= attention.OPSET:
        made = attention.attention(symbol, graph)
    if row in ("concat", "reshape") and opset >= attention.OPSET:
        made = attention.rotary(symbol, graph)
    if row == "quantize":
        made = quantised.dynamic(symbol, graph)
    if row in ("where", "cast") and made is None:
        made = selected.one_hot(symbol, graph)
    if row == "reshape" and made is None:
        made = sampling.grid_sample(symbol, graph, opset)
    if row in ("add", "reshape") and made is None and opset >= deformed.DEFORMED:
        made = deformed.convolution(symbol, graph)
    if row == "reshape" and made is None:
        made = deformed.unpooled(symbol, graph)
    if row in ("concat", "cast", "reshape") and made is None:
        made = signal.transform(symbol, graph, opset)
    if row in ("reduce_max", "mean"):
        made = sampling.roi_align(symbol, graph, opset)
    return made or _of_rows(graph, symbol, consumers, opset)


def _of_rows(
    graph: Graph, symbol: Symbol, consumers: Mapping[int, list[Symbol]], opset: int
) -> Composed | None:
    """Return the node of what is a few operations only."""
    row = symbol.op.name
    if row == "matmul":
        return products.gemm(symbol, consumers, graph)
    if row == "add":
        return norms.in_groups(symbol, graph, opset) or products.gemm(symbol, consumers, graph)
    if row == "reshape":
        return norms.of_last_axes(symbol, graph, opset) or moved.blocks(symbol, graph) or moved.repeated(symbol, graph)
    if row == "where":
        return norms.divided(symbol, graph) or moved.triangle(symbol, graph)
    if row in ("sqrt", "log", "reduce_sum"):
        return norms.over_axes(symbol, consumers, graph)
    return moved.pieces(symbol, consumers, graph) if row == "slice" else None
