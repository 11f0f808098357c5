"""Products of one row with one column, or of many pairs of them: sums of products, which are read in order and added in a tree.

    (…, 1, K) @ (…, K, 1)        ⇒        Σ_K x · y
"""

from __future__ import annotations

from ....graph.ops.building import apply
from ....graph.protocols import SymbolLike
from ....graph.symbol import Symbol
from ....promotion.dtype import float32, float64
from ...schedule.extents import is_one


def is_inner_product(symbol: Symbol) -> bool:
    """Returns whether a symbol is such a product of floats that are summed in their own dtype."""
    if symbol.op.name != "matmul" or symbol.dtype not in (float32, float64) or symbol.attrs["accumulate"] is not symbol.dtype:
        return False
    if symbol.attrs["precision"] != "ieee" or any(operand.dtype is not symbol.dtype for operand in symbol.inputs):
        return False
    left, right = (operand.shape for operand in symbol.inputs)
    return len(left) == len(right) and is_one(left[-2]) and is_one(right[-1])


def sum_of_inner(symbol: Symbol, row: Symbol, column: Symbol) -> SymbolLike:
    """Returns the product as a sum. row, column: the new operands."""
    flat = [apply("reshape", operand, shape=(*operand.shape[:-2], symbol.inputs[0].shape[-1])) for operand in (row, column)]
    total = apply("reduce_sum", apply("mul", *flat), axes=(len(flat[0].shape) - 1,), keepdims=False)
    return apply("reshape", total, shape=symbol.shape)
