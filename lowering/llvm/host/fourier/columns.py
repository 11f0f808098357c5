"""Transforms a group of lines that lie side by side, as many as a register has lanes."""

from __future__ import annotations

import numpy as np

from .....promotion.dataclass import dataclass
from ...ir import Function
from ...module import Module
from ...values import V, const, i64, zero
from ..loops.coordinates import memory_size_of
from .butterflies import Lanes, Number
from .kinds import Transform, joined
from .passes import Pairs, Rows, Split, emit_passes, passes
from .waves import rounded, table, waves


@dataclass(frozen=True, slots=True)
class ColumnsTransform:
    """The function that transforms the columns of rows, in place.

    lanes: the columns of a group. pitch: bytes from a number of a line to the next. apart: whether a row of real parts comes
    before one of imaginary parts, half a pitch away; otherwise the parts of numbers are neighbours.
    """

    of: Transform
    elem: str
    lanes: int
    pitch: int
    apart: bool

    @property
    def name(self) -> str:
        return f"jn_fourier_columns_{self.of.name}_{self.elem}_{self.lanes}_{self.pitch}{'_apart' * self.apart}"

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return [("ptr", "rows"), ("ptr", "scratch")]

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch that the function works in."""
        return 2 * self.of.length * self._width

    @property
    def _width(self) -> int:
        return 2 * self.lanes * memory_size_of(self.elem)

    def add(self, module: Module, linkage: str = "internal") -> None:
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        first, scratch = f.params
        of, width = self.of, self._width
        block: Pairs | Split = Pairs(first, self.elem, self.lanes, self.pitch, self.lanes)
        if self.apart:
            block = Split(first, self.elem, self.lanes, self.pitch)
        others = [Split(f.gep(scratch, at * of.length * width), self.elem, self.lanes, width) for at in (0, 1)]
        between = [others[number % 2] for number in range(len(passes(of.length)) - 1)]
        source: Rows = block
        target: Rows = block
        if of.is_real and of.sign > 0:
            source = others[1]
            _Halves(f, module, of, block, source).split()
        if of.is_real and of.sign < 0:
            target = others[len(between) % 2]
        emit_passes(f, module, of.length, of.sign, [source, *between, target])
        if of.is_real and of.sign < 0:
            _Halves(f, module, of, block, target).join()
        f.ret()
        module.add(f)


class _Halves:
    """Emits the step between the half transform of real numbers, in a block, and the transform of their pairs."""

    def __init__(self, f: Function, module: Module, of: Transform, block: Pairs | Split, pairs: Rows) -> None:
        self.f, self.of, self.block, self.pairs = f, of, block, pairs
        self.lanes = Lanes(f, of.sign)
        self.size = memory_size_of(block.elem)
        cos, sin = waves(np.arange(of.length + 1), 2 * of.length)
        both = rounded(np.stack([cos, of.sign * sin], -1), block.elem)
        self.table = table(module, f"jn_halves_{block.elem}_{of.length}_{'pn'[of.sign < 0]}", both)

    def _at(self, rows: Rows, row: V) -> V:
        return self.f.mul(row, i64(rows.pitch))

    def _each(self, source: Rows, target: Rows, scale: float) -> None:
        """Does the rows that are no ends, of which all have a partner in the source that is one, too."""
        f, count = self.f, self.of.length
        with f.loop(1, count) as state:
            value = source.load(f, self._at(source, state.index), 0)
            other = source.load(f, self._at(source, f.sub(i64(count), state.index)), 0)
            at = f.gep(self.table, f.mul(state.index, i64(2 * self.size)))
            cos, sin = (
                f.splat(f.load(self.block.elem, f.gep(at, part * self.size), self.size), self.block.lanes) for part in (0, 1)
            )
            if scale != 1:  # before sums, which are twice the results otherwise
                by = const(scale, value.real.type)
                value, other = (Number(*[f.binary("fmul", part, by) for part in each]) for each in (value, other))
            found = joined(self.lanes, value, other, cos, sin)
            target.store(f, found, self._at(target, state.index), 0)

    def split(self) -> None:
        """Makes the transform of pairs of the half transform."""
        f = self.f
        first, last = (self.block.load(f, i64(0), row) for row in (0, self.of.length))
        ends = Number(f.binary("fadd", first.real, last.real), f.binary("fsub", first.real, last.real))
        self.pairs.store(f, ends, i64(0), 0)
        self._each(self.block, self.pairs, 1.0)

    def join(self) -> None:
        """Makes the half transform of that of pairs."""
        f = self.f
        value = self.pairs.load(f, i64(0), 0)
        nothing = zero(value.real.type)
        total, apart = (f.binary(name, value.real, value.imaginary) for name in ("fadd", "fsub"))
        self.block.store(f, Number(total, nothing), i64(0), 0)
        self.block.store(f, Number(apart, nothing), i64(0), self.of.length)
        self._each(self.pairs, self.block, 0.5)
