"""Handles elementwise operators: arithmetic, comparisons, logic and bits."""

from __future__ import annotations

import numpy as np

from ....promotion.dtype import DType, float64, int64, string, uint64
from ...functions.building import apply
from ...functions.elementwise import FUNCTIONS, acosh, asinh, atanh, cosh, reciprocal, sinh, tan
from ...functions.host.strings import string_equal
from ...symbol import Symbol
from ..node import Node, Result
from ..registry import handles
from ..sizes.broadcasting import broadcastable
from ..values import Known

_UNARY = {
    "Abs": "abs", "Acos": "acos", "Asin": "asin", "Atan": "atan", "Ceil": "ceil", "Cos": "cos", "Erf": "erf", "Exp": "exp",
    "Floor": "floor", "IsNaN": "is_nan", "Log": "log", "Neg": "negate", "Not": "logical_not", "Round": "round", "Sign": "sign",
    "Sin": "sin", "Sqrt": "sqrt", "Tanh": "tanh", "BitwiseNot": "bitwise_not", "Sigmoid": "sigmoid", "Relu": "relu",
}  # fmt: skip
"""Operators with one input → rows that mean the same."""
_COMPOSED = {
    "Acosh": acosh, "Asinh": asinh, "Atanh": atanh, "Cosh": cosh, "Sinh": sinh, "Tan": tan, "Reciprocal": reciprocal,
}  # fmt: skip
_BINARY = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "And": "logical_and", "Or": "logical_or", "Xor": "logical_xor",
    "Equal": "equal", "Greater": "greater", "Less": "less", "GreaterOrEqual": "greater_equal", "LessOrEqual": "less_equal",
    "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor",
}  # fmt: skip
_VARIADIC = {"Max": "maximum", "Min": "minimum", "Sum": "add"}


@handles(*_UNARY)
def unary(node: Node) -> Result:
    """Apply the row of an operator with one input."""
    node.ignore("consumed_inputs")  # a hint for memory of opset 1
    return FUNCTIONS[_UNARY[node.op]](node[0])


@handles(*_COMPOSED)
def composed(node: Node) -> Result:
    """Apply a function that is made of several rows."""
    node.ignore("consumed_inputs")
    return _COMPOSED[node.op](node[0])


def legacy_pair(node: Node) -> tuple[Symbol, Symbol]:
    """Return the operands of an operator with two inputs; before opset 7 the second is aligned at `axis`, not at the end."""
    x, y = node[0], node[1]
    node.ignore("consumed_inputs")
    if node.version < 7:
        broadcast, axis = node.attr("broadcast", 0), node.attr("axis", None)
        if broadcast and axis is not None:
            start = node.axis(axis, len(x.shape) + 1)
            missing = len(x.shape) - start - len(y.shape)
            node.require(missing >= 0, f"axis {axis} leaves too few axes for the second operand")
            y = apply("reshape", y, shape=(*y.shape, *(1,) * missing))
        elif not broadcast:
            y = node.agreeing(y, x.shape, "the second operand, which is not broadcast without broadcast=1,")
    x, y = broadcastable(x, y)
    return x, y


@handles(*_BINARY)
def binary(node: Node) -> Result:
    """Apply the row of an operator with two inputs; strings can be compared."""
    if node.op == "Equal" and node.dtype(0) is string:
        return string_equal(node[0], node[1])
    decided = _decided(node)
    return apply(_BINARY[node.op], *legacy_pair(node)) if decided is None else decided


def _decided(node: Node) -> Known | None:
    """Return an And or Or of one element that a constant decides: the conditions of loops end by it."""
    if node.op not in ("And", "Or") or node.version < 7:
        return None
    for position in range(2):
        value, other = node.value(position), node.value(1 - position)
        if isinstance(value, Known) and value.array.size == 1 and bool(value.array.reshape(-1)[0]) == (node.op == "Or"):
            shape = getattr(other, "shape", None)
            if shape is not None and all(extent == 1 for extent in shape):
                rank = max(len(shape), value.array.ndim)
                return Known(np.full((1,) * rank, node.op == "Or"))
    return None


@handles("Div")
def div(node: Node) -> Result:
    """Divide; integers truncate."""
    x, y = legacy_pair(node)
    return apply("trunc_div" if x.dtype.is_integer else "div", x, y)


@handles("Mod")
def mod(node: Node) -> Result:
    """Compute the remainder, with the sign of the divisor, or with fmod=1 that of the dividend."""
    return apply("rem" if node.attr("fmod") else "mod", node[0], node[1])


@handles("Pow")
def pow_(node: Node) -> Result:
    """Raise to a power; the result has the dtype of the base, whatever that of the exponent is."""
    x, y = legacy_pair(node)
    result = x.dtype
    if x.dtype is y.dtype and x.dtype.is_float:
        return apply("pow", x, y)
    if x.dtype.is_float:
        wide: DType = x.dtype if (y.dtype.is_float and y.dtype.bits <= x.dtype.bits) or y.dtype.is_integer else float64
    else:
        wide = float64 if y.dtype.is_float else uint64 if x.dtype is uint64 else int64
    return apply("pow", x.cast(wide), y.cast(wide)).cast(result)


@handles(*_VARIADIC)
def variadic(node: Node) -> Result:
    """Combine any number of tensors."""
    node.ignore("consumed_inputs")
    node.require(len(node) > 0, "no tensors")
    values = node.all()
    result = values[0]
    for value in values[1:]:
        result = apply(_VARIADIC[node.op], *broadcastable(result, value))
    return result


@handles("Mean")
def mean(node: Node) -> Result:
    """Compute the mean of any number of tensors."""
    node.ignore("consumed_inputs")
    node.require(len(node) > 0, "no tensors")
    values = node.all()
    total = values[0]
    for value in values[1:]:
        total = apply("add", *broadcastable(total, value))
    return apply("div", total, float(len(values)))


@handles("Clip")
def clip_by_attributes(node: Node) -> Result:
    """Limit to bounds given as attributes; those beyond the dtype's range, which is the default, do nothing."""
    node.ignore("consumed_inputs")
    result = node[0]
    low, high = node.attr("min", None), node.attr("max", None)
    largest = float(result.dtype.max_value)
    if low is not None and low > -largest:
        result = apply("maximum", result, float(low))
    if high is not None and high < largest:
        result = apply("minimum", result, float(high))
    return result


@handles("Clip", since=11)
def clip(node: Node) -> Result:
    """Limit to bounds given as inputs, each of which may be left out."""
    result = node[0]
    if (low := node.get(1)) is not None:
        result = apply("maximum", result, low)
    if (high := node.get(2)) is not None:
        result = apply("minimum", result, high)
    return result


@handles("Where")
def where(node: Node) -> Result:
    """Select between two tensors."""
    return apply("where", *broadcastable(node[0], node[1], node[2]))


@handles("IsInf")
def is_inf(node: Node) -> Result:
    """Tell infinities, of both signs or of one."""
    x = node[0]
    found = []
    if node.attr("detect_positive"):
        found.append(apply("equal", x, float("inf")))
    if node.attr("detect_negative"):
        found.append(apply("equal", x, float("-inf")))
    if not found:
        return apply("not_equal", x, x) if not x.dtype.is_float else apply("less", x, float("-inf"))  # false everywhere
    return found[0] if len(found) == 1 else apply("logical_or", *found)


@handles("BitShift")
def bit_shift(node: Node) -> Result:
    """Shift bits to the left or right."""
    direction = node.attr("direction").lower()
    node.require(direction in ("left", "right"), f"direction {direction!r} is neither LEFT nor RIGHT")
    return apply(f"shift_{direction}", node[0], node[1])
