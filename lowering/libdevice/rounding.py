"""Expands arithmetic with a direction to block operations: toward zero (`rz`), down (`rm`) and up (`rp`).

The nearest result is computed first, then the sign of what it missed, and the result steps to its neighbour where the
direction asks for it. float32 is computed in float64, where what is missed is exact; in float64 it comes from
error-free transformations (Dekker, Knuth), on scaled operands where they would underflow.
"""

from __future__ import annotations

from xdsl.ir import Attribute

from ..tt import types as t
from ..tt.transforms.expression import Expr, where
from .fused import remainder_sign

MODES = ("rn", "rz", "rm", "rp")


def _step(r: Expr, below: Expr, above: Expr, mode: str) -> Expr:
    """Returns `r` or its neighbour in the direction. `below` (`above`): the exact result lies below (above) r."""
    return _step_bits(r, r, below, above, mode).as_float()


def _step_bits(stored: Expr, r: Expr, below: Expr, above: Expr, mode: str) -> Expr:
    """Does what `_step` does for a float that is `stored` in another type than the one it is compared in."""
    bits = stored.bits()
    sign = bits.like(-(1 << (stored.width - 1)))
    if mode == "rz":
        inward = (r > 0.0) & below | (r < 0.0) & above
        return where(inward, bits - 1, bits)
    if mode == "rm":
        lower = where(r.eq(0.0), sign | 1, where(r > 0.0, bits - 1, bits + 1))
        return where(below, lower, bits)
    higher = where(r.eq(0.0), 1, where(r < 0.0, bits - 1, bits + 1))
    return where(above, higher, bits)


def _two_sum(x: Expr, y: Expr) -> tuple[Expr, Expr]:
    total = x + y
    shadow = total - x
    return total, (x - (total - shadow)) + (y - shadow)


def _from_wide(total: Expr, error: Expr | None, mode: str) -> Expr:
    """Rounds float64 total + error to float32."""
    r = total.to_float(t.F32)
    missed = total - r.to_float(t.F64)
    if error is not None:
        missed = where(missed.eq(0.0), error, missed)
    return _step(r, missed < 0.0, missed > 0.0, mode)


def directed_narrow(x: Expr, type_: Attribute, mode: str) -> Expr:
    """Rounds float64 to float32, float16 or bfloat16, in a direction."""
    near = x.to_float(type_)
    r = near.to_float(t.F32) if near.width == 16 else near
    missed = x - r.to_float(t.F64)
    return _step_bits(near, r, missed < 0.0, missed > 0.0, mode).reinterpret(type_)


def _is_finite(x: Expr) -> Expr:
    return abs(x) < float("inf")


def _from_missed(r: Expr, missed: Expr, finite: Expr, mode: str) -> Expr:
    """Rounds float64 r by the sign of what it missed; an infinite r of finite operands missed by overflow."""
    over = finite & ~_is_finite(r) & ~r.is_nan()
    return _step(r, where(over, r > 0.0, missed < 0.0), where(over, r < 0.0, missed > 0.0), mode)


def _exact_zero(result: Expr, exact: Expr, x: Expr, y: Expr, mode: str) -> Expr:
    """Makes an exact sum of zero -0 when rounding downward, unless both terms are +0."""
    if mode != "rm":
        return result
    negative = (x.bits() | y.bits()) < 0
    return where(exact & result.eq(0.0) & negative, -0.0, result)


def add(x: Expr, y: Expr, mode: str) -> Expr:
    if mode == "rn":
        return x + y
    if x.width == 32:
        total, error = _two_sum(x.to_float(t.F64), y.to_float(t.F64))
        return _exact_zero(_from_wide(total, error, mode), total.eq(0.0), x, y, mode)
    total, error = _two_sum(x, y)
    found = _from_missed(total, error, _is_finite(x) & _is_finite(y), mode)
    return _exact_zero(found, total.eq(0.0), x, y, mode)


def multiply(x: Expr, y: Expr, mode: str) -> Expr:
    if mode == "rn":
        return x * y
    if x.width == 32:
        return _from_wide(x.to_float(t.F64) * y.to_float(t.F64), None, mode)
    r = x * y
    tiny = abs(r) < 2.0**-900
    left = where(tiny & (abs(x) < 1.0), 2.0**600, r.like(1.0))
    right = where(tiny & (abs(y) < 1.0), 2.0**600, r.like(1.0))
    missed = (x * left).fma(y * right, -(r * left * right))
    return _from_missed(r, missed, _is_finite(x) & _is_finite(y), mode)


def divide(x: Expr, y: Expr, mode: str) -> Expr:
    if mode == "rn":
        return x / y
    if x.width == 32:
        wide, divisor = x.to_float(t.F64), y.to_float(t.F64)
        q = wide / divisor
        rest = (-q).fma(divisor, wide)
        return _from_wide(q, where(divisor < 0.0, -rest, rest), mode)
    r = x / y
    scale = where(abs(x) < 2.0**-900, 2.0**200, r.like(1.0))
    rest = (-(r * scale)).fma(y, x * scale)
    missed = where(y < 0.0, -rest, rest)
    return _from_missed(r, missed, _is_finite(x) & _is_finite(y) & y.ne(0.0), mode)


def square_root(x: Expr, mode: str) -> Expr:
    if mode == "rn":
        return x.named("tt.precise_sqrt")
    if x.width == 32:
        wide = x.to_float(t.F64)
        r = wide.named("tt.precise_sqrt")
        return _from_wide(r, (-r).fma(r, wide), mode)
    r = x.named("tt.precise_sqrt")
    tiny = x < 2.0**-900
    root = r * where(tiny, 2.0**100, r.like(1.0))
    missed = (-root).fma(root, x * where(tiny, 2.0**200, r.like(1.0)))
    return _from_missed(r, missed, _is_finite(x), mode)


def fused(x: Expr, y: Expr, z: Expr, mode: str) -> Expr:
    """Computes x · y + z with one rounding."""
    if mode == "rn":
        return x.fma(y, z)
    if x.width == 64:
        r = x.fma(y, z)
        lost = remainder_sign(x, y, z, r)
        finite = _is_finite(x) & _is_finite(y) & _is_finite(z)
        sign = (x.bits() ^ y.bits()).as_float()
        return _exact_zero(_from_missed(r, lost, finite, mode), r.eq(0.0) & lost.eq(0.0), sign, z, mode)
    product, addend = x.to_float(t.F64) * y.to_float(t.F64), z.to_float(t.F64)
    total, error = _two_sum(product, addend)
    return _exact_zero(_from_wide(total, error, mode), total.eq(0.0), product.to_float(t.F32), z, mode)


def narrow(x: Expr, mode: str) -> Expr:
    """Rounds float64 to float32."""
    return x.to_float(t.F32) if mode == "rn" else _from_wide(x, None, mode)


def from_integer(x: Expr, type_: Attribute, signed: bool, mode: str) -> Expr:
    """Converts an i32 or i64 to float32 or float64."""
    name = "arith.sitofp" if signed else "arith.uitofp"
    element = t.F32 if type_ == t.F32 else t.F64
    r = x.cast(name, element)
    if mode == "rn" or (x.width == 32 and element == t.F64):
        return r
    back = r.cast("arith.fptosi" if signed else "arith.fptoui", t.elem(x.type))
    over = r >= float(1 << (x.width - 1 if signed else x.width))  # the conversion back saturates
    relation = "s" if signed else "u"
    below = over | x.test(f"{relation}lt", back)
    return _step(r, below, ~over & x.test(f"{relation}gt", back), mode)


def odd_sum(x: Expr, y: Expr) -> Expr:
    """Computes float64 x + y rounded to odd: rounding it again to 24 bits or fewer is as one rounding (Boldo, Melquiond)."""
    total, error = _two_sum(x, y)
    bits = total.bits()
    inexact = error.ne(0.0) & _is_finite(total) & _is_finite(error)
    inward = inexact & ((error < 0.0) ^ (total < 0.0))
    bits = where(inward, bits - 1, bits)
    return where(inexact, bits | 1, bits).as_float()
