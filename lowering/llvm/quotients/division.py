"""Divides vectors by one number: the IEEE quotient without the division instruction.

A division of 16 floats takes 16 cycles, a multiply-add half of one. With y = 1/b rounded to nearest and q = a·y rounded, the
correction q - (q·b - a)·y by two fused multiply-adds gives the correctly rounded quotient (P. Markstein, IBM J. Res. Dev. 34,
1990), as long as nothing overflows or becomes denormal on the way. Every vector is tested for that; where it does not hold,
the vector is divided. Taken from q·b - a instead of a - q·b, the correction of an exact quotient is -0 for a positive divisor,
so that a quotient of -0 keeps its sign. With AVX2 a division of 8 floats takes 4 or 5 cycles, since Skylake and Zen, no more
than the products and the test: only quotients that need none are products there.

That one correction is enough: q is off by less than 1.5 units in the last place (ulp), so the sum before its rounding by less
than 1.5·2^-24 ulp, and for 24-bit integers A, B the quotient can be that close to the middle M of two floats only if
|A·2^k - M·B| ≤ 2. All those quotients, for every B, have been computed.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Function
from ..values import V, const, lanes, vector, with_element

DIVIDE, RECIPROCAL = "joinery.divide", "joinery.reciprocal"
ROUNDED = "joinery.rounded"
"""Of a quotient that is rounded to a whole number, and of its reciprocal, which is NaN for negative divisors.

Small dividends, whose quotient may be another small number, give 0 with their own sign all the same.
"""
# |b| in [2^-20, 2^40] and |a| from 2^-80 on: quotient and remainder are normal floats, or overflow
_SMALLEST_DIVISOR, _LARGEST_DIVISOR = 2.0**-20, 2.0**40
_SMALLEST = (127 - 80) << 24  # without the sign, as bits shifted left by one

COARSE = "joinery.coarse"
"""Of a quotient whose dividends are 0 or at least 2^-80, and at most 2^80, where its reciprocal is not NaN.

Of a reciprocal: it is NaN for negative divisors, and where one of the operands after the first is not 0 and too small or large.
"""
_SMALLEST_TERM, _LARGEST_TERM = 2.0**-50, 2.0**40
FACTORS = "joinery.factors"
"""Of a quotient that is a product with one number, or fma(a, h, a · l) with two."""

BOUNDED = "joinery.bounded"
"""Of a quotient, rounded next, of a dividend that is NaN or not too large by a divisor that is known and usable."""


def is_usable(divisor: float) -> bool:
    """Returns whether quotients by a positive divisor need no real division, unless dividends are too small or large."""
    return _SMALLEST_DIVISOR <= divisor <= _LARGEST_DIVISOR


def reciprocal(f: Function, b: V, positive: bool = False, terms: Sequence[V] = ()) -> V:
    """Returns 1/b, or NaN for a b that needs a real division. positive: negative ones do. terms: as `COARSE` has them."""

    def is_between(x: V, low: float, high: float) -> V:
        return f.binary("and", f.fcmp("oge", x, const(low, b.type)), f.fcmp("ole", x, const(high, b.type)))

    usable = is_between(b if positive else f.intrinsic("fabs", [b]), _SMALLEST_DIVISOR, _LARGEST_DIVISOR)
    for term in terms:
        inside = is_between(f.intrinsic("fabs", [term]), _SMALLEST_TERM, _LARGEST_TERM)
        usable = f.binary("and", usable, f.binary("or", inside, f.fcmp("oeq", term, const(0.0, b.type))))
    return f.select(usable, f.binary("fdiv", const(1.0, b.type), b), const(float("nan"), b.type))


def invariants(f: Function, b: V, y: V, n: int) -> tuple[V, V, V, V]:
    """Returns what all divisions of `n` lanes by b share: b, y, -y, and what is added to the sizes of dividends, in every lane.

    Zeros become the largest size by that, and so are divided quickly, unless b is negative: then the correction would lose
    the sign of their quotients.
    """
    least = f.binary("xor", f.binary("ashr", f.bitcast(y, "i32"), const(31, "i32")), const(-1, "i32"))
    return f.splat(b, n), f.splat(y, n), f.splat(f.fneg(y), n), f.splat(least, n)


def is_usable_at_all(f: Function, y: V) -> V:
    """Returns whether a reciprocal is a number."""
    return f.fcmp("ord", y, y)


def by_factors(f: Function, a: V, factors: Sequence[float]) -> V:
    """Divides by a number of which these are the factors; see `FACTORS`."""
    h, *rest = (const(factor, a.type) for factor in factors)
    return f.fma(a, h, f.binary("fmul", a, rest[0])) if rest else f.binary("fmul", a, h)


def divide(
    f: Function, a: V, b: V, y: V, not_negative: bool = False, rounded: bool = False, bounded: bool = False,
    coarse: bool = False,
) -> V:  # fmt: skip
    """Divides float32 a by b, where y is `reciprocal(b)`; only vectors divided by one number avoid the fdiv instruction.

    The quotients are computed before they are looked at. Dividends that are too large, infinite or NaN make NaN of them, so
    that what is tested beforehand are small dividends. All registers of a vector share the branch. not_negative: neither is a.
    rounded: the quotient is rounded to a whole number next (`ROUNDED`), and no dividend is too small. bounded: nor too large.
    coarse: none is either unless y is NaN (`COARSE`).
    """
    n = lanes(a.type)
    is_short = "avx2" in f.module.features and "avx512f" not in f.module.features
    if n == 1 or lanes(b.type) > 1 or ((is_short or f.divides_beside) and not bounded and not coarse):
        return f.binary("fdiv", a, f.splat(b, n))
    divisor, factor, opposite, least = invariants(f, b, y, n)
    whole = with_element(a.type, "i32")
    bits = f.bitcast(a, whole)
    size = f.binary("add", bits, const(-1, whole)) if not_negative else f.binary("add", f.binary("add", bits, bits), least)
    start = f.binary("fmul", a, factor)
    quotient = f.fma(f.fma(start, divisor, f.fneg(a)), opposite, start)
    if bounded:
        return quotient
    if coarse:
        return _unless(f, is_usable_at_all(f, y), quotient, a, divisor)
    each = min(n, 16 if "avx512f" in f.module.features else 8 if "avx2" in f.module.features else 4)
    parts = [range(first, first + each) for first in range(0, n, each)]
    sizes, found = ([v if len(parts) == 1 else f.shuffle(v, v, part) for part in parts] for v in (size, quotient))
    usable = None
    for one, other in zip(found[::2], found[1::2] or found, strict=False):
        usable = _and(f, usable, f.fcmp("ord", one, other))
    smallest = const((_SMALLEST >> not_negative) - 1, vector("i32", each))
    for part in [] if rounded else sizes:
        usable = _and(f, usable, f.icmp("uge", part, smallest))
    assert usable is not None
    return _unless(f, f.intrinsic("vector.reduce.and", [usable], "i1"), quotient, a, divisor)


def _unless(f: Function, usable: V, quotient: V, a: V, divisor: V) -> V:
    """Emits the quotient where it is usable, else divides."""
    quick, real, done = f.label("quick"), f.label("divide"), f.label("quotient")
    f.branch(quick)
    f.start(quick)
    f.cond_branch(usable, done, real)
    f.start(real)
    divided = f.binary("fdiv", a, divisor)
    f.branch(done)
    f.start(done)
    return f.phi(a.type, [(quotient, quick), (divided, real)])


def _and(f: Function, so_far: V | None, condition: V) -> V:
    return condition if so_far is None else f.binary("and", so_far, condition)


def divide_in_range(f: Function, a: V, b: V) -> V:
    """Divides float32 registers by one approximate reciprocal and one correction, without a branch (PTX).

    It takes 0 <= a <= 2 and 1 <= b <= 2^24, or 1/b with 2^-40 <= b <= 2^120. The result is the IEEE quotient from
    2^-100 on (all that were tried); below, where the remainder is denormal, it is that or one next to it, and off by
    up to 2^-148 where it is denormal itself.
    """
    f.module.declare("llvm.nvvm.rcp.approx.ftz.f", b.type, [b.type])
    y = f.pure(f"call {b.type} @llvm.nvvm.rcp.approx.ftz.f({b.type} {b.operand()})", b.type)
    start = f.binary("fmul", a, y)
    return f.fma(f.fma(f.fneg(start), b, a), y, start)


_AT_ONCE = 4
"""The number of divisions in an iteration of the loop of real divisions."""


def divide_all(f: Function, dividends: Sequence[V], divisor: V) -> list[V]:
    """Divides float32 registers by one number: IEEE quotients, for targets on which a division is a long sequence.

    Taken from the remainder q·b - a instead of a - q·b, the correction of an exact quotient is -0 for a positive divisor, so
    that a quotient of -0 keeps its sign. Negative divisors are divided for real, like everything outside the range of
    `divide`: in a loop over a few quotients at a time, which is short code for a rare case.
    """
    low, high = const(_SMALLEST_DIVISOR, "float"), const(_LARGEST_DIVISOR, "float")
    in_range = f.binary("and", f.fcmp("oge", divisor, low), f.fcmp("ole", divisor, high))
    inverse = f.binary("fdiv", const(1.0, "float"), divisor)
    opposite = f.fneg(inverse)

    def size(a: V) -> V:
        return f.binary("add", f.binary("shl", f.bitcast(a, "i32"), const(1, "i32")), const(-1, "i32"))  # largest for zero

    smallest, largest = size(dividends[0]), f.intrinsic("fabs", [dividends[0]])
    for a in dividends[1:]:
        smallest = f.intrinsic("umin", [smallest, size(a)])
        largest = f.intrinsic("maximum", [largest, f.intrinsic("fabs", [a])])
    large_enough = f.icmp("uge", smallest, const(_SMALLEST - 1, "i32"))
    small_enough = f.fcmp("ole", largest, const(2.0**80, "float"))
    usable = f.binary("and", in_range, f.binary("and", large_enough, small_enough))
    quick, really, loop, done = (f.label(name) for name in ("quick", "divide", "turn", "quotient"))
    f.cond_branch(usable, quick, really)
    f.start(quick)
    quotients = []
    for a in dividends:
        start = f.binary("fmul", a, inverse)
        quotients.append(f.fma(f.fma(start, divisor, f.fneg(a)), opposite, start))
    f.branch(done)
    f.start(really)
    at_once = next(n for n in (_AT_ONCE, 2, 1) if len(dividends) % n == 0)
    iterations = len(dividends) // at_once
    carried = [V(f.fresh("c"), "float") for _ in dividends]
    iteration = V(f.fresh("i"), "i32")
    f.branch(loop)
    f.start(loop)
    slot = len(f.lines)
    f.lines.append("")
    divided = [f.binary("fdiv", a, divisor) for a in carried[:at_once]]
    after = [*carried[at_once:], *divided]
    following = f.binary("add", iteration, const(1, "i32"))
    again = f.icmp("ult", following, const(iterations, "i32"))
    f.emit(f"br i1 {again.operand()}, label %{loop}, label %{done}, !llvm.loop !{f.module.metadata.no_unrolling()}")
    phis = [f"  {iteration.operand()} = phi i32 [ 0, %{really} ], [ {following.operand()}, %{loop} ]"]
    for own, first, new in zip(carried, dividends, after, strict=True):
        phis.append(f"  {own.operand()} = phi float [ {first.operand()}, %{really} ], [ {new.operand()}, %{loop} ]")
    f.lines[slot] = "\n".join(phis)
    f.start(done)
    return [f.phi("float", [(q, quick), (real, loop)]) for q, real in zip(quotients, after, strict=True)]
