"""Emits reductions and scans in the order that the pass `fix-order` fixes, by `linear_layouts.plans.ordered`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Operation

from ....linear_layouts.layout import LinearLayout
from ....linear_layouts.plans.ordered import (
    Exchange,
    Fold,
    Move,
    Spread,
    Take,
    plan_ordered_reduction,
    plan_ordered_scan,
)
from ...values import V, i32
from ..context import KernelContext

Row = list[V]
"""The values of the operands in one register."""


class Ordered:
    """Emits the steps of one reduction or scan. `combine` takes rows, the left one first."""

    def __init__(self, k: KernelContext, op: Operation, elems: Sequence[str], combine: Any) -> None:
        self.k, self.op, self.elems = k, op, elems
        self.combine = combine

    def reduce(self, layout: LinearLayout, axis: int, rows: list[Row]) -> list[Row]:
        steps, _ = plan_ordered_reduction(layout, axis)
        for step in steps:
            rows = self._step(step, rows)
        return rows

    def scan(self, layout: LinearLayout, axis: int, reverse: bool, rows: list[Row]) -> list[Row]:
        for step in plan_ordered_scan(layout, axis, reverse):
            rows = self._step(step, rows)
        return rows

    def _step(self, step: Take | Move | Fold | Exchange | Spread, rows: list[Row]) -> list[Row]:
        match step:
            case Take():
                return [rows[register] for register in step.registers]
            case Move():
                return self._moved(step, rows)
            case Fold():
                return [self.combine(self.k, self.op, rows[left], rows[right]) for left, right in step.pairs]
            case Exchange():
                return [self._exchanged(step, own) for own in rows]
            case Spread():
                return self._spread(step, rows)

    def _moved(self, step: Move, rows: list[Row]) -> list[Row]:
        columns = [
            self.k.moves.convert([row[index] for row in rows], elem, step.source, step.destination)
            for index, elem in enumerate(self.elems)
        ]
        return [list(row) for row in zip(*columns, strict=True)]

    def _exchanged(self, step: Exchange, own: Row) -> Row:
        f, t = self.k.f, self.k.t
        other = self._fetched(own, i32(step.lane_mask), "bfly")
        is_left = f.icmp("eq", f.binary("and", t.lane, i32(step.lane_mask)), i32(0))
        left = [f.select(is_left, a, b) for a, b in zip(own, other, strict=True)]
        right = [f.select(is_left, b, a) for a, b in zip(own, other, strict=True)]
        return self.combine(self.k, self.op, left, right)  # type: ignore[no-any-return]

    def _spread(self, step: Spread, rows: list[Row]) -> list[Row]:
        k, f, t = self.k, self.k.f, self.k.t
        found, sources = list(rows), {}
        moved = step.lanes_on | step.lanes_off
        lane = f.binary("and", f.binary("or", t.lane, i32(step.lanes_on)), i32(~step.lanes_off)) if moved else t.lane
        takes = None
        if step.lane_bit:
            takes = f.icmp("ne" if step.value else "eq", f.binary("and", t.lane, i32(step.lane_bit)), i32(0))
        for source, register in step.takers:
            if source not in sources:
                sources[source] = self._fetched(rows[source], lane, "idx") if moved else rows[source]
            k.guard = takes
            both = self.combine(k, self.op, sources[source], rows[register])
            k.guard = None
            own = rows[register]
            found[register] = both if takes is None else [f.select(takes, a, b) for a, b in zip(both, own, strict=True)]
        return found

    def _fetched(self, row: Row, operand: V, kind: str) -> Row:
        t = self.k.t
        return [
            t.from_bits(t.shuffle(kind, t.to_bits(value, elem), operand), elem)
            for value, elem in zip(row, self.elems, strict=True)
        ]
