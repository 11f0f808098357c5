"""Emits Fourier transforms of lines that lie side by side, a lane for each, in passes over rows of registers.

The number j of all lines of a group is the register at row j. A pass does transforms of some rows that are in registers
together, and writes them in the order in which the next pass reads on (Stockham's form, which reverses no digits: Cochran et
al., "What is the fast Fourier transform?", 1967). With r the numbers of a transform, n what is left of the length (r · m) and s
the product of the r before:

    row q + s (p + m j), j < r ─ transform of r ─ times e^(± 2πi p k / n) ─► row q + s (r p + k), k < r

Where a pass reads and writes is up to `Rows`: numbers as memory has them, or parts each in a register of their own.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from .....promotion.dataclass import dataclass
from ....tt.dialect.compute import MAX_PRIME
from ...ir import Function
from ...module import Module
from ...values import Global, V, element, i64, lanes, poison, vector
from ..loops.coordinates import memory_size_of
from .butterflies import Lanes, Number
from .waves import rounded, table, waves

LONGEST = 8
"""The longest transform that is done in registers at a time, which have room for it, unless its length is a prime."""


class Rows(Protocol):
    """Rows of numbers that passes read and write, each `pitch` bytes after the one before."""

    @property
    def pitch(self) -> int: ...

    def load(self, f: Function, first: V, beyond: int) -> Number:
        """Loads the row that is `beyond` rows after the one at `first` bytes."""

    def store(self, f: Function, value: Number, first: V, beyond: int) -> None:
        """Stores a row."""


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Rows in scratch: a register of real parts beside one of imaginary ones."""

    base: V
    elem: str
    lanes: int
    pitch: int

    def load(self, f: Function, first: V, beyond: int) -> Number:
        type_, size, at = vector(self.elem, self.lanes), memory_size_of(self.elem), self._at(f, first, beyond)
        return Number(f.load(type_, at, size), f.load(type_, f.gep(at, self.pitch // 2), size))

    def store(self, f: Function, value: Number, first: V, beyond: int) -> None:
        size, at = memory_size_of(self.elem), self._at(f, first, beyond)
        f.store(value.real, at, size)
        f.store(value.imaginary, f.gep(at, self.pitch // 2), size)

    def _at(self, f: Function, first: V, beyond: int) -> V:
        return f.gep(f.gep(self.base, first), beyond * self.pitch)


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Rows in which the parts of a number are neighbours. count: how many there are in a row, up to the number of lanes."""

    base: V
    elem: str
    lanes: int
    pitch: int
    count: int

    def load(self, f: Function, first: V, beyond: int) -> Number:
        at = f.gep(f.gep(self.base, first), beyond * self.pitch)
        return parts(f, f.load(vector(self.elem, 2 * self.count), at, memory_size_of(self.elem)), self.lanes)

    def store(self, f: Function, value: Number, first: V, beyond: int) -> None:
        at = f.gep(f.gep(self.base, first), beyond * self.pitch)
        f.store(paired(f, value, self.count), at, memory_size_of(self.elem))


def parts(f: Function, pairs: V, width: int, backwards: bool = False) -> Number:
    """Returns the numbers whose parts are neighbours, in `width` lanes, the last one again beyond. backwards: the last first.

    Lanes that count for nothing hold numbers too: what memory happens to hold may be slow to compute with.
    """
    count = lanes(pairs.type) // 2
    if width == 1:
        return Number(f.extract(pairs, 0), f.extract(pairs, 1))
    order = list(range(count))[:: -1 if backwards else 1]
    order += order[-1:] * (width - count)
    real, imaginary = ([2 * number + part for number in order] for part in (0, 1))
    return Number(f.shuffle(pairs, pairs, real), f.shuffle(pairs, pairs, imaginary))


def paired(f: Function, value: Number, count: int) -> V:
    """Returns the first `count` numbers with their parts as neighbours."""
    type_ = value.real.type
    width = lanes(type_)
    if width == 1:
        return f.insert(f.insert(poison(vector(type_, 2)), value.real, 0), value.imaginary, 1)
    return f.shuffle(value.real, value.imaginary, [number // 2 + width * (number % 2) for number in range(2 * count)])


@functools.lru_cache
def passes(length: int) -> tuple[int, ...]:
    """Returns the lengths of the transforms that passes do, as few as there can be and as equal; () if there are none."""
    if length <= LONGEST:
        return (length,)
    best: tuple[int, ...] = ()
    for first in range(2, MAX_PRIME + 1):
        if length % first or (first > LONGEST and any(first % factor == 0 for factor in range(2, first))):
            continue
        rest = passes(length // first) if length > first else ()
        if rest or length == first:
            found = tuple(sorted((first, *rest)))
            if not best or (len(found), max(found)) < (len(best), max(best)):
                best = found
    return best


def emit_passes(f: Function, module: Module, length: int, sign: int, through: Sequence[Rows]) -> None:
    """Emits the passes of a transform, from each of some rows to the next; there is one more of them than passes."""
    left, stride = length, 1
    for count, (source, target) in zip(passes(length), itertools.pairwise(through), strict=True):
        _emit_pass(_Pass(f, module, sign, left, stride, count), source, target)
        left, stride = left // count, stride * count


@dataclass(frozen=True, slots=True, eq=False)
class _Pass:
    f: Function
    module: Module
    sign: int
    left: int
    stride: int
    count: int

    @property
    def blocks(self) -> int:
        return self.left // self.count

    def table(self, elem: str) -> Global:
        """Returns the rotations after a pass, of each transform those of its results but the first."""
        cos, sin = waves(np.outer(np.arange(self.blocks), np.arange(1, self.count)), self.left)
        both = rounded(np.stack([cos, self.sign * sin], -1), elem)
        return table(self.module, f"jn_waves_{elem}_{self.left}_{self.count}_{'pn'[self.sign < 0]}", both)


def _emit_pass(each: _Pass, source: Rows, target: Rows) -> None:
    f, stride, blocks, count = each.f, each.stride, each.blocks, each.count
    with f.loop(0, blocks) as block, f.loop(0, stride) as row:
        first = f.add(f.mul(block.index, i64(stride)), row.index)
        read = f.mul(first, i64(source.pitch))
        values = [source.load(f, read, stride * blocks * number) for number in range(count)]
        emitter = Lanes(f, each.sign)
        results = emitter.transform(values)
        if blocks > 1:
            type_ = results[0].real.type
            elem, size = element(type_), memory_size_of(element(type_))
            at = f.gep(each.table(elem), f.mul(block.index, i64(2 * size * (count - 1))))
            for number in range(1, count):
                cos, sin = (f.load(elem, f.gep(at, size * (2 * number - 2 + part)), size) for part in (0, 1))
                results[number] = emitter.turned(results[number], f.splat(cos, lanes(type_)), f.splat(sin, lanes(type_)))
        to = f.mul(f.add(f.mul(block.index, i64(stride * count)), row.index), i64(target.pitch))
        for number, value in enumerate(results):
            target.store(f, value, to, stride * number)
