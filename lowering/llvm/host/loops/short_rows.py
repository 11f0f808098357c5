"""Stores blocks whose rows are shorter than a vector and follow one another: whole vectors of several rows.

    row, column   0 0  0 1  0 2  1 0  1 1  1 2  2 0  2 1  │  2 2  3 0 …      three columns, eight lanes

Which row and column a lane has is known for each of the vectors that some whole rows fill. What the value reads for a vector
lies in a few vectors of memory, as rows are at even distances there, and one shuffle brings it into the lanes. A loop along
single rows would have most lanes idle, and LLVM would not merge several.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import field, replace
from typing import NamedTuple

from .....promotion.dataclass import dataclass
from .....promotion.errors import InternalError
from ....target import CACHE_LINE
from ...elementwise import from_memory, memory_element, memory_size, register_element, to_memory
from ...masks.accesses import store_lanes
from ...values import ConstantLanes, V, int_vector, integer, vector, zero
from ..codes.fours import emitted
from ..evaluate import Evaluator
from ..masks.lane_masks import only_first_lane
from ..memory.gathers import load_first
from ..nodes import Affine, Load, Map, Node, Pointers, Splat, Stored, View
from ..scalars import is_constant, wrapped
from .coordinates import (
    Bound,
    Coordinate,
    Coordinates,
    decompose_mask,
    memory_size_of,
    reads_memory,
    stride_of,
)
from .vector_loop import vector_loop

MAX_VECTORS = 12
"""The most vectors that are filled by whole rows and computed in one iteration."""
_REACH = 4
"""The most vectors of memory that the elements of one vector are picked from."""
_COMPARE = {
    "eq": int.__eq__, "ne": int.__ne__, "slt": int.__lt__, "sle": int.__le__, "sgt": int.__gt__, "sge": int.__ge__,
}  # fmt: skip


class NotReadError(Exception):
    """A value is not read in vectors of several rows."""


class RowDims(NamedTuple):
    """The dimensions of a block that are its rows, `along`, and their elements, `inner`, of the extents `sizes`."""

    along: int
    inner: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def columns(self) -> int:
        """How many elements a row has. They are its columns."""
        return math.prod(self.sizes)

    def vectors(self, lanes: int) -> int:
        """Returns how many vectors are filled by whole rows."""
        return self.columns // math.gcd(self.columns, lanes)

    def position(self, column: int) -> tuple[int, ...]:
        """Returns the coordinates of a column along the inner dimensions."""
        found: list[int] = []
        for size in reversed(self.sizes):
            found.append(column % size)
            column //= size
        return tuple(reversed(found))


@dataclass(frozen=True, slots=True)
class _Read:
    """How what is read lies in memory: elements from row to row, those of the columns from the row's beginning, and which
    columns are read."""

    row: int
    columns: tuple[int, ...]
    is_on: tuple[bool, ...]

    @property
    def last(self) -> int:
        return max(at for at, is_on in zip(self.columns, self.is_on, strict=True) if is_on)


@dataclass(frozen=True, slots=True)
class _Location:
    """A node in a nest: the coordinates of its dimensions, which of these are the rows, and which the inner ones."""

    coordinates: Coordinates
    row: int | None
    inner: tuple[int | None, ...]

    def through(self, view: View) -> _Location:
        """Returns where what a view reads is evaluated."""
        row, *inner = (view.dims.index(d) if d is not None and d in view.dims else None for d in (self.row, *self.inner))
        return _Location(Evaluator.through(view, self.coordinates), row, tuple(inner))


_SCALAR = _Location((), None, ())


@dataclass(slots=True)
class _Vector:
    """The lanes of a vector: their rows, counted from the first one of the iteration, their columns, and what was computed."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    values: dict[tuple[object, ...], V] = field(default_factory=dict)


def row_dims(ev: Evaluator, pointers: Pointers, bounds: Sequence[Bound]) -> list[RowDims]:
    """Returns the dimensions of a block of rows that follow one another and are shorter than a vector: the shortest rows first.

    Bytes and vectors of several rows are picked by one instruction of AVX-512, and read under masks.
    """
    target, shape = ev.target, pointers.shape
    size = memory_size(pointers.pointee)
    wanted = {1: ("avx512vbmi", "avx512bw"), 2: ("avx512bw",)}.get(size, ())
    long = [d for d, extent in enumerate(shape) if extent > 1]
    found: list[RowDims] = []
    if not target.picks_lanes or not target.has(*wanted) or pointers.rest is not None:
        return found
    inner: list[int] = []
    sizes: list[int] = []
    while len(long) > 1:
        dim = long.pop()
        extent = _extent(shape[dim], bounds, dim)
        if extent is None or extent < 2 or stride_of(pointers, dim) != math.prod(sizes):
            break
        inner.insert(0, dim)
        sizes.insert(0, extent)
        dims = RowDims(long[-1], tuple(inner), tuple(sizes))
        if dims.columns * size >= target.vector_bytes:
            break
        if stride_of(pointers, dims.along) == dims.columns:
            found.append(dims)
    return found


def _extent(size: int, bounds: Sequence[Bound], dim: int) -> int | None:
    """Returns how many positions of a dimension there are; None where that is known at launch only."""
    limits = [bound.limit for bound in bounds if bound.dim == dim]
    return min([size, *[integer(limit) for limit in limits]]) if all(is_constant(limit) for limit in limits) else None


def by_column(node: Node, inner: Sequence[int | None], positions: Sequence[tuple[int, ...]]) -> list[int]:
    """Returns the values of a condition, or of a position, by columns, whose positions along the inner dimensions are given.

    Raises `NotReadError` where they are not known.
    """
    match node:
        case Splat() if is_constant(node.value):
            return [integer(node.value)] * len(positions)
        case Affine() if is_constant(node.base):
            known = {dim: step for dim, step in enumerate(node.coefficients) if step is not None}
            if known.keys() <= {*inner} and all(is_constant(step) for step in known.values()):
                steps = [0 if dim is None or dim not in known else integer(known[dim]) for dim in inner]
                values = [integer(node.base) + sum(map(operator.mul, steps, position)) for position in positions]
                return [wrapped(value, register_element(node.elem)) for value in values]
        case View():
            through = [node.dims.index(d) if d is not None and d in node.dims else None for d in inner]
            return by_column(node.source, through, positions)
        case Map(op="arith.cmpi") if node.attrs["predicate"] in _COMPARE:
            compare = _COMPARE[node.attrs["predicate"]]
            sides = [by_column(operand, inner, positions) for operand in node.operands]
            return [int(compare(left, right)) for left, right in zip(*sides, strict=True)]
        case Map(op="arith.andi") if node.elem == "i1":
            sides = [by_column(operand, inner, positions) for operand in node.operands]
            return [left & right for left, right in zip(*sides, strict=True)]
    raise NotReadError


def short_rows(ev: Evaluator, pointers: Pointers, value: Node, bounds: Sequence[Bound], lanes: int) -> ShortRows | None:
    """Returns how to store a block of rows of fewer elements than there are lanes; None for any other."""
    for dims in row_dims(ev, pointers, bounds):
        count, extent = dims.vectors(lanes), _extent(pointers.shape[dims.along], bounds, dims.along)
        if dims.columns >= lanes or count > MAX_VECTORS:
            continue
        if count * lanes // dims.columns > (pointers.shape[dims.along] if extent is None else extent):
            continue  # whole vectors have more rows than there are: those of the dimension around it may be enough
        found = ShortRows(ev, pointers, value, bounds, dims, lanes)
        try:
            found.check()
        except NotReadError:
            continue
        return found
    return None


class ShortRows:
    """A store of a block whose last dimensions, `dims`, are rows and their elements, fewer than there are lanes."""

    def __init__(
        self, ev: Evaluator, pointers: Pointers, value: Node, bounds: Sequence[Bound], dims: RowDims, lanes: int
    ) -> None:
        self.ev, self.f, self.s = ev, ev.f, ev.s
        self.pointers, self.value, self.bounds, self.dims = pointers, value, bounds, dims
        self.columns, self.lanes = dims.columns, lanes
        self.rows = dims.vectors(lanes) * lanes // dims.columns
        self._positions = [dims.position(column) for column in range(dims.columns)]
        self._vectors = [self._vector(v) for v in range(dims.vectors(lanes))]
        anchor = Load(pointers.shape, pointers.pointee, pointers, None, None)  # hoists the row pointer
        self.nodes = value, anchor
        self._reads: dict[int, _Read] = {}
        self._implied = {bound.limit.operand() for bound in bounds if bound.dim == dims.along}
        self._left: V | None = None  # the rows of the iteration, where these may be fewer than all
        self._outside = dict[tuple[object, ...], V]()
        self.chooses = False  # whether some columns are computed otherwise than others, of which each lane computes all
        self.past = False  # what is stored bypasses the caches, if it fills their lines

    def _vector(self, v: int) -> _Vector:
        positions = range(v * self.lanes, (v + 1) * self.lanes)
        return _Vector(tuple(p // self.columns for p in positions), tuple(p % self.columns for p in positions))

    # -- what is read ---------------------------------------------------------

    def check(self) -> None:
        """Looks at all that the value is made of; raises where some of it is not read in vectors of several rows."""
        none = (None,) * len(self.pointers.shape)
        stack = [(self.value, _Location(none, self.dims.along, self.dims.inner))]
        seen: set[tuple[int, int | None, tuple[int | None, ...]]] = set()
        reads = False
        while stack:
            node, where = stack.pop()
            if (id(node), where.row, where.inner) in seen or not self._varies(node, where):
                continue
            seen.add((id(node), where.row, where.inner))
            kept = self.ev.replacement.get(id(node))
            if kept is not None and kept[2]:
                raise NotReadError
            node = node if kept is None else kept[1]
            match node:
                case Map():
                    stack.extend((operand, where) for operand in node.operands if operand.shape)
                    self.chooses = self.chooses or (node.op == "arith.select" and self._is_by_column(node.operands[0], where))
                case View():
                    stack.append((node.source, where.through(node)))
                case Affine():
                    pass
                case Load() | Stored():
                    reads = True
                    self._add_read(node, where)
                    if isinstance(node, Load) and node.other is not None:
                        stack.append((node.other, where))
                case _:
                    raise NotReadError
        if not reads:
            raise NotReadError

    def _varies(self, node: Node, where: _Location) -> bool:
        return not self.ev.depends(node).isdisjoint((where.row, *where.inner))

    def _add_read(self, node: Load | Stored, where: _Location) -> None:
        dims = (where.row, *where.inner)
        if isinstance(node, Load):
            row, *steps = (self._step(node.pointers, dim) for dim in dims)
            is_on = self._columns_read(node, where)
        else:
            row, *steps = (0 if dim is None else node.strides[dim] for dim in dims)
            is_on = (True,) * self.columns
        offsets = [sum(map(operator.mul, steps, position)) for position in self._positions]
        read = _Read(row, tuple(offsets), is_on)
        if row < 0 or self._reads.get(id(node), read) != read:
            raise NotReadError
        for each in self._vectors:
            lanes = [lane for lane in self._offsets(read, each) if lane is not None]
            if lanes and max(lanes) - min(lanes) >= _REACH * self.lanes:
                raise NotReadError
        self._reads[id(node)] = read
        self.chooses = self.chooses or not all(is_on)

    def _step(self, pointers: Pointers, dim: int | None) -> int:
        if dim is None:
            return 0
        coefficient, rest = pointers.offset.coefficients[dim], pointers.rest
        if rest is not None and (dim in self.ev.depends(rest) or reads_memory(rest)):
            raise NotReadError
        if coefficient is None:
            return 0
        step = stride_of(pointers, dim)
        if step == 0 or memory_size_of(pointers.unit) != memory_size(pointers.pointee):
            raise NotReadError
        return step

    def _columns_read(self, node: Load, where: _Location) -> tuple[bool, ...]:
        """Returns which columns a load's mask lets through, which must not depend on rows."""
        on = [True] * self.columns
        bounds, rest = decompose_mask(node.mask)
        for bound in bounds:
            if bound.dim == where.row:
                if bound.limit.operand() not in self._implied:
                    raise NotReadError
            elif bound.dim in where.inner and is_constant(bound.limit):
                at, limit = where.inner.index(bound.dim), integer(bound.limit)
                on = [is_on and position[at] < limit for is_on, position in zip(on, self._positions, strict=True)]
            else:
                raise NotReadError
        for part in rest:
            on = [is_on and bool(value) for is_on, value in zip(on, self._by_column(part, where), strict=True)]
        if not any(on):
            raise NotReadError
        return tuple(on)

    def _by_column(self, node: Node, where: _Location) -> list[int]:
        return by_column(node, where.inner, self._positions)

    def _is_by_column(self, condition: Node, where: _Location) -> bool:
        try:
            return len(set(self._by_column(condition, where))) > 1
        except NotReadError:
            return False

    def _offsets(self, read: _Read, at: _Vector) -> list[int | None]:
        """Returns the offsets of the lanes, counted from the first row of the iteration; None for those that are not read."""
        return [
            read.row * row + read.columns[column] if read.is_on[column] else None
            for row, column in zip(at.rows, at.columns, strict=True)
        ]  # fmt: skip

    # -- code -----------------------------------------------------------------

    def store(self, coordinates: list[Coordinate | None]) -> None:
        """Emits the store. coordinates: those of the loops over all dimensions but the rows and the inner ones."""
        ev, along = self.ev, self.dims.along
        limit, _ = ev.extent(self.pointers.shape[along], self.bounds, along)
        where = _Location(tuple(coordinates), along, self.dims.inner)
        for at in self._vectors:
            self._hoist(self.value, where, at)

        def body(coordinate: Coordinate, mask: V | None, _: list[V]) -> list[V]:
            here = replace(where, coordinates=tuple(coordinate if d == along else c for d, c in enumerate(coordinates)))
            start = self.s.add(coordinate.at, self.s.constant(coordinate.offset))
            self._left = None if mask is None else self.s.sub(limit, start)
            found = [self.f.splat(self._at(self.value, here, at), self.lanes) for at in self._vectors]
            for v, data in enumerate(found):
                self._write(data, here, v)
            for at in self._vectors:
                at.values.clear()
            return []

        vector_loop(ev, self.pointers.shape[along], self.bounds, along, self.rows, 1, body)

    def _write(self, data: V, here: _Location, v: int) -> None:
        data, size = to_memory(self.f, data, self.pointers.pointee), memory_size(self.pointers.pointee)
        first = self._first(here)
        start = self.ev.row_pointer(self.pointers, first, None)
        pointer = self.f.gep(start, v * self.lanes, memory_element(self.pointers.pointee))
        if self._left is None:
            known = self.s.multiple(self.ev.row_pointer(self.pointers, first, here.row))
            past = self.past and math.gcd(CACHE_LINE, known, self.lanes * size) == CACHE_LINE
            self.f.store(data, pointer, CACHE_LINE if past else size, nontemporal=past)
            return
        left = self.s.mul(self._left, self.s.constant(self.columns))
        mask = self.ev.lane_mask(self.s.constant(v * self.lanes), left, self.lanes)
        if only_first_lane(mask):
            self.f.store(self.f.extract(data, 0), pointer, size)
        elif not isinstance(mask, ConstantLanes) or any(mask.numbers):
            store_lanes(self.f, data, pointer, mask, size)

    def _first(self, here: _Location) -> Coordinates:
        """Returns the coordinates of the first row of the iteration, and the first column."""
        found = list(here.coordinates)
        if here.row is not None:
            row = found[here.row]  # what is computed ahead of the loop does not vary along them
            found[here.row] = None if row is None else Coordinate(row.at, row.offset, 1, row.loop)
        for dim in here.inner:
            if dim is not None:
                found[dim] = Coordinate(self.s.constant(0))
        return tuple(found)

    def _hoist(self, node: Node, where: _Location, at: _Vector) -> None:
        """Computes what is the same in all iterations ahead of the loop: what varies along columns alone, or not at all."""
        if isinstance(node, Splat):
            return
        if where.row is None or where.row not in self.ev.depends(node):
            if not isinstance(node, (Affine, Pointers)):
                self._outside[self._key(node, where, at)] = self._at(node, where, at)
            return
        if id(node) in self.ev.replacement:
            return
        match node:
            case Map():
                for operand in node.operands:
                    self._hoist(operand, where if operand.shape else _SCALAR, at)
            case View():
                self._hoist(node.source, where.through(node), at)
            case Load() if node.other is not None:
                self._hoist(node.other, where, at)

    def _key(self, node: Node, where: _Location, at: _Vector) -> tuple[object, ...]:
        around = [c for dim, c in enumerate(where.coordinates) if dim != where.row and dim not in where.inner]
        return (id(node), where.row, where.inner, id(at), *around)

    def _at(self, node: Node, here: _Location, at: _Vector) -> V:
        """Returns the node's value in the lanes of a vector, a scalar where it varies along neither rows nor columns."""
        if not self._varies(node, here):
            return self.ev.at(node, here.coordinates)
        key = self._key(node, here, at)
        for table in (self._outside, at.values):
            if key in table:
                return table[key]
        before = self.f.location
        self.f.location = self.ev.lines.of(node, before)
        value = self._computed(node, here, at)
        self.f.location = before
        at.values[key] = value
        return value

    def _computed(self, node: Node, here: _Location, at: _Vector) -> V:
        kept = self.ev.replacement.get(id(node))
        node = node if kept is None else kept[1]
        match node:
            case Map():
                inside = [here if operand.shape else _SCALAR for operand in node.operands]
                operands = [self._at(operand, where, at) for operand, where in zip(node.operands, inside, strict=True)]
                return emitted(self.f, node, operands)
            case View():
                return self._at(node.source, here.through(node), at)
            case Affine():
                return self._affine(node, here, at)
            case Load():
                return self._load(node, here, at)
            case Stored():
                first = self.s.constant(0)
                for stride, coordinate in zip(node.strides, self._first(here), strict=True):
                    if stride and coordinate is not None:
                        position = self.s.add(coordinate.at, self.s.constant(coordinate.offset))
                        first = self.s.add(first, self.s.mul(self.s.constant(stride), position))
                raw = self._picked(self.f.gep(node.pointer, first, node.memory), node.memory, self._reads[id(node)], at)
                return from_memory(self.f, raw, "i1") if node.elem == "i1" else raw
        raise InternalError(f"host lowering: cannot evaluate {type(node).__name__} of {node.elem} in short rows")

    def _affine(self, node: Affine, here: _Location, at: _Vector) -> V:
        narrow = register_element(node.elem)
        wide = Affine(node.shape, "i64", node.base, node.coefficients)
        value = self.s.truncated(self.ev.at(wide, self._first(here)), narrow)
        along = [[self._positions[column][number] for column in at.columns] for number in range(len(here.inner))]
        for dim, factors in zip((here.row, *here.inner), (at.rows, *along), strict=True):
            step = None if dim is None else node.coefficients[dim]
            if step is None:
                continue
            if is_constant(step):
                added = int_vector([wrapped(step.number * factor, narrow) for factor in factors], narrow)
            else:
                step = self.f.splat(self.s.truncated(step, narrow), self.lanes)
                added = self.f.binary("mul", step, int_vector(list(factors), narrow))
            value = self.f.binary("add", self.f.splat(value, self.lanes), added)
        return value

    def _load(self, node: Load, here: _Location, at: _Vector) -> V:
        read, el = self._reads[id(node)], memory_element(node.pointers.pointee)
        first = self.ev.row_pointer(node.pointers, self._first(here), None)
        value = from_memory(self.f, self._picked(first, el, read, at), node.elem)
        on = [int(read.is_on[column]) for column in at.columns]
        if all(on):
            return value
        other = zero(value.type) if node.other is None else self.f.splat(self._at(node.other, here, at), self.lanes)
        return self.f.select(int_vector(on, "i1"), value, other)

    def _picked(self, first: V, el: str, read: _Read, at: _Vector) -> V:
        """Returns the elements of the lanes of a vector, anything in the others, by loads of all between them.

        Rows that are not there are not read: what is loaded lies between elements of those that are.
        """
        n, offsets = self.lanes, self._offsets(read, at)
        taken = [offset for offset in offsets if offset is not None]
        if not taken:
            return zero(vector(el, n))
        start = min(taken)
        count = max(taken) - start + 1
        pointer = self.f.gep(first, start, el)
        left: V | None = None
        if self._left is not None and read.row:
            rows = self.s.sub(self._left, self.s.constant(1))
            left = self.s.add(self.s.mul(rows, self.s.constant(read.row)), self.s.constant(read.last - start + 1))
        wide = [self._part(pointer, el, part, min(n, count - part), left) for part in range(0, count, n)]
        lanes = [None if offset is None else offset - start for offset in offsets]
        if lanes == list(range(n)):
            return wide[0]
        return self._shuffled(wide, lanes, el)

    def _part(self, pointer: V, el: str, first: int, count: int, left: V | None) -> V:
        """Returns `count` elements from one on, and zeros, but for those that lie beyond `left`."""
        n, size = self.lanes, memory_size_of(el)
        pointer = self.f.gep(pointer, first, el)
        if left is None and count == n:
            return self.f.load(vector(el, n), pointer, size)
        mask = int_vector([int(lane < count) for lane in range(n)], "i1")
        if left is not None:
            mask = self.ev.lane_mask(self.s.constant(first), self.s.min(left, self.s.constant(first + count)), n)
        if only_first_lane(mask):
            return load_first(self.f, pointer, vector(el, n), size)
        if isinstance(mask, ConstantLanes) and not any(mask.numbers):
            return zero(vector(el, n))
        return self.f.masked_load(vector(el, n), pointer, mask, zero(vector(el, n)), size)

    def _shuffled(self, parts: Sequence[V], lanes: Sequence[int | None], el: str) -> V:
        """Returns lanes of vectors that lie one after the other; None: any value is right."""
        n = self.lanes
        found: V | None = None
        for pair in range(0, len(parts), 2):
            low, high = parts[pair], parts[min(pair + 1, len(parts) - 1)]
            inside = [-1 if lane is None or not pair * n <= lane < (pair + 2) * n else lane - pair * n for lane in lanes]
            taken = self.f.shuffle(low, high, inside)
            if found is None:
                found = taken
            else:
                found = self.f.shuffle(found, taken, [n + i if lane >= 0 else i for i, lane in enumerate(inside)])
        assert found is not None
        if memory_size_of(el) * n < self.ev.target.vector_bytes or memory_size_of(el) > 1:
            return found
        return self.f.hidden(found)  # LLVM 22 does not end for sums of 64 bytes that a shuffle repeats
