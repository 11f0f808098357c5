"""Scans along rows, a lane for each row: squares of several rows are transposed in registers, scanned, and transposed back.

A scan of one row waits at every element for the one before it. Here as many rows as a register has lanes go on at once, each in
the order of its elements, so that results have the bits of a scan of the row alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from .....promotion.dataclass import dataclass
from ....target import CACHE_LINE
from ...elementwise import constant, identity, memory_size, register_element, to_memory
from ...ir import Function
from ...masks.accesses import store_lanes
from ...values import V
from ..loops.coordinates import (
    ORIGIN,
    Bound,
    Coordinate,
    Coordinates,
    decompose_mask,
    memory_size_of,
    stride_of,
)
from ..loops.loop_nests import LoopNests
from ..loops.vector_loop import vector_loop
from ..nodes import Load, Map, Node, Pointers, Splat, Stored, View, cost
from ..scalars import is_constant
from .combine import Combine

_PIECE = 16
"""Bytes of the pieces of a register that instructions shuffle in."""
_CHEAP = 4
"""The most instructions of an operand that is computed where it is scanned, in code for each row of a group."""
_LONG, _SAME_SETS = 4, 1024
"""Squares of rows whose next group is fetched ahead; the multiple of bytes that they must not be apart."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What the scan of each row starts from, a block that does not vary along the row, and scratch for what it ends with."""

    start: Node | None = None
    ends: Stored | None = None


_Write = Callable[[Coordinates, V, V | None], None]
"""Stores a piece of a row at its coordinates; the mask says what of it is within the bounds."""


class RowScan:
    """An inclusive scan along the last dimension, several rows at a time.

    rows: the dimension of which a group of rows is taken; width: elements of a row in a square; lanes: of a register.
    """

    def __init__(
        self, nests: LoopNests, operand: Node, axis: int, rows: int, combine: Combine, reverse: bool, neutral: V
    ) -> None:
        self.nests, self.ev, self.f = nests, nests.ev, nests.ev.f
        self.operand, self.axis, self.rows = operand, axis, rows
        self.combine, self.reverse, self.neutral = combine, reverse, neutral
        self.shape, self.elem = operand.shape, operand.elem
        self.carried = Carried()
        self.lanes = self.ev.lanes_for(self.elem)
        self.width = min(self.lanes, self.shape[axis])

    @staticmethod
    def of(nests: LoopNests, operands: Sequence[Node], axis: int, combine: Combine, reverse: bool) -> RowScan | None:
        """Returns the scan of blocks by a region; None where rows are not scanned in groups."""
        operand, extent = operands[0], operands[0].shape[axis]
        shape, elem = operand.shape, operand.elem
        rows = next((d for d in range(len(shape) - 1, -1, -1) if d != axis and shape[d] > 1), None)
        neutral = None if combine.kind is None or len(operands) != 1 else identity(combine.kind, elem)
        if neutral is None or rows is None or axis != len(shape) - 1 or elem in ("ptr", "i1"):
            return None
        size, lanes = memory_size_of(register_element(elem)), nests.ev.lanes_for(elem)
        fewest = lanes if elem[0] == "i" else max(2, lanes // 4)  # vectors of integers are scanned by themselves as fast
        if size < 4 or lanes * size < _PIECE or extent < 2 or extent & (extent - 1) or min(lanes, shape[rows]) < fewest:
            return None
        return RowScan(nests, operand, axis, rows, combine, reverse, constant(neutral, elem))

    def into_scratch(self, wanted: Sequence[Bound]) -> Stored:
        """Emits the scan into scratch, which is never read beyond the `wanted` bounds."""
        # powers of two leave no ends of vectors, for which rows are padded
        memory = self.ev.scratch(self.shape, self.elem, pad=min(self.shape[-1], self.ev.target.vector_bytes))
        if self.carried.ends is not None:
            wanted = [bound for bound in wanted if bound.dim != self.axis]
        self._emit(wanted, lambda here, piece, mask: self.ev.write_scratch(memory, here, piece))
        return memory

    def store(self, pointers: Pointers, mask: Node | None, streaming: bool) -> bool:
        """Emits the scan into the memory that a store writes; returns False, and emits nothing, where that does not apply.

        Some rows may be scanned and written twice: nothing that is written may be read.
        """
        ev, f, size = self.ev, self.f, memory_size(pointers.pointee)
        bounds, rest = decompose_mask(mask)
        affine = pointers.rest is None and all(ev.is_affine(pointers, d) for d in range(len(self.shape)))
        if rest or not affine or stride_of(pointers, self.axis) != 1 or pointers.pointee != self.elem:
            return False
        neutral = {bound.limit.operand() for bound in self._bounds() if bound.dim == self.axis}
        cut = {bound.limit.operand() for bound in bounds if bound.dim == self.axis}
        if self.carried.ends is not None and not cut <= neutral:  # elements beyond the store count
            return False

        def write(here: Coordinates, piece: V, mask: V | None) -> None:
            data, pointer = to_memory(f, piece, pointers.pointee), ev.pointer_at(pointers, here, self.axis)
            if mask is not None:
                store_lanes(f, data, pointer, mask, size)
                return
            known = ev.s.multiple(ev.row_pointer(pointers, here, self.axis))
            past = streaming and self.width * size == CACHE_LINE and known % CACHE_LINE == 0
            f.store(data, pointer, CACHE_LINE if past else size, nontemporal=past)

        self._emit(bounds, write, [Load(self.shape, pointers.pointee, pointers, None, None)])
        return True

    def _emit(self, bounds: Sequence[Bound], write: _Write, target: Sequence[Node] = ()) -> None:
        """Emits the nest within the bounds. target: has the addresses of rows that `write` uses."""
        ev, f, s = self.ev, self.f, self.ev.s
        inside, masked = self._inside()
        beyond = self._bounds()
        visited = {(bound.dim, bound.limit.operand()) for bound in bounds}
        if not self.reverse and {(bound.dim, bound.limit.operand()) for bound in masked} <= visited:
            self.operand = inside
        self.nests.materialize_operands([self.operand])
        start = self.carried.start
        if start is not None and not isinstance(source := start.source if isinstance(start, View) else start, (Splat, Stored)):
            ev.replacement[id(source)] = (source, self.nests.materialize(source), ())
        if cost(inside) > _CHEAP and id(self.operand) not in ev.replacement:
            within = [bound for bound in bounds if bound.dim != self.axis or not self.reverse]
            memory = ev.scratch(self.shape, self.elem, pad=min(self.shape[-1], ev.target.vector_bytes))
            self.operand = self.nests.materialize(self.operand, memory, within)
        with ExitStack() as stack:
            others = self.nests.outer(stack, self.shape, (self.rows, self.axis), bounds, [self.operand])
            count, implied = ev.extent(self.shape[self.rows], bounds, self.rows)
            lines = min(self.lanes, self.shape[self.rows])
            if is_constant(count):
                lines = min(lines, count.number)
            loop = ev.open_loop(implied)

            def at(row: Coordinate, column: Coordinate | None) -> Coordinates:
                return tuple([row if d == self.rows else column if d == self.axis else c for d, c in enumerate(others)])

            def group(first: V) -> None:
                rows = [Coordinate(first, min(row, lines - 1), 1, loop) for row in range(self.lanes)]
                for row in rows:
                    ev.hoist([self.operand, *target], at(row, None))
                every = at(Coordinate(first, 0, self.lanes, loop), ORIGIN)
                self._group(lambda row, column: at(rows[row], column), every, lines, bounds, beyond, write)

            if is_constant(count):
                if lines > 0:
                    with f.loop(0, count, lines, at_least_once=True) as state, ev.scope():
                        last = s.constant(count.number - lines)  # the last rows may be scanned twice
                        group(state.index if count.number % lines == 0 else s.min(state.index, last))
                return
            enough = f.icmp("sge", count, s.constant(lines))
            with f.when(enough), ev.scope(), f.loop(0, count, lines, at_least_once=True) as state, ev.scope():
                group(s.min(state.index, s.sub(count, s.constant(lines))))
            with f.loop(0, f.select(enough, s.constant(0), count)) as state, ev.scope():
                row = Coordinate(state.index, 0, 1, loop)
                self._single(lambda column: at(row, column), bounds, write)

    def _group(
        self, at: Callable[[int, Coordinate], Coordinates], every: Coordinates, lines: int, bounds: Sequence[Bound],
        beyond: Sequence[Bound], write: _Write,
    ) -> None:  # fmt: skip
        """Emits the scan of a group of rows; at: coordinates of elements of a row; beyond: bounds of what is not neutral."""
        ev, f, s, width = self.ev, self.f, self.ev.s, self.width
        extent, _ = ev.extent(self.shape[self.axis], bounds, self.axis)
        square = _Square(f, width, self.lanes, _PIECE // memory_size_of(register_element(self.elem)))

        def scan(column: Coordinate, mask: V | None, written: V | None, carry: list[V]) -> list[V]:
            pieces = [f.splat(ev.at(self.operand, at(row, column), mask), width) for row in range(self.lanes)]
            if mask is None and distance is not None:
                self._prefetch([at(row, column) for row in range(lines)], distance)
            columns = square.columns(pieces)
            for number in reversed(range(width)) if self.reverse else range(width):
                carry = self.combine.emit(ev, carry, [columns[number]])
                columns[number] = carry[0]
            for row, piece in enumerate(square.rows(columns)[:lines]):
                write(at(row, column), piece, written)
            return carry

        distance = self._distance(lines)
        start = [f.splat(self._start(every), self.lanes)]
        if not self.reverse:
            ends = vector_loop(ev, self.shape[self.axis], bounds, self.axis, width, 1,
                               lambda column, mask, carry: scan(column, mask, mask, carry), start)  # fmt: skip
            self._end(every, ends[0][0])
            return
        read = {bound.limit.operand() for bound in bounds if bound.dim == self.axis}
        limit = next((b.limit for b in beyond if b.dim == self.axis and b.limit.operand() in read), None)
        end = s.constant(self.shape[self.axis])
        if limit is not None:
            end = s.min(end, s.round_down(s.add(limit, s.constant(width - 1)), width))
        whole = is_constant(extent) and extent.number == self.shape[self.axis]
        loop = ev.open_loop(set())
        with f.loop(0, end, width, start) as state, ev.scope():
            column = Coordinate(s.sub(s.sub(end, s.constant(width)), state.index), 0, width, loop)
            state.next = scan(column, None, None if whole else ev.lane_mask(column.at, extent, width), list(state.values))
        self._end(every, state.results[0])

    def _distance(self, lines: int) -> int | None:
        """Returns how many bytes after a row the same row of the next group lies; None where it is not worth fetching.

        Processors foresee whole lines one after the other, not the pieces of sixteen rows of any length. Rows that start at
        the same place of a page share few sets of a cache, and fetching would drive out what is being read.
        """
        node = self.operand
        if not isinstance(node, Load) or node.pointers.rest is not None:
            return None
        step = node.pointers.offset.coefficients[self.rows]
        bytes_ = step.number * memory_size_of(node.pointers.unit) if step is not None and is_constant(step) else 0
        return lines * bytes_ if bytes_ % _SAME_SETS and self.shape[self.axis] >= _LONG * self.width else None

    def _prefetch(self, rows: Sequence[Coordinates], distance: int) -> None:
        for here in rows:
            if isinstance(self.operand, Load):
                pointer = self.ev.pointer_at(self.operand.pointers, here, self.axis)
                self.f.prefetch(self.f.gep(pointer, distance), locality=2)

    def _start(self, here: Coordinates) -> V:
        return self.neutral if self.carried.start is None else self.ev.at(self.carried.start, here)

    def _end(self, here: Coordinates, value: V) -> None:
        if self.carried.ends is not None:
            kept = tuple([coordinate for d, coordinate in enumerate(here) if d != self.axis])
            self.ev.write_scratch(self.carried.ends, kept, value)

    def _single(self, at: Callable[[Coordinate], Coordinates], bounds: Sequence[Bound], write: _Write) -> None:
        """Emits the scan of one row, element by element."""
        ev, f, s = self.ev, self.f, self.ev.s
        extent, implied = ev.extent(self.shape[self.axis], bounds, self.axis)
        end = s.constant(self.shape[self.axis]) if self.reverse else extent
        loop = ev.open_loop(set() if self.reverse else implied)
        with f.loop(0, end, 1, [self._start(at(ORIGIN))]) as state, ev.scope():
            position = s.sub(s.sub(end, s.constant(1)), state.index) if self.reverse else state.index
            here = at(Coordinate(position, 0, 1, loop))
            state.next = self.combine.emit(ev, list(state.values), [ev.at(self.operand, here)])
            if not self.reverse:
                write(here, state.next[0], None)
            else:
                with f.when(f.icmp("slt", position, extent)):
                    write(here, state.next[0], None)
        self._end(at(ORIGIN), state.results[0])

    def _inside(self) -> tuple[Node, Sequence[Bound]]:
        """Returns what the operand is within the bounds of its mask, and these bounds."""
        node = self.operand
        if isinstance(node, Map) and node.op == "arith.select":
            bounds, rest = decompose_mask(node.operands[0])
            if not rest:
                return node.operands[1], bounds
        return node, []

    def _bounds(self) -> Sequence[Bound]:
        """Returns bounds beyond which the operand is neutral."""
        node, bounds = self._inside()
        if node is self.operand or not isinstance(self.operand, Map):
            return []
        other = self.operand.operands[2]
        return bounds if isinstance(other, Splat) and other.value == self.neutral else []


class _Square:
    """Transposes `lanes` rows of `width` elements, as many registers as they have columns, and back.

    Every stage exchanges a bit of a register's number with a bit of an element's position in it. Labels say which bit of the
    row (from 0 on) or of the column (negative, from -1 on) stands where. Stages are shuffles of two registers that processors
    do by one instruction: they move the lowest bit of a position, within 16 bytes or of the number of 16 bytes, and those above
    it down by one.
    """

    def __init__(self, f: Function, width: int, lanes: int, piece: int) -> None:
        """piece: the elements of 16 bytes."""
        self.f, self.width, self.lanes = f, width, lanes
        self.bits, self.within = width.bit_length() - 1, piece.bit_length() - 1
        joined = lanes.bit_length() - 1 - self.bits
        self.position = [-1 - bit for bit in range(self.bits)] + list(range(joined))
        self.number = [joined + bit for bit in range(self.bits)]

    def columns(self, rows: Sequence[V]) -> list[V]:
        """Returns the columns of rows, with the rows in some order."""
        count = self.lanes // self.width
        registers = [self.f.concatenated(rows[start : start + count]) for start in range(0, self.lanes, count)]
        for bit in range(self.bits):
            registers = self._rotated(registers, bit)
        return registers

    def rows(self, columns: Sequence[V]) -> list[V]:
        """Returns the rows of such columns, in their order."""
        registers = list(columns)
        for bit in range(self.bits):
            is_whole = self._range(bit)[1] <= self.bits
            registers = self._rotated(registers, bit) if is_whole else self._swapped(registers, bit)
        pieces = {}
        for number, register in enumerate(registers):
            for start in range(0, self.lanes, self.width):
                pieces[self._row(number, start)] = self.f.shuffle(register, register, range(start, start + self.width))
        return [pieces[row] for row in range(self.lanes)]

    def _row(self, number: int, position: int) -> int:
        """Returns which row stands in a register from a position on."""
        labels = [(label, number >> bit & 1) for bit, label in enumerate(self.number)]
        labels += [(label, position >> bit & 1) for bit, label in enumerate(self.position)]
        return sum(value << label for label, value in labels if label >= 0)

    def _range(self, bit: int) -> tuple[int, int]:
        """Returns the bits of positions among which the next bit of a column is."""
        return (0, self.within) if bit < self.within else (self.within, len(self.position))

    def _rotated(self, registers: list[V], bit: int) -> list[V]:
        """Exchanges a bit of registers with the lowest bit of a range, which moves down."""
        lowest, above = self._range(bit)
        moved = self.position[lowest]
        self.position[lowest:above] = [*self.position[lowest + 1 : above], self.number[bit]]
        self.number[bit] = moved
        return self._stage(registers, bit, lowest, above)

    def _swapped(self, registers: list[V], bit: int) -> list[V]:
        """Exchanges a bit of registers with the same bit of positions."""
        self.position[bit], self.number[bit] = self.number[bit], self.position[bit]
        return self._stage(registers, bit, bit, bit + 1)

    def _stage(self, registers: list[V], bit: int, lowest: int, above: int) -> list[V]:
        inner, size = (1 << lowest) - 1, above - lowest
        masks = []
        for chosen in (0, 1):
            mask = []
            for position in range(self.lanes):
                moved = position >> lowest & (1 << size) - 1
                old = (moved << 1 & (1 << size) - 1) | chosen
                which = moved >> size - 1
                kept = position & inner | position >> above << above
                mask.append(which * self.lanes + (kept | old << lowest))
            masks.append(mask)
        following = list(registers)
        for number in range(len(registers)):
            if not number >> bit & 1:
                pair = registers[number], registers[number | 1 << bit]
                for which, mask in enumerate(masks):
                    following[number | which << bit] = self.f.shuffle(*pair, mask)
        return following
