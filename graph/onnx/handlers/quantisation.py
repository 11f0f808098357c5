"""Handles conversion between numbers and their quantised form: one scale and zero point per tensor, axis or block."""

from __future__ import annotations

from ....promotion.dtype import DType, float32, int32, uint8
from ...functions.building import apply
from ...functions.quantization.codes import dequantize, dynamic_quantize, quantize
from ...symbol import Symbol
from ..node import Node, Result
from ..registry import handles
from ..tensors import dtype_of_code
from ..values import Known


def rounded_into(value: Symbol, zero: Symbol | None, target: DType) -> Symbol:
    """Round floats half to even, add a zero point, and clamp into the range of an integer dtype."""
    whole = apply("round", value.cast(float32) if value.dtype.bits < 32 else value)
    if zero is not None:
        whole = apply("add", whole, zero.cast(whole.dtype))
    low, high = float(target.min_value), float(target.max_value)
    inside = apply("minimum", apply("maximum", whole, low), high)
    return inside.cast(int32).cast(target)


def requantised(total: Symbol, scale: Symbol, zero: Symbol) -> Symbol:
    """Return sums of products in int32, times a scale, in the dtype of a zero point."""
    return rounded_into(apply("mul", total.cast(float32), _whole(scale)), _whole(zero), zero.dtype)


def _whole(x: Symbol) -> Symbol:
    return x.reshape(()) if x.shape == (1,) else x


def _parameters(node: Node, x: Symbol, codes: DType) -> tuple[Symbol, Symbol | None, int, int | None]:
    """Return the scale, the zero point, their axis, and the size of their blocks."""
    scale, block = node[1], int(node.attr("block_size", 0))
    node.require(block >= 0, f"block_size {block}")
    zero = node[2] if node.has(2) and codes.is_integer else None
    if node.has(2) and zero is None and bool((node.known(2, "the zero point of 8-bit floats").astype("float32") != 0).any()):
        node.unsupported("a zero point of 8-bit floats that is not 0", "leave it out")
    if zero is not None and codes is int32 and isinstance(given := node.value(2), Known) and not given.array.any():
        zero = None  # sums of products have none, and models that state one say 0
    number = node.attr("axis", 1)
    if scale.shape in ((), (1,)) and not block:
        return _whole(scale), None if zero is None else _whole(zero), 0, None
    axis = node.axis(number, len(x.shape))
    if not block:
        node.require(len(scale.shape) == 1, f"a scale of {len(scale.shape)} axes; one per tensor or axis is expected")
    return scale, zero, axis, block or None


@handles("QuantizeLinear")
def quantize_linear(node: Node) -> Result:
    """Divide by the scale, round half to even, add the zero point, and clamp."""
    code = node.attr("output_dtype", 0)
    target = node.dtype(2) if node.has(2) else dtype_of_code(code, "QuantizeLinear") if code else uint8
    node.require(
        not code or dtype_of_code(code, "QuantizeLinear") is target, "output_dtype and the zero point have different dtypes"
    )
    scale, zero, axis, block = _parameters(node, node[0], target)
    precision = node.attr("precision", 0)
    scale = scale.cast(dtype_of_code(precision, "QuantizeLinear")) if precision else scale
    return quantize(node[0], scale, zero, target, axis, block, bool(node.attr("saturate", 1)))


@handles("DequantizeLinear")
def dequantize_linear(node: Node) -> Result:
    """Subtract the zero point and multiply by the scale, whose dtype the result has."""
    scale, zero, axis, block = _parameters(node, node[0], node.dtype(0))
    code = node.attr("output_dtype", 0)
    target = dtype_of_code(code, "DequantizeLinear") if code else scale.dtype
    return dequantize(node[0], scale, zero, target, axis, block)


@handles("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: Node) -> Result:
    """Quantise to uint8 by the range of the data, which includes 0; a range of nothing but 0 has the scale 1."""
    return dynamic_quantize(node[0])
