"""Handles what looks at the bits of numbers or picks one of two: divisors, neighbours of floats, exponents, signs."""

from __future__ import annotations

import math
from typing import Any

from .....promotion.dtype import DType, float32, float64, int8, int16, int32, int64
from ....functions import reductions
from ....functions.building import apply
from ....functions.control.loops import while_loop
from ....functions.conversion import bitcast
from ....functions.pairs import copysign
from ....symbol import Symbol
from ...node import Node, Number
from ...registry import handles

_INTEGERS: dict[int, DType] = {8: int8, 16: int16, 32: int32, 64: int64}


@handles("fmax.default", "fmin.default")
def without_nan(node: Node, x: Symbol, other: Symbol) -> Symbol:
    """Return the larger or smaller of two numbers, or the one that is not NaN."""
    one, two = node.operands(x, other)
    found = apply("maximum" if node.kind == "fmax" else "minimum", one, two)
    if not one.dtype.is_float:
        return found
    return apply("where", apply("is_nan", one), two, apply("where", apply("is_nan", two), one, found))


@handles("signbit.default")
def signbit(node: Node, x: Symbol) -> Symbol:
    """Tell whether the sign of a number is set, of -0.0 and NaN as well."""
    if x.dtype.is_float:
        whole = _INTEGERS[x.dtype.bits]
        return apply("less", bitcast(x, whole), node.number(0, whole))
    if not x.dtype.is_signed:
        return node.broadcast(node.number(False, node.dtype))
    return apply("less", x, node.number(0, x.dtype))


@handles("copysign.Scalar")
def copysign_scalar(node: Node, x: Symbol, other: Number) -> Symbol:
    """Return magnitudes with the sign of a number."""
    return copysign(*node.operands(x, other, dtype=node.dtype))


@handles("gcd.default", "lcm.default")
def divisor(node: Node, x: Symbol, other: Symbol) -> Symbol:
    """Return the greatest common divisors, or the least common multiples, by Euclid's algorithm."""
    one, two = (node.broadcast(each) for each in node.operands(x, other))
    zero = node.number(0, node.dtype)

    def proceeds(state: Any) -> Symbol:
        return reductions.any_(apply("not_equal", state[1], zero), None)

    def step(state: Any) -> Any:
        larger, smaller = state
        is_done = apply("equal", smaller, zero)
        rest = apply("rem", larger, apply("where", is_done, node.number(1, node.dtype), smaller))
        return apply("where", is_done, larger, smaller), apply("where", is_done, zero, rest)

    found, _ = while_loop(proceeds, step, (one, two))
    found = apply("abs", found) if node.dtype.is_signed else found
    if node.kind == "gcd":
        return found
    safe = apply("maximum", found, node.number(1, node.dtype))
    product = apply("mul", apply("trunc_div", one, safe), two)
    return apply("abs", product) if node.dtype.is_signed else product


@handles("nextafter.default")
def nextafter(node: Node, x: Symbol, other: Symbol) -> Symbol:
    """Return the next float in the direction of another one."""
    start, towards = (node.broadcast(each) for each in node.operands(x, other))
    dtype = start.dtype
    whole = _INTEGERS[dtype.bits]
    bits = bitcast(start, whole)
    nothing, one = node.number(0, whole), node.number(1, whole)
    is_upwards = apply("less", start, towards)
    is_positive = apply("greater_equal", bits, nothing)
    grows = apply("equal", is_upwards, is_positive)
    moved = apply("where", grows, apply("add", bits, one), apply("sub", bits, one))
    smallest = apply("where", is_upwards, one, node.number(-(1 << (dtype.bits - 1)) + 1, whole))
    moved = apply("where", apply("equal", start, node.number(0.0, dtype)), smallest, moved)
    found = apply("where", apply("equal", start, towards), towards, bitcast(moved, dtype))
    is_nan = apply("logical_or", apply("is_nan", start), apply("is_nan", towards))
    return apply("where", is_nan, node.number(math.nan, dtype), found)


@handles("ldexp.Tensor")
def ldexp(node: Node, x: Symbol, other: Symbol) -> Symbol:
    """Multiply by powers of two."""
    dtype = node.dtype
    wide = float32 if dtype.bits == 16 else dtype
    return apply("mul", x.cast(wide), apply("exp2", other.cast(wide))).cast(dtype)


@handles("frexp.Tensor")
def frexp(node: Node, x: Symbol) -> tuple[Symbol, Symbol]:
    """Take floats apart: numbers of 0.5 to 1, and the exponents of 2 that they were multiplied by."""
    wide = x.cast(float64)
    is_small = apply("less", apply("abs", wide), node.number(2.0**-1022, float64))
    wide = apply("where", is_small, apply("mul", wide, node.number(2.0**64, float64)), wide)
    whole = bitcast(wide, int64)
    field = apply("bitwise_and", apply("shift_right", whole, node.number(52, int64)), node.number(0x7FF, int64))
    is_plain = apply("logical_and", apply("not_equal", x, node.number(0.0, x.dtype)),
                     apply("not_equal", field, node.number(0x7FF, int64)))  # fmt: skip
    half = apply("bitwise_or", apply("bitwise_and", whole, node.number(~(0x7FF << 52), int64)), node.number(1022 << 52, int64))
    mantissa = apply("where", is_plain, bitcast(half, float64), wide)
    bias = apply("where", is_small, node.number(1022 + 64, int64), node.number(1022, int64))
    exponent = apply("where", is_plain, apply("sub", field, bias), node.number(0, int64))
    return mantissa.cast(x.dtype), exponent.cast(int32)


@handles("dist.default")
def dist(node: Node, x: Symbol, other: Symbol, p: Number = 2) -> Symbol:
    """Return the norm of a difference."""
    one, two = node.operands(x, other)
    wide = float32 if one.dtype.bits == 16 else one.dtype
    difference = apply("sub", one.cast(wide), two.cast(wide))
    order = int(p) if math.isfinite(p) and p == int(p) else p
    return reductions.norm(difference, order, tuple(range(len(difference.shape))), False).cast(node.dtype)
