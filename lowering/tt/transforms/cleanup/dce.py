"""Eliminates dead code: operations whose results nothing uses and that do nothing else. Volatile loads
stay."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Block, Operation

from ...dialect.functions import FuncOp
from ...dialect.memory.pointers import LoadOp
from ..folding import STRUCTURED, is_pure
from ..function_pass import FunctionPass


@dataclass(frozen=True)
class DeadCode(FunctionPass):
    """Removes operations whose results nothing uses and that have no other effect."""

    name = "dce"

    def run(self, function: FuncOp) -> None:
        for block in function.body.blocks:
            _remove_dead_in(block)


def _remove_dead_in(block: Block) -> None:
    op = block.last_op
    while op is not None:
        before = op.prev_op
        for region in op.regions:
            for inner in region.blocks:
                _remove_dead_in(inner)
        if _is_dead(op):
            block.erase_op(op)
        op = before


def _is_dead(op: Operation) -> bool:
    if any(result.first_use is not None for result in op.results):
        return False
    if isinstance(op, LoadOp):
        return not op.isVolatile.value.data
    if op.name in STRUCTURED:
        return _does_nothing(op)
    return bool(op.results) and is_pure(type(op))  # terminators are pure and have no results


def _does_nothing(op: Operation) -> bool:
    """Returns whether running the regions has no effect besides the results."""
    return all(
        is_pure(type(inner))
        or (isinstance(inner, LoadOp) and not inner.isVolatile.value.data)
        or (inner.name in STRUCTURED and _does_nothing(inner))
        for region in op.regions
        for block in region.blocks
        for inner in block.ops
    )
