"""Lowers regions whose blocks branch to each other (`cf`), and regions on scalars.

Blocks are visited along the dominator tree, so that every value is defined before it is used and known expressions stay known
where they hold. Block arguments live in stack slots (scalars) and in scratch (blocks).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from .....promotion.errors import UnsupportedError
from ....tt.analysis.control_flow import terminator
from ....tt.analysis.dominance import dominated, postorder
from ...elementwise import register_element
from ...syntax import element_name, is_tensor, shape_of
from ...values import V
from ..context import KernelContext
from ..loops.liveness import reachable
from ..nodes import Map, Stored, cost
from .loops import write_blocks

Leave = Callable[[Operation], None]
"""Lowers an operation that ends the region."""


def lower_blocks(k: KernelContext, region: Region, leave: Leave) -> None:
    """Lowers a region. The code after every `leave` must branch on; the caller starts the next LLVM block."""
    blocks = reachable(region)
    if len(blocks) == 1:
        k.block(blocks[0])
        leave(blocks[0].last_op)
        return
    _Branches(k, blocks, leave).run()


class _Branches:
    def __init__(self, k: KernelContext, blocks: Sequence[Block], leave: Leave) -> None:
        self.k = k
        self.leave = leave
        self.entry = blocks[0]
        after = {block: number for number, block in enumerate(postorder(self.entry))}
        self.children: Mapping[Any, list[Any]] = {block: [] for block in blocks} | dominated(self.entry)
        edges = [(block, target) for block in blocks for target in terminator(block).successors]
        self.loops = {target for block, target in edges if after[target] >= after[block]}
        self.labels = {block: k.f.label("bb") for block in blocks if block is not self.entry}
        self.slots: dict[SSAValue, V | Stored] = {}
        for block in self.labels:
            for argument in block.args:
                self.slots[argument] = self._slot(argument.type)

    def _slot(self, type_: Attribute) -> V | Stored:
        elem = element_name(type_)
        return self.k.ev.scratch(shape_of(type_), elem) if is_tensor(type_) else self.k.f.alloca(register_element(elem), 1, 8)

    def run(self) -> None:
        self._visit(self.entry)

    def _visit(self, block: Any) -> None:
        k = self.k
        if block is not self.entry:
            k.f.start(self.labels[block])
        replaced = dict(k.ev.replacement)
        with k.ev.scope():
            for argument in block.args if block is not self.entry else ():
                slot = self.slots[argument]
                if isinstance(slot, Stored):
                    k.define(argument, slot)
                else:
                    k.scalars[argument] = k.f.load(register_element(element_name(argument.type)), slot, 1)
            if block in self.loops:
                k.leave_if_stopped()
            mark = 0 if k.ordering is None else k.ordering.enter()
            k.block(block)
            self._materialize_shared(block, mark)
            self._end(block.last_op)
            for child in self.children[block]:
                self._visit(child)
        k.ev.replacement = replaced

    def _materialize_shared(self, block: Block, mark: int) -> None:
        """Evaluates here, once, the expensive values that other blocks read, and the loads among them."""
        k = self.k
        values = [*block.args, *(result for op in block.ops for result in op.results)]
        for value in values:
            if value not in k.liveness.elsewhere:
                continue
            node = k.nodes.get(value)
            if isinstance(node, Map) and cost(node) > 4 and id(node) not in k.ev.replacement:
                k.ev.replacement[id(node)] = (node, k.nests.materialize(node), ())
        if k.ordering is not None:
            k.ordering.leave(mark, k.liveness.elsewhere)

    def _end(self, last: Operation) -> None:
        k = self.k
        match last.name:
            case "cf.br":
                self._goto(last.successors[0], last.operands)
            case "cf.cond_br":
                yes, no = last.successors
                condition, *operands = last.operands
                count = len(yes.args)
                labels = [k.f.label("edge"), k.f.label("edge")]
                k.f.cond_branch(k.scalar(condition), *labels)
                edges = ((yes, operands[:count]), (no, operands[count:]))
                for label, (target, values) in zip(labels, edges, strict=True):
                    k.f.start(label)
                    replaced = dict(k.ev.replacement)
                    with k.ev.scope():
                        self._goto(target, values)
                    k.ev.replacement = replaced
            case name if last.successors:
                raise UnsupportedError(f"host lowering: {name} between blocks")
            case _:
                self.leave(last)

    def _goto(self, target: Any, values: Sequence[SSAValue]) -> None:
        """Passes the arguments, all at once, and branches."""
        k = self.k
        scalars = [
            (self.slots[argument], k.scalar(value))
            for argument, value in zip(target.args, values, strict=True)
            if not is_tensor(argument.type)
        ]
        blocks = []
        for argument, value in zip(target.args, values, strict=True):
            slot = self.slots[argument]
            if isinstance(slot, Stored):
                blocks.append((slot, k.node(value), k.limits(value)))
        write_blocks(k, blocks)
        for slot, scalar in scalars:
            assert isinstance(slot, V)
            k.f.store(scalar, slot, 1)
        k.f.branch(self.labels[target])


def lower_execute_region(k: KernelContext, op: Operation) -> None:
    """Lowers `scf.execute_region`: the body of an inlined function that branches."""
    results = _joined(k, op.regions[0], [result.type for result in op.results], lambda last: list(last.operands))
    for result, found in zip(op.results, results, strict=True):
        if isinstance(found, Stored):
            k.define(result, found)
        else:
            k.scalars[result] = found


def lower_scalars(k: KernelContext, region: Region, arguments: Sequence[V]) -> list[V]:
    """Lowers a region on scalars for these arguments and returns its results."""
    entry = region.blocks[0]
    s = k.ev.s
    for argument, value in zip(entry.args, arguments, strict=True):
        k.scalars[argument] = s.pointer(value) if element_name(argument.type) == "ptr" else value
    last = next(block.last_op for block in reachable(region) if not terminator(block).successors)
    types = [operand.type for operand in last.operands]
    found = _joined(k, region, types, lambda end: list(end.operands))
    return [s.address(value) if value.type == "ptr" else value for value in found if isinstance(value, V)]


def _joined(
    k: KernelContext, region: Region, types: Sequence[Attribute], results: Callable[[Any], list[Any]]
) -> list[V | Stored]:
    """Lowers a region and returns its results, whichever block it ends in."""
    if len(reachable(region)) == 1:
        with_scope: list[V | Stored] = []
        block = region.blocks[0]
        k.block(block)
        for value in results(block.last_op):
            with_scope.append(k.nests.materialize(k.node(value)) if is_tensor(value.type) else k.scalar(value))
        return with_scope
    slots: list[V | Stored] = [
        k.ev.scratch(shape_of(type_), element_name(type_))
        if is_tensor(type_)
        else k.f.alloca(register_element(element_name(type_)), 1, 8)
        for type_ in types
    ]
    done = k.f.label("done")

    def leave(last: Operation) -> None:
        for slot, value in zip(slots, results(last), strict=True):
            if isinstance(slot, Stored):
                k.nests.materialize(k.node(value), slot)
            else:
                k.f.store(k.scalar(value), slot, 1)
        k.f.branch(done)

    replaced = dict(k.ev.replacement)
    with k.ev.scope():
        lower_blocks(k, region, leave)
    k.ev.replacement = replaced
    k.f.start(done)
    return [
        slot if isinstance(slot, Stored) else k.f.load(register_element(element_name(type_)), slot, 1)
        for slot, type_ in zip(slots, types, strict=True)
    ]
