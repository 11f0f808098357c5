"""Finds halves of 64-bit integers, and integers of two halves, in blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...halves import HIGH, JOINED, LOW
from ...values import integer
from ..nodes import Map, Node, Splat
from ..scalars import is_constant


def halves(op: str, operands: Sequence[Node], is_free: Callable[[Node], bool]) -> Map | None:
    """Returns what an operation computes as a half, or as an integer of halves; None where it is neither.

    op: "arith.trunci" of i64 to i32, or "arith.ori" of i64. `is_free` holds for nodes that are computed where they are used.
    """
    if op == "arith.trunci":
        (source,) = operands
        moved = _moved(source, "arith.shrui", is_free)
        return Map(source.shape, "i32", LOW if moved is None else HIGH, (source if moved is None else moved,), {})
    for upper, lower in (operands, reversed(operands)):
        moved = _moved(upper, "arith.shli", is_free)
        high, low = (None if each is None else _extended(each, is_free) for each in (moved, lower))
        if high is not None and low is not None:
            return Map(upper.shape, "i64", JOINED, (low, high), {})
    return None


def _moved(node: Node, op: str, is_free: Callable[[Node], bool]) -> Node | None:
    """Returns what is shifted by 32 bits."""
    if not isinstance(node, Map) or node.op != op or not is_free(node) or not isinstance(node.operands[1], Splat):
        return None
    amount = node.operands[1].value
    return node.operands[0] if is_constant(amount) and integer(amount) == 32 else None


def _extended(node: Node, is_free: Callable[[Node], bool]) -> Node | None:
    """Returns the i32 that is extended by zeros."""
    is_wide = isinstance(node, Map) and node.op == "arith.extui" and node.operands[0].elem == "i32" and is_free(node)
    return node.operands[0] if is_wide and isinstance(node, Map) else None
