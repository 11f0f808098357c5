"""Bounds the numbers of blocks, by what they are computed of: sums of codes times scales are finite, and far from overflow."""

from __future__ import annotations

from ....tt.facts import LARGEST
from ...conversions import NEAREST
from ...values import ConstantFloat, integer
from ..nodes import Map, Node, Splat, View
from ..scalars import is_constant

_ROUNDED = 1 + 2.0**-23
"""More than a rounding to nearest adds to a normal number, relatively."""
_MAX, _MIN = 2.0**120, 2.0**-100
"""Up to the first nothing overflows; no less than the second, a bound has room for what denormal results are off by."""
_DEPTH = 12
_INTEGERS = {"i8": 7, "i16": 15, "i32": 31}


def largest(node: Node, depth: int = _DEPTH) -> float | None:
    """Returns a bound of the magnitudes of a block of float32, none of which is NaN or infinite; None if none is known."""
    match node:
        case View():
            return largest(node.source, depth)
        case Splat():
            value = node.value.printed()
            number = abs(value.number) if isinstance(value, ConstantFloat) else None
            return None if number is None or not number <= _MAX else number
        case Map() if node.elem == "f32" and depth > 0:
            return _of_map(node, depth - 1)
    return None


def _of_map(node: Map, depth: int) -> float | None:
    if LARGEST in node.attrs:
        return float(2.0 ** node.attrs[LARGEST])
    if node.op == "arith.sitofp":
        found = limits(node.operands[0], depth)
        return None if found is None else max(abs(found[0]), abs(found[1])) * _ROUNDED
    if node.op not in ("arith.mulf", "arith.addf", "arith.subf"):
        return None
    one, other = (largest(operand, depth) for operand in node.operands)
    if one is None or other is None:
        return None
    bound = max(one * other if node.op == "arith.mulf" else one + other, _MIN) * _ROUNDED
    return bound if bound <= _MAX else None


def limits(node: Node, depth: int = _DEPTH) -> tuple[int, int] | None:
    """Returns bounds of a block of integers of up to 32 bits; None of any other block."""
    bits = _INTEGERS.get(node.elem)
    if bits is None:
        return None
    whole = -(1 << bits), (1 << bits) - 1
    if isinstance(node, View):
        return limits(node.source, depth)
    if isinstance(node, Splat) and is_constant(node.value):
        number = integer(node.value)
        return number, number
    found: tuple[int, int] | None = None
    if isinstance(node, Map) and depth > 0:
        if node.op == NEAREST:
            found = int(node.attrs["low"]), int(node.attrs["high"])
        elif node.op == "arith.extsi":
            found = limits(node.operands[0], depth - 1)
        elif node.op == "arith.extui":
            found = _unsigned(node.operands[0], depth - 1)
        elif node.op in ("arith.addi", "arith.subi"):
            one, other = (limits(operand, depth - 1) for operand in node.operands)
            if one is not None and other is not None:
                sign = 1 if node.op == "arith.addi" else -1
                ends = [a + sign * b for a in one for b in other]
                found = min(ends), max(ends)
    return found if found is not None and whole[0] <= found[0] and found[1] <= whole[1] else whole


def _unsigned(node: Node, depth: int) -> tuple[int, int] | None:
    """Returns bounds of a block of shorter integers, read without their signs."""
    found, bits = limits(node, depth), _INTEGERS.get(node.elem)
    return found if found is None or found[0] >= 0 or bits is None else (0, (2 << bits) - 1)
