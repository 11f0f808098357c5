"""Writes arithmetic that wraps, is total, and follows joinery's rules for signs and zeros."""

from __future__ import annotations

import numpy as np

from .....promotion.dtype import DType, bool_, int64, uint64
from ..body import Body, Subgraph
from ..registry import Call, writes

_LOGIC = {"add": "Or", "maximum": "Or", "mul": "And", "minimum": "And"}
_PAIRS = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "maximum": "Max", "minimum": "Min"}


@writes(*_PAIRS)
def pair(body: Body, call: Call, x: str, y: str) -> str:
    if call.result is bool_:
        return body.node(_LOGIC[call.row], x, y)
    return body.op(_PAIRS[call.row], call.result, x, y)


def zero(body: Body, dtype: DType) -> str:
    return body.constant(False if dtype is bool_ else 0, dtype)


def one(body: Body, dtype: DType) -> str:
    return body.constant(1, dtype)


class Division:
    """The quotient and remainder of integers towards zero, for divisors that cannot trap, in the dtype of the work.

    Attributes:
        x, y: the operands in `dtype`; 64 bits without a sign are worked on as bits of int64.
        quotient, remainder: of x by a divisor that is 1 in place of 0 and, where -x may overflow, of -1.
        is_zero: where y is 0.
    """

    def __init__(self, body: Body, call: Call, x: str, y: str) -> None:
        self.body, self.source = body, call.result
        self.is_wide = call.result.kind == "uint" and call.result.bits == 64
        (self.x, self.dtype), (self.y, _) = body.carried("Div", x, call.result), body.carried("Div", y, call.result)
        nothing, unit = zero(body, self.dtype), one(body, self.dtype)
        self.is_zero = body.node("Equal", self.y, nothing)
        self.is_minus = ""
        trapping = self.is_zero
        if call.result.kind == "int" and self.dtype is call.result:
            self.is_minus = body.node("Equal", self.y, body.constant(-1, self.dtype))
            trapping = body.node("Or", self.is_zero, self.is_minus)
        self.divisor = body.node("Where", trapping, unit, self.y)
        if self.is_wide:
            self.quotient = self._unsigned(x, y)
        else:
            self.quotient = body.node("Div", self.x, self.divisor)
        self.remainder = body.node("Sub", self.x, body.node("Mul", self.quotient, self.divisor))

    def _unsigned(self, x: str, y: str) -> str:
        """Divide 64-bit numbers by way of the half of x, which has no sign bit; divisors with one go in once or not at all."""
        body = self.body
        nothing, unit = zero(body, int64), one(body, int64)
        is_large = body.node("Less", self.divisor, nothing)
        positive = body.node("Where", is_large, unit, self.divisor)
        half = body.cast(body.node("BitShift", x, body.constant(1, uint64), direction="RIGHT"), uint64, int64)
        below = body.node("Mul", body.node("Div", half, positive), body.constant(2, int64))
        rest = body.cast(body.node("Sub", self.x, body.node("Mul", below, positive)), int64, uint64)
        again = body.test("GreaterOrEqual", uint64, rest, body.cast(positive, int64, uint64))
        quotient = body.node("Add", below, body.cast(again, bool_, int64))
        once = body.cast(body.test("GreaterOrEqual", uint64, x, y), bool_, int64)
        return body.node("Where", is_large, once, quotient)

    def is_below(self) -> str:
        """Return where the quotient towards zero is one above the floor: a remainder is left, and the signs differ."""
        body, nothing = self.body, zero(self.body, self.dtype)
        left = body.node("Not", body.node("Equal", self.remainder, nothing))
        signs = body.node("Xor", body.node("Less", self.remainder, nothing), body.node("Less", self.divisor, nothing))
        return body.node("And", left, signs)

    def finished(self, value: str, for_zero: str, for_minus: str = "") -> str:
        """Return a result in the operands' dtype, with the values for divisors 0 and -1."""
        body = self.body
        if self.is_minus and for_minus:
            value = body.node("Where", self.is_minus, for_minus, value)
        return body.cast(body.node("Where", self.is_zero, for_zero, value), self.dtype, self.source)

    def negated(self) -> str:
        return self.body.node("Sub", zero(self.body, self.dtype), self.x) if self.is_minus else ""


@writes("trunc_div", "floor_div")
def quotient(body: Body, call: Call, x: str, y: str) -> str:
    if call.result.is_float:
        return _float_quotient(body, call, x, y)
    division = Division(body, call, x, y)
    value = division.quotient
    if call.row == "floor_div" and call.result.kind == "int":
        value = body.node("Sub", value, body.cast(division.is_below(), bool_, division.dtype))
    return division.finished(value, zero(body, division.dtype), division.negated())


@writes("rem", "mod")
def remainder(body: Body, call: Call, x: str, y: str) -> str:
    if call.result.is_float:
        return _float_remainder(body, call, x, y)
    division = Division(body, call, x, y)
    value = division.remainder
    if call.row == "mod" and call.result.kind == "int":
        up = body.node("Where", division.is_below(), division.divisor, zero(body, division.dtype))
        value = body.node("Add", value, up)
    return division.finished(value, division.x)


def _float_remainder(body: Body, call: Call, x: str, y: str) -> str:
    if call.row == "rem":
        return body.op("Mod", call.result, x, y, fmod=1)
    (x, wide), (y, _) = body.carried("Add", x, call.result), body.carried("Add", y, call.result)
    return body.returned("Add", _signed_remainder(body, wide, body.node("Mod", x, y, fmod=1), y), wide, call.result)


def _opposed(body: Body, dtype: DType, rest: str, y: str) -> str:
    """Return where a remainder is not 0 and its sign is not the divisor's."""
    nothing = zero(body, dtype)
    signs = body.node("Xor", body.node("Less", rest, nothing), body.node("Less", y, nothing))
    return body.node("And", body.node("Not", body.node("Equal", rest, nothing)), signs)


def _signed_remainder(body: Body, dtype: DType, rest: str, y: str) -> str:
    """Return C's remainder with the sign of the divisor, zeros included."""
    nothing = zero(body, dtype)
    moved = body.node("Where", _opposed(body, dtype, rest, y), body.node("Add", rest, y), rest)
    signed = body.node("Where", body.node("Less", y, nothing), body.constant(-0.0, dtype), nothing)
    return body.node("Where", body.node("Equal", rest, nothing), signed, moved)


def _float_quotient(body: Body, call: Call, x: str, y: str) -> str:
    """Compute (x - remainder) / y, rounded to the nearest integer; x / y where that is infinite or NaN, or y is 0."""
    (x, dtype), (y, _) = body.carried("Add", x, call.result), body.carried("Add", y, call.result)
    nothing = zero(body, dtype)
    rest = body.node("Mod", x, y, fmod=1)
    plain = body.node("Div", x, y)
    value = body.node("Div", body.node("Sub", x, rest), y)
    if call.row == "floor_div":
        value = body.node("Sub", value, body.cast(_opposed(body, dtype, rest, y), bool_, dtype))
        down = body.node("Floor", value)
        is_near = body.node("Greater", body.node("Sub", value, down), body.constant(0.5, dtype))
        whole = body.node("Add", down, body.cast(is_near, bool_, dtype))
        open_ = body.node("Equal", y, nothing)
    else:
        whole = body.node("Round", value)
        infinite = body.node("Equal", body.node("Abs", x), body.constant(float("inf"), dtype))
        open_ = body.node("Or", body.node("Equal", y, nothing), infinite)
    signed = body.node("Mul", plain, nothing)  # a zero with the quotient's sign
    whole = body.node("Where", body.node("Equal", value if call.row == "floor_div" else whole, nothing), signed, whole)
    return body.returned("Add", body.node("Where", open_, plain, whole), dtype, call.result)


@writes("pow")
def power(body: Body, call: Call, x: str, y: str) -> str:
    if call.result.is_float:
        return body.op("Pow", call.result, x, y)
    dtype = call.result
    bits = dtype.bits - (dtype.kind == "int")
    base, exponent = body.cast(x, dtype, int64), body.cast(y, dtype, int64)
    nothing, unit = zero(body, int64), one(body, int64)
    both = body.node("Add", base, exponent)
    blank = body.node("Sub", both, both)  # zeros of the broadcast shape
    base, exponent = body.node("Add", base, blank), body.node("Add", exponent, blank)
    left = exponent
    if dtype.kind == "int":
        left = body.node("Where", body.node("Less", exponent, nothing), nothing, exponent)
    left = body.cast(left, int64, uint64)
    trips = body.constant(np.array(bits, np.int64), int64)
    result = body.loop(trips, _squarings(body), body.node("Add", blank, unit), base, left)
    if dtype.kind == "int":
        odd = body.node("BitwiseAnd", exponent, unit)
        sign = body.node("Sub", unit, body.node("Add", odd, odd))
        negative_one = body.node("Where", body.node("Equal", base, body.constant(-1, int64)), sign, nothing)
        unit_power = body.node("Where", body.node("Equal", base, unit), unit, negative_one)
        result = body.node("Where", body.node("Less", exponent, nothing), unit_power, result)
    return body.cast(result, int64, dtype)


def _squarings(outer: Body) -> Subgraph:
    """Return a loop's body that multiplies by the base where the lowest bit left is set, squares it, and drops the bit."""
    trip, go, power_, square, left = [outer.name(name) for name in ("trip", "go_on", "power_in", "square_in", "left_in")]
    body = Body(outer=outer)
    unit = body.constant(1, uint64)
    is_set = body.cast(body.node("BitwiseAnd", left, unit), uint64, bool_)
    again = body.node("Where", is_set, body.node("Mul", power_, square), power_)
    squared = body.node("Mul", square, square)
    rest = body.node("BitShift", left, unit, direction="RIGHT")
    nonzero = body.cast(body.cast(rest, uint64, bool_), bool_, int64)
    some = body.node("Greater", body.node("ReduceSum", nonzero, keepdims=0), body.constant(0, int64))
    return Subgraph(
        "squarings", body,
        ((trip, int64, ()), (go, bool_, ()), (power_, int64, None), (square, int64, None), (left, uint64, None)),
        ((some, bool_, ()), (again, int64, None), (squared, int64, None), (rest, uint64, None)),
    )  # fmt: skip
