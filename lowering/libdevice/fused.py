"""Finds, for x · y + z on float64 with a direction, the sign of what the nearest result missed, exactly.

Product and sum are scaled by the exponents of x and y, where the product is two floats and nothing overflows or underflows;
what remains of product + z - result is distilled into parts that do not overlap (Rump, Ogita, Oishi): the first has its sign.
"""

from __future__ import annotations

import math

from ..tt.transforms.expression import Expr, copysign, where

FAR = 120
"""The distance of exponents from which on the smaller term only breaks ties."""


def _two_sum(x: Expr, y: Expr) -> tuple[Expr, Expr]:
    total = x + y
    shadow = total - x
    return total, (x - (total - shadow)) + (y - shadow)


def split(x: Expr) -> tuple[Expr, Expr]:
    """Splits a finite float64 into (m, e): x = m · 2^e with 1 <= |m| < 2; for zero, m is ±1 and e means nothing."""
    tiny = abs(x) < 2.0**-1022
    bits = (x * where(tiny, 2.0**54, x.like(1.0))).bits()
    exponent = (bits.lshr(52) & 0x7FF) - 1023
    mantissa = ((bits & ~(0x7FF << 52)) | (0x3FF << 52)).as_float()
    return mantissa, where(tiny, exponent - 54, exponent)


def _scaled(x: Expr, n: Expr) -> Expr:
    """Computes x · 2^n where x and the result are far from the ends of the range, or the intermediate steps are exact."""
    for _ in range(3):
        step = n.named("arith.maxsi", -1000).named("arith.minsi", 1000)
        x = x * (step + 1023).shl(52).as_float()
        n = n - step
    return x


def remainder_sign(x: Expr, y: Expr, z: Expr, r: Expr) -> Expr:
    """Returns a number with the sign of x · y + z - r, for finite operands and a finite r; 0 where r is exact."""
    mx, ex = split(x)
    my, ey = split(y)
    mz, ez = split(z)
    product = mx * my
    low = mx.fma(my, -product)
    distance = ez - ex - ey
    near = _scaled(mz, distance.named("arith.maxsi", -FAR).named("arith.minsi", FAR))
    addend = where(distance < -FAR, copysign(z.like(2.0**-150), z), near)
    addend = where(z.eq(0.0), 0.0, addend)
    result = _scaled(r, 0 - ex - ey)
    parts = [product, addend, -result, low]
    for _ in range(4):
        for index in range(3, 0, -1):
            parts[index - 1], parts[index] = _two_sum(parts[index - 1], parts[index])
    found = parts[3]
    for part in (parts[2], parts[1], parts[0]):
        found = where(part.ne(0.0), part, found)
    found = where((distance > FAR) & z.ne(0.0), product, found)  # r is z
    return where(x.eq(0.0) | y.eq(0.0) | (abs(r).eq(math.inf)), 0.0, found)
