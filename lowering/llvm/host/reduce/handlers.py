"""Lowers reductions, scans and matrix products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import Operation, SSAValue

from .....promotion.errors import InternalError
from ....tt.analysis.combining import commutes
from ....tt.facts import ORDERED
from ...syntax import attributes, constant_value, element_name, is_tensor, shape_of
from ...values import V
from ..context import KernelContext
from ..control.branches import lower_scalars
from ..control.regions import is_straight, reduce_by_region, scan_by_region
from ..loops.coordinates import Bound
from ..matmul.operands import Wanted
from ..matmul.stored_products import defer_product
from ..nodes import Node, Stored
from ..scratch.reads import scratch_reads
from .combine import Combine
from .deferred_scans import defer, started_block, taken_element
from .joint_operands import evaluate_jointly, release
from .loops import reduce, scan
from .ordered import reduce_in_order, scan_in_order


def _combine(k: KernelContext, op: Operation) -> Combine:
    block = op.regions[0].blocks[0]
    operations: list[tuple[str, str, Any, tuple[Any, ...], tuple[str, ...], dict[str, Any]]] = []
    captured: dict[int, V] = {}
    for inner in block.ops:
        for value in inner.operands:
            if value in k.scalars or (value in k.nodes and not is_tensor(value.type)):
                captured[id(value)] = k.scalar(value)
        if inner.name.endswith(".return"):
            return Combine(tuple(block.args), tuple(operations), tuple(inner.operands), captured)
        facts = {"value": constant_value(inner)} if inner.name == "arith.constant" else attributes(inner)
        operations.append((inner.name, element_name(inner.results[0].type), inner.results[0], tuple(inner.operands),
                           tuple(element_name(o.type) for o in inner.operands), facts))  # fmt: skip
    raise InternalError(f"host lowering: the region of {op.name} has no terminator")


def lower_reduce(k: KernelContext, op: Operation) -> None:
    if op in k.taken:  # a scan has it
        if (taken := k.taken[op]) is not None:  # else it defines it
            k.define(op.results[0], taken)
        return
    facts = attributes(op)
    axis = int(facts["axis"])
    if ORDERED in facts or _needs_order(k, op, axis):
        nodes = reduce_in_order(k.nests, [k.node(o) for o in op.operands], axis, *_any_region(k, op))
        _define_reduced(k, op, nodes)
        return
    if not is_straight(op.regions[0]):
        for result, found in zip(op.results, reduce_by_region(k, op, axis), strict=True):
            if isinstance(found, V):
                k.scalars[result] = k.ev.s.pointer(found) if element_name(result.type) == "ptr" else found
            else:
                k.define(result, found)
        return
    if (taken := taken_element(k, op)) is not None:
        _define_reduced(k, op, [taken])
        return
    operands = [k.node(o) for o in op.operands]
    limits: list[Bound] = []
    if is_tensor(op.results[0].type):  # all results of one reduction are written together
        first, *others = (k.limits(result) for result in op.results)
        limits = [bound for bound in first if all(bound in other for other in others)]
    wanted = [Bound(b.dim + (b.dim >= axis), b.limit) for b in limits]
    _define_reduced(k, op, reduce(k.nests, operands, axis, _combine(k, op), wanted))


def _needs_order(k: KernelContext, op: Operation, axis: int) -> bool:
    """Whether vectors would combine elements in another order, and the region gives something else then."""
    shape = shape_of(op.operands[0].type)
    is_inner = axis == k.nests.inner_dim(shape) or all(extent == 1 for d, extent in enumerate(shape) if d != axis)
    return is_inner and is_straight(op.regions[0]) and not commutes(op.regions[0])


def _define_reduced(k: KernelContext, op: Operation, results: Sequence[Node]) -> None:
    for result, node in zip(op.results, results, strict=True):
        if is_tensor(result.type):
            k.define(result, node)
        else:
            value = k.nests.argument_of(node)
            k.scalars[result] = k.ev.s.pointer(value) if element_name(result.type) == "ptr" else value


def _any_region(k: KernelContext, op: Operation) -> tuple[Callable[[Sequence[V], Sequence[V]], list[V]], bool]:
    """Returns the function of a region on two lists of values, and whether it takes scalars only."""
    region = op.regions[0]
    if not is_straight(region):
        return lambda left, right: lower_scalars(k, region, [*left, *right]), True
    combine = _combine(k, op)
    return lambda left, right: combine.emit(k.ev, left, right), False


def lower_scan(k: KernelContext, op: Operation) -> None:
    facts = attributes(op)
    axis, reverse = int(facts["axis"]), bool(facts.get("reverse", False))
    nodes: Sequence[Node]
    if ORDERED in facts:
        combine, single = _any_region(k, op)
        nodes = scan_in_order(k.nests, [k.node(o) for o in op.operands], axis, combine, reverse, single)
    elif is_straight(op.regions[0]):
        region = _combine(k, op)
        if defer(k, op, axis, region, reverse):
            return
        wanted, start = k.limits(op.results[0]), started_block(k, op, axis, reverse)
        nodes = scan(k.nests, [k.node(o) for o in op.operands], axis, region, reverse, wanted, start)
    else:
        nodes = scan_by_region(k, op, axis, reverse)
    for result, node in zip(op.results, nodes, strict=True):
        k.define(result, node)


def lower_dot(k: KernelContext, op: Operation) -> None:
    a, b, c = (k.node(o) for o in op.operands[:3])
    facts = attributes(op)
    precision, ordered = str(facts.get("inputPrecision", "ieee")), ORDERED in facts
    result = op.results[0]
    into = _update_in_place(k, op, result, (a, b), c)
    if len(a.shape) == 3:
        k.define(result, _batched(k, a, b, c, precision, ordered))
        return
    if into is None and not ordered and defer_product(k, op, a, b, c):
        return
    wanted = Wanted(k.limits(result), k.limits(op.operands[1]))
    if not ordered and min(c.shape) > 1:
        evaluate_jointly(k, op)
    k.define(result, k.dots.dot(a, b, c, precision, into, wanted, ordered))
    release(k, op)


def _batched(k: KernelContext, a: Node, b: Node, c: Node, precision: str, ordered: bool) -> Stored:
    """Lowers a batched product, one matrix after the other, on blocks in scratch."""
    rows = k.ev.target.vector_bytes
    stored = [k.nests.materialize(node, k.ev.scratch(node.shape, node.elem, pad=rows)) for node in (a, b, c)]
    with k.f.loop(0, c.shape[0]) as state, k.ev.scope():
        first, second, target = (
            Stored(m.shape[1:], m.elem, k.f.gep(m.pointer, k.ev.s.mul(state.index, k.ev.s.constant(m.strides[0])),
                                                   m.memory), m.strides[1:], m.memory)
            for m in stored
        )  # fmt: skip
        k.dots.dot(first, second, target, precision, target, ordered=ordered)
    return stored[2]


def _update_in_place(k: KernelContext, op: Operation, result: SSAValue, factors: Sequence[Node], c: Node) -> Stored | None:
    """Returns the loop-carried scratch that this dot's result becomes, if the old value is not needed any more, else None."""
    memory = k.carried.get(result)
    if memory is None:
        return None
    if k.is_read_after(memory, op):
        return None
    address = id(memory.pointer)
    if address in scratch_reads(k.ev, c)[1] or any(address in scratch_reads(k.ev, factor)[0] for factor in factors):
        return None  # the product, or c while it is written to the scratch, reads the old value
    if c is not memory:
        k.nests.materialize(c, memory, k.limits(result))
    return memory
