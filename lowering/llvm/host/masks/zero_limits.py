"""Finds where blocks are known to be zero, beyond the bounds of the masks that they are loaded with: products end there."""

from __future__ import annotations

import math

from ... import values
from ...elementwise import constant
from ...values import ConstantFloat
from ..evaluate import Evaluator
from ..loops.coordinates import Bound, decompose_mask
from ..nodes import Load, Map, Node, Splat, Stored, View

KEEP_ZEROS = ("arith.addf", "arith.subf", "arith.mulf", "arith.extf", "arith.truncf")
"""Operations on blocks that are zero where all operands are."""


def zero_limits(ev: Evaluator, node: Node) -> tuple[Bound, ...]:
    """Returns the bounds beyond which a block is known to be zero."""
    mask: Node | None = None
    match node:
        case View():
            return tuple(Bound(d, b.limit) for b in zero_limits(ev, node.source) if (d := node.dims[b.dim]) is not None)
        case Load() if node.other is None or is_zero(node.other):
            mask = node.mask
        case Map() if id(node) in ev.replacement:
            return ev.replacement[id(node)][2] if is_kept(ev, node) else ()
        case Map(op="arith.select") if is_zero(node.operands[2]):
            mask = node.operands[0]
        case Map(op="arith.mulf" | "math.fma") if _is_finite(node.operands[1]):
            return _shared(ev, (node.operands[0], *node.operands[2:]))
        case Map() if node.op in KEEP_ZEROS:
            return _shared(ev, node.operands)
    bounds, rest = decompose_mask(mask)
    return () if rest else tuple(bounds)


def _shared(ev: Evaluator, nodes: tuple[Node, ...]) -> tuple[Bound, ...]:
    first, *others = (zero_limits(ev, node) for node in nodes)
    return tuple([bound for bound in first if all(bound in other for other in others)])


def _is_finite(node: Node) -> bool:
    """Whether a block is one finite number: its product with zero is zero."""
    return isinstance(node, Splat) and isinstance(node.value, ConstantFloat) and math.isfinite(node.value.number)


def is_zero(node: Node) -> bool:
    """Whether a block is zero everywhere; never for f8E8M0, which has no zero."""
    return isinstance(node, Splat) and values.is_zero(node.value) and values.is_zero(constant(0, node.elem))


def keep(ev: Evaluator, node: Node, block: Stored, bounds: tuple[Bound, ...]) -> None:
    """Makes products read a block from scratch. bounds: beyond which it is zero, and was not written."""
    ev.replacement[id(node)] = (node, block, bounds)
    ev.kept[id(node)] = block


def is_kept(ev: Evaluator, node: Node) -> bool:
    """Returns whether products read a block from such scratch."""
    found = ev.replacement.get(id(node))
    return found is not None and found[1] is ev.kept.get(id(node))


def drop(ev: Evaluator, node: Node) -> None:
    """Gives such scratch back, after all that reads it."""
    if is_kept(ev, node):
        ev.release(ev.replacement.pop(id(node))[1])
    ev.kept.pop(id(node), None)
