"""What decides how many elements an iteration of a nest takes: how much work values are, and what is made shorter."""

from __future__ import annotations

from collections.abc import Sequence

from ...quotients.division import DIVIDE
from ..evaluate import Evaluator
from ..nodes import Load, Map, Node, Splat, View, cost

PACKED_WORK, MAX_PACKED = 16, 4
"""The most instructions of values that are packed into shorter ones, and the most registers of them."""
CUT_OPERATIONS = 120
"""The most operations of values whose rows are cut: each piece has code of its own."""


def work(nodes: Sequence[Node]) -> int:
    """Returns about how many instructions values are."""
    return sum(cost(node) for node in nodes)


def operations(ev: Evaluator, nodes: Sequence[Node]) -> int:
    """Returns how many operations there are in values that are not in scratch yet, each counted once."""
    stack, seen, found = list(nodes), set[int](), 0
    while stack:
        node = stack.pop()
        if id(node) in seen or id(node) in ev.replacement:
            continue
        seen.add(id(node))
        match node:
            case Map():
                found += 1
                stack.extend(node.operands)
            case View():
                stack.append(node.source)
            case Load():
                found += 1
                stack += [part for part in (node.mask, node.other) if part is not None]
    return found


def packed(ev: Evaluator, nodes: Sequence[Node], lanes: int, stored: int) -> int:
    """Returns how many vectors of wide elements together are stored as one of shorter elements, of `stored` bytes: instructions
    that pack two registers in one take the place of those that take the lanes of one apart."""
    if not stored or not ev.target.has_short_vectors or work(nodes) > PACKED_WORK:
        return 1
    return min(MAX_PACKED, max(1, ev.target.vector_bytes // (stored * lanes)))


def divides(ev: Evaluator, nodes: Sequence[Node]) -> bool:
    """Returns whether values that are not in scratch yet are divided by one number."""
    stack, seen = list(nodes), set[int]()
    while stack:
        node = stack.pop()
        if id(node) not in seen and id(node) not in ev.replacement:
            seen.add(id(node))
            if isinstance(node, Map):
                if node.op == DIVIDE:
                    return True
                stack.extend(node.operands)
            elif isinstance(node, View):
                stack.append(node.source)
    return False


def constants(nodes: Sequence[Node]) -> int:
    """Counts the scalars that values are made of, each of which takes a register."""
    found: set[str] = set()
    seen: set[int] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            if isinstance(node, Splat):
                found.add(node.value.operand())
            elif isinstance(node, Map):
                stack.extend(node.operands)
            elif isinstance(node, View):
                stack.append(node.source)
    return len(found)
