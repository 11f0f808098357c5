"""Products with few columns, as of points or colors with a matrix: sums of products, for which each lane has a row.

A product of blocks would be one of blocks that are filled up, mostly with zeros, and would store its columns one by one.
"""

from __future__ import annotations

from ....graph.dims.dim import Dim
from ....graph.ops.building import apply
from ....graph.protocols import SymbolLike
from ....graph.symbol import Symbol
from ....promotion.dtype import float32, float64
from ...schedule.interleaving import MIN_ROWS

MAX_SIDE = 4
"""The most rows and columns of such a matrix: of more, blocks of a product are filled well enough."""


def is_narrow_product(symbol: Symbol) -> bool:
    """Returns whether a symbol is a product of rows with a matrix of few rows and columns, which are stored side by side."""
    if symbol.op.name != "matmul" or symbol.dtype not in (float32, float64) or symbol.attrs["accumulate"] is not symbol.dtype:
        return False
    if symbol.attrs["precision"] != "ieee":
        return False
    rows, matrix = symbol.inputs
    if len(matrix.shape) != 2 or len(rows.shape) < 2 or any(operand.dtype is not symbol.dtype for operand in symbol.inputs):
        return False
    steps, columns = matrix.shape
    if not isinstance(steps, int) or not isinstance(columns, int):
        return False
    if not 1 <= min(steps, columns) <= max(steps, columns) <= MAX_SIDE:
        return False
    return not isinstance(rows.shape[-2], int) or rows.shape[-2] >= MIN_ROWS


def sum_of_products(x: SymbolLike, matrix: SymbolLike) -> SymbolLike:
    """Returns the product of rows with a matrix, of which each column is a sum along the steps, begun with 0."""
    steps, columns = matrix.shape
    rank = len(x.shape)
    assert isinstance(steps, int)
    assert isinstance(columns, int)

    def part(of: SymbolLike, starts: tuple[int, ...], stops: tuple[int | Dim, ...]) -> SymbolLike:
        return apply("slice", of, starts=starts, stops=stops, steps=(1,) * len(starts))

    parts = [part(x, (*(0,) * (rank - 1), step), (*x.shape[:-1], step + 1)) for step in range(steps)]
    found = []
    for column in range(columns):
        total: SymbolLike | None = None
        for step, each in enumerate(parts):
            product = apply("mul", each, part(matrix, (step, column), (step + 1, column + 1)))
            total = apply("add", product, 0.0 if total is None else total)
        assert total is not None
        found.append(total)
    return found[0] if columns == 1 else apply("concat", *found, axis=rank - 1)
