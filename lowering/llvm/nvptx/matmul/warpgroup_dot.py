"""Lowers tt.dot by warpgroups: brings operands to where wgmma reads them.

Blocks that a pipelined loop has loaded are there already. A that was computed in the registers of its own warp stays in
registers; other blocks are stored to shared memory, before one barrier; those that a loop does not change, once before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from xdsl.ir import Operation

from .....promotion.dataclass import dataclass
from ....linear_layouts.conversion import is_warp_local
from ....linear_layouts.layout import REGISTER, LinearLayout
from ...syntax import attributes, element_name
from ...values import V, i32, is_zero
from ..context import KernelContext
from ..memory.shared_memory import ALIGNMENT
from ..nodes import Node, Splat, Staged
from .matrix_loads import store_block
from .operand_kinds import SPLIT
from .wgmma import Matrix, SharedMatrix, WarpgroupProduct, address, multiply


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """A block on its way to shared memory: the layout of its elements, and the one they will have there."""

    node: Node
    layout: LinearLayout
    matrix: Matrix


_Side = SharedMatrix | tuple[V, ...] | _Source


def dot_of_warpgroups(k: KernelContext, op: Operation, product: WarpgroupProduct) -> list[V]:
    """Returns the registers of the result in the accumulator's layout, before they are rounded to its type."""
    start = k.node(op.operands[2])
    from_zero = isinstance(start, Splat) and is_zero(start.value)
    first = None if from_zero else k.registers(op.operands[2], product.accumulator)
    sides = [_sides(k, op, product, number) for number in (0, 1)]
    sources = [each for side in sides for each in side if isinstance(each, _Source)]
    stored: dict[int, SharedMatrix] = {}
    if sources:
        base = k.shared.reserve(_bytes(sources))
        k.shared.before_writing()
        stored = _store(k, sources, base)
        k.shared.between()
    lefts, rights = ([_found(each, stored) for each in side] for side in sides)
    shared_rights = [each for each in rights if isinstance(each, SharedMatrix)]
    pairs = [(lefts[0], shared_rights[0])]
    if len(lefts) > 1:  # the smallest first
        pairs = [(lefts[1], shared_rights[0]), (lefts[0], shared_rights[1]), (lefts[0], shared_rights[0])]
    found = multiply(k.t, product, pairs, first, wait=op not in k.in_flight)
    if sources:
        k.shared.after_reading()
    return found


def _found(side: _Side, stored: dict[int, SharedMatrix]) -> SharedMatrix | tuple[V, ...]:
    return stored[id(side)] if isinstance(side, _Source) else side


def _parts(k: KernelContext, op: Operation, product: WarpgroupProduct, number: int) -> list[Node]:
    """Returns an operand as the product takes it; one that is split has two parts, the bigger first."""
    value = op.operands[number]
    node, elem = k.node(value), element_name(value.type)
    if elem == "f32" and product.elem == "bf16":
        return [k.ev.compute("arith.truncf", node.shape, "bf16", [node], {})]
    if elem != product.elem:
        return [k.ev.compute("tt.fp_to_fp", node.shape, product.elem, [node], {})]
    if elem != "f32":
        return [node]
    big = k.ev.compute("joinery.round_tf32", node.shape, "f32", [node], {})
    if str(attributes(op).get("inputPrecision")) not in SPLIT:
        return [big]
    rest = k.ev.compute("arith.subf", node.shape, "f32", [node, big], {})
    return [big, k.ev.compute("joinery.round_tf32", node.shape, "f32", [rest], {})]


def _sides(k: KernelContext, op: Operation, product: WarpgroupProduct, number: int) -> list[_Side]:
    """Returns where the parts of an operand are, or have to be moved."""
    own = k.resident.get((op.operands[number], product.elem, number))
    if own is not None:
        return list(own)
    return [_side(k, product, number, node) for node in _parts(k, op, product, number)]


def _side(k: KernelContext, product: WarpgroupProduct, number: int, node: Node) -> _Side:
    if isinstance(node, Staged):
        return SharedMatrix(node.operand, node.base)
    own = k.ev.choose_layout([node])
    if number == 0 and (own is None or is_warp_local(own, product.a_registers)):
        return k.ev.at(node, product.a_registers)
    layout = own if own is not None else k.accesses.coalesced(node.shape)
    basis = next((basis for basis in layout[REGISTER] if basis), 1)
    matrix = product.matrix("ab"[number], 1 if layout.coordinates(basis)[1] else 0)
    assert matrix is not None  # or wgmma would not compute the product
    return _Source(node, layout, matrix)


def _bytes(sources: Sequence[_Source]) -> int:
    return sum(-(-each.matrix.bytes // ALIGNMENT) * ALIGNMENT for each in sources)


def _store(k: KernelContext, sources: Sequence[_Source], base: V) -> dict[int, SharedMatrix]:
    """Stores blocks one after the other, so that products may read them after a barrier."""
    found: dict[int, SharedMatrix] = {}
    start = 0
    for each in sources:
        pointer = k.shared.at(base, i32(start))
        store_block(k, k.ev.at(each.node, each.layout), each.node.elem, each.layout, each.matrix.shared, pointer)
        found[id(each)] = SharedMatrix(each.matrix, address(k.t, pointer))
        start += -(-each.matrix.bytes // ALIGNMENT) * ALIGNMENT
    k.t.call("fence.proxy.async.shared_cta", [], "void")
    return found


@contextmanager
def invariant_operands(k: KernelContext, loop: Operation) -> Iterator[None]:
    """Encloses a loop: blocks from before it that its products read are stored once, if there is room for them."""
    before = dict(k.resident)
    inside = {value for inner in loop.walk() for value in inner.results}
    inside |= {argument for inner in loop.walk() for region in inner.regions for b in region.blocks for argument in b.args}
    wanted: dict[tuple[Any, str, int], list[_Side]] = {}
    for op in loop.walk():
        product = k.product(op) if op.name == "tt.dot" else None
        if product is None:
            continue
        for number in (0, 1):
            key = (op.operands[number], product.elem, number)
            if op.operands[number] not in inside and key not in k.resident and key not in wanted:
                sides = _sides(k, op, product, number)
                if any(isinstance(side, _Source) for side in sides):
                    wanted[key] = sides
    sources = [side for sides in wanted.values() for side in sides if isinstance(side, _Source)]
    if not sources or 2 * _bytes(sources) > k.shared.room(k.target.shared_bytes):
        yield
        return
    with k.shared.kept(_bytes(sources)) as base:
        k.shared.before_writing()
        stored = _store(k, sources, base)
        k.shared.barrier()
        k.resident.update({key: tuple(_found(side, stored) for side in sides) for key, sides in wanted.items()})
        yield
        k.resident = before
