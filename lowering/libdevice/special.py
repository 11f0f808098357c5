"""Expands special functions on float64: error functions, their inverses, modified Bessel functions.

erfc, erfcx and the normal distribution come from one polynomial for erfcx; the inverses from a closed-form start (Winitzki)
and some steps of Halley's method, each of which triples the digits; the modified Bessel functions from their power and
asymptotic series.
"""

from __future__ import annotations

import math

from ..tt.transforms.expression import Expr, copysign, where
from .coefficients import BESSEL_ASYMPTOTIC, BESSEL_LIMIT, BESSEL_SERIES, ERFCX

TWO_OVER_SQRT_PI = 2.0 / math.sqrt(math.pi)
HALF_SQRT_PI = math.sqrt(math.pi) / 2.0
SQRT_HALF, SQRT_HALF_LOW = 0.7071067811865476, -4.833646656726457e-17
SQRT_TWO = math.sqrt(2.0)
WINITZKI = 0.147
EXP_40, EXP_8 = math.exp(40.0), math.exp(8.0)


def polynomial(x: Expr, coefficients: tuple[float, ...]) -> Expr:
    """Evaluates a polynomial by Horner's scheme, the highest power first."""
    total = x.like(coefficients[0])
    for coefficient in coefficients[1:]:
        total = total.fma(x, coefficient)
    return total


def _erfcx_positive(a: Expr) -> Expr:
    """Computes erfcx(a) for a >= 0 (NaN at infinity)."""
    below, above = a - 4.0, a + 4.0
    argument = below / above
    argument = argument + argument.fma(-above, below) / above
    return polynomial(argument, ERFCX) / a.fma(2.0, 1.0)


def _gauss(a: Expr, sign: float) -> Expr:
    """Computes exp(±a²), the square's rounding error included."""
    square = a * a
    low = a.fma(a, -square)
    power = (square * sign).named("math.exp")
    return where(abs(low) < 1.0, power.fma(low * sign, power), power)


def erfcx(x: Expr) -> Expr:
    a = abs(x)
    power = _gauss(a, 1.0)
    right = where(a.eq(math.inf), 0.0, _erfcx_positive(a))
    left = where(a > 27.0, math.inf, 2.0 * power - right)
    return where(a < 0.5, power * (1.0 - x.named("math.erf")), where(x < 0.0, left, right))


def _erfc(x: Expr, correction: Expr | None = None) -> Expr:
    """Computes erfc(x + correction) for a correction far below an ulp of x."""
    a = abs(x)
    scaled = _erfcx_positive(a)
    if correction is not None:
        scaled = scaled - where(x > 0.0, correction, -correction) * TWO_OVER_SQRT_PI
    tail = where(a > 28.0, 0.0, _gauss(a, -1.0) * scaled)
    middle = 1.0 - x.named("math.erf")
    return where(a < 0.5, middle, where(x < 0.0, 2.0 - tail, where(x.is_nan(), x, tail)))


def erfc(x: Expr) -> Expr:
    return _erfc(x)


def normcdf(x: Expr) -> Expr:
    z = x * -SQRT_HALF
    low = x.fma(-SQRT_HALF, -z) + x * -SQRT_HALF_LOW
    return 0.5 * _erfc(z, where(abs(low) < 1.0, low, 0.0))


def _start(remaining: Expr) -> Expr:
    """Computes Winitzki's approximation of erfinv(y), given log(1 - y²)."""
    half = remaining * 0.5 + 2.0 / (math.pi * WINITZKI)
    inner = (half * half - remaining * (1.0 / WINITZKI)).named("math.sqrt")
    return (inner - half).named("math.sqrt")


def _central(y: Expr) -> Expr:
    """Computes erfinv(y) for |y| <= 3/4."""
    a = abs(y)
    square = a * a
    series = polynomial(square, (127 * math.pi**3 / 40320, 7 * math.pi**2 / 480, math.pi / 12, 1.0)) * a * HALF_SQRT_PI
    x = where(a < 0.25, series, _start((-square).named("math.log1p")))
    for _ in range(2):
        missed = (a - x.named("math.erf")) * HALF_SQRT_PI * (x * x).named("math.exp")
        x = x + missed / (1.0 - missed * x)
    return copysign(where(a < 1e-150, a * HALF_SQRT_PI, x), y)


def _tail(q: Expr) -> Expr:
    """Computes erfcinv(q) for 0 < q <= 1/4."""
    x = _start((q * (2.0 - q)).named("math.log"))
    scaled = _erfcx_positive(x)  # one Newton step on the logarithm: the start is far off for the smallest q
    x = x + (scaled.named("math.log") - x * x - q.named("math.log")) * HALF_SQRT_PI * scaled
    far = x > 25.0  # exp(x²) overflows where q is denormal
    offset, scaled = where(far, 40.0, x.like(0.0)), q * where(far, EXP_40, x.like(1.0))
    for _ in range(2):
        missed = (_erfcx_positive(x) - scaled * (x * x - offset).named("math.exp")) * HALF_SQRT_PI
        x = x + missed / (1.0 - missed * x)
    return x


def erfinv(y: Expr) -> Expr:
    a = abs(y)
    tail = _tail(where(a < 0.75, 0.25, 1.0 - a))
    found = where(a < 0.75, _central(where(a < 0.75, y, 0.0)), copysign(tail, y))
    found = where(a.eq(1.0), copysign(y.like(math.inf), y), found)
    return where(a <= 1.0, found, math.nan)


def erfcinv(q: Expr) -> Expr:
    upper = q > 1.0
    side = where(upper, 2.0 - q, q)
    middle = side > 0.25
    tail = _tail(where(middle, 0.25, side))
    found = where(middle, _central(where(middle, 1.0 - q, 0.0)), where(upper, -tail, tail))
    found = where(q.eq(0.0), math.inf, where(q.eq(2.0), -math.inf, found))
    return where((q >= 0.0) & (q <= 2.0), found, math.nan)


def normcdfinv(p: Expr) -> Expr:
    return 0.0 - erfcinv(2.0 * p) * SQRT_TWO


def _bessel(x: Expr, order: int) -> Expr:
    """Computes the modified Bessel function of the first kind for x >= 0, of order 0 or 1."""
    small = where(x < BESSEL_LIMIT, x, 0.0)
    square = small * small
    series = polynomial(square * 0.25, BESSEL_SERIES[order])
    # The rounding error of the square counts up to x / 2 times; the ratio of neighbouring orders approximates the slope.
    slope = 0.5 / ((square + (order + 1.5) ** 2).named("math.sqrt") + (order + 0.5))
    series = series.fma(small.fma(small, -square) * slope, series)
    if order:
        series = series * (small * 0.5)
    large = where(x < BESSEL_LIMIT, BESSEL_LIMIT, x)
    asymptotic = polynomial(1.0 / large, BESSEL_ASYMPTOTIC[order]) / (large * (2.0 * math.pi)).named("math.sqrt")
    power = (large - 8.0).named("math.exp")
    found = where(x < BESSEL_LIMIT, series, power * asymptotic * EXP_8)
    return where(x > 720.0, math.inf, where(x.is_nan(), x, found))


def bessel_i0(x: Expr) -> Expr:
    return _bessel(abs(x), 0)


def bessel_i1(x: Expr) -> Expr:
    return copysign(_bessel(abs(x), 1), x)
