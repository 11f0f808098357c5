"""Bounds how far compiled values may be from the reference evaluator's, by interval arithmetic over a whole graph.

Every element of every symbol gets the least and the largest value that a back end which keeps the numeric contract may
compute. Where the two are equal, it must be that value, bit for bit (except for zeros of either sign, `zeros`). An operation
that is monotone in each operand maps the ends of its operands' intervals to the ends of its own, by the reference
implementation, so that correctly rounded operations do not widen intervals; others are widened by their error. Sums and
products have the bounds of Higham, "Accuracy and Stability of Numerical Algorithms" (2002), with a margin; those of values
that are exact in float32 have no error at all. `free` elements may be anything, NaN too.
"""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
from joinery.graph.dims.dim import Dim
from joinery.graph.reference.evaluate import bind_inputs

from .composites import COMPOSITES, PLACED, sum_may_overflow
from .maps import mapped
from .nodes import Array, Node, is_nan, reference
from .sums import contracted, reduced
from .transforms import enclose_complex, is_of_complex
from .zeros import loose_zeros

FAST_FACTOR = 80.0
"""The factor on the bounds of composites in numerics="fast": their exponentials have errors of 67 ulp instead
of about one."""


def propagate(graph: jn.Graph, *arrays: Array, numerics: str = "strict") -> dict[int, Node]:
    """Returns value and interval of every symbol that the outputs of a finished graph need, by symbol id."""
    twin = jn.Graph(graph.name, semantics=graph.rules, policy=graph.policy)
    for holds in graph.checks:
        twin.shape_checks.add(*holds)
    needed = {symbol.id for symbol in graph.outputs}
    for symbol in reversed(graph.symbols):
        if symbol.id in needed:
            needed.update([operand.id for operand in symbol.inputs])
    live = [symbol for symbol in graph.symbols if symbol.id in needed or symbol.op.name == "input"]
    copies: dict[int, Any] = {}
    for symbol in live:
        copies[symbol.id] = twin.adopt(symbol, [copies[operand.id] for operand in symbol.inputs])
    twin.output(*copies.values())
    _, dims = bind_inputs(graph, arrays)
    nodes: dict[int, Node] = {}
    with np.errstate(all="ignore"):
        values = jn.evaluate(twin, *arrays)
        for symbol, value in zip(live, values if isinstance(values, tuple) else (values,), strict=True):
            attrs = {name: sized(entry, dims) for name, entry in symbol.attrs.items()}
            operands = [nodes[i.id] for i in symbol.inputs]
            node = nodes[symbol.id] = Node(symbol, value, operands, attrs, numerics == "fast")
            if operands and value.size:
                enclose(node)
                node.loose = loose_zeros(node)
    return nodes


def sized(value: Any, dims: dict[str, int]) -> Any:
    if isinstance(value, Dim):
        return value.evaluate(dims)
    return tuple(sized(part, dims) for part in value) if isinstance(value, tuple) else value


def enclose(node: Node) -> None:
    """Sets the node's interval from those of its operands."""
    if is_of_complex(node):
        enclose_complex(node)
        return
    kind, exact = node.op.kind, all(operand.all_exact for operand in node.inputs)
    if kind in ("view", "join", "index"):
        if not exact:
            moved(node)
    elif kind == "map":
        mapped(node, exact)
    elif kind in ("reduce", "scan"):
        reduced(node, exact)
    elif kind == "contract":
        contracted(node)
    elif node.op.name in PLACED:
        if not exact:  # rounded values that are close to each other may change places
            node.put(node.value, node.value, True)
    elif node.op.name in ("rfft_lines", "fft_pairs"):
        enclose_complex(node)
    elif kind == "composite":
        own = COMPOSITES[node.op.name](node, *[(operand.wide, operand.error) for operand in node.inputs])
        factor = FAST_FACTOR if node.fast else 1.0
        definite = np.where(np.isnan(node.wide) | np.isinf(node.wide), 0.0, np.inf) if exact else np.inf
        own = np.nan_to_num(np.asarray(own, np.float64) * factor, nan=np.inf, posinf=np.inf)
        large = sum_may_overflow(node)
        own, definite = np.where(large, np.inf, own), np.where(large, np.inf, definite)
        node.around(np.where(np.isfinite(own), own + node.rounding(), definite))


def moved(node: Node) -> None:
    """Applies the same movement to the ends."""
    if node.op.kind == "index":
        indexed(node)
        return
    inputs = [operand for operand in node.inputs]
    low, high = (reference(node, [getattr(operand, end) for operand in inputs]) for end in ("low", "high"))
    ones = [operand.free.astype(operand.value.dtype) for operand in inputs]
    if node.op.name == "pad":
        node.attrs, attrs = {**node.attrs, "value": 0}, node.attrs
        free = reference(node, ones)
        node.attrs = attrs
    else:
        free = reference(node, ones)
    node.put(low, high, free.astype(bool))


def indexed(node: Node) -> None:
    x, index = node.inputs
    low, high = (reference(node, [getattr(x, end), index.value]) for end in ("low", "high"))
    free = reference(node, [x.free.astype(x.value.dtype), index.value]).astype(bool)
    if not index.all_exact:
        axis = node.attrs["axis"]
        least = np.min(np.where(x.free, x.low, x.low), axis, keepdims=True)
        largest = np.max(x.high, axis, keepdims=True)
        anywhere = np.any(x.free | is_nan(x.value), axis, keepdims=True)
        if node.op.name == "gather":
            rank = index.value.ndim
            spread = [np.reshape(part, (*part.shape[:axis], *([1] * rank), *part.shape[axis + 1 :]))
                      for part in (least, largest, anywhere)]  # fmt: skip
            sure = index.exact.reshape(*([1] * axis), *index.value.shape, *([1] * (x.value.ndim - axis - 1)))
        else:
            spread, sure = [least, largest, anywhere], index.exact
        low, high = np.where(sure, low, spread[0]), np.where(sure, high, spread[1])
        free = np.where(sure, free, spread[2])
    node.put(low, high, free)
