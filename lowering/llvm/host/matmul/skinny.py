"""Products of few rows or few columns, which go along the rows of a matrix as they stream from memory.

A single row times a matrix that lies row by row: a panel reads 64 columns of each row, a quarter of a KiB in every page, at
half the rate of memory. Here eight rows are added at a time to all columns of the result, which stay in the first-level cache.
With registers of 64 bytes the eight rows below are fetched into the second-level one, if the matrix is larger than half of the
third-level one. Each result is the same chain of fused steps along k.

Rows times few columns: a panel broadcasts every element of the rows for few products, and most lanes of those are wasted. Here
lanes lie along k, and each vector of a row is multiplied with one of every column. The sums of all lanes are added up at the
end, for all results of a tile at once, in an order that is the same for every row.
"""

from __future__ import annotations

from collections.abc import Sequence

from .....promotion.dataclass import dataclass
from ....target import CACHE_LINE
from ...ir import Function
from ...module import Module
from ...values import V, i64, vector, zero
from ..loops.coordinates import memory_size_of

TOGETHER, FEWER, ALIAS = 8, 4, 4096
"""Rows that are added at a time: for each of their vectors an eighth of a vector of results is loaded and stored. Fewer in a
cache where a cache line is two vectors, which are added together, or rows begin a multiple of so many bytes apart: lines of
eight rows would share a set of the first-level one."""


SHORT_ROW = 1024
"""Bytes of rows of which eight that lie together are fetched ahead in a cache, too."""
MAX_TOGETHER = 8
"""The most rows of a tile of few columns."""


def rows_together(n: int, element: str, between: int | None, from_memory: bool) -> int:
    """Return how many rows are added at a time. between: elements from a row to the next, if that is known."""
    size = memory_size_of(element)
    alias = between is not None and between * size % ALIAS == 0
    return FEWER if not from_memory and (alias or n * size < CACHE_LINE) else TOGETHER


def fetches_rows(n: int, element: str, between: int | None, from_memory: bool) -> bool:
    """Return whether the rows below are fetched. Lines of two vectors stream from memory faster without, if rows are long."""
    size = memory_size_of(element)
    is_short = between is not None and between * size <= SHORT_ROW
    return is_short or (from_memory and n * size >= CACHE_LINE)


@dataclass(frozen=True, slots=True)
class SingleRow:
    """The function that computes C[j] (+)= A[k] · B[k, j] in vectors of n elements. `acs`, `ldb`: distances in elements.

    B's columns lie side by side. C may be written up to the end of the last vector. fetches: whether the rows below are fetched
    ahead. together: the rows that are added at a time.
    """

    element: str
    n: int
    fetches: bool
    together: int

    @property
    def name(self) -> str:
        return f"jn_row_{self.element}_{self.n}x{self.together}{'_fetched' * self.fetches}"

    @property
    def line(self) -> int:
        """The vectors of a cache line."""
        return max(1, CACHE_LINE // (self.n * memory_size_of(self.element)))

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return [("ptr", "a"), ("i64", "acs"), ("ptr", "b"), ("i64", "ldb"), ("ptr", "c"), ("i64", "j"), ("i64", "k"),
                ("i1", "acc")]  # fmt: skip

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Add the function to a module."""
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        _, _, _, _, c, j, k, acc = f.params
        type_, size = vector(self.element, self.n), memory_size_of(self.element)
        clear, go = f.label("clear"), f.label("go")
        f.cond_branch(acc, go, clear)
        f.start(clear)
        with f.loop(0, j, self.n) as state:
            f.store(zero(type_), f.gep(c, state.index, self.element), size)
        f.branch(go)
        f.start(go)
        bulk = f.binary("and", k, i64(-self.together))
        with f.loop(0, bulk, self.together) as state:
            self._rows(f, state.index, self.together)
        with f.loop(bulk, k, 1) as state:
            self._rows(f, state.index, 1)
        f.ret()
        module.add(f)

    def _rows(self, f: Function, first: V, count: int) -> None:
        """Emit the addition of so many rows of B, times elements of A, to C."""
        a, acs, b, ldb, c, j, _, _ = f.params
        type_, size = vector(self.element, self.n), memory_size_of(self.element)
        factors, rows = [], []
        for number in range(count):
            step = f.add(first, i64(number)) if number else first
            factors.append(f.splat(f.load(self.element, f.gep(a, f.mul(step, acs), self.element), size), self.n))
            rows.append(f.gep(b, f.mul(step, ldb), self.element))
        prefetch = f.mul(ldb, i64(count))

        def add(column: V, mask: V | None, vectors: int = 1) -> None:
            results = [f.gep(c, f.add(column, i64(v * self.n)), self.element) for v in range(vectors)]
            totals = [f.load(type_, result, size) for result in results]
            for factor, row in zip(factors, rows, strict=True):
                here = f.gep(row, column, self.element)
                if mask is None and self.fetches:
                    f.prefetch(f.gep(here, prefetch, self.element), locality=2)
                for v in range(vectors):
                    there = f.gep(here, v * self.n, self.element)
                    part = f.load(type_, there, size) if mask is None else f.masked_load(type_, there, mask, zero(type_), size)
                    totals[v] = f.fma(factor, part, totals[v])
            for total, result in zip(totals, results, strict=True):
                f.store(total, result, size)

        line = self.line
        lines = f.binary("and", j, i64(-line * self.n))
        with f.loop(0, lines, line * self.n) as state:
            add(state.index, None, line)
        whole = f.binary("and", j, i64(-self.n))
        if line > 1:
            with f.loop(lines, whole, self.n) as state:
                add(state.index, None)
        with f.when(f.icmp("slt", whole, j)):
            left = f.splat(f.cast("trunc", f.sub(j, whole), "i32"), self.n)
            add(whole, f.icmp("sgt", left, f.iota(self.n, "i32")))


@dataclass(frozen=True, slots=True)
class FewColumns:
    """The function that computes C[m, columns] (+)= A[m, k] · B[k, columns] in vectors of n elements along k.

    Elements of a row of A, and of a column of B, are neighbours; `ars`, `bcs`, `ldc`: from one row or column to the next, in
    elements.  gathered: rows of A begin at the offsets, in elements, that `ars` points to.  registers: of the machine.
    """

    element: str
    n: int
    columns: int
    registers: int
    gathered: bool = False

    @property
    def name(self) -> str:
        return f"jn_few_columns_{self.element}_{self.n}x{self.columns}{'_gathered' * self.gathered}"

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return [("ptr", "a"), ("ptr" if self.gathered else "i64", "ars"), ("ptr", "b"), ("i64", "bcs"), ("ptr", "c"),
                ("i64", "ldc"), ("i64", "m"), ("i64", "k"), ("i1", "acc")]  # fmt: skip

    @property
    def height(self) -> int:
        """The rows of a tile: half of the registers hold sums."""
        return max(1, min(MAX_TOGETHER, self.registers // 2 // self.columns))

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Add the function to a module."""
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        m, height = f.params[6], self.height
        bulk = f.mul(f.binary("udiv", f.smax(m, i64(0)), i64(height)), i64(height))
        with f.loop(0, bulk, height) as state:
            self._tile(f, state.index, height)
        if height > 1:
            with f.loop(bulk, m, 1) as state:
                self._tile(f, state.index, 1)
        f.ret()
        module.add(f)

    def _tile(self, f: Function, first: V, height: int) -> None:
        """Emit the results of so many rows, in registers."""
        a, ars, b, bcs, c, ldc, _, k, acc = f.params
        element, n, size = self.element, self.n, memory_size_of(self.element)
        rows, results = [], []
        for number in range(height):
            row = f.add(first, i64(number)) if number else first
            offset = f.load("i64", f.gep(ars, row, "i64"), 8) if self.gathered else f.mul(row, ars)
            rows.append(f.gep(a, offset, element))
            results.append(f.gep(c, f.mul(row, ldc), element))
        columns = [f.gep(b, f.mul(bcs, i64(number)), element) if number else b for number in range(self.columns)]
        type_ = vector(element, n)

        def step(at: V, sums: Sequence[V], mask: V | None) -> list[V]:
            def read(pointer: V) -> V:
                here = f.gep(pointer, at, element)
                return f.load(type_, here, size) if mask is None else f.masked_load(type_, here, mask, zero(type_), size)

            right = [read(column) for column in columns]
            left = [read(row) for row in rows]
            return [f.fma(x, y, sums[number]) for number, (x, y) in enumerate([(x, y) for x in left for y in right])]

        whole, sums = f.binary("and", k, i64(-n)), [zero(type_)] * (height * self.columns)
        with f.loop(0, whole, n, sums) as state:
            state.next = step(state.index, state.values, None)
        with f.loop(whole, k, n, list(state.results)) as state:
            left = f.splat(f.cast("trunc", f.sub(k, whole), "i32"), n)
            state.next = step(state.index, state.values, f.icmp("sgt", left, f.iota(n, "i32")))
        sums, row_type = list(state.results), vector(element, self.columns)
        together = max(1, n // self.columns)  # the rows whose sums fit one vector
        for begin in range(0, height, together):
            taken = results[begin : begin + together]
            parts = sums[begin * self.columns : (begin + len(taken)) * self.columns]
            total, lane_of = added_up(f, parts, n, 16 // size)
            for number, result in enumerate(taken):
                lanes = lane_of[number * self.columns : (number + 1) * self.columns]
                old = f.select(acc, f.load(row_type, result, size), zero(row_type))
                found = f.shuffle(total, total, lanes) if self.columns > 1 else f.extract(total, lanes[0])
                f.store(f.binary("fadd", found, old), result, size)


def added_up(f: Function, sums: Sequence[V], n: int, block: int) -> tuple[V, list[int]]:
    """Emit the sums of all lanes of some vectors; return them in one, and the lane of each.

    n: how many lanes there are, and vectors at most.  block: how many lanes 128 bits have, within which shuffles are cheap.
    """
    found = [(value, [number] * n) for number, value in enumerate(sums)]
    while len(found) & (len(found) - 1):
        found.append(found[-1])
    unit, end = 1, block
    while unit < n:
        step = min(4 * unit, end)
        below: list[int] = []
        above: list[int] = []
        for start in range(0, n, step):
            for source in (0, n):
                for part in range(start, start + step, 2 * unit):
                    below += range(source + part, source + part + unit)
                    above += range(source + part + unit, source + part + 2 * unit)
        for _ in range(2 if step == 4 * unit else 1):
            pairs = list(zip(found[::2], found[1::2], strict=True)) if len(found) > 1 else [(found[0], found[0])]
            found = []
            for (x, of_x), (y, of_y) in pairs:
                total = f.binary("fadd", f.shuffle(x, y, below), f.shuffle(x, y, above))
                found.append((total, [(of_x + of_y)[lane] for lane in below]))
        unit, end = step, n
    (total, of), = found
    return total, [of.index(number) for number in range(len(sums))]
