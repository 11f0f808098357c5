"""Micro-kernels of 8-bit integers: four steps of k at a time, in the lanes of int32 that the results have.

Processors multiply four bytes of one operand with four of the other and add the products to a lane of int32 (`vpdpbusd`,
`sdot`). So the kernel is that of floats, with four neighbours of a row of A, a *quad*, in the place of an element. Where B
lies in memory one row after the other, its quads are put together once per panel, in scratch, for all rows of A. Constants are
stored in quads (`runtime/storage/weight_packing.py`) and read where they lie. Processors that multiply pairs of int16 alone
have both operands widened to these in scratch, of so few steps that caches hold them (`parts.py`).

Every form is exact: int32 wraps, and no instruction that saturates on the way (`vpmaddubsw`) is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from ......promotion.dataclass import dataclass
from .....target import HostTarget
from ....ir import Function
from ....masks.accesses import load_lanes
from ....module import Module
from ....values import TRUE, V, const, i64, vector, zero
from .rows import QUAD, last_quad

UNROLL = 1
_FLIP = -0x7F7F7F80  # 0x80 in each byte: turns a signed byte into the unsigned one that is 128 more

Form = Literal["vnni", "madd", "sdot", "plain"]
"""vnni: unsigned times signed, so that A is moved by 128 and 128 times the sums of B's columns are taken off again.
madd: pairs of int16 (`vpmaddwd`), of the even bytes and of the odd ones; A's rows are widened before (`rows.py`). sdot: both
signed. plain: four products of int32."""


def form_of(target: HostTarget) -> Form:
    """Return how a processor multiplies bytes, by its features and the width of vectors that code is made for."""
    width = target.vector_bytes
    if target.is_x86:
        if target.multiplies_unsigned:
            return "vnni"
        enough = target.has("avx512bw") if width == 64 else target.has("avx2") if width == 32 else width == 16
        return "madd" if enough else "plain"
    return "sdot" if width == 16 and target.has("dotprod") else "plain"


@dataclass(frozen=True, slots=True)
class Quads:
    """The function that multiplies all rows of A with one panel of `vectors · n` columns of B.

    gathered: rows of A begin at the offsets that `ars` points to, which is their distance otherwise. ragged: of the panel's
    columns only `live` may be read; the others count as zeros. packed: scratch of `scratch_bytes`. stored: the columns of the
    rows of quads that B lies in; 0 where it lies row by row. Its rows end with zeros up to a whole quad. repeated: the product
    is the sum of `times` products, whose operands are `a_step` and `b_step` bytes apart, with sums in registers; B is stored.
    moved: in the form vnni, memory holds A's bytes moved by 128 already, as unsigned ones. In the form madd A is what
    `WidenedRows` writes, and `ars` and `a_step` are the bytes between its rows and operands. few: rows are so few that panels
    are not widened in scratch.
    """

    form: Form
    n: int
    vectors: int
    registers: int
    gathered: bool = False
    ragged: bool = False
    stored: int = 0
    repeated: bool = False
    moved: bool = False
    few: bool = False

    @property
    def widens(self) -> bool:
        """Whether panels are widened to pairs of int16 in scratch."""
        return self.form == "madd" and not self.few

    @property
    def width(self) -> int:
        return self.vectors * self.n

    @property
    def column_bytes(self) -> int:
        """The bytes from one column of B to the next."""
        return QUAD if self.stored else 1

    @property
    def name(self) -> str:
        flags = ("gathered", "ragged", "repeated", "moved", "few")
        kinds = "".join([f"_{flag}" for flag in flags if getattr(self, flag)])
        return f"jn_quads_{self.form}_{self.vectors}x{self.n}{kinds}" + (f"_stored{self.stored}" if self.stored else "")

    @property
    def parameters(self) -> list[tuple[str, str]]:
        rows = "ptr" if self.gathered else "i64"
        return [("ptr", "a"), (rows, "ars"), ("ptr", "b"), ("i64", "ldb"), ("ptr", "c"), ("i64", "ldc"), ("i64", "m"),
                ("i64", "k"), ("i1", "acc"), ("ptr", "packed"), ("i64", "live"), *self._repetition]  # fmt: skip

    @property
    def _repetition(self) -> list[tuple[str, str]]:
        return [("i64", "times"), ("i64", "a_step"), ("i64", "b_step")] if self.repeated else []

    @property
    def height(self) -> int:
        """The most rows of a tile whose sums, with B's vectors and a quad of A, fit the registers."""
        if self.registers >= 32:
            return {4: 6, 2: 8, 1: 8}[self.vectors]
        if self.form == "madd":
            return 6 if self.n > 4 else 4  # SSE's instructions write over an operand, which has to be copied
        return 4 if self.form == "vnni" else 3

    def scratch_bytes(self, depth: int) -> int:
        """Return the bytes of a panel of `depth` rows: what is taken off, then the quads."""
        if self.stored and not self.widens:
            return 4 * self.width
        return self.width * (4 + (1 + self.widens) * QUAD * -(-depth // QUAD))

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Add the function, and what it calls, to a module."""
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        a, ars, b, ldb, c, ldc, m, k, acc, packed, live, *repetition = f.params
        if self.stored:
            if self.form == "vnni":
                self._sum(f, b, k, packed, repetition)
            if self.widens:
                repetition = self._widen(f, b, k, packed, repetition)
        elif self.ragged:
            whole, cut, done = f.label("whole"), f.label("cut"), f.label("packed")
            f.cond_branch(f.icmp("sge", live, i64(self.width)), whole, cut)
            for label, limit in ((whole, None), (cut, live)):
                f.start(label)
                self._pack(f, b, ldb, k, packed, limit)
                f.branch(done)
            f.start(done)
        else:
            self._pack(f, b, ldb, k, packed, None)
        quads = b if self.stored and not self.widens else f.gep(packed, 4 * self.width)
        self._tiles(f, [a, ars, c, ldc, k, acc, packed, quads, *repetition], m)
        f.ret()
        module.add(f)

    # -- B ------------------------------------------------------------------

    def _sum(self, f: Function, quads: V, k: V, packed: V, repetition: Sequence[V]) -> None:
        """Emit what writes 128 times the sums of the columns of stored quads."""
        type_, moved = vector("i32", self.n), f.splat(const(_FLIP, "i32"), self.n)

        def summed(first: V, sums: list[V]) -> list[V]:
            with f.loop(0, k, QUAD, sums) as state:
                row = f.gep(first, f.mul(state.index, i64(self.stored)))
                parts = [f.load(type_, f.gep(row, 4 * v * self.n), 1) for v in range(self.vectors)]
                state.next = [
                    _sum_of_products(f, self.form, total, (moved,), (part,), self.n)
                    for total, part in zip(state.values, parts, strict=True)
                ]
            return state.results

        start = [zero(type_)] * self.vectors
        found = self._repeatedly(f, repetition, start, lambda _, step, sums: summed(f.gep(quads, step), sums))
        for v, total in enumerate(found):
            f.store(total, f.gep(packed, 4 * v * self.n), 4)

    def _widen(self, f: Function, quads: V, k: V, packed: V, repetition: list[V]) -> list[V]:
        """Emit what writes stored quads as pairs of int16; return the repetition of a product with these."""
        times, b_step = (repetition[0], repetition[2]) if repetition else (i64(1), i64(0))
        target = f.gep(packed, 4 * self.width)
        whole = f.mul(f.binary("and", f.add(k, i64(QUAD - 1)), i64(-QUAD)), i64(2 * self.width))
        with f.loop(0, times) as matrix:
            source, into = f.gep(quads, f.mul(matrix.index, b_step)), f.gep(target, f.mul(matrix.index, whole))
            with f.loop(0, k, QUAD) as state:
                row = f.gep(source, f.mul(state.index, i64(self.stored)))
                parts = [f.load(vector("i32", self.n), f.gep(row, 4 * v * self.n), 1) for v in range(self.vectors)]
                self._store_halves(f, parts, f.gep(into, f.mul(state.index, i64(2 * self.width))))
        return [*repetition[:-1], whole] if repetition else repetition

    def _store_halves(self, f: Function, parts: Sequence[V], at: V) -> None:
        """Emit what writes a row of quads as pairs of int16: those of the even bytes of all columns, then the others."""
        for v, part in enumerate(parts):
            for half, pairs in enumerate(_prepared(f, self.form, part, self.n)):
                f.store(pairs, f.gep(at, 4 * (half * self.width + v * self.n)), 4)

    @staticmethod
    def _repeatedly(f: Function, repetition: Sequence[V], sums: list[V], once: Callable[[V, V, list[V]], list[V]]) -> list[V]:
        """Return what `once` makes of sums, or what it makes repeatedly, of how far on both operands are."""
        if not repetition:
            return once(i64(0), i64(0), sums)
        times, a_step, b_step = repetition
        with f.loop(0, times, 1, sums) as state:
            state.next = once(f.mul(state.index, a_step), f.mul(state.index, b_step), list(state.values))
        return state.results

    def _pack(self, f: Function, b: V, ldb: V, k: V, packed: V, live: V | None) -> None:
        """Emit what writes the quads of B, and before them 128 times the sums of the columns where A is moved by 128."""
        masks: list[V | None] = [None] * self.vectors
        if live is not None:
            columns = f.splat(f.cast("trunc", live, "i32"), self.n)
            masks = [
                f.icmp("sgt", f.binary("sub", columns, f.splat(const(v * self.n, "i32"), self.n)), f.iota(self.n, "i32"))
                for v in range(self.vectors)
            ]
        quads = f.gep(packed, 4 * self.width)
        sums = [zero(vector("i32", self.n))] * (self.vectors if self.form == "vnni" else 0)
        bytes_type = vector("i8", self.n)
        bulk = f.binary("and", k, i64(-QUAD))

        def quad(at: V, sums: list[V], rows: list[V], valid: list[V]) -> list[V]:
            """Emit one row of quads, at step `at`, of four rows of B, of which those that are not valid are zeros."""
            found: list[V] = []
            wholes: list[V] = []
            for v, mask in enumerate(masks):
                parts = []
                for row, holds in zip(rows, valid, strict=True):
                    here = f.gep(row, v * self.n)
                    nothing = zero(bytes_type)
                    part = f.load(bytes_type, here) if mask is None else load_lanes(f, bytes_type, here, mask, 1)
                    parts.append(part if holds is TRUE else f.select(holds, part, nothing))
                whole = _interleaved(f, parts, self.n)
                if self.widens:
                    wholes.append(whole)
                else:
                    f.store(whole, f.gep(f.gep(quads, f.mul(at, i64(self.width))), v * 4 * self.n), 4)
                if sums:
                    moved = f.splat(const(_FLIP, "i32"), self.n)
                    found.append(_sum_of_products(f, self.form, sums[v], (moved,), (whole,), self.n))
            if self.widens:
                self._store_halves(f, wholes, f.gep(quads, f.mul(at, i64(2 * self.width))))
            return found

        with f.loop(0, bulk, QUAD, sums) as state:
            rows = [f.gep(b, f.mul(state.index, ldb))]
            for _ in range(QUAD - 1):
                rows.append(f.gep(rows[-1], ldb))
            state.next = quad(state.index, state.values, rows, [TRUE] * QUAD)
        sums, before = state.results, f.block
        tail, done = f.label("tail"), f.label("summed")
        f.cond_branch(f.icmp("slt", bulk, k), tail, done)
        f.start(tail)
        last = f.sub(k, i64(1))
        steps = [f.add(bulk, i64(step)) for step in range(QUAD)]
        rows = [f.gep(b, f.mul(f.smin(step, last), ldb)) for step in steps]
        tail_sums = quad(bulk, sums, rows, [f.icmp("slt", step, k) for step in steps])
        tail_end = f.block
        f.branch(done)
        f.start(done)
        for v, (one, other) in enumerate(zip(sums, tail_sums, strict=True)):
            total = f.phi(one.type, [(one, before), (other, tail_end)])
            sums[v] = total
        for v, total in enumerate(sums):
            f.store(total, f.gep(packed, 4 * v * self.n), 4)

    # -- rows of A ------------------------------------------------------------

    def _tiles(self, f: Function, common: list[V], m: V) -> None:
        """Emit the loop over tiles of rows, of two nearly equal heights."""
        a, ars, c, ldc, k, acc, packed, quads, *repetition = common
        tiles = []
        for rows in range(1, self.height + 1):
            tile = self._micro_kernel(f.module, rows)
            f.module.add(tile)
            tiles.append(tile.name)
        height = i64(self.height)
        count = f.binary("udiv", f.add(m, i64(self.height - 1)), height)
        with f.when(f.icmp("sgt", m, i64(0))):
            base, longer = f.binary("udiv", m, count), f.binary("urem", m, count)
            with f.loop(i64(0), count) as state:
                row = f.add(f.binary("mul", state.index, base), f.smin(state.index, longer))
                tall = f.cast("zext", f.icmp("slt", state.index, longer), "i64")
                first = [a, f.gep(ars, row, "i64")] if self.gathered else [f.gep(a, f.binary("mul", row, ars)), ars]
                here = [*first, f.gep(c, f.binary("mul", row, ldc), "i32"), ldc, k, acc, packed, quads, *repetition]
                labels, done = [f.label("tile") for _ in tiles], f.label("done")
                cases = " ".join(f"i64 {i + 1}, label %{label}" for i, label in enumerate(labels))
                f.emit(f"switch i64 {f.add(base, tall).operand()}, label %{done} [ {cases} ]")
                for label, called in zip(labels, tiles, strict=True):
                    f.start(label)
                    f.call(called, "void", here)
                    f.branch(done)
                f.start(done)

    def _micro_kernel(self, module: Module, mr: int) -> Function:
        """Return the function C[mr, width] (+)= A[mr, k] · panel, with all of C in registers."""
        rows_type = "ptr" if self.gathered else "i64"
        parameters = [("ptr", "a"), (rows_type, "ars"), ("ptr", "c"), ("i64", "ldc"), ("i64", "k"), ("i1", "acc"),
                      ("ptr", "packed"), ("ptr", "quads"), *self._repetition]  # fmt: skip
        f = Function(module, f"{self.name}_{mr}", parameters, attributes="nounwind noinline", linkage="internal")
        a, ars, c, ldc, k, acc, packed, quads, *repetition = f.params
        type_ = vector("i32", self.n)
        rows = [f.gep(a, f.load("i64", ars, 8)) if self.gathered else a]
        results = [c]
        for number in range(1, mr):
            following = f.gep(a, f.load("i64", f.gep(ars, number, "i64"), 8)) if self.gathered else f.gep(rows[-1], ars)
            rows.append(following)
            results.append(f.gep(results[-1], ldc, "i32"))
        start, go, entry = f.label("acc"), f.label("go"), f.block
        f.cond_branch(acc, start, go)
        f.start(start)
        loaded = [f.load(type_, f.gep(row, v * self.n, "i32"), 4) for row in results for v in range(self.vectors)]
        f.branch(go)
        f.start(go)
        tile = [f.phi(type_, [(zero(type_), entry), (each, start)]) for each in loaded]
        if self.form == "vnni":
            extra = [f.load(type_, f.gep(packed, 4 * v * self.n), 4) for v in range(self.vectors)]
            tile = [f.sub(each, extra[number % self.vectors]) for number, each in enumerate(tile)]

        def once(a_step: V, b_step: V, tile: list[V]) -> list[V]:
            return self._products(f, [f.gep(row, a_step) for row in rows], f.gep(quads, b_step), k, tile)

        total = self._repeatedly(f, repetition, tile, once)
        for r in range(mr):
            for v in range(self.vectors):
                f.store(total[r * self.vectors + v], f.gep(results[r], v * self.n, "i32"), 4)
        f.ret()
        return f

    def _products(self, f: Function, rows: Sequence[V], quads: V, k: V, tile: list[V]) -> list[V]:
        """Return sums plus the products of rows of A with the quads of a panel."""
        if self.form == "madd":
            return self._products_of_pairs(f, rows, quads, k, tile)
        type_ = vector("i32", self.n)

        def step(at: V, tile: list[V], taken: list[V] | None) -> list[V]:
            """Emit the products of one quad of every row, at step `at` of k. taken: these, where they are not in memory."""
            panel = f.gep(quads, f.mul(at, i64(self.stored or self.width)))
            known = 1 if self.stored else 4  # a text may keep its quads anywhere
            columns = [
                _prepared(f, self.form, f.load(type_, f.gep(panel, 4 * v * self.n), known), self.n) for v in range(self.vectors)
            ]
            found: list[V] = []
            for r, row in enumerate(rows):
                if r >= 2 and taken is None and self.form == "vnni":
                    row = after(f, row, found[-self.vectors - 1])
                spread = f.splat(f.load("i32", f.gep(row, at), 1) if taken is None else taken[r], self.n)
                if self.form == "vnni" and not self.moved:
                    spread = f.binary("xor", spread, f.splat(const(_FLIP, "i32"), self.n))
                factors = _prepared(f, self.form, spread, self.n)
                found += [
                    _sum_of_products(f, self.form, tile[r * self.vectors + v], factors, columns[v], self.n)
                    for v in range(self.vectors)
                ]
            return found

        def steps(low: V | int, high: V, count: int, tile: list[V]) -> list[V]:
            with f.loop(low, high, count * QUAD, tile) as state:
                current = list(state.values)
                for number in range(count):
                    at = f.add(state.index, i64(number * QUAD))
                    current = step(at, current, None)
                state.next = current
            return state.results

        bulk = f.binary("and", k, i64(-QUAD))
        if len(rows) >= 4:
            unrolled = f.binary("and", k, i64(-QUAD * UNROLL))
            tile = steps(0, unrolled, UNROLL, tile)
            tile = steps(unrolled, bulk, 1, tile)
        else:
            tile = steps(0, bulk, 1, tile)
        before, tail, done = f.block, f.label("tail"), f.label("stores")
        f.cond_branch(f.icmp("slt", bulk, k), tail, done)
        f.start(tail)
        longer = step(bulk, tile, [last_quad(f, row, bulk, k) for row in rows])
        tail_end = f.block
        f.branch(done)
        f.start(done)
        return [f.phi(type_, [(one, before), (other, tail_end)]) for one, other in zip(tile, longer, strict=True)]

    def _products_of_pairs(self, f: Function, rows: Sequence[V], quads: V, k: V, tile: list[V]) -> list[V]:
        """Return what `_products` does, of widened rows, whose last quads are whole."""
        distance = 2 * self.width if self.widens else self.stored or self.width
        with f.loop(0, k, QUAD, tile) as state:
            panel = f.gep(quads, f.mul(state.index, i64(distance)))
            sums = list(state.values)
            for half in range(2):
                columns = self._halves_of_columns(f, panel, half)
                for r, row in enumerate(rows):
                    at = f.gep(f.gep(row, f.mul(state.index, i64(2))), 4 * half)
                    pair = f.bitcast(f.splat(f.load("i32", at, 1), self.n), vector("i16", 2 * self.n))
                    of_row = slice(r * self.vectors, (r + 1) * self.vectors)
                    added = [
                        _sum_of_products(f, self.form, total, (pair,), (column,), self.n)
                        for total, column in zip(sums[of_row], columns, strict=True)
                    ]
                    sums[of_row] = before_loads(f, added)
            state.next = sums
        return state.results

    def _halves_of_columns(self, f: Function, panel: V, half: int) -> list[V]:
        """Return the pairs of even or odd bytes of a row of quads."""
        if self.widens:
            type_ = vector("i16", 2 * self.n)
            return [f.load(type_, f.gep(panel, 4 * (half * self.width + v * self.n)), 4) for v in range(self.vectors)]
        parts = [f.load(vector("i32", self.n), f.gep(panel, 4 * v * self.n), 1) for v in range(self.vectors)]
        return [_prepared(f, self.form, part, self.n)[half] for part in parts]


def after(f: Function, pointer: V, sums: V) -> V:
    """Return a pointer as if it depended on sums, without an instruction.

    LLVM otherwise loads the quads of all rows before it multiplies any, for which the registers are too few.
    """
    return f.pure(f'call ptr asm "", "=r,0,v"(ptr {pointer.operand()}, {sums.type} {sums.operand()})', "ptr")


def before_loads(f: Function, values: Sequence[V]) -> list[V]:
    """Return values that are there before anything is loaded that comes after them, without an instruction.

    LLVM otherwise adds products later that it forms now, for which the registers are too few.
    """
    types = ", ".join(value.type for value in values)
    said = ",".join(["=v"] * len(values) + [str(number) for number in range(len(values))])
    given = ", ".join(f"{value.type} {value.operand()}" for value in values)
    made = f"{{ {types} }}" if len(values) > 1 else types
    found = f.op(f'call {made} asm sideeffect "", "{said},~{{memory}}"({given})', made)
    if len(values) == 1:
        return [found]
    return [f.op(f"extractvalue {made} {found.operand()}, {number}", value.type) for number, value in enumerate(values)]


def _interleaved(f: Function, rows: list[V], n: int) -> V:
    """Return the quads of four vectors of n bytes: lane i has the i-th byte of each."""
    pairs = [(i // 2) + (i % 2) * n for i in range(2 * n)]
    low, high = (f.bitcast(f.shuffle(rows[i], rows[i + 1], pairs), vector("i16", n)) for i in (0, 2))
    return f.bitcast(f.shuffle(low, high, pairs), vector("i32", n))


def _prepared(f: Function, form: Form, quads: V, n: int) -> tuple[V, ...]:
    """Return a vector of quads as the parts that the instruction multiplies."""
    if form in ("vnni", "sdot"):
        return (quads,)
    if form == "madd":
        pairs, eight = f.bitcast(quads, vector("i16", 2 * n)), f.splat(const(8, "i16"), 2 * n)
        return f.binary("ashr", f.binary("shl", pairs, eight), eight), f.binary("ashr", pairs, eight)
    high = f.splat(const(24, "i32"), n)
    left = [f.binary("shl", quads, f.splat(const(24 - 8 * number, "i32"), n)) for number in range(QUAD - 1)]
    left.append(quads)
    return tuple([f.binary("ashr", part, high) for part in left])


def _sum_of_products(f: Function, form: Form, total: V, a: tuple[V, ...], b: tuple[V, ...], n: int) -> V:
    """Return the sums plus the products of the bytes of two vectors of quads, of which A's are unsigned in the form vnni."""
    if form == "vnni":
        bytes_type = vector("i8", QUAD * n)
        name = f"llvm.x86.avx512.vpdpbusd.{32 * n}"
        return f.target_intrinsic(name, [total, f.bitcast(a[0], bytes_type), f.bitcast(b[0], bytes_type)], total.type)
    if form == "sdot":
        bytes_type = vector("i8", QUAD * n)
        name = "llvm.aarch64.neon.sdot.v4i32.v16i8"
        return f.target_intrinsic(name, [total, f.bitcast(a[0], bytes_type), f.bitcast(b[0], bytes_type)], total.type)
    for one, other in zip(a, b, strict=True):
        if form == "madd":
            name = {16: "llvm.x86.avx512.pmaddw.d.512", 8: "llvm.x86.avx2.pmadd.wd", 4: "llvm.x86.sse2.pmadd.wd"}[n]
            product = f.target_intrinsic(name, [one, other], total.type)
        else:
            product = f.binary("mul", one, other)
        total = f.add(total, product)
    return total
