"""Functions of float64 from tables of 16 numbers in registers of AVX-512, for lanes that fill one register.

A table halves the polynomials: exp takes 18 instructions for 27. Results are rounded nearly once, since tables have two parts.
"""

from __future__ import annotations

import math

from ..values import V
from . import avx512
from .lanes import Lanes
from .tables import of_16 as points
from .tables import polynomials as table

# Adding 1.5 * 2^48 rounds a double to a multiple of 1/16 and leaves the sixteenths in the low bits of the sum.
SIXTEENTHS = 1.5 * 2.0**48
WHOLE = 1.5 * 2.0**52


def _exp2_of(lane: Lanes, shifted: V, step: V) -> V:
    """Computes 2^(j/16) (1 + step) for the four lowest bits j of `shifted`."""
    index = lane.bits(shifted)
    low = avx512.look_up(lane, points.EXP2_AT_LOW, index)
    high = avx512.look_up(lane, points.EXP2_AT, index)
    return lane.add(lane.fma(high, step, low), high)


def exp(lane: Lanes, x: V) -> V:
    """Computes exp where it is finite."""
    return _exp(lane, x, lane.cmp("uge", x, -746.0))


def exp_normal(lane: Lanes, x: V) -> V:
    """Computes exp where the result is normal; NaN stays."""
    return _exp(lane, x, None)


def _exp(lane: Lanes, x: V, where: V | None) -> V:
    shifted = lane.fma(x, table.LOG2E_64[0], SIXTEENTHS)
    k = lane.sub(shifted, SIXTEENTHS)
    r = lane.fma(k, -table.LN2_64[1], lane.fma(k, -table.LN2_64[0], x))
    step = lane.fma(lane.mul(r, r), lane.poly(r, points.EXP_STEP), r)
    return avx512.scale(lane, _exp2_of(lane, shifted, step), k, where)


def exp2(lane: Lanes, x: V) -> V:
    """Computes 2^x where it is finite."""
    shifted = lane.add(x, SIXTEENTHS)
    k = lane.sub(shifted, SIXTEENTHS)
    r = lane.sub(x, k)
    y = _exp2_of(lane, shifted, lane.mul(r, lane.poly(r, points.EXP2_STEP)))
    return avx512.scale(lane, y, k, lane.cmp("uge", x, -1075.0))


def _log_sum(lane: Lanes, k: V, index: V, r: V, low: V) -> tuple[V, V]:
    """Computes k ln2 - log c + log1p(r + low) as two numbers.

    The table's first parts are multiples of 2^-42, so the first sum is exact, and 0 for numbers next to 1.
    """
    ln2, ln2_low = table.LN2_SHORT_64
    head = lane.fma(k, ln2, avx512.look_up(lane, points.LOG_AT, index))
    rest = lane.fma(k, ln2_low, avx512.look_up(lane, points.LOG_AT_LOW, index))
    rest = lane.add(rest, lane.fma(lane.neg(low), r, low))
    total, lost = lane.fast_two_sum(head, r)
    square = lane.mul(r, r)
    return total, lane.add(lost, lane.fma(square, lane.chains(r, points.LOG_STEP, square), rest))


def _log_parts(lane: Lanes, x: V) -> tuple[V, V]:
    k, m, inverse, index = avx512.parts_for_log(lane, x)
    product, low = lane.two_product(m, inverse)
    return _log_sum(lane, k, index, lane.sub(product, 1.0), low)


def log(lane: Lanes, x: V) -> V:
    return avx512.log_domain(lane, lane.add(*_log_parts(lane, x)), x)


def log_to_base(lane: Lanes, x: V, of_e: tuple[float, float]) -> V:
    """Computes log(x) log_b(e), rounded nearly once: the second number in two parts, like the first."""
    total, rest = _log_parts(lane, x)
    product, lost = lane.two_product(total, of_e[0])
    lost = lane.fma(rest, of_e[0], lane.fma(total, of_e[1], lost))
    return avx512.log_domain(lane, lane.add(product, lost), x)


def log1p(lane: Lanes, x: V) -> V:
    total, lost = lane.two_sum(1.0, x)
    k, m, inverse, index = avx512.parts_for_log(lane, total)
    low = lane.mul(avx512.scale(lane, lost, lane.neg(k)), inverse)
    y = lane.add(*_log_sum(lane, k, index, lane.fma(m, inverse, -1.0), low))
    return lane.select(lane.cmp("oeq", x, 0.0), x, avx512.log_domain(lane, y, total))


def _log2_terms(lane: Lanes, x: V) -> tuple[V, V, V, V, V]:
    """Returns parts of log2 of finite x > 0, but for what is of third order in r, beside r, r² and what r² lacks.

    The first is k + log2(c) + (r - r²/2) / ln2 for x = 2^k m and m = (1 + r) c, the second what it lacks: r, r / ln2 and
    r² / 2 ln2 go in two parts.
    """
    k, m, inverse, index = avx512.parts_for_log(lane, x)
    product, r_low = lane.two_product(m, inverse)
    r = lane.sub(product, 1.0)  # exact
    r_low = lane.fma(r_low, lane.fma(r, r, lane.neg(r)), r_low)  # r_low / (1 + r), nearly
    log2e, log2e_low = table.LOG2E_64
    linear, lost = lane.two_product(r, log2e)
    lost = lane.fma(r_low, log2e, lane.fma(r, log2e_low, lost))
    square, square_low = lane.two_product(r, r)
    total, rest = lane.fast_two_sum(lane.add(k, avx512.look_up(lane, points.LOG2_AT, index)), linear)
    half = lane.mul(square, -log2e / 2)
    half_low = lane.fma(square_low, -log2e / 2, lane.fma(square, -log2e / 2, lane.neg(half)))
    half_low = lane.fma(square, -log2e_low / 2, half_low)
    total, more = lane.fast_two_sum(total, half)
    low = lane.add(avx512.look_up(lane, points.LOG2_AT_LOW, index), lane.add(lost, half_low))
    return total, lane.add(lane.add(rest, more), low), r, square, square_low


_LARGE = 2.0**65
"""Exponents beyond this are as good as this one: 2^-53 is the least logarithm but 0."""


def power(lane: Lanes, x: V, y: V) -> V:
    """Computes x^y for finite x > 0 and finite y, as 2^(y log2 x) with the logarithm and the product in two parts."""
    total, low, r, square, square_low = _log2_terms(lane, x)
    third, third_low = points.LOG2_THIRD
    cube, cube_low = lane.two_product(square, r)
    cubic, cubic_low = lane.two_product(cube, third)
    cubic_low = lane.fma(cube, third_low, lane.fma(lane.fma(square_low, r, cube_low), third, cubic_low))
    total, more = lane.fast_two_sum(total, cubic)
    fourth = lane.mul(square, square)
    low = lane.fma(fourth, lane.chains(r, points.LOG2_FROM_FOURTH, square), lane.add(low, lane.add(more, cubic_low)))
    high, low = lane.fast_two_sum(total, low)
    y = lane.at_least(lane.at_most(y, _LARGE), -_LARGE)
    exponent, missed = lane.two_product(y, high)
    missed = lane.fma(y, low, missed)
    missed = lane.select(lane.cmp("olt", lane.abs(exponent), 1100.0), missed, 0.0)
    exponent = lane.at_least(lane.at_most(exponent, 1100.0), -1100.0)
    shifted = lane.add(exponent, SIXTEENTHS)
    k = lane.sub(shifted, SIXTEENTHS)
    r = lane.add(lane.sub(exponent, k), missed)
    return avx512.scale(lane, _exp2_of(lane, shifted, lane.mul(r, lane.poly(r, points.EXP2_STEP))), k)


def sine_wave(lane: Lanes, x: V, quarter: int) -> V:
    """Computes sin(x + quarter pi/2) for |x| <= 2^30: x = k pi/16 + r + r_low with |r| <= pi/32.

    sin = S + C r and then what both lack, where S and C are the sine and the cosine of k pi/16.
    """
    step, step_low, step_lowest = (part / 8 for part in table.HALF_PI_64)
    shifted = lane.fma(x, 16 / math.pi, WHOLE)
    k = lane.sub(shifted, WHOLE)
    head = lane.fma(k, -step, x)  # exact
    product, error = lane.two_product(k, step_low)
    r, r_low = lane.two_sum(head, lane.neg(product))
    r_low = lane.sub(r_low, lane.fma(k, step_lowest, error))
    index = lane.bits(shifted)
    if quarter:
        index = lane.iop("add", index, 8 * quarter)
    sine, cosine = avx512.look_up(lane, points.SIN_AT, index), avx512.look_up(lane, points.COS_AT, index)
    square = lane.mul(r, r)
    tail = lane.fma(lane.mul(square, r), lane.poly(square, points.SIN_STEP), r_low)
    versine = lane.mul(square, lane.poly(square, points.COS_STEP))
    low = lane.fma(sine, versine, avx512.look_up(lane, points.SIN_AT_LOW, index))
    total = lane.fma(cosine, r, sine)
    lost = lane.fma(cosine, r, lane.sub(sine, total))
    y = lane.add(total, lane.add(lost, lane.fma(cosine, tail, low)))
    sign = lane.iop("and", lane.iop("shl", index, 59), -1 << 63)
    return lane.float_of(lane.iop("xor", lane.bits(y), sign))
