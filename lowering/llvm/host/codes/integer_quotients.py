"""Finds quotients of floats that were short integers, which need no test for what a division is left to.

A short integer by a known divisor is one of at most 65,536 quotients: a product with one or two numbers (`quotients.py`) is
right for all of them, or not, which is tried. What is made of integers by a known factor or divisor, plus or minus one number
m, is 0 or not small: both terms are multiples of 2^-74 if m is 0 or at least 2^-50. So quotients of such by one number are
products with a correction (`quotients/division.py`) where that number and m are usable, which is tested once.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...quotients import division
from ...values import ConstantFloat
from ..nodes import Map, Node, Splat
from .magnitudes import limits
from .nearest import inverse_of
from .quotients import fused, halves_of_reciprocal

_MAX = 1 << 16
"""Integers up to which all quotients are tried."""
_SMALLEST, _LARGEST = 2.0**-20, 2.0**20
"""Factors and divisors that leave what is not 0 above 2^-20, and its last place above 2^-44."""


def integer_quotient(dividend: Node, divisor: Node, facts: Mapping[str, Any]) -> Map | None:
    """Returns a quotient that needs no test for each vector; None for any other one."""
    number = _constant(divisor)
    found = None if number is None else _integers(dividend)
    if number is not None and found is not None and found[1] - found[0] < _MAX:
        factors = _factors(number, *found)
        if factors is not None:
            return Map(dividend.shape, "f32", division.DIVIDE, (dividend, divisor), {**facts, division.FACTORS: factors})
    terms = _terms(dividend) if isinstance(divisor, Splat) else None
    if terms is None:
        return None
    inverse = inverse_of(divisor, {division.COARSE: True}, terms)
    assert inverse is not None
    return Map(dividend.shape, "f32", division.DIVIDE, (dividend, divisor, inverse), {**facts, division.COARSE: True})


def _constant(node: Node) -> float | None:
    value = node.value.printed() if isinstance(node, Splat) else None
    return value.number if isinstance(value, ConstantFloat) else None


def _integers(node: Node) -> tuple[int, int] | None:
    """Returns bounds of floats that were integers of up to 32 bits."""
    if not isinstance(node, Map) or node.op not in ("arith.sitofp", "arith.uitofp"):
        return None
    found = limits(node.operands[0])
    bits = {"i8": 8, "i16": 16, "i32": 32}.get(node.operands[0].elem)
    if found is None or bits is None or node.op == "arith.sitofp" or found[0] >= 0:
        return found
    return 0, (1 << bits) - 1


@functools.lru_cache(maxsize=1024)
def _factors(divisor: float, low: int, high: int) -> tuple[float, ...] | None:
    """Returns h, or h and l, with which n · h, or fma(n, h, n · l), is n / divisor for all integers; None if there are none."""
    s = np.float32(divisor)
    if float(s) != divisor or not _SMALLEST <= divisor <= _LARGEST:
        return None
    n = np.arange(low, high + 1).astype(np.float32)
    right = n / s
    h, lower = halves_of_reciprocal(divisor)
    if np.array_equal(n * h, right):
        return (float(h),)
    return (float(h), float(lower)) if np.array_equal(fused(n, h, n * lower), right) else None


def _terms(node: Node) -> tuple[Node, ...] | None:
    """Returns the numbers that decide whether what is not 0 is not small; None where that is not known of a block."""
    if _is_scaled(node):
        return ()
    if not isinstance(node, Map) or node.op not in ("arith.addf", "arith.subf"):
        return None
    for scaled, other in (node.operands, node.operands[::-1]):
        if isinstance(other, Splat) and _is_scaled(scaled):
            return (Splat((), "f32", other.value),)
    return None


def _is_scaled(node: Node) -> bool:
    """Whether a block is integers, or these times or by a known number that is neither small nor large."""
    if _integers(node) is not None:
        return True
    if not isinstance(node, Map) or node.op not in (division.DIVIDE, "arith.mulf") or node.elem != "f32":
        return False
    number = _constant(node.operands[1])
    return number is not None and _SMALLEST <= abs(number) <= _LARGEST and _integers(node.operands[0]) is not None
