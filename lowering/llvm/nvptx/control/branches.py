"""Lowers the control flow of a program, which is the same for all its threads: loops, choices, and graphs of blocks.

Blocks that a loop carries have one layout all the time. It is found by lowering the body once on trial: the layouts that the
body yields decide, else those of the initial values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from xdsl.dialects.scf import ForOp
from xdsl.ir import Block, Operation, SSAValue

from .....promotion.errors import UnsupportedError
from ....tt.analysis.control_flow import terminator
from ....tt.transforms.loops.mark_pipelined_loads import address_slice, marked_loads
from ...elementwise import register_element
from ...syntax import element_name, is_tensor
from ...values import V
from ..context import Handler, KernelContext
from ..matmul.mma_dot import prepare
from ..matmul.warpgroup_dot import invariant_operands
from ..memory.shared_memory import ALIGNMENT
from ..nodes import own_layout
from .counting import counting
from .loop_carried import Layouts, bind, flat, types
from .pipelined_loads import PipelinedLoad, make_pipeline, plan_load
from .pipelined_loops import PipelinedLoop
from .rotated_loops import rotated_loop
from .trials import trial
from .warp_specialization import ConsumerLoop, OuterConsumerLoop, outer_consumer_loop, pipelined_loop

_TRIALS = 3


def lower_body(k: KernelContext) -> None:
    """Lowers the whole function: one block, or a graph of them."""
    region = k.function.body
    if len(region.blocks) == 1:
        k.block(region.blocks[0])
        leave(k)
    else:
        lower_graph(k, region, k.function, lambda last: leave(k))


def leave(k: KernelContext) -> None:
    """Emits the end of a program, where shared memory must last until bulk copies have read it."""
    k.shared.finish_copies(reading=True)
    k.f.ret()


def _starts_copies(op: Operation) -> bool:
    """Whether an operation's regions start bulk copies of blocks to global memory."""
    return any(inner.name == "tt.descriptor_store" for inner in op.walk())


# -- values in registers -------------------------------------------------------------------


def _wanted(k: KernelContext, values: Sequence[SSAValue]) -> Layouts:
    """Returns the layouts of values, None for those that are expressions or scalars."""
    return [k.ev.choose_layout([k.node(value)]) if is_tensor(value.type) else None for value in values]


def _carried_layouts(
    k: KernelContext, first: Sequence[SSAValue], arguments: Sequence[SSAValue], body: Callable[[], Sequence[Any]]
) -> Layouts:
    """Chooses layouts for what a loop carries; `body` lowers it and returns what it yields."""
    start = _wanted(k, first)
    guessed = [own is None for own in start]
    layouts: Layouts = [
        (own if own is not None else k.accesses.preferred(argument)) if is_tensor(argument.type) else None
        for own, argument in zip(start, arguments, strict=True)
    ]
    if all(layout is None for layout in layouts):
        return layouts
    for _ in range(_TRIALS):
        with trial(k):
            registers = [V(k.f.fresh("c"), type_) for type_ in types(arguments, layouts)]
            bind(k, arguments, layouts, registers, guessed)
            yielded = list(body())
            found = [own_layout(k.node(value)) if is_tensor(value.type) else None for value in yielded]
        better = [old if own is None else own[0] for own, old in zip(found, layouts, strict=True)]
        firm = [guess and (own is None or not own[1]) for own, guess in zip(found, guessed, strict=True)]
        if better == layouts and firm == guessed:
            break
        layouts, guessed = better, firm
    return layouts


# -- loops -----------------------------------------------------------------------------------


def _for(k: KernelContext, op: ForOp) -> None:
    f, body = k.f, op.body.blocks[0]
    index, *arguments = body.args

    def run() -> Sequence[Any]:
        k.block(body)
        return list(terminator(body).operands)

    def on_trial() -> Sequence[Any]:
        k.scalars[index] = V(f.fresh("i"), register_element(element_name(index.type)))
        return run()

    with k.order.several_ways(op), ExitStack() as stack:
        copies = k.shared.several_ways(_starts_copies(op))
        stack.enter_context(invariant_operands(k, op))
        layouts = _carried_layouts(k, op.iter_args, arguments, on_trial)
        start = flat(k, op.iter_args, layouts)
        k.shared.several_ways(copies)
        prepare(k, body)
        pipelined = None if k.ev.only_layouts else _pipelined(k, op, layouts)
        rotated = rotated_loop(k, pipelined, layouts) if isinstance(pipelined, ConsumerLoop) else None
        if rotated is not None:
            stack.enter_context(rotated.loop)
            bind(k, op.results, layouts, rotated.lower(start))
            k.shared.several_ways(copies)
            return
        count = counting(k, op, 1 if pipelined is None else pipelined.lookahead)
        more: list[V] = []
        if pipelined is not None:
            stack.enter_context(pipelined)
            more = pipelined.begin(count, start)
        open_loop = stack.enter_context(k.ev.loop())
        head, inside, done = f.label("head"), f.label("body"), f.label("done")
        f.branch(head)
        f.start(head, True)
        counter = f.carried(count.low.type)
        registers = [f.carried(type_) for type_ in types(arguments, layouts)]
        own = [f.carried(value.type) for value in more]
        slot = len(f.lines)
        f.lines.append("")
        f.cond_branch(count.goes_on(f, counter), inside, done)
        f.start(inside, True)
        with k.ev.scope():
            following = [] if pipelined is None else pipelined.iteration(counter, own)
            k.scalars[index] = count.index(f, counter)
            bind(k, arguments, layouts, registers)
            following = [*flat(k, run(), layouts), *following]
            following += [] if pipelined is None else pipelined.finish(counter, own)
            after = f.add(counter, count.step)
        latch = f.block
        f.emit(f"br label %{head}, !llvm.loop !{f.module.metadata.no_unrolling()}")
        values = zip([counter, *registers, *own], [count.low, *start, *more], [after, *following], strict=True)
        f.join(slot, values, open_loop.block, latch)
        f.start(done, True)
        results = registers if pipelined is None else pipelined.end(registers)
        bind(k, op.results, layouts, results)
        k.shared.several_ways(copies)


def _pipelined(k: KernelContext, op: ForOp, layouts: Layouts) -> PipelinedLoop | OuterConsumerLoop | None:
    """Plans the software-pipelined form of a loop; None if it has none.

    A trial lowering of the operations that its loads' addresses need decides how loads are copied.
    """
    loads = marked_loads(op)
    planned: list[PipelinedLoad] = []
    if loads:
        index, *arguments = op.body.blocks[0].args
        with trial(k):
            k.scalars[index] = V(k.f.fresh("i"), register_element(element_name(index.type)))
            bind(k, arguments, layouts, [V(k.f.fresh("c"), type_) for type_ in types(arguments, layouts)])
            for each in address_slice(op, loads)[0]:
                k.operation(each)
            offset = 0
            for load in loads:
                plan = plan_load(k, load, offset)
                if plan is not None:
                    planned.append(plan)
                    offset += -(-plan.operand.bytes // ALIGNMENT) * ALIGNMENT
    pipeline = make_pipeline(k, op, planned, layouts)
    return outer_consumer_loop(k, op) if pipeline is None else pipelined_loop(k, op, pipeline, layouts)


def _while(k: KernelContext, op: Any) -> None:
    f = k.f
    before, after = op.before_region.blocks[0], op.after_region.blocks[0]

    def test() -> tuple[V, Sequence[Any]]:
        k.block(before)
        last = before.last_op
        return k.scalar(last.operands[0]), list(last.operands[1:])

    def iterate(passed: Sequence[Any], layouts: Layouts) -> Sequence[Any]:
        bind(k, after.args, layouts, flat(k, passed, layouts))
        k.block(after)
        return list(terminator(after).operands)

    def on_trial() -> Sequence[Any]:
        _, passed = test()
        found = _wanted(k, passed)
        layouts = [
            (own if own is not None else k.accesses.preferred(value)) if is_tensor(value.type) else None
            for own, value in zip(found, after.args, strict=True)
        ]
        return iterate(passed, layouts)

    with k.order.several_ways(op), ExitStack() as stack:
        copies = k.shared.several_ways(_starts_copies(op))
        layouts = _carried_layouts(k, op.operands, before.args, on_trial)
        carried = flat(k, op.operands, layouts)
        k.shared.several_ways(copies)
        open_loop = stack.enter_context(k.ev.loop())
        head, inside, done = f.label("head"), f.label("body"), f.label("done")
        f.branch(head)
        f.start(head, True)
        registers = [f.carried(type_) for type_ in types(before.args, layouts)]
        slot = len(f.lines)
        f.lines.append("")
        with k.ev.scope():
            bind(k, before.args, layouts, registers)
            condition, passed = test()
            wanted = _wanted(k, passed)
            results = [
                (own if own is not None else k.accesses.preferred(value)) if is_tensor(value.type) else None
                for own, value in zip(wanted, after.args, strict=True)
            ]
            outgoing = flat(k, passed, results)
            f.cond_branch(condition, inside, done)
            f.start(inside, True)
            with k.ev.scope():
                bind(k, after.args, results, outgoing)
                k.block(after)
                following = flat(k, list(terminator(after).operands), layouts)
            latch = f.block
            f.branch(head)
        f.join(slot, zip(registers, carried, following, strict=True), open_loop.block, latch)
        f.start(done, True)
        bind(k, op.results, results, outgoing)
        k.shared.several_ways(copies)


# -- choices ---------------------------------------------------------------------------------


def _if(k: KernelContext, op: Any) -> None:
    f = k.f
    condition = k.scalar(op.cond)
    regions = [region for region in op.regions if region.blocks]
    with k.order.several_ways(op):
        layouts: Layouts = [None] * len(op.results)
        for region in regions if any(is_tensor(result.type) for result in op.results) else ():
            with trial(k):
                k.block(region.blocks[0])
                found = _wanted(k, list(terminator(region.blocks[0]).operands))
            layouts = [old if old is not None else own for old, own in zip(layouts, found, strict=True)]
        layouts = [
            (own if own is not None else k.accesses.preferred(result)) if is_tensor(result.type) else None
            for own, result in zip(layouts, op.results, strict=True)
        ]
        labels = [f.label("then"), f.label("else")]
        done = f.label("done")
        f.cond_branch(condition, *labels)
        ends: list[tuple[str, list[V]]] = []
        pending = k.shared.pending
        for label, region in zip(labels, op.regions, strict=True):
            f.start(label, True)
            k.shared.pending = pending
            values: list[V] = []
            if region.blocks:
                with k.ev.scope():
                    k.block(region.blocks[0])
                    values = flat(k, list(terminator(region.blocks[0]).operands), layouts)
            ends.append((f.block, values))
            f.branch(done)
        f.start(done, True)
        k.shared.several_ways(pending.copies or _starts_copies(op))
        bind(k, op.results, layouts, _joined(k, op.results, layouts, ends))


def _execute_region(k: KernelContext, op: Any) -> None:
    """Lowers an inlined function. Where it ends in several blocks, its results have the layouts that accesses prefer."""
    region, f = op.regions[0], k.f
    if len(region.blocks) == 1:
        k.block(region.blocks[0])
        for result, value in zip(op.results, terminator(region.blocks[0]).operands, strict=True):
            if is_tensor(result.type):
                k.define(result, k.node(value))
            else:
                k.scalars[result] = k.scalar(value)
        return
    layouts: Layouts = [k.accesses.preferred(result) if is_tensor(result.type) else None for result in op.results]
    ends: list[tuple[str, list[V]]] = []
    done = f.label("done")
    copies = k.shared.pending.copies or _starts_copies(op)

    def end(last: Operation) -> None:
        values = flat(k, list(last.operands), layouts)
        ends.append((f.block, values))
        f.branch(done)

    with k.ev.scope():
        lower_graph(k, region, op, end)
    f.start(done, True)
    k.shared.several_ways(copies)
    bind(k, op.results, layouts, _joined(k, op.results, layouts, ends))


def _joined(k: KernelContext, values: Sequence[SSAValue], layouts: Layouts, ends: Sequence[tuple[str, list[V]]]) -> list[V]:
    """Emits phis for the registers of values that come from several blocks."""
    return [
        k.f.phi(type_, [(registers[i], block) for block, registers in ends])
        for i, type_ in enumerate(types(values, layouts))
    ]


# -- graphs ----------------------------------------------------------------------------------


def lower_graph(k: KernelContext, region: Any, parent: Any, leave: Callable[[Operation], None]) -> None:
    """Lowers the blocks of a region in reverse postorder, so that values are defined before they are used.

    Block arguments take the layouts that accesses prefer. `leave` ends the code of blocks that leave the region of
    the operation `parent`.
    """
    f = k.f
    order = _reverse_postorder(region.blocks[0])
    labels = {block: f.label("block") for block in order}
    layouts: dict[Block, Layouts] = {
        block: [k.accesses.preferred(argument) if is_tensor(argument.type) else None for argument in block.args]
        for block in order
    }
    slots: dict[Block, tuple[int, list[V]]] = {}
    incoming: dict[Block, list[tuple[str, list[V]]]] = {block: [] for block in order}
    copies = k.shared.several_ways(any(_starts_copies(block) for block in order))
    with k.order.several_ways(parent):
        for block in order:
            if block is not order[0]:
                f.start(labels[block])
                registers = [V(f.fresh("c"), type_) for type_ in types(block.args, layouts[block])]
                slots[block] = (len(f.lines), registers)
                f.lines.append("")
                bind(k, block.args, layouts[block], registers)
            k.shared.several_ways(copies)
            with k.ev.scope():
                k.block_without_end(block)
                if terminator(block).successors:
                    _branch(k, block.last_op, labels, layouts, incoming)
                else:
                    leave(block.last_op)
    for block, (slot, registers) in slots.items():
        phis = []
        for i, value in enumerate(registers):
            ways = ", ".join(f"[ {values[i].operand()}, %{source} ]" for source, values in incoming[block])
            phis.append(f"  {value.operand()} = phi {value.type} {ways}")
        f.lines[slot] = "\n".join(phis)


def _branch(k: KernelContext, last: Any, labels: Any, layouts: Any, incoming: Any) -> None:
    f = k.f

    def go(block: Block, values: Sequence[SSAValue]) -> str:
        found = flat(k, values, layouts[block])
        incoming[block].append((f.block, found))  # the block where computing them ends, which may be another one
        return str(labels[block])

    match last.name:
        case "cf.br":
            found = go(last.successors[0], last.operands)
            f.branch(found)
        case "cf.cond_br":
            condition = k.scalar(last.operands[0])
            yes, no = f.label("yes"), f.label("no")
            f.cond_branch(condition, yes, no)
            for label, target, values in (
                (yes, last.then_block, last.then_arguments), (no, last.else_block, last.else_arguments),
            ):  # fmt: skip
                f.start(label)
                with k.ev.scope():
                    f.branch(go(target, list(values)))
        case _:
            raise UnsupportedError(f"nvptx lowering: operation {last.name}")


def _reverse_postorder(entry: Any) -> list[Any]:
    found: list[Any] = []
    seen = {entry}
    stack = [(entry, iter(terminator(entry).successors))]
    while stack:
        block, following = stack[-1]
        target = next((each for each in following if each not in seen), None)
        if target is None:
            stack.pop()
            found.append(block)
        else:
            seen.add(target)
            stack.append((target, iter(terminator(target).successors)))
    return found[::-1]


def _yield(k: KernelContext, op: Operation) -> None:
    """Emits nothing: the parent operation reads the operands."""


def _return(k: KernelContext, op: Operation) -> None:
    if op.operands:
        raise k.unsupported(op, "with values")


CONTROL: dict[str, Handler] = {
    "scf.for": _for, "scf.while": _while, "scf.if": _if, "scf.execute_region": _execute_region, "scf.yield": _yield,
    "scf.condition": _yield, "tt.return": _return,
}  # fmt: skip
