"""Moves loop-invariant code: pure operations of a loop whose operands are known before it are computed before
it.

Loads stay where they are: a loop may write what they read. Everything else that is pure may also run for a
loop without
iterations: nothing traps, once `legalize_division.py` has guarded integer divisions.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from ...dialect.functions import FuncOp
from ..folding import is_pure
from ..function_pass import FunctionPass

_LOOPS = frozenset({"scf.for", "scf.while"})


def hoist_invariants(func: Operation) -> None:
    """Moves invariant operations out of the loops of a function, innermost loops first; changed in place."""
    for region in func.regions:
        for block in region.blocks:
            for op in list(block.ops):
                if op.regions:
                    hoist_invariants(op)
                if op.name in _LOOPS:
                    _empty(op)


def _empty(loop: Operation) -> None:
    inside = [block for region in loop.regions for block in region.blocks]
    target = loop.parent
    if target is None:
        return
    for block in inside:
        for op in list(block.ops):
            movable = is_pure(type(op)) and not op.regions and op is not block.last_op
            if movable and not any(_is_inside(operand, inside) for operand in op.operands):
                op.detach()
                target.insert_op_before(op, loop)


def _is_inside(value: SSAValue, blocks: list[Block]) -> bool:
    block: Block | None = value.owner if isinstance(value.owner, Block) else value.owner.parent
    while block is not None:
        if block in blocks:
            return True
        block = block.parent_block()
    return False


@dataclass(frozen=True)
class LoopInvariantCodeMotion(FunctionPass):
    """Moves computations that do not change in a loop to before the loop."""

    name = "licm"

    def run(self, function: FuncOp) -> None:
        hoist_invariants(function)

    def is_needed(self, function: FuncOp) -> bool:
        return any(op.name in _LOOPS for op in function.walk())
