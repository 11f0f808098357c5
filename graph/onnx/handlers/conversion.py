"""Handles conversions between dtypes."""

from __future__ import annotations

from typing import Any

from ....promotion.dtype import DType, float32, int32, string, uint8, uint32
from ...functions.building import apply
from ...functions.host.strings import parse_numbers, print_numbers
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
    if x.dtype is string:
        return parse_numbers(x, target)
    if target is string:
        return print_numbers(x)
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
    """Convert to float8_e8m0fnu, whose values are powers of two, by the rounding that ONNX names.

    The code is the exponent of the float32, whose sign is dropped; infinities and NaN become NaN.
    """
    node.require(mode in ("up", "down", "nearest"), f"round_mode {mode!r}", 'round_mode="nearest"')
    bits = x.cast(float32).bitcast(uint32)
    code = apply("bitwise_and", apply("shift_right", bits, 23), 255)
    fraction = apply("bitwise_and", bits, 0x7FFFFF)
    if mode != "down":
        beyond = apply("greater", fraction, 0)
        if mode == "nearest":  # halfway numbers go up, but for that between 0 and the smallest power
            half = apply("greater_equal", fraction, 0x400000)
            above = apply("greater", fraction, 0x400000)
            beyond = apply("where", apply("greater", code, 0), half, above)
        if saturate:
            beyond = apply("logical_and", beyond, apply("less", code, 254))
        beyond = apply("logical_and", beyond, apply("less", code, 255))
        code = apply("add", code, beyond.cast(uint32))
    return code.cast(uint8).bitcast("float8_e8m0fnu")


@handles("BitCast")
def bit_cast(node: Node) -> Result:
    """Reinterpret the bits as another dtype of the same width."""
    return node[0].bitcast(dtype_of_code(node.attr("to"), "BitCast"))
