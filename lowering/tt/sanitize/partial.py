"""Follows integer operations that have no result for some operands: divisions by zero, shifts by the width or more.

The block IR gives them one, and Triton's own code does not: whatever the GPU leaves there. In launches of such code their lanes
are undefined, which is a mistake only where they are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from xdsl.ir import Operation, SSAValue

from ....promotion.arrays import Array
from .. import types as t
from ..interpret.machine import Value
from ..transforms.folding import constant_of
from .shadow import Rule, Shadow

DIVISIONS = frozenset({
    "arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.ceildivsi", "arith.ceildivui", "arith.floordivsi",
})  # fmt: skip
SHIFTS = frozenset({"arith.shli", "arith.shrsi", "arith.shrui"})
_REPEATS = frozenset({"tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape"})


def is_partial(op: Operation) -> bool:
    """Returns whether an operation may have no result."""
    if op.name not in DIVISIONS and op.name not in SHIFTS:
        return False
    type_ = op.results[0].type
    if not t.is_integer(type_) or t.bit_width(type_) == 1:
        return False
    known = constant_of(repeated(op.operands[1]))
    if known is None:
        return True
    return not 0 <= known < t.bit_width(type_) if op.name in SHIFTS else known == 0


def repeated(value: SSAValue) -> SSAValue:
    """Returns the value that a block repeats in all its lanes, or the block itself."""
    found = value
    while isinstance(owner := found.owner, Operation) and owner.name in _REPEATS:
        found = owner.operands[0]
    return found if not t.shape_of(found.type) or constant_of(found) is not None else value


def partial(op: Operation, number: int, rule: Rule) -> Rule:
    """Makes the rule of a partial operation from that of its other lanes. number: stands for the operation in shadows."""
    width = t.bit_width(op.results[0].type)
    shifts = op.name in SHIFTS

    def applied(values: Sequence[Value], shadows: Sequence[Shadow | None], result: Value) -> Shadow | None:
        found, second = rule(values, shadows, result), np.asarray(values[1])
        without: Array = np.asarray((second < 0) | (second >= width) if shifts else second == 0)
        if not without.any():
            return found
        poison = np.broadcast_to(np.where(without, number, 0).astype(np.int32), np.shape(result))
        if found is None:
            return Shadow(poison)
        if found.poison is not None:
            poison = np.where(found.poison != 0, found.poison, poison)
        return replace(found, poison=poison)

    return applied


def cause_of(op: Operation) -> tuple[str, str]:
    """Returns the kind of findings in lanes that an operation left undefined, and what it did, for a message."""
    if op.name in DIVISIONS:
        return "division-by-zero", "divides by zero"
    if op.name in SHIFTS:
        return "shift-exponent", "shifts by the width of its operand or more, or by a negative number"
    return "uninitialised", ""


__all__ = ["DIVISIONS", "SHIFTS", "cause_of", "is_partial", "partial", "repeated"]
