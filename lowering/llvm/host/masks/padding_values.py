"""Finds padding values: what a masked block holds beyond the limit of its mask.

A block that is loaded under `column < n` is one value beyond n: the load's `other`, and whatever is computed from it.
Reductions visit only the columns below n, and take that value into account at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...elementwise import constant
from ...values import FALSE, V, is_integer
from ..loops.coordinates import Bound, decompose_mask
from ..nodes import Load, Map, Node, Splat, View

Depends = Callable[[Node], frozenset[int]]


def limits_along(nodes: Sequence[Node], dim: int) -> Iterator[V]:
    """Yields the limits that masks in these nodes set along one of their dimensions."""
    stack = [(node, dim) for node in nodes]
    seen: set[tuple[int, int]] = set()
    found: set[str] = set()
    while stack:
        node, along = stack.pop()
        if (id(node), along) in seen:
            continue
        seen.add((id(node), along))
        bounds: list[Bound] = []
        match node:
            case Map():
                bounds = [node.attrs["bound"]] if "bound" in node.attrs else []
                stack.extend((operand, along) for operand in node.operands)
            case View():
                stack.extend((node.source, s) for s, d in enumerate(node.dims) if d == along)
            case Load():
                bounds = decompose_mask(node.mask)[0]
        for bound in bounds:
            if bound.dim == along and bound.limit.operand() not in found:
                found.add(bound.limit.operand())
                yield bound.limit


def padding_value(node: Node, bound: Bound, depends: Depends) -> Node | None:
    """Returns a node that equals `node` wherever the bound does not hold and does not vary along its dimension.

    None if no such node is known.
    """
    return _PaddingValues(depends).of(node, bound)


class _PaddingValues:
    def __init__(self, depends: Depends) -> None:
        self._depends = depends
        self._known: dict[tuple[int, int], Node | None] = {}

    def of(self, node: Node, bound: Bound) -> Node | None:
        if bound.dim not in self._depends(node):
            return node
        key = (id(node), bound.dim)
        if key not in self._known:
            self._known[key] = self._of(node, bound)
        return self._known[key]

    def _of(self, node: Node, bound: Bound) -> Node | None:
        match node:
            case Load():
                conditions, _ = decompose_mask(node.mask)
                if not _among(bound, conditions):
                    return None
                if node.other is None:
                    return Splat(node.shape, node.elem, constant(0, node.elem))
                return self.of(node.other, bound)
            case View():
                (along,) = [s for s, d in enumerate(node.dims) if d == bound.dim]
                source = self.of(node.source, Bound(along, bound.limit))
                return None if source is None else View(node.shape, node.elem, source, node.dims)
            case Map():
                return self._map(node, bound)
        return None

    def _map(self, node: Map, bound: Bound) -> Node | None:
        if "bound" in node.attrs and _among(bound, [node.attrs["bound"]]):
            return Splat(node.shape, "i1", FALSE)
        operands = [self.of(operand, bound) for operand in node.operands]
        if node.op == "arith.andi" and any(_is_false(operand) for operand in operands):
            return Splat(node.shape, "i1", FALSE)
        if node.op == "arith.select" and _is_false(operands[0]):
            return operands[2]
        known = [operand for operand in operands if operand is not None]
        if len(known) != len(operands):
            return None
        facts = {name: fact for name, fact in node.attrs.items() if name not in ("bound", "begin")}
        return Map(node.shape, node.elem, node.op, tuple(known), facts)


def _among(bound: Bound, bounds: Sequence[Bound]) -> bool:
    return any(b.dim == bound.dim and b.limit == bound.limit for b in bounds)


def _is_false(node: Node | None) -> bool:
    return isinstance(node, Splat) and node.elem == "i1" and is_integer(node.value, 0)
