"""Provides products of groups of rows, each with a matrix of its own: the layers of mixtures of experts.

Rows lie in groups one after another; `ends` has the position behind the last row of each. They are cut into blocks of rows of
one group, which a loop multiplies one after another: it reads the matrix of each where it lies, and those of groups without
rows not at all.
"""

from __future__ import annotations

import numpy as np

from ....promotion.dataclass import dataclass
from ....promotion.dtype import float32, int64
from ...construction import primitives
from ...dims.dim import Extent, minimum
from ...symbol import Symbol
from ..building import apply
from ..control.branches import cond
from ..control.loops import scan, while_loop
from ..joining import concat
from ..linalg import matmul
from ..ordered.searching import searchsorted
from ..positions import counting
from ..reductions import cumsum, sum_

MIN_BLOCK, MAX_BLOCK = 4, 64
"""Rows of a block: matrices are read once for each block, and blocks of few rows read them as fast as one of a single row."""
BLOCK = 32
"""Rows of a block if their count is symbolic."""


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Groups of rows cut into blocks.

    Attributes:
        rows: how many a block has.
        starts, before, counts: for each group its first row, the number of blocks before its own, and that of its own.
    """

    rows: int
    ends: Symbol
    starts: Symbol
    before: Symbol
    counts: Symbol


def grouped_matmul(x: Symbol, weights: Symbol, ends: Symbol) -> Symbol:
    """Return the products of rows and the matrices of their groups, as torch.nn.functional.grouped_mm.

    Args:
        x: rows, of shape (s, k). A symbolic s is 1 or more.
        weights: matrices, of shape (groups, k, n).
        ends: integers of shape (groups,), of which none is less than the one before: the position behind the last row of each
            group. Rows behind the last group give zeros.

    Returns: shape (s, n) in the dtype of the product.
    """
    count, groups = x.shape[0], weights.shape[0]
    if count == 0:
        return _zeros(x, (0, weights.shape[2]))
    blocks = _blocks(count, ends)
    length = minimum(count // blocks.rows + groups, count)
    numbers = counting(x.graph, length)
    group = _group_of(apply("add", blocks.before, blocks.counts), numbers)
    first = apply("add", _at(blocks.starts, group), apply("mul", apply("sub", numbers, _at(blocks.before, group)), blocks.rows))
    rows = apply("add", primitives.reshape(first, (length, 1)), counting(x.graph, blocks.rows))
    used = apply("less", numbers, sum_(blocks.counts))

    def step(state: tuple[()], own: dict[str, Symbol]) -> tuple[tuple[()], Symbol]:
        def product() -> Symbol:
            return matmul(_at(x, own["rows"]), own["weights"])

        def nothing() -> Symbol:
            return _zeros(x, (blocks.rows, weights.shape[2]))

        return state, cond(own["used"], product, nothing)

    _, found = scan(step, (), {"rows": rows, "weights": _at(weights, group), "used": used})
    row = counting(x.graph, count)
    group = _group_of(blocks.ends, row)
    block = apply("mul", _at(blocks.before, group), blocks.rows)
    position = apply("add", block, apply("sub", row, _at(blocks.starts, group)))
    products = _at(primitives.reshape(found, (length * blocks.rows, weights.shape[2])), position)
    is_in_group = primitives.reshape(apply("less", row, blocks.ends[-1]), (count, 1))
    return apply("where", is_in_group, products, x.graph.scalar(0.0, x.dtype))


def grouped_outer(x: Symbol, y: Symbol, ends: Symbol) -> Symbol:
    """Return the sums of outer products of the rows of each group: of x (s, k) and y (s, n) they have shape (groups, k, n).

    They are the gradients of the matrices of `grouped_matmul`, whose `ends` these are.
    """
    shape = (x.shape[1], y.shape[1])
    if x.shape[0] == 0:
        return _zeros(x, (ends.shape[0], *shape))
    blocks = _blocks(x.shape[0], ends)
    wide = float32 if x.dtype.bits < 32 else x.dtype  # sums of several blocks are rounded once
    zero = x.graph.scalar(0.0, wide)

    def step(state: tuple[()], own: dict[str, Symbol]) -> tuple[tuple[()], Symbol]:
        def add(carried: tuple[Symbol, Symbol]) -> tuple[Symbol, Symbol]:
            start, total = carried
            rows = apply("add", start, counting(x.graph, blocks.rows))
            inside = primitives.reshape(apply("less", rows, own["end"]), (blocks.rows, 1))
            left, right = (apply("where", inside, _at(each, rows).cast(wide), zero) for each in (x, y))
            product = matmul(left.transpose(), right)
            return apply("add", start, blocks.rows), apply("add", total, product)

        start = own["start"], apply("broadcast_to", zero, shape=shape)
        _, total = while_loop(lambda carried: apply("less", carried[0], own["end"]), add, start)
        return state, total.cast(x.dtype)

    _, sums = scan(step, (), {"start": blocks.starts, "end": blocks.ends})
    found: Symbol = sums
    return found


def _blocks(count: Extent, ends: Symbol) -> _Blocks:
    groups = ends.shape[0]
    rows = BLOCK
    if isinstance(count, int) and isinstance(groups, int):
        each = -(-count // max(groups, 1))
        rows = min(MAX_BLOCK, max(MIN_BLOCK, 1 << max(each - 1, 0).bit_length()))
    ends = primitives.cast(ends, int64)
    starts = concat([ends.graph.constant(np.zeros(1, np.int64)), ends[:-1]], 0)
    counts = apply("floor_div", apply("add", apply("sub", ends, starts), rows - 1), rows)
    return _Blocks(rows, ends, starts, apply("sub", cumsum(counts, 0), counts), counts)


def _group_of(ends: Symbol, positions: Symbol) -> Symbol:
    """Return the number of the group that each position lies in: the last one for those behind all groups."""
    return apply("minimum", searchsorted(ends, positions, side="right"), ends.shape[0] - 1)


def _at(x: Symbol, positions: Symbol) -> Symbol:
    return apply("gather", x, positions, axis=0)


def _zeros(x: Symbol, shape: tuple[Extent, ...]) -> Symbol:
    return apply("broadcast_to", x.graph.scalar(0.0, x.dtype), shape=shape)
