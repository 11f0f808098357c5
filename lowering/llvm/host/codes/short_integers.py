"""Computes integers of 32 bits in 16, of which no more than that is kept: sums, products and shifts of bytes.

    uint8 ─► int32 ─► + × >> min max ─► uint8          uint8 ─► int16 ─► + × >> min max ─► uint8

A register holds twice as many, and takes them from bytes and to bytes in half of the steps. Sums, differences, products and
bits need no more of their operands than their own lower 16 bits. All bits count of what is shifted to the right, compared or
chosen by size: it has to lie between -2^15 and 2^16, by what it is computed of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...values import const, integer
from ..nodes import Map, Node, Splat, view
from ..nodes import View as ViewNode
from ..scalars import is_constant

MAX_OPERATIONS = 64
"""The most operations that are looked at."""
_WRAPPING = frozenset({"arith.addi", "arith.subi", "arith.muli", "arith.andi", "arith.ori", "arith.xori"})
_EXTENSIONS = {
    ("arith.extui", "i1"): (0, 1), ("arith.extui", "i8"): (0, 255), ("arith.extui", "i16"): (0, 65535),
    ("arith.extsi", "i1"): (-1, 0), ("arith.extsi", "i8"): (-128, 127), ("arith.extsi", "i16"): (-32768, 32767),
}  # fmt: skip
"""The ends of what elements become."""
_UNSIGNED = {"sgt": "ugt", "sge": "uge", "slt": "ult", "sle": "ule"}
_SIGNED = {value: key for key, value in _UNSIGNED.items()}
_SHORT_CONDITIONS = frozenset({"i1", "i8", "i16"})


class _Known(NamedTuple):
    """A block of i16 whose numbers, taken as signed or unsigned, are those of a block of i32, from `low` to `high`."""

    node: Node
    low: int
    high: int

    @property
    def is_unsigned(self) -> bool:
        return self.high > 32767


def shortened(node: Node, is_kept: Callable[[Node], bool]) -> Node | None:
    """Returns the lower 16 bits of a block of i32 as a block of i16; None where it is computed of more.

    is_kept: whether a node is in scratch, of which nothing is known.
    """
    return _Shortening(is_kept).low(node)


class _Shortening:
    def __init__(self, is_kept: Callable[[Node], bool]) -> None:
        self._is_kept = is_kept
        self._lows: dict[int, Node | None] = {}
        self._known: dict[int, _Known | None] = {}
        self._conditions: dict[int, Node | None] = {}

    def low(self, node: Node) -> Node | None:
        """Returns the lower 16 bits."""
        if id(node) not in self._lows:
            self._lows[id(node)] = None if len(self._lows) >= MAX_OPERATIONS else self._low(node)
        return self._lows[id(node)]

    def _low(self, node: Node) -> Node | None:
        if not isinstance(node, Map) or self._is_kept(node):
            known = self.known(node)
            return None if known is None else known.node
        if node.op in _WRAPPING:
            parts = [self.low(operand) for operand in node.operands]
        elif node.op == "arith.shli" and _number(node.operands[1]) in range(16):
            parts = [self.low(node.operands[0]), _short(node.operands[1])]
        elif node.op == "arith.select" and self._is_never_negative(node.operands[0]):
            return self.low(node.operands[2])
        elif node.op == "arith.select":
            parts = [self.condition(node.operands[0]), *[self.low(operand) for operand in node.operands[1:]]]
        else:
            known = self.known(node)
            return None if known is None else known.node
        found = [part for part in parts if part is not None]
        return Map(node.shape, "i16", node.op, tuple(found)) if len(found) == len(parts) else None

    def known(self, node: Node) -> _Known | None:
        """Returns all of the numbers in 16 bits."""
        if id(node) not in self._known:
            self._known[id(node)] = None if len(self._known) >= MAX_OPERATIONS else self._find(node)
        return self._known[id(node)]

    def _find(self, node: Node) -> _Known | None:
        if self._is_kept(node):
            return None
        number = _number(node)
        if number is not None:
            return _fitting(_short(node), number, number)
        if isinstance(node, ViewNode):
            inside = self.known(node.source)
            return None if inside is None else inside._replace(node=view(inside.node, node.shape, node.dims))
        return self._of_map(node) if isinstance(node, Map) else None

    def _of_map(self, node: Map) -> _Known | None:
        op, operands, shape = node.op, node.operands, node.shape
        extended = _EXTENSIONS.get((op, operands[0].elem))
        if extended is not None:
            source = operands[0]
            return _Known(source if source.elem == "i16" else Map(shape, "i16", op, (source,)), *extended)
        if op == "arith.andi" and (mask := _number(operands[1])) is not None and 0 <= mask < 1 << 16:
            masked = self.low(operands[0])
            return None if masked is None else _Known(Map(shape, "i16", op, (masked, _short(operands[1]))), 0, mask)
        if op == "arith.select":
            if self._is_never_negative(operands[0]):
                return self.known(operands[2])
            condition, *values = self.condition(operands[0]), *[self.known(operand) for operand in operands[1:]]
            one, other = values
            if condition is None or one is None or other is None:
                return None
            low, high = min(one.low, other.low), max(one.high, other.high)
            return _fitting(Map(shape, "i16", op, (condition, one.node, other.node)), low, high)
        if len(operands) != 2:
            return None
        one, other = self.known(operands[0]), self.known(operands[1])
        if one is None or other is None:
            return None
        divisor = _divisor_of_remainder(node)
        if divisor is not None:  # its lower 16 bits are all of it
            return _fitting(Map(shape, "i16", op, (one.node, other.node)), 0 if one.low >= 0 else 1 - divisor, divisor - 1)
        if op == "arith.addi" and (ends := self._ends_of_mixture(node)) is not None:
            return _fitting(Map(shape, "i16", op, (one.node, other.node)), *ends)
        return _combined(op, shape, one, other)

    def _ends_of_mixture(self, node: Map) -> tuple[int, int] | None:
        """Returns the ends of a · w + b · (c - w) for w from 0 to c, which no bound of each product alone tells; else None."""
        for one, other in (node.operands, node.operands[::-1]):
            if not (isinstance(one, Map) and isinstance(other, Map) and one.op == other.op == "arith.muli"):
                return None
            for share, first in (one.operands, one.operands[::-1]):
                for rest, second in (other.operands, other.operands[::-1]):
                    if not isinstance(rest, Map) or rest.op != "arith.subi" or rest.operands[1] is not share:
                        continue
                    whole, known = _number(rest.operands[0]), [self.known(each) for each in (share, first, second)]
                    if whole is None or None in known:
                        continue
                    w, a, b = (each for each in known if each is not None)
                    if w.low >= 0 and w.high <= whole:
                        return min(a.low, b.low) * whole, max(a.high, b.high) * whole
        return None

    def _is_never_negative(self, condition: Node) -> bool:
        """Returns whether a condition asks for negative numbers where there are none, as floor division does of remainders."""
        if not isinstance(condition, Map) or condition.op != "arith.cmpi" or str(condition.attrs["predicate"]) != "slt":
            return False
        if _number(condition.operands[1]) != 0:
            return False
        known = self.known(condition.operands[0])
        return known is not None and known.low >= 0

    def condition(self, node: Node) -> Node | None:
        """Returns a choice that is made by no longer numbers."""
        if id(node) not in self._conditions:
            self._conditions[id(node)] = None if len(self._conditions) >= MAX_OPERATIONS else self._chosen_by(node)
        return self._conditions[id(node)]

    def _chosen_by(self, node: Node) -> Node | None:
        if not isinstance(node, Map) or self._is_kept(node):
            return node
        if node.op in ("arith.andi", "arith.ori", "arith.xori"):
            parts = [self.condition(operand) for operand in node.operands]
            found = [part for part in parts if part is not None]
            return Map(node.shape, "i1", node.op, tuple(found)) if len(found) == len(parts) else None
        if all(operand.elem in _SHORT_CONDITIONS for operand in node.operands):
            return node
        if node.op != "arith.cmpi":
            return None
        one, other = (self.known(operand) for operand in node.operands)
        predicate = str(node.attrs["predicate"])
        if one is None or other is None or (predicate[0] == "u" and min(one.low, other.low) < 0):
            return None
        if one.is_unsigned or other.is_unsigned:
            if min(one.low, other.low) < 0:
                return None
            predicate = _UNSIGNED.get(predicate, predicate)
        else:
            predicate = _SIGNED.get(predicate, predicate)
        return Map(node.shape, "i1", node.op, (one.node, other.node), {"predicate": predicate})


def _combined(op: str, shape: tuple[int, ...], one: _Known, other: _Known) -> _Known | None:
    """Returns an operation on two blocks of which all is known in 16 bits, if its results are, too."""
    ends = (one.low, one.high), (other.low, other.high)
    match op:
        case "arith.addi":
            low, high = one.low + other.low, one.high + other.high
        case "arith.subi":
            low, high = one.low - other.high, one.high - other.low
        case "arith.muli":
            products = [a * b for a in ends[0] for b in ends[1]]
            low, high = min(products), max(products)
        case "arith.shli" if other.low == other.high and 0 <= other.low < 16:
            low, high = one.low << other.low, one.high << other.low
        case "arith.shrsi" | "arith.shrui" if other.low == other.high and 0 <= other.low < 16:
            if op == "arith.shrui" and one.low < 0:
                return None
            low, high = one.low >> other.low, one.high >> other.low
            op = "arith.shrui" if one.is_unsigned else "arith.shrsi"
        case "arith.divsi" if other.low == other.high and other.low > 0:
            if one.low < 0 and other.is_unsigned:
                return None
            low, high = (int(end / other.low) for end in ends[0])  # towards 0
            op = "arith.divui" if one.low >= 0 else "arith.divsi"
        case "arith.maxsi" | "arith.minsi" | "arith.maxui" | "arith.minui":
            unsigned = one.is_unsigned or other.is_unsigned
            if (unsigned or op.endswith("ui")) and min(one.low, other.low) < 0:
                return None
            pick = max if "max" in op else min
            low, high = pick(one.low, other.low), pick(one.high, other.high)
            op = op[:-2] + ("ui" if unsigned else "si")
        case _:
            return None
    return _fitting(Map(shape, "i16", op, (one.node, other.node)), low, high)


def _fitting(node: Node, low: int, high: int) -> _Known | None:
    fits = (low >= -32768 and high <= 32767) or (low >= 0 and high <= 65535)
    return _Known(node, low, high) if fits else None


def _divisor_of_remainder(node: Map) -> int | None:
    """Returns what x is divided by of x - x / d · d; None of other blocks."""
    if node.op != "arith.subi" or not isinstance(product := node.operands[1], Map) or product.op != "arith.muli":
        return None
    quotient, divisor = product.operands
    if not isinstance(quotient, Map) or quotient.op != "arith.divsi" or quotient.operands[0] is not node.operands[0]:
        return None
    number = _number(divisor)
    return number if number is not None and number > 0 and number == _number(quotient.operands[1]) else None


def _number(node: Node) -> int | None:
    return integer(node.value) if isinstance(node, Splat) and node.elem == "i32" and is_constant(node.value) else None


def _short(node: Node) -> Node:
    """Returns the lower 16 bits of a constant."""
    assert isinstance(node, Splat)
    number = (integer(node.value) + (1 << 15)) % (1 << 16) - (1 << 15)
    return Splat(node.shape, "i16", const(number, "i16"))
