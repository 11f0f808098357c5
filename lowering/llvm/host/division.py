"""Vectors divided by one number: the IEEE quotient without the division instruction.

A division of 16 floats takes 16 cycles, a multiply-add half of one. With y = 1/b rounded to nearest, two corrections
q ← q + (a - q·b)·y by fused multiply-adds give the correctly rounded quotient (P. Markstein, IBM J. Res. Dev. 34, 1990), as
long as nothing overflows or becomes denormal on the way. That is looked at for every vector; where it does not hold, it is
divided.
"""

from __future__ import annotations

from ..ir import Function, V, const, lanes, vector, with_element

DIVIDE, RECIPROCAL = "joinery.divide", "joinery.reciprocal"
# |b| in [2^-20, 2^40] and |a| in [2^-80, 2^80]: quotient and remainders are normal floats
_SMALLEST_DIVISOR, _LARGEST_DIVISOR = 2.0**-20, 2.0**40
_SMALLEST, _LARGEST = (127 - 80) << 23, (127 + 80) << 23


def reciprocal(f: Function, b: V) -> V:
    """1/b, or NaN for a b that needs a real division."""
    size = f.intrinsic("fabs", [b])
    low, high = (const(x, b.type) for x in (_SMALLEST_DIVISOR, _LARGEST_DIVISOR))
    usable = f.binary("and", f.fcmp("oge", size, low), f.fcmp("ole", size, high))
    return f.select(usable, f.binary("fdiv", const(1.0, b.type), b), const(float("nan"), b.type))


def divide(f: Function, a: V, b: V, y: V) -> V:
    """a/b of float32; y is `reciprocal(b)`. Only a vector divided by one number goes another way than fdiv."""
    n = lanes(a.type)
    if n == 1 or lanes(b.type) > 1:
        return f.binary("fdiv", a, f.splat(b, n))
    divisor, factor = f.splat(b, n), f.splat(y, n)
    whole = with_element(a.type, "i32")
    bits = f.binary("and", f.bitcast(a, whole), const(0x7FFFFFFF, whole))
    is_zero = f.icmp("eq", bits, const(0, whole))
    inside = f.icmp("ult", f.binary("sub", bits, const(_SMALLEST, whole)), const(_LARGEST - _SMALLEST, whole))
    every = f.intrinsic("vector.reduce.and", [f.binary("or", inside, is_zero)], "i1")
    usable = f.binary("and", every, f.fcmp("ord", y, y))
    quick, real, done = f.label("quick"), f.label("divide"), f.label("quotient")
    f.cond_branch(usable, quick, real)
    f.start(quick)
    start = f.binary("fmul", a, factor)
    quotient = start
    for _ in range(2):
        rest = f.fma(f.fneg(quotient), divisor, a)
        quotient = f.fma(rest, factor, quotient)
    quotient = f.select(is_zero, start, quotient)  # keeps the sign of a zero
    f.branch(done)
    f.start(real)
    divided = f.binary("fdiv", a, divisor)
    f.branch(done)
    f.start(done)
    return f.phi(vector("float", n), [(quotient, quick), (divided, real)])
