"""Finds the stores that values can be left to, since nothing else reads these or works in between."""

from __future__ import annotations

from xdsl.ir import Operation

from ....tt.dialect.memory.pointers import StoreOp

_ADDRESSES = frozenset({"tt.splat", "tt.expand_dims", "tt.broadcast", "tt.addptr", "tt.make_range"})


def only_store(op: Operation) -> StoreOp | None:
    """Returns the store of an operation's block, if nothing else reads that and nothing is evaluated before."""
    users = [use.operation for use in op.results[0].uses]
    if len(users) != 1 or not isinstance(users[0], StoreOp) or users[0].value is not op.results[0]:
        return None
    return users[0] if is_near(op, users[0]) else None


def is_near(op: Operation, store: StoreOp, end: Operation | None = None) -> bool:
    """Whether nothing between an operation and the store of its result evaluates a block, or works on the result of `end`."""
    between = op.next_op
    while between is not None and between is not store:
        if between is not end and between.name not in _ADDRESSES and not between.name.startswith("arith."):
            return False
        if end is not None and any(operand.owner is end for operand in between.operands):
            return False  # long chains of operations are evaluated where they stand
        between = between.next_op
    return between is not None
