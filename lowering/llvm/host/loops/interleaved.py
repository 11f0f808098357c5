"""Stores blocks with a few columns that are computed from planes: one vector per column, interleaved in registers.

An image of three channels goes from planes to pixels: rows of the result are three elements long, and neighbours in each plane
lie side by side. Evaluated along its columns such a block gathers three elements at a time. Here a loop goes along the rows, with a
vector of every column at once, and what it stores is contiguous.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ...elementwise import memory_size, to_memory
from ...values import V, element
from ..evaluate import Evaluator
from ..nodes import Flattened, Load, Map, Node, Pointers, Stored, View
from ..scalars import is_constant
from .coordinates import Bound, Coordinate, Coordinates, reads_memory, stride_of
from .vector_loop import only_first_lane, vector_loop

if TYPE_CHECKING:
    from .loop_nests import LoopNests

_MOST_COLUMNS = 4


def store_interleaved(nests: LoopNests, pointers: Pointers, value: Node, bounds: Sequence[Bound]) -> bool:
    """Stores a block whose rows follow one another, of few elements each, from planes. Returns whether it is such a block."""
    ev, shape = nests.ev, pointers.shape
    long = [d for d, extent in enumerate(shape) if extent > 1]
    if len(long) < 2 or pointers.rest is not None:
        return False
    along, across = long[-2:]
    limits = [bound.limit for bound in bounds if bound.dim == across]
    columns = min([shape[across], *[limit.number for limit in limits if is_constant(limit)]])
    known = all(is_constant(limit) for limit in limits) and 2 <= columns <= _MOST_COLUMNS
    n = min(nests.ev.lanes_for(*nests.elements([value])), shape[along])
    if not known or n < 2 or stride_of(pointers, across) != 1 or stride_of(pointers, along) != columns:
        return False
    if not _is_of_planes(ev, value, along, across) or nests.reused_values([value], shape):
        return False
    _Interleaving(nests, pointers, value, bounds, (along, across), columns).store(n)
    return True


def _is_of_planes(ev: Evaluator, value: Node, along: int, across: int) -> bool:
    """Whether a value reads memory along the rows of its block, or the same for all of them, and some of it along rows alone."""
    planes = False
    for node, row, column in _leaves(ev, value, along, across):
        if not isinstance(node, Load) or (row is not None and not ev.is_affine(node.pointers, row)):
            return False
        parts = [part for part in (node.mask, node.other, node.pointers.rest) if part is not None]
        if any(reads_memory(part) for part in parts):
            return False
        if row is None or node.pointers.offset.coefficients[row] is None:
            continue
        if stride_of(node.pointers, row) != 1:
            return False
        planes = planes or column is None or stride_of(node.pointers, column) != 1
    return planes


def _leaves(ev: Evaluator, value: Node, along: int, across: int) -> Iterator[tuple[Node, int | None, int | None]]:
    """Yields the loads and scratch that a value is made of, with the dimensions of each that are the block's two."""
    stack: list[tuple[Node, int | None, int | None]] = [(value, along, across)]
    seen: set[tuple[int, int | None, int | None]] = set()
    while stack:
        node, row, column = item = stack.pop()
        if (id(node), row, column) in seen:
            continue
        seen.add((id(node), row, column))
        replaced = ev.replacement.get(id(node))
        if replaced is not None:
            yield replaced[1], row, column
            continue
        match node:
            case Map():
                stack.extend((operand, row, column) for operand in node.operands)
            case View():
                inner = [node.dims.index(d) if d is not None and d in node.dims else None for d in (row, column)]
                stack.append((node.source, inner[0], inner[1]))
            case Load() | Stored() | Flattened():
                yield item


class _Interleaving:
    """Emits one such store."""

    def __init__(self, nests: LoopNests, pointers: Pointers, value: Node, bounds: Sequence[Bound],
                 dims: tuple[int, int], columns: int) -> None:  # fmt: skip
        self.nests, self.ev, self.f = nests, nests.ev, nests.ev.f
        self.pointers, self.value, self.bounds = pointers, value, bounds
        (self.along, self.across), self.columns = dims, columns

    def store(self, n: int) -> None:
        ev, shape = self.ev, self.pointers.shape
        ev.prefetching = set()
        anchor = Load(shape, self.pointers.pointee, self.pointers, None, None)  # hoists the row pointer
        with ExitStack() as stack:
            coordinates: list[Coordinate | None] = [None] * len(shape)
            for d, size in enumerate(shape):
                if d not in (self.along, self.across):
                    count, implied = ev.extent(size, self.bounds, d)
                    ev.hoist([self.value, anchor], tuple(coordinates))
                    coordinates[d] = stack.enter_context(ev.dimension(size, count, implied))
            loop = ev.open_loop(ev.extent(self.columns, self.bounds, self.across)[1])
            places = [Coordinate(ev.s.constant(column), 0, 1, loop) for column in range(self.columns)]
            for place in places:
                coordinates[self.across] = place
                ev.hoist([self.value, anchor], tuple(coordinates))
            limit, _ = ev.extent(shape[self.along], self.bounds, self.along)

            def body(coordinate: Coordinate, mask: V | None, _: list[V]) -> list[V]:
                coordinates[self.along] = coordinate
                columns: list[V] = []
                for place in places:
                    coordinates[self.across] = place
                    columns.append(self._column(tuple(coordinates), mask, coordinate.lanes))
                coordinates[self.across] = places[0]
                self._write(columns, tuple(coordinates), None if mask is None else limit)
                return []

            vector_loop(ev, shape[self.along], self.bounds, self.along, n, 1, body)

    def _column(self, here: Coordinates, mask: V | None, n: int) -> V:
        return to_memory(self.f, self.f.splat(self.ev.at(self.value, here, mask), n), self.pointers.pointee)

    def _write(self, columns: Sequence[V], here: Coordinates, limit: V | None) -> None:
        """Stores as many vectors as there are columns. limit: the rows there are, where there may be fewer than these."""
        ev, f, s = self.ev, self.f, self.ev.s
        coordinate = here[self.along]
        assert coordinate is not None
        n, count, size = coordinate.lanes, len(columns), memory_size(self.pointers.pointee)
        pairs = [f.shuffle(columns[k], columns[min(k + 1, count - 1)], range(2 * n)) for k in range(0, count, 2)]
        start = ev.pointer_at(self.pointers, here, self.along)
        first = s.mul(s.add(coordinate.at, s.constant(coordinate.offset)), s.constant(count))
        for vector in range(count):
            picks = [(k % count) * n + k // count for k in range(vector * n, (vector + 1) * n)]
            data = f.shuffle(pairs[0], pairs[-1], picks)  # of two columns there is one pair, and no pick is beyond it
            pointer = f.gep(start, vector * n, element(columns[0].type))
            position = s.add(first, s.constant(vector * n))
            mask = None if limit is None else ev.lane_mask(position, s.mul(limit, s.constant(count)), n)
            if mask is None:
                f.store(data, pointer, size)
            elif only_first_lane(mask):  # see `LoopNests.store`
                f.store(f.extract(data, 0), pointer, size)
            else:
                f.masked_store(data, pointer, mask, size)
