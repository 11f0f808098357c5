"""Defines `tt.dot_scaled` in NumPy, with elements and scales of the microscaled formats as numbers.

Source: OCP Microscaling Formats (MX) specification 1.0, section 5. Elements are decoded with tables made from the formats'
definition, independently of `expand_scaled_products`, which computes with bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.ir import Operation

from ....promotion.arrays import Array
from ....promotion.dtype import BY_PTX_NAME, DType
from ..dialect.scaled import DotScaledOp, ScaledOperand
from ..types import numpy_dtype
from .memory import Memory

_STORED = {kind: BY_PTX_NAME[kind].numpy for kind in ("e4m3", "e5m2")}
_SMALL = {kind: BY_PTX_NAME[kind] for kind in ("e2m1", "e2m3", "e3m2")}


def _table(dtype: DType) -> Array:
    """Returns the value of every bit pattern of a format without infinities and NaN."""
    exponent_bits, mantissa_bits, bias = dtype.exponent_bits, dtype.mantissa_bits, 1 - dtype.min_exponent
    values = []
    for bits in range(1 << (1 + exponent_bits + mantissa_bits)):
        sign = -1.0 if bits >> (exponent_bits + mantissa_bits) else 1.0
        exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1)
        fraction = (bits & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
        values.append(sign * (2.0 ** (exponent - bias) * (1 + fraction) if exponent else 2.0 ** (1 - bias) * fraction))
    return np.array(values)


_TABLES = {kind: _table(dtype) for kind, dtype in _SMALL.items()}


def decode_elements(stored: Array, kind: str, packed_axis: int | None = None) -> Array:
    """Returns the elements of one operand as float64. `packed_axis`: the axis along which bytes hold two e2m1
    elements."""
    if kind in _TABLES:
        table = _TABLES[kind]
        bits = stored.view(np.uint8)
        if packed_axis is None:
            return np.asarray(table[bits & (len(table) - 1)])
        pairs = np.stack([bits & 15, bits >> 4], packed_axis + 1)
        return np.asarray(table[pairs].reshape(*stored.shape[:packed_axis], -1, *stored.shape[packed_axis + 1 :]))
    return stored.view(_STORED.get(kind, stored.dtype)).astype(np.float64)


def decode_scales(stored: Array) -> Array:
    """Returns the scales as float64: signed bytes are e8m0 exponents, anything else is a float."""
    if stored.dtype != np.int8:
        return stored.astype(np.float64)
    bits = stored.view(np.uint8).astype(np.int64)
    return np.where(bits == 255, np.nan, np.ldexp(1.0, bits - 127))


def _scaled(side: ScaledOperand, stored: Array, scales: Array | None, k_last: bool) -> Array:
    """Multiplies elements by their scales, rounding to float32."""
    elements = decode_elements(np.ascontiguousarray(stored), side.kind, side.packed_axis)
    if scales is not None:
        factors = np.repeat(decode_scales(np.ascontiguousarray(scales)), side.group, axis=-1)
        elements = elements * (factors if k_last else np.swapaxes(factors, -1, -2))
    return elements.astype(np.float32)


def scaled_product(op: Operation, memory: Memory) -> Callable[..., Array]:
    """Returns the evaluator of a `tt.dot_scaled`: products and sums in float64, rounded to the type of the
    result."""
    assert isinstance(op, DotScaledOp)
    a_side, b_side = op.side("a"), op.side("b")
    target = numpy_dtype(op.d.type)

    def run(a: Array, b: Array, c: Array, *scales: Array) -> Array:
        left = iter(scales)
        a_scale = next(left) if a_side.scale is not None else None
        b_scale = next(left) if b_side.scale is not None else None
        x, y = _scaled(a_side, a, a_scale, True), _scaled(b_side, b, b_scale, False)
        total = np.matmul(x.astype(np.float64), y.astype(np.float64)) + np.asarray(c).astype(np.float64)
        result: Array = total.astype(np.float32 if target.itemsize < 4 else target).astype(target)
        return result

    return run
