"""Handles operators of com.microsoft on matrices: inverses, and weights in the codes of 4 bits of bitsandbytes."""

from __future__ import annotations

import numpy as np

from .....promotion.dtype import float32, float64, uint8
from ....construction import primitives
from ....functions.building import apply
from ....functions.control.loops import fori_loop
from ....functions.indexing import take_along_axis
from ....functions.joining import concat
from ....functions.linalg import matmul
from ....functions.positions import counting
from ....functions.reductions import argmax
from ....symbol import Symbol
from ...node import Node, Result
from ...registry import handles

_DOMAIN = "com.microsoft"
_FP4 = (0.0, 5.208333333e-03, 2 / 3, 1.0, 1 / 3, 0.5, 1 / 6, 0.25)
_NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
_CODES = {0: (*_FP4, *[-number for number in _FP4]), 1: _NF4}
"""What codes stand for: floats of 4 bits, and quantiles of the normal distribution."""


@handles("Inverse", domain=_DOMAIN)
def inverse(node: Node) -> Result:
    """Invert matrices by elimination, with the largest element of a column as its pivot."""
    given = node[0]
    node.require(len(given.shape) >= 2, f"{len(given.shape)} axes; matrices are expected")
    size = node.graph.shape_checks.require_equal(given.shape[-2], given.shape[-1], "the sizes of a matrix to invert")
    wide = float64 if given.dtype is float64 else float32
    x = given.cast(wide).reshape((-1, size, size))
    count, graph = x.shape[0], node.graph
    rows = counting(graph, size)
    unit = apply("equal", rows.reshape((size, 1)), rows).cast(wide)
    both = concat((x, apply("broadcast_to", unit, shape=(count, size, size))), 2)

    def step(index: Symbol, m: Symbol) -> Symbol:
        """Make the column at the index that of the unit matrix."""
        rows_ = counting(m.graph, size)
        column = apply("abs", apply("gather", m, index, axis=2))
        lowest = m.graph.scalar(-1.0, wide)
        pivot = argmax(apply("where", apply("less", rows_, index), lowest, column), 1).reshape((count, 1))
        here, there = apply("equal", rows_, index), apply("equal", rows_, pivot)
        order = apply("where", here, pivot, apply("where", there, index, rows_))
        wide_order = apply("broadcast_to", order.reshape((count, size, 1)), shape=m.shape)
        m = take_along_axis(m, wide_order, 1)
        row = apply("gather", m, index, axis=1)
        row = apply("div", row, apply("gather", row, index, axis=1).reshape((count, 1))).reshape((count, 1, m.shape[2]))
        factors = apply("gather", m, index, axis=2).reshape((count, size, 1))
        left = apply("sub", m, apply("mul", factors, row))
        return apply("where", here.reshape((size, 1)), row, left)

    done: Symbol = fori_loop(0, size, step, both)
    return primitives.reshape(done[..., size:], given.shape).cast(given.dtype)


@handles("MatMulBnb4", domain=_DOMAIN)
def matmul_of_codes(node: Node) -> Result:
    """Multiply by weights (N, K) of 4 bits, which are numbers of a table times the scale of their block."""
    x, kind, block = node[0], node.attr("quant_type"), node.attr("block_size")
    columns, rows = node.attr("N"), node.attr("K")
    node.require(kind in _CODES, f"quant_type {kind}", "0 (FP4) or 1 (NF4)")
    node.require(block > 0 and columns > 0 and rows > 0, f"block_size {block}, N {columns}, K {rows}")
    node.ignore("training_mode")
    count = columns * rows
    packed = node[1].reshape((-1,))
    node.require(packed.dtype is uint8, f"weights of {packed.dtype}; uint8 is expected")
    packed = node.agreeing(packed, ((count + 1) // 2,), "the weights")
    high, low = apply("shift_right", packed, 4), apply("bitwise_and", packed, 15)
    codes = concat((high.reshape((-1, 1)), low.reshape((-1, 1))), 1).reshape((-1,))
    table = node.constant(np.array(_CODES[kind]), float32)
    blocks = -(-count // block)
    scales = node.agreeing(node[2].cast(float32).reshape((-1,)), (blocks,), "absmax, a scale for each block,")
    own = apply("gather", scales, apply("floor_div", counting(node.graph, count), block), axis=0)
    numbers = apply("mul", apply("gather", table, codes[:count], axis=0), own)
    weights = numbers.reshape((columns, rows)).cast(x.dtype)
    return matmul(x, weights.transpose() if node.attr("transB", 1) else weights).cast(x.dtype)
