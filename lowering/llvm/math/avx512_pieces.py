"""Odd functions that end at ±1, from tables of polynomials: two registers of AVX-512 hold the coefficients of one power.

Elsewhere erf and tanh are a polynomial near 0 and an exponential beyond, of which each number computes both. Here a number
picks its polynomial: two instructions for each power, and no division.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..values import V
from . import avx512, tables_of_pieces
from .lanes import Lanes

# Adding 1.5 * 2^mantissa rounds a number to an integer, here downwards, and leaves that integer in the low bits of the sum.
_ROUNDERS = {"float": 1.5 * 2.0**23, "double": 1.5 * 2.0**52}


def _odd(lane: Lanes, x: V, step: float, end: float, table: Sequence[Sequence[float]]) -> V:
    """Computes f(x) of an odd f which is ±1 from `end` on, within the table's steps; NaN and the sign of zero stay."""
    positions, values, *coefficients = table
    a = lane.at_most(lane.abs(x), end)
    index = lane.bits(avx512.fma_down(lane, a, 1.0 / step, _ROUNDERS[lane.element]))
    t = lane.sub(a, avx512.look_up(lane, positions, index))  # exact, for that is at most twice a
    slope = avx512.look_up(lane, coefficients[-1], index)
    for row in coefficients[-2::-1]:
        slope = lane.fma(slope, t, avx512.look_up(lane, row, index))
    # In the first step c and f(c) are 0, and what the polynomial leaves out is t; elsewhere f(c) is larger than t.
    value = avx512.look_up(lane, values, index)
    base = lane.select(lane.cmp("ogt", value, t), value, t)
    return lane.copysign(lane.fma(slope, t, base), x)


def erf(lane: Lanes, x: V) -> V:
    """Computes erf, within 0.78 ulp."""
    if lane.width == 64:
        return _odd(lane, x, 0.375, 5.95, tables_of_pieces.ERF_64)
    return _odd(lane, x, 0.125, 3.95, tables_of_pieces.ERF_32)


def tanh(lane: Lanes, x: V) -> V:
    """Computes tanh of float32, within 0.91 ulp."""
    return _odd(lane, x, 0.2822265625, 9.02, tables_of_pieces.TANH_32)
