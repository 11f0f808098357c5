"""Keeps integer blocks affine in the block coordinates through additions and multiplications; comparisons become bounds."""

from __future__ import annotations

from collections.abc import Sequence

from ...values import V, i64, is_integer
from ..loops.coordinates import Bound
from ..nodes import Affine, Node, Splat
from ..scalars import ZERO, Scalars


def bound_of(s: Scalars, predicate: str, left: Node, right: Node) -> Bound | None:
    """Returns `affine in one coordinate with step 1 < scalar` as a bound on that coordinate; None for other comparisons."""
    if predicate in ("sgt", "sge") and isinstance(left, Splat):
        left, right, predicate = right, left, {"sgt": "slt", "sge": "sle"}[predicate]
    if predicate not in ("slt", "sle") or not isinstance(left, Affine) or not isinstance(right, Splat):
        return None
    used = [(d, c) for d, c in enumerate(left.coefficients) if c is not None]
    if len(used) != 1 or not is_integer(used[0][1], 1):
        return None
    limit = s.sub(s.to_i64(right.value), left.base)
    if predicate == "sle":
        limit = s.add(limit, i64(1))
    return Bound(used[0][0], s.max(limit, ZERO))  # a block may start beyond the limit; counts are not negative


OPPOSITE = {"sge": "slt", "sgt": "sle", "slt": "sge", "sle": "sgt"}
"""The predicates that hold where others do not."""
WIDENING = frozenset({"arith.extsi", "arith.extui", "arith.index_cast"})


def fold(s: Scalars, name: str, shape: tuple[int, ...], elem: str, operands: Sequence[Node]) -> Node | None:
    """Returns the result of an integer operation on affine blocks as an affine block, if it is one, else None.

    Forms of i32 elements hold modulo 2^32: callers that widen one test first whether it is exact.
    """
    forms = [as_affine(s, o) for o in operands]
    if forms and forms[0] is not None and (
        (name in WIDENING and elem in ("i64", "index")) or (name == "arith.trunci" and elem == "i32")
    ):
        return Affine(shape, elem, forms[0].base, forms[0].coefficients)
    if elem not in ("i32", "i64", "index") or len(forms) != 2 or forms[0] is None or forms[1] is None:
        return None
    a, b = forms[0], forms[1]
    if name in ("arith.addi", "arith.subi"):
        combine = s.add if name == "arith.addi" else s.sub
        merged: list[V | None] = []
        for x, y in zip(a.coefficients, b.coefficients, strict=True):
            total = combine(x or s.constant(0), y or s.constant(0))
            merged.append(None if is_integer(total, 0) else total)
        return Affine(shape, elem, combine(a.base, b.base), tuple(merged))
    if name == "arith.muli":
        if not any(a.coefficients):
            a, b = b, a
        if any(b.coefficients):
            return None
        scaled = [None if c is None else s.mul(c, b.base) for c in a.coefficients]
        zeroed = tuple(None if c is None or is_integer(c, 0) else c for c in scaled)
        return Affine(shape, elem, s.mul(a.base, b.base), zeroed)
    return None


def as_affine(s: Scalars, node: Node) -> Affine | None:
    if isinstance(node, Affine):
        return node
    if isinstance(node, Splat) and node.elem in ("i32", "i64", "index"):
        return Affine(node.shape, node.elem, s.to_i64(node.value), (None,) * len(node.shape))
    return None
