"""Sorts a long line in place by partitions of whole registers, down to lines that a network sorts.

A partition compares a register with the pivot and compresses what is below it and what is not, as processors with AVX-512 do in
an instruction each; with AVX2 one permutation, from a table, puts what is below before what is not. It is that of Bramas, "A
Novel Hybrid Quicksort Algorithm Vectorized using AVX-512 on Intel Skylake", 2017: the elements at both ends are put aside,
which leaves room for whole registers to be written at either end, and of what is left those elements are read next on whose
side there is less room.

    line   │ smaller │ room │ unread ……………………………… unread │ room │ others │
                      └─ smaller ones are written here        └─ and the others here

The pivot is a median of elements at even distances. An adversary who knows that can make partitions one-sided, so the number
of partitions that a part has behind it is limited, as in introsort (Musser, "Introspective sorting and selection algorithms",
1997): what is left then is sorted as a heap. Pivots are bounds of the parts that they divide, so that a part of equal elements
is found by the partition that takes the others out: where no element is below the pivot, those are taken out that equal it.
"""

from __future__ import annotations

from .....promotion.dataclass import dataclass
from ...ir import Function
from ...module import Module
from ...values import V, const, i64, vector
from ..memory.transposed_copy import TransposedCopy
from .network import JoinedLanes, Rows, SortedLines, compare, merged_lanes

WIDE = 64
"""Bytes of registers that an instruction compresses, and of the samples for a pivot; others are permuted."""
TOGETHER = 8
"""Registers that are read on the same side, one after the other."""
LEAF = 512
"""Elements of the longest line that a network sorts."""
PENDING = 64
"""Parts that wait: the larger one of two does, so each is less than half as long as the one that waits before it."""
STATE = 5
"""Numbers that say which part waits: its ends, how many partitions it may have, its least and its largest possible element."""
MANY = 4096
"""Elements from which on the pivot is found among 48, not among 16."""


@dataclass(frozen=True, slots=True)
class Part:
    """What the functions of a quicksort have in common: signed integers of type `elem`, and the bytes of a register."""

    elem: str
    width: int

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return [("ptr", "line"), ("i64", "count"), *self.further]

    @property
    def further(self) -> list[tuple[str, str]]:
        """The parameters after the line and how many elements it has."""
        return []

    @property
    def lanes(self) -> int:
        return self.width // self.size

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
        if self.width < WIDE:
            return f.icmp("sgt", f.splat(f.cast("trunc", count, "i32"), self.lanes), f.iota(self.lanes, "i32"))
        bits = f.binary("sub", f.binary("shl", const(1, "i32"), f.cast("trunc", count, "i32")), const(1, "i32"))
        return f.cast("bitcast", f.cast("trunc", bits, f"i{self.lanes}"), vector("i1", self.lanes))


@dataclass(frozen=True, slots=True)
class SortedLine(Part):
    """The function that puts `count` integers in ascending order, in place.

    levels: how many partitions a part may have behind it before it is sorted as a heap.
    """

    @property
    def name(self) -> str:
        return f"jn_quicksort_{self.elem}_{self.width}"

    @property
    def further(self) -> list[tuple[str, str]]:
        return [("i64", "levels")]

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Adds the function to a module. Of two parts the smaller one is sorted first, while the other one waits.

        Elements of a part are `least` or more and `most` or less: a part with one value alone is in order.
        """
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        line, count, levels = f.params
        smallest = const(-(1 << 8 * self.size - 1), self.elem)
        waiting = f.alloca("i64", STATE * PENDING, 8)
        part, short, long, heap, split, one, two = (
            f.label(name) for name in ("part", "short", "long", "heap", "split", "one", "two")
        )
        several, following, take, done = (f.label(name) for name in ("several", "next", "take", "done"))
        self._unless_in_order(f, line, count, done)
        entry = f.block
        f.branch(part)

        f.start(part)
        types = ("i64", "i64", "i64", self.elem, self.elem, "i64")
        state = tuple([V(f.fresh("c"), kind) for kind in types])
        ways: list[tuple[tuple[V, ...], str]] = [((i64(0), count, levels, smallest, self.largest, i64(0)), entry)]
        slot = len(f.lines)
        f.lines.append("")
        low, high, left, least, most, top = state

        def again(*values: V) -> None:
            ways.append((values, f.block))
            f.branch(part)

        size, start = f.sub(high, low), f.gep(line, low, self.elem)
        f.cond_branch(f.icmp("eq", least, most), following, several)
        f.start(several)
        f.cond_branch(f.icmp("sle", size, i64(LEAF)), short, long)

        f.start(short)
        f.call(module.provide(_Leaf(self.elem, self.width)), "void", [start, size])
        f.branch(following)

        f.start(long)
        f.cond_branch(f.icmp("sle", left, i64(0)), heap, split)
        f.start(heap)
        f.call(module.provide(SortedHeap(self.elem, self.width)), "void", [start, size])
        f.branch(following)

        f.start(split)
        found = f.call(module.provide(_Pivot(self.elem, self.width)), self.elem, [start, size])
        pivot = f.smax(found, f.add(least, const(1, self.elem)))
        below = f.sub(pivot, const(1, self.elem))
        smaller = f.call(module.provide(Partition(self.elem, self.width)), "i64", [start, size, pivot])
        fewer = f.sub(left, i64(1))
        is_none, is_all = f.icmp("eq", smaller, i64(0)), f.icmp("eq", smaller, size)
        f.cond_branch(f.binary("or", is_none, is_all), one, two)

        f.start(one)
        again(low, high, fewer, f.select(is_none, pivot, least), f.select(is_none, most, below), top)

        f.start(two)
        middle = f.add(low, smaller)
        is_left = f.icmp("slt", smaller, f.sub(size, smaller))
        first, second = (low, middle, fewer, least, below), (middle, high, fewer, pivot, most)
        slot_of_top = f.gep(waiting, f.mul(top, i64(STATE)), "i64")
        for number, (one_of, other) in enumerate(zip(second, first, strict=True)):
            f.store(f.select(is_left, one_of, other), f.gep(slot_of_top, 8 * number), self.size if number > 2 else 8)
        again(*[f.select(is_left, one_of, other) for one_of, other in zip(first, second, strict=True)], f.add(top, i64(1)))

        f.start(following)
        f.cond_branch(f.icmp("eq", top, i64(0)), done, take)
        f.start(take)
        last = f.sub(top, i64(1))
        slot_of_last = f.gep(waiting, f.mul(last, i64(STATE)), "i64")
        waited = [f.load(kind, f.gep(slot_of_last, 8 * at), int(kind[1:]) // 8) for at, kind in enumerate(types[:STATE])]
        again(*waited, last)

        f.start(done)
        f.ret()
        merged = []
        for number, value in enumerate(state):
            sources = ", ".join(f"[ {values[number].operand()}, %{block} ]" for values, block in ways)
            merged.append(f"  {value.operand()} = phi {value.type} {sources}")
        f.lines[slot] = "\n".join(merged)
        module.add(f)


    def _unless_in_order(self, f: Function, line: V, count: V, done: str) -> None:
        """Branches to `done` if the line is in order; elements of others are looked at up to the first that is not."""
        compared, last, following, mixed = (f.label(name) for name in ("compared", "last", "following", "mixed"))
        end = f.sub(count, i64(self.lanes + 1))
        before = f.block
        f.cond_branch(f.icmp("slt", end, i64(0)), mixed, compared)
        f.start(compared)
        at, further = V(f.fresh("c"), "i64"), V(f.fresh("c"), "i64")
        f.emit(f"{at.operand()} = phi i64 [ 0, %{before} ], [ {further.operand()}, %{following} ]")
        falls = f.icmp("sgt", self.load(f, line, at), self.load(f, line, f.add(at, i64(1))))
        some = f.icmp("ne", f.cast("bitcast", falls, f"i{self.lanes}"), const(0, f"i{self.lanes}"))
        f.cond_branch(some, mixed, last)
        f.start(last)
        f.cond_branch(f.icmp("eq", at, end), done, following)
        f.start(following)
        next_at = f.smin(f.add(at, i64(self.lanes)), end)
        # the phi above names what is computed here
        f.emit(f"{further.operand()} = add i64 {next_at.operand()}, 0")
        f.branch(compared)
        f.start(mixed)


@dataclass(frozen=True, slots=True)
class Partition(Part):
    """The function that moves the elements below a pivot before the others, and returns how many they are.

    count: `3 * TOGETHER` registers of elements or more.
    """

    @property
    def name(self) -> str:
        return f"jn_partition_{self.elem}_{self.width}"

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
        end, target = f.sub(high, others), f.gep(line, low, self.elem)
        if inside is None:
            first = self._compressed(f, value, below)
            f.store(first, target, self.size)
            if self.width < WIDE:  # a permutation: the others are its last lanes, and there is room before them
                f.store(first, f.gep(line, f.sub(high, i64(self.lanes)), self.elem), self.size)
                return f.add(low, smaller), end
        else:
            f.masked_store(self._compressed(f, value, below), target, self.first(f, smaller), self.size)
        f.masked_store(self._compressed(f, value, above), f.gep(line, end, self.elem), self.first(f, others), self.size)
        return f.add(low, smaller), end

    def _count(self, f: Function, mask: V) -> V:
        bits = f.cast("bitcast", mask, f"i{self.lanes}")
        return f.intrinsic("ctpop", [f.cast("zext", bits, "i64")])

    def _compressed(self, f: Function, value: V, mask: V) -> V:
        """Returns the lanes of a mask, and after them others."""
        if self.width < WIDE:
            parts = self.width // 4
            number = f.cast("zext", f.cast("bitcast", mask, f"i{self.lanes}"), "i64")
            row = f.gep(_permutations(f.module, self.lanes, parts), f.mul(number, i64(parts)))
            picks = f.cast("zext", f.load(vector("i8", parts), row, parts), vector("i32", parts))
            moved = f.target_intrinsic("llvm.x86.avx2.permd", [f.cast("bitcast", value, picks.type), picks], picks.type)
            return f.cast("bitcast", moved, self.type)
        name = f"llvm.x86.avx512.mask.compress.v{self.lanes}{self.elem}"
        return f.target_intrinsic(name, [value, value, mask], self.type)


def _permutations(module: Module, lanes: int, parts: int) -> V:
    """Returns the table of the parts of a register, a byte each, with the lanes of each mask first and then the others, both in
    their order."""
    name = f"jn_lanes_of_masks_{lanes}"
    if name not in module.globals:
        each = parts // lanes
        rows = []
        for mask in range(1 << lanes):
            order = sorted(range(lanes), key=lambda lane: not mask >> lane & 1)
            rows += [lane * each + part for lane in order for part in range(each)]
        text = "".join([f"\\{byte:02x}" for byte in rows])
        module.globals[name] = f'@{name} = internal unnamed_addr constant [{len(rows)} x i8] c"{text}", align 64'
    return V(f"@{name}", "ptr")


@dataclass(frozen=True, slots=True)
class _Pivot(Part):
    """The function that returns an element near the median of a line, which is one of 16 or of 48 at even distances."""

    @property
    def name(self) -> str:
        return f"jn_pivot_{self.elem}_{self.width}"

    def add(self, module: Module, linkage: str = "internal") -> None:
        f = Function(module, self.name, self.parameters, self.elem, attributes="nounwind noinline", linkage=linkage)
        line, count = f.params
        lanes = WIDE // self.size
        type_ = vector(self.elem, lanes)
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
            f.module.declare(name, type_, [pointers.type, "i32", mask.type, type_])
            return f.call(name, type_, [pointers, const(self.size, "i32"), mask, f.splat(const(0, self.elem), lanes)])

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
        value = f.phi(type_, [(median, end), (middle, few)])
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
        return f"jn_sort_leaf_{self.elem}_{self.width}"

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
            f.store(value, f.gep(block, state.index, self.elem), self.width)
        f.cond_branch(is_small, small, large)
        copy = module.provide(TransposedCopy(self.size, self.size, self.width, True, False))
        for label, number in ((small, half // lanes), (large, LEAF // lanes)):
            f.start(label)
            network = Rows(self.elem, lanes, self.width)
            for function in (SortedLines(network, number), JoinedLanes(network, number)):
                f.call(module.provide(function), "void", [block])
            f.call(copy, "void", [block, i64(self.width), turned, i64(number * self.size), i64(number), i64(lanes)])
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
        return f"jn_heapsort_{self.elem}_{self.width}"

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
