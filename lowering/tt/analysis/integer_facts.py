"""Finds the sign and the trailing zeros of scalar integers of a block function.

Both answers hold under wrapping arithmetic. A query visits a bounded number of operations; beyond them
nothing is known.
"""

from __future__ import annotations

from dataclasses import field

from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from ....promotion.dataclass import dataclass
from .. import types as t
from ..transforms.folding import constant_of
from .integer_ranges import IntegerRanges

MANY = 64
"""Trailing zero bits of zero."""
_BUDGET = 64


@dataclass(slots=True)
class _Question:
    left: int = _BUDGET
    open: set[SSAValue] = field(default_factory=set)  # loop-carried values that are being visited

    def spend(self) -> bool:
        self.left -= 1
        return self.left >= 0


def trailing_zeros(value: SSAValue) -> int:
    """Returns how many trailing zero bits the integer has at least; MANY for zero."""
    return _zeros(value, _Question())


def never_negative(value: SSAValue) -> bool:
    """Returns whether the integer, read as signed, is known to be non-negative."""
    return IntegerRanges(budget=_BUDGET).of(value)[0] >= 0


def zeros_of(number: int) -> int:
    """Returns how many trailing zero bits a constant has; MANY for zero."""
    return (number & -number).bit_length() - 1 if number else MANY


def carried(value: SSAValue) -> tuple[SSAValue, SSAValue] | None:
    """Returns the initial value, and that after an iteration, of what an `scf.for` carries, given the
    argument of its body or its result; None for other values."""
    if isinstance(value, BlockArgument):
        loop, index = value.block.parent_op(), value.index - 1
    else:
        assert isinstance(value, OpResult)
        loop, index = value.op, value.index
    if loop is None or loop.name != "scf.for" or index < 0 or not loop.regions[0].blocks:
        return None
    last = loop.regions[0].block.last_op
    if last is None or index >= len(last.operands) or 3 + index >= len(loop.operands):
        return None
    return loop.operands[3 + index], last.operands[index]


def chosen(value: SSAValue) -> tuple[SSAValue, SSAValue] | None:
    """Returns the two values of which `arith.select` or `scf.if` gives one; None for other values."""
    if not isinstance(value, OpResult):
        return None
    if value.op.name == "arith.select":
        return value.op.operands[1], value.op.operands[2]
    if value.op.name == "scf.if" and all(region.blocks for region in value.op.regions):
        ends = [region.block.last_op for region in value.op.regions]
        found = [end.operands[value.index] for end in ends if end is not None and value.index < len(end.operands)]
        return (found[0], found[1]) if len(found) == 2 else None
    return None


def _zeros(value: SSAValue, question: _Question) -> int:
    if value in question.open:
        return MANY  # what the loop adds to it decides
    if not question.spend():
        return 0
    number = constant_of(value)
    if number is not None:
        return zeros_of(number)
    low_and_step = _induction(value)
    if low_and_step is not None:
        return min(_zeros(each, question) for each in (low_and_step[0], low_and_step[2]))
    pair = carried(value) or chosen(value)
    if pair is not None:
        question.open.add(value)
        found = min(_zeros(each, question) for each in pair)
        question.open.discard(value)
        return found
    op = value.owner
    if not isinstance(op, Operation):
        return 0
    match op.name:
        case "arith.addi" | "arith.subi" | "arith.minsi" | "arith.maxsi" | "arith.minui" | "arith.maxui" | "arith.ori":
            return min(_zeros(each, question) for each in op.operands)
        case "arith.muli":
            return min(MANY, sum(_zeros(each, question) for each in op.operands))
        case "arith.andi":
            return max(_zeros(each, question) for each in op.operands)
        case "arith.shli":
            shift = constant_of(op.operands[1])
            if shift is not None and 0 <= shift < t.bit_width(value.type):
                return min(MANY, _zeros(op.operands[0], question) + shift)
        case "arith.extsi" | "arith.extui" | "arith.trunci":
            return _zeros(op.operands[0], question)
    return 0


def _induction(value: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue] | None:
    """Returns the bounds and the step of the loop whose counter this is; None for other values."""
    if not isinstance(value, BlockArgument) or value.index != 0:
        return None
    loop = value.block.parent_op()
    if loop is None or loop.name != "scf.for":
        return None
    return loop.operands[0], loop.operands[1], loop.operands[2]
