"""Transforms one line, of which the lanes of registers hold parts: a matrix whose columns are transformed, turned, and again.

    line, n1 × n2 ─ columns, n1 long ─ times e^(± 2πi k j / n) ─ transposition ─ columns, n2 long ─► n2 × n1, in order

(Bailey, "FFTs in external or hierarchical memory", 1990). Rows of columns are in groups of as many as a register has lanes.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from .....promotion.arrays import Array
from .....promotion.dataclass import dataclass
from ...ir import Function
from ...module import Module
from ...values import V, const, i64, vector, zero
from ..loops.coordinates import memory_size_of
from ..memory.transpose import transpose_registers
from .butterflies import Lanes, Number
from .kinds import Transform, joined
from .passes import Pairs, Rows, Split, emit_passes, paired, parts, passes
from .waves import rounded, table, waves

_LANES = 16
"""Lanes of the registers that factors are chosen for. They are the same on all hosts, and so are the bits of results."""


@functools.lru_cache
def factors(length: int) -> tuple[int, int] | None:
    """Returns the rows and columns of the matrix that a line becomes; None for one that fills no registers."""
    found = [(rows, length // rows) for rows in range(8, length // 8 + 1) if length % rows == 0]

    def cost(rows: int, columns: int) -> float:
        groups = -(-columns // _LANES) * rows
        return groups * (2 * len(passes(rows)) + math.log2(rows))

    usable = [(rows, columns) for rows, columns in found if passes(rows) and passes(columns)]
    return min(usable, key=lambda pair: (cost(*pair) + cost(*pair[::-1]), pair), default=None)


@dataclass(frozen=True, slots=True, eq=False)
class _Turned:
    """Rows whose numbers are turned before they are stored, each by an angle of its own, of which a table has the waves."""

    rows: Split
    waves: Split
    sign: int

    @property
    def pitch(self) -> int:
        return self.rows.pitch

    def load(self, f: Function, first: V, beyond: int) -> Number:
        return self.rows.load(f, first, beyond)

    def store(self, f: Function, value: Number, first: V, beyond: int) -> None:
        cos, sin = self.waves.load(f, first, beyond)
        self.rows.store(f, Lanes(f, self.sign).turned(value, cos, sin), first, beyond)


@dataclass(frozen=True, slots=True)
class LineTransform:
    """The function that transforms a line whose parts of numbers are neighbours, in place. lanes: those of a register."""

    of: Transform
    elem: str
    lanes: int

    @property
    def name(self) -> str:
        return f"jn_fourier_line_{self.of.name}_{self.elem}_{self.lanes}"

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return [("ptr", "line"), ("ptr", "scratch")]

    @property
    def _matrix(self) -> tuple[int, int]:
        found = factors(self.of.length)
        assert found is not None
        return found

    @property
    def _width(self) -> int:
        """Bytes of a row of a group."""
        return 2 * self.lanes * memory_size_of(self.elem)

    def _groups(self, count: int) -> int:
        return -(-count // self.lanes)

    @property
    def _bytes(self) -> tuple[int, int, int, int]:
        """Bytes of a line beside the given one, of the matrix when rows are columns, of a group, and of two between passes."""
        rows, columns = self._matrix
        one = self.of.length * 2 * memory_size_of(self.elem) if self.of.is_real else 0
        matrix = self._groups(rows) * self._groups(columns) * self.lanes * self._width
        return one, matrix, self._groups(rows) * self.lanes * self._width, 2 * max(rows, columns) * self._width

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch that the function works in."""
        return sum(self._bytes)

    def add(self, module: Module, linkage: str = "internal") -> None:
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        line, scratch = f.params
        of, (other, matrix, group, _) = self.of, self._bytes
        pairs, columns = (scratch if of.is_real else line), f.gep(scratch, other)
        turned, between = f.gep(columns, matrix), f.gep(columns, matrix + group)
        source, target = (pairs, line) if of.sign > 0 else (line, pairs)
        if of.is_real and of.sign > 0:
            _Halves(f, module, self, line, pairs).split()
        self._transform_columns(f, module, source, columns, turned, between)
        self._transform_rows(f, module, columns, target, between)
        if of.is_real and of.sign < 0:
            _Halves(f, module, self, line, pairs).join()
        f.ret()
        module.add(f)

    def _between(self, f: Function, scratch: V, length: int) -> list[Rows]:
        """Returns what the passes of a group write, but for the last one."""
        both = [Split(f.gep(scratch, at * length * self._width), self.elem, self.lanes, self._width) for at in (0, 1)]
        return [both[number % 2] for number in range(len(passes(length)) - 1)]

    def _transform_columns(self, f: Function, module: Module, line: V, to: V, turned: V, scratch: V) -> None:
        """Transforms the columns of the line's matrix, turns each number of the result, and makes rows columns."""
        (rows, columns), lanes = self._matrix, self.lanes
        size, height = memory_size_of(self.elem), self._groups(rows) * lanes * self._width
        nothing = zero(vector(self.elem, 2 * lanes))
        for row in range(rows, self._groups(rows) * lanes):  # what fills up the last group of rows is computed with
            f.store(nothing, f.gep(turned, row * self._width), size)
        name = f"jn_turns_{self.elem}_{self.of.length}_{rows}_{lanes}_{'pn'[self.of.sign < 0]}"
        by = table(module, name, self._factors_between())
        between = self._between(f, scratch, rows)

        def group(number: V, count: int) -> None:
            source = Pairs(f.gep(line, f.mul(number, i64(self._width))), self.elem, lanes, 2 * columns * size, count)
            waves_at = Split(f.gep(by, f.mul(number, i64(height))), self.elem, lanes, self._width)
            target = _Turned(Split(turned, self.elem, lanes, self._width), waves_at, self.of.sign)
            emit_passes(f, module, rows, self.of.sign, [source, *between, target])
            self._transpose(f, turned, f.gep(to, f.mul(number, i64(lanes * self._width))))

        whole, rest = divmod(columns, lanes)
        with f.loop(0, whole) as state:
            group(state.index, lanes)
        if rest:
            group(i64(whole), rest)

    def _factors_between(self) -> Array:
        """Returns the waves that the numbers of the transformed columns are multiplied by, in the order of their groups."""
        (rows, columns), lanes = self._matrix, self.lanes
        groups, height = self._groups(columns), self._groups(rows) * lanes
        cos, sin = waves(np.outer(np.arange(height), np.arange(groups * lanes)) % self.of.length, self.of.length)
        both = np.stack([cos, self.of.sign * sin]).reshape(2, height, groups, lanes)
        return rounded(np.ascontiguousarray(both.transpose(2, 1, 0, 3)), self.elem)

    def _transpose(self, f: Function, turned: V, to: V) -> None:
        """Transposes a group of columns into the groups of rows, square by square."""
        (rows, columns), lanes, width = self._matrix, self.lanes, self._width
        type_, size = vector(self.elem, lanes), memory_size_of(self.elem)
        with f.loop(0, self._groups(rows)) as row:
            read = f.gep(turned, f.mul(row.index, i64(lanes * width)))
            written = f.gep(to, f.mul(row.index, i64(self._groups(columns) * lanes * width)))
            for part in (0, width // 2):
                values = [f.load(type_, f.gep(read, number * width + part), size) for number in range(lanes)]
                for number, value in enumerate(transpose_registers(f, values)):
                    f.store(value, f.gep(written, number * width + part), size)

    def _transform_rows(self, f: Function, module: Module, source: V, line: V, scratch: V) -> None:
        """Transforms what were rows of the matrix; the results are rows of a line in order."""
        (rows, columns), lanes = self._matrix, self.lanes
        size, height = memory_size_of(self.elem), self._groups(columns) * lanes * self._width
        between = self._between(f, scratch, columns)

        def group(read: V, at: V, count: int) -> None:
            split = Split(read, self.elem, lanes, self._width)
            target = Pairs(at, self.elem, lanes, 2 * rows * size, count)
            emit_passes(f, module, columns, self.of.sign, [split, *between, target])

        whole, rest = divmod(rows, lanes)
        with f.loop(0, whole) as state:
            group(f.gep(source, f.mul(state.index, i64(height))), f.gep(line, f.mul(state.index, i64(self._width))), lanes)
        if rest:
            group(f.gep(source, whole * height), f.gep(line, whole * self._width), rest)


class _Halves:
    """Emits the step between the half transform of real numbers and the transform of their pairs, both lines of numbers."""

    def __init__(self, f: Function, module: Module, line: LineTransform, half: V, pairs: V) -> None:
        self.f, self.of, self.line, self.half, self.pairs = f, line.of, line, half, pairs
        self.size = memory_size_of(line.elem)
        of, elem = line.of, line.elem
        cos, sin = waves(np.arange(of.length + 1), 2 * of.length)
        both = rounded(np.stack([cos, of.sign * sin]), elem)
        self.table = table(module, f"jn_half_lines_{elem}_{of.length}_{'pn'[of.sign < 0]}", both)

    def _each(self, source: V, target: V, scale: float) -> None:
        """Does all but the ends, a register at a time. The last one reaches back to where the one before has been."""
        f, count, lanes = self.f, self.of.length - 1, self.line.lanes
        with f.loop(0, -(-count // lanes)) as state:
            self._register(f.add(f.smin(f.mul(state.index, i64(lanes)), i64(count - lanes)), i64(1)), source, target, scale)

    def _register(self, first: V, source: V, target: V, scale: float) -> None:
        f, lanes, size, length = self.f, self.line.lanes, self.size, self.of.length
        emitter, pairs, one = Lanes(f, self.of.sign), vector(self.line.elem, 2 * lanes), vector(self.line.elem, lanes)
        away = f.mul(first, i64(2 * size))
        mirrored = f.sub(i64(2 * size * (length - lanes + 1)), away)
        value = parts(f, f.load(pairs, f.gep(source, away), size), lanes)
        other = parts(f, f.load(pairs, f.gep(source, mirrored), size), lanes, backwards=True)
        at = f.gep(self.table, f.mul(first, i64(size)))
        cos, sin = f.load(one, at, size), f.load(one, f.gep(at, size * (length + 1)), size)
        if scale != 1:  # before sums, which are twice the results otherwise
            by = const(scale, one)
            value, other = (Number(*[f.binary("fmul", part, by) for part in each]) for each in (value, other))
        found = joined(emitter, value, other, cos, sin)
        f.store(paired(f, found, lanes), f.gep(target, away), size)

    def _number(self, base: V, at: int) -> Number:
        f, elem = self.f, self.line.elem
        return Number(*[f.load(elem, f.gep(base, (2 * at + part) * self.size), self.size) for part in (0, 1)])

    def _store(self, value: Number, base: V, at: int) -> None:
        for part, each in enumerate(value):
            self.f.store(each, self.f.gep(base, (2 * at + part) * self.size), self.size)

    def split(self) -> None:
        """Makes the transform of pairs of the half transform."""
        f = self.f
        first, last = self._number(self.half, 0), self._number(self.half, self.of.length)
        self._store(Number(*[f.binary(name, first.real, last.real) for name in ("fadd", "fsub")]), self.pairs, 0)
        self._each(self.half, self.pairs, 1.0)

    def join(self) -> None:
        """Makes the half transform of that of pairs."""
        f, value = self.f, self._number(self.pairs, 0)
        nothing = zero(self.line.elem)
        for name, at in (("fadd", 0), ("fsub", self.of.length)):
            self._store(Number(f.binary(name, value.real, value.imaginary), nothing), self.half, at)
        self._each(self.pairs, self.half, 0.5)
