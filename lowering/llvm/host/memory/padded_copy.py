"""Copies blocks with their rows as columns, of which a part lies outside of what they are copied from and is filled.

    ┌───────────────┬──────────────────────┐
    │ filled        │ columns before first │     A block that pads an image is masked by row and by column, and channels, which
    ├────┬──────┬───┤                      │     lie apart in the image, become neighbours: what is inside is copied as a block
    │    │copied│   │ first to end         │     without padding is, and the rest is written without being read.
    ├────┴──────┴───┤                      │
    │ filled        │ columns from end on  │
    └───────────────┴──────────────────────┘
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .....promotion.dataclass import dataclass
from ...elementwise import memory_size, to_memory
from ...ir import Function
from ...masks.accesses import store_lanes
from ...module import Module
from ...values import V, i64, int_vector, is_integer
from ..evaluate import Evaluator
from ..loops.coordinates import ORIGIN, Bound
from ..nodes import Load, Map, Node, Splat, View
from ..scalars import ZERO, is_constant


class Padding(NamedTuple):
    """What a load reads: positions from `begins` on and below `limits`, if the conditions hold."""

    begins: list[Bound]
    limits: list[Bound]
    conditions: list[V]


def padding_of(mask: Node, dims: Sequence[int | None]) -> Padding | None:
    """Returns a mask that is of bounds on single coordinates, and of conditions on none; None for others.

    dims: the dimension of the block for each one of the mask.
    """
    padding = Padding([], [], [])
    return padding if _collect(mask, dims, padding) else None


def _collect(mask: Node, dims: Sequence[int | None], padding: Padding) -> bool:
    match mask:
        case Map(op="arith.andi"):
            return all(_collect(operand, dims, padding) for operand in mask.operands)
        case View():
            return _collect(mask.source, [None if d is None else dims[d] for d in mask.dims], padding)
        case Splat():
            if not is_integer(mask.value, 1):
                padding.conditions.append(mask.value)
            return True
        case Map(op="arith.cmpi") if "bound" in mask.attrs or "begin" in mask.attrs:
            bound = mask.attrs.get("bound") or mask.attrs["begin"]
            dim = dims[bound.dim]
            if dim is not None:
                (padding.limits if "bound" in mask.attrs else padding.begins).append(Bound(dim, bound.limit))
            return dim is not None
    return False


class Inside(NamedTuple):
    """The part of an extent that is read."""

    first: V
    end: V


def inside(ev: Evaluator, padding: Padding, dim: int, count: V, conditions: Sequence[V]) -> Inside:
    """Returns the part of `count` positions of a dimension that a load reads; none where the conditions do not hold."""
    s, f = ev.s, ev.f
    first, end = ZERO, count
    for bound in padding.begins:
        if bound.dim == dim:
            first = s.max(first, bound.limit)
    for bound in padding.limits:
        if bound.dim == dim:
            end = s.min(end, bound.limit)
    first = s.min(first, count)
    for condition in conditions:
        first = f.select(condition, first, count)
    return Inside(first, s.max(first, end))


def fill_around(ev: Evaluator, load: Load, to: V, ld: V, rows: tuple[V, Inside], columns: tuple[V, Inside]) -> None:
    """Fills what is outside: to[c · ld + r] for rows r and columns c, of which the counts and what is inside are given."""
    f, s = ev.f, ev.s
    assert isinstance(load.other, Splat)
    value = to_memory(f, ev.at(load.other, (ORIGIN,) * len(load.shape)), load.elem)
    size = memory_size(load.pointers.pointee)
    function = Filling(size, ev.target.vector_bytes, ev.target.has("avx512vl", "avx512bw"))
    bits = f.bitcast(value, f"i{8 * size}")
    (height, (top, bottom)), (width, (left, right)) = rows, columns
    parts = [
        (ZERO, ZERO, height, left), (ZERO, right, height, s.sub(width, right)),
        (ZERO, left, top, s.sub(right, left)), (bottom, left, s.sub(height, bottom), s.sub(right, left)),
    ]  # fmt: skip
    for row, column, down, across in parts:
        if any(is_constant(extent) and is_integer(extent, 0) for extent in (down, across)):
            continue
        first = f.gep(f.gep(to, s.mul(column, ld), f"i{8 * size}"), row, f"i{8 * size}")
        f.call(f.module.provide(function), "void", [first, ld, down, across, bits])


@dataclass(frozen=True, slots=True)
class Filling:
    """The function that makes to[c · ld + r] = value for r < rows, c < columns, in elements.

    size: bytes of an element.  width: bytes of a vector register.  masked: whether registers have masks for these elements.
    """

    size: int
    width: int
    masked: bool

    @property
    def name(self) -> str:
        return f"jn_filling_{self.size}_{self.width}{'_masked' * self.masked}"

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return [("ptr", "to"), ("i64", "ld"), ("i64", "rows"), ("i64", "columns"), (f"i{8 * self.size}", "value")]

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Adds the function to a module."""
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        to, ld, rows, columns, value = f.params
        elem, lanes = f"i{8 * self.size}", self.width // self.size
        values = f.splat(value, lanes)
        whole = f.binary("and", rows, i64(-lanes))
        with f.loop(0, columns) as c:
            line = f.gep(to, f.mul(c.index, ld), elem)
            with f.loop(0, whole, lanes) as r:
                f.store(values, f.gep(line, r.index, elem), self.size)
            if self.masked:
                with f.when(f.icmp("sgt", rows, whole)):
                    on = f.icmp("sgt", f.splat(f.sub(rows, whole), lanes), int_vector(range(lanes), "i64"))
                    store_lanes(f, values, f.gep(line, whole, elem), on, self.size)
            else:
                with f.loop(whole, rows) as r:
                    f.store(value, f.gep(line, r.index, elem), self.size)
        f.ret()
        module.add(f)
