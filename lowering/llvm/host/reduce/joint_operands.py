"""Evaluates the left operands of neighbouring products in one nest, where they are made of the same elements.

Convolutions in tiles (`tile/templates/winograd.py`) multiply 16 or 36 sums of as many elements. One by one, each sum would load
its elements anew, or read what others share from scratch; together, every element is loaded once, and what sums share stays in
registers: a convolution with 36 of them takes 0.76 of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from math import prod

from xdsl.ir import Operation

from ...syntax import attributes, element_name
from ...values import V
from ..context import KernelContext
from ..loops.coordinates import Bound, Coordinate, memory_size_of
from ..loops.invariants import spread
from ..loops.vector_loop import vector_loop
from ..masks.zero_limits import drop, keep
from ..nodes import Load, Map, Node, Stored, View

MIN_SAVED = 2
"""How many times as many nodes the operands have one by one as together, at least."""
MAX_BYTES = 1 << 20
"""The most scratch for operands that wait: the second-level cache should hold them, and it may be the stack."""


def evaluate_jointly(k: KernelContext, op: Operation) -> None:
    """Puts the left operand of a product and those of the products after it into scratch, if that takes less work together."""
    first = k.node(op.operands[0])
    if not _may_wait(k, op, first):
        return
    found = [first]
    following = op.next_op
    while following is not None and (following.name == "tt.dot" or following not in k.liveness.index):
        if following.name == "tt.dot":
            node = k.nodes.get(following.operands[0])
            if node is not None and node.shape == first.shape and _may_wait(k, following, node) and node not in found:
                found.append(node)
        following = following.next_op
    size = len(found) * prod(first.shape) * memory_size_of(first.elem)
    if len(found) < 2 or size > MAX_BYTES or not _share(found):
        return
    bounds = set.intersection(*[set(k.dots.operands.limits(node)) for node in found])
    common = [bound for bound in k.dots.operands.limits(first) if bound in bounds]
    blocks = [k.ev.scratch(node.shape, node.elem) for node in found]
    _evaluate(k, found, blocks, common)
    for node, block in zip(found, blocks, strict=True):
        keep(k.ev, node, block, tuple(common))


def release(k: KernelContext, op: Operation) -> None:
    """Gives the scratch of a product's left operand back, if it was evaluated with others and nothing reads it any more."""
    node = k.node(op.operands[0])
    if not k.is_read_after(node, op):
        drop(k.ev, node)


def _may_wait(k: KernelContext, op: Operation, node: Node) -> bool:
    """Returns whether a product's left operand is computed, not in scratch yet, and multiplied as it is."""
    if not isinstance(node, Map) or id(node) in k.ev.replacement or node.elem not in ("f32", "f64"):
        return False
    if len(node.shape) != 2 or node.shape[1] < 2:
        return False
    result = element_name(op.results[0].type)
    tf32 = str(attributes(op).get("inputPrecision", "ieee")) == "tf32"
    return result == node.elem and not tf32


def _share(operands: Sequence[Node]) -> bool:
    together, apart = len(_nodes(operands)), sum(len(_nodes([node])) for node in operands)
    return apart >= MIN_SAVED * together


def _nodes(roots: Sequence[Node]) -> set[int]:
    """Returns the operations and loads that blocks are evaluated from."""
    found, stack = set[int](), list(roots)
    while stack:
        node = stack.pop()
        if id(node) in found:
            continue
        match node:
            case Map():
                stack.extend(node.operands)
            case View():
                stack.append(node.source)
        if isinstance(node, (Map, Load, Stored)):
            found.add(id(node))
    return found


def _evaluate(k: KernelContext, nodes: Sequence[Node], blocks: Sequence[Stored], bounds: Sequence[Bound]) -> None:
    """Emits the nest, of one vector at a time: the registers hold no second one of so many values."""
    ev, shape, inner = k.ev, nodes[0].shape, 1
    k.nests.materialize_operands(nodes)
    ev.prefetching = set()
    with ExitStack() as stack:
        coordinates = k.nests.outer(stack, shape, inner, bounds, nodes)
        n = min(ev.lanes_for(*k.nests.elements(nodes)), shape[inner])
        spread(ev, nodes, tuple(coordinates), n)

        def body(coordinate: Coordinate, mask: V | None, _: list[V]) -> list[V]:
            here = (coordinates[0], coordinate)
            for node, block in zip(nodes, blocks, strict=True):
                ev.write_scratch(block, here, ev.at(node, here, mask))
            return []

        vector_loop(ev, shape[inner], bounds, inner, n, 1, body, once=ev.target.has("avx512f"))
