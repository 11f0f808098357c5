"""Makes graphs of the package networkx."""

from __future__ import annotations

import importlib
from typing import Any

from ..protocols import GraphLike, SymbolLike


def to_networkx(graph: GraphLike[SymbolLike]) -> Any:
    """Return a `networkx.DiGraph` of ids: nodes carry `symbol`, `op`, `dtype`, `shape`, edges operand `positions`."""
    networkx = importlib.import_module("networkx")
    result = networkx.DiGraph(name=graph.name)
    for symbol in graph.symbols:
        result.add_node(symbol.id, symbol=symbol, op=symbol.op.name, dtype=symbol.dtype, shape=symbol.shape)
        for operand in dict.fromkeys(symbol.inputs):
            positions = tuple([p for p, value in enumerate(symbol.inputs) if value is operand])
            result.add_edge(operand.id, symbol.id, positions=positions)
    return result
