"""Finds masks that end inside an access: `index < limit` where indices rise by one, and conditions that are equal for it.

A copy to shared memory reads as many bytes as it is told and fills the rest with zeros. So such a mask gives a number of bytes
for a group of neighbours, and copies are as wide as pointers allow, wherever rows end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from xdsl.ir import SSAValue

from .....promotion.dataclass import dataclass
from ....linear_layouts.layout import LinearLayout
from ....tt.dialect import arith
from ...syntax import attributes, element_name, is_tensor, shape_of
from ...values import V, const
from ..context import KernelContext
from ..nodes import Node, viewed

_VIEWS = {"tt.expand_dims": "reshape", "tt.broadcast": "broadcast"}


@dataclass(frozen=True, slots=True)
class _Part:
    """A value that a mask is made from, and the operations that spread it over the mask's shape, the first one first."""

    value: SSAValue
    views: tuple[Any, ...]

    def axis(self, axis: int) -> int | None:
        """Returns the axis of the value that corresponds to the mask's `axis`; None where the mask repeats the value."""
        for view in reversed(self.views):
            if view.name == "tt.broadcast":
                if shape_of(view.operands[0].type)[axis] != shape_of(view.results[0].type)[axis]:
                    return None
            else:
                added = int(attributes(view)["axis"])
                if axis == added:
                    return None
                axis -= axis > added
        return axis

    def spread(self, k: KernelContext, value: SSAValue) -> Node:
        """Returns another value of the same shape, spread like this one."""
        node = k.node(value)
        for view in self.views:
            result = view.results[0].type
            node = viewed(node, shape_of(result), element_name(value.type), _VIEWS[view.name])
        return node


@dataclass(frozen=True, slots=True)
class Bound:
    """The condition index < limit for elements along an axis, and `rest`, conditions that are equal for `count` of them."""

    part: _Part
    index: Any
    limit: Any
    predicate: str
    rest: tuple[_Part, ...]
    count: int

    def elements(self, k: KernelContext, layout: LinearLayout, registers: Sequence[int]) -> dict[int, tuple[V, V]]:
        """Returns, by register, the first of a group, whether it has any elements, and how many, if it has (i32)."""
        f = k.f
        index, limit = (
            k.ev.elements(self.part.spread(k, value), layout, registers) for value in (self.index, self.limit)
        )
        rest = [k.ev.elements(part.spread(k, part.value), layout, registers) for part in self.rest]
        found = {}
        for number, register in enumerate(registers):
            own, end = index[number], limit[number]
            some = f.icmp(self.predicate, own, end)
            for column in rest:
                some = f.binary("and", some, column[number])
            # positive where there are some: as an unsigned number it is right however far the two are apart
            left = f.intrinsic("umin", [f.binary("sub", end, own), const(self.count, own.type)])
            found[register] = some, left if left.type == "i32" else f.cast("trunc", left, "i32")
        return found


def bound_of(k: KernelContext, mask: SSAValue, axis: int, count: int) -> Bound | None:
    """Finds the bound that a mask sets for groups of `count` neighbours along an axis.

    None unless exactly one comparison in the mask ends inside them.
    """
    rest: list[_Part] = []
    found: Bound | None = None
    for part in _parts(mask, ()):
        own = part.axis(axis) if is_tensor(part.value.type) else None
        if own is None or k.accesses.axes.of(part.value).constancy[own] >= count:
            rest.append(part)
            continue
        op = part.value.owner
        if found is not None or not isinstance(op, arith.CmpiOp):
            return None
        predicate = str(attributes(op)["predicate"])
        index, limit = op.operands if predicate in ("slt", "ult") else reversed(op.operands)
        if predicate not in ("slt", "ult", "sgt", "ugt") or element_name(index.type) not in ("i32", "i64"):
            return None
        if k.accesses.axes.of(index).aligned(own) < count or k.accesses.axes.of(limit).constancy[own] < count:
            return None
        found = Bound(part, index, limit, predicate[0] + "lt", (), count)
    if found is None:
        return None
    return Bound(found.part, found.index, found.limit, found.predicate, tuple(rest), count)


def _parts(value: Any, views: tuple[Any, ...]) -> Iterator[_Part]:
    op = value.owner
    name = getattr(op, "name", "")
    if name == "arith.andi":
        for operand in op.operands:
            yield from _parts(operand, views)
    elif name in _VIEWS:
        yield from _parts(op.operands[0], (op, *views))
    else:
        yield _Part(value, views)
