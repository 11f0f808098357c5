"""Finds what the vectors of a loop share: scalars that its values are made of, in every lane. They are set before the loop.

LLVM leaves a broadcast where it is written, in the loop, where it takes a slot of the port for shuffles in every iteration.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...quotients import division
from ...values import lanes
from ..evaluate import Evaluator
from ..nodes import Map, Node, Splat, View
from ..scalars import is_constant
from .coordinates import Coordinates


def spread(ev: Evaluator, nodes: Sequence[Node], coordinates: Coordinates, n: int) -> None:
    """Emits the broadcasts of a loop over vectors of `n` lanes, in which all coordinates but its own are known.

    Instructions without effects are printed once, so the loop finds these.
    """
    if n == 1:
        return
    seen: set[int] = set()
    stack = [node for node in nodes if isinstance(node, Map)]
    while stack:
        node = stack.pop()
        if id(node) in seen or id(node) in ev.replacement or _is_known(ev, node, coordinates):
            continue
        seen.add(id(node))
        stack.extend(operand for operand in node.operands if isinstance(operand, Map))
        if any(operand.elem in ("ptr", "i1") for operand in node.operands):
            continue
        values = [ev.at(operand, coordinates) if _is_known(ev, operand, coordinates) else None for operand in node.operands]
        is_corrected = node.op == division.DIVIDE and division.FACTORS not in node.attrs
        if is_corrected and values[1] is not None and values[2] is not None:
            if lanes(values[1].type) == 1:
                division.invariants(ev.f, values[1], values[2], n)
                if division.COARSE in node.attrs:
                    division.is_usable_at_all(ev.f, values[2])
            continue
        for value in values:
            if value is not None and lanes(value.type) == 1 and not is_constant(value):
                ev.f.splat(value, n)


def _is_known(ev: Evaluator, node: Node, coordinates: Coordinates) -> bool:
    """Whether a value does not vary along the loop, and costs nothing, or was emitted before it."""
    if any(coordinates[d] is None for d in ev.depends(node)):
        return False
    return isinstance(node, Splat) or (isinstance(node, (Map, View)) and id(node) not in ev.replacement)
