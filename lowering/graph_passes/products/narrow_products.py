"""Products of many rows with a small matrix, as of points, or of many small matrices: sums of products, element by element.

A product of blocks would be one of blocks that are filled up, mostly with zeros, and would store its columns one by one. Where
rows of few elements are computed several at a time, each lane has an element of the result; elsewhere a row, and columns are
put side by side.
"""

from __future__ import annotations

from ....graph.dims.dim import Dim
from ....graph.ops.building import apply
from ....graph.protocols import SymbolLike
from ....graph.symbol import Symbol
from ....graph.types import Shape
from ....promotion.dtype import float32, float64
from ...schedule.fusion.interleaving import MIN_ROWS
from ...schedule.fusion.repeated import LANES

MAX_SIDE = 4
"""The most rows and columns of a matrix that many rows are multiplied with, if each lane has a row."""
MAX_STEPS, MAX_REACH, REGISTER = 8, 3, 64
"""The most steps of a sum of which each lane has an element; the most for each column, as lanes read from as many registers of
memory; and the bytes of a register, which rows have less of."""
MAX_RESULTS, MAX_PRODUCTS, WIDE_COLUMNS = 64, 120, 16
"""The most elements of each of many small results; the most products for one of float64 whose rows do not divide registers, as
each register has places of its own then; and columns of which rows of more than `MAX_REACH` steps fill registers as blocks."""
MAX_ROWS, MAX_COLUMN_STEPS, MAX_MATRIX_BYTES = 12, 6, 144
"""The most rows, steps and bytes of matrices that are multiplied with one column each."""
FEW_STEPS, MIN_RESULTS, MAX_FACTORS = 6, 1024, 1 << 14
"""The most steps of a product of any shape that is a sum of products where rows of few elements are computed one by one, the
fewest results of a single one, and the most elements of a right operand, which each row reads."""


def is_narrow(symbol: Symbol, short_rows: bool) -> bool:
    """Returns whether a symbol is a product of many rows with a small matrix, or of many small matrices.

    short_rows: whether rows of few elements are computed several at a time.
    """
    if symbol.op.name != "matmul" or symbol.dtype not in (float32, float64) or symbol.attrs["accumulate"] is not symbol.dtype:
        return False
    if symbol.attrs["precision"] != "ieee" or any(operand.dtype is not symbol.dtype for operand in symbol.inputs):
        return False
    left, right = (operand.shape for operand in symbol.inputs)
    if short_rows and (_is_of_short_rows(symbol.dtype.itemsize, left, right) or _is_of_small_matrices(symbol, left, right)):
        return True
    return _is_of_few_columns(left, right) or (not short_rows and _is_of_few_steps(symbol, left, right))


def _is_of_few_columns(left: Shape, right: Shape) -> bool:
    """Returns whether each column of a product may be a vector of many rows."""
    if len(right) != 2 or len(left) < 2:
        return False
    steps, columns = right
    if not isinstance(steps, int) or not isinstance(columns, int):
        return False
    return 1 <= min(steps, columns) <= max(steps, columns) <= MAX_SIDE and _are_many(left[-2])


def _are_many(rows: int | Dim) -> bool:
    return not isinstance(rows, int) or rows >= MIN_ROWS


def _is_of_short_rows(itemsize: int, left: Shape, right: Shape) -> bool:
    """Returns whether a product has many rows of few elements, all with one matrix."""
    if len(right) != 2 or len(left) < 2:
        return False
    steps, columns = right
    if not isinstance(steps, int) or not isinstance(columns, int) or not _are_many(left[-2]):
        return False
    return 2 <= columns < REGISTER // itemsize and 1 <= steps <= min(MAX_STEPS, MAX_REACH * columns)


def _is_of_small_matrices(symbol: Symbol, left: Shape, right: Shape) -> bool:
    """Returns whether a product is one of many pairs of small matrices, of which a few registers hold the result."""
    if len(left) != len(right) or len(left) < 3 or not _are_many(left[-3]) or left[:-2] != right[:-2]:
        return False
    rows, steps, columns = *left[-2:], right[-1]
    if not isinstance(rows, int) or not isinstance(steps, int) or not isinstance(columns, int):
        return False
    if columns == 1:
        is_small = 2 <= rows <= MAX_ROWS and steps <= MAX_COLUMN_STEPS and min(rows, steps) <= MAX_REACH
        return is_small and 1 <= rows * steps * symbol.dtype.itemsize <= MAX_MATRIX_BYTES
    if not 2 <= columns <= rows * columns <= MAX_RESULTS or (columns >= WIDE_COLUMNS and steps > MAX_REACH):
        return False
    is_even = symbol.dtype is float32 or columns & (columns - 1) == 0
    least = columns if rows == 1 else min(rows, columns)
    return 1 <= steps <= MAX_REACH * least and (is_even or rows * steps * columns <= MAX_PRODUCTS)


def _is_of_few_steps(symbol: Symbol, left: Shape, right: Shape) -> bool:
    """Returns whether a product of matrices, or of many pairs of them, has so few steps that each result is a sum by itself."""
    if len(left) != len(right) or len(left) < 2 or left[:-2] != right[:-2]:
        return False
    rows, (steps, columns) = left[-2], right[-2:]
    if not isinstance(steps, int) or not isinstance(columns, int):
        return False
    if not 1 <= steps <= FEW_STEPS or steps * columns > MAX_FACTORS:
        return False
    if (len(left) > 2 or columns < LANES) and any(map(_is_computed, symbol.inputs)):
        return False  # each result would compute its factors anew
    if len(left) > 2:
        return any(map(_are_many, left[:-2]))
    return columns > 1 and (not isinstance(rows, int) or rows * columns >= MIN_RESULTS)


def _is_computed(operand: Symbol) -> bool:
    """Returns whether an operand is computed element by element, or is a view of what is."""
    while operand.op.kind == "view":
        operand = operand.inputs[0]
    return operand.op.kind == "map"


def sum_of_products(x: SymbolLike, y: SymbolLike, short_rows: bool) -> SymbolLike:
    """Returns a narrow product as sums along its steps, begun with 0."""
    if not short_rows and _is_of_few_columns(x.shape, y.shape):
        return _side_by_side(x, y)
    steps = y.shape[-2]  # those of x may be known to be as many at launch only
    assert isinstance(steps, int)
    total: SymbolLike | None = None
    for step in range(steps):
        column, row = _part(x, (-1, step)), _part(y, (-2, step))
        total = apply("multiply_add", column, row, 0.0 if total is None else total)
    assert total is not None
    return total


def _part(of: SymbolLike, *taken: tuple[int, int]) -> SymbolLike:
    """Returns the part of a tensor with one position along an axis, or along several."""
    starts, stops = [0] * len(of.shape), list(of.shape)
    for axis, position in taken:
        starts[axis], stops[axis] = position, position + 1
    return apply("slice", of, starts=tuple(starts), stops=tuple(stops), steps=(1,) * len(starts))


def _side_by_side(x: SymbolLike, matrix: SymbolLike) -> SymbolLike:
    """Returns a product of which each column is a sum by itself."""
    steps, columns = matrix.shape
    assert isinstance(steps, int)
    assert isinstance(columns, int)
    parts = [_part(x, (-1, step)) for step in range(steps)]
    found = []
    for column in range(columns):
        total: SymbolLike | None = None
        for step, each in enumerate(parts):
            product = apply("mul", each, _part(matrix, (0, step), (1, column)))
            total = apply("add", product, 0.0 if total is None else total)
        assert total is not None
        found.append(total)
    return found[0] if columns == 1 else apply("concat", *found, axis=len(x.shape) - 1)
