"""Handles elementwise operators: arithmetic, comparisons, logic and bits."""

from __future__ import annotations

import math

from ....promotion.dtype import DType, bool_, float32
from ...dims.dim import Dim
from ...functions import elementwise, pairs, special
from ...functions.building import apply
from ...symbol import Symbol
from ..node import Node, Number, Operand, is_wide
from ..registry import handles

_UNARY = {
    "neg": "negate", "abs": "abs", "sqrt": "sqrt", "rsqrt": "rsqrt", "exp": "exp", "exp2": "exp2", "expm1": "expm1",
    "log": "log", "log2": "log2", "log1p": "log1p", "sin": "sin", "cos": "cos", "asin": "asin", "acos": "acos", "atan": "atan",
    "erf": "erf", "floor": "floor", "ceil": "ceil", "round": "round", "trunc": "trunc", "isnan": "is_nan",
    "bitwise_not": "bitwise_not",
}  # fmt: skip
"""Operators with one tensor → rows that mean the same."""
_FUNCTIONS = {
    "tan": elementwise.tan, "sinh": elementwise.sinh, "cosh": elementwise.cosh, "asinh": elementwise.asinh,
    "acosh": elementwise.acosh, "atanh": elementwise.atanh, "log10": elementwise.log10, "erfc": special.erfc,
    "reciprocal": elementwise.reciprocal, "isinf": elementwise.is_inf,
}  # fmt: skip
_BINARY = {
    "mul": "mul", "maximum": "maximum", "minimum": "minimum", "remainder": "mod", "fmod": "rem", "bitwise_and": "bitwise_and",
    "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor",
}  # fmt: skip
_COMPARISONS = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}
_LOGIC = {"logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor"}
_PAIRS = {"atan2": pairs.atan2, "hypot": pairs.hypot, "copysign": pairs.copysign, "logaddexp": elementwise.logaddexp}


def is_true(x: Symbol) -> Symbol:
    """Return whether elements are not zero."""
    return x if x.dtype is bool_ else apply("not_equal", x, x.graph.scalar(0, x.dtype))


@handles(*[f"{kind}.default" for kind in _UNARY])
def unary(node: Node, x: Symbol) -> Symbol:
    """Apply the row of an operator with one tensor; functions of integers are floats."""
    return apply(_UNARY[node.kind], x)


@handles(*[f"{kind}.default" for kind in _FUNCTIONS])
def function(node: Node, x: Symbol) -> Symbol:
    """Apply a function that is made of several rows."""
    return _FUNCTIONS[node.kind](x)


@handles("round.decimals")
def round_decimals(node: Node, x: Symbol, decimals: int = 0) -> Symbol:
    """Round to a number of decimal digits, which is negative for tens and hundreds; integers stay."""
    if not x.dtype.is_float or not decimals:
        return apply("round", x)
    wide = x.cast(float32) if x.dtype.bits == 16 else x
    power = node.number(10.0 ** abs(decimals), wide.dtype)
    before, after = ("mul", "div") if decimals > 0 else ("div", "mul")
    return apply(after, apply("round", apply(before, wide, power)), power).cast(x.dtype)


@handles("sign.default", "sgn.default")
def sign(node: Node, x: Symbol) -> Symbol:
    """Return the sign; of NaN it is 0."""
    result = apply("sign", x)
    return apply("where", apply("is_nan", x), node.number(0, x.dtype), result) if x.dtype.is_float else result


@handles("logical_not.default")
def logical_not(node: Node, x: Symbol) -> Symbol:
    """Return whether elements are zero."""
    return apply("logical_not", is_true(x))


@handles(*[f"{kind}.{form}" for kind in _BINARY for form in ("Tensor", "Scalar", "default", "Scalar_Tensor")])
def binary(node: Node, x: Operand, y: Operand) -> Symbol:
    """Apply the row of an operator with two operands of one dtype."""
    return node.computed(_BINARY[node.kind], x, y)


@handles(*[f"bitwise_{to}_shift.{form}" for to in ("left", "right") for form in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")],
         *[f"{kind}.{form}" for kind in ("__lshift__", "__rshift__") for form in ("Tensor", "Scalar")])  # fmt: skip
def shift(node: Node, x: Operand, y: Operand) -> Symbol:
    """Shift bits to the left or right."""
    node.require(node.dtype.is_integer, f"a shift of {node.dtype}", "integers")
    return node.computed("shift_left" if node.kind in ("bitwise_left_shift", "__lshift__") else "shift_right", x, y)


@handles("fma.default", namespace="prims")
def product_and_sum(node: Node, x: Operand, y: Operand, added: Operand) -> Symbol:
    """Compute x · y + added, of which optimisers are made."""
    dtype = node.dtype
    wide = float32 if dtype.is_float and dtype.bits == 16 else dtype
    first, second, last = node.operands(x, y, added, dtype=wide)
    return apply("add", apply("mul", first, second), last).cast(dtype)


@handles(*[f"{kind}.{form}" for kind in _COMPARISONS for form in ("Tensor", "Scalar")])
def comparison(node: Node, x: Operand, y: Operand) -> Symbol:
    """Compare in the common dtype of both operands, to which numbers are rounded."""
    return apply(_COMPARISONS[node.kind], *node.operands(x, y))


@handles(*[f"{kind}.default" for kind in _LOGIC])
def logic(node: Node, x: Symbol, y: Symbol) -> Symbol:
    """Combine truths; numbers are true unless they are 0."""
    return apply(_LOGIC[node.kind], is_true(x), is_true(y))


@handles(*[f"{kind}.default" for kind in _PAIRS if kind != "copysign"], "copysign.Tensor")
def pair(node: Node, x: Symbol, y: Symbol) -> Symbol:
    """Apply a function of two tensors that is made of several rows."""
    dtype = node.dtype
    return _PAIRS[node.kind](*node.operands(x, y, dtype=dtype))


def scaled_sum(node: Node, row: str, x: Operand, y: Operand, alpha: Number) -> Symbol:
    """Add `alpha · y` to x, or subtract it; 16-bit floats are rounded once."""
    if alpha == 1 and not isinstance(alpha, bool):
        return node.computed(row, x, y)
    dtype = node.common(x, y)
    wide = float32 if dtype.is_float and dtype.bits == 16 else dtype
    first = node.operand(x, dtype).cast(wide)
    second = node.operand(y, wide if is_wide(y, dtype) else dtype).cast(wide)
    return apply(row, first, apply("mul", second, node.number(alpha, wide))).cast(dtype)


@handles("add.Tensor", "add.Scalar")
def add(node: Node, x: Operand, other: Operand, alpha: Number = 1) -> Symbol:
    """Compute x + alpha · other."""
    return scaled_sum(node, "add", x, other, alpha)


@handles("sub.Tensor", "sub.Scalar")
def sub(node: Node, x: Operand, other: Operand, alpha: Number = 1) -> Symbol:
    """Compute x - alpha · other."""
    return scaled_sum(node, "sub", x, other, alpha)


@handles("rsub.Tensor", "rsub.Scalar")
def rsub(node: Node, x: Operand, other: Operand, alpha: Number = 1) -> Symbol:
    """Compute other - alpha · x."""
    if alpha == 1 and isinstance(x, Symbol) and not isinstance(other, Symbol):
        dtype = node.common(other, x)
        wide = float32 if dtype.is_float and dtype.bits == 16 else dtype
        return apply("sub", node.operand(other, wide), node.operand(x, dtype).cast(wide)).cast(dtype)
    return scaled_sum(node, "sub", other, x, alpha)


@handles("div.Tensor", "div.Scalar", "true_divide.Tensor")
def div(node: Node, x: Operand, other: Operand) -> Symbol:
    """Divide; bools and integers become the default float first."""
    dtype = node.common(x, other)
    if not dtype.is_float:
        return apply("div", *node.operands(x, other, dtype=node.dtype))
    return node.computed("div", x, other)


@handles("div.Tensor_mode", "div.Scalar_mode")
def div_mode(node: Node, x: Operand, other: Operand, rounding_mode: str | None = None) -> Symbol:
    """Divide and round: towards zero, down, or not at all."""
    if rounding_mode is None:
        return div(node, x, other)
    dtype = node.common(x, other)
    if not dtype.is_float:
        return apply("trunc_div" if rounding_mode == "trunc" else "floor_div", *node.operands(x, other, dtype=dtype))
    wide = float32 if dtype.bits == 16 else dtype
    first, second = node.operand(x, dtype).cast(wide), node.operand(other, wide if not isinstance(other, Symbol) else dtype)
    if rounding_mode == "floor":
        return apply("floor_div", first, second.cast(wide)).cast(dtype)
    return apply("trunc", apply("div", first, second.cast(wide))).cast(dtype)


@handles("floor_divide.default")
def floor_divide(node: Node, x: Operand, other: Operand) -> Symbol:
    """Divide and round down."""
    return div_mode(node, x, other, rounding_mode="floor")


@handles("pow.Tensor_Scalar")
def pow_scalar(node: Node, x: Symbol, exponent: Number | Dim) -> Symbol:
    """Raise to a power that is a number; small ones are products, as in ATen."""
    dtype = node.common(x, exponent)
    base = node.operand(x, dtype)
    if isinstance(exponent, Dim) or not dtype.is_float:
        return apply("pow", base, node.operand(exponent, dtype))
    wide = base.cast(float32) if dtype.bits == 16 else base
    if exponent == 0.5:
        result = apply("sqrt", wide)
    elif exponent == -0.5:
        result = apply("rsqrt", wide)
    elif abs(exponent) in (1, 2, 3):
        result = wide
        for _ in range(abs(int(exponent)) - 1):
            result = apply("mul", result, wide)
        result = apply("div", node.number(1, wide.dtype), result) if exponent < 0 else result
    else:
        result = apply("pow", wide, node.number(exponent, wide.dtype))
    return result.cast(dtype)


@handles("pow.Tensor_Tensor", "pow.Scalar")
def pow_tensor(node: Node, x: Operand, exponent: Operand) -> Symbol:
    """Raise to powers that are a tensor."""
    return apply("pow", *node.operands(x, exponent))


@handles("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(node: Node, condition: Symbol, x: Operand, other: Operand) -> Symbol:
    """Select between two operands, in their common dtype."""
    return apply("where", is_true(condition), *node.operands(x, other))


@handles("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(node: Node, x: Symbol, mask: Symbol, value: Operand) -> Symbol:
    """Replace elements where a mask holds; the result has the dtype of the tensor."""
    filler = value.cast(x.dtype) if isinstance(value, Symbol) else node.operand(value, x.dtype)
    return apply("where", mask, filler, x)


@handles("clamp.default", "clamp.Tensor")
def clamp(node: Node, x: Symbol, low: Operand | None = None, high: Operand | None = None) -> Symbol:
    """Limit to bounds, each of which may be left out."""
    dtype = node.common(x, *[bound for bound in (low, high) if bound is not None])
    result = node.operand(x, dtype)
    if low is not None:
        result = apply("maximum", result, node.operand(low, dtype))
    if high is not None:
        result = apply("minimum", result, node.operand(high, dtype))
    return result


@handles("clamp_min.default", "clamp_min.Tensor")
def clamp_min(node: Node, x: Symbol, low: Operand) -> Symbol:
    """Limit from below."""
    return clamp(node, x, low)


@handles("clamp_max.default", "clamp_max.Tensor")
def clamp_max(node: Node, x: Symbol, high: Operand) -> Symbol:
    """Limit from above."""
    return clamp(node, x, None, high)


@handles("angle.default")
def angle(node: Node, x: Symbol) -> Symbol:
    """Return the angle of real numbers: π where they are negative, else 0."""
    wide = x.cast(node.dtype)
    nothing = node.number(0.0, node.dtype)
    found = apply("where", apply("less", wide, nothing), node.number(math.pi, node.dtype), nothing)
    return apply("where", apply("is_nan", wide), wide, found)


@handles("isfinite.default")
def isfinite(node: Node, x: Symbol) -> Symbol:
    """Tell what is neither infinite nor NaN."""
    return elementwise.is_finite(x)


@handles("nan_to_num.default")
def nan_to_num(
    node: Node, x: Symbol, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Symbol:
    """Replace NaN and infinities by numbers."""
    if not x.dtype.is_float:
        return x
    largest = _largest(x.dtype)
    result = apply("where", apply("is_nan", x), node.number(0.0 if nan is None else nan, x.dtype), x)
    for infinity, given, default in ((math.inf, posinf, largest), (-math.inf, neginf, -largest)):
        filler = node.number(default if given is None else given, x.dtype)
        result = apply("where", apply("equal", x, node.number(infinity, x.dtype)), filler, result)
    return result


def _largest(dtype: DType) -> float:
    return float(dtype.max_value)
