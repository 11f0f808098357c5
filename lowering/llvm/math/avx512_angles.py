"""Inverse trigonometric functions of float32, in float32, from instructions of AVX-512, for 16 lanes.

Elsewhere they are computed in double, of which a register holds half as many. Here an angle is a sum of three: 0, π/2 or π in
two parts, a number that the polynomial starts from, and what that leaves out; the first two are added without an error.
"""

from __future__ import annotations

from ..values import V
from .lanes import Lanes
from .tables.polynomials import ATAN_SHORT

_HALF_PI, _PI = (1.5707963705062866, -4.371139000186241e-08), (3.1415927410125732, -8.742278000372485e-08)
# (asin(r) - r) / r^3 in r^2 for 0 <= r <= 1/2: 2^-27.6 of the angle
_ASIN = (0.1666675248232495, 0.07495297629224479, 0.04547037786041947, 0.024179504529782885, 0.042166326920681944)


def _angle(lane: Lanes, head: tuple[V, V], step: V, rest: V) -> V:
    """Computes head + step + rest, of which the first is 0 or larger than the second."""
    total, lost = lane.fast_two_sum(head[0], step)
    return lane.add(total, lane.add(lost, lane.add(rest, head[1])))


def _chosen(lane: Lanes, condition: V, number: tuple[float, float], other: tuple[V, V] | None = None) -> tuple[V, V]:
    first, second = other or (lane.c(0.0), lane.c(0.0))
    return lane.select(condition, number[0], first), lane.select(condition, number[1], second)


def atan(lane: Lanes, x: V) -> V:
    """Computes atan(x), by -1/|x| beyond 1."""
    a = lane.abs(x)
    beyond = lane.cmp("ogt", a, 1.0)
    r = lane.div(lane.select(beyond, -1.0, a), lane.select(beyond, a, 1.0))
    square = lane.mul(r, r)
    tail = lane.mul(lane.mul(r, square), lane.poly(square, ATAN_SHORT))
    return lane.copysign(_angle(lane, _chosen(lane, beyond, _HALF_PI), r, tail), x)


def _arcsine(lane: Lanes, a: V) -> tuple[V, V, V]:
    """Returns whether a is beyond 1/2, and two parts of asin(s), s being a or else √((1 - a) / 2)."""
    beyond = lane.cmp("ogt", a, 0.5)
    square = lane.select(beyond, lane.fma(a, -0.5, 0.5), lane.mul(a, a))
    s = lane.select(beyond, lane.sqrt(square), a)
    return beyond, s, lane.mul(lane.mul(s, square), lane.poly(square, _ASIN))


def asin(lane: Lanes, x: V) -> V:
    """Computes asin(x), as π/2 - 2 asin(√((1 - |x|) / 2)) beyond 1/2."""
    beyond, s, tail = _arcsine(lane, lane.abs(x))
    factor = lane.select(beyond, -2.0, 1.0)
    y = _angle(lane, _chosen(lane, beyond, _HALF_PI), lane.mul(s, factor), lane.mul(tail, factor))
    return lane.copysign(y, x)


def acos(lane: Lanes, x: V) -> V:
    """Computes acos(x), as π/2 - asin(x) up to 1/2, else as 2 asin(√((1 - |x|) / 2)) or π less that."""
    beyond, s, tail = _arcsine(lane, lane.abs(x))
    negative = lane.cmp("olt", x, 0.0)
    head = _chosen(lane, beyond, (0.0, 0.0), (lane.c(_HALF_PI[0]), lane.c(_HALF_PI[1])))
    head = _chosen(lane, lane.both(beyond, negative), _PI, head)
    factor = lane.select(beyond, lane.copysign(2.0, x), lane.neg(lane.copysign(1.0, x)))
    return _angle(lane, head, lane.mul(s, factor), lane.mul(tail, factor))
