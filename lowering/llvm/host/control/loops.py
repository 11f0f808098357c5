"""Lowers loops and branches of block functions.

Loop-carried blocks live in scratch and are updated in place. Blocks of pointers that advance by the same block of offsets in
every iteration are never stored: they are computed from the iteration number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from ....tt.analysis.control_flow import terminator
from ....tt.analysis.integer_ranges import IntegerRanges
from ....tt.types import bit_width
from ...elementwise import register_element
from ...syntax import element_name, is_tensor, shape_of
from ...values import V, i64, is_integer
from ..context import KernelContext
from ..loops.coordinates import Bound
from ..loops.liveness import all_operations
from ..matmul.product_loops import ProductLoop, define_integer, lower_product_loop, product_loop
from ..matmul.repeated_products import lower_repeated_product
from ..memory.accesses import in_units
from ..memory.advance import Advance
from ..memory.affine import as_affine
from ..memory.offsets import is_exact
from ..nodes import Affine, Map, Node, Pointers, Splat, Stored, cost
from ..scalars import ZERO, is_constant
from ..scratch.reads import scratch_reads

ONE = i64(1)


def _advance(k: KernelContext, op: Any, position: int) -> Advance | None:
    """Returns how a carried block of pointers advances, or None.

    It must advance by one block of offsets that is known before the loop and the same at every position, or affine in it.
    """
    body = op.regions[0].blocks[0]
    argument, value = body.args[1 + position], terminator(body).operands[position]
    if value is argument:
        moved: Affine | None = Affine(shape_of(argument.type), "i64", ZERO, (None,) * len(shape_of(argument.type)))
    else:
        producer = getattr(value, "op", None)
        if producer is None or producer.name != "tt.addptr" or producer.operands[0] is not argument:
            return None
        step = k.nodes.get(producer.operands[1])
        moved = None if step is None else as_affine(k.ev.s, step)
        if moved is not None and not is_exact(k, moved, producer):
            moved = None
    if moved is None or not isinstance(k.node(op.operands[3 + position]), (Pointers, Splat)):
        return None
    start = k.pointers(op.operands[3 + position])
    scaled = in_units(k, start, Affine(moved.shape, "i64", moved.base, moved.coefficients))
    assert isinstance(scaled, Affine)
    if start.rest is not None:
        k.nests.materialize_operands([start.rest])  # once, before the loop
    return Advance(start, scaled)


def _quotient(k: KernelContext, a: V, b: V) -> V:
    return a if is_integer(b, 1) else k.f.binary("sdiv", a, b)


def _may_pass_the_end(op: Operation) -> bool:
    """Whether the counter, in 64 bits, may exceed the largest number by its last step and wrap around."""
    if bit_width(op.operands[0].type) < 64:
        return False
    ranges = IntegerRanges()
    return ranges.of(op.operands[1])[1] - 1 + ranges.of(op.operands[2])[1] >= 1 << 63


def _trip_count(k: KernelContext, low: V, high: V, stride: V, passes: bool) -> V:
    """Emits the trip count of a loop. passes: one stride beyond the end may overflow 64 bits."""
    s = k.ev.s
    if not passes:
        return s.max(_quotient(k, s.add(s.sub(high, low), s.sub(stride, ONE)), stride), ZERO)
    last = s.sub(s.sub(high, low), ONE)
    last = last if is_integer(stride, 1) else k.f.binary("udiv", last, stride)
    count = k.f.select(k.f.icmp("slt", last, ZERO), i64((1 << 63) - 1), s.add(last, ONE))  # such a loop never ends in practice
    return k.f.select(k.f.icmp("slt", low, high), count, ZERO)


def lower_for(k: KernelContext, op: Any) -> None:
    low, high, step = (k.integer(o) for o in op.operands[:3])
    body = op.regions[0].blocks[0]
    induction, *arguments = body.args
    inits = list(op.operands[3:])
    _materialize_captured(k, body)
    if lower_repeated_product(k, op):
        return
    yielded = terminator(body).operands
    carried_scalars: list[int] = []
    inductions: dict[int, Advance] = {}
    # A step of zero is an error of the text, but must not become a division that ends the process.
    stride = step if is_constant(step) and not is_integer(step, 0) else k.f.select(k.f.icmp("eq", step, ZERO), ONE, step)
    for i, (argument, init) in enumerate(zip(arguments, inits, strict=True)):
        if not is_tensor(argument.type):
            carried_scalars.append(i)
            continue
        node = k.node(init)
        if node.elem == "ptr" and (advance := _advance(k, op, i)) is not None:
            inductions[i] = advance
            continue
        memory = k.ev.scratch(node.shape, node.elem)
        k.nests.materialize(node, memory)
        k.define(argument, memory)
        k.carried[yielded[i]] = memory
    passes = _may_pass_the_end(op)
    iterations = _trip_count(k, low, high, stride, passes) if inductions or passes else ZERO
    loop = product_loop(k, op, inductions) if inductions and k.bounds is None else None  # it passes no access's own handler
    if loop is not None and lower_product_loop(k, loop, inductions, iterations, low, stride):
        _carry_out(k, loop, inductions, iterations)
        return
    first = [k.scalar(inits[i]) for i in carried_scalars]
    replaced = dict(k.ev.replacement)
    bounds = (ZERO, iterations, ONE) if passes else (low, high, step)
    known = not passes and is_constant(low) and is_constant(high) and low.number < high.number
    with k.f.loop(*bounds, first, at_least_once=known) as state, k.ev.scope():
        k.leave_if_stopped()
        if passes:
            k.scalars[induction] = k.ev.s.add(low, k.ev.s.mul(state.index, step))
        elif element_name(induction.type) == "i64":
            k.scalars[induction] = state.index
        else:
            k.wide[induction] = state.index
            k.scalars[induction] = k.f.cast(
                "trunc", state.index, register_element(element_name(induction.type))
            )
        for i, value in zip(carried_scalars, state.values, strict=True):
            k.scalars[arguments[i]] = value
        if inductions:
            iteration = state.index if passes else _quotient(k, k.ev.s.sub(state.index, low), stride)
            for i, advance in inductions.items():
                k.define(arguments[i], advance.after(k.ev.s, iteration))
        k.block(body)
        _yield(k, arguments, yielded)
        state.next = [k.scalar(yielded[i]) for i in carried_scalars]
    k.ev.replacement = replaced  # values kept inside may not have been computed (no iterations)
    for i, value in zip(carried_scalars, state.results, strict=True):
        k.scalars[op.results[i]] = value
    for i, argument in enumerate(arguments):
        if i in inductions:
            k.define(op.results[i], inductions[i].after(k.ev.s, iterations))
        elif is_tensor(argument.type):
            k.define(op.results[i], k.nodes[argument])


def _carry_out(k: KernelContext, loop: ProductLoop, inductions: Mapping[int, Advance], iterations: V) -> None:
    """Defines the results of a loop that is a product: blocks are in scratch, the rest follows from the trip count."""
    op = loop.op
    for i, result in enumerate(op.results):
        if i in inductions:
            k.define(result, inductions[i].after(k.ev.s, iterations))
        elif is_tensor(result.type):
            k.define(result, k.nodes[op.regions[0].blocks[0].args[1 + i]])
        else:
            start = k.ev.s.to_i64(k.scalar(op.operands[3 + i]))
            define_integer(k, result, k.ev.s.add(start, k.ev.s.mul(k.ev.s.constant(loop.scalars[i]), iterations)))


def _materialize_captured(k: KernelContext, body: Block) -> None:
    """Evaluates expensive values that are defined outside a loop and used inside once, before it."""
    inside = {id(op) for op in all_operations(body)}
    for op in all_operations(body):
        for value in op.operands:
            node = k.nodes.get(value)
            producer = getattr(value, "op", None)
            if (
                node is None
                or (producer is not None and id(producer) in inside)
                or id(node) in k.ev.replacement
            ):
                continue
            if isinstance(node, Map) and cost(node) > 4:
                k.ev.replacement[id(node)] = (node, k.nests.materialize(node), ())


def _yield(k: KernelContext, arguments: Sequence[SSAValue], yielded: Sequence[SSAValue]) -> None:
    """Writes the new loop-carried blocks."""
    blocks = []
    for argument, value in zip(arguments, yielded, strict=True):
        memory = k.nodes[argument] if is_tensor(argument.type) else None
        if isinstance(memory, Stored):
            blocks.append((memory, k.node(value), k.limits(value)))
    write_blocks(k, blocks)


def write_blocks(k: KernelContext, blocks: Sequence[tuple[Stored, Node, list[Bound]]]) -> None:
    """Writes values, each within its bounds, into scratch that others of them may read, as if all at once.

    A block is overwritten only after everything that reads its old value.
    """
    pending: list[tuple[Stored, Node, set[int], list[Bound]]] = []
    for memory, node, wanted in blocks:
        if node is memory:
            continue
        reads, elsewhere = scratch_reads(k.ev, node)
        if id(memory.pointer) in elsewhere:  # such as x + x.T: completed before the first element is overwritten
            node, reads = k.nests.materialize(node, bounds=wanted), set()
        pending.append((memory, node, reads, wanted))
    if len(pending) > 1 and _are_alike(pending):
        k.nests.copy([node for _, node, _, _ in pending], [memory for memory, *_ in pending], pending[0][3])
        return
    while pending:
        for entry in pending:
            memory = entry[0]
            if not any(id(memory.pointer) in other[2] for other in pending if other is not entry):
                break
        else:  # a cycle: save one new value before its old one disappears
            memory, node, _, wanted = pending.pop(0)
            saved = k.nests.materialize(node, bounds=wanted)
            pending.append((memory, saved, set(), wanted))
            continue
        pending.remove(entry)
        k.nests.materialize(entry[1], entry[0], entry[3])


def _are_alike(pending: Sequence[tuple[Stored, Node, set[int], list[Bound]]]) -> bool:
    """Returns whether choices, such as extremes and their positions, are written in blocks of one shape within equal bounds."""
    first, _, _, wanted = pending[0]
    limits = {(bound.dim, bound.limit.operand()) for bound in wanted}
    return bool(first.shape) and all(
        memory.shape == first.shape and isinstance(node, Map) and node.op == "arith.select"
        and {(bound.dim, bound.limit.operand()) for bound in within} == limits
        for memory, node, _, within in pending
    )  # fmt: skip


def lower_if(k: KernelContext, op: Any) -> None:
    condition = k.scalar(op.operands[0])
    memories = {
        r: k.ev.scratch(shape_of(r.type), element_name(r.type))
        for r in op.results
        if is_tensor(r.type)
    }
    labels = [k.f.label("then"), k.f.label("else"), k.f.label("endif")]
    k.f.cond_branch(condition, labels[0], labels[1])
    incoming: dict[Block, list[tuple[V, str]]] = {r: [] for r in op.results if r not in memories}
    for label, region in zip(labels[:2], op.regions, strict=True):
        k.f.start(label)
        replaced = dict(k.ev.replacement)
        with k.ev.scope():
            values: Sequence[Any] = ()
            if region.blocks:
                k.block(region.blocks[0])
                values = terminator(region.blocks[0]).operands
            for result, value in zip(op.results, values, strict=True):
                if result in memories:
                    k.nests.materialize(k.node(value), memories[result])
            scalars = {
                r: k.scalar(v) for r, v in zip(op.results, values, strict=True) if r not in memories
            }
            for result, scalar in scalars.items():
                incoming[result].append((scalar, k.f.block))
            k.f.branch(labels[2])
        k.ev.replacement = replaced
    k.f.start(labels[2])
    for result in op.results:
        if result in memories:
            k.define(result, memories[result])
        else:
            k.scalars[result] = k.f.phi(incoming[result][0][0].type, incoming[result])


def lower_while(k: KernelContext, op: Any) -> None:
    """Lowers `scf.while`: the first region computes the condition and the values for the second one, or for the results."""
    before, after = (region.blocks[0] for region in op.regions)
    slots: dict[SSAValue, V] = {}
    carried: dict[Any, Stored] = {}
    for argument, init in zip(before.args, op.operands, strict=True):
        if not is_tensor(argument.type):
            first = k.scalar(init)
            slots[argument] = k.f.alloca(first.type, 1, 8)
            k.f.store(first, slots[argument], 1)
            continue
        carried[argument] = k.nests.materialize(k.node(init))
    head, body, done = k.f.label("while"), k.f.label("turn"), k.f.label("done")
    replaced = dict(k.ev.replacement)
    k.f.branch(head)
    k.f.start(head)
    k.leave_if_stopped()
    with k.ev.scope():
        for argument, slot in slots.items():
            type_ = register_element(element_name(argument.type))
            k.scalars[argument] = k.f.load(type_, slot, 1)
        for argument, memory in carried.items():
            k.define(argument, memory)
        k.block(before)
        condition, *forwarded = terminator(before).operands
        goes_on = k.scalar(condition)
        passed: list[V | Stored] = [
            k.nests.materialize(k.node(value)) if is_tensor(value.type) else k.scalar(value) for value in forwarded
        ]
        k.f.cond_branch(goes_on, body, done)
        k.f.start(body)
        with k.ev.scope():
            _bind(k, after.args, passed)
            k.ev.replacement = dict(replaced)
            k.block(after)
            yielded = terminator(after).operands
            scalars = {a: k.scalar(v) for a, v in zip(before.args, yielded, strict=True) if a in slots}
            blocks = [(carried[a], k.node(v)) for a, v in zip(before.args, yielded, strict=True) if a in carried]
            for memory, node in blocks:  # what they read was passed to this region: none reads another's memory
                k.nests.materialize(node, memory)
            for argument, value in scalars.items():
                k.f.store(value, slots[argument], 1)
            k.f.branch(head)
        k.f.start(done)
    k.ev.replacement = replaced
    _bind(k, op.results, passed)


def _bind(k: KernelContext, values: Sequence[SSAValue], found: Sequence[V | Stored]) -> None:
    for value, what in zip(values, found, strict=True):
        if isinstance(what, V):
            k.scalars[value] = what
        else:
            k.define(value, what)
