"""Micro-kernels: all rows of A times one panel of columns of B, from registers (the GotoBLAS scheme).

They depend only on the element type and the machine, so kernels from texts share them: each is compiled once per
process, or found in the cache of compiled code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .....promotion.dataclass import dataclass
from ...ir import Function, Loop
from ...masks.accesses import store_rows
from ...module import Module
from ...values import V, i64, vector, zero
from ..loops.coordinates import memory_size_of
from .decoding import Decoder, Decoding

PREFETCH_ROWS = 32
"""The distance, in rows of B, at which the first tile of a panel prefetches: weights stream from memory during the arithmetic.

The other tiles find the panel in the second-level cache.
"""
FAR_BYTES = 2048
"""From this distance of rows of B on it prefetches the panel after the next instead, in the rows that it reads: 32 rows on
every line is in another page. The last two panels of a wide block prefetch the first ones of the rows below, those of others
what may be the next block."""

PACK_ROWS, FEWER_PACK_ROWS = 24, 7
"""The rows of A from which on the first tile copies its panel of B to scratch for the others, if rows of B lie far apart; with
16 registers, whose panels are narrow and read in parts of cache lines, as soon as there is another tile."""

UNROLL = 4
"""The steps of k per iteration of the micro-kernel's loop.

Addresses and branches otherwise take issue slots from the FMAs: 190 against 215 GFLOP/s where registers alone give 230.
"""
UNROLLED_HEIGHT = 4  # lower tiles are few, and their code is not worth compiling


def tile_heights(registers: int, vectors: int) -> int:
    """Returns the largest number of rows whose accumulators, with the B vectors and a broadcast, fit the register file."""
    if registers >= 32:
        return {4: 6, 3: 8, 2: 8, 1: 8}[vectors]
    return {2: 6, 1: 6}[vectors]


def pack_rows(registers: int) -> int:
    """Returns the rows of A from which on a panel is copied by its first tile."""
    return PACK_ROWS if registers >= 32 else FEWER_PACK_ROWS


def panel_vectors(widths: Sequence[int], rows: int, most: int, registers: int, decoding: Decoding | None) -> int:
    """Returns the vectors of a panel, one of `widths` and at most so many; 0 where there are too few columns for one.

    Narrower panels where their tiles, which are taller, are fewer: each of them reads the panel again, where rows lie far
    apart from the second-level cache.
    """
    found = [width for width in widths if width <= most]
    if decoding is not None or rows >= pack_rows(registers):
        found = found[:1]
    return min(found, key=lambda width: -(-rows // tile_heights(registers, width)), default=0)


@dataclass(frozen=True, slots=True)
class Panel:
    """The function that multiplies all rows of A with one panel of `vectors · n` columns of B.

    unit: elements of a row of A are neighbours.  adjacent: instead, those of a column are, one of each row.  gathered: rows of
    A begin at the offsets, in elements, that `ars` points to, which is their distance otherwise.  masked: the last parameter
    says how many columns of the last vector are live.  within: no others are written.  packs: the last parameter is scratch
    for the panel.  registers: of the machine.
    decoding: how B is made floats, if memory holds it in fewer bits; scratch holds the floats.
    """

    element: str
    n: int
    vectors: int
    unit: bool
    registers: int
    masked: bool = False
    packs: bool = False
    gathered: bool = False
    decoding: Decoding | None = None
    adjacent: bool = False
    within: bool = False

    @property
    def name(self) -> str:
        strided = "_gathered" if self.gathered else "" if self.unit else "_adjacent" if self.adjacent else "_strided"
        stored = self.decoding.name if self.decoding is not None else ""
        masked = "_within" if self.within else "_masked" * self.masked
        return f"jn_dot_{self.element}{stored}_{self.vectors}x{self.n}{strided}{masked}{'_packs' * self.packs}"

    @property
    def right(self) -> str:
        """The LLVM type of an element of B in memory."""
        return self.element if self.decoding is None else self.decoding.element

    @property
    def parameters(self) -> list[tuple[str, str]]:
        rows = "ptr" if self.gathered else "i64"
        return [("ptr", "a"), (rows, "ars"), ("i64", "acs"), ("ptr", "b"), ("i64", "ldb"), ("ptr", "c"), ("i64", "ldc"),
                ("i64", "m"), ("i64", "k"), ("i1", "acc"), ("i64", "distance"), *self.decoded,
                *([("i64", "live")] if self.masked else []),
                *([("ptr", "packed")] if self.packs else [])]  # fmt: skip

    def prefetch_distance(self, f: Function, ldb: V, along: V | None = None) -> V:
        """Returns at which distance, in elements, a panel's first tile prefetches B, whose rows are `ldb` apart.

        along: from a panel to the one after the next, where that does not lie in the same rows.
        """
        far = f.icmp("sge", ldb, i64(FAR_BYTES // memory_size_of(self.right)))
        return f.select(far, along or i64(2 * self.vectors * self.n), f.mul(ldb, i64(PREFETCH_ROWS)))

    @property
    def decoded(self) -> list[tuple[str, str]]:
        """The parameters of its decoding."""
        return [] if self.decoding is None else self.decoding.parameters

    @property
    def least_packed(self) -> int:
        """The rows from which on a panel is copied to scratch: what is decoded, as soon as a second tile reads it."""
        return pack_rows(self.registers) if self.decoding is None else tile_heights(self.registers, self.vectors) + 1

    def rows_from(self, f: Function, a: V, ars: V, row: V) -> tuple[V, V]:
        """Returns A and the distance of its rows, or where their offsets lie, for the rows from `row` on."""
        if self.gathered:
            return a, f.gep(ars, row, "i64")
        return f.gep(a, f.binary("mul", row, ars), self.element), ars

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Adds the function, and what it calls, to a module."""
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        if self.packs:
            _pack_and_multiply(f, self)
        else:
            _multiply(f, self)
        module.add(f)


@dataclass(frozen=True, slots=True)
class Columns:
    """The function that multiplies all rows of A with any number of columns of B, panel by panel.

    wide, narrow: panels for whole multiples of their columns, and vector by vector for the rest; one of them may be missing.
    half: a panel half as wide as the wide one, for as many columns of the rest, if there is one.
    tail: instead of these, a panel as wide as the rest, if there is one.
    """

    wide: Panel | None
    narrow: Panel | None
    half: Panel | None = None
    tail: Panel | None = None

    @property
    def name(self) -> str:
        parts = [panel.name.removeprefix("jn_dot_") for panel in self._panels]
        return f"jn_columns_{'_'.join(parts)}"

    @property
    def _panels(self) -> list[Panel]:
        return [panel for panel in (self.wide, self.half, self.narrow, self.tail) if panel is not None]

    @property
    def parameters(self) -> list[tuple[str, str]]:
        names = [each for each in self._panels[0].parameters if each[1] not in ("distance", "live")]
        return [*names[:8], ("i64", "j"), *names[8:]]

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Adds the function, and its panels, to a module."""
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        a, ars, acs, b, ldb, c, ldc, m, j, k, acc, *rest = f.params
        start = i64(0)
        one = self._panels[0]
        decoded, packed = rest[: len(one.decoded)], rest[len(one.decoded) :]

        def call(panel: Panel, column: V, extra: list[V], along: V | None = None) -> None:
            there = [f.gep(b, column, panel.right), ldb, f.gep(c, column, panel.element), ldc]
            here = [] if panel.decoding is None else panel.decoding.from_column(f, decoded, column)
            distance = panel.prefetch_distance(f, ldb, along)
            f.call(module.provide(panel), "void", [a, ars, acs, *there, m, k, acc, distance, *here, *extra])

        if self.wide is not None:
            width = self.wide.vectors * self.wide.n
            start = f.sub(j, f.binary("urem", j, i64(width)))
            after = i64(2 * width)
            is_wide = f.icmp("sgt", start, after)
            below = f.select(is_wide, f.sub(f.mul(k, ldb), start), i64(0))
            with f.loop(0, start, width) as state:
                is_last = f.icmp("sge", f.add(state.index, after), start)
                call(self.wide, state.index, packed, f.add(after, f.select(is_last, below, i64(0))))
        if self.half is not None:
            width = self.half.vectors * self.half.n
            more = f.icmp("sge", f.sub(j, start), i64(width))
            with f.when(more):
                call(self.half, start, [])
            start = f.select(more, f.add(start, i64(width)), start)
        if self.narrow is not None:
            width = self.narrow.n
            with f.loop(start, j, width) as state:
                call(self.narrow, state.index, [f.smin(f.sub(j, state.index), i64(width))])
        if self.tail is not None:
            with f.when(f.icmp("slt", start, j)):
                before = i64((self.tail.vectors - 1) * self.tail.n)
                call(self.tail, start, [f.sub(f.sub(j, start), before)] if self.tail.masked else [])
        f.ret()
        module.add(f)


def _multiply(f: Function, panel: Panel) -> None:
    """Emits a panel. Rows are cut into tiles of two nearly equal heights, so that no ragged tile wastes work."""
    a, ars, acs, b, ldb, c, ldc, m, k, acc, distance, *extra = f.params  # of decoding, then a number of live columns
    element = panel.element
    height = tile_heights(panel.registers, panel.vectors)
    tiles = []
    for rows in range(1, height + 1):
        tile = micro_kernel(f.module, f"{panel.name}_{rows}", panel, rows)
        f.module.add(tile)
        tiles.append(tile.name)
    count = f.binary("udiv", f.add(m, i64(height - 1)), i64(height))
    some = f.icmp("sgt", m, i64(0))
    with f.when(some):
        base = f.binary("udiv", m, count)
        longer = f.binary("urem", m, count)
        with f.loop(i64(0), count) as state:
            row = f.add(f.binary("mul", state.index, base), f.smin(state.index, longer))
            tall = f.cast("zext", f.icmp("slt", state.index, longer), "i64")
            mr = f.add(base, tall)
            first = f.select(f.icmp("eq", state.index, i64(0)), distance, i64(0))
            here = [*panel.rows_from(f, a, ars, row), acs, b, ldb,
                    f.gep(c, f.binary("mul", row, ldc), element), ldc, k, acc, first, *extra]  # fmt: skip
            labels = [f.label("tile") for _ in tiles]
            done = f.label("done")
            cases = " ".join(f"i64 {i + 1}, label %{label}" for i, label in enumerate(labels))
            f.emit(f"switch i64 {mr.operand()}, label %{done} [ {cases} ]")
            for label, called in zip(labels, tiles, strict=True):
                f.start(label)
                f.call(called, "void", here)
                f.branch(done)
            f.start(done)
    f.ret()


def _pack_and_multiply(f: Function, panel: Panel) -> None:
    """Emits a panel whose first tile writes it to scratch, where the others read it. A few rows read it in place."""
    element = panel.element
    height = tile_heights(panel.registers, panel.vectors)
    plain = replace(panel, packs=False)
    tile = micro_kernel(f.module, f"{plain.name}_{height}_packs", panel, height)
    f.module.add(tile)
    f.module.provide(plain)
    widened = replace(plain, decoding=None)
    f.module.provide(widened)
    a, ars, acs, b, ldb, c, ldc, m, k, acc, distance, *decoded, packed = f.params
    many, few, done = f.label("many"), f.label("few"), f.label("done")
    f.cond_branch(f.icmp("sge", m, i64(panel.least_packed)), many, few)
    f.start(many)
    f.call(tile.name, "void", [a, ars, acs, b, ldb, c, ldc, k, acc, distance, *decoded, packed])
    first = i64(height)
    width = i64(panel.vectors * panel.n)
    rest = [*panel.rows_from(f, a, ars, first), acs, packed, width, f.gep(c, f.mul(ldc, first), element), ldc,
            f.sub(m, first), k, acc, widened.prefetch_distance(f, width)]  # fmt: skip
    f.call(widened.name, "void", rest)
    f.branch(done)
    f.start(few)
    f.call(plain.name, "void", [a, ars, acs, b, ldb, c, ldc, m, k, acc, distance, *decoded])
    f.branch(done)
    f.start(done)
    f.ret()


def micro_kernel(module: Module, name: str, panel: Panel, mr: int) -> Function:
    """Returns the function C[mr, vectors · n] (+)= A[mr, k] · B[k, vectors · n], with all of C in registers.

    Masked: `live` columns of B in the last vector. Packs: writes B to `packed`, its rows one after the other.
    """
    element, n, vectors, unit, masked, packs = panel.element, panel.n, panel.vectors, panel.unit, panel.masked, panel.packs
    parameters = [*panel.parameters[:3], ("ptr", "b"), ("i64", "ldb"), ("ptr", "c"), ("i64", "ldc"),
                  ("i64", "k"), ("i1", "acc"), ("i64", "distance"), *panel.decoded, *([("i64", "live")] if masked else []),
                  *([("ptr", "packed")] if packs else [])]  # fmt: skip
    f = Function(module, name, parameters, attributes="nounwind noinline", linkage="internal")
    a, ars, acs, b, ldb, c, ldc, k, acc, distance, *rest = f.params
    decoded, rest = rest[: len(panel.decoded)], rest[len(panel.decoded) :]
    type_ = vector(element, n)
    size, right_size = memory_size_of(element), memory_size_of(panel.right)
    rows = [f.gep(a, f.load("i64", ars, 8), element) if panel.gathered else a]
    results = [c]
    for number in range(1, mr):
        if panel.gathered:
            rows.append(f.gep(a, f.load("i64", f.gep(ars, number, "i64"), 8), element))
        elif panel.adjacent:
            rows.append(a)
        else:
            rows.append(f.gep(rows[-1], ars, element))
        results.append(f.gep(results[-1], ldc, element))
    mask = None
    if masked:
        mask = f.icmp("sgt", f.splat(f.cast("trunc", rest[0], "i32"), n), f.iota(n, "i32"))
    decoder = None if panel.decoding is None else Decoder(f, panel.decoding, decoded, n, vectors, mask)
    start, go, entry = f.label("acc"), f.label("go"), f.block
    f.cond_branch(acc, start, go)
    f.start(start)
    loaded = []
    for row in results:
        loaded.append([f.load(type_, f.gep(row, v * n, element), size) for v in range(vectors - panel.within)])
        if panel.within and mask is not None:
            loaded[-1].append(f.masked_load(type_, f.gep(row, (vectors - 1) * n, element), mask, zero(type_), size))
    f.branch(go)
    f.start(go)
    tile = [
        f.phi(type_, [(zero(type_), entry), (loaded[r][v], start)]) for r in range(mr) for v in range(vectors)
    ]
    zeros = [i64(0), i64(0)]
    width = i64(vectors * n)
    prefetches = f.icmp("ne", distance, i64(0))

    def steps(state: Loop, count: int) -> None:
        """Emits `count` steps of k; the loop carries the tile and the offsets into B and A."""
        *current, b_at, a_at = state.values
        brow = f.gep(b, b_at, panel.right)
        with f.when(prefetches):
            fetched = f.gep(brow, distance, panel.right)
            for step in range(count):
                fetched = f.gep(fetched, ldb, panel.right) if step else fetched
                for v in range(0, vectors, size // right_size):
                    f.prefetch(f.gep(fetched, v * n, panel.right), locality=2)
        at = [f.gep(row, state.index if unit else a_at, element) for row in (rows[:1] if panel.adjacent else rows)]
        for step in range(count):
            if step:
                brow = f.gep(brow, ldb, panel.right)
                at = [f.gep(row, 1 if unit else acs, element) for row in at]
            columns = []
            for v in range(vectors):
                here = f.gep(brow, v * n, panel.right)
                if decoder is not None:
                    columns.append(decoder.load(here, v))
                elif mask is None or v < vectors - 1:
                    columns.append(f.load(type_, here, size))
                else:
                    columns.append(f.masked_load(type_, here, mask, zero(type_), size))
            if packs:
                row = f.add(f.mul(state.index, width), i64(step * vectors * n))
                for v in range(vectors):
                    f.store(columns[v], f.gep(f.gep(rest[-1], row, element), v * n, element), n * size)
            for r in range(mr):
                value = f.splat(f.load(element, f.gep(at[0], r, element) if panel.adjacent else at[r], size), n)
                for v in range(vectors):
                    old = current[r * vectors + v]
                    if element[0] == "i":
                        current[r * vectors + v] = f.binary("add", old, f.binary("mul", value, columns[v]))
                    else:
                        current[r * vectors + v] = f.fma(value, columns[v], old)
        scale = i64(count)
        a_at = a_at if unit else f.add(a_at, f.mul(acs, scale))
        state.next = [*current, f.add(b_at, f.mul(ldb, scale)), a_at]

    unroll = UNROLL if (unit or panel.adjacent) and mr >= UNROLLED_HEIGHT else 1
    bulk = k if unroll == 1 else f.binary("and", k, i64(-unroll))
    with f.loop(0, bulk, unroll, [*tile, *zeros]) as state:
        steps(state, unroll)
    if unroll > 1:
        with f.loop(bulk, k, 1, state.results) as state:
            steps(state, 1)
    ends = []
    for r in range(mr):
        for v in range(vectors):
            found, there = state.results[r * vectors + v], f.gep(results[r], v * n, element)
            if panel.within and mask is not None and v == vectors - 1:
                ends.append((found, there))
            else:
                f.store(found, there, size)
    if ends and mask is not None:
        store_rows(f, ends, rest[0], mask)
    f.ret()
    return f
