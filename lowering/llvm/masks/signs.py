"""Makes masks of a bit of each lane, in the one form that LLVM 22 compiles correctly for AVX-512.

Where a mask is the sign of each lane (x < 0, or the lowest bit of x, shifted there), LLVM makes it with `vpmov*2m`. Its pass
that shortens encodings folds that into `vmovmsk*` where the mask goes to a general register, as masks of gathers and scatters
of few or narrow lanes do; but `vmovmsk*` has no encoding for the registers 16 to 31, and then reads another register. A
test of the bit (`vptestm`) is as short, and nothing is folded into it.
"""

from __future__ import annotations

from ..ir import Function
from ..values import V, bits, const, element, is_float, lanes, number_of, with_element, zero

_SWAPPED = {"slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle", "ult": "ugt", "ule": "uge", "ugt": "ult", "uge": "ule"}
_NEGATIVE = {("slt", "zero"), ("sle", "minus one"), ("uge", "least"), ("ugt", "largest")}
_NON_NEGATIVE = {("sge", "zero"), ("sgt", "minus one"), ("ult", "least"), ("ule", "largest")}


def lowest_bit(f: Function, x: V) -> V:
    """Returns the lowest bit of an integer, or of each lane, as i1."""
    return _bit(f, x, 1, "ne") if _concerns(f, x) else f.cast("trunc", x, with_element(x.type, "i1"))


def compared(f: Function, predicate: str, a: V, b: V) -> V:
    """Compares as `icmp` does; a comparison with a constant that tests the sign becomes a test of that bit."""
    if _concerns(f, a):
        left = _named(a)
        other = _named(b) if left is None else left
        test = (predicate if left is None else _SWAPPED.get(predicate, predicate), other)
        if test in _NEGATIVE or test in _NON_NEGATIVE:
            sign = -1 << (bits(element(a.type)) - 1)
            return _bit(f, b if left is not None else a, sign, "ne" if test in _NEGATIVE else "eq")
    return f.icmp(predicate, a, b)


def _concerns(f: Function, x: V) -> bool:
    """Whether the fold can occur: on AVX-512, for integer vectors of up to 256 bits."""
    if "avx512f" not in f.module.features or lanes(x.type) == 1 or is_float(x.type):
        return False
    return element(x.type) not in ("i1", "ptr") and lanes(x.type) * bits(element(x.type)) <= 256


def _bit(f: Function, x: V, mask: int, predicate: str) -> V:
    return f.icmp(predicate, f.binary("and", x, const(mask, x.type)), zero(x.type))


def _named(x: V) -> str | None:
    """Names the constant that an operand is, if a comparison with it can test the sign."""
    least = -1 << (bits(element(x.type)) - 1)
    names = {0: "zero", -1: "minus one", least: "least", -1 - least: "largest"}
    number = number_of(x)
    return None if number is None else names.get(int(number))
