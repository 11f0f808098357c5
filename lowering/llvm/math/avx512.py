"""Instructions of AVX-512 that elementary functions are made of: tables in registers, powers of two, parts of floats.

All take lanes that fill one register; `by_register` cuts other vectors into such.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import values
from ..values import V, const, i32
from . import registers
from .angle_reduction import choose_rare
from .lanes import Lanes, Number
from .tables import of_16, of_32

FEATURES = frozenset({"avx512f", "avx512dq", "avx512bw", "avx512vl"})
_ROUNDED_BY_MODE = 4
"""The rounding mode of an instruction that says: the mode that the processor is in."""
_ROUNDED_DOWN = 9
_WITHOUT_EXCEPTIONS = 8
"""Rounds to integers, to nearest even."""
_SUFFIXES = {"float": "ps.512", "double": "pd.512"}


def serves(lane: Lanes) -> bool:
    """Returns whether functions may be made of these instructions, whose results are not those of other targets."""
    return not lane.portable and lane.fn.module.features >= FEATURES


def by_register(lane: Lanes, emit: Callable[..., V], *operands: V) -> V:
    """Returns `emit(lanes of one register, *operands)` for vectors of any length."""
    return registers.by_register(lane, 512, emit, *operands)


def _all(lane: Lanes) -> V:
    return const(-1, f"i{lane.n}")


def _name(lane: Lanes, name: str) -> str:
    return f"llvm.x86.avx512.{name}.{_SUFFIXES[lane.element]}"


def look_up(lane: Lanes, numbers: Sequence[float], index: V) -> V:
    """Returns the number at each index, of which the lowest bits count: as many numbers as one register has or two."""
    parts = registers.table(lane, numbers)
    if len(parts) == 1:
        name = "permvar.df.512" if lane.width == 64 else "permvar.sf.512"
        return lane.fn.target_intrinsic(f"llvm.x86.avx512.{name}", [parts[0], index], lane.type)
    return lane.fn.target_intrinsic(_name(lane, "vpermi2var"), [parts[0], index, parts[1]], lane.type)


def scale(lane: Lanes, a: V, exponent: V, where: V | None = None) -> V:
    """Computes a · 2^⌊exponent⌋, rounded once, with overflow to infinity; 0 in lanes outside of the mask."""
    mask = _all(lane) if where is None else lane.fn.bitcast(where, f"i{lane.n}")
    operands = [a, exponent, values.zero(lane.type), mask, i32(_ROUNDED_BY_MODE)]
    return lane.fn.target_intrinsic(_name(lane, "mask.scalef"), operands, lane.type)


def beyond_integers(lane: Lanes, a: V) -> V:
    """Returns a less the integer next to it; 0 of infinity."""
    operands = [a, i32(_WITHOUT_EXCEPTIONS), values.zero(lane.type), _all(lane), i32(_ROUNDED_BY_MODE)]
    return lane.fn.target_intrinsic(_name(lane, "mask.reduce"), operands, lane.type)


def _estimate_rsqrt(lane: Lanes, x: V, where: V | None = None) -> V:
    """Returns 1/√x with a relative error of at most 2^-14, infinity of 0; 0 in lanes outside of the mask."""
    mask = _all(lane) if where is None else lane.fn.bitcast(where, f"i{lane.n}")
    return lane.fn.target_intrinsic(_name(lane, "rsqrt14"), [x, values.zero(lane.type), mask], lane.type)


def fma_down(lane: Lanes, a: Number, b: Number, c: Number) -> V:
    """Computes a * b + c, rounded down."""
    operands = [lane.c(a), lane.c(b), lane.c(c), i32(_ROUNDED_DOWN)]
    return lane.fn.target_intrinsic(_name(lane, "vfmadd"), operands, lane.type)


_ROOT_RANGE = {"float": (0x0D800000, 0x7F800000), "double": (0x0780000000000000, 0x7FF0000000000000)}
"""Bits of 2^-100 and 2^-903, from which on residuals of squares are exact, and of infinity."""


def square_root(lane: Lanes, x: V) -> V:
    """Computes √x, rounded correctly, by the shortest way that the target has."""
    is_estimated = serves(lane) and lane.n * lane.width >= 512 and not lane.fn.divides_beside
    return by_register(lane, _sqrt, x) if is_estimated else lane.sqrt(x)


def _sqrt(lane: Lanes, x: V) -> V:
    """Computes √x, rounded correctly.

    Heron's step from an estimate, rounded down, is off by less than half a unit before it is rounded: with g = √x (1 + a) and
    h = (1 + b) / 2√x, g + (x - g²) h is √x (1 - a²/2 + ab), where a and b are below 2^-13.9 for floats, and after one of
    Newton's steps below 2^-27.4 for doubles. So the root is that number g or the next one, g', and it is the next one where
    x > g g', which is g and half a unit, squared, but for less than x can differ by (Tuckerman's test).
    """
    fn = lane.fn
    estimate = _estimate_rsqrt(lane, x)
    g, h = lane.mul(x, estimate), lane.mul(estimate, 0.5)
    if lane.width == 64:
        rest = lane.fma(lane.neg(g), h, 0.5)
        g, h = lane.fma(g, rest, g), lane.fma(h, rest, h)
    low = fma_down(lane, lane.fma(lane.neg(g), g, x), h, g)
    high = lane.float_of(lane.iop("add", lane.bits(low), 1))
    root = lane.select(lane.cmp("ogt", lane.fma(lane.neg(low), high, x), 0.0), high, low)
    least, infinity = _ROOT_RANGE[lane.element]
    above = lane.iop("sub", lane.bits(x), least)
    is_rare = fn.icmp("uge", above, lane.ci(infinity - least))  # zeros, negative and tiny numbers, infinity, NaN
    return choose_rare(lane, is_rare, [root], lambda: [lane.sqrt(x)])[0]


def _exponent(lane: Lanes, x: V) -> V:
    """Returns ⌊log2 |x|⌋ as a float, of denormal numbers too; -infinity of 0."""
    name = _name(lane, "mask.getexp")
    return lane.fn.target_intrinsic(name, [x, values.zero(lane.type), _all(lane), i32(_ROUNDED_BY_MODE)], lane.type)


_POSITIVE = 4
def _mantissa(lane: Lanes, x: V) -> V:
    """Returns |x| · 2^-exponent, which is in [1, 2); 1 of 0 and infinity."""
    operands = [x, i32(_POSITIVE), values.zero(lane.type), _all(lane), i32(_ROUNDED_BY_MODE)]
    return lane.fn.target_intrinsic(_name(lane, "mask.getmant"), operands, lane.type)


def parts_for_log(lane: Lanes, x: V) -> tuple[V, V, V, V]:
    """Returns (k, m, c, index) with |x| = 2^k m and c near 1/m, from a table of 16 doubles or 32 floats."""
    k, m = _exponent(lane, x), _mantissa(lane, x)
    inverses, shift = (of_16.LOG_INVERSES, 48) if lane.width == 64 else (of_32.LOG_INVERSES, 18)
    index = lane.iop("lshr", lane.bits(m), shift)
    return k, m, look_up(lane, inverses, index), index


_LOG_RESPONSES = 0x03530422
"""For NaN, signalling NaN, 0, 1, -infinity, infinity, negative and positive numbers, from the lowest four bits on: 0 keeps the
result, 2 is the operand as a NaN, 3 NaN, 4 -infinity, 5 infinity."""


def log_domain(lane: Lanes, y: V, x: V) -> V:
    """Returns y for finite x > 0, -infinity of 0, infinity of itself, NaN of negative numbers and NaN."""
    operands = [y, x, const(_LOG_RESPONSES, lane.integer), i32(0), _all(lane), i32(_ROUNDED_BY_MODE)]
    return lane.fn.target_intrinsic(_name(lane, "mask.fixupimm"), operands, lane.type)


_NAN, _ZERO, _INFINITY, _NEGATIVE = 0x81, 0x06, 0x18, 0x50


def _is_of(lane: Lanes, x: V, classes: int) -> V:
    return lane.fn.target_intrinsic(_name(lane, "fpclass"), [x, i32(classes)], lane.mask)


def is_not_positive_finite(lane: Lanes, x: V) -> V:
    return _is_of(lane, x, _NAN | _ZERO | _INFINITY | _NEGATIVE)


def is_not_finite(lane: Lanes, x: V) -> V:
    return _is_of(lane, x, _NAN | _INFINITY)
