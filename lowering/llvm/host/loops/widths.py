"""What decides how many elements an iteration of a nest takes: how much work values are, and what is made shorter."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..evaluate import Evaluator
from ..nodes import Affine, Load, Map, Node, Splat, View, cost
from .coordinates import reads_memory

PACKED_WORK, MAX_PACKED = 16, 4
"""The most instructions of values that are packed into shorter ones, and the most registers of them."""
_CUT_OPERATIONS = 120
"""The most operations of values whose rows are cut: each piece has code of its own."""


def work(nodes: Sequence[Node]) -> int:
    """Returns about how many instructions values are."""
    return sum(cost(node) for node in nodes)


_CHAIN = 16
"""The most instructions of a loop's body of which one vector comes after the other where registers are few."""
_LONG_ROW = 4


def are_chains(nodes: Sequence[Node], vectors: int, elements: Collection[str]) -> bool:
    """Returns whether values are chains of instructions, in rows long enough for two vectors at a time.

    Functions of float64 have twice as many instructions as they are counted.
    """
    return vectors >= _LONG_ROW and work(nodes) > (_CHAIN // 2 if "f64" in elements else _CHAIN)


def compares_positions(node: Node) -> bool:
    """Returns whether a node compares positions with a number: it holds up to a limit, or from there on, where rows are cut."""
    if not isinstance(node, Map) or node.op != "arith.cmpi":
        return False
    return all(isinstance(each, (Affine, Splat)) for each in node.operands) and not reads_memory(node)


def is_spread(view: View) -> bool:
    """Returns whether a view reads each element of its source more than once."""
    return any(n > 1 and d not in view.dims for d, n in enumerate(view.shape))


def may_be_cut(ev: Evaluator, nodes: Sequence[Node]) -> bool:
    """Returns whether rows of values may be cut: there are few operations in what is not in scratch yet, each counted once."""
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
    return found <= _CUT_OPERATIONS


def packed(ev: Evaluator, nodes: Sequence[Node], lanes: int, stored: int) -> int:
    """Returns how many vectors of wide elements together are stored as one of shorter elements, of `stored` bytes: instructions
    that pack two registers in one take the place of those that take the lanes of one apart."""
    if not stored or not ev.target.has_short_vectors or work(nodes) > PACKED_WORK:
        return 1
    return min(MAX_PACKED, max(1, ev.target.vector_bytes // (stored * lanes)))


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
