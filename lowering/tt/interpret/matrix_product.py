"""Defines `tt.dot` in NumPy.

`inputPrecision` says how much of float32 operands a product must keep at least, as in Triton. tf32 is computed as named:
operands of 11 significant bits. tf32x3, bf16x3 and bf16x6 stand for sums of three or six products of operands split into
narrower terms, which come within 2**-21, 2**-15 and 2**-24 of each product; joinery computes the float32 product itself, on
every back end.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.ir import Operation

from ....promotion.arrays import Array, NumpyDType
from ..dialect.attributes import INPUT_PRECISIONS, property_number
from ..facts import ORDERED
from ..types import numpy_dtype
from .memory import Memory
from .numerics import as_integer, fused_multiply_add, is_wide, round_to_tf32, signed


def product(op: Operation, memory: Memory) -> Callable[..., Array]:
    """Returns the evaluator of a `tt.dot`. Sums of floats are formed in float32, or in float64 for a float64
    result; sums of integers in the type of the result, wrapping."""
    source, target = numpy_dtype(op.operands[0].type), numpy_dtype(op.results[0].type)
    if source.kind in "ib":
        return _integer_product(source, target)
    tf32 = property_number(op, "inputPrecision") == INPUT_PRECISIONS["tf32"]
    narrowed = tf32 and source == target == np.float32
    wide = target if is_wide(target) else np.dtype(np.float32)

    ordered = ORDERED in op.attributes

    def run(a: Array, b: Array, c: Array) -> Array:
        a, b = np.asarray(a).astype(wide), np.asarray(b).astype(wide)
        if narrowed:
            a, b = round_to_tf32(a), round_to_tf32(b)
        if ordered:
            return _chain(a, b, np.asarray(c).astype(wide)).astype(target)
        result: Array = (np.matmul(a, b) + np.asarray(c).astype(wide)).astype(target)
        return result

    return run


def _chain(a: Array, b: Array, c: Array) -> Array:
    """Computes a chain of fused multiply-adds along the contraction, and adds 0."""
    total = c
    for step in range(a.shape[-1]):
        total = fused_multiply_add(a[..., :, step : step + 1], b[..., step : step + 1, :], total)
    result: Array = total + c.dtype.type(0)
    return result


def _integer_product(source: NumpyDType, target: NumpyDType) -> Callable[..., Array]:
    if source.itemsize > 1:
        return lambda a, b, c: np.matmul(a.astype(target), b.astype(target)) + c

    # the sum of at most 2**20 products of 14 bits is exact in float64, whose product is fast
    def run(a: Array, b: Array, c: Array) -> Array:
        sums = np.matmul(signed(a).astype(np.float64), signed(b).astype(np.float64)).astype(np.int64)
        return as_integer(sums, target) + c

    return run
