"""Lowers reductions: in each thread, by butterflies inside a warp, through shared memory between warps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import Operation, Region

from ....linear_layouts.layout import LANE, REGISTER, LinearLayout
from ....linear_layouts.plans.reduction import Butterfly, ReductionPlan, plan_reduction
from ....tt.analysis.combining import COMMUTATIVE, single_operation
from ....tt.analysis.control_flow import terminator
from ....tt.facts import ORDERED
from ...elementwise import constant
from ...syntax import attributes, constant_value, element_name, is_tensor, shape_of
from ...values import V, i32
from ..context import Handler, KernelContext
from ..control.regions import each_thread_alone, region_values
from ..nodes import Distributed
from ..threads import ALL_LANES, bits_of
from .ordered import Ordered

Tuple = list[V]


def combine(k: KernelContext, op: Any, left: Sequence[V], right: Sequence[V]) -> Tuple:
    """Emits the combine region of a reduction or scan, on scalars."""
    if op not in k.single_combines:
        k.single_combines[op] = _single(k, op.regions[0])
    single = k.single_combines[op]
    if single is not None:
        return [single(left[0], right[0])]
    region = op.regions[0]
    if len(region.blocks) != 1:
        return region_values(k, region, [*left, *right])
    block = region.blocks[0]
    saved = dict(k.scalars)
    k.scalars.update(zip(block.args, [*left, *right], strict=True))
    for inner in list(block.ops)[:-1]:
        if inner.name == "arith.constant":
            elem = element_name(inner.results[0].type)
            k.scalars[inner.results[0]] = constant(constant_value(inner), elem)
        else:
            k.operation(inner)
    found = [k.scalar(value) for value in terminator(block).operands]
    k.scalars = saved
    return found


def _single(k: KernelContext, region: Region) -> Callable[[V, V], V] | None:
    """Returns the function of a region with one operation on its two arguments, as most have; None for others.

    It is emitted without examining the region again.
    """
    block = region.blocks[0]
    ops = list(block.ops)
    if len(region.blocks) != 1 or len(ops) != 2 or len(block.args) != 2:
        return None
    inner, end = ops
    if not k.is_elementwise(inner) or set(inner.operands) != set(block.args) or list(end.operands) != list(inner.results):
        return None
    result, attrs = element_name(inner.results[0].type), attributes(inner)
    elems = [element_name(argument.type) for argument in block.args]
    swapped = inner.operands[0] is block.args[1]
    if len(inner.operands) != 2 or inner.name == "tt.addptr":
        return None
    return lambda a, b: k.ev.element(inner.name, result, [b, a] if swapped else [a, b], elems, attrs)


def _reduce(k: KernelContext, op: Operation) -> None:
    attrs = attributes(op)
    axis = int(attrs["axis"])
    nodes = [k.node(operand) for operand in op.operands]
    layout = k.ev.choose_layout(nodes)
    if layout is None:
        layout = k.accesses.preferred(op.operands[0])
    elems = [node.elem for node in nodes]
    plans = [plan_reduction(layout, axis, bits_of(elem)) for elem in elems]
    if k.ev.only_layouts:
        anything = [k.ev.any(elem, plans[0].result.size(REGISTER)) for elem in elems]
        _define(k, op, plans[0].result, [list(row) for row in zip(*anything, strict=True)])
        return
    columns = [k.ev.at(node, layout) for node in nodes]
    rows: list[Tuple] = [list(each) for each in zip(*columns, strict=True)]
    with each_thread_alone(k, op):
        if ORDERED in attrs:
            _define(k, op, plans[0].result, Ordered(k, op, elems, combine).reduce(layout, axis, rows))
            return
        sums = _reduced(k, op, plans, rows, elems, [1 << bit for bit, image in enumerate(layout[LANE]) if not image])
    _define(k, op, plans[0].result, sums)


def _reduced(
    k: KernelContext, op: Operation, plans: Sequence[ReductionPlan], rows: list[Tuple], elems: Sequence[str],
    copies: Sequence[int],
) -> list[Tuple]:  # fmt: skip
    """Emits a reduction by its plans. copies: masks that lead to lanes with the same elements."""
    plan, sums = plans[0], []
    for group in plan.groups:
        total = rows[group[0]]
        for register in group[1:]:
            total = combine(k, op, total, rows[register])
        sums.append(total)
    warp = _REDUX.get(next(iter(op.regions[0].blocks[0].ops)).name) if _commutes(op) and elems[0] == "i32" else None
    if warp is not None and plan.is_of_whole_warp(() if warp in ("add", "xor") else copies):
        sums = [[k.t.call(f"redux.sync.{warp}", [*own, ALL_LANES], "i32")] for own in sums]
    else:
        for butterfly in plan.butterflies:
            sums = _butterfly(k, op, butterfly, sums, elems)
    return sums if plan.exchange is None else _between_warps(k, op, plans, sums, elems)


def _butterfly(k: KernelContext, op: Operation, step: Butterfly, sums: list[Tuple], elems: Sequence[str]) -> list[Tuple]:
    """Combines every accumulator with that of the other lane; lower positions come first."""
    t = k.t
    found = []
    for register, own in enumerate(sums):
        sent = sums[register ^ step.register_mask]
        other = [
            t.from_bits(t.shuffle("bfly", t.to_bits(value, elem), i32(step.lane_mask)), elem)
            for value, elem in zip(sent, elems, strict=True)
        ]
        if _commutes(op):
            found.append(combine(k, op, own, other))
            continue
        first = t.condition(step.first, register)
        left = [k.f.select(first, a, b) for a, b in zip(own, other, strict=True)]
        right = [k.f.select(first, b, a) for a, b in zip(own, other, strict=True)]
        found.append(combine(k, op, left, right))
    return found


_REDUX = {
    "arith.addi": "add", "arith.andi": "and", "arith.ori": "or", "arith.xori": "xor", "arith.maxsi": "max",
    "arith.minsi": "min", "arith.maxui": "umax", "arith.minui": "umin",
}  # fmt: skip
"""The reductions of 32-bit integers that a warp does in one instruction (PTX ISA, "redux.sync")."""


def _commutes(op: Operation) -> bool:
    """Whether the region is one operation that gives the same bits in either order of operands."""
    single = single_operation(op.regions[0])
    return single is not None and single.name in COMMUTATIVE


def _between_warps(
    k: KernelContext, op: Operation, plans: Sequence[ReductionPlan], sums: list[Tuple], elems: Sequence[str]
) -> list[Tuple]:
    columns = []
    for index, (plan, elem) in enumerate(zip(plans, elems, strict=True)):
        assert plan.exchange is not None
        columns.append(k.moves.exchange([row[index] for row in sums], elem, plan.exchange))
    partials = [list(each) for each in zip(*columns, strict=True)]
    count = plans[0].partials
    found = []
    for start in range(0, len(partials), count):
        total = partials[start]
        for partial in partials[start + 1 : start + count]:
            total = combine(k, op, total, partial)
        found.append(total)
    return found


def _define(k: KernelContext, op: Operation, layout: LinearLayout, rows: list[Tuple]) -> None:
    for index, result in enumerate(op.results):
        values = tuple(row[index] for row in rows)
        if is_tensor(result.type):
            k.define(result, Distributed(shape_of(result.type), element_name(result.type), layout, values))
        else:
            k.scalars[result] = values[0]


REDUCTIONS: dict[str, Handler] = {"tt.reduce": _reduce}
