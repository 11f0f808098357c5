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
    """Whether everything that a value takes from scratch is contiguous, or the same, along its dimension `dim`."""
    found = ev.replacement.get(id(node))
    if found is not None:
        node = found[1]
    match node:
        case Stored():
            return dim is None or node.strides[dim] in (0, 1)
        case Flattened():
            return False
        case Map():
            return all(lies_along(ev, operand, dim) for operand in node.operands)
        case View():
            return lies_along(ev, node.source, node.dims.index(dim) if dim in node.dims else None)
        case Load():
            return all(lies_along(ev, part, dim) for part in (node.pointers.rest, node.mask, node.other))
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
