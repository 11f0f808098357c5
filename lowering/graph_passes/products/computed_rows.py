"""One row times a matrix that lies along its columns: a linear layer for one token, of weights that may be converted.

    x (1, K) @ permute(w (N, K))            →  w @ permute(x)
    x (1, K) @ permute(cast(codes (N, K)))  →  Σ_K cast(codes) · x
    permute(w (K, N)) @ x (K, 1)            →  permute(x) @ w

A product would store a converted matrix transposed first, of which each element is read once. A matrix in memory is read in
whole rows as the left operand, and in pieces of rows as the right one.
"""

from __future__ import annotations

from ....graph.ops.building import apply
from ....graph.protocols import SymbolLike
from ....graph.symbol import Symbol
from ....promotion.dtype import float32, float64
from ..constant_values import holds_array

_CONVERTING = frozenset({"cast", "add", "sub", "mul", "negate", "abs"})
"""Operations that a matrix may be computed by: they are done for each element as it is read."""
MAX_STEPS = 8


def is_row_of_computed(symbol: Symbol) -> bool:
    """Returns whether a symbol is such a product."""
    if symbol.op.name != "matmul" or symbol.dtype not in (float32, float64) or symbol.attrs["accumulate"] is not symbol.dtype:
        return False
    row, matrix = symbol.inputs
    if len(row.shape) != 2 or len(matrix.shape) != 2 or row.shape[0] != 1 or matrix.shape[1] == 1:
        return False
    return row.dtype is matrix.dtype is symbol.dtype and not holds_array(matrix) and _is_computed(matrix)


def _is_computed(matrix: Symbol) -> bool:
    """Returns whether a matrix is converted from other elements, and is transposed below or above that."""
    has_cast = is_transposed = False
    for _ in range(MAX_STEPS):
        if matrix.op.name == "permute" and matrix.attrs["axes"] == (1, 0) and not is_transposed:
            is_transposed, matrix = True, matrix.inputs[0]
        elif matrix.op.name in _CONVERTING:
            large = [operand for operand in matrix.inputs if operand.shape == matrix.shape]
            if len(large) != 1 or any(operand.shape and operand is not large[0] for operand in matrix.inputs):
                return False
            has_cast, (matrix,) = has_cast or matrix.op.name == "cast", large
        else:
            break
    return has_cast and is_transposed


def is_row_of_transposed(symbol: Symbol) -> bool:
    """Returns whether a symbol is the product of a row with a transposed matrix that is given at run time."""
    if symbol.op.name != "matmul" or symbol.dtype not in (float32, float64) or symbol.attrs["accumulate"] is not symbol.dtype:
        return False
    row, matrix = symbol.inputs
    if matrix.op.name != "permute" or matrix.attrs["axes"] != (1, 0) or row.dtype is not matrix.dtype or holds_array(matrix):
        return False
    source = matrix.inputs[0]
    return source.op.name == "input" and len(row.shape) == 2 and row.shape[0] == 1 and matrix.shape[1] != 1


def is_transposed_with_column(symbol: Symbol) -> bool:
    """Returns whether a symbol is the product of a transposed matrix that is given at run time with one column."""
    if symbol.op.name != "matmul" or symbol.dtype not in (float32, float64) or symbol.attrs["accumulate"] is not symbol.dtype:
        return False
    matrix, column = symbol.inputs
    if matrix.op.name != "permute" or matrix.attrs["axes"] != (1, 0) or column.dtype is not matrix.dtype:
        return False
    return matrix.inputs[0].op.name == "input" and len(column.shape) == 2 and column.shape[1] == 1 and matrix.shape[0] != 1


def product_with_row(symbol: Symbol, matrix: Symbol, column: Symbol) -> SymbolLike:
    """Returns that product with the matrix on the right. matrix, column: the new operands."""
    row = apply("reshape", column, shape=(1, column.shape[0]))
    return apply("reshape", apply("matmul", row, matrix.inputs[0], **symbol.attrs), shape=symbol.shape)


def product_with_column(symbol: Symbol, row: Symbol, matrix: Symbol) -> SymbolLike:
    """Returns that product with the matrix on the left. row, matrix: the new operands."""
    column = apply("reshape", row, shape=(row.shape[1], 1))
    return apply("reshape", apply("matmul", matrix.inputs[0], column, **symbol.attrs), shape=(1, matrix.shape[1]))


def sum_of_row(row: Symbol, matrix: Symbol) -> SymbolLike:
    """Returns the product as sums along the rows of the transposed matrix. row, matrix: the new operands."""
    total = apply("reduce_sum", apply("mul", _transposed(matrix), row), axes=(1,), keepdims=False)
    return apply("reshape", total, shape=(1, matrix.shape[1]))


def _transposed(matrix: Symbol) -> SymbolLike:
    if matrix.op.name == "permute":
        return matrix.inputs[0]
    operands = [_transposed(operand) if operand.shape == matrix.shape else operand for operand in matrix.inputs]
    return apply(matrix.op.name, *operands, **matrix.attrs)
