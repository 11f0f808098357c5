"""Elementary functions of float32 lanes, within 2 ulp over all inputs, denormals included.

Two styles: pure float32 (exp, log, erf, tanh, sin, …: the hot ones) and evaluation in double with one final
rounding (tan, asin, acos, atan, pow: about 0.51 ulp). Methods are the textbook ones (Cody and Waite
reduction, Muller: Elementary Functions); coefficients are our own fits (`tables/polynomials.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..values import V
from . import avx512, avx512_angles, avx512_float32, pieces
from .angle_reduction import choose_rare, large_angle_f32
from .lanes import Lanes
from .recipes import recipe
from .tables import polynomials as table

# Adding 1.5 * 2^23 rounds a float to an integer and leaves that integer in the low bits of the sum.
ROUNDER = 12582912.0
Divide = Callable[[V, V], V]
INFINITY = math.inf
NAN = math.nan


def _exp_reduce(lane: Lanes, x: V, offset: float) -> tuple[V, V]:
    """Splits x = k ln2 + r; returns (bits whose low part is k + offset, r), for |k + offset| < 2^22."""
    shifted = lane.fma(x, table.LOG2E_32[0], ROUNDER + offset)
    k = lane.sub(shifted, ROUNDER + offset)
    r = lane.fma(k, -table.LN2_32[0], x)
    return lane.bits(shifted), lane.fma(k, -table.LN2_32[1], r)


def _scale(lane: Lanes, p: V, biased: V) -> V:
    """Computes p * 2^k for k in [-150, 129]; the low bits of `biased` are k + 254.

    It multiplies by two exact powers, so that denormals round once.
    """
    half = lane.iop("lshr", biased, 1)
    rest = lane.iop("sub", biased, half)
    p = lane.mul(p, lane.float_of(lane.iop("shl", half, 23)))
    return lane.mul(p, lane.float_of(lane.iop("shl", rest, 23)))


def _power(lane: Lanes, x: V, lowest: float, parts: Callable[[V], tuple[V, V]]) -> V:
    """Computes p * 2^k, 0 for x below the limit; `parts` takes x to (p, bits whose low part is k + 254)."""
    if lane.scales:
        p, biased = parts(x)
        exponent = lane.sub(lane.float_of(biased), ROUNDER + 254.0)
        return lane.scalef(p, exponent, lane.cmp("uge", x, lowest))
    return lane.from_limit(x, lowest, lambda x: _scale(lane, *parts(x)))


_MIN_EXPONENT, _MAX_EXPONENT = -126, 127
"""The least and the largest exponent of normal numbers."""


def _exp_ptx(lane: Lanes, x: V) -> V:
    """Computes exp as 2^j 2^w with j = round(x log2 e), as far as 2^j is normal, and w = x log2 e - j.

    A saturating instruction limits j at no cost; beyond, w grows, and 2^w with it, so that denormals are rounded once and
    infinities need no test.

    Within 1.05 ulp, computed for every input above 2^-29, if 2^w is rounded correctly; `ex2.approx` adds its own error. NVIDIA
    documents at most 2 ulp over the full range for its expf, which takes the same steps (CUDA C++ Programming Guide,
    "Mathematical Functions"); what the PTX ISA promises of ex2 would allow 3.
    """
    width = float(_MAX_EXPONENT - _MIN_EXPONENT)
    scaled = lane.c(table.LOG2E_64[0] / width)
    text = f'call float asm "fma.rn.sat.f32 $0, $1, $2, $3;", "=f,f,f,f"(float {x.operand()}, float {scaled.operand()}, float '
    part = lane.fn.pure(f"{text}{lane.c(-_MIN_EXPONENT / width).operand()})", "float")
    shifted = lane.fma(part, width, ROUNDER + 127.0 + _MIN_EXPONENT)
    j = lane.sub(shifted, ROUNDER + 127.0)
    w = lane.fma(x, table.LOG2E_32[1], lane.fma(x, table.LOG2E_32[0], lane.neg(j)))
    power = lane.fn.target_intrinsic("llvm.nvvm.ex2.approx.ftz.f", [w], lane.type)
    return lane.mul(power, lane.float_of(lane.iop("shl", lane.bits(shifted), 23)))


@recipe("exp", "float", instructions=12)
def exp(lane: Lanes, x: V) -> V:
    return _exp_ptx(lane, x) if lane.is_ptx else exp_with(lane, x, table.EXP_32)


def exp_with(lane: Lanes, x: V, coefficients: tuple[float, ...]) -> V:
    """Computes exp over the whole range, as accurately as the polynomial."""
    return _exp_downwards(lane, lane.capped(x, 88.8), coefficients)


def _exp_downwards(lane: Lanes, x: V, coefficients: tuple[float, ...]) -> V:
    """Computes exp where it is finite."""

    def parts(x: V) -> tuple[V, V]:
        biased, r = _exp_reduce(lane, x, 254.0)
        return lane.poly(r, coefficients), biased

    return _power(lane, x, -104.0, parts)


@recipe("exp", "float", form="short")
def exp_fast(lane: Lanes, x: V) -> V:
    """Computes exp with relative error 2.5e-7 for -87.33 <= x <= 88; exactly 0 below, exp(88) above; NaN stays.

    On GPUs it is the accurate form, which is shorter there.
    """
    if lane.is_ptx:
        return _exp_ptx(lane, x)
    y = _exp_normal(lane, lane.capped(x, 88.0), table.EXP_32_SHORT)
    return lane.select(lane.cmp("olt", x, -87.33), 0.0, y)


def _exp_normal(lane: Lanes, x: V, coefficients: tuple[float, ...]) -> V:
    """Computes exp where the result is normal and finite; elsewhere anything but NaN, which stays NaN."""
    biased, r = _exp_reduce(lane, x, 127.0)
    return lane.mul(lane.poly(r, coefficients), lane.float_of(lane.iop("shl", biased, 23)))


@recipe("exp2", "float", instructions=12)
def exp2(lane: Lanes, x: V) -> V:
    if lane.is_ptx:  # within 2 ulp over the full range, denormals included (PTX ISA, "ex2")
        return lane.fn.target_intrinsic("llvm.nvvm.ex2.approx.f", [x], lane.type)

    def parts(x: V) -> tuple[V, V]:
        shifted = lane.add(x, ROUNDER + 254.0)
        r = lane.sub(x, lane.sub(shifted, ROUNDER + 254.0))
        return lane.poly(r, table.EXP2_32), lane.bits(shifted)

    return _power(lane, lane.capped(x, 129.0), -150.0, parts)


@recipe("exp2", "float", form="reduced")
def exp2_reduced(lane: Lanes, x: V) -> V:
    """Computes 2^x for |x| <= 0.5005, within 2 ulp; NaN stays."""
    if lane.is_ptx:
        return lane.fn.target_intrinsic("llvm.nvvm.ex2.approx.ftz.f", [x], lane.type)
    return lane.poly(x, table.EXP2_32_REDUCED)


@recipe("expm1", "float", instructions=20)
def expm1(lane: Lanes, x: V) -> V:
    clamped = lane.at_least(lane.at_most(x, 88.8), -20.0)
    biased, r = _exp_reduce(lane, clamped, 126.0)
    p = lane.fma(lane.mul(r, r), lane.poly(r, table.EXPM1_32), r)
    # Half the result, 2^(k-1) p + 2^(k-1) - 1/2, so that k = 128 does not overflow early.
    power = lane.float_of(lane.iop("shl", biased, 23))
    half = lane.fma(power, p, lane.sub(power, 0.5))
    return lane.select(lane.cmp("olt", lane.abs(x), 2.0**-26), x, lane.add(half, half))


def _split(lane: Lanes, x: V) -> tuple[V, V]:
    """Splits positive normal x = 2^k m with sqrt(1/2) <= m < sqrt(2); returns (k as integer, m)."""
    bits = lane.bits(x)
    k = lane.iop("ashr", lane.iop("sub", bits, 0x3F3504F3), 23)
    return k, lane.float_of(lane.iop("sub", bits, lane.iop("shl", k, 23)))


def _log_reduce(lane: Lanes, x: V) -> tuple[V, V]:
    """Returns (k as float, m - 1) of x > 0; denormals are scaled up first."""
    tiny = lane.cmp("olt", x, 2.0**-126)
    k, m = _split(lane, lane.select(tiny, lane.mul(x, 2.0**23), x))
    exponent = lane.fn.cast("sitofp", k, lane.type)
    return lane.select(tiny, lane.sub(exponent, 23.0), exponent), lane.sub(m, 1.0)


def _log_domain(lane: Lanes, x: V, y: V, pole: float) -> V:
    """Returns y where pole < x < inf; -inf at the pole, NaN below it, x for inf and NaN."""
    y = lane.select(lane.cmp("olt", x, INFINITY), y, x)
    outside = lane.select(lane.cmp("oeq", x, pole), -INFINITY, NAN)
    return lane.select(lane.cmp("ogt", x, pole), y, outside)


def _logarithm(lane: Lanes, x: V, combine: Callable[[Lanes, V, V], V]) -> V:
    """Computes `combine(lane, k, m - 1)` of x = 2^k m, m from √(1/2) to √2."""
    return _log_domain(lane, x, combine(lane, *_log_reduce(lane, x)), 0.0)


def _log_combine(lane: Lanes, k: V, u: V) -> V:
    """Computes k ln2 + log1p(u) for 1 + u in [sqrt(1/2), sqrt(2)].

    One float of ln2 is enough: k = 0 does not use it.
    """
    square = lane.mul(u, u)
    # Even and odd powers are summed apart: as many steps, but the two chains overlap. Reductions take
    # logarithms of single numbers.
    return lane.fma(k, table.LN2_32[0], lane.fma(square, lane.chains(u, table.LOG_32, square), u))


def _log2_combine(lane: Lanes, k: V, u: V) -> V:
    y = lane.mul(lane.mul(u, u), lane.poly(u, table.LOG2_32))
    return lane.add(k, lane.fma(u, table.LOG2E_32[0], lane.fma(u, table.LOG2E_32[1], y)))


def _log10_combine(lane: Lanes, k: V, u: V) -> V:
    square = lane.mul(u, u)
    high, low = table.LOG10E_32
    rest = lane.fma(u, low, lane.mul(lane.mul(square, lane.chains(u, table.LOG_32, square)), high))
    rest = lane.fma(u, high, lane.fma(k, table.LOG10_2_32[1], rest))
    return lane.fma(k, table.LOG10_2_32[0], rest)


@recipe("log", "float", instructions=16)
def log(lane: Lanes, x: V) -> V:
    if avx512.serves(lane):
        return avx512.by_register(lane, avx512_float32.log, x)
    return _logarithm(lane, x, _log_combine)


@recipe("log2", "float", instructions=16)
def log2(lane: Lanes, x: V) -> V:
    if avx512.serves(lane):
        return avx512.by_register(lane, avx512_float32.log2, x)
    return _logarithm(lane, x, _log2_combine)


@recipe("log10", "float", instructions=18)
def log10(lane: Lanes, x: V) -> V:
    if avx512.serves(lane):
        return avx512.by_register(lane, avx512_float32.log10, x)
    return _logarithm(lane, x, _log10_combine)


@recipe("log1p", "float", instructions=20)
def log1p(lane: Lanes, x: V) -> V:
    if avx512.serves(lane):
        return avx512.by_register(lane, avx512_float32.log1p, x)
    total, lost = lane.two_sum(1.0, x)
    k, m = _split(lane, total)
    # What 1 + x lost, in units of m: lost * 2^-k. Far out it does not matter, and 2^-k would leave the range.
    lost = lane.mul(lost, lane.float_of(lane.iop("sub", 0x3F800000, lane.iop("shl", k, 23))))
    u = lane.add(lane.sub(m, 1.0), lane.select(lane.cmp("ogt", x, 2.0**40), 0.0, lost))
    y = _log_combine(lane, lane.fn.cast("sitofp", k, lane.type), u)
    return lane.select(lane.cmp("oeq", x, 0.0), x, _log_domain(lane, x, y, -1.0))


@recipe("sigmoid", "float", ops=())
def sigmoid(lane: Lanes, x: V) -> V:
    """Computes z / (1 + z) or 1 / (1 + z) with z = exp(-|x|).

    The quotient is corrected for both of its roundings, which together with exp's would exceed 2 ulp.
    """
    z = _exp_downwards(lane, lane.neg(lane.abs(x)), table.EXP_32)
    numerator = lane.select(lane.cmp("olt", x, 0.0), z, 1.0)
    denominator, lost = lane.fast_two_sum(1.0, z)
    quotient = lane.div(numerator, denominator)
    opposite = lane.neg(quotient)
    rest = lane.fma(opposite, lost, lane.fma(opposite, denominator, numerator))
    return lane.fma(rest, lane.fma(z, -0.5, 0.957), quotient)  # 1 / (1 + z) within 5 %


@recipe("sigmoid", "float", form="short")
def sigmoid_fast(lane: Lanes, x: V) -> V:
    """Computes the sigmoid with relative error 5e-7 for x >= -87.33, exactly 0 below -88; NaN stays."""
    return lane.div(1.0, lane.add(exp_fast_saturating(lane, lane.neg(x)), 1.0))


def exp_fast_saturating(lane: Lanes, x: V) -> V:
    """Computes exp as `exp_fast` does, but infinite above 88."""
    y = _exp_normal(lane, lane.at_least(x, -87.33), table.EXP_32_SHORT)
    return lane.select(lane.cmp("ogt", x, 88.0), INFINITY, y)


@recipe("tanh", "float", instructions=20)
def tanh(lane: Lanes, x: V) -> V:
    picked = pieces.tanh(lane, x)
    if picked is not None:
        return picked
    a = lane.abs(x)
    square = lane.mul(x, x)
    small = lane.fma(lane.mul(square, a), lane.poly(square, table.TANH_32), a)
    z = _exp_normal(lane, lane.mul(lane.at_most(a, 10.0), -2.0), table.EXP_32)
    large = lane.sub(1.0, lane.div(lane.add(z, z), lane.add(z, 1.0)))
    return lane.copysign(lane.select(lane.cmp("olt", a, 0.625), small, large), x)


def _odd_rational(
    lane: Lanes, x: V, numerator: tuple[float, ...], denominator: tuple[float, ...], cut: float, divide: Divide | None
) -> V:
    """Computes x P(x^2) / Q(x^2) up to |x| = cut, then exactly +-1; NaN and the sign of zero stay.

    `divide`: the IEEE quotient if None.
    """
    a = lane.abs(x)
    beyond = lane.cmp("ogt", a, cut)
    a = lane.select(beyond, cut, a)
    square = lane.mul(a, a)
    y = (divide or lane.div)(lane.mul(a, lane.poly(square, numerator)), lane.poly(square, denominator))
    return lane.copysign(lane.select(beyond, 1.0, y), x)


@recipe("tanh", "float", form="short")
def tanh_fast(lane: Lanes, x: V, divide: Divide | None = None) -> V:
    """Computes tanh within about 5 ulp; exactly +-1 above 9.01."""
    return _odd_rational(lane, x, table.TANH_FAST_P, table.TANH_FAST_Q, 9.01, divide)


@recipe("erf", "float", form="short")
def erf_fast(lane: Lanes, x: V, divide: Divide | None = None) -> V:
    """Computes erf with absolute error 4e-7; exactly +-1 above 3.72."""
    return _odd_rational(lane, x, table.ERF_FAST_P, table.ERF_FAST_Q, 3.72, divide)


@recipe("erf", "float", instructions=24)
def erf(lane: Lanes, x: V) -> V:
    picked = pieces.erf(lane, x)
    if picked is not None:
        return picked
    a = lane.abs(x)
    square = lane.mul(x, x)
    small = lane.fma(x, lane.poly(square, table.ERF_SMALL_32), x)
    logarithm = lane.poly(lane.at_most(a, 4.0), table.ERF_LARGE_32)
    large = lane.copysign(lane.sub(1.0, _exp_normal(lane, logarithm, table.EXP_32)), x)
    return lane.select(lane.cmp("olt", a, 1.0), small, large)


def _sine_wave(lane: Lanes, x: V, cosine: bool) -> V:
    """Computes sin(x), or cos(x) = sin(x + pi/2).

    x = k pi + r with k an integer (cos: integer - 1/2) and |r| <= pi/2; sin(r) = r + r w.
    """
    if cosine:
        shifted = lane.add(lane.fma(x, 1.0 / math.pi, 0.5), ROUNDER)
        k = lane.sub(lane.sub(shifted, ROUNDER), 0.5)
    else:
        shifted = lane.fma(x, 1.0 / math.pi, ROUNDER)
        k = lane.sub(shifted, ROUNDER)
    r = x
    for part in table.PI_32:  # the first step is exact, so r carries one rounding
        r = lane.fma(k, -part, r)
    sign = lane.iop("shl", lane.bits(shifted), 31)
    is_large = lane.cmp("ogt", lane.abs(x), 65536.0)

    def reduce() -> tuple[V, V]:
        angle, odd = large_angle_f32(lane, x, cosine)
        return lane.narrow(angle), lane.iop("shl", odd, 31)

    r, sign = choose_rare(lane, is_large, (r, sign), reduce)
    s1, s2, s3, s4 = table.SIN_32
    t = lane.mul(r, r)
    fourth = lane.mul(t, t)
    tail = lane.fma(fourth, s4, lane.fma(t, s3, s2))
    w = lane.fma(t, s1, lane.mul(fourth, tail))  # fewer roundings than Horner where sin(r) is close to 1
    y = lane.fma(r, w, r)
    return lane.float_of(lane.iop("xor", lane.bits(y), sign))


@recipe("sin", "float", instructions=14)
def sin(lane: Lanes, x: V) -> V:
    return _sine_wave(lane, x, False)


@recipe("cos", "float", instructions=14)
def cos(lane: Lanes, x: V) -> V:
    return _sine_wave(lane, x, True)


@recipe("tan", "float", instructions=30)
def tan(lane: Lanes, x: V) -> V:
    d, wide = lane.wide(), lane.widen(x)
    rounder = 1.5 * 2.0**52
    shifted = d.fma(wide, 2.0 / math.pi, rounder)
    k = d.sub(shifted, rounder)
    r = d.fma(k, -table.HALF_PI_64[1], d.fma(k, -table.HALF_PI_64[0], wide))
    odd = d.iop("and", d.bits(shifted), 1)
    is_large = lane.cmp("ogt", lane.abs(x), 2.0**27)

    def reduce() -> tuple[V, V]:
        angle, odd = large_angle_f32(lane, x, False, half_pi=True)
        return angle, lane.fn.cast("zext", odd, d.integer)

    r, odd = choose_rare(d, is_large, (r, odd), reduce)
    t = d.mul(r, r)
    sine = d.mul(r, d.fma(t, d.poly(t, table.SIN_WIDE), 1.0))
    cosine = d.fma(t, d.fma(t, d.poly(t, table.COS_WIDE), -0.5), 1.0)
    swap = lane.fn.icmp("ne", odd, d.ci(0))
    return lane.narrow(d.div(d.select(swap, d.neg(cosine), sine), d.select(swap, sine, cosine)))


@recipe("atan", "float", instructions=20)
def atan(lane: Lanes, x: V) -> V:
    if avx512.serves(lane):
        return avx512.by_register(lane, avx512_angles.atan, x)
    d, a = lane.wide(), lane.widen(lane.abs(x))
    beyond = d.cmp("ogt", a, 1.0)
    z = d.div(d.select(beyond, 1.0, a), d.select(beyond, a, 1.0))
    t = d.mul(z, z)
    y = d.mul(z, d.fma(t, d.poly(t, table.ATAN_WIDE), 1.0))
    y = d.select(beyond, d.sub(table.HALF_PI_64[0], y), y)
    return lane.copysign(lane.narrow(y), x)


def _asin_core(d: Lanes, a: V, large: V) -> V:
    """Computes asin(a) for a <= 1/2, asin(sqrt((1 - a) / 2)) where `large`."""
    t = d.select(large, d.fma(a, -0.5, 0.5), d.mul(a, a))
    s = d.select(large, d.sqrt(t), a)
    return d.mul(s, d.fma(t, d.poly(t, table.ASIN_WIDE), 1.0))


@recipe("asin", "float", instructions=20)
def asin(lane: Lanes, x: V) -> V:
    if avx512.serves(lane):
        return avx512.by_register(lane, avx512_angles.asin, x)
    d, a = lane.wide(), lane.widen(lane.abs(x))
    large = d.cmp("ogt", a, 0.5)
    p = _asin_core(d, a, large)
    y = d.select(large, d.fma(p, -2.0, table.HALF_PI_64[0]), p)
    return lane.copysign(lane.narrow(y), x)


@recipe("acos", "float", instructions=20)
def acos(lane: Lanes, x: V) -> V:
    if avx512.serves(lane):
        return avx512.by_register(lane, avx512_angles.acos, x)
    d, wide = lane.wide(), lane.widen(x)
    a = d.abs(wide)
    large = d.cmp("ogt", a, 0.5)
    p = _asin_core(d, a, large)
    twice = d.add(p, p)
    mirrored = d.select(d.cmp("olt", wide, 0.0), d.sub(table.PI_64[0], twice), twice)
    y = d.select(large, mirrored, d.sub(table.HALF_PI_64[0], d.copysign(p, wide)))
    return lane.narrow(y)


def _log2_wide(d: Lanes, a: V) -> V:
    """Computes log2 of a positive finite double (any float32 magnitude) with relative error 2^-50.

    0 gives -inf, inf and NaN stay.
    """
    bits = d.bits(a)
    k = d.iop("ashr", d.iop("sub", bits, 0x3FE6A09E667F3BCD), 52)
    m = d.float_of(d.iop("sub", bits, d.iop("shl", k, 52)))
    # |k| < 2^11: adding it to the bits of the rounder converts it, which AVX2 has no instruction for.
    rounder = 1.5 * 2.0**52
    exponent = d.sub(d.float_of(d.iop("add", k, 0x4338000000000000)), rounder)
    f = d.sub(m, 1.0)
    s = d.div(f, d.add(m, 1.0))
    y = d.fma(s, d.poly(d.mul(s, s), table.LOG2_WIDE), exponent)
    y = d.select(d.cmp("olt", a, INFINITY), y, a)
    return d.select(d.cmp("oeq", a, 0.0), -INFINITY, y)


def pow_sign_and_domain(lane: Lanes, x: V, y: V, magnitude: V) -> V:
    """Turns |x|^y into x^y by IEEE 754.

    It sets signs for odd y, NaN for finite negative x with fractional y, and 1 for x == 1 or y == 0.
    """
    integral = lane.cmp("oeq", lane.floor(y), y)
    half = lane.mul(y, 0.5)
    odd = lane.both(integral, lane.cmp("one", lane.floor(half), half))
    result = lane.select(odd, lane.copysign(magnitude, x), magnitude)
    finite_negative = lane.both(lane.cmp("olt", x, 0.0), lane.cmp("ogt", x, -INFINITY))
    fractional = lane.cmp("une", lane.floor(y), y)
    result = lane.select(lane.both(finite_negative, fractional), NAN, result)
    result = lane.select(lane.cmp("uno", x, y), lane.add(x, y), result)
    return lane.select(lane.either(lane.cmp("oeq", x, 1.0), lane.cmp("oeq", y, 0.0)), 1.0, result)


@recipe("pow", "float", operands=2, ops=("math.powf",), instructions=40)
def pow_(lane: Lanes, x: V, y: V) -> V:
    """Computes 2^(y log2|x|) in double, then rounds once."""
    if avx512.serves(lane):
        return avx512.by_register(lane, lambda lane, x, y: avx512_float32.power(lane, x, y, pow_sign_and_domain), x, y)
    d, wide = lane.wide(), lane.widen(y)
    a = lane.abs(x)
    exponent = d.mul(wide, _log2_wide(d, lane.widen(a)))
    exponent = d.select(lane.cmp("oeq", a, 1.0), 0.0, exponent)
    exponent = d.at_least(d.at_most(exponent, 200.0), -200.0)
    rounder = 1.5 * 2.0**52 + 1023.0
    shifted = d.add(exponent, rounder)
    r = d.sub(exponent, d.sub(shifted, rounder))
    power = d.float_of(d.iop("shl", d.bits(shifted), 52))
    magnitude = lane.narrow(d.mul(d.poly(r, table.EXP2_WIDE), power))
    return pow_sign_and_domain(lane, x, y, magnitude)
