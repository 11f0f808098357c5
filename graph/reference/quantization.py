"""Defines reference implementations of the conversions between numbers and codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...promotion.arrays import Array
from ...promotion.dtype import DType, float32, float64, int32
from ..ops.quantization import work_dtype
from .numerics import convert, to_dtype, working
from .registry import BoundSymbol, row


def _along(shape: tuple[int, ...], parameter: Array, attrs: Mapping[str, Any]) -> Array:
    """Return a scale or zero point for each element."""
    axis, block = attrs["axis"], attrs["block_size"]
    if not parameter.ndim:
        return parameter
    if block:
        spread: Array = np.take(parameter, np.arange(shape[axis]) // block, axis)
        return spread
    return parameter.reshape([-1 if a == axis else 1 for a in range(len(shape))])


def _as(values: Array, source: DType, target: DType) -> Array:
    return values if source is target else convert(values, source, target)


@row("quantize")
def quantize(symbol: BoundSymbol, x: Array, scale: Array, *zero: Array) -> Array:
    """Divide in the scale's dtype, then round, shift and clamp."""
    source, factor, *_ = [operand.dtype for operand in symbol.inputs]
    work, target, attrs = work_dtype(factor), symbol.dtype, symbol.attrs
    divisor = _along(x.shape, _as(scale, factor, work), attrs)
    ratio = to_dtype(np.true_divide(working(_as(x, source, work), work), working(divisor, work)), work)
    if not target.is_integer:
        if attrs["saturate"]:
            largest = float(target.max_value)
            limited = np.clip(ratio.astype(np.float64), -largest, largest).astype(work.numpy)
            ratio = np.where(np.isnan(ratio.astype(np.float64)), ratio, limited)
        return convert(ratio, work, target, saturate=attrs["saturate"])
    wide = float64 if work is float64 else float32
    whole = np.rint(ratio.astype(wide.numpy))
    if zero:
        whole = whole + _as(_along(x.shape, zero[0], attrs), target, wide)
    low, high = (np.asarray(float(bound), whole.dtype) for bound in (target.min_value, target.max_value))
    return convert(np.clip(whole, low, high), wide, target)


@row("dequantize")
def dequantize(symbol: BoundSymbol, x: Array, scale: Array, *zero: Array) -> Array:
    """Subtract exactly what wraps in int32, then multiply."""
    source, factor, *_ = [operand.dtype for operand in symbol.inputs]
    work = work_dtype(factor)
    work = float32 if work.bits < 32 and symbol.dtype.bits >= 32 else work
    if source.is_integer:
        codes = x.astype(np.int64)
        if zero:
            codes = codes - _along(x.shape, zero[0], symbol.attrs).astype(np.int64)
        codes, source = codes.astype(np.int32), int32
    else:
        codes = x
    numbers = working(_as(codes, source, work), work)
    product = to_dtype(numbers * working(_along(x.shape, _as(scale, factor, work), symbol.attrs), work), work)
    return _as(product, work, symbol.dtype)
