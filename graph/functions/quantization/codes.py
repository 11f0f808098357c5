"""Converts between numbers and codes of few bits: integers or small floats, with a scale and a zero point."""

from __future__ import annotations

from ....promotion.dtype import DType, float32, uint8
from ....promotion.literals import is_scalar
from ...dims.dim import at_most, product
from ...errors import describing, mistake
from ...graph import Graph, graph_of
from ...ops.attributes import Attributes
from ...ops.quantization import work_dtype
from ...ops.shape import normalize_axis
from ...protocols import TensorLike
from ...symbol import Symbol
from ...types import DTypeLike, as_dtype
from ..building import apply, symbol_of


def quantize(
    x: TensorLike, scale: TensorLike, zero_point: TensorLike | None = None, dtype: DTypeLike | None = None,
    axis: int = -1, block_size: int | None = None, saturate: bool = True,
) -> Symbol:  # fmt: skip
    """Return codes of numbers: round(x / scale) + zero_point, halves to even, clamped into the range of `dtype`.

    Args:
        x: floats or integers.
        scale: a float for the whole tensor, a vector of one for each position along `axis`, or, with `block_size`, a tensor
            of one for each block. The quotient is computed in its dtype (float8_e8m0fnu: float32).
        zero_point: the code of 0, of the shape of `scale` and of `dtype`. Codes that are floats have none.
        dtype: int8, uint8, int16, uint16, int32, int4, uint4, int2, uint2, a float of 8 bits, or float4_e2m1fn; by default
            that of the zero point.
        axis: along which scales or blocks lie.
        block_size: how many elements along `axis` share a scale; the last block may be shorter.
        saturate: whether floats beyond the largest code become that one; otherwise they become infinite, or NaN.

    NaN becomes the code 0 or, of floats, NaN. As ONNX's QuantizeLinear.
    """
    return _converted("quantize", x, scale, zero_point, dtype, axis, block_size, saturate=bool(saturate))


def dequantize(
    x: TensorLike, scale: TensorLike, zero_point: TensorLike | None = None, dtype: DTypeLike | None = None,
    axis: int = -1, block_size: int | None = None,
) -> Symbol:  # fmt: skip
    """Return the numbers of codes: (x - zero_point) · scale, in `dtype`, by default that of the scale.

    x: codes as `quantize` makes them; the other arguments are those of `quantize`. As ONNX's DequantizeLinear.
    """
    return _converted("dequantize", x, scale, zero_point, dtype, axis, block_size)


def dynamic_quantize(x: TensorLike) -> tuple[Symbol, Symbol, Symbol]:
    """Return codes of floats in uint8, their scale and their zero point, by the range of all elements and 0.

    A tensor of nothing but 0, or of no elements, has the scale 1. As ONNX's DynamicQuantizeLinear.
    """
    symbol = symbol_of("dynamic_quantize", x)
    if not symbol.dtype.is_float:
        raise mistake("dynamic_quantize", f"values of {symbol.dtype}", (symbol,), "floats", "cast them to float32")
    low, high = (_with_zero(symbol, op) for op in ("min", "max"))
    span = apply("div", apply("sub", high, low), 255.0)
    scale = apply("where", apply("equal", span, 0.0), 1.0, span)
    zero = quantize(apply("negate", low), scale, dtype=uint8)
    return quantize(symbol, scale, zero), scale, zero


def _with_zero(x: Symbol, op: str) -> Symbol:
    """Return the extreme of all elements and 0. Axes that may be empty come last, when few elements are left."""
    axes = tuple([axis for axis, extent in enumerate(x.shape) if at_most(1, extent)])
    left = apply(f"reduce_{op}", x, axes=axes, keepdims=False) if axes else x
    if left.shape:
        flat = apply("pad", left.reshape((product(left.shape),)), low=(0,), high=(1,), mode="constant", value=0.0)
        left = apply(f"reduce_{op}", flat, axes=(0,), keepdims=False)
    return apply(f"{op}imum", left, 0.0)


def _converted(
    op: str, x: TensorLike, scale: TensorLike, zero_point: TensorLike | None, dtype: DTypeLike | None, axis: int,
    block_size: int | None, saturate: bool | None = None,
) -> Symbol:  # fmt: skip
    given = [x, scale] if zero_point is None else [x, scale, zero_point]
    graph = graph_of(op, *given)
    value = graph.as_symbol(x, op)
    target = None if dtype is None else as_dtype(dtype, f"{op}: dtype")
    if op == "quantize" and target is None:
        target = getattr(zero_point, "dtype", None) and graph.as_symbol(zero_point, op).dtype  # type: ignore[arg-type]
        if target is None:
            raise mistake(op, "no dtype of the codes", (value,), "a dtype, or a zero point that has it", "dtype=int8")
    codes = value.dtype if target is None or op == "dequantize" else target
    floats = [each for each in (target, value.dtype) if each is not None and each.is_float and each.has_arithmetic]
    factor = _number(graph, scale, floats[0] if floats else float32, op)
    zero = () if zero_point is None else (_number(graph, zero_point, codes, op),)
    if target is None:
        target = work_dtype(factor.dtype)
    operands = (value, factor, *zero)
    if block_size is not None and (type(block_size) is not int or block_size < 1):
        raise mistake(op, f"block_size is {block_size!r}", operands, "how many elements share a scale", "block_size=32")
    with describing(op, *operands):
        number = normalize_axis(axis, len(value.shape)) if factor.shape else 0
    attrs: Attributes = {"axis": number, "block_size": block_size or 0, "dtype": target}
    if saturate is not None:
        attrs["saturate"] = saturate
    return graph.apply(op, operands, attrs, target)


def _number(graph: Graph, value: TensorLike, dtype: DType, op: str) -> Symbol:
    """Return a parameter; a number, which is weak, has the dtype that it is for."""
    value = graph.rules.weakened(value)
    return graph.scalar(value, dtype) if is_scalar(value) else graph.as_symbol(value, op)
