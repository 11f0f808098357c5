"""Finds the sums of pairs of bfloat16 that `vdpbf16ps` may have changed by flushing numbers, and forms those again in float32.

The instruction takes operands below 2^-126 for zeros and makes zeros of sums below 2^-126. In a sum of k products a·b with no
denormal b, each step so loses less than 2^-126, and each denormal a less than 2^-126 |b|:

    |error| <= k · 2^-126 · (1 + max |b|)    beside the roundings of k fused multiply-adds.

A sum that is at least 2^24 times that large has lost less than half a unit in its last place, as by one more rounding. This
*limit* is known for each column when its pairs have been made (of columns of zeros it is 0, with denormal b infinite), and all
sums are compared with it. Rows with a sum below its limit, or NaN, are looked at:

* with x = 0 or |x| >= 2^e for all x of the row and y = 0 or |y| >= 2^f for all y of the panel, normal numbers, all products
  and so all sums are multiples of 2^(e + f - 14). Where that is 2^-126 or more nothing can have been flushed;
* no sum of any row lost more than k · 2^-126 · (1 + max |a| + max |b|), with denormal b, too;
* what is left is summed again, by fused multiply-adds of floats.

What becomes of a row depends on the row and the panel alone, not on the tile that it is in.
"""

from __future__ import annotations

from collections.abc import Sequence

from .....promotion.dataclass import dataclass
from ...ir import Function
from ...module import Module
from ...values import TRUE, V, const, i64, is_integer, vector, zero

LANES = 16
_SHORT = 2 * LANES
_LOST = 2.0**-102
"""2^24 · 2^-126: a sum that is as large loses half a unit in its last place when 2^-126 is lost."""
_EXACT = 142
"""e + f - 14 >= -126, of exponents that are stored with 127 added."""
_INFINITY = float("inf")
ZERO = i64(0)


@dataclass(frozen=True, slots=True)
class Header:
    """What stands before the pairs of a panel, for each column: its limit, its largest |b|, and the least of its elements that
    are not zero, of which twice the bits, less one, are stored (0xffff where all are)."""

    width: int

    @property
    def bytes(self) -> int:
        return 10 * self.width

    def limit(self, number: int) -> int:
        """Return where the limits of a vector of columns begin."""
        return 4 * LANES * number

    def largest(self, number: int) -> int:
        return 4 * self.width + 4 * LANES * number

    @property
    def least(self) -> int:
        return 8 * self.width


def limits_of(f: Function, header: Header, packed: V, k: V, known: Sequence[tuple[V, V]], columns: V = ZERO) -> None:
    """Emit the header of a panel, from a column on.

    known: of twice the bits of the elements of each column, the largest, and the least less one.
    """
    steps = _lost(f, k)
    lanes = min(header.width, _SHORT) if is_integer(columns, 0) else LANES
    for register, (largest, least) in enumerate(known):
        f.store(least, f.gep(f.gep(packed, header.least + 2 * lanes * register), f.mul(columns, i64(2))), 2)
        denormal = f.icmp("ult", least, f.splat(const(0xFF, "i16"), lanes))
        for part in range(lanes // LANES):
            number, picked = register * (lanes // LANES) + part, range(part * LANES, (part + 1) * LANES)
            bits = f.cast("zext", f.shuffle(largest, largest, picked), vector("i32", LANES))
            most = f.bitcast(f.binary("shl", bits, f.splat(const(15, "i32"), LANES)), vector("float", LANES))
            limit = f.binary("fmul", f.binary("fadd", most, f.splat(const(1.0, "float"), LANES)), f.splat(steps, LANES))
            infinite = f.splat(const(_INFINITY, "float"), LANES)
            limit = f.select(f.shuffle(denormal, denormal, picked), infinite, limit)
            limit = f.select(f.icmp("eq", bits, zero(bits.type)), zero(limit.type), limit)
            f.store(limit, f.gep(f.gep(packed, header.limit(number)), f.mul(columns, i64(4))), 4)
            f.store(most, f.gep(f.gep(packed, header.largest(number)), f.mul(columns, i64(4))), 4)


def _lost(f: Function, k: V) -> V:
    """Return k · 2^-102."""
    return f.binary("fmul", f.cast("sitofp", k, "float"), const(_LOST, "float"))


@dataclass(frozen=True, slots=True)
class PairChecks:
    """The function that puts sums right, which stand one row after the other: sums[m, vectors · 16] = A[m, k] · panel.

    Implements `SharedFunction`; parameters as of `Pairs`, whose pairs it reads where B's columns are side by side.
    """

    vectors: int
    gathered: bool = False
    across: bool = False
    paired: bool = False

    @property
    def name(self) -> str:
        kind = f"{'_gathered' * self.gathered}{'_across' * self.across}{'_paired' * self.paired}"
        return f"jn_pair_checks_{self.vectors}x{LANES}{kind}"

    @property
    def parameters(self) -> list[tuple[str, str]]:
        rows = "ptr" if self.gathered else "i64"
        return [("ptr", "a"), (rows, "ars"), ("ptr", "b"), ("i64", "ldb"), ("i64", "k"), ("ptr", "packed"), ("i64", "live"),
                ("ptr", "sums"), ("i64", "m")]  # fmt: skip

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Add the function to a module."""
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        a, ars, b, ldb, k, packed, live, sums, m = f.params
        width, header = self.vectors * LANES, Header(self.vectors * LANES)
        none = f.splat(const(-1, "i16"), LANES)
        least = none
        for v in range(self.vectors):
            column = f.load(vector("i16", LANES), f.gep(packed, header.least + 2 * LANES * v), 2)
            least = f.intrinsic("umin", [least, column])
        right = _exponent(f, f.intrinsic("vector.reduce.umin", [least], "i16"))
        with f.loop(0, m) as state:
            if self.paired:
                row = f.gep(a, state.index, "i32")
            else:
                offset = f.load("i64", f.gep(ars, state.index, "i64"), 8) if self.gathered else f.mul(state.index, ars)
                row = f.gep(a, offset, "i16")
            found = f.gep(sums, f.mul(state.index, i64(width)), "float")
            limits = [f.load(vector("float", LANES), f.gep(packed, header.limit(v)), 4) for v in range(self.vectors)]
            with f.when(self._is_below(f, found, limits)):
                smallest, largest = _ends_of_pairs(f, row, ars, k) if self.paired else _ends(f, row, k)
                left = _exponent(f, smallest)
                normal = f.binary("and", f.icmp("sgt", left, i64(0)), f.icmp("sgt", right, i64(0)))
                exact = f.binary("and", normal, f.icmp("sge", f.add(left, right), i64(_EXACT)))
                with f.when(f.binary("xor", exact, TRUE)):
                    bits = f.binary("shl", f.cast("zext", largest, "i32"), const(15, "i32"))
                    most = f.splat(f.binary("fadd", f.bitcast(bits, "float"), const(1.0, "float")), LANES)
                    steps = f.splat(_lost(f, k), LANES)
                    wider = []
                    for v in range(self.vectors):
                        column = f.load(vector("float", LANES), f.gep(packed, header.largest(v)), 4)
                        wider.append(f.binary("fmul", f.binary("fadd", column, most), steps))
                    with f.when(self._is_below(f, found, wider)):
                        self._sum(f, row, ars, (f.gep(packed, header.bytes) if self.across else b, ldb, k, live), found)
        f.ret()
        module.add(f)

    def _is_below(self, f: Function, sums: V, limits: Sequence[V]) -> V:
        """Emit whether some sum of a row is below its limit, or NaN."""
        holds = None
        for v, limit in enumerate(limits):
            one = f.load(limit.type, f.gep(sums, v * LANES, "float"), 4)
            known = f.fcmp("oge", f.intrinsic("fabs", [one]), limit)
            holds = known if holds is None else f.binary("and", holds, known)
        assert holds is not None
        return f.icmp("ne", f.bitcast(holds, f"i{LANES}"), const(-1, f"i{LANES}"))

    def _sum(self, f: Function, row: V, ars: V, right: tuple[V, V, V, V], sums: V) -> None:
        """Emit the sums of a row in float32."""
        b, ldb, k, live = right
        type_, short = vector("float", LANES), vector("i16", LANES)
        count = f.splat(f.cast("trunc", live, "i32"), LANES)
        masks = [
            f.icmp("sgt", f.sub(count, f.splat(const(v * LANES, "i32"), LANES)), f.iota(LANES, "i32"))
            for v in range(self.vectors)
        ]
        with f.loop(0, k, 1, [zero(type_)] * self.vectors) as state:
            at = f.gep(row, state.index, "i16")
            if self.paired:
                pair = f.gep(row, f.mul(f.binary("lshr", state.index, i64(1)), ars), "i32")
                at = f.gep(pair, f.binary("and", state.index, i64(1)), "i16")
            factor = f.splat(_float(f, f.load("i16", at, 2)), LANES)
            state.next = []
            for v, (mask, total) in enumerate(zip(masks, state.values, strict=True)):
                if self.across:
                    pair = f.gep(b, f.mul(f.binary("lshr", state.index, i64(1)), i64(4 * LANES * self.vectors)))
                    both = f.load(vector("i32", LANES), f.gep(pair, 4 * LANES * v), 4)
                    half = f.cast("trunc", f.binary("shl", f.binary("and", state.index, i64(1)), i64(4)), "i32")
                    column = f.cast("trunc", f.binary("lshr", both, f.splat(half, LANES)), short)
                else:
                    here = f.gep(b, f.mul(state.index, ldb), "i16")
                    column = f.masked_load(short, f.gep(here, v * LANES, "i16"), mask, zero(short), 2)
                state.next.append(f.fma(factor, _float(f, column), total))
        for v, total in enumerate(state.results):
            f.store(total, f.gep(sums, v * LANES, "float"), 4)


def _float(f: Function, bits: V) -> V:
    """Return the float32 of the bits of bfloat16."""
    wide = bits.type.replace("i16", "i32")
    return f.bitcast(f.binary("shl", f.cast("zext", bits, wide), f.splat(const(16, "i32"), LANES if wide[0] == "<" else 1)),
                     wide.replace("i32", "float"))  # fmt: skip


def _exponent(f: Function, least: V) -> V:
    """Return the exponent of the number of which twice the bits, less one, are given; 256 where there is none."""
    return f.binary("lshr", f.add(f.cast("zext", least, "i64"), i64(1)), i64(8))


def _ends_of_pairs(f: Function, row: V, between: V, k: V) -> tuple[V, V]:
    """Emit what `_ends` does for a row of an operand in pairs, of which an odd last one ends with zero."""
    type_ = vector("i16", 2)
    none = f.splat(const(-1, "i16"), 2)
    with f.loop(0, k, 2, [none, zero(type_)]) as state:
        here = f.load(type_, f.gep(row, f.mul(f.binary("lshr", state.index, i64(1)), between), "i32"), 4)
        twice = f.add(here, here)
        least, most = state.values
        state.next = [f.intrinsic("umin", [least, f.add(twice, none)]), f.intrinsic("umax", [most, twice])]
    least, most = state.results
    return f.intrinsic("vector.reduce.umin", [least], "i16"), f.intrinsic("vector.reduce.umax", [most], "i16")


def _ends(f: Function, row: V, k: V) -> tuple[V, V]:
    """Emit, of twice the bits of a row's elements, the least but zero, less one, and the largest."""
    type_ = vector("i16", _SHORT)
    none = f.splat(const(-1, "i16"), _SHORT)
    with f.loop(0, k, _SHORT, [none, zero(type_)]) as state:
        live = f.splat(f.cast("trunc", f.smin(f.sub(k, state.index), i64(_SHORT)), "i16"), _SHORT)
        mask = f.icmp("sgt", live, f.iota(_SHORT, "i16"))
        here = f.masked_load(type_, f.gep(row, state.index, "i16"), mask, zero(type_), 2)
        twice = f.add(here, here)
        least, most = state.values
        state.next = [f.intrinsic("umin", [least, f.add(twice, none)]), f.intrinsic("umax", [most, twice])]
    least, most = state.results
    return f.intrinsic("vector.reduce.umin", [least], "i16"), f.intrinsic("vector.reduce.umax", [most], "i16")
