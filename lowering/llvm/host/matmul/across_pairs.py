"""Makes the pairs of operands of bfloat16 that lie in memory the other way.

A right operand whose columns have their elements side by side: x @ w.T, q @ k.T.

A pair is then 32 bits in memory. Sixteen columns of sixteen pairs, a cache line of each, are transposed in registers, and leave
scratch as the vectors of pairs that tiles read; what checks need of each column is found on the way.

A left operand whose columns have their elements side by side, x.T @ w: two of its columns are interleaved.
"""

from __future__ import annotations

from .....promotion.dataclass import dataclass
from ...ir import Function
from ...module import Module
from ...values import V, const, i64, vector, zero
from ..memory.transpose import transpose_registers
from .pair_checks import Header, limits_of

LANES = 16
STEPS = 2 * LANES
"""Steps of k in a cache line of a column. Scratch has room for whole ones."""
PREFETCH_STEPS = 256
"""How many steps ahead lines are fetched."""


def pack_across(f: Function, header: Header, right: tuple[V, V, V, V], packed: V) -> None:
    """Emit what writes the header and the pairs of a panel.

    right: B, the distance of its columns, steps of k, and how many columns there are; the others count as zeros.
    """
    b, distance, k, live = right
    short, width = vector("i16", STEPS), header.width
    none = f.splat(const(-1, "i16"), STEPS)
    with f.loop(0, width, LANES) as group:
        first = f.gep(b, f.mul(group.index, distance), "i16")
        target = f.gep(f.gep(packed, header.bytes), f.mul(group.index, i64(4)))
        count = f.smax(f.smin(f.sub(live, group.index), i64(LANES)), i64(0))
        bulk = f.select(f.icmp("eq", count, i64(LANES)), f.binary("and", k, i64(-STEPS)), i64(0))

        def steps(at: V, state: list[V], columns: list[V]) -> list[V]:
            """Emit the pairs of a line of each column from step `at` on, and what is known of the columns then."""
            rows = [f.bitcast(column, vector("i32", LANES)) for column in columns]
            largest, least = state
            here = f.gep(target, f.mul(at, i64(2 * width)))
            for number, pairs in enumerate(transpose_registers(f, rows)):
                f.store(pairs, f.gep(here, 4 * width * number), 4)
                halves = f.bitcast(pairs, short)
                twice = f.add(halves, halves)
                largest = f.intrinsic("umax", [largest, twice])
                least = f.intrinsic("umin", [least, f.add(twice, none)])
            return [largest, least]

        def lines(at: V) -> list[V]:
            found = [f.gep(first, at, "i16")]
            for _ in range(1, LANES):
                found.append(f.gep(found[-1], distance, "i16"))
            return found

        with f.loop(0, bulk, STEPS, [zero(short), none]) as state:
            columns = []
            for line in lines(state.index):
                columns.append(f.load(short, line, 2))
                f.prefetch(f.gep(line, PREFETCH_STEPS, "i16"), locality=2)
            state.next = steps(state.index, state.values, columns)
        with f.loop(bulk, k, STEPS, state.results) as rest:
            left = f.smin(f.sub(k, rest.index), i64(STEPS))
            columns = []
            for number, line in enumerate(lines(rest.index)):
                here = f.select(f.icmp("sgt", count, i64(number)), left, i64(0))
                mask = f.icmp("sgt", f.splat(f.cast("trunc", here, "i16"), STEPS), f.iota(STEPS, "i16"))
                columns.append(f.masked_load(short, line, mask, zero(short), 2))
            rest.next = steps(rest.index, rest.values, columns)
        known = []
        for operation, both in zip(("umax", "umin"), rest.results, strict=True):
            known.append(f.intrinsic(operation, [f.shuffle(both, both, range(half, STEPS, 2)) for half in (0, 1)]))
        limits_of(f, header, packed, k, [(known[0], known[1])], group.index)


@dataclass(frozen=True, slots=True)
class LeftPairs:
    """The function that puts a left operand (m, k) in pairs: of each two columns, the elements of row after row.

    Implements `SharedFunction`. a: the operand, with columns `distance` elements apart. pairs: scratch with room for whole
    groups of 32 rows, `between` pairs from two columns to the next two. An odd last column is paired with zeros.
    """

    @property
    def name(self) -> str:
        return "jn_left_pairs"

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return [("ptr", "a"), ("i64", "distance"), ("i64", "m"), ("i64", "k"), ("ptr", "pairs"), ("i64", "between")]

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Add the function to a module."""
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        a, distance, m, k, pairs, between = f.params
        short = vector("i16", STEPS)
        with f.loop(0, k, 2) as step:
            column = f.gep(a, f.mul(step.index, distance), "i16")
            both = f.icmp("slt", f.add(step.index, i64(1)), k)
            target = f.gep(pairs, f.mul(f.binary("lshr", step.index, i64(1)), between), "i32")
            following = f.gep(column, distance, "i16")

            def interleave(at: V, upper: V, lower: V, target: V = target) -> None:
                here = f.gep(target, at, "i32")
                for half in range(2):
                    order = [half * LANES + lane // 2 + lane % 2 * STEPS for lane in range(STEPS)]
                    f.store(f.shuffle(upper, lower, order), f.gep(here, half * LANES, "i32"), 4)

            bulk = f.select(both, f.binary("and", m, i64(-STEPS)), i64(0))
            with f.loop(0, bulk, STEPS) as rows:
                interleave(rows.index, *[f.load(short, f.gep(start, rows.index, "i16"), 2) for start in (column, following)])
            with f.loop(bulk, m, STEPS) as rows:
                left = f.smin(f.sub(m, rows.index), i64(STEPS))
                found = []
                for start, count in ((column, left), (following, f.select(both, left, i64(0)))):
                    mask = f.icmp("sgt", f.splat(f.cast("trunc", count, "i16"), STEPS), f.iota(STEPS, "i16"))
                    found.append(f.masked_load(short, f.gep(start, rows.index, "i16"), mask, zero(short), 2))
                interleave(rows.index, found[0], found[1])
        f.ret()
        module.add(f)
