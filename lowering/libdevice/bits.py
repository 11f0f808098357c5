"""Expands the functions of libdevice that are exact: integers, bit patterns, classification and the parts of floats."""

from __future__ import annotations

import functools
import math
from operator import or_

from ..tt import types as t
from ..tt.transforms.expression import Expr, copysign, extreme, where

INF = math.inf
INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1


def round_away(x: Expr) -> Expr:
    """Rounds to the nearest integer, halves away from zero.

    It adds the largest number below a half: adding the half itself may round up.
    """
    below_half = 0.5 - 2.0 ** (-25 if x.width == 32 else -54)
    whole = (abs(x) + below_half).named("math.trunc")
    return copysign(whole, x)


def _exponent(x: Expr) -> Expr:
    """Returns floor(log2 |x|) of a finite float64 that is not zero, as i64."""
    tiny = abs(x) < 2.0**-1022
    bits = (x * where(tiny, 2.0**54, x.like(1.0))).bits()
    exponent = (bits.lshr(52) & 0x7FF) - 1023
    return where(tiny, exponent - 54, exponent)


def logb(x: Expr) -> Expr:
    found = _exponent(x).cast("arith.sitofp", t.F64)
    found = where(x.eq(0.0), -INF, where(abs(x).eq(INF), INF, found))
    return where(x.is_nan(), x, found)


def ilogb(x: Expr) -> Expr:
    found = _exponent(x).cast("arith.trunci", t.I32)
    return where(x.eq(0.0) | x.is_nan(), INT_MIN, where(abs(x).eq(INF), INT_MAX, found))


def _power_of_two(n: Expr) -> Expr:
    """Returns 2^n as float64, for i64 n in the range of normal numbers."""
    return (n + 1023).shl(52).as_float()


def _clamped(n: Expr, low: int, high: int) -> Expr:
    return n.named("arith.maxsi", low).named("arith.minsi", high)


def ldexp(x: Expr, n: Expr) -> Expr:
    """Computes x · 2^n, rounded once: float32 through float64, float64 in up to three steps of which one rounds."""
    n = n.cast("arith.extsi", t.I64)
    if x.width == 32:
        return (x.to_float(t.F64) * _power_of_two(_clamped(n, -400, 400))).to_float(t.F32)
    n = _clamped(n, -2200, 2200)
    for _ in range(2):
        up, down = n > 1023, n < -1022
        x = where(up, x * 2.0**1023, where(down, x * 2.0**-969, x))  # -1022 + 53: no rounding before the last step
        n = where(up, n - 1023, where(down, n + 969, n))
    return x * _power_of_two(_clamped(n, -1022, 1023))


def nextafter(x: Expr, y: Expr) -> Expr:
    bits = x.bits()
    smallest = (y.bits() & -(1 << (x.width - 1))) | 1
    outward = (x < y) ^ (x < 0.0)
    stepped = where(x.eq(0.0), smallest, where(outward, bits + 1, bits - 1)).as_float()
    return where(x.is_nan() | y.is_nan(), math.nan, where(x.eq(y), y, stepped))


def remainder(x: Expr, y: Expr) -> Expr:
    """Computes x - n y for the integer n nearest to x / y, halves to even."""
    divisor = abs(y)
    small = divisor < 2.0 ** (-124 if x.width == 32 else -1020)
    huge = divisor > 2.0 ** (126 if x.width == 32 else 1022)
    doubled = where(huge, divisor, divisor + divisor)
    rest = abs(x).named("arith.remf", doubled)
    rest = where(huge, abs(x), rest)
    above = where(small, rest + rest > divisor, rest > 0.5 * divisor)
    rest = where(above, rest - divisor, rest)
    again = above & where(small, rest + rest >= divisor, rest >= 0.5 * divisor)
    rest = where(again, rest - divisor, rest)
    signed = (rest.bits() ^ (x.bits() & -(1 << (x.width - 1)))).as_float()
    legal = (abs(x) < INF) & divisor.ne(0.0) & ~y.is_nan()
    return where(legal, where(divisor.eq(INF), x, signed), math.nan)


def fdim(x: Expr, y: Expr) -> Expr:
    return where(x.is_nan() | y.is_nan(), math.nan, where(x > y, x - y, 0.0))


def fmax(x: Expr, y: Expr) -> Expr:
    return extreme(x, y, True)


def fmin(x: Expr, y: Expr) -> Expr:
    return extreme(x, y, False)


def truth(condition: Expr) -> Expr:
    return condition.cast("arith.extui", t.I32)


def find_first_set(x: Expr) -> Expr:
    """Returns 1 + the position of the lowest set bit, as i32; 0 for none."""
    return as_int(where(x.eq(0), 0, x.named("math.cttz") + 1))


def as_int(x: Expr) -> Expr:
    return x.cast("arith.trunci", t.I32) if x.width == 64 else x


def multiply_24(x: Expr, y: Expr, signed: bool) -> Expr:
    if signed:
        return x.shl(8).ashr(8) * y.shl(8).ashr(8)
    return (x & 0xFFFFFF) * (y & 0xFFFFFF)


def average(x: Expr, y: Expr, signed: bool, up: bool) -> Expr:
    """Computes (x + y) / 2 downward, or (x + y + 1) / 2 with `up`, without overflow."""
    half = x ^ y
    half = half.ashr(1) if signed else half.lshr(1)
    return (x | y) - half if up else (x & y) + half


def absolute_difference(x: Expr, y: Expr, signed: bool) -> Expr:
    return where(x.test("sgt" if signed else "ugt", y), x - y, y - x)


def permute_bytes(x: Expr, y: Expr, selector: Expr) -> Expr:
    """Selects bytes: byte i of the result is byte selector[4i … 4i + 2] of the eight bytes of y above x."""
    pair = x.cast("arith.extui", t.I64) | y.cast("arith.extui", t.I64).shl(32)
    wide = selector.cast("arith.extui", t.I64)
    chosen = ((pair.lshr((wide.lshr(4 * index) & 7).shl(3)) & 0xFF).shl(8 * index) for index in range(4))
    return functools.reduce(or_, chosen).cast("arith.trunci", t.I32)
