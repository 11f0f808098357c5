"""Recognises right operands that lie in memory in quads, as the micro-kernels of bytes read them.

Element (k, n) is at `k // 4 · 4 w + 4 n + k % 4`, for rows of w columns (`tile/templates/products.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from ......promotion.dataclass import dataclass
from ....values import V, integer, is_integer
from ...evaluate import Evaluator
from ...loops.coordinates import Bound, decompose_mask
from ...nodes import Affine, Load, Map, Node, Splat, View
from ...scalars import is_constant
from .rows import QUAD

_SHIFT = QUAD.bit_length() - 1


@dataclass(frozen=True, slots=True)
class StoredQuads:
    """A right operand in quads: where its first row is, the columns of a row of quads, and the bounds of its mask."""

    pointer: V
    columns: int
    bounds: tuple[Bound, ...]


def stored_quads(ev: Evaluator, node: Node) -> StoredQuads | None:
    """Returns a right operand of int8 that is loaded from quads, and zero beyond the bounds of its mask; None for any other."""
    if not isinstance(node, Load) or id(node) in ev.replacement or {node.pointers.unit, node.pointers.pointee} != {"i8"}:
        return None
    rest, (along, across) = node.pointers.rest, node.pointers.offset.coefficients
    if rest is None or along is not None or across is None or not is_integer(across, QUAD):
        return None
    zero = node.other is None or (isinstance(node.other, Splat) and is_integer(node.other.value, 0))
    bounds, others = decompose_mask(node.mask)
    if not zero or others or any(bound.dim != 0 for bound in bounds):
        return None
    found = _rows(ev, rest, node.shape[0])
    if found is None or found[1] < node.shape[1]:
        return None
    start, columns = found
    pointers = node.pointers
    return StoredQuads(ev.f.gep(pointers.base, ev.s.add(pointers.offset.base, start), "i8"), columns, tuple(bounds))


def _rows(ev: Evaluator, rest: Node, depth: int) -> tuple[V, int] | None:
    """Returns where the first of so many rows of quads is, and the columns of one, if rows lie at `k // 4 · 4 w + k % 4`."""
    start, rows, inside, distance = ev.s.constant(0), False, False, 0
    for part in _summands(rest):
        if isinstance(part, Splat):
            start = ev.s.add(start, part.value)
            continue
        split = _of_constant(part)
        if split is None:
            return None
        op, operand, number = split
        if op == "arith.andi" and number == QUAD - 1 and not inside and _counts(operand, depth):
            inside = True
        elif op == "arith.muli" and not rows:
            quotient = _of_constant(operand)
            if quotient is None or quotient[0] != "arith.shrsi" or quotient[2] != _SHIFT or not _counts(quotient[1], depth):
                return None
            rows, distance = True, number
        else:
            return None
    return (start, distance // QUAD) if rows and inside and distance > 0 and distance % QUAD == 0 else None


def _summands(node: Node) -> Iterator[Node]:
    """Yields the parts of a sum of offsets that vary along rows alone."""
    if isinstance(node, View) and node.dims == (0,):
        node = node.source
    if isinstance(node, Map) and node.op == "arith.addi" and node.elem == "i64":
        for operand in node.operands:
            yield from _summands(operand)
    else:
        yield node


def _of_constant(node: Node) -> tuple[str, Node, int] | None:
    """Returns the operation, the operand and the number of an operation on i64 with a constant."""
    if not isinstance(node, Map) or node.elem != "i64" or len(node.operands) != 2:
        return None
    operand, constant = node.operands
    if not isinstance(constant, Splat) or not is_constant(constant.value):
        return None
    return node.op, operand, integer(constant.value)


def _counts(node: Node, depth: int) -> bool:
    """Returns whether a node is 0, 1, 2, … along rows."""
    if not isinstance(node, Affine) or node.shape != (depth,) or node.coefficients[0] is None:
        return False
    return is_integer(node.base, 0) and is_integer(node.coefficients[0], 1)
