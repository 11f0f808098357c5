"""Writes comparisons, logic, bits, and functions of one number."""

from __future__ import annotations

import math

from .....promotion.dtype import DTYPES, DType, bool_, float32, int32, int64, uint64
from ..body import Body, Refused
from ..registry import Call, never, writes
from .arithmetic import one, zero

_COMPARISONS = {
    "equal": "Equal", "less": "Less", "less_equal": "LessOrEqual", "greater": "Greater", "greater_equal": "GreaterOrEqual",
}  # fmt: skip
_LOGIC = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "logical_not": "Not"}
_BITS = {
    "bitwise_and": ("BitwiseAnd", "And"), "bitwise_or": ("BitwiseOr", "Or"), "bitwise_xor": ("BitwiseXor", "Xor"),
    "bitwise_not": ("BitwiseNot", "Not"),
}  # fmt: skip
_FUNCTIONS = {
    "sqrt": "Sqrt", "exp": "Exp", "log": "Log", "sin": "Sin", "cos": "Cos", "asin": "Asin", "acos": "Acos", "atan": "Atan",
    "tanh": "Tanh", "erf": "Erf", "sigmoid": "Sigmoid",
}  # fmt: skip
_ROUNDINGS = {"floor": "Floor", "ceil": "Ceil", "round": "Round"}


@writes(*_COMPARISONS)
def comparison(body: Body, call: Call, x: str, y: str) -> str:
    return body.test(_COMPARISONS[call.row], call.operands[0], x, y)


@writes("not_equal")
def not_equal(body: Body, call: Call, x: str, y: str) -> str:
    return body.node("Not", body.test("Equal", call.operands[0], x, y))


@writes(*_LOGIC)
def logic(body: Body, call: Call, *operands: str) -> str:
    return body.node(_LOGIC[call.row], *operands)


@writes(*_BITS)
def bits(body: Body, call: Call, *operands: str) -> str:
    return body.node(_BITS[call.row][call.result is bool_], *operands)


@writes("where")
def where(body: Body, call: Call, condition: str, x: str, y: str) -> str:
    return body.select(condition, x, y, call.result)


def _unsigned(body: Body, x: str, dtype: DType) -> str:
    """Return the bits of an integer in uint64, with zeros above them."""
    if dtype.kind == "int":
        x = body.cast(x, dtype, DTYPES[f"uint{dtype.bits}"])
        dtype = DTYPES[f"uint{dtype.bits}"]
    return body.cast(x, dtype, uint64)


@writes("shift_left", "shift_right")
def shift(body: Body, call: Call, x: str, amount: str) -> str:
    """Shift in uint64, by amounts inside the width; negative numbers go right as the complement of their complement."""
    dtype = call.result
    nothing, width = zero(body, int64), body.constant(dtype.bits, int64)
    by = body.cast(amount, dtype, int64)  # 2 ** 63 and more become negative, which is outside as well
    inside = body.node("And", body.node("GreaterOrEqual", by, nothing), body.node("Less", by, width))
    by = body.cast(body.node("Where", inside, by, nothing), int64, uint64)
    if call.row == "shift_left" or dtype.kind == "uint":
        direction = "LEFT" if call.row == "shift_left" else "RIGHT"
        moved = body.cast(body.node("BitShift", _unsigned(body, x, dtype), by, direction=direction), uint64, dtype)
        return body.select(inside, moved, zero(body, dtype), dtype)
    wide = body.cast(x, dtype, int64)
    is_negative = body.node("Less", wide, nothing)
    positive = body.node("Where", is_negative, body.node("BitwiseNot", wide), wide)
    moved = body.node("BitShift", body.cast(positive, int64, uint64), by, direction="RIGHT")
    moved = body.cast(moved, uint64, int64)
    moved = body.node("Where", is_negative, body.node("BitwiseNot", moved), moved)
    outside = body.node("Where", is_negative, body.constant(-1, int64), nothing)
    return body.cast(body.node("Where", inside, moved, outside), int64, dtype)


@writes("popcount")
def popcount(body: Body, call: Call, x: str) -> str:
    """Add neighbouring bits, then pairs, then half-bytes, in uint64; sums are those of int64."""
    if call.result is bool_:
        return body.node("Identity", x)
    value = _unsigned(body, x, call.result)

    def field(number: str, shift_: int, mask: int) -> str:
        if shift_:
            number = body.node("BitShift", number, body.constant(shift_, uint64), direction="RIGHT")
        return body.cast(body.node("BitwiseAnd", number, body.constant(mask, uint64)), uint64, int64)

    for width, mask in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F), (8, 0x00FF00FF00FF00FF),
                        (16, 0x0000FFFF0000FFFF), (32, 0x00000000FFFFFFFF)):  # fmt: skip
        value = body.cast(body.node("Add", field(value, 0, mask), field(value, width, mask)), int64, uint64)
    return body.cast(value, uint64, call.result)


@writes("contiguous")
def contiguous(body: Body, call: Call, x: str) -> str:
    return body.node("Identity", x)


@writes("multiply_add")
def multiply_add(body: Body, call: Call, x: str, y: str, total: str) -> str:
    """Round twice, where the op rounds once."""
    return body.op("Add", call.result, body.op("Mul", call.result, x, y), total)


@writes("negate")
def negate(body: Body, call: Call, x: str) -> str:
    if call.result.kind == "uint":
        return body.op("Sub", call.result, zero(body, call.result), x)
    return body.op("Neg", call.result, x)


@writes("abs")
def absolute(body: Body, call: Call, x: str) -> str:
    return body.node("Identity", x) if call.result.kind in ("bool", "uint") else body.op("Abs", call.result, x)


@writes("sign")
def sign(body: Body, call: Call, x: str) -> str:
    """Keep NaN and the signs of zeros, which ONNX's Sign leaves open."""
    if not call.result.is_float:
        return body.node("Identity", x) if call.result is bool_ else body.op("Sign", call.result, x)
    x, wide = body.carried("Less", x, call.result)
    nothing = zero(body, wide)
    lower = body.node("Where", body.node("Less", x, nothing), body.constant(-1.0, wide), x)
    value = body.node("Where", body.node("Greater", x, nothing), one(body, wide), lower)
    return body.returned("Less", value, wide, call.result)


@writes(*_FUNCTIONS)
def function(body: Body, call: Call, x: str) -> str:
    return body.op(_FUNCTIONS[call.row], call.result, x)


@writes("rsqrt")
def rsqrt(body: Body, call: Call, x: str) -> str:
    x, wide = body.carried("ReduceMean", x, call.result)
    return body.returned("ReduceMean", body.node("Reciprocal", body.node("Sqrt", x)), wide, call.result)


@writes("exp2")
def exp2(body: Body, call: Call, x: str) -> str:
    return body.op("Pow", call.result, body.constant(2.0, call.result), x)


@writes("log2")
def log2(body: Body, call: Call, x: str) -> str:
    return _quotient_of_logs(body, call, x, 2)


@writes("log10")
def log10(body: Body, call: Call, x: str) -> str:
    return _quotient_of_logs(body, call, x, 10)


def _quotient_of_logs(body: Body, call: Call, x: str, base: int) -> str:
    x, wide = body.carried("ReduceMean", x, call.result)
    value = body.node("Mul", body.node("Log", x), body.constant(1 / math.log(base), wide))
    return body.returned("ReduceMean", value, wide, call.result)


@writes("expm1")
def expm1(body: Body, call: Call, x: str) -> str:
    """Compute (u - 1) x / log(u) with u = exp(x): the error of u cancels (Kahan)."""
    x, wide = body.carried("ReduceMean", x, call.result)
    unit = one(body, wide)
    u = body.node("Exp", x)
    less = body.node("Sub", u, unit)
    exact = body.node("Div", body.node("Mul", less, x), body.node("Log", u))
    is_plain = body.node("Greater", body.node("Abs", x), unit)
    value = body.node("Where", is_plain, less, exact)
    return body.returned("ReduceMean", body.node("Where", body.node("Equal", u, unit), x, value), wide, call.result)


@writes("cbrt")
def cbrt(body: Body, call: Call, x: str) -> str:
    """Improve |x| to the power of 1/3 by a step of Newton's."""
    x, wide = body.carried("ReduceMean", x, call.result)
    third, size = body.constant(1 / 3, wide), body.node("Abs", x)
    guess = body.node("Pow", size, third)
    missed = body.node("Sub", guess, body.node("Div", size, body.node("Mul", guess, guess)))
    root = body.node("Mul", body.node("Sub", guess, body.node("Mul", missed, third)), body.node("Sign", x))
    above, below = (body.node(op, size, body.constant(limit, wide)) for op, limit in (("Greater", 0.0), ("Less", math.inf)))
    return body.returned("ReduceMean", body.node("Where", body.node("And", above, below), root, x), wide, call.result)


@writes("log1p")
def log1p(body: Body, call: Call, x: str) -> str:
    """Compute x log(u) / (u - 1) with u = 1 + x: the error of u cancels (Kahan)."""
    x, wide = body.carried("ReduceMean", x, call.result)
    unit = one(body, wide)
    u = body.node("Add", unit, x)
    logarithm = body.node("Log", u)
    exact = body.node("Div", body.node("Mul", logarithm, x), body.node("Sub", u, unit))
    value = body.node("Where", body.node("Greater", body.node("Abs", x), unit), logarithm, exact)
    return body.returned("ReduceMean", body.node("Where", body.node("Equal", u, unit), x, value), wide, call.result)


@writes(*_ROUNDINGS)
def rounding(body: Body, call: Call, x: str) -> str:
    return body.op(_ROUNDINGS[call.row], call.result, x) if call.result.is_float else body.node("Identity", x)


@writes("trunc")
def trunc(body: Body, call: Call, x: str) -> str:
    if not call.result.is_float:
        return body.node("Identity", x)
    x, wide = body.carried("Floor", x, call.result)
    is_negative = body.node("Less", x, zero(body, wide))
    value = body.node("Where", is_negative, body.node("Ceil", x), body.node("Floor", x))
    return body.returned("Floor", value, wide, call.result)


@writes("is_nan")
def is_nan(body: Body, call: Call, x: str) -> str:
    dtype = call.operands[0]
    if dtype.is_float:
        return body.test("IsNaN", dtype, x)
    return body.node("Not", body.test("Equal", dtype, x, x))


@writes("relu")
def relu(body: Body, call: Call, x: str) -> str:
    if call.result.kind in ("bool", "uint"):
        return body.node("Identity", x)
    if call.result is int64:
        return body.node("Max", x, zero(body, int64))
    return body.op("Relu", call.result, x)


@writes("cast")
def cast(body: Body, call: Call, x: str) -> str:
    source, target = call.operands[0], call.result
    if call.attrs["rounding"] != "nearest" and target.is_float and not _holds(target, source):
        raise Refused('ONNX rounds to nearest; it has no rounding="toward_zero"', "cast with rounding='nearest'")
    if source.names.onnx == target.names.onnx:
        body.is_own = True
        return body.node("Identity", x)
    if target.name == "float8_e8m0fnu":
        raise Refused("ONNX's rounding to powers of two is another one", "cast to another dtype")
    if source.is_float and target.is_integer:
        return _to_integer(body, x, source, target)
    if target is bool_ and source.is_float and source.bits <= 8:  # runtimes look at the bits, and -0.0 has one
        return body.cast(body.cast(x, source, float32), float32, bool_)
    if target.is_float and target.bits == 8:
        body.is_own = True
        return body.cast(x, source, target, saturate=int(call.attrs["saturate"]))
    return body.cast(x, source, target)


def _holds(target: DType, source: DType) -> bool:
    """Return whether a float dtype holds every value of another dtype, so that nothing is rounded."""
    if source.is_float:
        fits = target.exponent_bits >= source.exponent_bits and target.mantissa_bits >= source.mantissa_bits
        return fits and target.bits >= 16
    return source is bool_ or source.bits <= target.mantissa_bits + 1


def _to_integer(body: Body, x: str, source: DType, target: DType) -> str:
    """Saturate, and take NaN to 0, before the conversion, which ONNX leaves open outside the range."""
    x, wide = body.carried("Floor", x, source)
    if wide is DTYPES["float16"]:
        x, wide = body.cast(x, wide, DTYPES["float32"]), DTYPES["float32"]
    low = float(target.min_value)
    is_number = body.node("Equal", x, x)
    x = body.node("Where", is_number, x, zero(body, wide))
    limit = 2.0 ** (target.bits - (target.kind == "int"))  # one above the largest
    is_exact = target.bits <= wide.mantissa_bits + 1
    largest = float(target.max_value) if is_exact else limit * (1 - 2.0 ** -(wide.mantissa_bits + 1))
    inside = body.node("Min", body.node("Max", x, body.constant(low, wide)), body.constant(largest, wide))
    if target.bits < 32:
        return body.cast(body.cast(inside, wide, int32), int32, target)
    is_above = body.node("GreaterOrEqual", x, body.constant(limit, wide))
    return body.select(is_above, body.constant(int(target.max_value), target), body.cast(inside, wide, target), target)


never("ONNX has no operators on complex numbers", "compute with their parts outside of the graph", "real", "imag", "complex",
      "complex_parts", "fft_lines", "rfft_lines", "irfft_lines", "fft_pairs")
never(
    "it is a part of a composite, made by lowering", "export the graph as it was built",
    "exp_shifted", "exp_shifted_unchecked", "one_unless_below", "where_below", "x_phi", "x_sigmoid", "x_sigmoid_quick",
    "x_sigmoid_tanh", "div_approximate", "atan_ratio", "mul_bounded", "sum_of_four",
)  # fmt: skip
