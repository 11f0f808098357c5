"""One row times a matrix that is computed and lies along its rows: a linear layer of weights that are converted, for one token.

    x (1, K) @ permute(cast(codes (N, K)))  →  Σ_K cast(codes) · x

A product would store the matrix transposed first, of which each element is read once.
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


def sum_of_row(row: Symbol, matrix: Symbol) -> SymbolLike:
    """Returns the product as sums along the rows of the transposed matrix. row, matrix: the new operands."""
    total = apply("reduce_sum", apply("mul", _transposed(matrix), row), axes=(1,), keepdims=False)
    return apply("reshape", total, shape=(1, matrix.shape[1]))


def _transposed(matrix: Symbol) -> SymbolLike:
    if matrix.op.name == "permute":
        return matrix.inputs[0]
    operands = [_transposed(operand) if operand.shape == matrix.shape else operand for operand in matrix.inputs]
    return apply(matrix.op.name, *operands, **matrix.attrs)
