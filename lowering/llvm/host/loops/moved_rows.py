"""Copies rows of a few bytes with their elements in another order: pixels whose colors are reversed, or some left out.

    from   r g b r g b r g b r g b r g b r │ g …
    to     b g r b g r b g r b g r b g r _ │ b …

A load of 16 bytes has five such pixels, a shuffle puts them in order, and a store writes them and a byte more. What it writes
beyond its rows is overwritten by the next one, and what a load reads beyond them is part of later rows: so the last rows of a
block are copied element by element.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from .....promotion.dataclass import dataclass
from ...elementwise import memory_element, memory_size
from ...values import V, const, int_vector, integer, is_integer, vector
from ..evaluate import Evaluator
from ..nodes import Load, Map, Node, Pointers, Splat
from ..scalars import is_constant
from .coordinates import Bound, Coordinate, Coordinates, decompose_mask, memory_size_of, stride_of
from .short_rows import NotReadError, by_column

PIECE = 16
"""Bytes of which one instruction moves each anywhere."""
LONGEST = 16
"""Most bytes of a row."""
UNROLL = 4
"""Pieces of an iteration."""
Outer = Callable[[ExitStack, tuple[int, ...], Sequence[int], Sequence[Bound], Sequence[Node]], list[Coordinate | None]]
"""Opens loops over all dimensions of a shape but some, within bounds, with the nodes that are evaluated in them."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of a block that follow one another, and what they are copied from.

    along: their dimension; inner: those of their elements; columns: where in the source each element lies, counted from the
    first one of the row, in elements, None for constants; values: of these, 0 for others; step: the elements from row to row in
    the source; size: the bytes of an element.
    """

    along: int
    inner: tuple[int, ...]
    columns: tuple[int | None, ...]
    values: tuple[int, ...]
    step: int
    size: int

    @property
    def first(self) -> int:
        return min(column for column in self.columns if column is not None)

    @property
    def reach(self) -> int:
        """The elements of a row of the source from the first to the last one that is read."""
        return max(column for column in self.columns if column is not None) - self.first + 1

    @property
    def together(self) -> int:
        """How many rows a piece has of source and result."""
        return min(PIECE // (len(self.columns) * self.size), 1 + (PIECE // self.size - self.reach) // self.step)

    @property
    def behind(self) -> int:
        """How many rows must follow those of a piece: so many, or parts of them, are read or written with it."""
        read = PIECE - ((self.together - 1) * self.step + self.reach) * self.size
        written = PIECE - self.together * len(self.columns) * self.size
        return max(-(-read // (self.step * self.size)), -(-written // (len(self.columns) * self.size)))

    @property
    def lanes(self) -> list[int]:
        """Which byte of a piece of the source, or of `constants` behind it, each byte of the result is; -1 for any."""
        found: list[int] = []
        for row in range(self.together):
            for column in self.columns:
                start = PIECE + len(found) if column is None else (row * self.step + column - self.first) * self.size
                found += range(start, start + self.size)
        return found + [-1] * (PIECE - len(found))

    @property
    def constants(self) -> V:
        """The bytes of the constants, where they are in a piece of the result."""
        bits = (1 << 8 * self.size) - 1
        row = b"".join((value & bits).to_bytes(self.size, "little") for value in self.values)
        return int_vector((row * self.together).ljust(PIECE, b"\0"), "i8")


def move_rows(ev: Evaluator, outer: Outer, pointers: Pointers, value: Node, bounds: Sequence[Bound]) -> bool:
    """Emits the store of a block of short rows that are loaded from such rows; returns False, and emits nothing, for others."""
    if not (ev.target.is_x86 and ev.target.has_short_vectors and ev.target.has("avx2")) or pointers.rest is not None:
        return False
    found = _rows(ev, pointers, value, bounds) if memory_size_of(pointers.unit) <= memory_size(pointers.pointee) else None
    if found is None:
        return False
    rows, source = found
    anchors = [Load(each.shape, each.pointee, each, None, None) for each in (source, pointers)]  # hoist the row pointers
    with ExitStack() as stack:
        coordinates = outer(stack, pointers.shape, (rows.along, *rows.inner), bounds, anchors)
        _copy(ev, rows, coordinates, pointers, source, bounds)
    return True


def _rows(ev: Evaluator, target: Pointers, value: Node, bounds: Sequence[Bound]) -> tuple[_Rows, Pointers] | None:
    """Returns how a block is copied, and the addresses of what its columns are counted from."""
    size, shape = memory_size(target.pointee), target.shape
    long = [d for d, extent in enumerate(shape) if extent > 1]
    inner: list[int] = []
    sizes: list[int] = []
    while len(long) > 1:
        dim = long.pop()
        limits = [bound.limit for bound in bounds if bound.dim == dim]
        if not all(is_constant(limit) for limit in limits) or stride_of(target, dim) != math.prod(sizes):
            return None
        inner.insert(0, dim)
        sizes.insert(0, min([shape[dim], *[limit.number for limit in limits if is_constant(limit)]]))
        count = math.prod(sizes)
        if count * size > LONGEST:
            return None
        if count < 2 or stride_of(target, long[-1]) != count:
            continue
        positions = [tuple([n // math.prod(sizes[i + 1 :]) % sizes[i] for i in range(len(sizes))]) for n in range(count)]
        read = _Columns(ev, (long[-1], *inner), positions, bounds)
        try:
            read.add(value, range(count))
        except NotReadError:
            return None
        columns = tuple([read.found.get(number) for number in range(count)])
        if read.source is None or read.source.pointee != target.pointee or read.source.base == target.base:
            return None  # in place, what a piece writes beyond its rows would be read by the next one
        values = tuple([read.constants.get(number, 0) for number in range(count)])
        found = _Rows(long[-1], tuple(inner), columns, values, read.step, size)
        is_plain = columns == tuple(range(count)) and read.step == count
        fits = found.reach * size <= PIECE and read.step * size <= PIECE
        return (found, read.source) if fits and not is_plain else None
    return None


class _Columns:
    """Where the columns of rows are loaded from, all by the same address. dims: of the rows, and of their elements."""

    def __init__(
        self, ev: Evaluator, dims: tuple[int, ...], positions: Sequence[tuple[int, ...]], bounds: Sequence[Bound]
    ) -> None:
        self.ev, self.dims, self.positions = ev, dims, positions
        self.known = {(bound.dim, bound.limit.operand()) for bound in bounds}
        self.source: Pointers | None = None
        self.step = 0
        self.found: dict[int, int] = {}
        self.constants: dict[int, int] = {}

    def add(self, value: Node, wanted: Sequence[int]) -> None:
        """Finds the columns that are wanted of a value: a load, a constant, or choices that depend on the column alone.

        Raises `NotReadError` for other values.
        """
        if id(value) in self.ev.replacement:
            raise NotReadError
        if isinstance(value, Map) and value.op == "arith.select":
            chosen = by_column(value.operands[0], self.dims[1:], self.positions)
            for operand, is_first in zip(value.operands[1:], (True, False), strict=True):
                if some := [number for number in wanted if bool(chosen[number]) == is_first]:
                    self.add(operand, some)
        elif isinstance(value, Load):
            self._add_load(value, wanted)
        elif isinstance(value, Splat) and is_constant(value.value) and value.elem[0] == "i" and value.elem != "i1":
            self.constants.update(dict.fromkeys(wanted, integer(value.value)))
        else:
            raise NotReadError

    def _add_load(self, load: Load, wanted: Sequence[int]) -> None:
        inside, rest = decompose_mask(load.mask)
        for bound in inside:
            within = bound.dim in self.dims[1:] and is_constant(bound.limit)
            if (bound.dim, bound.limit.operand()) in self.known:
                continue
            at = self.dims.index(bound.dim) - 1 if within else 0
            if not within or any(self.positions[number][at] >= integer(bound.limit) for number in wanted):
                raise NotReadError
        for part in rest:
            on = by_column(part, self.dims[1:], self.positions)
            if not all(on[number] for number in wanted):
                raise NotReadError
        pointers = load.pointers
        step, *others = [_step(pointers, dim) for dim in self.dims]
        first = self.source or pointers
        (start, begins), (other, at) = (self.ev.s.parts(each.offset.base) for each in (first, pointers))
        if (start, first.base) != (other, pointers.base) or pointers.rest is not None or step is None or step < 1:
            raise NotReadError
        others_known = [each for each in others if each is not None]
        beside = [d for d in range(len(pointers.shape)) if d not in self.dims]
        if len(others_known) < len(others) or memory_size_of(pointers.unit) > memory_size(pointers.pointee):
            raise NotReadError
        if self.source is not None and (step != self.step or any(_step(first, d) != _step(pointers, d) for d in beside)):
            raise NotReadError
        if first.pointee != pointers.pointee or first.unit != pointers.unit or any(_step(pointers, d) is None for d in beside):
            raise NotReadError
        moved, left = divmod((at - begins) * memory_size_of(pointers.unit), memory_size(pointers.pointee))
        if left:
            raise NotReadError
        self.source, self.step = first, step
        for number in wanted:
            self.found[number] = moved + sum(map(operator.mul, others_known, self.positions[number]))


def _step(pointers: Pointers, dim: int) -> int | None:
    """Returns the elements between neighbours along a dimension; None where that is not known."""
    coefficient = pointers.offset.coefficients[dim]
    if coefficient is None or (is_constant(coefficient) and is_integer(coefficient, 0)):
        return 0
    return stride_of(pointers, dim) or None


def _copy(ev: Evaluator, rows: _Rows, coordinates: Sequence[Coordinate | None], target: Pointers, source: Pointers,
          bounds: Sequence[Bound]) -> None:  # fmt: skip
    """Emits the loops over the rows. coordinates: those of the loops around them."""
    f, s, elem = ev.f, ev.s, memory_element(target.pointee)
    count, implied = ev.extent(target.shape[rows.along], bounds, rows.along)
    loop, constants = ev.open_loop(implied), rows.constants

    def at(row: V) -> Coordinates:
        here = list(coordinates)
        here[rows.along] = Coordinate(row, 0, 1, loop)
        for dim in rows.inner:
            here[dim] = Coordinate(s.constant(0))
        return tuple(here)

    def pieces(low: V, many: int) -> V:
        """Emits a loop over so many pieces at a time, from a row on; returns the row behind it."""
        step = many * rows.together
        left = s.max(s.sub(s.sub(count, s.constant(rows.behind)), low), s.constant(0))
        high = s.add(low, s.mul(s.floor_div(left, step), s.constant(step)))
        with f.loop(low, high, step) as state, ev.scope():
            here = at(state.index)
            begin, end = (ev.row_pointer(pointers, here, None) for pointers in (source, target))
            for number in range(many):
                first = number * rows.together
                piece = f.load(vector("i8", PIECE), f.gep(begin, first * rows.step + rows.first, elem))
                moved = f.shuffle(piece, constants, rows.lanes)
                f.store(moved, f.gep(end, first * len(rows.columns), elem))
        return high

    behind = pieces(pieces(s.constant(0), UNROLL), 1)
    with f.loop(behind, count) as state, ev.scope():
        here = at(state.index)
        begin, end = (ev.row_pointer(pointers, here, None) for pointers in (source, target))
        whole = f"i{8 * rows.size}"
        for number, (column, value) in enumerate(zip(rows.columns, rows.values, strict=True)):
            data = const(value, whole) if column is None else f.load(whole, f.gep(begin, column, elem))
            f.store(data, f.gep(end, number, elem))
