"""Divides vectors of integers by floats, as processors have no instruction for it but one that divides two numbers.

The quotient of two floats is rounded, and cut off after. That is the integers' quotient: with n the next whole number above
a / b, which is no whole number itself, n - a / b is 1 / b at least. A float with p bits that is rounded to n is closer to it
than n · 2^-p, so it would take a + b ≥ 2^p for the quotient to become n. Numbers of 8 and 16 bits fit float32 (p = 24) by
that, those of 32 bits float64 (p = 53), and so do 64 bits as long as both are below 2^52, which every vector is tested for.
"""

from __future__ import annotations

from ..ir import Function
from ..values import V, bits, const, element, lanes, number_of, with_element

_SIGNED = {"sdiv": True, "srem": True, "udiv": False, "urem": False}
_LARGEST = 1 << 52


def divided(f: Function, instruction: str, a: V, b: V) -> V:
    """Returns a / b, cut off after the point, or the rest, of vectors of integers. instruction: LLVM's: sdiv, udiv, srem, urem.

    Nothing is assumed that LLVM's instruction does not: no divisor is 0, and no quotient too large. A number by which all are
    divided stays LLVM's, which multiplies by another one, but for 64 bits, of whose products there is no upper half.
    """
    signed = _SIGNED[instruction]
    width = bits(element(a.type))
    known = _known(b, signed)
    by_shifting = known is not None and known > 0 and known & (known - 1) == 0
    if by_shifting or (known is not None and width < 64):
        return f.binary(instruction, a, b)
    quotient = _quotient_of_64_bits(f, a, b, signed) if width == 64 else _quotient(f, a, b, signed, width)
    if instruction.endswith("div"):
        return quotient
    return f.binary("sub", a, f.binary("mul", quotient, b))


def may_divide(f: Function, a: V) -> bool:
    """Returns whether registers of a target convert between the integers of a vector and floats."""
    kind, features = element(a.type), f.module.features
    if lanes(a.type) == 1 or kind not in ("i8", "i16", "i32", "i64"):
        return False
    return ("avx512dq" if kind == "i64" else "avx2") in features


def _known(b: V, signed: bool) -> int | None:
    """Returns the number that all lanes are known to be, of which constants have the bits."""
    number = number_of(b)
    return None if number is None else int(number) if signed else int(number) % (1 << bits(element(b.type)))


def _quotient(f: Function, a: V, b: V, signed: bool, width: int) -> V:
    """Returns the quotient of integers of 8, 16 or 32 bits, whose sum has no more bits than a float's fraction."""
    kind = "double" if width == 32 else "float"
    a, b = (_as_float(f, x, signed, width, kind) for x in (a, b))
    ratio = f.binary("fdiv", a, b)
    if width == 32:
        return f.cast("fptosi" if signed else "fptoui", ratio, with_element(ratio.type, "i32"))
    whole = f.cast("fptosi", ratio, with_element(ratio.type, "i32"))
    return f.cast("trunc", whole, with_element(ratio.type, f"i{width}"))


def _as_float(f: Function, x: V, signed: bool, width: int, kind: str) -> V:
    if width < 32:  # the conversion of 32 bits is one instruction
        x, signed = f.cast("sext" if signed else "zext", x, with_element(x.type, "i32")), True
    return f.cast("sitofp" if signed else "uitofp", x, with_element(x.type, kind))


def _quotient_of_64_bits(f: Function, a: V, b: V, signed: bool) -> V:
    """Returns the quotient by floats if all numbers are small enough, as indices are, else by LLVM's instruction."""
    small = None
    known = _known(b, signed)
    for x in (a, b) if known is None or abs(known) >= _LARGEST else (a,):
        moved = f.binary("add", x, const(_LARGEST, x.type)) if signed else x
        fits = f.icmp("ult", moved, const(2 * _LARGEST if signed else _LARGEST, x.type))
        small = fits if small is None else f.binary("and", small, fits)
    assert small is not None
    quick, real, done = f.label("by_floats"), f.label("divide"), f.label("quotient")
    small = f.op(f"freeze {small.type} {small.operand()}", small.type)  # no branch may depend on a lane that nothing has loaded
    f.cond_branch(f.intrinsic("vector.reduce.and", [small], "i1"), quick, real)
    f.start(quick)
    with f.scope():
        ratio = f.binary("fdiv", *[f.cast("sitofp", x, with_element(x.type, "double")) for x in (a, b)])
        by_floats = f.cast("fptosi", ratio, a.type)
    f.branch(done)
    f.start(real)
    with f.scope():
        exact = f.binary("sdiv" if signed else "udiv", a, b)
    f.branch(done)
    f.start(done)
    return f.phi(a.type, [(by_floats, quick), (exact, real)])


__all__ = ["divided", "may_divide"]
