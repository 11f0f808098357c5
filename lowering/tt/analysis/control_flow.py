"""Answers questions about control flow: terminators, parent blocks, and the edges of `cf.switch`."""

from __future__ import annotations

from xdsl.dialects import cf
from xdsl.ir import Block, Operation, SSAValue

from ....promotion.errors import InternalError


def terminator(block: Block) -> Operation:
    """Returns the operation that ends a block. Every block of a verified function has one."""
    found = block.last_op
    if found is None:
        raise InternalError("a block without operations has no terminator")
    return found


def parent_block(op: Operation) -> Block:
    """Returns the block that contains an operation."""
    found = op.parent
    if found is None:
        raise InternalError(f"{op.name} stands in no block")
    return found


def switch_edges(op: cf.SwitchOp) -> tuple[list[int], list[tuple[Block, list[SSAValue]]]]:
    """Returns the numbers of the cases, and the edges as (block, passed values), the default last."""
    cases = op.case_values
    numbers = [int(value) for value in cases.get_values()] if cases is not None else []
    edges = [(block, list(values)) for block, values in zip(op.case_blocks, op.case_operand, strict=True)]
    return numbers, [*edges, (op.default_block, list(op.default_operands))]
