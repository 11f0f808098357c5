"""Odd functions that end at ±1, from tables of polynomials: registers hold the coefficients of one power.

Elsewhere erf and tanh are a polynomial near 0 and an exponential beyond, of which each number computes both. Here a number
picks its polynomial: two instructions for each power, and no division. With AVX-512 two registers hold a table of 32 floats
or 16 doubles, with AVX2 one holds 8 floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..values import V
from . import avx2, avx512
from .lanes import Lanes
from .tables import of_8, of_pieces

# Adding 1.5 * 2^mantissa rounds a number to an integer and leaves that integer in the low bits of the sum.
_ROUNDERS = {"float": 1.5 * 2.0**23, "double": 1.5 * 2.0**52}
Table = Sequence[Sequence[float]]


def _odd(
    lane: Lanes, x: V, end: float, table: Table, index_of: Callable[[V], V], look_up: Callable[[Lanes, Sequence[float], V], V]
) -> V:
    """Computes f(x) of an odd f which is ±1 from `end` on, within the table's pieces; NaN and the sign of zero stay."""
    positions, values, *coefficients = table
    a = lane.at_most(lane.abs(x), end)
    index = index_of(a)
    t = lane.sub(a, look_up(lane, positions, index))  # exact, or nearly: see the tables
    slope = look_up(lane, coefficients[-1], index)
    for row in coefficients[-2::-1]:
        slope = lane.fma(slope, t, look_up(lane, row, index))
    # In the first piece c and f(c) are 0, and what the polynomial leaves out is t; elsewhere f(c) is larger than t.
    value = look_up(lane, values, index)
    base = lane.select(lane.cmp("ogt", value, t), value, t)
    return lane.copysign(lane.fma(slope, t, base), x)


def _odd_in_steps(lane: Lanes, x: V, step: float, end: float, table: Table) -> V:
    """Computes it with AVX-512, from pieces that begin at multiples of a step."""

    def index_of(a: V) -> V:
        return lane.bits(avx512.fma_down(lane, a, 1.0 / step, _ROUNDERS[lane.element]))

    return _odd(lane, x, end, table, index_of, avx512.look_up)


def _erf_512(lane: Lanes, x: V) -> V:
    if lane.width == 64:
        return _odd_in_steps(lane, x, 0.375, 5.95, of_pieces.ERF_64)
    return _odd_in_steps(lane, x, 0.125, 3.95, of_pieces.ERF_32)


def _tanh_512(lane: Lanes, x: V) -> V:
    return _odd_in_steps(lane, x, 0.2822265625, 9.02, of_pieces.TANH_32)


def _erf_256(lane: Lanes, x: V) -> V:
    def index_of(a: V) -> V:
        return lane.bits(lane.fma(a, 1.0 / 0.527, _ROUNDERS["float"]))

    return _odd(lane, x, 3.95, of_8.ERF, index_of, avx2.look_up)


def _tanh_256(lane: Lanes, x: V) -> V:
    def index_of(a: V) -> V:
        return lane.iop("lshr", lane.bits(lane.fma(a, 1.55, 1.0)), 22)  # the exponent and one bit: pieces double in width

    return _odd(lane, x, 9.02, of_8.TANH, index_of, avx2.look_up)


def erf(lane: Lanes, x: V) -> V | None:
    """Computes erf, within 0.91 ulp with AVX-512 and float32 within 1.27 ulp with AVX2; None for others."""
    if avx512.serves(lane):
        return avx512.by_register(lane, _erf_512, x)
    return avx2.by_register(lane, _erf_256, x) if avx2.serves(lane) else None


def tanh(lane: Lanes, x: V) -> V | None:
    """Computes tanh of float32, within 0.91 ulp with AVX-512 and 0.96 ulp with AVX2; None for other targets."""
    if avx512.serves(lane):
        return avx512.by_register(lane, _tanh_512, x)
    return avx2.by_register(lane, _tanh_256, x) if avx2.serves(lane) else None
