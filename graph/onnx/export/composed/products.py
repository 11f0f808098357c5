"""Finds products of matrices that are transposed or scaled before, and have something added to them: Gemm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....functions.building import apply
from ....functions.linalg import matmul
from ....graph import Graph
from ....symbol import Symbol
from ..equality import found_among
from .composed import Composed, plain

_DTYPES = ("float32", "float64")


def gemm(root: Symbol, consumers: Mapping[int, Sequence[Symbol]], graph: Graph) -> Composed | None:
    """Return the node of a product that is the first operand of a sum, or whose operands are transposed."""
    if root.dtype.name not in _DTYPES or len(root.shape) != 2:
        return None
    total: Symbol = root if root.op.name == "matmul" else root.inputs[0]
    c: Symbol | None = None if total is root else root.inputs[1]
    alpha = beta = 1.0
    if total.op.name == "mul" and c is not None:
        total, alpha = _scaled(total)
    if total.op.name != "matmul" or total.shape != root.shape or any([len(each.shape) != 2 for each in total.inputs]):
        return None
    if c is not None and not _is_read_once(root.inputs[0], total, consumers, graph):
        return None
    if c is not None and c.op.name == "mul":
        c, beta = _scaled(c)
    (a, turned_a), (b, turned_b) = (_turned(each, consumers, graph) for each in total.inputs)
    if c is None and not (turned_a or turned_b):
        return None
    if total.inputs[0].shape[1] == 0 or (c is not None and not _broadcasts(c, root)):
        return None

    def make(_: Graph, first: Symbol, second: Symbol, *rest: Symbol) -> Symbol:
        found = matmul(first.transpose() if turned_a else first, second.transpose() if turned_b else second)
        found = found if alpha == 1 else apply("mul", found, alpha)
        return apply("add", found, rest[0] if beta == 1 else apply("mul", rest[0], beta)) if rest else found

    leaves = [each for each in (a, b, c) if each is not None]
    if found_among(graph, make, leaves, (root,)) is None:
        return None
    numbers = {name: number for name, number in (("alpha", alpha), ("beta", beta)) if number != 1}
    transposed = {name: 1 for name, is_turned in (("transA", turned_a), ("transB", turned_b)) if is_turned}
    return plain("Gemm", (a, b, c), root, **numbers, **transposed)


def _scaled(x: Symbol) -> tuple[Symbol, float]:
    """Return what is scaled by a number that an attribute holds, and that number; else a symbol itself."""
    source, factor = x.inputs
    if factor.op.name != "constant" or factor.shape:
        return x, 1.0
    number = float(factor.attrs["value"])
    return (source, number) if number == float(np.float32(number)) and number != 1 else (x, 1.0)


def _is_read_once(first: Symbol, second: Symbol, consumers: Mapping[int, Sequence[Symbol]], graph: Graph) -> bool:
    """Return whether only one operation reads each of two symbols: else it would be computed twice."""
    outputs = {symbol.id for symbol in graph.outputs}
    return all([len(consumers.get(each.id, ())) == 1 and each.id not in outputs for each in (first, second)])


def _turned(x: Symbol, consumers: Mapping[int, Sequence[Symbol]], graph: Graph) -> tuple[Symbol, bool]:
    """Return a transposed operand before it was transposed, if nothing else reads it: import makes one for each product."""
    is_turned = x.op.name == "permute" and x.attrs["axes"] == (1, 0)
    return (x.inputs[0], True) if is_turned and _is_read_once(x, x, consumers, graph) else (x, False)


def _broadcasts(c: Symbol, root: Symbol) -> bool:
    """Return whether a summand has no axis that the product does not have."""
    return len(c.shape) <= 2 and all([
        own in (1, extent) for own, extent in zip(reversed(c.shape), reversed(root.shape), strict=False)
    ])  # fmt: skip
