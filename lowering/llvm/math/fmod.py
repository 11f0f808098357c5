"""Computes the floating remainder (C's fmod, `arith.remf`): exact, with the sign of the dividend.

Quotients below 2^53 take a division and a fused multiply-add in double. Lanes with larger quotients, for
which no rounded quotient is good enough, run an integer long division in a loop over the lanes.
"""

from __future__ import annotations

import math

from .. import ir, values
from ..ir import Function
from ..values import V, i64
from .angle_reduction import choose_rare, out_of_line
from .lanes import Lanes
from .recipes import recipe

# 64 - 53: how far a remainder below a 53-bit divisor can be shifted in 64 bits.
_STEP = 11


@recipe("fmod", "float", operands=2, ops=())
def fmod_f32(lane: Lanes, x: V, y: V) -> V:
    wide = lane.wide()
    return lane.narrow(fmod_f64(wide, lane.widen(x), lane.widen(y)))  # exact: the remainder is a float


@recipe("fmod", "double")
def fmod_f64(lane: Lanes, x: V, y: V) -> V:
    fn = lane.fn
    a, b = lane.abs(x), lane.abs(y)
    ratio = lane.div(a, b)
    quotient = fn.intrinsic("trunc", [ratio])
    rest = lane.fma(lane.neg(quotient), b, a)
    # The division may have rounded up to the next integer.
    rest = lane.select(lane.cmp("olt", rest, 0.0), lane.add(rest, b), rest)
    rest = lane.select(lane.both(lane.cmp("oeq", b, math.inf), lane.cmp("olt", a, math.inf)), a, rest)
    far = lane.both(lane.cmp("oge", ratio, 2.0**53), lane.cmp("olt", a, math.inf))
    far = lane.both(far, lane.cmp("ogt", b, 0.0))
    dividend, divisor = lane.select(far, a, 0.0), lane.select(far, b, 1.0)

    def divide() -> list[V]:
        name = f"joinery.long_division.{ir.mangle(lane.type)}"
        return out_of_line(fn, name, [dividend, divisor], [lane.type], _long_division)

    (rest,) = choose_rare(lane, far, [rest], divide)
    return lane.copysign(rest, x)


def _long_division(fn: Function, a: V, b: V) -> list[V]:
    """Computes a mod b for finite a >= 0 and b > 0."""
    s = Lanes(fn, "double")
    dividends, divisors, rests = fn.alloca(a.type), fn.alloca(a.type), fn.alloca(a.type)
    fn.store(a, dividends, 8)
    fn.store(b, divisors, 8)

    def decode(value: V) -> tuple[V, V]:
        """Returns (m, e) with value = m 2^(e - 1075); e is at least 1."""
        bits = s.bits(value)
        exponent = s.iop("lshr", bits, 52)
        fraction = s.iop("and", bits, (1 << 52) - 1)
        normal = fn.icmp("ne", exponent, i64(0))
        mantissa = s.iop("or", fraction, s.iop("shl", fn.cast("zext", normal, "i64"), 52))
        return mantissa, fn.smax(exponent, i64(1))

    with fn.loop(0, values.lanes(a.type), at_least_once=True) as loop:
        m, e = decode(fn.load("double", fn.gep(dividends, loop.index, "double"), 8))
        n, bottom = decode(fn.load("double", fn.gep(divisors, loop.index, "double"), 8))
        steps = fn.smax(s.iop("sub", e, bottom), i64(0))
        first = s.iop("urem", m, n)
        with fn.loop(0, steps, _STEP, carry=[first]) as inner:
            shift = fn.smin(s.iop("sub", steps, inner.index), i64(_STEP))
            inner.next[0] = s.iop("urem", fn.binary("shl", inner.values[0], shift), n)
        rest = fn.cast("uitofp", inner.results[0], "double")
        # rest 2^(bottom - 1075) is a double; the power need not be, so it goes in two factors.
        power = s.iop("sub", bottom, 1075)
        half = s.iop("ashr", power, 1)
        for part in (half, s.iop("sub", power, half)):
            rest = s.mul(rest, s.float_of(s.iop("shl", s.iop("add", part, 1023), 52)))
        fn.store(rest, fn.gep(rests, loop.index, "double"), 8)
    return [fn.load(a.type, rests, 8)]
