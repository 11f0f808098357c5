"""Finds the extremes of columns and the first rows that have them: lanes are columns, and rows come in their order.

A row of equal value comes later, and leaves what is there. Numbers of rows are as wide as the values, so that both are chosen
by one mask; the region that combines any two pairs compares positions of 64 bits, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .....promotion.dataclass import dataclass
from ...elementwise import constant
from ...ir import Function
from ...values import V, bits, const, element, integer, is_float, lanes, vector
from ..loops.coordinates import Bound, Coordinate, Coordinates
from ..loops.loop_nests import LoopNests
from ..nodes import Node
from ..scalars import is_constant
from .combine import Combine
from .extreme_positions import PAST_END, Extreme, extreme_of_region, inside, rises

_ELEMENTS = ("f32", "f64", "i64", "i32", "i16", "i8")


@dataclass(frozen=True, slots=True)
class ExtremeRows:
    """How to find the extremes of columns. A state is the extremes so far and the numbers of their rows."""

    f: Function
    extreme: Extreme

    def begin(self, value: V) -> list[V]:
        return [value, self._number(0, value)]

    def step(self, state: Sequence[V], value: V, row: V | int) -> list[V]:
        """Emits a further row. row: its number, which is known or an i64."""
        f, (best, numbers) = self.f, state
        relation = "gt" if self.extreme.greater else "lt"
        if is_float(value.type):
            alone = f.binary("and", f.fcmp("uno", value, value), f.fcmp("ord", best, best))  # the first NaN stays
            found = f.binary("or", f.fcmp("o" + relation, value, best), alone)
        else:
            found = f.icmp(("s" if self.extreme.signed else "u") + relation, value, best)
        return [f.select(found, value, best), f.select(found, self._number(row, value), numbers)]

    def end(self, nests: LoopNests, state: Sequence[V], positions: Node, first: Coordinates, axis: int) -> list[V]:
        """Returns the extremes and their positions, of which row 0 has those at the coordinates `first`."""
        f, ev, (best, numbers) = self.f, nests.ev, state
        n = lanes(best.type)
        wide = numbers if bits(element(numbers.type)) == 64 else f.cast("zext", numbers, vector("i64", n))
        second = tuple([Coordinate(ev.s.constant(1)) if d == axis else c for d, c in enumerate(first)])
        start = f.splat(ev.at(positions, first), n)
        step = f.sub(f.splat(ev.at(positions, second), n), start)
        return [best, f.add(start, f.mul(wide, step))]

    def _number(self, row: V | int, like: V) -> V:
        item = f"i{bits(element(like.type))}"
        if isinstance(row, int):
            return self.f.splat(const(row, item), lanes(like.type))
        return self.f.splat(row if item == "i64" else self.f.cast("trunc", row, item), lanes(like.type))


class Columns(NamedTuple):
    """Values and their positions within `bounds`, of which an extreme is wanted. neutral: what counts for nothing."""

    sources: list[Node]
    bounds: list[Bound]
    neutral: list[V]
    extreme: Extreme


def extremes_within(operands: Sequence[Node], axis: int, combine: Combine) -> Columns | None:
    """Returns what a reduction to an extreme and its position reads, without masks; None for another one."""
    if len(operands) != 2 or operands[1].elem != "i64":
        return None
    extreme = extreme_of_region(combine, operands[0].elem)
    if extreme is None:
        return None
    neutral = [constant(extreme.neutral, operands[0].elem), const(PAST_END, "i64")]
    values, positions = (inside(operand, outside) for operand, outside in zip(operands, neutral, strict=True))
    if values is None or positions is None or not rises(positions[0], axis):
        return None
    (source, bounds), (numbers, same) = values, positions
    if {(b.dim, b.limit.operand()) for b in bounds} != {(b.dim, b.limit.operand()) for b in same}:
        return None
    return Columns([source, numbers], bounds, neutral, extreme)


def extreme_rows(nests: LoopNests, columns: Columns | None, rows: int, count: V) -> ExtremeRows | None:
    """Returns how to find extremes of columns; None where there may be no row, or more than numbers hold.

    rows: of a block. count: those within its bounds.
    """
    if columns is None or columns.sources[0].elem not in _ELEMENTS or not is_constant(count) or integer(count) < 1:
        return None
    most = (1 << (bits(columns.sources[0].elem) - 1)) - 1
    return ExtremeRows(nests.ev.f, columns.extreme) if rows <= most else None
