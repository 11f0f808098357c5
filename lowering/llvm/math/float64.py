"""Elementary functions of float64 lanes, within 2 ulp, specials and denormals as in IEEE 754.

Polynomials after argument reduction, with two-double intermediate results where one double is not enough
(pow, log2, large angles).
"""

from __future__ import annotations

import math

from ..values import V
from . import avx512, avx512_float64, pieces
from .angle_reduction import choose_rare, large_angle_f64
from .float32 import pow_sign_and_domain
from .lanes import Lanes
from .recipes import recipe
from .tables import polynomials as table

# Adding 1.5 * 2^52 rounds a double to an integer and leaves that integer in the low bits of the sum.
ROUNDER = 1.5 * 2.0**52
LARGE = 2.0**30
"""The magnitude of an angle up to which subtracting multiples of three doubles reduces it."""
INFINITY = math.inf
NAN = math.nan


def _exp_reduce(lane: Lanes, x: V, offset: float) -> tuple[V, V]:
    shifted = lane.fma(x, table.LOG2E_64[0], ROUNDER + offset)
    k = lane.sub(shifted, ROUNDER + offset)
    r = lane.fma(k, -table.LN2_64[0], x)  # exact
    return lane.bits(shifted), lane.fma(k, -table.LN2_64[1], r)


def _scale(lane: Lanes, p: V, biased: V) -> V:
    """Computes p * 2^k for k in [-1080, 1026]; the low bits of `biased` are k + 2046."""
    half = lane.iop("lshr", biased, 1)
    rest = lane.iop("sub", biased, half)
    p = lane.mul(p, lane.float_of(lane.iop("shl", half, 52)))
    return lane.mul(p, lane.float_of(lane.iop("shl", rest, 52)))


@recipe("exp", "double")
def exp(lane: Lanes, x: V) -> V:
    return _exp_downwards(lane, lane.capped(x, 710.0))


def _exp_downwards(lane: Lanes, x: V) -> V:
    """Computes exp where it is finite."""

    if avx512.serves(lane):
        return avx512.by_register(lane, avx512_float64.exp, x)

    def power(x: V) -> V:
        biased, r = _exp_reduce(lane, x, 2046.0)
        return _scale(lane, lane.poly(r, table.EXP_64), biased)

    return lane.from_limit(x, -746.0, power)


def _exp_normal(lane: Lanes, x: V) -> V:
    """Computes exp where the result is normal; NaN stays."""
    if avx512.serves(lane):
        return avx512.by_register(lane, avx512_float64.exp_normal, x)
    biased, r = _exp_reduce(lane, x, 1023.0)
    return lane.mul(lane.poly(r, table.EXP_64), lane.float_of(lane.iop("shl", biased, 52)))


@recipe("exp2", "double")
def exp2(lane: Lanes, x: V) -> V:
    x = lane.capped(x, 1025.0)
    if avx512.serves(lane):
        return avx512.by_register(lane, avx512_float64.exp2, x)

    def power(x: V) -> V:
        shifted = lane.add(x, ROUNDER + 2046.0)
        r = lane.sub(x, lane.sub(shifted, ROUNDER + 2046.0))
        return _scale(lane, lane.poly(r, table.EXP2_64), lane.bits(shifted))

    return lane.from_limit(x, -1075.0, power)


@recipe("expm1", "double")
def expm1(lane: Lanes, x: V) -> V:
    clamped = lane.at_least(lane.at_most(x, 710.0), -45.0)
    biased, r = _exp_reduce(lane, clamped, 1022.0)
    p = lane.fma(lane.mul(r, r), lane.poly(r, table.EXPM1_64), r)
    power = lane.float_of(lane.iop("shl", biased, 52))
    half = lane.fma(power, p, lane.sub(power, 0.5))
    return lane.select(lane.cmp("olt", lane.abs(x), 2.0**-55), x, lane.add(half, half))


def _split(lane: Lanes, x: V) -> tuple[V, V]:
    """Splits positive normal x = 2^k m with sqrt(1/2) <= m < sqrt(2); returns (k as integer, m)."""
    bits = lane.bits(x)
    k = lane.iop("ashr", lane.iop("sub", bits, 0x3FE6A09E667F3BCD), 52)
    return k, lane.float_of(lane.iop("sub", bits, lane.iop("shl", k, 52)))


def _small_int(lane: Lanes, k: V) -> V:
    """Converts i64 lanes, |k| < 2^51, to doubles; AVX2 has no conversion instruction for them."""
    return lane.sub(lane.float_of(lane.iop("add", k, 0x4338000000000000)), ROUNDER)


def _log_reduce(lane: Lanes, x: V) -> tuple[V, V]:
    """Returns (k as double, m - 1) of x > 0; denormals are scaled up first."""
    tiny = lane.cmp("olt", x, 2.0**-1022)
    k, m = _split(lane, lane.select(tiny, lane.mul(x, 2.0**54), x))
    exponent = _small_int(lane, k)
    return lane.select(tiny, lane.sub(exponent, 54.0), exponent), lane.sub(m, 1.0)


def _log_domain(lane: Lanes, x: V, y: V, pole: float) -> V:
    """Returns y where pole < x < inf; -inf at the pole, NaN below it, x for inf and NaN."""
    y = lane.select(lane.cmp("olt", x, INFINITY), y, x)
    outside = lane.select(lane.cmp("oeq", x, pole), -INFINITY, NAN)
    return lane.select(lane.cmp("ogt", x, pole), y, outside)


def _log_combine(lane: Lanes, k: V, f: V, f_low: V | float = 0.0) -> V:
    """Computes k ln2 + log1p(f + f_low)."""
    half_square, rest = _log1p_parts(lane, f, lane.fma(k, table.LN2_SHORT_64[1], f_low))
    return lane.fma(k, table.LN2_SHORT_64[0], lane.sub(f, lane.sub(half_square, rest)))


def _log1p_parts(lane: Lanes, f: V, more: V | None = None) -> tuple[V, V]:
    """Returns f²/2 and what log1p(f) and more are beyond f - f²/2, for 1 + f in [√(1/2), √2].

    log1p(f) = f - (f²/2 - s (f²/2 + z R(z))), s = f / (2 + f), z = s².
    """
    half_square = lane.mul(lane.mul(f, f), 0.5)
    s = lane.div(f, lane.add(f, 2.0))
    z = lane.mul(s, s)
    series = lane.fma(z, lane.poly(z, table.LOG_64), half_square)
    return half_square, lane.mul(s, series) if more is None else lane.fma(s, series, more)


@recipe("log", "double")
def log(lane: Lanes, x: V) -> V:
    if avx512.serves(lane):
        return avx512.by_register(lane, avx512_float64.log, x)
    k, f = _log_reduce(lane, x)
    return _log_domain(lane, x, _log_combine(lane, k, f), 0.0)


@recipe("log1p", "double")
def log1p(lane: Lanes, x: V) -> V:
    if avx512.serves(lane):
        return avx512.by_register(lane, avx512_float64.log1p, x)
    total, lost = lane.two_sum(1.0, x)
    k, m = _split(lane, total)
    # What 1 + x lost, in units of m: lost * 2^-k. Far out it does not matter, and 2^-k would leave the range.
    scaled = lane.mul(lost, lane.float_of(lane.iop("sub", 0x3FF0000000000000, lane.iop("shl", k, 52))))
    scaled = lane.select(lane.cmp("ogt", x, 2.0**60), 0.0, scaled)
    f, f_low = lane.two_sum(lane.sub(m, 1.0), scaled)
    y = _log_combine(lane, _small_int(lane, k), f, f_low)
    return lane.select(lane.cmp("oeq", x, 0.0), x, _log_domain(lane, x, y, -1.0))


def _log2_pair(lane: Lanes, x: V) -> tuple[V, V]:
    """Computes log2(x) of finite x > 0 as two doubles, relative error below 2^-70.

    log = 2 atanh(s), s = f / (2 + f), to two doubles.
    """
    k, f = _log_reduce(lane, x)
    den, den_low = lane.fast_two_sum(2.0, f)
    reciprocal = lane.div(1.0, den)
    s = lane.mul(f, reciprocal)
    s_low = lane.mul(lane.fma(lane.neg(s), den_low, lane.fma(lane.neg(s), den, f)), reciprocal)
    z, z_low = lane.two_product(s, s)
    z_low = lane.fma(lane.add(s, s), s_low, z_low)

    def times(a: V, a_low: V, b: V, b_low: V) -> tuple[V, V]:
        p, e = lane.two_product(a, b)
        return p, lane.fma(a, b_low, lane.fma(a_low, b, e))

    def plus(a: tuple[V | float, V | float], b: V, b_low: V) -> tuple[V, V]:
        total, e = lane.fast_two_sum(a[0], b)
        return total, lane.add(e, lane.add(b_low, a[1]))

    # 2 atanh(s) = 2s + s z (2/3 + z (2/5 + z T(z)))
    tail = lane.mul(z, lane.poly(z, table.LOG_TAIL_64))
    inner = plus(table.TWO_FIFTHS_64, tail, lane.c(0.0))
    middle = plus(table.TWO_THIRDS_64, *times(z, z_low, *inner))
    cubic = times(s, s_low, *times(z, z_low, *middle))
    ln = plus((lane.add(s, s), lane.add(s_low, s_low)), *cubic)
    scaled = times(*ln, lane.c(table.LOG2E_64[0]), lane.c(table.LOG2E_64[1]))
    high, low = lane.fast_two_sum(k, scaled[0])
    return lane.fast_two_sum(high, lane.add(low, scaled[1]))


@recipe("log2", "double")
def log2(lane: Lanes, x: V) -> V:
    return _log_to_base(lane, x, table.LOG2E_64, (1.0, 0.0))


@recipe("log10", "double")
def log10(lane: Lanes, x: V) -> V:
    return _log_to_base(lane, x, table.LOG10E_64, table.LOG10_2_SHORT_64)


def _log_to_base(lane: Lanes, x: V, of_e: tuple[float, float], of_2: tuple[float, float]) -> V:
    """Computes k log(2) + log1p(f) log(e), logarithms to the base, log1p(f) and its product in two parts: within 0.8 ulp."""
    if avx512.serves(lane):
        return avx512.by_register(lane, lambda lane, x: avx512_float64.log_to_base(lane, x, of_e), x)
    k, f = _log_reduce(lane, x)
    half_square, rest = _log1p_parts(lane, f)
    high, low = lane.fast_two_sum(f, lane.neg(half_square))
    low = lane.fma(lane.fma(f, f, lane.mul(half_square, -2.0)), -0.5, lane.add(low, rest))  # what the square lacks
    product, lost = lane.two_product(high, of_e[0])
    lost = lane.add(lost, lane.fma(low, of_e[0], lane.mul(high, of_e[1])))
    total, more = lane.fast_two_sum(lane.mul(k, of_2[0]), product)
    if of_2[1]:
        lost = lane.fma(k, of_2[1], lost)
    return _log_domain(lane, x, lane.add(total, lane.add(more, lost)), 0.0)


@recipe("pow", "double")
def pow_(lane: Lanes, x: V, y: V) -> V:
    if avx512.serves(lane):
        return avx512.by_register(lane, _power_in_register, x, y)
    return _power(lane, x, y)


def _power_in_register(lane: Lanes, x: V, y: V) -> V:
    """Computes powers of finite positive numbers, and others where there are any."""
    is_rare = lane.either(avx512.is_not_positive_finite(lane, x), avx512.is_not_finite(lane, y))
    return choose_rare(lane, is_rare, [avx512_float64.power(lane, x, y)], lambda: [_power(lane, x, y)])[0]


def _power(lane: Lanes, x: V, y: V) -> V:
    """Computes 2^(y log2|x|) with the logarithm and the product in two doubles."""
    a = lane.abs(x)
    high, low = _log2_pair(lane, a)
    # 0 and inf as bases: the pair is meaningless there.
    extreme = lane.either(lane.cmp("oeq", a, 0.0), lane.cmp("oeq", a, INFINITY))
    high = lane.select(extreme, lane.select(lane.cmp("oeq", a, 0.0), -INFINITY, INFINITY), high)
    low = lane.select(extreme, 0.0, low)
    t = lane.mul(y, high)
    t_low = lane.fma(y, low, lane.fma(y, high, lane.neg(t)))
    # y = +-inf at |x| == 1, and 0 * log2(0): the exponent is 0.
    t = lane.select(lane.cmp("oeq", a, 1.0), 0.0, t)
    outside = lane.cmp("oge", lane.abs(t), 1100.0)
    sure = lane.both(lane.cmp("olt", lane.abs(t), 1100.0), lane.cmp("one", a, 1.0))
    t_low = lane.select(sure, t_low, 0.0)
    t = lane.select(outside, lane.copysign(1100.0, t), t)
    t = lane.at_most(lane.at_least(t, -1080.0), 1025.0)
    shifted = lane.add(t, ROUNDER + 2046.0)
    r = lane.add(lane.sub(t, lane.sub(shifted, ROUNDER + 2046.0)), t_low)
    magnitude = _scale(lane, lane.poly(r, table.EXP2_64), lane.bits(shifted))
    return pow_sign_and_domain(lane, x, y, magnitude)


@recipe("sigmoid", "double")
def sigmoid(lane: Lanes, x: V) -> V:
    """Computes z / (1 + z) or 1 / (1 + z) with z = exp(-|x|).

    The quotient is corrected for both of its roundings, which together with exp's would exceed 2 ulp.
    """
    z = _exp_downwards(lane, lane.neg(lane.abs(x)))
    numerator = lane.select(lane.cmp("olt", x, 0.0), z, 1.0)
    denominator, lost = lane.fast_two_sum(1.0, z)
    quotient = lane.div(numerator, denominator)
    opposite = lane.neg(quotient)
    rest = lane.fma(opposite, lost, lane.fma(opposite, denominator, numerator))
    return lane.fma(rest, lane.fma(z, -0.5, 0.957), quotient)  # 1 / (1 + z) within 5 %


@recipe("tanh", "double")
def tanh(lane: Lanes, x: V) -> V:
    """Computes e / (e + 2) with e = exp(2 |x|) - 1, both in two parts, up to where it is 1; within 1.9 ulp."""
    biased, r = _exp_reduce(lane, lane.mul(lane.at_most(lane.abs(x), 20.0), 2.0), 1023.0)
    p = lane.fma(lane.mul(r, r), lane.poly(r, table.EXPM1_64), r)
    power = lane.float_of(lane.iop("shl", biased, 52))
    less, more = lane.sub(power, 1.0), lane.add(power, 1.0)
    top, bottom = lane.fma(power, p, less), lane.fma(power, p, more)
    top_low = lane.fma(power, p, lane.sub(less, top))
    bottom_low = lane.fma(power, p, lane.sub(more, bottom))
    reciprocal = lane.div(1.0, bottom)
    quotient = lane.mul(top, reciprocal)
    opposite = lane.neg(quotient)
    rest = lane.add(lane.fma(opposite, bottom, top), lane.fma(opposite, bottom_low, top_low))
    return lane.copysign(lane.fma(rest, reciprocal, quotient), x)


@recipe("erf", "double")
def erf(lane: Lanes, x: V) -> V:
    picked = pieces.erf(lane, x)
    if picked is not None:
        return picked
    a = lane.abs(x)
    square = lane.mul(x, x)
    small = lane.fma(x, lane.poly(square, table.ERF_SMALL_64), x)
    logarithm = lane.poly(lane.sub(lane.at_most(a, 5.95), 1.0), table.ERF_LARGE_64)
    large = lane.copysign(lane.sub(1.0, _exp_normal(lane, logarithm)), x)
    return lane.select(lane.cmp("olt", a, 1.0), small, large)


# -- trigonometry -------------------------------------------------------------


def _reduce_angle(lane: Lanes, x: V) -> tuple[V, V, V]:
    """Splits x = q pi/2 + r + r_low with |r| <= pi/4; returns (r, r_low, q as integer lanes, modulo 4 in its low bits)."""
    shifted = lane.fma(x, 2.0 / math.pi, ROUNDER)
    k = lane.sub(shifted, ROUNDER)
    head = lane.fma(k, -table.HALF_PI_64[0], x)  # exact up to 2^49
    product, error = lane.two_product(k, table.HALF_PI_64[1])
    r, lost = lane.two_sum(head, lane.neg(product))
    lost = lane.sub(lost, lane.fma(k, table.HALF_PI_64[2], error))
    r, r_low = lane.fast_two_sum(r, lost)
    q = lane.bits(shifted)
    is_large = lane.cmp("ogt", lane.abs(x), LARGE)
    r, r_low, q = choose_rare(lane, is_large, (r, r_low, q), lambda: large_angle_f64(lane, x))
    return r, r_low, q


def _sine_parts(lane: Lanes, r: V, r_low: V, t: V) -> tuple[V, V]:
    """Returns sin(r + r_low) as r and a second part that is accurate to its own last bits."""
    cube = lane.mul(t, r)
    polynomial = lane.poly(t, table.SIN_64)
    # cos(r) ~ 1 - t/2 carries r_low into the sine.
    return r, lane.fma(cube, polynomial, lane.fma(lane.mul(t, -0.5), r_low, r_low))


def _cosine_parts(lane: Lanes, r: V, r_low: V, t: V) -> tuple[V, V]:
    """Returns cos(r + r_low) as w = fl(1 - t/2) and a second part."""
    half = lane.mul(t, 0.5)
    w = lane.sub(1.0, half)
    lost = lane.sub(lane.sub(1.0, w), half)
    # t is rounded: its error, halved, belongs here too.
    t_error = lane.fma(r, r, lane.neg(t))
    lost = lane.fma(t_error, -0.5, lane.fma(lane.neg(r), r_low, lost))
    return w, lane.fma(lane.mul(t, t), lane.poly(t, table.COS_64), lost)


def _sine_wave(lane: Lanes, x: V, quarter: int) -> V:
    if avx512.serves(lane):
        y = avx512.by_register(lane, lambda lane, x: avx512_float64.sine_wave(lane, x, quarter), x)
        is_large = lane.cmp("ogt", lane.abs(x), LARGE)
        return choose_rare(lane, is_large, [y], lambda: [_sine(lane, quarter, *large_angle_f64(lane, x))])[0]
    return _sine(lane, quarter, *_reduce_angle(lane, x))


def _sine(lane: Lanes, quarter: int, r: V, r_low: V, q: V) -> V:
    """Computes sin(r + r_low + (q + quarter) pi/2) for |r| <= pi/4."""
    t = lane.mul(r, r)
    sine, cosine = lane.add(*_sine_parts(lane, r, r_low, t)), lane.add(*_cosine_parts(lane, r, r_low, t))
    q = lane.iop("add", q, quarter) if quarter else q
    swap = lane.fn.icmp("ne", lane.iop("and", q, 1), lane.ci(0))
    sign = lane.iop("shl", lane.iop("lshr", q, 1), 63)
    return lane.float_of(lane.iop("xor", lane.bits(lane.select(swap, cosine, sine)), sign))


@recipe("sin", "double")
def sin(lane: Lanes, x: V) -> V:
    return lane.select(lane.cmp("oeq", x, 0.0), x, _sine_wave(lane, x, 0))


@recipe("cos", "double")
def cos(lane: Lanes, x: V) -> V:
    return _sine_wave(lane, x, 1)


@recipe("tan", "double")
def tan(lane: Lanes, x: V) -> V:
    r, r_low, q = _reduce_angle(lane, x)
    t = lane.mul(r, r)
    sine = lane.fast_two_sum(*_sine_parts(lane, r, r_low, t))
    cosine = lane.fast_two_sum(*_cosine_parts(lane, r, r_low, t))
    swap = lane.fn.icmp("ne", lane.iop("and", q, 1), lane.ci(0))
    top, top_low = (lane.select(swap, lane.neg(c), s) for s, c in zip(sine, cosine, strict=True))
    bottom, bottom_low = (lane.select(swap, s, c) for s, c in zip(sine, cosine, strict=True))
    reciprocal = lane.div(1.0, bottom)
    quotient = lane.mul(top, reciprocal)
    rest = lane.fma(lane.neg(quotient), bottom, top)
    rest = lane.add(rest, lane.fma(lane.neg(quotient), bottom_low, top_low))
    return lane.select(lane.cmp("oeq", x, 0.0), x, lane.fma(rest, reciprocal, quotient))


# -- inverse trigonometry -----------------------------------------------------


@recipe("atan", "double")
def atan(lane: Lanes, x: V) -> V:
    """Computes atan by intervals.

    atan(a) = atan(c) + atan((a - c) / (1 + a c)), c in 0, 1/2, 1, 3/2; pi/2 - atan(1/a) above 39/16.
    """
    a = lane.abs(x)
    center, high, low = (
        lane.c(v[0]) for v in (table.ATAN_CENTERS, table.ATAN_AT_CENTERS_HIGH, table.ATAN_AT_CENTERS_LOW)
    )
    for i, limit in enumerate((7 / 16, 11 / 16, 19 / 16), start=1):
        above = lane.cmp("ogt", a, limit)
        center = lane.select(above, table.ATAN_CENTERS[i], center)
        high = lane.select(above, table.ATAN_AT_CENTERS_HIGH[i], high)
        low = lane.select(above, table.ATAN_AT_CENTERS_LOW[i], low)
    far = lane.cmp("ogt", a, 39 / 16)
    high = lane.select(far, table.HALF_PI_64[0], high)
    low = lane.select(far, table.HALF_PI_64[1], low)
    numerator = lane.select(far, -1.0, lane.sub(a, center))
    z = lane.div(numerator, lane.select(far, a, lane.fma(a, center, 1.0)))
    t = lane.mul(z, z)
    rest = lane.fma(lane.mul(z, t), lane.poly(t, table.ATAN_64), low)
    # |z| <= high wherever high is not zero.
    total, lost = lane.fast_two_sum(high, z)
    return lane.copysign(lane.add(total, lane.add(lost, rest)), x)


def _asin_core(lane: Lanes, a: V, large: V) -> tuple[V, V]:
    """Computes asin(a) (or asin(sqrt((1 - a) / 2)) where `large`) as s + second; returns (s, second)."""
    t = lane.select(large, lane.fma(a, -0.5, 0.5), lane.mul(a, a))
    s = lane.select(large, lane.sqrt(t), a)
    return s, lane.mul(lane.mul(s, t), lane.poly(t, table.ASIN_64))


@recipe("asin", "double")
def asin(lane: Lanes, x: V) -> V:
    a = lane.abs(x)
    large = lane.cmp("ogt", a, 0.5)
    s, rest = _asin_core(lane, a, large)
    head, lost = lane.fast_two_sum(table.HALF_PI_64[0], lane.mul(s, -2.0))
    mirrored = lane.add(head, lane.add(lost, lane.fma(rest, -2.0, table.HALF_PI_64[1])))
    return lane.copysign(lane.select(large, mirrored, lane.add(s, rest)), x)


@recipe("acos", "double")
def acos(lane: Lanes, x: V) -> V:
    a = lane.abs(x)
    large = lane.cmp("ogt", a, 0.5)
    s, rest = _asin_core(lane, a, large)
    half_pi, half_pi_low = table.HALF_PI_64[:2]
    # x > 1/2: 2 (s + rest). x < -1/2: 2 (pi/2 - (s + rest)). Else: pi/2 - (x + rest with x's sign).
    s = lane.select(large, s, x)
    rest = lane.select(large, rest, lane.copysign(rest, x))
    head, lost = lane.fast_two_sum(half_pi, lane.neg(s))
    mirrored = lane.add(head, lane.add(lost, lane.sub(half_pi_low, rest)))
    direct = lane.select(lane.both(large, lane.cmp("ogt", x, 0.0)), lane.add(s, rest), mirrored)
    return lane.select(large, lane.add(direct, direct), direct)
