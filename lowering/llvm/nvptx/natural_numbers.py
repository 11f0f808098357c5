"""Integers that are never negative unless something wraps around.

Consecutive numbers have consecutive remainders only where they are not negative: -16, -15, … mod 16 are 0, -15, …. A program's
place times a constant could wrap to a negative number, and a text that gets that far has left its arrays long before.
"""

from __future__ import annotations

from typing import Any

from ...tt.passes import constant_of

_BUDGET = 64
_START = frozenset({"tt.make_range", "tt.get_program_id", "tt.get_num_programs", "arith.extui"})
_OF_ALL = frozenset(
    {"arith.addi", "arith.muli", "arith.extsi", "arith.minsi", "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape",
     "tt.trans", "arith.trunci"}
)  # fmt: skip
_OF_THE_FIRST = frozenset({"arith.remsi", "arith.divsi"})
"""A remainder has the sign of its dividend; divisors are taken to be positive."""


def is_natural(value: Any) -> bool:
    """Whether a number, or every element of a block, counts something; False where that is not seen."""
    return _Question().asks(value)


class _Question:
    def __init__(self) -> None:
        self.left = _BUDGET
        self.open: set[Any] = set()  # values that loops carry, while what is added to them is looked at

    def asks(self, value: Any) -> bool:
        if value in self.open:
            return True
        self.left -= 1
        if self.left < 0:
            return False
        number = constant_of(value)
        if number is not None:
            return number >= 0
        op = value.owner
        if not hasattr(op, "operands"):
            return self._of_argument(value, op)
        if op.name in _START:
            return True
        if op.name in _OF_ALL:
            return all(self.asks(operand) for operand in op.operands)
        if op.name in _OF_THE_FIRST:
            return self.asks(op.operands[0])
        match op.name:
            case "arith.maxsi" | "arith.andi":
                return any(self.asks(operand) for operand in op.operands)
            case "arith.select":
                condition, yes, no = op.operands
                return (_is_minus_one(condition) or self.asks(yes)) and self.asks(no)
            case "scf.for":
                return self._carried(value, op.operands[3 + value.index], op.regions[0].block.last_op.operands[value.index])
            case "scf.if":
                ends = [region.block.last_op for region in op.regions if region.blocks]
                return all(self.asks(end.operands[value.index]) for end in ends)
        return False

    def _of_argument(self, value: Any, block: Any) -> bool:
        loop = block.parent_op()
        if loop is None or loop.name != "scf.for":
            return False
        if value.index == 0:
            return self.asks(loop.operands[0])
        return self._carried(value, loop.operands[2 + value.index], block.last_op.operands[value.index - 1])

    def _carried(self, value: Any, first: Any, following: Any) -> bool:
        self.open.add(value)
        found = self.asks(first) and self.asks(following)
        self.open.discard(value)
        return found


def _is_minus_one(condition: Any) -> bool:
    """Whether a condition is that a divisor is -1, which `make_total` treats apart."""
    op = condition.owner
    return getattr(op, "name", "") == "arith.cmpi" and constant_of(op.operands[1]) == -1
