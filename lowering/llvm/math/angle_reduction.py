"""Reduces large angles modulo pi or pi/2 after Payne and Hanek: only the bits of 1/pi that matter are multiplied.

These paths run when some lane's angle is beyond what Cody and Waite's subtraction handles, so they trade
speed for size.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from .. import ir, values
from ..ir import Function
from ..values import Global, V, i64
from .lanes import Lanes
from .tables import polynomials as table

_TABLE = "joinery.two_over_pi"


def out_of_line(
    fn: Function, name: str, inputs: Sequence[V], outputs: Sequence[str], body: Callable[..., Sequence[V]]
) -> list[V]:
    """Calls `body(function, *inputs)` as a function of its own: rare code is emitted once per module and kept out of loops.

    Values travel through memory, so that nothing depends on how a target passes vectors. `cold` tells
    LLVM's register allocator that the calling block is rare; `name` must determine body and types.
    """
    module = fn.module
    if name not in module.functions:
        types = [*(v.type for v in inputs), *outputs]
        callee = Function(
            module,
            name,
            [("ptr noalias", f"p{i}") for i in range(len(types))],
            attributes="noinline cold nounwind",
            linkage="internal",
        )
        loaded = [callee.load(t, p, 8) for t, p in zip(types, callee.params[: len(inputs)], strict=False)]
        for value, pointer in zip(body(callee, *loaded), callee.params[len(inputs) :], strict=True):
            callee.store(value, pointer, 8)
        callee.ret()
        module.add(callee)
    slots = [fn.alloca(t) for t in (*(v.type for v in inputs), *outputs)]
    for value, slot in zip(inputs, slots, strict=False):
        fn.store(value, slot, 8)
    fn.call(name, "void", slots)
    return [fn.load(t, slot, 8) for t, slot in zip(outputs, slots[len(inputs) :], strict=True)]


def choose_rare(lane: Lanes, is_rare: V, usual: Sequence[V], compute: Callable[[], Sequence[V]]) -> list[V]:
    """Returns `usual` values, replaced by those of `compute()` in the lanes of `is_rare`, if there are any."""
    fn = lane.fn
    before, rare, done = fn.block, fn.label("rare"), fn.label("common")
    fn.cond_branch(lane.any(is_rare), rare, done)
    fn.start(rare)
    chosen = [fn.select(is_rare, new, old) for new, old in zip(compute(), usual, strict=True)]
    rare_end = fn.block
    fn.branch(done)
    fn.start(done)
    return [fn.phi(v.type, [(v, before), (c, rare_end)]) for v, c in zip(usual, chosen, strict=True)]


def large_angle_f32(lane: Lanes, x: V, quarter_turn: bool, half_pi: bool = False) -> tuple[V, V]:
    """Calls `_large_angle_f32` out of line."""
    name = f"joinery.large_angle.{'half_pi' if half_pi else 'pi'}{'.quarter' if quarter_turn else ''}.{ir.mangle(x.type)}"
    outputs = [lane.wide().type, lane.integer]
    r, odd = out_of_line(
        lane.fn,
        name,
        [x],
        outputs,
        lambda fn, v: _large_angle_f32(Lanes(fn, v.type), v, quarter_turn, half_pi),
    )
    return r, odd


def large_angle_f64(lane: Lanes, x: V) -> tuple[V, V, V]:
    """Calls `_large_angle_f64` out of line."""
    r, r_low, q = out_of_line(
        lane.fn,
        f"joinery.large_angle.{ir.mangle(x.type)}",
        [x],
        [lane.type, lane.type, lane.integer],
        lambda fn, v: _large_angle_f64(Lanes(fn, v.type), v),
    )
    return r, r_low, q


def _large_angle_f32(lane: Lanes, x: V, quarter_turn: bool, half_pi: bool = False) -> tuple[V, V]:
    """Splits x (+ pi/2 if `quarter_turn`) = q period + r for float32 |x| >= 2^16, with period pi, or pi/2 if `half_pi`.

    Returns r as double lanes, |r| <= period/2, and the lowest bit of q as lanes of i32, arranged so that
    for period pi sin(x) = (-1)^q sin(r), with x's sign folded into r (into q not at all: -q has the same
    lowest bit). Non-finite x give r = NaN. All in vectors: words of 1/pi are picked by selects, since a
    lane needs one of five windows.
    """
    fn, wide = lane.fn, lane.wide()
    i64 = wide.integer
    bits = lane.iop("and", lane.bits(x), 0x7FFFFFFF)
    exponent = lane.iop("lshr", bits, 23)
    significand = fn.cast("zext", lane.iop("or", lane.iop("and", bits, 0x7FFFFF), 0x800000), i64)
    # x/pi = significand * 2^(exponent-150) / pi; bits of 1/pi before `position` contribute multiples of 2.
    position = lane.iop("sub", exponent, 151 - 32)
    index, shift = lane.iop("lshr", position, 5), lane.iop("and", position, 31)
    at = [fn.icmp("eq", index, lane.ci(i)) for i in range(1, 5)]
    digits = []
    for j in range(4):
        digit = lane.ci(table.INVERSE_PI_WORDS[j])
        for i, here in enumerate(at, start=1):
            digit = fn.select(here, lane.ci(table.INVERSE_PI_WORDS[i + j]), digit)
        digits.append(digit)
    window = [
        fn.cast("zext", fn.intrinsic("fshl", [high, low, shift]), i64)
        for high, low in itertools.pairwise(digits)
    ]
    first, second, third = (wide.iop("mul", significand, part) for part in window)
    # |x|/pi modulo 2, in units of 2^-63.
    fraction = wide.iop("add", wide.iop("shl", first, 32), wide.iop("add", second, wide.iop("lshr", third, 32)))
    if half_pi:
        fraction = wide.iop("shl", fraction, 1)
    if quarter_turn:
        fraction = wide.iop("add", fraction, 1 << 62)
    q = wide.iop("lshr", wide.iop("add", fraction, 1 << 62), 63)
    rest = fn.cast("sitofp", wide.iop("sub", fraction, wide.iop("shl", q, 63)), wide.type)
    r = wide.mul(rest, (math.pi / 2 if half_pi else math.pi) * 2.0**-63)
    if not quarter_turn:
        r = fn.select(fn.icmp("slt", lane.bits(x), lane.ci(0)), wide.neg(r), r)
    finite = fn.icmp("ult", bits, lane.ci(0x7F800000))
    return fn.select(finite, r, wide.c(math.nan)), fn.cast("trunc", q, lane.integer)


def _large_angle_f64(lane: Lanes, x: V) -> tuple[V, V, V]:
    """Splits x = q pi/2 + r for float64 |x| >= 2^30 into (high part of r, low part, q modulo 4 as i64 lanes).

    r = NaN if x is not finite. A loop over the lanes with 64 x 192 bit products: 2^-61 is about as close as a double comes to a
    multiple of pi/2, and 126 fraction bits leave 65 of them. Lanes below 2^30 get finite, meaningless values.
    """
    fn = lane.fn
    s = Lanes(fn, "double")
    digits = ", ".join(f"i64 {digit - (1 << 64) if digit >> 63 else digit}" for digit in table.TWO_OVER_PI_WORDS)
    count = len(table.TWO_OVER_PI_WORDS)
    fn.module.globals.setdefault(
        _TABLE, f"@{_TABLE} = private unnamed_addr constant [{count} x i64] [{digits}], align 16"
    )
    buffers = [fn.alloca(lane.type) for _ in range(3)]
    quadrants = fn.alloca(lane.integer)
    fn.store(x, buffers[0], 8)
    with fn.loop(0, lane.n, at_least_once=True) as loop:
        pointers = [fn.gep(buffer, loop.index, "double") for buffer in buffers]
        value = fn.load("double", pointers[0], 8)
        bits = s.bits(value)
        exponent = s.iop("and", s.iop("lshr", bits, 52), 0x7FF)
        exponent = fn.smin(fn.smax(exponent, i64(1053)), i64(2046))
        mantissa = s.iop("or", s.iop("and", bits, (1 << 52) - 1), 1 << 52)
        position = s.iop("sub", exponent, 1077 - 64)
        index, shift = s.iop("lshr", position, 6), s.iop("and", position, 63)
        base = fn.gep(Global(_TABLE), index, "i64")
        loaded = [fn.load("i64", fn.gep(base, i, "i64"), 8) for i in range(4)]
        window = [fn.intrinsic("fshl", [high, low, shift]) for high, low in itertools.pairwise(loaded)]
        # |x| 2/pi modulo 4, in units of 2^-126: the top 128 of 192 bits.
        m, second, third = (fn.cast("zext", v, "i128") for v in (mantissa, window[1], window[2]))
        top = fn.binary(
            "shl", fn.cast("zext", s.iop("mul", mantissa, window[0]), "i128"), values.const(64, "i128")
        )
        low = fn.binary("lshr", fn.mul(m, third), values.const(64, "i128"))
        fraction = fn.add(fn.add(top, fn.mul(m, second)), low)
        q = fn.binary("lshr", fn.add(fraction, values.const(1 << 125, "i128")), values.const(126, "i128"))
        rest = fn.sub(fraction, fn.binary("shl", q, values.const(126, "i128")))
        # The signed 128-bit fraction as a double pair, in units of 2^-62.
        whole = fn.cast("trunc", fn.binary("ashr", rest, values.const(64, "i128")), "i64")
        high = fn.cast("sitofp", whole, "double")
        left = fn.cast("sitofp", s.iop("sub", whole, fn.cast("fptosi", high, "i64")), "double")
        tail = fn.cast("uitofp", fn.cast("trunc", rest, "i64"), "double")
        high, left = s.fast_two_sum(high, s.fma(tail, 2.0**-64, left))
        scale_high, scale_low = (part * 2.0**-62 for part in table.HALF_PI_64[:2])
        product, error = s.two_product(high, scale_high)
        error = s.fma(high, scale_low, s.fma(left, scale_high, error))
        negative = fn.icmp("slt", bits, i64(0))
        finite = s.cmp("one", s.abs(value), math.inf)
        fn.store(s.select(finite, s.select(negative, s.neg(product), product), math.nan), pointers[1], 8)
        fn.store(s.select(negative, s.neg(error), error), pointers[2], 8)
        quadrant = fn.cast("trunc", q, "i64")
        quadrant = fn.select(negative, s.iop("sub", 0, quadrant), quadrant)
        fn.store(s.iop("and", quadrant, 3), fn.gep(quadrants, loop.index, "i64"), 8)
    r_high, r_low = (fn.load(lane.type, buffer, 8) for buffer in buffers[1:])
    return r_high, r_low, fn.load(lane.integer, quadrants, 8)
