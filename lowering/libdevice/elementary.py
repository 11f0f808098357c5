"""Expands elementary functions that the block IR has no operation for, on float64 and within about 2 ulp."""

from __future__ import annotations

import math

from ..tt import types as t
from ..tt.transforms.expression import Expr, copysign, where

INF = math.inf
LN2 = math.log(2.0)
LARGE = 2.0**28
LOG2_10, LOG2_10_LOW = 3.321928094887362, 1.661617516973592e-16
PI_HIGH, PI_LOW = math.pi, 1.2246467991473532e-16


def sinh(x: Expr) -> Expr:
    a = abs(x)
    e = a.named("math.expm1")
    half = (a * 0.5).named("math.exp")
    found = where(a < 22.0, 0.5 * (e + e / (e + 1.0)), (0.5 * half) * half)
    return copysign(found, x)


def cosh(x: Expr) -> Expr:
    a = abs(x)
    e = a.named("math.exp")
    half = (a * 0.5).named("math.exp")
    return where(a < 22.0, 0.5 * e + 0.5 / e, (0.5 * half) * half)


def asinh(x: Expr) -> Expr:
    a = abs(x)
    small = (a + a * a / (1.0 + (a * a + 1.0).named("math.sqrt"))).named("math.log1p")
    return copysign(where(a > LARGE, a.named("math.log") + LN2, small), x)


def acosh(x: Expr) -> Expr:
    r = x - 1.0
    small = (r + (2.0 * r + r * r).named("math.sqrt")).named("math.log1p")
    found = where(x > LARGE, x.named("math.log") + LN2, small)
    return where(x < 1.0, math.nan, found)


def atanh(x: Expr) -> Expr:
    a = abs(x)
    return copysign(0.5 * (2.0 * a / (1.0 - a)).named("math.log1p"), x)


def atan2(y: Expr, x: Expr) -> Expr:
    """Computes the angle of (x, y) in radians; zeros and infinities keep their quadrant."""
    a, b = abs(x), abs(y)
    steep = b > a
    large, small = where(steep, b, a), where(steep, a, b)
    ratio = where(large.eq(small) & large.ne(0.0), 1.0, where(large.eq(0.0), 0.0, small / large))
    angle = ratio.named("math.atan")
    angle = where(steep, (PI_HIGH / 2 - angle) + PI_LOW / 2, angle)
    angle = where(x.is_negative(), (PI_HIGH - angle) + PI_LOW, angle)
    return where(x.is_nan() | y.is_nan(), math.nan, copysign(angle, y))


def exp10(x: Expr) -> Expr:
    high = x * LOG2_10
    low = x.fma(LOG2_10, -high) + x * LOG2_10_LOW
    power = high.named("math.exp2")
    return where(abs(x) < 400.0, power.fma(low * LN2, power), power)


_SEED = {32: 0x549BA532, 64: 0x553E1F50E5F69400}
"""4/3 of the exponent's bias and less, in units of the last place. The bits of x^(-1/3) are about this less a third of x's."""
_STEP = (1.60845827, -0.88780375, 0.2794061)
"""A step of third order from such a seed, with coefficients of least error: 2^-14.8."""
_TINY = {32: (2.0**-100, 2.0**48, 2.0**-16), 64: (2.0**-900, 2.0**216, 2.0**-72)}
"""Numbers below which residuals of cubes could be denormal; what those are multiplied by; the cube root of its reciprocal."""


def cbrt(x: Expr) -> Expr:
    """Computes the cube root of float32 or float64, within 1 ulp, without divisions.

    A seed of x^(-1/3) from the bits of x (as Lomont's of x^(-1/2)), one step of third order for float32 and two for float64,
    and a step of Newton's for the root itself, whose residual is that of the cube.
    """
    least, up, down = _TINY[x.width]
    size = abs(x)
    tiny = size < least
    a = size * where(tiny, up, x.like(1.0))
    bits = a.bits()
    third = bits.lshr(2) + bits.lshr(4)  # 1/4 (1 + 1/4) (1 + 1/16) … is 1/3
    for shift in (4, 8, 16)[: 2 if x.width == 32 else 3]:
        third = third + third.lshr(shift)
    r = (bits.like(_SEED[x.width]) - third).as_float()
    c = a * (r * r) * r
    r = r * c.fma(c.fma(_STEP[2], _STEP[1]), _STEP[0])
    if x.width == 64:
        rest = 1.0 - a * (r * r) * r
        r = (r * rest).fma(rest.fma(2.0 / 9.0, 1.0 / 3.0), r)
    square = r * r
    root = a * square
    root = (-(root * root)).fma(root, a).fma(square * (1.0 / 3.0), root) * where(tiny, down, x.like(1.0))
    return where(size < INF, copysign(root, x), x)


def rcbrt(x: Expr) -> Expr:
    return 1.0 / cbrt(x)


def norm(xs: list[Expr], reciprocal: bool) -> Expr:
    """Computes sqrt(Σ x²) or its reciprocal, scaled so that no square overflows or vanishes; infinite (0) when any x is."""
    sizes = [abs(x) for x in xs]
    largest = sizes[0]
    for size in sizes[1:]:
        largest = where(largest > size, largest, size)
    scale = where(largest > 2.0**500, 2.0**-600, where(largest < 2.0**-400, 2.0**600, largest.like(1.0)))
    def squared(size: Expr) -> tuple[Expr, Expr]:
        """Returns the square of a scaled size as a sum of two numbers."""
        size = size * scale
        square = size * size
        return square, size.fma(size, -square)

    total, low = squared(sizes[0])
    for size in sizes[1:]:
        square, error = squared(size)
        new = total + square
        shadow = new - total
        low = low + error + ((total - (new - shadow)) + (square - shadow))
        total = new
    root = where(total < INF, total + low, total).named("math.sqrt")
    infinite = sizes[0].eq(INF)
    for size in sizes[1:]:
        infinite = infinite | size.eq(INF)
    if reciprocal:
        return where(infinite, 0.0, scale / root)
    return where(infinite, INF, root / scale)


def _reduce_angle(x: Expr) -> tuple[Expr, Expr, Expr]:
    """Splits x = 2k + n/2 + r with |r| <= 1/4; returns sin(pi r), cos(pi r), and n mod 4 as i64."""
    whole = 2.0 * (x * 0.5).named("math.roundeven")
    rest = where(abs(x) < 2.0**53, x - whole, 0.0)  # in [-1, 1]; larger numbers are even
    quarter = (rest * 2.0).named("math.roundeven")
    r = rest - quarter * 0.5
    angle = r * PI_HIGH
    low = r.fma(PI_HIGH, -angle) + r * PI_LOW
    sine, cosine = angle.named("math.sin"), angle.named("math.cos")
    n = quarter.cast("arith.fptosi", t.I64) & 3
    return low.fma(cosine, sine), (-low).fma(sine, cosine), n


def sinpi(x: Expr) -> Expr:
    sine, cosine, n = _reduce_angle(x)
    found = where((n & 1).eq(1), cosine, sine)
    found = where((n & 2).eq(2), -found, found)
    whole = x.named("math.trunc").eq(x)
    found = where(whole, copysign(x.like(0.0), x), found)  # for integers: a zero of their sign
    return where(abs(x) < INF, found, math.nan)


def cospi(x: Expr) -> Expr:
    sine, cosine, n = _reduce_angle(x)
    found = where((n & 1).eq(1), sine, cosine)
    found = where(((n + 1) & 2).eq(2), -found, found)
    found = where(found.eq(0.0), 0.0, found)
    return where(abs(x) < INF, found, math.nan)
