"""Finds divisions and roots among the values of a loop, which the processor works on beside everything else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...quotients.division import DIVIDE
from ..evaluate import Evaluator
from ..nodes import Map, Node, View

_SLOW = {DIVIDE: 1, "arith.divf": 1, "math.sqrt": 1, "math.rsqrt": 2}
"""Operations that divide or take roots, and how often."""
_BESIDE = 4
"""The fewest other operations of a body whose division is left to the processor."""


def has_room(ev: Evaluator, nodes: Sequence[Node]) -> bool:
    """Returns whether values have one division or root, and other work that goes on beside it."""
    if not ev.target.divides_beside:
        return False
    operations = list(_operations(ev, nodes))
    slow = sum(_SLOW.get(op, 0) for op in operations)
    return slow == 1 and len(operations) - 1 >= _BESIDE


def divides(ev: Evaluator, nodes: Sequence[Node]) -> bool:
    """Returns whether values that are not in scratch yet are divided by one number."""
    return DIVIDE in _operations(ev, nodes)


def _operations(ev: Evaluator, nodes: Sequence[Node]) -> Iterator[str]:
    """Yields the operations of values that are not in scratch yet, each once."""
    stack, seen = list(nodes), set[int]()
    while stack:
        node = stack.pop()
        if id(node) in seen or id(node) in ev.replacement:
            continue
        seen.add(id(node))
        if isinstance(node, Map):
            yield node.op
            stack.extend(node.operands)
        elif isinstance(node, View):
            stack.append(node.source)
