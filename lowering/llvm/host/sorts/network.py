"""Sorts lines that lie side by side, a lane for each, by networks of comparisons between whole registers.

Element `p` of all lines of a group is the register at row `p`. A bitonic network (Batcher, "Sorting networks and their
applications", 1968) compares rows that are known in advance, so nothing is branched on and nothing moved between lanes. Its
form is the one in which every comparison puts the smaller element into the lower row: a merge of two runs begins with the first
row of one and the last of the other, and goes on with halves of halves. Rows beyond the end would hold the largest number,
which stays where it is: comparisons with them are left out, and lines may have any multiple of `SQUARE` elements.

Two steps of a merge are done at a time, with four rows in registers. The first four phases, and the last four steps of every
other one, take place among the rows of a square, which are all in registers. Long lines are sorted in pieces that stay in the
first-level cache; the steps of a merge that reach farther are few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .....promotion.dataclass import dataclass
from ...ir import Function
from ...module import Module
from ...values import V, element, i64, vector
from ..loops.coordinates import memory_size_of

SQUARE = 16
"""Rows that are sorted in registers."""
PIECE = 256
"""Rows of a piece of a long line, a power of two: 16 KiB of whole registers."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What the functions of a network have in common: rows of `lanes` signed integers, `pitch` bytes apart."""

    elem: str
    lanes: int
    pitch: int

    @property
    def type(self) -> str:
        return vector(self.elem, self.lanes) if self.lanes > 1 else self.elem

    @property
    def size(self) -> int:
        return memory_size_of(self.elem)

    @property
    def suffix(self) -> str:
        return f"{self.elem}_{self.lanes}_{self.pitch}"

    def load(self, f: Function, address: V) -> V:
        return f.load(self.type, address, self.size)

    def store(self, f: Function, value: V, address: V) -> None:
        f.store(value, address, self.size)


def compare(f: Function, a: V, b: V) -> tuple[V, V]:
    """Returns the smaller and the larger of two.

    Intel's processors have one port for the smaller of 64 bits. The larger is what of both the smaller is not.
    """
    low = f.intrinsic("smin", [a, b])
    if element(a.type) == "i64":
        return low, f.binary("xor", f.binary("xor", a, b), low)
    return low, f.intrinsic("smax", [a, b])


@dataclass(frozen=True, slots=True)
class InSquares:
    """The function that sorts each square of rows, or does the last four steps of a merge in it."""

    rows: Rows
    is_merge: bool
    square: int = SQUARE

    @property
    def name(self) -> str:
        return f"jn_{'merge' if self.is_merge else 'sort'}_squares_of_{self.square}_{self.rows.suffix}"

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return [("ptr", "rows"), ("i64", "bytes")]

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Adds the function of so many bytes of rows, whole squares, to a module."""
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        first, count = f.params
        rows = self.rows
        with f.loop(0, count, self.square * rows.pitch) as state:
            start = f.gep(first, state.index)
            addresses = [f.gep(start, row * rows.pitch) for row in range(self.square)]
            values = [rows.load(f, address) for address in addresses]
            for low, high in halves(self.square) if self.is_merge else odd_even_merges(self.square):
                values[low], values[high] = compare(f, values[low], values[high])
            for value, address in zip(values, addresses, strict=True):
                rows.store(f, value, address)
        f.ret()
        module.add(f)


def halves(count: int) -> Iterator[tuple[int, int]]:
    """Yields the comparisons that put a bitonic run of `count` elements, a power of two, in order."""
    distance = count // 2
    while distance:
        yield from ((low, low + distance) for low in range(count) if not low & distance)
        distance //= 2


def odd_even_merges(count: int) -> Iterator[tuple[int, int]]:
    """Yields the comparisons of Batcher's odd-even merge sort of a power of two elements: fewer than a bitonic one's."""
    run = 1
    while run < count:
        distance = run
        while distance:
            for low in range(distance % run, count - distance):
                if (low - distance % run) // distance % 2 == 0 and low // (2 * run) == (low + distance) // (2 * run):
                    yield low, low + distance
            distance //= 2
        run *= 2


@dataclass(frozen=True, slots=True)
class SortedLines:
    """The function that sorts `count` rows of a group of lines, or merges what is bitonic in a piece of them.

    count: a multiple of `SQUARE`, or a power of two below; of a merge, at most `PIECE`.
    """

    rows: Rows
    count: int
    is_merge: bool = False

    @property
    def name(self) -> str:
        return f"jn_{'merge' if self.is_merge else 'sort'}_lines_{self.rows.suffix}_{self.count}"

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return [("ptr", "rows")]

    def add(self, module: Module, linkage: str = "internal") -> None:
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        network = _Network(f, module, self.rows, self.count)
        if self.is_merge:
            network.merge(PIECE // 2)
        else:
            network.sort()
        f.ret()
        module.add(f)


class _Network:
    """Emits the steps of a network on the rows of a function. Loops count bytes: nothing is left to do for an address.

    least: the shortest distance of steps that are emitted here; shorter ones stay inside of a square, or of a piece.
    """

    def __init__(self, f: Function, module: Module, rows: Rows, count: int) -> None:
        self.f, self.module, self.rows, self.count = f, module, rows, count
        self.least = SQUARE if count <= PIECE else PIECE
        (self.first,) = f.params

    def sort(self) -> None:
        self._inside(is_merge=False)
        run = self.least
        while run < self.count:
            self._phase(run)
            self._inside(is_merge=True)
            run *= 2

    def merge(self, distance: int) -> None:
        """Does the steps of merges from a distance on to the last one."""
        self._halve(distance)
        self._inside(is_merge=True)

    def _inside(self, is_merge: bool) -> None:
        """Does the steps between rows of one square or piece."""
        if self.least == PIECE:
            self._pieces(is_merge)
        else:
            self._squares(is_merge)

    def _squares(self, is_merge: bool) -> None:
        name = self.module.provide(InSquares(self.rows, is_merge, min(SQUARE, self.count)))
        self.f.call(name, "void", [self.first, i64(self.count * self.rows.pitch)])

    def _pieces(self, is_merge: bool) -> None:
        whole, rest = divmod(self.count, PIECE)
        pitch = self.rows.pitch
        name = self.module.provide(SortedLines(self.rows, PIECE, is_merge))
        with self.f.loop(0, whole * PIECE * pitch, PIECE * pitch) as state:
            self.f.call(name, "void", [self.f.gep(self.first, state.index)])
        if rest:
            name = self.module.provide(SortedLines(self.rows, rest, is_merge))
            self.f.call(name, "void", [self.f.gep(self.first, whole * PIECE * pitch)])

    # -- steps between rows that are a square or more apart ------------------------------------------------------------

    def _phase(self, run: int) -> None:
        """Merges pairs of runs of `run` rows, but for the steps at distances below the least."""
        least, block, quarter = self.least, 2 * run, run // 2
        whole = self.count // block * block
        two = quarter >= least
        with self._each(0, whole, block) as base, self._each(0, quarter if two else run) as row:
            self._compare_ends(base, row, block, two)
        rest = self.count - whole
        if rest > run:  # the last pair has a shorter second run
            with self._each(block - rest, run) as row:
                self._compare_ends(self.f.gep(self.first, whole * self.rows.pitch), row, block, False)
            if two:
                self._halve_rest(whole, rest, quarter)
        distance = quarter // 2 if two else quarter
        self._halve(distance, whole)
        while distance >= least and rest > run:
            self._halve_rest(whole, rest, distance)
            distance //= 2

    def _halve(self, distance: int, end: int | None = None) -> None:
        """Does the steps of merges from `distance` down to the least, two at a time, in whole blocks before `end` or in all."""
        while distance >= self.least:
            two = distance // 2 >= self.least
            whole = (self.count if end is None else end) // (2 * distance) * (2 * distance)
            with self._each(0, whole, 2 * distance) as base, self._each(0, distance // 2 if two else distance) as row:
                self._compare_halves(base, row, distance, two)
            if end is None:
                self._halve_rest(whole, self.count - whole, distance)
                if two:
                    self._halve_rest(whole, self.count - whole, distance // 2)
            distance //= 4 if two else 2

    def _halve_rest(self, start: int, count: int, distance: int) -> None:
        """Does the step at a distance in the `count` rows from `start` on, of which the last block may not be whole."""
        for base in range(0, count - distance, 2 * distance):
            with self._each(0, min(distance, count - distance - base)) as row:
                self._compare_halves(self.f.gep(self.first, (start + base) * self.rows.pitch), row, distance, False)

    @contextmanager
    def _each(self, low: int, high: int, step: int = 1) -> Iterator[V]:
        """Loops over rows; yields addresses of every `step`th one, or the bytes before every one where it is 1."""
        pitch = self.rows.pitch
        with self.f.loop(low * pitch, high * pitch, step * pitch) as state:
            yield state.index if step == 1 else self.f.gep(self.first, state.index)

    def _compare_ends(self, base: V, row: V, block: int, two: bool) -> None:
        """Compares a row with that as far from the end of the block; two: and both with those a quarter of a block inwards."""
        f, pitch = self.f, self.rows.pitch
        low = f.gep(base, row)
        high = f.gep(f.gep(base, f.sub(i64(0), row)), (block - 1) * pitch)
        if not two:
            self._update([low, high], [(0, 1)])
            return
        quarter = block // 4 * pitch
        self._update([low, f.gep(low, quarter), f.gep(high, -quarter), high], [(0, 3), (1, 2), (0, 1), (2, 3)])

    def _compare_halves(self, base: V, row: V, distance: int, two: bool) -> None:
        """Compares a row with that at a distance; two: and does the step at half the distance as well."""
        f, pitch = self.f, self.rows.pitch
        low = f.gep(base, row)
        if not two:
            self._update([low, f.gep(low, distance * pitch)], [(0, 1)])
            return
        addresses = [low, *[f.gep(low, distance // 2 * number * pitch) for number in (1, 2, 3)]]
        self._update(addresses, [(0, 2), (1, 3), (0, 1), (2, 3)])

    def _update(self, addresses: Sequence[V], comparisons: Sequence[tuple[int, int]]) -> None:
        rows = self.rows
        values = [rows.load(self.f, address) for address in addresses]
        for low, high in comparisons:
            values[low], values[high] = compare(self.f, values[low], values[high])
        for value, address in zip(values, addresses, strict=True):
            rows.store(self.f, value, address)


def swapped_lanes(f: Function, value: V, lanes: int, across: int) -> V:
    """Returns a register in which each lane has what lane `lane ^ across` had."""
    return f.shuffle(value, value, [lane ^ across for lane in range(lanes)])


def chosen_lanes(f: Function, low: V, high: V, lanes: int, bit: int) -> V:
    """Returns lanes of `low` where a bit of their number is 0, else of `high`."""
    return f.shuffle(low, high, [lane + lanes * bool(lane & bit) for lane in range(lanes)])


def merged_lanes(f: Function, value: V, lanes: int, width: int) -> V:
    """Returns a register whose runs of `width` lanes are in order, of one in which both halves of each are."""
    across = width - 1
    bit = width // 2
    while bit:
        low, high = compare(f, value, swapped_lanes(f, value, lanes, across))
        value = chosen_lanes(f, low, high, lanes, bit)
        bit //= 2
        across = bit
    return value


@dataclass(frozen=True, slots=True)
class JoinedLanes:
    """The function that merges the lanes of sorted rows, so that lane after lane is in order.

    count: rows, a power of two and a multiple of `SQUARE`.
    """

    rows: Rows
    count: int

    @property
    def name(self) -> str:
        return f"jn_join_lanes_{self.rows.suffix}_{self.count}"

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return [("ptr", "rows")]

    def add(self, module: Module, linkage: str = "internal") -> None:
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        network = _Network(f, module, self.rows, self.count)
        width = 2
        while width <= self.rows.lanes:
            self._across(f, width)
            network.merge(self.count // 2)
            width *= 2
        f.ret()
        module.add(f)

    def _across(self, f: Function, width: int) -> None:
        """Does the steps of a merge of two halves of `width` lanes each that are between lanes.

        The first compares lanes and rows from both ends, the others lanes of the same row.
        """
        rows, lanes = self.rows, self.rows.lanes
        (first,) = f.params
        with f.loop(0, self.count // 2 * rows.pitch, rows.pitch) as state:
            last = f.sub(i64((self.count - 1) * rows.pitch), state.index)
            addresses = [f.gep(first, state.index), f.gep(first, last)]
            a, b = (rows.load(f, address) for address in addresses)
            low, high = compare(f, a, swapped_lanes(f, b, lanes, width - 1))
            values: Sequence[V] = (
                chosen_lanes(f, low, high, lanes, width // 2),
                swapped_lanes(f, chosen_lanes(f, high, low, lanes, width // 2), lanes, width - 1),
            )
            across = width // 4
            while across:
                pairs = [compare(f, value, swapped_lanes(f, value, lanes, across)) for value in values]
                values = [chosen_lanes(f, low, high, lanes, across) for low, high in pairs]
                across //= 2
            for value, address in zip(values, addresses, strict=True):
                rows.store(f, value, address)
