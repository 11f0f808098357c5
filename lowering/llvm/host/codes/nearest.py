"""Makes codes of quotients: clamp(round(x / s) + z, low, high), for constants s, z, low and high, as blocks of integers.

Written out, that are ten instructions. Where it is known that no quotient leaves int32 (`magnitudes.py`), nothing is clamped
before it is rounded, no NaN is looked for, and what stores the code clamps it: instructions narrow with saturation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ....target import HostTarget
from ....tt.facts import IN_RANGE
from ...conversions import NEAREST, POSITIVE
from ...elementwise import constant
from ...quotients import division
from ...values import ConstantFloat
from ..nodes import Map, Node, Splat, View
from .magnitudes import largest, limits
from .quotients import two_factors

LARGEST_CODE = 1 << 16


def inverse_of(divisor: Node, facts: dict[str, Any] | None = None, terms: Sequence[Node] = ()) -> Node | None:
    """Returns the reciprocal of a block that has fewer values than elements, as a node of its own: computed once per value.

    terms: single numbers that decide, too, whether the reciprocal may be used.
    """
    match divisor:
        case Splat():
            one = Splat((), divisor.elem, divisor.value)
            return View(divisor.shape, divisor.elem, Map((), "f32", division.RECIPROCAL, (one, *terms), facts or {}), ())
        case View() if any(n > 1 and d not in divisor.dims for d, n in enumerate(divisor.shape)):
            source = divisor.source
            inverse = Map(source.shape, "f32", division.RECIPROCAL, (source,), facts or {})
            return View(divisor.shape, divisor.elem, inverse, divisor.dims)
    return None


def to_be_rounded(node: Map) -> Map:
    """Returns a quotient in the form for what is rounded to whole numbers; any other block as it is."""
    if node.op != division.DIVIDE or IN_RANGE in node.attrs:
        return node
    inverse = inverse_of(node.operands[1], {division.ROUNDED: True})
    assert inverse is not None
    facts = {name: fact for name, fact in node.attrs.items() if name not in (division.FACTORS, division.COARSE)}
    return Map(node.shape, node.elem, node.op, (*node.operands[:2], inverse), {**facts, division.ROUNDED: True})


def clamped(node: Node) -> tuple[Node, float, float] | None:
    """Returns what is clamped between two constants that int32 holds, and these; None for any other block."""
    inner, high = _with_constant(node, "arith.minimumf")
    source, low = (None, None) if inner is None else _with_constant(inner, "arith.maximumf")
    if source is None or low is None or high is None or not -(2.0**31) <= low <= high < 2.0**31:
        return None
    return source, low, high


def _with_constant(node: Node, op: str) -> tuple[Node | None, float | None]:
    """Returns the operands of an operation whose second one is a constant."""
    if isinstance(node, Map) and node.op == op and isinstance(node.operands[1], Splat):
        value = node.operands[1].value.printed()
        return node.operands[0], value.number if isinstance(value, ConstantFloat) else None
    return None, None


def positive_code(node: Node, target: HostTarget) -> Map | None:
    """Returns what is clamped between 0 and a constant that 16 bits hold as an integer, for processors without AVX-512.

    It is clamped above alone: the conversion makes NaN a negative number, and packing makes these 0.
    """
    found = clamped(node)
    if found is None or not target.is_x86 or target.has("avx512f") or node.elem != "f32" or not isinstance(node, Map):
        return None
    source, low, high = found
    if low != 0 or high != int(high) or not 0 < high < 1 << 16:
        return None
    capped = Map(node.shape, node.elem, node.op, (source, node.operands[1]), node.attrs)
    return Map(node.shape, "i32", POSITIVE, (capped,), {"high": int(high)})


def nearest_code(node: Node, target: HostTarget) -> Map | None:
    """Returns clamp(round(x / s) + z, low, high) as an integer, for constants: a usable divisor s, and small integers.

    One instruction rounds a quotient and makes it an integer. Unless it is known to fit, x is clamped first, to what rounds to
    the ends less z: a quarter beyond them. None for any other block.
    """
    found = clamped(node)
    assert found is not None
    whole, low, high = found
    moved, zero = _with_constant(whole, "arith.addf")
    rounded, zero = (whole, 0.0) if moved is None else (moved, zero)
    if zero is None or not all(abs(number) <= LARGEST_CODE and number == int(number) for number in (low, high, zero)):
        return None
    if not isinstance(rounded, Map) or rounded.op != "math.roundeven":
        return None
    quotient = rounded.operands[0]
    if not isinstance(quotient, Map) or division.ROUNDED not in quotient.attrs:
        return None
    dividend, scale = _with_constant(quotient, division.DIVIDE)
    if dividend is None or scale is None or not 2.0**-80 <= scale <= 2.0**40:
        return None
    facts = {**quotient.attrs, division.BOUNDED: True}
    attrs = {"offset": int(zero), "low": int(low), "high": int(high)}
    bound, factors = largest(dividend), None
    if bound is not None and bound / scale < _MAX and _chooses_integers(target):
        attrs["fits"], factors = True, two_factors(scale, int(low - zero), int(high - zero))
    if factors is None and not division.is_usable(scale):
        return None
    if "fits" not in attrs:
        ends = [(low - zero - 0.25) * scale, (high - zero + 0.25) * scale]
        bounds = [Splat(node.shape, "f32", constant(end, "f32")) for end in ends]
        lower = Map(node.shape, "f32", "arith.maximumf", (dividend, bounds[0]))
        dividend = Map(node.shape, "f32", "arith.minimumf", (lower, bounds[1]))
        if bound is not None:
            attrs["number"] = True
    shape = node.shape
    if factors is None:
        code = Map(shape, "f32", division.DIVIDE, (dividend, *quotient.operands[1:]), facts)
    else:
        large, small = (Splat(shape, "f32", constant(factor, "f32")) for factor in factors)
        rest = Map(shape, "f32", "arith.mulf", (dividend, small if factors[1] else large))
        code = Map(shape, "f32", "math.fma", (dividend, large, rest)) if factors[1] else rest
    return Map(shape, "i32", NEAREST, (code,), attrs)


_MAX = 2.0**31 - 2.0 * LARGEST_CODE
"""Rounded, and with a zero point added, a quotient below this is in int32."""


def _chooses_integers(target: HostTarget) -> bool:
    """Whether one instruction chooses the larger of two vectors of int32."""
    return not target.is_x86 or target.has("sse4.1")


def narrowed_code(node: Node, signed: bool) -> Map | None:
    """Returns the integers that a block of i8 was made of, where they are codes in its range; None for any other block.

    signed: whether it is read as signed bytes."""
    lowest, highest = (-128, 127) if signed else (0, 255)
    if isinstance(node, Map) and node.op == "arith.trunci" and node.elem == "i8":
        code = node.operands[0]
        if isinstance(code, Map) and code.op == NEAREST and lowest <= code.attrs["low"] <= code.attrs["high"] <= highest:
            return code
    return None


def moved_code(op: str, node: Node, by: Node) -> Map | None:
    """Returns codes plus or minus a constant, `op`, as codes with another zero point; None for any other blocks."""
    if not isinstance(node, Map) or node.op != NEAREST or not isinstance(by, Splat):
        return None
    one, other = limits(by) or (0, 1)
    if one != other or abs(one) > LARGEST_CODE or not ("fits" in node.attrs or "number" in node.attrs):
        return None
    step = one if op == "arith.addi" else -one
    moved = {name: node.attrs[name] + step for name in ("offset", "low", "high")}
    if max(map(abs, moved.values())) > LARGEST_CODE:
        return None
    return replace(node, attrs={**node.attrs, **moved})


__all__ = ["clamped", "inverse_of", "moved_code", "narrowed_code", "nearest_code", "positive_code", "to_be_rounded"]
