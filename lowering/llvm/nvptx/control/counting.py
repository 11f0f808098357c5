"""Counters of loops that do not pass the largest number of their type.

The head of a loop tests the counter with a step added, and a loop that loads ahead tests numbers several steps ahead. Beyond
the largest number these would be small again, and the loop would not end. Where the ranges of its bounds do not exclude that, a
counter from 0 on is compared without sign: twice as many numbers. What may pass these too is counted in twice the width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....tt.analysis.integer_ranges import IntegerRanges
from ...elementwise import register_element
from ...ir import Function, V, const, element
from ...syntax import element_name

if TYPE_CHECKING:
    from ..kernel import KernelLowering


@dataclass(frozen=True, slots=True)
class Counting:
    """The bounds of a loop and how its counter is compared with the end. `type`: of the index in the body."""

    low: V
    high: V
    step: V
    less: str
    type: str

    def index(self, f: Function, counter: V) -> V:
        return f.cast("trunc", counter, self.type)

    def goes_on(self, f: Function, counter: V) -> V:
        """Whether there is a turn for a counter."""
        return f.icmp(self.less, counter, self.high)


def counting(k: KernelLowering, op: Any, ahead: int = 1) -> Counting:
    """How an `scf.for` counts that looks as many steps ahead, one at least."""
    f = k.f
    low, high, step = (k.scalar(value) for value in (op.lb, op.ub, op.step))
    type_ = register_element(element_name(op.lb.type))
    unsigned = bool(op.attributes.get("unsignedCmp") or op.properties.get("unsignedCmp"))
    if op not in k.loop_bounds:
        ranges = IntegerRanges()
        k.loop_bounds[op] = tuple(ranges.of(value) for value in (op.lb, op.ub, op.step))
    first, end, stride = k.loop_bounds[op]
    most = (1 << (int(element(type_)[1:]) - 1)) - 1
    furthest = max(first[1] + (ahead - 1) * stride[1], end[1] - 1 + ahead * stride[1])
    if not unsigned and furthest <= most:
        return Counting(low, high, step, "slt", type_)
    if first[0] >= 0 and furthest <= 2 * most + 1 and (end[0] >= 0 or not unsigned):
        if end[0] < 0:
            nothing = const(0, type_)
            high = f.select(f.icmp("sgt", high, nothing), high, nothing)
        return Counting(low, high, step, "ult", type_)
    wide, way = f"i{2 * int(element(type_)[1:])}", "zext" if unsigned else "sext"
    low, high, step = (f.cast(way, value, wide) for value in (low, high, step))
    return Counting(low, high, step, "slt", type_)
