"""Writes rows past the caches, in whole cache lines.

A partial line costs a round trip to memory, unless the rest follows at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....target import CACHE_LINE
from ...elementwise import memory_size
from ...values import V
from ..evaluate import Evaluator
from ..nodes import Flattened, Load, Map, Node, Pointers, Stored, View
from ..scalars import ZERO
from .coordinates import Bound, Coordinates


def lies_along(ev: Evaluator, node: Node | None, dim: int | None) -> bool:
    """Whether everything that a value takes from scratch is contiguous, or the same, along its dimension `dim`.

    Each part is looked at once: masks share parts over many levels.
    """
    stack, seen = [(node, dim)], set[tuple[int, int | None]]()
    while stack:
        part, along = stack.pop()
        found = ev.replacement.get(id(part))
        if found is not None:
            part = found[1]
        if (id(part), along) in seen:
            continue
        seen.add((id(part), along))
        match part:
            case Stored():
                if along is not None and part.strides[along] not in (0, 1):
                    return False
            case Flattened():
                return False
            case Map():
                stack += [(operand, along) for operand in part.operands]
            case View():
                stack.append((part.source, part.dims.index(along) if along in part.dims else None))
            case Load():
                stack += [(each, along) for each in (part.pointers.rest, part.mask, part.other)]
    return True


def reads_scratch(ev: Evaluator, nodes: Sequence[Node | None]) -> bool:
    """Whether anything that values are made of lies in scratch."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if isinstance(node, Stored) or id(node) in ev.replacement:
            return True
        match node:
            case Map():
                stack.extend(node.operands)
            case View() | Flattened():
                stack.append(node.source)
            case Load():
                stack += [node.pointers.rest, node.mask, node.other]
    return False


def to_line(ev: Evaluator, pointers: Pointers, bounds: Sequence[Bound], inner: int, coordinates: Coordinates) -> V:
    """Returns how many elements to write before a row reaches the start of a cache line; all of them if it never does."""
    f, s = ev.f, ev.s
    row = ev.row_pointer(pointers, coordinates, inner)
    if s.multiple(row) % CACHE_LINE == 0:
        return ZERO
    size = memory_size(pointers.pointee)
    count, _ = ev.extent(pointers.shape[inner], bounds, inner)
    missing = f.binary("and", s.sub(ZERO, s.address(row)), s.constant(CACHE_LINE - 1))
    elements = f.binary("lshr", missing, s.constant(size.bit_length() - 1))
    never = f.icmp("ne", f.binary("and", missing, s.constant(size - 1)), ZERO)
    return f.select(never, count, s.min(elements, count))
