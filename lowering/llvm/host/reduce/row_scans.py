"""Scans along rows, a lane for each row: squares of several rows are transposed in registers, scanned, and transposed back.

A scan of one row waits at every element for the one before it. Here as many rows as a register has lanes go on at once, each in
the order of its elements, so that results have the bits of a scan of the row alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from ...elementwise import constant, identity, register_element
from ...ir import Function
from ...values import V, lanes
from ..loops.coordinates import Bound, Coordinate, Coordinates, decompose_mask, memory_size_of
from ..loops.loop_nests import LoopNests
from ..loops.vector_loop import vector_loop
from ..nodes import Load, Map, Node, Splat, Stored
from ..scalars import is_constant
from .combine import Combine

_LANE = 16
"""Bytes of the pieces of a register that instructions shuffle in."""


def scan_rows(
    nests: LoopNests, operands: Sequence[Node], axis: int, combine: Combine, reverse: bool, wanted: Sequence[Bound]
) -> Stored | None:
    """Emits an inclusive scan along the last dimension into scratch, several rows at a time; None where this does not apply.

    The result is never read beyond the `wanted` bounds.
    """
    ev, shape = nests.ev, operands[0].shape
    elem = operands[0].elem
    rows = next((d for d in range(len(shape) - 1, -1, -1) if d != axis and shape[d] > 1), None)
    neutral = None if combine.kind is None or len(operands) != 1 else identity(combine.kind, elem)
    if neutral is None or rows is None or axis != len(shape) - 1 or elem in ("ptr", "i1"):
        return None
    size, n, extent = memory_size_of(register_element(elem)), ev.lanes_for(elem), shape[axis]
    lines = min(n, shape[rows])
    fewest = n if elem[0] == "i" else max(2, n // 4)  # vectors of integers are scanned by themselves as fast
    if size < 4 or n * size < _LANE or extent < 2 or extent & (extent - 1) or lines < fewest:
        return None
    nests.materialize_operands(operands)
    operand, limit = operands[0], _limit(operands[0], axis, wanted)
    if not isinstance(_inside(operand), (Load, Stored)) and id(operand) not in ev.replacement:
        within = [bound for bound in wanted if bound.dim != axis or not reverse]
        operand = nests.materialize(operand, None, within)
    # powers of two leave no ends of vectors, for which rows are padded
    memory = ev.scratch(shape, elem, pad=min(extent, ev.target.vector_bytes))
    first = constant(neutral, elem)
    _Rows(nests, operand, memory, axis, rows, min(n, extent), n, combine, reverse, first).emit(wanted, limit)
    return memory


def _inside(node: Node) -> Node:
    """Returns what a selection by a mask of bounds takes within the mask."""
    if isinstance(node, Map) and node.op == "arith.select" and not decompose_mask(node.operands[0])[1]:
        return node.operands[1]
    return node


def _limit(node: Node, axis: int, wanted: Sequence[Bound]) -> V | None:
    """Returns a limit along the axis beyond which a block is one value that nobody reads in the result."""
    if not isinstance(node, Map) or node.op != "arith.select" or not isinstance(node.operands[2], Splat):
        return None
    read = {(bound.dim, bound.limit.operand()) for bound in wanted}
    bounds = decompose_mask(node.operands[0])[0]
    return next((b.limit for b in bounds if b.dim == axis and (axis, b.limit.operand()) in read), None)


class _Rows:
    """The nest of one scan. width: elements of a row in a square; lanes: of a register, one for each row."""

    def __init__(self, nests: LoopNests, operand: Node, memory: Stored, axis: int, rows: int, width: int, lanes: int,
                 combine: Combine, reverse: bool, neutral: V) -> None:  # fmt: skip
        self.nests, self.ev, self.f = nests, nests.ev, nests.ev.f
        self.operand, self.memory, self.axis, self.rows = operand, memory, axis, rows
        self.width, self.lanes, self.combine, self.reverse, self.neutral = width, lanes, combine, reverse, neutral

    def emit(self, wanted: Sequence[Bound], limit: V | None) -> None:
        ev, f, s, shape = self.ev, self.f, self.ev.s, self.operand.shape
        bounds = [] if self.reverse else [bound for bound in wanted if bound.dim == self.axis]
        with ExitStack() as stack:
            others = self.nests.outer(stack, shape, (self.rows, self.axis), wanted, [self.operand])
            count, implied = ev.extent(shape[self.rows], wanted, self.rows)
            lines = min(self.lanes, shape[self.rows])
            if is_constant(count):
                lines = min(lines, count.number)
            loop = ev.open_loop(implied)

            def at(row: Coordinate, column: Coordinate) -> Coordinates:
                return tuple([row if d == self.rows else column if d == self.axis else c for d, c in enumerate(others)])

            def group(start: V) -> None:
                rows = [Coordinate(start, min(row, lines - 1), 1, loop) for row in range(self.lanes)]
                self._group(lambda row, column: at(rows[row], column), lines, bounds, limit)

            if is_constant(count):
                if count.number > 0:
                    with f.loop(0, count, lines, at_least_once=True) as state, ev.scope():
                        last = s.constant(count.number - lines)
                        group(state.index if count.number % lines == 0 else s.min(state.index, last))
                return
            enough = f.icmp("sge", count, s.constant(lines))
            with f.when(enough), ev.scope(), f.loop(0, count, lines, at_least_once=True) as state, ev.scope():
                group(s.min(state.index, s.sub(count, s.constant(lines))))  # the last rows are scanned twice
            with f.loop(0, f.select(enough, s.constant(0), count)) as state, ev.scope():
                row = Coordinate(state.index, 0, 1, loop)
                self._single(lambda column: at(row, column))

    def _group(
        self, at: Callable[[int, Coordinate], Coordinates], lines: int, bounds: Sequence[Bound], limit: V | None
    ) -> None:
        """Emits the scan of a group of rows; at: the coordinates of a row's elements."""
        ev, f, s = self.ev, self.f, self.ev.s
        extent, width = self.operand.shape[self.axis], self.width
        square = _Square(f, width, self.lanes, _LANE // memory_size_of(self.memory.memory))

        def scan(column: Coordinate, mask: V | None, carry: list[V]) -> list[V]:
            pieces = [f.splat(ev.at(self.operand, at(row, column), mask), width) for row in range(self.lanes)]
            columns = square.columns(pieces)
            for number in reversed(range(width)) if self.reverse else range(width):
                carry = self.combine.emit(ev, carry, [columns[number]])
                columns[number] = carry[0]
            for row, piece in enumerate(square.rows(columns)):
                if row < lines:
                    ev.write_scratch(self.memory, at(row, column), piece)
            return carry

        start = [f.splat(self.neutral, self.lanes)]
        if not self.reverse:
            vector_loop(ev, extent, bounds, self.axis, width, 1, scan, start)
            return
        end = s.constant(extent) if limit is None else s.round_down(s.add(limit, s.constant(width - 1)), width)
        end = s.min(end, s.constant(extent))
        loop = ev.open_loop(set())
        with f.loop(0, end, width, start) as state, ev.scope():
            column = Coordinate(s.sub(s.sub(end, s.constant(width)), state.index), 0, width, loop)
            state.next = scan(column, None, list(state.values))

    def _single(self, at: Callable[[Coordinate], Coordinates]) -> None:
        """Emits the scan of one row, element by element."""
        ev, f, s = self.ev, self.f, self.ev.s
        last = s.constant(self.operand.shape[self.axis] - 1)
        with f.loop(0, self.operand.shape[self.axis], 1, [self.neutral]) as state, ev.scope():
            here = at(Coordinate(s.sub(last, state.index) if self.reverse else state.index))
            state.next = self.combine.emit(ev, list(state.values), [ev.at(self.operand, here)])
            ev.write_scratch(self.memory, here, state.next[0])


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
        registers = [_joined(self.f, rows[start : start + count]) for start in range(0, self.lanes, count)]
        for bit in range(self.bits):
            registers = self._rotated(registers, bit)
        return registers

    def rows(self, columns: Sequence[V]) -> list[V]:
        """Returns the rows of such columns, in their order."""
        registers = list(columns)
        for bit in range(self.bits):
            lowest, above = self._range(bit)
            registers = self._rotated(registers, bit) if above <= self.bits else self._swapped(registers, bit)
        places = {}
        for number, register in enumerate(registers):
            for start in range(0, self.lanes, self.width):
                places[self._row(number, start)] = self.f.shuffle(register, register, range(start, start + self.width))
        return [places[row] for row in range(self.lanes)]

    def _row(self, number: int, position: int) -> int:
        """Returns which row stands in a register from a position on."""
        held = [(label, number >> bit & 1) for bit, label in enumerate(self.number)]
        held += [(label, position >> bit & 1) for bit, label in enumerate(self.position)]
        return sum(value << label for label, value in held if label >= 0)

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


def _joined(f: Function, parts: Sequence[V]) -> V:
    """Returns vectors, a power of two of them, one after the other in one."""
    current = list(parts)
    while len(current) > 1:
        both = range(2 * lanes(current[0].type))
        current = [f.shuffle(a, b, both) for a, b in zip(current[::2], current[1::2], strict=True)]
    return current[0]
