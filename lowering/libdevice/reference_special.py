"""Computes special functions in Python's floats and NumPy, by other methods than those of the expansion."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from ...promotion.arrays import Array

_NORMAL = NormalDist()
_FRACTION_TERMS = 800
_BESSEL_POINTS = 320


def norm(*xs: float) -> float:
    return math.inf if any(map(math.isinf, xs)) else math.hypot(*xs)


def reciprocal_norm(*xs: float) -> float:
    if any(map(math.isinf, xs)):
        return 0.0
    largest = max(map(abs, xs)) if not any(map(math.isnan, xs)) else math.nan
    if largest > 2.0**1000:
        return 2.0**-10 / math.hypot(*[x * 2.0**-10 for x in xs])
    size = math.hypot(*xs)
    if math.isnan(size):
        return size
    return 1.0 / size if size >= 2.0**-1022 else (math.inf if size == 0 else 2.0**100 / math.hypot(*[x * 2.0**100 for x in xs]))


def _quarter(x: float) -> tuple[int, float]:
    """Returns x mod 2 as n quarters of a turn and pi times the rest, in [-pi/4, pi/4]."""
    rest = math.fmod(x, 2.0)
    n = round(rest * 2.0)
    return n % 4, (rest - n * 0.5) * math.pi


def sinpi(x: float) -> float:
    if not math.isfinite(x):
        return math.nan
    if x == math.floor(x):
        return math.copysign(0.0, x)
    n, angle = _quarter(x)
    return (math.sin(angle), math.cos(angle), -math.sin(angle), -math.cos(angle))[n]


def cospi(x: float) -> float:
    if not math.isfinite(x):
        return math.nan
    n, angle = _quarter(x)
    return (math.cos(angle), -math.sin(angle), -math.cos(angle), math.sin(angle))[n] + 0.0


def tgamma(x: float) -> float:
    if x == 0:
        return math.copysign(math.inf, x)
    if x == -math.inf or (x < 0 and x == math.floor(x)):
        return math.nan
    try:
        return math.gamma(x)
    except OverflowError:
        return math.copysign(math.inf, x) if abs(x) < 1 else math.inf


def erfcx(x: Array) -> Array:
    """Computes exp(x²) erfc(x): by its definition below 1/2, by Laplace's continued fraction from 1/2 on."""
    a = np.abs(x)
    far = np.maximum(a, 0.5)
    tail = np.zeros_like(far)
    for k in range(_FRACTION_TERMS, 0, -1):
        tail = (k / 2) / (far + tail)
    right = 1.0 / (math.sqrt(math.pi) * (far + tail))
    near = np.array([math.exp(v * v) * math.erfc(v) if abs(v) < 0.5 else 0.0 for v in x.tolist()])
    high = a * a
    split = a * 134217729.0
    top = split - (split - a)
    low = ((top * top - high) + 2 * top * (a - top)) + (a - top) * (a - top)
    power = np.exp(high)
    left = 2.0 * (power + np.where(np.isfinite(power), power * low, 0.0)) - right
    found = np.where(x < 0, np.where(a > 27, np.inf, left), right)
    return np.asarray(np.where(np.isnan(x), x, np.where(a < 0.5, near, found)))


def _normal_quantile(p: float, log_p: float) -> float:
    """Computes Φ⁻¹(p) for p <= 1/2: a Newton step after a rational approximation; for tiny p, Newton on log Φ."""
    if p >= 1e-280:
        x = _NORMAL.inv_cdf(p)
        density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        return x - (normcdf(x) - p) / density
    x = -math.sqrt(-2 * log_p)
    for _ in range(6):
        scaled = float(erfcx(np.array([-x / math.sqrt(2)]))[0])
        missed = math.log(scaled / 2) - x * x / 2 - log_p
        x -= missed / (2 / math.sqrt(2 * math.pi) / scaled)
    return x


def erfcinv(q: float) -> float:
    if not 0 <= q <= 2:
        return math.nan
    if q in (0, 2):
        return math.inf if q == 0 else -math.inf
    if 0.5 < q < 1.5:
        return erfinv(1 - q)
    side = min(q, 2 - q)
    return math.copysign(_normal_quantile(side / 2, math.log(side) - math.log(2)) / math.sqrt(2), 1 - q)


def erfinv(y: float) -> float:
    if not -1 <= y <= 1:
        return math.nan
    if abs(y) == 1:
        return math.copysign(math.inf, y)
    if abs(y) > 0.5:
        return math.copysign(erfcinv(1 - abs(y)), y)
    x = y * math.sqrt(math.pi) / 2
    for _ in range(60):
        step = (math.erf(x) - y) * math.sqrt(math.pi) / 2 * math.exp(x * x)
        x -= step
        if abs(step) <= abs(x) * 1e-17:
            break
    return x


def normcdfinv(p: float) -> float:
    if not 0 <= p <= 1:
        return math.nan
    if p in (0, 1):
        return -math.inf if p == 0 else math.inf
    if 0.25 < p < 0.75:
        return erfinv(2 * (p - 0.5)) * math.sqrt(2)
    side = min(p, 1 - p)
    return math.copysign(_normal_quantile(side, math.log(side)), p - 0.5)


def normcdf(x: float) -> float:
    """Computes erfc(-x / sqrt 2) / 2; the argument's rounding error is worth many ulp for large |x| and is added back."""
    if math.isnan(x) or math.isinf(x):
        return x if math.isnan(x) else float(x > 0)
    z = -x * math.sqrt(0.5)
    missed = float(-_exact(x) * _ROOT_HALF - _exact(z))
    return 0.5 * (math.erfc(z) - 2 / math.sqrt(math.pi) * math.exp(-z * z) * missed)


def _exact(x: float) -> Fraction:
    return Fraction(x)


_ROOT_HALF = _exact(math.isqrt(1 << 399)) / _exact(2.0**200)


def _angles() -> Array:
    return np.asarray(np.pi * (np.arange(_BESSEL_POINTS) + 0.5) / _BESSEL_POINTS)


def bessel_i0(x: Array) -> Array:
    """Computes I0: the mean of exp(x cos θ) over half a turn.

    The rectangle rule converges geometrically on periodic functions.
    """
    a = np.minimum(np.abs(x), 1000.0)[:, None]
    falling = np.exp(-2.0 * a * np.sin(_angles() / 2) ** 2).mean(axis=1)
    half = np.exp(np.minimum(np.abs(x), 1000.0) / 2)
    return np.asarray(np.where(np.isnan(x), x, half * falling * half))


def bessel_i1(x: Array) -> Array:
    """Computes I1: the mean of cos θ sinh(x cos θ)."""
    a = np.minimum(np.abs(x), 1000.0)[:, None]
    cosine = np.cos(_angles())
    small = (cosine * np.sinh(np.minimum(a, 1.0) * cosine)).mean(axis=1)
    falling = (cosine * np.exp(-2.0 * a * np.sin(_angles() / 2) ** 2)).mean(axis=1)
    half = np.exp(np.minimum(np.abs(x), 1000.0) / 2)
    found = np.where(np.abs(x) <= 1.0, small, half * falling * half)
    return np.asarray(np.where(np.isnan(x), x, np.copysign(found, x)))
