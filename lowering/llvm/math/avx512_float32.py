"""Powers of float32, computed in double from tables of 16 numbers in registers of AVX-512, for 16 lanes.

What is no finite power of a positive number is rare, and has a branch.
"""

from __future__ import annotations

from collections.abc import Callable

from .. import values
from ..values import V
from . import avx512
from .angle_reduction import choose_rare
from .avx512_float64 import SIXTEENTHS
from .lanes import Lanes
from .tables import of_16 as points


def _in_double(lane: Lanes, compute: Callable[..., V], *operands: V) -> V:
    """Returns `compute(lanes of double, *halves of the operands)`, rounded."""
    fn, half = lane.fn, lane.n // 2
    wide, narrow = Lanes(fn, values.vector("double", half)), Lanes(fn, values.vector("float", half))

    def part(first: int) -> V:
        halves = [narrow.widen(fn.shuffle(v, v, range(first, first + half))) for v in operands]
        return wide.narrow(compute(wide, *halves))

    return fn.shuffle(part(0), part(half), range(lane.n))


def _power(d: Lanes, x: V, y: V) -> V:
    """Computes 2^(y log2|x|) with a relative error of 2^-31 before it is rounded, within 2^±200."""
    k, m, inverse, index = avx512.parts_for_log(d, x)
    r = d.fma(m, inverse, -1.0)
    head = d.add(k, avx512.look_up(d, points.LOG2_AT_ROUNDED, index))
    exponent = d.mul(y, d.fma(d.chains(r, points.LOG2_SHORT), r, head))
    exponent = d.at_least(d.at_most(exponent, 200.0), -200.0)
    shifted = d.add(exponent, SIXTEENTHS)
    r = d.sub(exponent, d.sub(shifted, SIXTEENTHS))
    bits = d.bits(shifted)
    # The table lacks the sixteenths that the shift brings beside the exponent.
    power = d.float_of(d.iop("add", d.bits(avx512.look_up(d, points.EXP2_WITHOUT_INDEX, bits)), d.iop("shl", bits, 48)))
    return d.fma(power, d.mul(r, d.poly(r, points.EXP2_SHORT)), power)


def power(lane: Lanes, x: V, y: V, domain: Callable[[Lanes, V, V, V], V]) -> V:
    """Computes x^y; `domain` makes x^y of x, y and |x|^y for all operands."""
    magnitude = _in_double(lane, _power, x, y)
    is_rare = lane.either(avx512.is_not_positive_finite(lane, x), avx512.is_not_finite(lane, y))

    def special() -> list[V]:
        one = lane.cmp("oeq", lane.abs(x), 1.0)  # also of infinite y
        return [domain(lane, x, y, lane.select(one, 1.0, magnitude))]

    return choose_rare(lane, is_rare, [magnitude], special)[0]
