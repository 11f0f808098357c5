"""Stores blocks with a few columns that are computed from planes: one vector per column, interleaved in registers.

An image of three channels goes from planes to pixels: rows of the result are three elements long, and neighbours in each plane
lie side by side. Evaluated along its columns such a block gathers three elements at a time. Here a loop goes along the rows,
with a vector of every column at once, and what it stores is contiguous.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....target import CACHE_LINE
from ...elementwise import memory_size, to_memory
from ...ir import Function
from ...masks.accesses import store_lanes
from ...values import V, bits, element, lanes
from ..evaluate import Evaluator
from ..masks.lane_masks import only_first_lane
from ..memory.gathers import are_few_apart
from ..memory.short_strides import are_in_pieces
from ..nodes import Flattened, Load, Map, Node, Pointers, Stored, View
from ..scalars import ZERO, is_constant
from .coordinates import Bound, Coordinate, Coordinates, alignment_of, reads_memory, stride_of
from .vector_loop import vector_loop

MAX_COLUMNS = 32
"""The most elements of rows of which each lane has one, of columns of which each is computed otherwise: choosing between them
takes twenty times as long as to store and load them again. Of others half as many, and fewer where these fill registers."""
WIDE_LANES = 4
"""Lanes of 64 bits of a register of two halves, between which elements move by instructions of their own."""
_FEW_COLUMNS = {1: 7, 2: 3}
"""The most columns of elements of so many bytes that short vectors compute one by one though rows of operands are as short."""


def interleaved(ev: Evaluator, pointers: Pointers, value: Node, bounds: Sequence[Bound]) -> Interleaved | None:
    """Returns how to store a block whose rows follow one another, of few elements each, from planes; None for any other."""
    shape = pointers.shape
    long = [d for d, extent in enumerate(shape) if extent > 1]
    if len(long) < 2 or pointers.rest is not None:
        return None
    along, across = long[-2:]
    limits = [bound.limit for bound in bounds if bound.dim == across]
    columns = min([shape[across], *[limit.number for limit in limits if is_constant(limit)]])
    few = min(MAX_COLUMNS // 2, ev.target.registers // 2)
    most = MAX_COLUMNS if _chooses(value, across, ev) else few
    if not all(is_constant(limit) for limit in limits) or not 2 <= columns <= most:
        return None
    if stride_of(pointers, across) != 1 or stride_of(pointers, along) != columns:
        return None
    few = _FEW_COLUMNS.get(memory_size(pointers.pointee), 0) if ev.target.has_short_vectors else 0
    planes = read_along(ev, value, along, across)
    if planes is None or not (any(planes) or (planes and columns <= few)):
        return None
    return Interleaved(ev, pointers, value, bounds, (along, across), columns)


def _chooses(value: Node, across: int, ev: Evaluator) -> bool:
    """Returns whether a value is computed otherwise for some columns than for others."""
    stack, seen = [value], set[int]()
    while stack:
        node = stack.pop()
        if id(node) not in seen and isinstance(node, Map):
            seen.add(id(node))
            if node.op == "arith.select" and across in ev.depends(node.operands[0]):
                return True
            stack.extend(node.operands)
    return False


def read_along(ev: Evaluator, value: Node, along: int, across: int, far: int = 0) -> list[bool] | None:
    """Returns for all that a value reads whether it lies along rows alone; None where that is not read in vectors along rows.

    It is the same for all rows, or its rows are at even distances: those of planes at any, others at few elements.
    far: up to so many, where elements are read one by one.
    """
    found: list[bool] = []
    for node, row, column in _leaves(ev, value, along, across):
        if not isinstance(node, Load) or (row is not None and not ev.is_affine(node.pointers, row)):
            return None
        parts = [part for part in (node.mask, node.other, node.pointers.rest) if part is not None]
        if any(reads_memory(part) for part in parts):
            return None
        if row is None or node.pointers.offset.coefficients[row] is None:
            continue
        is_plane = column is None or stride_of(node.pointers, column) != 1
        step, size = stride_of(node.pointers, row), memory_size(node.pointers.pointee)
        is_near = are_in_pieces(ev.f.module, size, step or 0, few=True) or are_few_apart(ev.f.module, size, step or 0, [], ZERO)
        if step != 1 and not is_plane and not is_near and not 1 < (step or 0) <= far:
            return None
        found.append(is_plane)
    return found


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


class Interleaved:
    """A store of a block whose last two dimensions are rows and a few columns, `dims`."""

    def __init__(self, ev: Evaluator, pointers: Pointers, value: Node, bounds: Sequence[Bound], dims: tuple[int, int],
                 columns: int) -> None:  # fmt: skip
        self.ev, self.f = ev, ev.f
        self.pointers, self.value, self.bounds = pointers, value, bounds
        (self.along, self.across), self.dims, self.columns = dims, dims, columns
        anchor = Load(pointers.shape, pointers.pointee, pointers, None, None)  # hoists the row pointer
        self.nodes = value, anchor

    def store(self, coordinates: list[Coordinate | None], lanes: int) -> None:
        """Emits the store, up to so many rows at a time. coordinates: those of the loops over all dimensions but the two."""
        ev, extent = self.ev, self.pointers.shape[self.along]
        loop = ev.open_loop(ev.extent(self.columns, self.bounds, self.across)[1])
        positions = [Coordinate(ev.s.constant(column), 0, 1, loop) for column in range(self.columns)]
        for position in positions:
            coordinates[self.across] = position
            ev.hoist(self.nodes, tuple(coordinates))
        limit, _ = ev.extent(extent, self.bounds, self.along)

        def body(coordinate: Coordinate, mask: V | None, _: list[V]) -> list[V]:
            coordinates[self.along] = coordinate
            columns: list[V] = []
            for position in positions:
                coordinates[self.across] = position
                columns.append(self._column(tuple(coordinates), mask, coordinate.lanes))
            coordinates[self.across] = positions[0]
            self._write(columns, tuple(coordinates), None if mask is None else limit)
            return []

        vector_loop(ev, extent, self.bounds, self.along, min(lanes, extent), 1, body)

    def _column(self, here: Coordinates, mask: V | None, n: int) -> V:
        return to_memory(self.f, self.f.splat(self.ev.at(self.value, here, mask), n), self.pointers.pointee)

    def _write(self, columns: Sequence[V], here: Coordinates, limit: V | None) -> None:
        """Stores as many vectors as there are columns. limit: the rows there are, where there may be fewer than these."""
        ev, f, s = self.ev, self.f, self.ev.s
        coordinate = here[self.along]
        assert coordinate is not None
        n, count, align = coordinate.lanes, len(columns), alignment_of(self.pointers)
        if n == CACHE_LINE and element(columns[0].type) == "i8":  # LLVM 22 does not end for sums that a shuffle repeats
            columns = [f.hidden(column) for column in columns]
        vectors = side_by_side(f, columns)
        start = ev.pointer_at(self.pointers, here, self.along)
        first = s.mul(s.add(coordinate.at, s.constant(coordinate.offset)), s.constant(count))
        for vector, data in enumerate(vectors):
            pointer = f.gep(start, vector * n, element(columns[0].type))
            position = s.add(first, s.constant(vector * n))
            mask = None if limit is None else ev.lane_mask(position, s.mul(limit, s.constant(count)), n)
            if mask is None:
                f.store(data, pointer, align)
            elif only_first_lane(mask):  # see `LoopNests.store`
                f.store(f.extract(data, 0), pointer, align)
            else:
                store_lanes(f, data, pointer, mask, align)


def side_by_side(f: Function, columns: Sequence[V]) -> list[V]:
    """Returns as many vectors as there are columns, the first of each, the second of each, and so on, side by side.

    Columns of even and of odd numbers are put side by side, then both together, by one shuffle for each vector; an odd number
    of columns is picked from all.
    """
    n, count = lanes(columns[0].type), len(columns)
    if count == 1:
        return list(columns)
    if count % 2 == 0:
        even, odd = side_by_side(f, columns[::2]), side_by_side(f, columns[1::2])
        if n == WIDE_LANES and bits(element(columns[0].type)) == 64:  # LLVM makes six instructions of two shuffles
            mixed = [(f.shuffle(a, b, [0, 4, 2, 6]), f.shuffle(a, b, [1, 5, 3, 7])) for a, b in zip(even, odd, strict=True)]
            return [f.shuffle(low, high, half) for low, high in mixed for half in ([0, 1, 4, 5], [2, 3, 6, 7])]
        halves = [[i // 2 + (n if i % 2 else 0) for i in range(start, start + n)] for start in (0, n)]
        return [f.shuffle(one, other, half) for one, other in zip(even, odd, strict=True) for half in halves]
    found: list[V] = []
    for vector in range(count):
        positions = range(vector * n, (vector + 1) * n)
        taken = f.shuffle(columns[0], columns[1], [p % count * n + p // count if p % count < 2 else -1 for p in positions])
        for number in range(2, count):
            picks = [n + p // count if p % count == number else p - vector * n for p in positions]
            taken = f.shuffle(taken, columns[number], picks)
        found.append(taken)
    return found
