"""Answers questions about control flow: terminators, parent blocks, the edges of `cf.switch`, and what loops count."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects import cf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, SSAValue

from ....promotion.errors import InternalError
from ..types import bit_width


def terminator(block: Block) -> Operation:
    """Returns the operation that ends a block. Every block of a verified function has one."""
    found = block.last_op
    if found is None:
        raise InternalError("a block without operations has no terminator")
    return found


def counts_unsigned(op: Operation) -> bool:
    """Returns whether an operation is a loop that compares its counter with the end as unsigned numbers."""
    return op.name == "scf.for" and ("unsignedCmp" in op.properties or "unsignedCmp" in op.attributes)


def iterations(op: Operation, low: int, high: int, step: int) -> Iterable[int]:
    """Returns the numbers that the counter of an `scf.for` takes. What an unsigned one takes is written as a signed number."""
    if not counts_unsigned(op):
        return range(low, high, step)
    type_ = op.operands[0].type
    over = 1 << (64 if isinstance(type_, IndexType) else bit_width(type_))
    return (number - over if 2 * number >= over else number for number in range(low % over, high % over, step % over))


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
