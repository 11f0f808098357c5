"""Handles conversion between numbers and their quantised form: one scale and zero point per tensor, axis or block."""

from __future__ import annotations

from ....promotion.dtype import DType, float32, int32, uint8
from ...dims.dim import Extent
from ...functions.building import apply
from ...functions.joining import repeat_interleave
from ...functions.reductions import max_, min_
from ...symbol import Symbol
from ..node import Node, Result
from ..registry import handles
from ..tensors import dtype_of_code


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


def _along(node: Node, x: Symbol, parameter: Symbol) -> Symbol:
    """Return a scale or zero point in a form that broadcasts against the tensor."""
    shape, block = x.shape, int(node.attr("block_size", 0))
    axis_number = node.attr("axis", 1)
    if parameter.shape in ((), (1,)) and not block:
        return parameter.reshape(())
    axis = node.axis(axis_number, len(shape))
    if not block:
        node.require(len(parameter.shape) == 1, f"a scale of {len(parameter.shape)} axes; one per tensor or axis is expected")
        return parameter.reshape((*parameter.shape, *(1,) * (len(shape) - 1 - axis)))
    node.require(
        block > 0 and len(parameter.shape) == len(shape), f"block_size {block} and a scale of {len(parameter.shape)} axes"
    )
    wide = repeat_interleave(parameter, block, axis)
    stops: tuple[Extent, ...] = tuple([shape[a] if a == axis else extent for a, extent in enumerate(wide.shape)])
    return apply("slice", wide, starts=(0,) * len(stops), stops=stops, steps=(1,) * len(stops)) if stops != wide.shape else wide


@handles("QuantizeLinear")
def quantize_linear(node: Node) -> Result:
    """Divide by the scale, round half to even, add the zero point, and clamp."""
    x, scale = node[0], _along(node, node[0], node[1])
    code = node.attr("output_dtype", 0)
    zero = _along(node, x, node[2]) if node.has(2) else None
    target = zero.dtype if zero is not None else dtype_of_code(code, "QuantizeLinear") if code else uint8
    node.require(
        not code or dtype_of_code(code, "QuantizeLinear") is target, "output_dtype and the zero point have different dtypes"
    )
    precision = node.attr("precision", 0)
    work = dtype_of_code(precision, "QuantizeLinear") if precision else scale.dtype
    saturate = bool(node.attr("saturate", 1))
    ratio = apply("div", x.cast(work), scale.cast(work))
    if target.is_integer:
        return rounded_into(ratio, zero, target)
    _require_zero(node)
    largest = float(target.max_value)
    if saturate:
        ratio = apply("minimum", apply("maximum", ratio, -largest), largest)
    return ratio.cast(target, saturate=saturate)


def _require_zero(node: Node) -> None:
    """Raise `UnsupportedError` for a zero point of 8-bit floats that is another number: ONNX allows none."""
    if node.has(2) and bool((node.known(2, "the zero point of 8-bit floats").astype("float32") != 0).any()):
        node.unsupported("a zero point of 8-bit floats that is not 0", "leave it out")


@handles("DequantizeLinear")
def dequantize_linear(node: Node) -> Result:
    """Subtract the zero point and multiply by the scale, whose dtype the result has."""
    x, scale = node[0], _along(node, node[0], node[1])
    code = node.attr("output_dtype", 0)
    target = dtype_of_code(code, "DequantizeLinear") if code else scale.dtype
    if x.dtype.is_integer:
        wide = x.cast(int32)
        if node.has(2):
            wide = apply("sub", wide, _along(node, x, node[2]).cast(int32))
    else:
        wide = x
        _require_zero(node)
    work = float32 if scale.dtype.bits < 32 and target.bits >= 32 else scale.dtype
    return apply("mul", wide.cast(work), scale.cast(work)).cast(target)


@handles("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: Node) -> Result:
    """Quantise to uint8 by the range of the data, which includes 0; a range of nothing but 0 has the scale 1."""
    return by_its_range(node[0])


def by_its_range(x: Symbol) -> tuple[Symbol, Symbol, Symbol]:
    """Return the codes of floats in uint8, with their scale and zero point, by the range of all of them and 0."""
    low = apply("minimum", min_(x), 0.0)
    high = apply("maximum", max_(x), 0.0)
    span = apply("div", apply("sub", high, low), 255.0)
    scale = apply("where", apply("equal", span, 0.0), 1.0, span)
    zero = rounded_into(apply("div", apply("negate", low), scale), None, uint8)
    return rounded_into(apply("div", x, scale), zero, uint8), scale, zero
