"""Micro-kernels of bfloat16: two steps of k at a time, in the lanes of float32 that the results have (`vdpbf16ps`).

The instruction multiplies a pair of bfloat16 of one operand with one of the other and adds both products to a lane of float32:
two fused multiply-adds, the upper product first, each rounded to nearest even. So the kernel is that of floats, with two
neighbours of a row of A, a *pair*, in the place of an element. The first tile of rows puts the rows of B in pairs as it
multiplies; the other tiles read these in scratch. Where columns of B have their elements side by side, pairs lie in memory,
and are transposed into scratch before (`across_pairs.py`).

The instruction takes denormal numbers for zeros, and makes zeros of sums below 2^-126. Sums that this may have changed by more
than a rounding are found, and formed again without it (`pair_checks.py`).
"""

from __future__ import annotations

from .....promotion.dataclass import dataclass
from ...ir import Function
from ...module import Module
from ...values import V, const, i64, vector, zero
from .across_pairs import STEPS, pack_across
from .int8.quads import after
from .pair_checks import Header, PairChecks, limits_of

PAIR = 2
LANES = 16
"""Floats of a register: only the form of 512 bits is used."""
HALF = 2 * LANES
"""Columns of a register of bfloat16: two of its registers, of two rows, make two of pairs."""
PREFETCH_ROWS = 32
"""How many rows of B ahead the first tile fetches."""
PREFETCH_COLUMNS, FAR_ROWS = 128, 1024
"""How many columns ahead it fetches instead where rows of B are so far apart: those of the panel after the next, in the same
pages. 32 rows ahead every line is in another page."""
TALLEST, TALLEST_READING, READS_IN_PLACE = 6, 5, 4
"""Rows of tiles: of those that read pairs; of those that make them, which also keep what limits are made of in registers; and
of those whose pairs no other tile needs."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """The function that multiplies all rows of A with one panel of `vectors · 16` columns of B.

    Rows of A and B have their elements side by side. gathered: rows of A begin at the offsets that `ars` points to, which is
    their distance otherwise. Of the panel's columns only `live` are read; the others count as zeros. packed: scratch of
    `scratch_bytes`. Distances and offsets are in elements. across: B's columns have their elements side by side, and `ldb` is
    their distance. paired: A is in pairs, one of each row side by side, and `ars` is how many pairs there are from two
    steps of k to the next two (`across_pairs.py`).
    """

    vectors: int
    gathered: bool = False
    across: bool = False
    paired: bool = False

    @property
    def width(self) -> int:
        return self.vectors * LANES

    @property
    def column_bytes(self) -> int:
        """The bytes from one column of B to the next."""
        return 2

    @property
    def name(self) -> str:
        return f"jn_pairs_{self.vectors}x{LANES}{'_gathered' * self.gathered}{'_across' * self.across}{'_paired' * self.paired}"

    @property
    def parameters(self) -> list[tuple[str, str]]:
        rows = "ptr" if self.gathered else "i64"
        return [("ptr", "a"), (rows, "ars"), ("ptr", "b"), ("i64", "ldb"), ("ptr", "c"), ("i64", "ldc"), ("i64", "m"),
                ("i64", "k"), ("i1", "acc"), ("ptr", "packed"), ("i64", "live")]  # fmt: skip

    @property
    def header(self) -> Header:
        return Header(self.width)

    def scratch_bytes(self, depth: int) -> int:
        """Return the bytes of a panel of `depth` rows: what checks need, then the pairs."""
        steps = -(-depth // STEPS) * STEPS if self.across else depth
        return self.header.bytes + self.width * 4 * -(-steps // PAIR)

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Add the function, and what it calls, to a module."""
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        a, ars, b, ldb, c, ldc, m, k, acc, packed, live = f.params
        first = [] if self.across else [self._tile(module, rows, True) for rows in range(1, TALLEST_READING + 1)]
        rest = [self._tile(module, rows, False) for rows in range(1, TALLEST + 1)]

        def call(tiles: list[Function], rows: V, row: V) -> None:
            """Emit the call of the tile with so many rows, from a row on."""
            here = [*self._rows_from(f, a, ars, row), b, ldb, f.gep(c, f.mul(row, ldc), "float"), ldc, k, acc, packed, live]
            labels, done = [f.label("tile") for _ in tiles], f.label("done")
            cases = " ".join(f"i64 {number + 1}, label %{label}" for number, label in enumerate(labels))
            f.emit(f"switch i64 {rows.operand()}, label %{done} [ {cases} ]")
            for label, tile in zip(labels, tiles, strict=True):
                f.start(label)
                f.call(tile.name, "void", here)
                f.branch(done)
            f.start(done)

        made = i64(0)
        if self.across:
            pack_across(f, self.header, (b, ldb, k, live), packed)
        else:
            made = f.smin(m, i64(TALLEST_READING))
            call(first, made, i64(0))
        left = f.sub(m, made)
        with f.when(f.icmp("sgt", left, i64(0))):  # in tiles of two nearly equal heights
            count = f.binary("udiv", f.add(left, i64(TALLEST - 1)), i64(TALLEST))
            base, longer = f.binary("udiv", left, count), f.binary("urem", left, count)
            with f.loop(0, count) as state:
                tall = f.cast("zext", f.icmp("slt", state.index, longer), "i64")
                before = f.add(f.mul(state.index, base), f.smin(state.index, longer))
                call(rest, f.add(base, tall), f.add(made, before))
        f.ret()
        module.add(f)

    def _rows_from(self, f: Function, a: V, ars: V, row: V) -> tuple[V, V]:
        if self.gathered:
            return a, f.gep(ars, row, "i64")
        return f.gep(a, row, "i32") if self.paired else f.gep(a, f.mul(row, ars), "i16"), ars

    # -- tiles ----------------------------------------------------------------

    def _tile(self, module: Module, mr: int, makes: bool) -> Function:
        """Add the function C[mr, width] (+)= A[mr, k] · panel, with all sums in registers, and return it.

        makes: it reads rows of B, and leaves what checks of the panel need; the pairs, too, if other tiles read them.
        """
        parameters = [each for each in self.parameters if each[1] != "m"]
        name = f"{self.name}_{mr}{'_makes' * makes}"
        f = Function(module, name, parameters, attributes="nounwind noinline", linkage="internal")
        a, ars, b, ldb, c, ldc, k, acc, packed, live = f.params
        type_, width, header = vector("float", LANES), self.width, self.header
        rows = [f.gep(a, f.load("i64", ars, 8), "i16") if self.gathered else a]
        for number in range(1, mr):
            if self.gathered:
                rows.append(f.gep(a, f.load("i64", f.gep(ars, number, "i64"), 8), "i16"))
            else:
                rows.append(f.gep(a, number, "i32") if self.paired else f.gep(rows[-1], ars, "i16"))
        pairs = f.gep(packed, header.bytes)
        source = _Rows(f, self.vectors, live) if makes else None
        count = mr * self.vectors
        far = f.icmp("sge", ldb, i64(FAR_ROWS))
        distance = f.select(far, i64(PREFETCH_COLUMNS), f.mul(ldb, i64(PREFETCH_ROWS)))

        def columns(at: V, state: list[V], last: bool) -> tuple[list[V], list[V]]:
            """Emit B's vectors of pairs from step `at` of k on, and what is known of its elements then."""
            here = f.gep(pairs, f.mul(at, i64(2 * width)))
            if source is None:
                return [f.load(type_, f.gep(here, 4 * LANES * v), 4) for v in range(self.vectors)], state
            upper = f.gep(b, f.mul(at, ldb), "i16")
            lower = None if last else f.gep(upper, ldb, "i16")
            if lower is not None:
                for row in (upper, lower):
                    fetched = f.gep(row, distance, "i16")
                    for v in range(0, self.vectors, 2):
                        f.prefetch(f.gep(fetched, v * LANES, "i16"), locality=2)
            made, state = source.pairs(upper, lower, state)
            if mr > READS_IN_PLACE:
                for v, one in enumerate(made):
                    f.store(one, f.gep(here, 4 * LANES * v), 4)
            return made, state

        def step(at: V, state: list[V], taken: list[V] | None) -> list[V]:
            """Emit the products of one pair of every row. taken: the last elements, where k is odd."""
            tile = state[:count]
            right, seen = columns(at, state[count:], taken is not None)
            found: list[V] = []
            first = f.gep(a, f.mul(f.binary("lshr", at, i64(1)), ars), "i32") if self.paired else None
            for r, row in enumerate(rows):
                start = row if first is None else first
                if r >= 2 and taken is None:
                    start = after(f, start, found[-self.vectors - 1])
                here = f.gep(start, at, "i16") if first is None else f.gep(start, r, "i32")
                pair = f.load("i32", here, 2) if taken is None else taken[r]
                spread = f.splat(pair, LANES)
                found += [_product(f, tile[r * self.vectors + v], spread, right[v]) for v in range(self.vectors)]
            return [*found, *seen]

        start = [zero(type_)] * count + ([] if source is None else source.start())
        bulk = f.binary("and", k, i64(-PAIR))
        with f.loop(0, bulk, PAIR, start) as loop:
            loop.next = step(loop.index, loop.values, None)
        before, odd, done = f.block, f.label("odd"), f.label("summed")
        f.cond_branch(f.icmp("slt", bulk, k), odd, done)
        f.start(odd)
        if self.paired:
            end_of_a = f.gep(a, f.mul(f.binary("lshr", bulk, i64(1)), ars), "i32")
            last = [f.load("i32", f.gep(end_of_a, r, "i32"), 4) for r in range(mr)]
        else:
            last = [f.cast("zext", f.load("i16", f.gep(row, bulk, "i16"), 2), "i32") for row in rows]
        longer = step(bulk, loop.results, last)
        end = f.block
        f.branch(done)
        f.start(done)
        state = [f.phi(one.type, [(one, before), (two, end)]) for one, two in zip(loop.results, longer, strict=True)]
        if source is not None:
            limits_of(f, header, packed, k, source.known(state[count:]))
        sums = state[:count] if self.across else _in_order(f, state[:count], self.vectors)
        self._store(f, sums, mr, (a, ars, b, ldb, k, packed, live), (c, ldc, acc))
        f.ret()
        module.add(f)
        return f

    def _store(self, f: Function, sums: list[V], mr: int, operands: tuple[V, ...], result: tuple[V, V, V]) -> None:
        """Emit the check of all sums, and what adds them to C, or stores them."""
        c, ldc, acc = result
        type_, header, packed = vector("float", LANES), self.header, operands[5]
        limits = [f.load(type_, f.gep(packed, header.limit(v)), 4) for v in range(self.vectors)]
        holds = None
        for number, one in enumerate(sums):
            known = f.fcmp("oge", f.intrinsic("fabs", [one]), limits[number % self.vectors])
            holds = known if holds is None else f.binary("and", holds, known)
        assert holds is not None
        every = f.icmp("eq", f.bitcast(holds, f"i{LANES}"), const(-1, f"i{LANES}"))
        before, doubtful, done = f.block, f.label("doubtful"), f.label("right")
        f.cond_branch(every, done, doubtful)
        f.start(doubtful)
        kept = f.alloca("float", mr * self.width, 64)
        pointers = [f.gep(kept, number * LANES, "float") for number in range(len(sums))]
        for pointer, one in zip(pointers, sums, strict=True):
            f.store(one, pointer, 4)
        checks = PairChecks(self.vectors, self.gathered, self.across, self.paired)
        f.call(f.module.provide(checks), "void", [*operands, kept, i64(mr)])
        again = [f.load(type_, pointer, 4) for pointer in pointers]
        end = f.block
        f.branch(done)
        f.start(done)
        sums = [f.phi(type_, [(one, before), (two, end)]) for one, two in zip(sums, again, strict=True)]
        rows = [c]
        for _ in range(1, mr):
            rows.append(f.gep(rows[-1], ldc, "float"))
        pointers = [f.gep(row, v * LANES, "float") for row in rows for v in range(self.vectors)]
        every = f.splat(acc, LANES)
        for pointer, one in zip(pointers, sums, strict=True):
            start = f.masked_load(type_, pointer, every, zero(type_), 4)
            f.store(f.binary("fadd", start, one), pointer, 4)


class _Rows:
    """Emits the pairs of two rows of B, and what is known of all elements of a column so far.

    That is, of twice their bits, in which the sign is lost, the largest, and the least of those that are not zero, less one.
    """

    def __init__(self, f: Function, vectors: int, live: V) -> None:
        self._f = f
        self._lanes = min(vectors * LANES, HALF)
        self._type = vector("i16", self._lanes)
        count = f.cast("trunc", f.smin(live, i64(vectors * LANES)), "i16")
        self._masks = [
            f.icmp("sgt", f.splat(f.sub(count, const(start, "i16")), self._lanes), f.iota(self._lanes, "i16"))
            for start in range(0, vectors * LANES, HALF)
        ]

    def start(self) -> list[V]:
        return [zero(self._type), self._f.splat(const(-1, "i16"), self._lanes)] * len(self._masks)

    def known(self, state: list[V]) -> list[tuple[V, V]]:
        """Return the largest and the least of each of its registers."""
        return list(zip(state[::2], state[1::2], strict=True))

    def pairs(self, upper: V, lower: V | None, state: list[V]) -> tuple[list[V], list[V]]:
        """Emit the vectors of pairs of two rows, of which the second may be missing, and what is known with them."""
        f, n, made, known = self._f, self._lanes, list[V](), list[V]()
        for number, mask in enumerate(self._masks):
            largest, least = state[2 * number : 2 * number + 2]
            rows = [zero(self._type)] * 2
            for index, row in enumerate((upper, lower)):
                if row is not None:
                    rows[index] = f.masked_load(self._type, f.gep(row, number * HALF, "i16"), mask, zero(self._type), 2)
                    twice = f.add(rows[index], rows[index])
                    largest = f.intrinsic("umax", [largest, twice])
                    least = f.intrinsic("umin", [least, f.add(twice, f.splat(const(-1, "i16"), n))])
            known += [largest, least]
            made += [f.bitcast(f.shuffle(rows[0], rows[1], order), vector("float", LANES)) for order in _orders(n)]
        return made, known


def _orders(lanes: int) -> list[list[int]]:
    """Return which elements of two rows the vectors of pairs have: those that x86 interleaves within 128 bits."""
    if lanes == LANES:
        return [[i // 2 + i % 2 * lanes for i in range(2 * lanes)]]
    low = [8 * (i // 8) + i % 8 // 2 + i % 2 * lanes for i in range(lanes)]
    return [low, [each + 4 for each in low]]


def _in_order(f: Function, sums: list[V], vectors: int) -> list[V]:
    """Return sums with columns in their order, from those of vectors of pairs."""
    if vectors == 1:
        return sums
    found = []
    for low, high in zip(sums[::2], sums[1::2], strict=True):
        for start in (0, 8):
            order = [start + 4 * (i // 8) + i % 4 + i % 8 // 4 * LANES for i in range(LANES)]
            found.append(f.shuffle(low, high, order))
    return found


def _product(f: Function, total: V, pair: V, pairs: V) -> V:
    operands = [total, *[f.bitcast(each, vector("bfloat", HALF)) for each in (pairs, pair)]]
    return f.target_intrinsic("llvm.x86.avx512bf16.dpbf16ps.512", operands, total.type)
