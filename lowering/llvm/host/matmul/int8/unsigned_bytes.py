"""Finds left operands of int8 that memory holds as unsigned bytes, which some processors multiply as they are.

A graph of codes in uint8 states such an operand as the codes with their highest bit flipped: q ^ 0x80 is q - 128 as int8
(`graph_passes/products/integer_products.py`). `vpdpbusd` takes unsigned bytes on its left, and a kernel of int8 would flip the
bit back in each quad, on one of the two ports that multiply.
"""

from __future__ import annotations

from typing import Any

from .....tt.transforms.folding import constant_of
from ....values import number_of
from ...evaluate import Evaluator
from ...loops.coordinates import Bound, decompose_mask
from ...nodes import Map, Node, Splat


def _is_flip(number: float | int | None) -> bool:
    return number is not None and int(number) & 0xFF == 0x80


def unsigned_of(ev: Evaluator, node: Node) -> tuple[Node, tuple[Bound, ...]] | None:
    """Returns the block of bytes that a block flips the highest bits of, and the bounds beyond which the latter is zero.

    None for other blocks, and for those that the kernel has computed already.
    """
    bounds: tuple[Bound, ...] = ()
    if isinstance(node, Map) and node.op == "arith.select" and id(node) not in ev.replacement:
        mask, chosen, other = node.operands
        found, rest = decompose_mask(mask)
        if rest or not (isinstance(other, Splat) and number_of(other.value) == 0):
            return None
        node, bounds = chosen, tuple(found)
    if not isinstance(node, Map) or node.op != "arith.xori" or node.elem != "i8" or id(node) in ev.replacement:
        return None
    source, flip = node.operands
    if not (isinstance(flip, Splat) and _is_flip(number_of(flip.value))):
        return None
    return source, bounds


def flipped_operand(value: Any) -> tuple[Any, Any]:
    """Returns the block of bytes that an operand of a text flips the highest bits of, and the mask that selects it from zeros.

    The operand itself, and no mask, where it is anything else.
    """
    op: Any = getattr(value, "op", None)
    mask = None
    if op is not None and op.name == "arith.select" and constant_of(op.operands[2]) == 0:
        op, mask = getattr(op.operands[1], "op", None), op.operands[0]
    if op is None or op.name != "arith.xori" or not _is_flip(constant_of(op.operands[1])):
        return value, None
    return op.operands[0], mask
