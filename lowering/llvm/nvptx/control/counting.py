"""Makes loop counters that do not overflow.

The head of a loop tests the counter with a step added, and a pipelined loop tests numbers several steps ahead. Past the largest
number of the type these would wrap, and the loop would not end. Where the ranges of its bounds do not exclude that, a
non-negative counter is compared as unsigned, which doubles the range. A counter that may overflow that too has twice the width.
"""

from __future__ import annotations

from xdsl.dialects.scf import ForOp

from .....promotion.dataclass import dataclass
from ....tt.analysis.integer_ranges import IntegerRanges
from ...elementwise import register_element
from ...ir import Function
from ...syntax import element_name
from ...values import V, const, element
from ..context import KernelContext


@dataclass(frozen=True, slots=True)
class Counting:
    """The bounds of a loop and the comparison of its counter with the end. `type`: of the index in the body."""

    low: V
    high: V
    step: V
    less: str
    type: str

    def index(self, f: Function, counter: V) -> V:
        return f.cast("trunc", counter, self.type)

    def goes_on(self, f: Function, counter: V) -> V:
        """Emits whether there is an iteration for a counter."""
        return f.icmp(self.less, counter, self.high)


def counting(k: KernelContext, op: ForOp, lookahead: int = 1) -> Counting:
    """Chooses how an `scf.for` counts whose counter is tested up to `lookahead` (at least 1) steps ahead."""
    f = k.f
    low, high, step = (k.scalar(value) for value in (op.lb, op.ub, op.step))
    type_ = register_element(element_name(op.lb.type))
    if op not in k.loop_bounds:
        ranges = IntegerRanges(trusting=True)
        k.loop_bounds[op] = tuple(ranges.of(value) for value in (op.lb, op.ub, op.step))
    first, end, stride = k.loop_bounds[op]
    most = (1 << (int(element(type_)[1:]) - 1)) - 1
    furthest = max(first[1] + (lookahead - 1) * stride[1], end[1] - 1 + lookahead * stride[1])
    if furthest <= most:
        return Counting(low, high, step, "slt", type_)
    if first[0] >= 0 and furthest <= 2 * most + 1:
        if end[0] < 0:
            nothing = const(0, type_)
            high = f.select(f.icmp("sgt", high, nothing), high, nothing)
        return Counting(low, high, step, "ult", type_)
    wide = f"i{2 * int(element(type_)[1:])}"
    low, high, step = (f.cast("sext", value, wide) for value in (low, high, step))
    return Counting(low, high, step, "slt", type_)
