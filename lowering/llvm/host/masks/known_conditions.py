"""Conditions of which the surrounding loops, or the code around a place, say whether they hold there."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Protocol

from ...values import integer, is_constant
from ..loops.coordinates import Bound, Coordinates, conjuncts
from ..nodes import Map, Node, View


class Known(Protocol):
    """What is known where code is emitted: conditions that hold and others that do not, by `key_of`, and limits of loops."""

    @property
    def assumed(self) -> AbstractSet[tuple[object, ...]]: ...

    @property
    def denied(self) -> AbstractSet[tuple[object, ...]]: ...

    @property
    def implied(self) -> Mapping[int, AbstractSet[str]]: ...

    def key_of(self, node: Node, coordinates: Coordinates) -> tuple[object, ...]: ...

    def through(self, node: View, coordinates: Coordinates) -> Coordinates: ...


def always(ev: Known, node: Node, coordinates: Coordinates) -> bool:
    """Returns whether a condition holds wherever the surrounding loops go (except for lanes that they mask off)."""
    if ev.assumed and ev.key_of(node, coordinates) in ev.assumed:
        return True
    match node:
        case Map(op="arith.cmpi") if "bound" in node.attrs or "begin" in node.attrs:
            if (known := _outcome(node, coordinates)) is not None:
                return known
            return "bound" in node.attrs and _implies(ev, node.attrs["bound"], coordinates)
        case Map(op="arith.andi"):
            return all(always(ev, part, coordinates) for part in conjuncts(node))
        case View():
            return always(ev, node.source, ev.through(node, coordinates))
    return False


def never(ev: Known, node: Node, coordinates: Coordinates) -> bool:
    """Returns whether it is known that a condition holds nowhere. Each part is looked at once: masks share parts over many
    levels."""
    stack, seen = [(node, coordinates)], set[tuple[int, Coordinates]]()
    while stack:
        part, here = stack.pop()
        if part.elem != "i1" or (id(part), here) in seen:
            continue
        seen.add((id(part), here))
        if ev.denied and ev.key_of(part, here) in ev.denied:
            return True
        match part:
            case Map(op="arith.cmpi") if "bound" in part.attrs or "begin" in part.attrs:
                if _outcome(part, here) is False:
                    return True
            case Map(op="arith.andi"):
                stack += [(operand, here) for operand in part.operands]
            case View():
                stack.append((part.source, ev.through(part, here)))
    return False


def _outcome(node: Map, coordinates: Coordinates) -> bool | None:
    """Returns the outcome of a comparison of one position with a limit, if both are known numbers."""
    bound: Bound = node.attrs.get("bound") or node.attrs["begin"]
    coordinate = coordinates[bound.dim]
    if coordinate is None or coordinate.lanes != 1 or not is_constant(coordinate.at) or not is_constant(bound.limit):
        return None
    is_below = integer(coordinate.at) + coordinate.offset < integer(bound.limit)
    return is_below == ("bound" in node.attrs)


def _implies(ev: Known, bound: Bound, coordinates: Coordinates) -> bool:
    """Returns whether the surrounding loops go no further than the bound."""
    coordinate = coordinates[bound.dim]
    return coordinate is not None and bound.limit.operand() in ev.implied.get(coordinate.loop, ())
