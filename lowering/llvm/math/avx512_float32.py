"""Logarithms and powers of float32 from tables in registers of AVX-512, for 16 lanes.

With |x| = 2^k m, m in [1, 2), c near 1/m and r = m c - 1, log2 |x| is k - log2(c) and log2(1 + r). The tables have 32 floats,
such that the difference is exact next to 1, from below too. Exponents of powers are computed in double; what is no finite power
of a positive number is rare, and has a branch.
"""

from __future__ import annotations

from collections.abc import Callable

from .. import values
from ..values import V
from . import avx512
from .angle_reduction import choose_rare
from .lanes import Lanes
from .tables import of_16 as points
from .tables import of_32, polynomials


def log(lane: Lanes, x: V) -> V:
    head, r = _log2_and_rest(lane, x)
    return avx512.log_domain(lane, _log_sum(lane, head, r), x)


def log1p(lane: Lanes, x: V) -> V:
    total, lost = lane.two_sum(1.0, x)
    k, m, inverse, index = avx512.parts_for_log(lane, total)
    r = lane.fma(avx512.scale(lane, lost, lane.neg(k)), inverse, lane.fma(m, inverse, -1.0))
    y = _log_sum(lane, lane.add(k, avx512.look_up(lane, of_32.LOG2_AT, index)), r)
    return lane.copysign(avx512.log_domain(lane, y, total), x)  # for -0


def log2(lane: Lanes, x: V) -> V:
    head, r = _log2_and_rest(lane, x)
    return avx512.log_domain(lane, lane.fma(r, lane.poly(r, of_32.LOG2_STEP), head), x)


def log10(lane: Lanes, x: V) -> V:
    head, r = _log2_and_rest(lane, x)
    low = lane.fma(head, polynomials.LOG10_2_32[1], lane.mul(r, lane.poly(r, of_32.LOG10_STEP)))
    return avx512.log_domain(lane, lane.fma(head, polynomials.LOG10_2_32[0], low), x)


def _log2_and_rest(lane: Lanes, x: V) -> tuple[V, V]:
    """Returns (log2(c), r) with |x| = c (1 + r), the logarithm rounded once."""
    k, m, inverse, index = avx512.parts_for_log(lane, x)
    return lane.add(k, avx512.look_up(lane, of_32.LOG2_AT, index)), lane.fma(m, inverse, -1.0)


def _log_sum(lane: Lanes, head: V, r: V) -> V:
    """Computes head ln2 + log1p(r). One float of ln2 is enough: it is off by a twentieth of a unit."""
    return lane.fma(head, polynomials.LN2_32[0], lane.fma(lane.mul(r, r), lane.poly(r, of_32.LOG_STEP), r))


def _exponent_parts(d: Lanes, x: V, y: V) -> tuple[V, V]:
    """Returns y log2|x|, with a relative error of 2^-31 of the power, as an integer and what lies nearest to 0 beside it."""
    k, m, inverse, index = avx512.parts_for_log(d, x)
    r = d.fma(m, inverse, -1.0)
    head = d.add(k, avx512.look_up(d, points.LOG2_AT_ROUNDED, index))
    exponent = d.mul(y, d.fma(d.poly(r, points.LOG2_SHORT), r, head))
    rest = avx512.beyond_integers(d, exponent)
    return d.sub(exponent, rest), rest


def _power(lane: Lanes, x: V, y: V) -> V:
    """Computes |x|^y = 2^(y log2|x|), the exponent in double."""
    fn, half = lane.fn, lane.n // 2
    wide, narrow = Lanes(fn, values.vector("double", half)), Lanes(fn, values.vector("float", half))
    parts = []
    for first in (0, half):
        x_half, y_half = (narrow.widen(fn.shuffle(v, v, range(first, first + half))) for v in (x, y))
        parts.append([wide.narrow(v) for v in _exponent_parts(wide, x_half, y_half)])
    whole, rest = (fn.shuffle(low, high, range(lane.n)) for low, high in zip(*parts, strict=True))
    return avx512.scale(lane, lane.poly(rest, polynomials.EXP2_32), whole)


def power(lane: Lanes, x: V, y: V, domain: Callable[[Lanes, V, V, V], V]) -> V:
    """Computes x^y; `domain` makes x^y of x, y and |x|^y for all operands."""
    magnitude = _power(lane, x, y)
    is_rare = lane.either(avx512.is_not_positive_finite(lane, x), avx512.is_not_finite(lane, y))

    def special() -> list[V]:
        one = lane.cmp("oeq", lane.abs(x), 1.0)  # also of infinite y
        return [domain(lane, x, y, lane.select(one, 1.0, magnitude))]

    return choose_rare(lane, is_rare, [magnitude], special)[0]
