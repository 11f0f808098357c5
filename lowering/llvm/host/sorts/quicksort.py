"""Sorts a long line in place by partitions of whole registers, down to lines that a network sorts.

A partition compares a register with the pivot and compresses what is below it and what is not, as processors with AVX-512 do in
an instruction each. It is that of Bramas, "A Novel Hybrid Quicksort Algorithm Vectorized using AVX-512 on Intel Skylake", 2017:
the elements at both ends are put aside, which leaves room for whole registers to be written at either end, and of what is left
those elements are read next on whose side there is less room.

    line   │ smaller │ room │ unread ……………………………… unread │ room │ others │
                      └─ smaller ones are written here        └─ and the others here

The pivot is a median of elements at even distances. An adversary who knows that can make partitions one-sided, so the number
of partitions that a part has behind it is limited, as in introsort (Musser, "Introspective sorting and selection algorithms",
1997): what is left then is sorted as a heap. A second partition takes out elements equal to a pivot that nothing is below.
"""

from __future__ import annotations

from .....promotion.dataclass import dataclass
from ...ir import Function
from ...module import Module
from ...values import V, const, i64, vector
from ..memory.transposed_copy import TransposedCopy
from .network import JoinedLanes, Rows, SortedLines, compare, merged_lanes

WIDTH = 64
"""Bytes of the registers."""
TOGETHER = 8
"""Registers that are read on the same side, one after the other."""
LEAF = 512
"""Elements of the longest line that a network sorts."""
PENDING = 64
"""Parts that wait: the larger one of two does, so each is less than half as long as the one that waits before it."""
MANY = 4096
"""Elements from which on the pivot is found among 48, not among 16."""


@dataclass(frozen=True, slots=True)
class Part:
    """What the functions of a quicksort have in common: signed integers of type `elem`."""

    elem: str

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return [("ptr", "line"), ("i64", "count"), *self.further]

    @property
    def further(self) -> list[tuple[str, str]]:
        """The parameters after the line and how many elements it has."""
        return []

    @property
    def lanes(self) -> int:
        return WIDTH // self.size

    @property
    def size(self) -> int:
        return int(self.elem[1:]) // 8

    @property
    def type(self) -> str:
        return vector(self.elem, self.lanes)

    @property
    def largest(self) -> V:
        return const((1 << 8 * self.size - 1) - 1, self.elem)

    def load(self, f: Function, line: V, at: V) -> V:
        return f.load(self.type, f.gep(line, at, self.elem), self.size)

    def first(self, f: Function, count: V) -> V:
        """Returns the mask of the first lanes of a register. count: at most all of them."""
        bits = f.binary("sub", f.binary("shl", const(1, "i32"), f.cast("trunc", count, "i32")), const(1, "i32"))
        return f.cast("bitcast", f.cast("trunc", bits, f"i{self.lanes}"), vector("i1", self.lanes))


@dataclass(frozen=True, slots=True)
class SortedLine(Part):
    """The function that puts `count` integers in ascending order, in place.

    levels: how many partitions a part may have behind it before it is sorted as a heap.
    """

    @property
    def name(self) -> str:
        return f"jn_quicksort_{self.elem}"

    @property
    def further(self) -> list[tuple[str, str]]:
        return [("i64", "levels")]

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Adds the function to a module. Of two parts the smaller one is sorted first, while the other one waits."""
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        line, count, levels = f.params
        waiting = f.alloca("i64", 3 * PENDING, 8)
        part, short, long, heap, split, equal = (f.label(name) for name in ("part", "short", "long", "heap", "split", "equal"))
        rest, two, following, take, done = (f.label(name) for name in ("rest", "two", "next", "take", "done"))
        entry = f.block
        f.branch(part)

        f.start(part)
        ways: dict[str, list[tuple[V, str]]] = {name: [] for name in ("low", "high", "left", "top")}
        slot = len(f.lines)
        f.lines.append("")
        low, high, left, top = (V(f.fresh("c"), "i64") for _ in range(4))

        def again(*values: V) -> None:
            for way, value in zip(ways.values(), values, strict=True):
                way.append((value, f.block))
            f.branch(part)

        for way, value in zip(ways.values(), (i64(0), count, levels, i64(0)), strict=True):
            way.append((value, entry))
        size, start = f.sub(high, low), f.gep(line, low, self.elem)
        f.cond_branch(f.icmp("sle", size, i64(LEAF)), short, long)

        f.start(short)
        f.call(module.provide(_Leaf(self.elem)), "void", [start, size])
        f.branch(following)

        f.start(long)
        f.cond_branch(f.icmp("sle", left, i64(0)), heap, split)
        f.start(heap)
        f.call(module.provide(SortedHeap(self.elem)), "void", [start, size])
        f.branch(following)

        f.start(split)
        pivot = f.call(module.provide(_Pivot(self.elem)), self.elem, [start, size])
        partition = module.provide(Partition(self.elem))
        smaller = f.call(partition, "i64", [start, size, pivot])
        fewer = f.sub(left, i64(1))
        f.cond_branch(f.icmp("eq", smaller, i64(0)), equal, two)

        f.start(equal)
        f.cond_branch(f.icmp("eq", pivot, self.largest), following, rest)
        f.start(rest)
        same = f.call(partition, "i64", [start, size, f.add(pivot, const(1, self.elem))])
        again(f.add(low, same), high, fewer, top)

        f.start(two)
        middle = f.add(low, smaller)
        is_left = f.icmp("slt", smaller, f.sub(size, smaller))
        slot_of_top = f.gep(waiting, f.mul(top, i64(3)), "i64")
        for number, value in enumerate((f.select(is_left, middle, low), f.select(is_left, high, middle), fewer)):
            f.store(value, f.gep(slot_of_top, 8 * number), 8)
        again(f.select(is_left, low, middle), f.select(is_left, middle, high), fewer, f.add(top, i64(1)))

        f.start(following)
        f.cond_branch(f.icmp("eq", top, i64(0)), done, take)
        f.start(take)
        last = f.sub(top, i64(1))
        slot_of_last = f.gep(waiting, f.mul(last, i64(3)), "i64")
        again(*[f.load("i64", f.gep(slot_of_last, 8 * number), 8) for number in range(3)], last)

        f.start(done)
        f.ret()
        f.lines[slot] = "\n".join(
            f"  {value.operand()} = phi i64 " + ", ".join(f"[ {v.operand()}, %{block} ]" for v, block in way)
            for value, way in zip((low, high, left, top), ways.values(), strict=True)
        )
        module.add(f)


@dataclass(frozen=True, slots=True)
class Partition(Part):
    """The function that moves the elements below a pivot before the others, and returns how many they are.

    count: `3 * TOGETHER` registers of elements or more.
    """

    @property
    def name(self) -> str:
        return f"jn_partition_{self.elem}"

    @property
    def further(self) -> list[tuple[str, str]]:
        return [(self.elem, "pivot")]

    def add(self, module: Module, linkage: str = "internal") -> None:
        f = Function(module, self.name, self.parameters, "i64", attributes="nounwind noinline", linkage=linkage)
        line, count, pivot = f.params
        lanes, together = self.lanes, TOGETHER * self.lanes
        pivots = f.splat(pivot, lanes)
        odd = f.binary("and", count, i64(together - 1))
        aside, saved = f.alloca(self.elem, 3 * together), f.add(odd, i64(2 * together))
        end = f.sub(count, f.add(odd, i64(together)))  # where the elements begin that are put aside at the end
        for number in range(TOGETHER):
            at = i64(number * lanes)
            f.store(self.load(f, line, at), f.gep(aside, at, self.elem), self.size)
        with f.loop(0, f.add(odd, i64(together)), lanes) as state:
            left = f.sub(f.add(odd, i64(together)), state.index)
            mask = self.first(f, f.smin(left, i64(lanes)))
            source = f.gep(line, f.add(end, state.index), self.elem)
            value = f.masked_load(self.type, source, mask, f.splat(const(0, self.elem), lanes), self.size)
            f.store(value, f.gep(aside, f.add(i64(together), state.index), self.elem), self.size)

        middle = f.sub(end, i64(together))
        with f.loop(0, middle, together, carry=[i64(together), end, i64(0), count]) as state:
            read, unread, low, high = state.values
            is_left = f.icmp("sle", f.sub(read, low), f.sub(high, unread))
            at = f.select(is_left, read, f.sub(unread, i64(together)))
            values = [self.load(f, line, f.add(at, i64(number * lanes))) for number in range(TOGETHER)]
            for value in values:
                low, high = self._divide(f, line, value, pivots, low, high, None)
            state.next = [
                f.select(is_left, f.add(read, i64(together)), read), f.select(is_left, unread, at), low, high
            ]  # fmt: skip
        low, high = state.results[2:]
        with f.loop(0, saved, lanes, carry=[low, high]) as state:
            value = self.load(f, aside, state.index)
            inside = self.first(f, f.smin(f.sub(saved, state.index), i64(lanes)))
            low, high = state.values
            state.next = list(self._divide(f, line, value, pivots, low, high, inside))
        f.ret(state.results[0])
        module.add(f)

    def _divide(self, f: Function, line: V, value: V, pivots: V, low: V, high: V, inside: V | None) -> tuple[V, V]:
        """Writes the elements of a register to both ends of the room; returns the new ends.

        inside: the lanes that are elements, where that may not be all; then nothing beside them is written.
        """
        below = f.icmp("slt", value, pivots)
        above = f.binary("xor", below, f.splat(const(1, "i1"), self.lanes))
        if inside is not None:
            below, above = f.binary("and", below, inside), f.binary("and", above, inside)
        smaller = self._count(f, below)
        others = f.sub(i64(self.lanes), smaller) if inside is None else self._count(f, above)
        target = f.gep(line, low, self.elem)
        if inside is None:
            f.store(self._compressed(f, value, below), target, self.size)
        else:
            f.masked_store(self._compressed(f, value, below), target, self.first(f, smaller), self.size)
        end = f.sub(high, others)
        f.masked_store(self._compressed(f, value, above), f.gep(line, end, self.elem), self.first(f, others), self.size)
        return f.add(low, smaller), end

    def _count(self, f: Function, mask: V) -> V:
        bits = f.cast("bitcast", mask, f"i{self.lanes}")
        return f.intrinsic("ctpop", [f.cast("zext", bits, "i64")])

    def _compressed(self, f: Function, value: V, mask: V) -> V:
        name = f"llvm.x86.avx512.mask.compress.v{self.lanes}{self.elem}"
        return f.target_intrinsic(name, [value, value, mask], self.type)


@dataclass(frozen=True, slots=True)
class _Pivot(Part):
    """The function that returns an element near the median of a line, which is one of 16 or of 48 at even distances."""

    @property
    def name(self) -> str:
        return f"jn_pivot_{self.elem}"

    def add(self, module: Module, linkage: str = "internal") -> None:
        f = Function(module, self.name, self.parameters, self.elem, attributes="nounwind noinline", linkage=linkage)
        line, count = f.params
        lanes = self.lanes
        distance = f.binary("udiv", count, i64(3 * lanes))
        few, many, found = f.label("few"), f.label("many"), f.label("found")
        offsets = f.binary("mul", f.splat(f.mul(distance, i64(3)), lanes), f.iota(lanes))

        def samples(number: int) -> V:
            start = f.gep(line, f.mul(distance, i64(number)), self.elem)
            kind = f"v{lanes}{self.elem}"
            address = f"getelementptr {self.elem}, ptr {start.operand()}, {offsets.type} {offsets.operand()}"
            pointers = f.op(address, vector("ptr", lanes))
            mask = f.splat(const(1, "i1"), lanes)
            name = f"llvm.masked.gather.{kind}.v{lanes}p0"
            f.module.declare(name, self.type, [pointers.type, "i32", mask.type, self.type])
            return f.call(name, self.type, [pointers, const(self.size, "i32"), mask, f.splat(const(0, self.elem), lanes)])

        middle = samples(1)
        f.cond_branch(f.icmp("slt", count, i64(MANY)), few, many)
        f.start(many, dominated=True)
        least, most = compare(f, samples(0), middle)
        median = f.smax(least, f.smin(most, samples(2)))
        end = f.block
        f.branch(found)
        f.start(few, dominated=True)
        f.branch(found)
        f.start(found)
        value = f.phi(self.type, [(median, end), (middle, few)])
        width = 2
        while width <= lanes:
            value = merged_lanes(f, value, lanes, width)
            width *= 2
        f.ret(f.extract(value, lanes // 2))
        module.add(f)


@dataclass(frozen=True, slots=True)
class _Leaf(Part):
    """The function that sorts a short line by a network, `LEAF` elements at most."""

    @property
    def name(self) -> str:
        return f"jn_sort_leaf_{self.elem}"

    def add(self, module: Module, linkage: str = "internal") -> None:
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        line, count = f.params
        lanes = self.lanes
        block, turned = (f.alloca(self.elem, LEAF) for _ in range(2))
        small, large, sorted_ = f.label("small"), f.label("large"), f.label("sorted")
        half = LEAF // 2
        is_small = f.icmp("sle", count, i64(half))
        rows = f.select(is_small, i64(half), i64(LEAF))
        with f.loop(0, rows, lanes) as state:
            inside = self.first(f, f.smax(f.smin(f.sub(count, state.index), i64(lanes)), i64(0)))
            source = f.gep(line, state.index, self.elem)
            value = f.masked_load(self.type, source, inside, f.splat(self.largest, lanes), self.size)
            f.store(value, f.gep(block, state.index, self.elem), WIDTH)
        f.cond_branch(is_small, small, large)
        copy = module.provide(TransposedCopy(self.size, WIDTH, True, False))
        for label, number in ((small, half // lanes), (large, LEAF // lanes)):
            f.start(label)
            network = Rows(self.elem, lanes, WIDTH)
            for function in (SortedLines(network, number), JoinedLanes(network, number)):
                f.call(module.provide(function), "void", [block])
            f.call(copy, "void", [block, i64(lanes), turned, i64(number), i64(number), i64(lanes)])
            f.branch(sorted_)
        f.start(sorted_)
        with f.loop(0, count, lanes) as state:
            inside = self.first(f, f.smin(f.sub(count, state.index), i64(lanes)))
            f.masked_store(self.load(f, turned, state.index), f.gep(line, state.index, self.elem), inside, self.size)
        f.ret()
        module.add(f)


@dataclass(frozen=True, slots=True)
class SortedHeap(Part):
    """The function that sorts a line as a heap (Williams, "Algorithm 232: Heapsort", 1964), whatever its elements are."""

    @property
    def name(self) -> str:
        return f"jn_heapsort_{self.elem}"

    def add(self, module: Module, linkage: str = "internal") -> None:
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        line, count = f.params
        half = f.binary("lshr", count, i64(1))
        with f.loop(0, half) as state:
            root = f.sub(f.sub(half, i64(1)), state.index)
            self._sift(f, line, root, count, self._at(f, line, root))
        with f.loop(1, count) as state:
            last = f.sub(count, state.index)
            value = self._at(f, line, last)
            f.store(self._at(f, line, i64(0)), f.gep(line, last, self.elem), self.size)
            self._sift(f, line, i64(0), last, value)
        f.ret()
        module.add(f)

    def _at(self, f: Function, line: V, at: V) -> V:
        return f.load(self.elem, f.gep(line, at, self.elem), self.size)

    def _sift(self, f: Function, line: V, root: V, count: V, value: V) -> None:
        """Puts a value in at the root of a heap or below, as deep as larger elements are, which move up."""
        down, child, right = (f.label(name) for name in ("down", "child", "right"))
        chosen, up, final = (f.label(name) for name in ("chosen", "up", "final"))
        before = f.block
        f.branch(down)
        f.start(down)
        at, moved = V(f.fresh("c"), "i64"), V(f.fresh("m"), "i64")
        f.emit(f"{at.operand()} = phi i64 [ {root.operand()}, %{before} ], [ {moved.operand()}, %{up} ]")
        left = f.add(f.add(at, at), i64(1))
        f.cond_branch(f.icmp("slt", left, count), child, final)
        f.start(child)
        other = f.add(left, i64(1))
        f.cond_branch(f.icmp("slt", other, count), right, chosen)
        f.start(right)
        is_larger = f.icmp("sgt", self._at(f, line, other), self._at(f, line, left))
        larger = f.select(is_larger, other, left)
        f.branch(chosen)
        f.start(chosen)
        f.emit(f"{moved.operand()} = phi i64 [ {left.operand()}, %{child} ], [ {larger.operand()}, %{right} ]")
        found = self._at(f, line, moved)
        f.cond_branch(f.icmp("sgt", found, value), up, final)
        f.start(up)
        f.store(found, f.gep(line, at, self.elem), self.size)
        f.branch(down)
        f.start(final)
        f.store(value, f.gep(line, at, self.elem), self.size)
