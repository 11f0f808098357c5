"""Handles conversions between dtypes."""

from __future__ import annotations

from typing import Any

from ....promotion.dtype import DType, int32
from ...functions.building import apply
from ...symbol import Symbol
from ..node import Node, Result
from ..reading import load_onnx
from ..registry import handles
from ..tensors import dtype_of_code


def converted(node: Node, x: Symbol, target: DType, saturate: bool = True) -> Symbol:
    """Convert as ONNX does.

    Floats go to integers of fewer than 8 bits by way of int32, whose low bits stay: joinery would saturate. In 8-bit floats
    with saturation, infinities become the largest number.
    """
    if target is x.dtype:
        return x
    if x.dtype.is_float and target.is_integer and target.bits < 8:
        return x.cast(int32).cast(target)
    if target.is_float and target.bits == 8 and saturate and x.dtype.is_float and target.name != "float8_e8m0fnu":
        largest = float(target.max_value)
        if x.dtype.bits >= 16 and float(x.dtype.max_value) > largest:
            x = apply("minimum", apply("maximum", x, -largest), largest)
    return x.cast(target, saturate=saturate)


@handles("Cast")
def cast(node: Node) -> Result:
    """Convert to a dtype."""
    to: Any = node.attr("to")
    if isinstance(to, str):
        to = dict(load_onnx().TensorProto.DataType.items()).get(to, -1)
    return _cast(node, dtype_of_code(to, "Cast"))


@handles("CastLike")
def cast_like(node: Node) -> Result:
    """Convert to the dtype of another tensor."""
    return _cast(node, node.dtype(1))


def _cast(node: Node, target: DType) -> Symbol:
    x = node[0]
    saturate = bool(node.attr("saturate", 1))
    mode = node.attr("round_mode", "up")
    if target.name == "float8_e8m0fnu" and x.dtype is not target:
        return to_power_of_two(node, x, mode, saturate)
    return converted(node, x, target, saturate)


def to_power_of_two(node: Node, x: Symbol, mode: str, saturate: bool) -> Symbol:
    """Convert to float8_e8m0fnu, whose values are powers of two, by the rounding that ONNX names."""
    node.unsupported(f"Cast to float8_e8m0fnu with round_mode={mode!r}", "cast to another dtype")
    return x


@handles("BitCast")
def bit_cast(node: Node) -> Result:
    """Reinterpret the bits as another dtype of the same width."""
    return node[0].bitcast(dtype_of_code(node.attr("to"), "BitCast"))
