"""Lowers scans: emits the plans of `linear_layouts.plans.scanning`.

Values of all operands are combined together, so they take every step together; a plan made for the widest one serves all.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from ....linear_layouts.layout import LinearLayout
from ....linear_layouts.linear import ThreadMap
from ....linear_layouts.plans.scanning import (
    LanePrefixStep,
    LaneStep,
    SharedStep,
    Step,
    Threads,
    ThreadStep,
    plan_scan,
)
from ....tt.facts import ORDERED
from ...syntax import attributes, shape_of
from ...values import V, i32
from ..context import Handler, KernelContext
from ..control.regions import each_thread_alone
from ..nodes import Distributed, Node
from ..threads import bits_of
from .ordered import Ordered
from .reductions import combine

Row = list[V]
"""The values of the operands in one register."""


def _scan(k: KernelContext, op: Operation) -> None:
    attrs = attributes(op)
    nodes = [k.node(operand) for operand in op.operands]
    layout = k.ev.choose_layout(nodes)
    if layout is None:
        layout = k.accesses.preferred(op.operands[0])
    elems = [node.elem for node in nodes]
    if ORDERED in attrs:
        _scan_in_order(k, op, nodes, layout.unique_registers())
        return
    plan = plan_scan(layout, int(attrs["axis"]), max(bits_of(elem) for elem in elems), reverse=bool(attrs["reverse"]))
    columns = []
    for node in nodes:
        own = k.ev.at(node, layout)
        if plan.before is not None:
            own = k.moves.convert(own, node.elem, layout, plan.working)
        columns.append([own[register] for register in plan.source_registers])
    scan = _Scan(k, op, elems, [list(row) for row in zip(*columns, strict=True)])
    with each_thread_alone(k, op):
        for step in plan.steps:
            scan.take(step)
    for index, (result, elem) in enumerate(zip(op.results, elems, strict=True)):
        values = tuple(scan.rows[register][index] for register in plan.destination_registers)
        if plan.after is not None:
            values = k.moves.convert(values, elem, plan.working, layout)
        k.define(result, Distributed(shape_of(result.type), elem, layout, values))


def _scan_in_order(k: KernelContext, op: Operation, nodes: Sequence[Node], layout: LinearLayout) -> None:
    attrs, elems = attributes(op), [node.elem for node in nodes]
    rows: list[Row] = [list(row) for row in zip(*[k.ev.at(node, layout) for node in nodes], strict=True)]
    if not k.ev.only_layouts:
        with each_thread_alone(k, op):
            rows = Ordered(k, op, elems, combine).scan(layout, int(attrs["axis"]), bool(attrs["reverse"]), rows)
    for index, (result, elem) in enumerate(zip(op.results, elems, strict=True)):
        k.define(result, Distributed(shape_of(result.type), elem, layout, tuple([row[index] for row in rows])))


class _Scan:
    """The rows of a thread, by register, while steps change them. Left operands come first along the scan."""

    def __init__(self, k: KernelContext, op: Operation, elems: Sequence[str], rows: list[Row]) -> None:
        self.k = k
        self.op = op
        self.elems = elems
        self.rows = rows

    def take(self, step: Step) -> None:
        match step:
            case ThreadStep():
                self.inside(step)
            case LaneStep():
                self.between_lanes(step)
            case LanePrefixStep():
                self.lane_totals(step)
            case SharedStep():
                self.through_memory(step)

    def combined(self, before: Row, own: Row, condition: V | None, other: Row | None = None) -> Row:
        """Combines both where the condition holds, else selects the own values, or `other`.

        The region asserts only where it holds.
        """
        self.k.guard = condition
        both = combine(self.k, self.op, before, own)
        self.k.guard = None
        return both if condition is None else self.select(condition, both, own if other is None else other)

    def select(self, condition: V, yes: Row, no: Row) -> Row:
        return [self.k.f.select(condition, a, b) for a, b in zip(yes, no, strict=True)]

    def shuffled(self, row: Row, operand: V, kind: str = "idx") -> Row:
        """Returns the row that another lane has. PTX ISA, "shfl.sync": the last operand is where "up" and the others stop."""
        t, stop = self.k.t, 0 if kind == "up" else 31
        return [
            t.from_bits(t.shuffle(kind, t.to_bits(value, elem), operand, stop), elem)
            for value, elem in zip(row, self.elems, strict=True)
        ]

    # -- steps -----------------------------------------------------------------------

    def inside(self, step: ThreadStep) -> None:
        for into, source in step.pairs:
            self.rows[into] = combine(self.k, self.op, self.rows[source], self.rows[into])

    def between_lanes(self, step: LaneStep) -> None:
        lane, active = self.k.t.map(step.source_lane), self.holds(step.active)
        changed = list(self.rows)
        for source, takers in step.moves:
            before = self.shuffled(self.rows[source], lane)
            for register in takers:
                changed[register] = self.combined(before, self.rows[register], active)
        self.rows = changed

    def lane_totals(self, step: LanePrefixStep) -> None:
        """Moves totals by 1, 2, 4, … lanes of the sequence; a lane that has none that far before it keeps its own."""
        f, t = self.k.f, self.k.t
        mask = (1 << step.bits) - 1
        position = f.binary("and", t.lane, i32(mask << step.first_bit))
        if step.reverse:
            position = f.binary("xor", position, i32(mask << step.first_bit))

        def moved(row: Row, bit: int) -> tuple[Row, V]:
            distance = i32(1 << step.first_bit + bit)
            got = self.shuffled(row, distance, "down" if step.reverse else "up")
            return got, f.icmp("uge", position, distance)

        for chain in step.chains:
            total = self.rows[chain[-1]]
            for bit in range(step.bits):
                before, has_one = moved(total, bit)
                total = self.combined(before, total, has_one)
            self.rows[chain[-1]] = total
            if len(chain) > 1:
                before, has_one = moved(total, 0)
                for register in chain[:-1]:
                    self.rows[register] = self.combined(before, self.rows[register], has_one)

    def through_memory(self, step: SharedStep) -> None:
        """Stores the totals of all parts; every thread combines those before its own part."""
        k, shared = self.k, self.k.shared
        base = shared.reserve(step.bytes * len(self.elems))
        shared.before_writing()
        writers = self.holds(step.writers)
        address = k.t.map(step.address)
        bits = step.address.thread_bits
        with k.t.where(writers):
            for register, constant in step.stores:
                thread_address = k.t.with_constant(address, constant, bits)
                for number, (value, elem) in enumerate(zip(self.rows[register], self.elems, strict=True)):
                    packed, at = k.t.to_bits(value, elem), shared.at(base, k.f.add(thread_address, i32(number * step.bytes)))
                    stored, size = f"{packed.type} {packed.operand()}", bits_of(elem) // 8
                    k.f.emit(f"store {stored}, ptr addrspace(3) {at.operand()}, align {size}")
        shared.between()
        self.take_in(step, base)
        shared.after_reading()

    def take_in(self, step: SharedStep, base: V) -> None:
        """Combines the totals before each part. Sequences that several registers belong to are read once."""
        k = self.k
        start = k.t.map(_masked(step.address, ~step.index_mask))
        index = k.t.map(step.index)
        order = list(range(step.count - 1, 0, -1) if step.reverse else range(step.count - 1))
        prefixes: dict[tuple[int, int], tuple[Row, V]] = {}
        parts: dict[int, list[Row]] = {}
        for register, (sequence, own) in enumerate(zip(step.bases, step.indices, strict=True)):
            if sequence not in parts:
                parts[sequence] = [self.total(step, base, start, sequence, c) for c in order]
            key = (sequence, own)
            if key not in prefixes:
                here = k.t.with_constant(index, own, step.index.thread_bits)
                prefixes[key] = self.before(parts[sequence], order, here, step.reverse)
            total, has_one = prefixes[key]
            self.rows[register] = self.combined(total, self.rows[register], has_one)

    def total(self, step: SharedStep, base: V, start: V, sequence: int, number: int) -> Row:
        k, row = self.k, []
        thread_address = k.t.with_constant(start, sequence, _masked(step.address, ~step.index_mask).thread_bits)
        for operand, elem in enumerate(self.elems):
            at = k.shared.at(base, k.f.add(thread_address, i32(operand * step.bytes + number * step.element_bytes)))
            type_ = f"i{bits_of(elem)}"
            packed = k.f.op(f"load {type_}, ptr addrspace(3) {at.operand()}, align {bits_of(elem) // 8}", type_)
            row.append(k.t.from_bits(packed, elem))
        return row

    def before(self, parts: Sequence[Row], order: Sequence[int], index: V, reverse: bool) -> tuple[Row, V]:
        """Combines the parts before an index; also returns whether there is one."""

        def is_before(number: int) -> V:
            return self.k.f.icmp("ult" if reverse else "ugt", index, i32(number))

        total, has_one = parts[0], is_before(order[0])
        for number, part in zip(order[1:], parts[1:], strict=True):
            total = self.combined(total, part, is_before(number), total)
        return total, has_one

    def holds(self, threads: Threads) -> V | None:
        """Emits whether this is one of the threads; None when all are."""
        f, t = self.k.f, self.k.t
        tests = [
            f.icmp("eq", f.binary("and", source, i32(mask)), i32(value))
            for source, mask, value in (
                (t.lane, threads.lane_mask, threads.lane_value),
                (t.warp, threads.warp_mask, threads.warp_value),
            )
            if mask
        ]
        return self.k.t.both(tests[0] if tests else None, tests[1] if len(tests) > 1 else None)


def _masked(function: ThreadMap, mask: int) -> ThreadMap:
    return ThreadMap(function.constant & mask, tuple(v & mask for v in function.lane), tuple(v & mask for v in function.warp))


SCANS: dict[str, Handler] = {"tt.scan": _scan}
