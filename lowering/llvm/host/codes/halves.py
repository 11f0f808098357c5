"""Finds halves of 64-bit integers, and integers of two halves, in blocks and in memory.

Complex64 numbers are such integers. Where their parts are neighbours in memory, a number is loaded and stored as it lies, in
place of both parts with strides of two.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import replace

from ....target import HostTarget
from ...elementwise import memory_size
from ...halves import HIGH, JOINED, LOW
from ...values import integer, is_zero
from ..loops.coordinates import decompose_mask, memory_size_of
from ..nodes import Load, Map, Node, Pointers, Splat
from ..scalars import Scalars, is_constant

_HALF = 4
_DEPTH = 4
"""Operations, one of another, that are compared to tell whether two masks are the same."""
_NOTED = frozenset(("bound", "begin"))
"""What is noted of a comparison, and follows from its operands."""


def halves(op: str, operands: Sequence[Node], is_free: Callable[[Node], bool]) -> Map | None:
    """Returns what an operation computes as a half, or as an integer of halves; None where it is neither.

    op: "arith.trunci" of i64 to i32, or "arith.ori" of i64. `is_free` holds for nodes that are computed where they are used.
    """
    if op == "arith.trunci":
        (source,) = operands
        moved = _moved(source, "arith.shrui", is_free)
        return Map(source.shape, "i32", LOW if moved is None else HIGH, (source if moved is None else moved,), {})
    for upper, lower in (operands, reversed(operands)):
        moved = _moved(upper, "arith.shli", is_free)
        high, low = (None if each is None else _extended(each, is_free) for each in (moved, lower))
        if high is not None and low is not None:
            return Map(upper.shape, "i64", JOINED, (low, high), {})
    return None


def _moved(node: Node, op: str, is_free: Callable[[Node], bool]) -> Node | None:
    """Returns what is shifted by 32 bits."""
    if not isinstance(node, Map) or node.op != op or not is_free(node) or not isinstance(node.operands[1], Splat):
        return None
    amount = node.operands[1].value
    return node.operands[0] if is_constant(amount) and integer(amount) == 32 else None


def _extended(node: Node, is_free: Callable[[Node], bool]) -> Node | None:
    """Returns the i32 that is extended by zeros."""
    is_wide = isinstance(node, Map) and node.op == "arith.extui" and node.operands[0].elem == "i32" and is_free(node)
    return node.operands[0] if is_wide and isinstance(node, Map) else None


def joined_load(s: Scalars, node: Map, is_free: Callable[[Node], bool]) -> Load | None:
    """Returns the load of integers of which both halves are loaded, from neighbours in memory; None of others."""
    if node.op != JOINED:
        return None
    one, other = (_loaded(each, is_free) for each in node.operands)
    if one is None or other is None or not same(one.mask, other.mask) or not same(one.other, other.other):
        return None
    if one.mask is not None and not (isinstance(one.other, Splat) and is_zero(one.other.value)):
        return None
    pointers = whole_pointers(s, one.pointers, other.pointers)
    if pointers is None:
        return None
    rest = None if one.mask is None else Splat(one.shape, "i64", s.constant(0))
    return Load(one.shape, "i64", pointers, one.mask, rest)


def whole_pointers(s: Scalars, low: Pointers, high: Pointers) -> Pointers | None:
    """Returns pointers to the integers whose halves are pointed to; None where they are no neighbours."""
    if low.base.operand() != high.base.operand() or low.unit != high.unit or low.shape != high.shape:
        return None
    if memory_size(low.pointee) != _HALF or memory_size(high.pointee) != _HALF or low.rest is not None or high.rest is not None:
        return None
    steps = [[None if each is None else each.operand() for each in part.offset.coefficients] for part in (low, high)]
    (start, before), (following, after) = (s.parts(part.offset.base) for part in (low, high))
    apart = memory_size_of(low.unit) * (after - before)
    if steps[0] != steps[1] or start.operand() != following.operand() or apart != _HALF:
        return None
    return replace(low, pointee="i64")


def are_apart(s: Scalars, whole: Pointers) -> bool:
    """Returns whether integers that are pointed to are the same one or do not overlap, so that storing them one by one is
    storing all of their lower halves and then all upper ones."""
    size, unit = memory_size(whole.pointee), memory_size_of(whole.unit)
    return all(step is None or unit * s.multiple(step) % size == 0 for step in whole.offset.coefficients)


def half_of(node: Node, is_free: Callable[[Node], bool]) -> tuple[Node, bool] | None:
    """Returns the integers of which a block is one half, and whether it is the upper one."""
    node = _reinterpreted(node, is_free)
    if not isinstance(node, Map) or node.op not in (LOW, HIGH) or not is_free(node):
        return None
    return node.operands[0], node.op == HIGH


def are_alone(node: Node, replaced: Container[int], target: HostTarget) -> bool:
    """Returns whether a value is computed of halves of what is loaded, and of what is the same everywhere, by operations on
    elements: in whatever order instructions for 32 bytes bring these.

    Addresses and masks of loads are in the order of elements, and depend on no halves. replaced: ids of nodes in scratch.
    """
    if target.vector_bytes != 32:
        return False
    stack, seen = [node], set[int]()
    while stack:
        here = stack.pop()
        if id(here) in seen or isinstance(here, Splat):
            continue
        seen.add(id(here))
        if not isinstance(here, Map) or id(here) in replaced:
            return False
        if here.op in (LOW, HIGH):
            load = here.operands[0]
            if not isinstance(load, Load) or id(load) in replaced or load.pointers.rest is not None:
                return False
            if decompose_mask(load.mask)[1] or not (load.other is None or isinstance(load.other, Splat)):
                return False
        else:
            stack.extend(here.operands)
    return True


def _reinterpreted(node: Node, is_free: Callable[[Node], bool]) -> Node:
    """Returns what a block holds the bits of."""
    while isinstance(node, Map) and node.op.endswith(".bitcast") and is_free(node):
        (node,) = node.operands
    return node


def _loaded(node: Node, is_free: Callable[[Node], bool]) -> Load | None:
    found = _reinterpreted(node, is_free)
    return found if isinstance(found, Load) and is_free(found) else None


def same(one: Node | None, other: Node | None, depth: int = _DEPTH) -> bool:
    """Returns whether two blocks are known to be the same."""
    if one is other:
        return True
    if isinstance(one, Splat) and isinstance(other, Splat):
        return one.value == other.value
    if not isinstance(one, Map) or not isinstance(other, Map) or not depth:
        return False
    facts = [{name: fact for name, fact in each.attrs.items() if name not in _NOTED} for each in (one, other)]
    if (one.op, one.elem, len(one.operands), facts[0]) != (other.op, other.elem, len(other.operands), facts[1]):
        return False
    return all(same(a, b, depth - 1) for a, b in zip(one.operands, other.operands, strict=True))
