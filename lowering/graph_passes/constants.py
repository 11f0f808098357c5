"""Computes numbers of constant codes while a graph is compiled, so that no run does.

Quantised models hold their weights as codes and scales, and graphs keep them so, because they are written and explained so.
What `dequantize` makes of constants is a constant, and so is its permutation, as a kernel of a convolution.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ...graph.graph import Graph
from ...graph.ops.control import has_control
from ...graph.reference.evaluate import evaluate
from ...graph.symbol import Symbol

MAX_FOLDED = 1 << 28
"""Bytes of one array up to which it is computed; larger ones stay what they are, at 4 to 8 times fewer bytes."""

_ARRAYS = frozenset(("constant", "weight"))


def fold_codes(graph: Graph) -> Graph:
    """Return a finished graph in which what constant codes stand for are constants; the graph itself where there are none.

    Graphs with loops and branches stay as they are.
    """
    if has_control(graph) or not any(map(_is_made, graph.symbols)):
        return graph
    permuted = [symbol for symbol in graph.symbols if symbol.op.name == "permute" and _is_made(symbol.inputs[0])]
    ends = {symbol.id for symbol in graph.symbols if _is_made(symbol)} | {symbol.id for symbol in permuted}
    wanted = _wanted(graph, ends)
    target = graph.rewriting()
    new: dict[int, Symbol] = {}
    for symbol in graph.symbols:
        if symbol.id not in wanted:
            continue
        with target.located(symbol.location):
            if symbol.id in ends:
                new[symbol.id] = _computed(target, symbol)
            else:
                new[symbol.id] = target.adopt(symbol, [new[operand.id] for operand in symbol.inputs])
    target.output(*[new[symbol.id] for symbol in graph.outputs], names=graph.output_names)
    return target


def _is_made(symbol: Symbol) -> bool:
    """Return whether a symbol is the numbers of constant codes, and not too large."""
    if symbol.op.name != "dequantize" or not all([operand.op.name in _ARRAYS for operand in symbol.inputs]):
        return False
    return isinstance(symbol.nbytes, int) and symbol.nbytes <= MAX_FOLDED


def _wanted(graph: Graph, ends: Collection[int]) -> set[int]:
    """Return the ids of inputs, and of what outputs need beside `ends`, which need nothing."""
    found = {symbol.id for symbol in (*graph.inputs, *graph.outputs)}
    for symbol in reversed(graph.symbols):
        if symbol.id in found and symbol.id not in ends:
            found.update([operand.id for operand in symbol.inputs])
    return found


def _computed(target: Graph, symbol: Symbol) -> Symbol:
    """Return the value of a symbol of constants as a constant."""
    scratch = target.rewriting()
    scratch.standing = ()  # checks are of the inputs, which this graph has not

    def copied(each: Symbol) -> Symbol:
        return scratch.adopt(each, [copied(operand) for operand in each.inputs])

    scratch.output(copied(symbol))
    return target.constant(np.ascontiguousarray(evaluate(scratch)), symbol.dtype)
