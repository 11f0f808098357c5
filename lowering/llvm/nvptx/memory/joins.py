"""Lowers operations that make one block of two, or two of one: join, cat, split."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from ...syntax import element_name, shape_of
from ...values import const
from ..context import Handler, KernelContext
from ..nodes import Distributed, Node, Range, Shape, Splat, View


def _join(k: KernelContext, op: Operation) -> None:
    """Lowers tt.join: the two blocks along a new last dim."""
    result = op.results[0]
    shape, elem = shape_of(result.type), element_name(result.type)
    sides = [View((*shape[:-1], 1), elem, k.node(operand), "reshape") for operand in op.operands]
    k.define(result, _choice(k, shape, elem, sides, len(shape) - 1))


def _cat(k: KernelContext, op: Operation) -> None:
    """Lowers tt.cat: the two blocks one after the other, first as a new first dim."""
    result = op.results[0]
    shape, elem = shape_of(result.type), element_name(result.type)
    half = (shape[0] // 2, *shape[1:])
    sides = [View((1, *half), elem, k.node(operand), "reshape") for operand in op.operands]
    both = _choice(k, (2, *half), elem, sides, 0)
    k.define(result, View(shape, elem, both, "reshape"))


def _choice(k: KernelContext, shape: Shape, elem: str, sides: Sequence[Node], axis: int) -> Node:
    """Returns sides[0] at 0 along an axis of size 2, sides[1] at 1."""
    alone = tuple(2 if d == axis else 1 for d in range(len(shape)))
    index = View(shape, "i32", View(alone, "i32", Range((2,), "i32", 0), "reshape"), "broadcast")
    zero = Splat(shape, "i32", const(0, "i32"))
    first = k.ev.compute("arith.cmpi", shape, "i1", [index, zero], {"predicate": "eq"})
    wide = [View(shape, elem, side, "broadcast") for side in sides]
    layouts = [found for side in sides if (found := k.ev.choose_layout([side])) is not None]
    if not layouts:
        return k.ev.compute("arith.select", shape, elem, [first, *wide], {})
    layout = layouts[0]
    collapsed = layout.reshape(sides[0].shape)
    joined = collapsed.reshape([n for d, n in enumerate(shape) if d != axis]).join()
    order = [*range(axis), len(shape) - 1, *range(axis, len(shape) - 1)]
    target = joined.transpose(order)
    registers = k.ev.map("arith.select", elem, [first, *wide], {}, target, range(target.size("register")))
    return Distributed(shape, elem, target, registers)


def _split(k: KernelContext, op: Operation) -> None:
    shape = shape_of(op.results[0].type)
    source = op.operands[0]
    own = k.ev.choose_layout([k.node(source)])
    layout = k.accesses.coalesced(shape) if own is None else own.slice(len(shape))
    values = k.registers(source, layout.join())
    for index, result in enumerate(op.results):
        k.define(result, Distributed(shape, element_name(result.type), layout, values[index::2]))


JOINS: dict[str, Handler] = {"tt.join": _join, "tt.cat": _cat, "tt.split": _split}
