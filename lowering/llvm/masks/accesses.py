"""Loads and stores the lanes of a mask whose elements have one or two bytes, for processors that only mask wider ones.

AVX2 masks elements of 4 and 8 bytes. LLVM makes a branch for every lane of shorter ones: 32 of them for a register of bytes,
in code and in time. Here a function reads the whole vector where its bytes lie in one page, in which a live lane lies too, so
that no access can fault, and the lanes of no concern are dropped afterwards; and another one writes a run of lanes by two
overlapping stores. Nothing is written that the mask leaves out.

AMD's processors with AVX2 take 20 cycles to store wider elements under a mask: there these are written so, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ....promotion.dataclass import dataclass
from ..ir import Function
from ..module import Module
from ..values import TRUE, ConstantLanes, V, bits, element, i32, i64, lanes, number_of, vector, zero

PAGE = 4096
"""The bytes of the smallest page of memory: what lies in it is mapped as a whole or not at all."""
REGISTER = 32
"""The most bytes of an access: those of a register of AVX2."""


def load_lanes(f: Function, type_: str, pointer: V, mask: V, align: int) -> V:
    """Loads the lanes of a mask; the others are 0 and their memory need not exist."""
    size = bits(element(type_)) // 8
    if (each := _of_a_register(f, type_)) < lanes(type_):
        parts = []
        for first in range(0, lanes(type_), each):
            live = f.shuffle(mask, mask, range(first, first + each))
            parts.append(load_lanes(f, vector(element(type_), each), f.gep(pointer, first, element(type_)), live, align))
        return f.concatenated(parts)
    if not _is_emulated(f, type_, mask):
        known = known_lanes(mask) if _is_emulated(f, type_) else None
        if known is None or not all(known):
            return f.masked_load(type_, pointer, mask, zero(type_), align)
        return f.load(type_, pointer, align)
    parts = []
    each = min(lanes(type_), REGISTER // size)
    name = f.module.provide(LoadLanes(each, size))
    for first in range(0, lanes(type_), each):
        memory = f.alloca("i8", REGISTER)
        live = mask if each == lanes(type_) else f.shuffle(mask, mask, range(first, first + each))
        f.call(name, "void", [f.gep(pointer, first * size), _number(f, live), memory])
        part = vector(element(type_), each)
        parts.append(f.select(live, f.load(part, memory, REGISTER), zero(part)))
    return f.concatenated(parts)


def store_lanes(f: Function, value: V, pointer: V, mask: V, align: int) -> None:
    """Stores the lanes of a mask, and writes no other memory."""
    size = bits(element(value.type)) // 8
    if (each := _of_a_register(f, value.type)) < lanes(value.type):
        for first in range(0, lanes(value.type), each):
            live, part = (f.shuffle(v, v, range(first, first + each)) for v in (mask, value))
            store_lanes(f, part, f.gep(pointer, first, element(value.type)), live, align)
        return
    emulated = _is_emulated(f, value.type) or _stores_slowly(f, value.type)
    if not emulated or known_lanes(mask) is not None:
        count = _first_lanes(mask)
        if count is None or not emulated:
            f.masked_store(value, pointer, mask, align)
        else:
            _store_first(f, value, pointer, count, align)
        return
    each = min(lanes(value.type), REGISTER // size)
    name = f.module.provide(StoreLanes(each, size))
    for first in range(0, lanes(value.type), each):
        memory = f.alloca("i8", REGISTER)
        live, part = (v if each == lanes(value.type) else f.shuffle(v, v, range(first, first + each)) for v in (mask, value))
        f.store(part, memory, REGISTER)
        f.call(name, "void", [f.gep(pointer, first * size), _number(f, live), memory])


def store_rows(f: Function, rows: Sequence[tuple[V, V]], live: V, mask: V) -> None:
    """Stores the first `live` lanes of vectors, at least one, which a mask says too, at their pointers: (vector, pointer)."""
    type_ = rows[0][0].type
    item, n, size = element(type_), lanes(type_), bits(element(type_)) // 8
    if not _stores_slowly(f, type_):
        for value, pointer in rows:
            f.masked_store(value, pointer, mask, size)
        return
    copies = [f.alloca("i8", n * size) for _ in rows]
    for (value, _), copy in zip(rows, copies, strict=True):
        f.store(value, copy, n * size)
    done, width = f.label("stored"), n // 2
    while width:
        long, shorter = f.label("long"), f.label("shorter")
        f.cond_branch(f.icmp("sge", live, i64(width)), long, shorter)
        f.start(long)
        part, last = vector(item, width), f.sub(live, i64(width))
        for (_, pointer), copy in zip(rows, copies, strict=True):  # two stores overlap
            f.store(f.load(part, copy, size), pointer, size)
            f.store(f.load(part, f.gep(copy, last, item), size), f.gep(pointer, last, item), size)
        f.branch(done)
        f.start(shorter)
        width //= 2
    f.branch(done)
    f.start(done)


def gather_lanes(f: Function, type_: str, pointer: V, stride: V, mask: V) -> V:
    """Loads the lanes of a mask, of elements `stride` apart from a pointer on; the others are 0."""
    item, n, size = element(type_), lanes(type_), bits(element(type_)) // 8
    name, each = f.module.provide(GatherLanes(size)), min(lanes(type_), 32)  # bits of the number that a mask is
    parts = []
    for first in range(0, n, each):
        memory, part = f.alloca("i8", each * size), vector(item, each)
        f.store(zero(part), memory, min(64, each * size))
        live = mask if each == n else f.shuffle(mask, mask, range(first, first + each))
        begin = f.gep(pointer, f.mul(stride, i64(first)), item)
        f.call(name, "void", [begin, stride, _number(f, live), memory])
        parts.append(f.load(part, memory, min(64, each * size)))
    return f.concatenated(parts)


def _of_a_register(f: Function, type_: str) -> int:
    """Returns the lanes of an access of elements that AVX masks: those of a register. Of more LLVM 22 makes two, of which one
    has no mask where it knows that none of its lanes is live."""
    n, features = lanes(type_), f.module.features
    if "avx" not in features or "avx512f" in features or element(type_) == "ptr" or bits(element(type_)) < 32:
        return n
    return min(n, REGISTER * 8 // bits(element(type_)))


def known_lanes(mask: V) -> tuple[bool, ...] | None:
    """Returns which lanes of a mask are live, if that is known."""
    number, printed = number_of(mask), mask.printed()
    if number is not None:
        return (bool(number),) * lanes(mask.type)
    return tuple([bool(each) for each in printed.numbers]) if isinstance(printed, ConstantLanes) else None


def _first_lanes(mask: V) -> int | None:
    """Returns how many lanes are live, if they are known and come first."""
    known = known_lanes(mask)
    return None if known is None or not all(known[: sum(known)]) else sum(known)


def _store_first(f: Function, value: V, pointer: V, live: int, align: int) -> None:
    """Stores the first lanes of a vector, a power of two of them at a time."""
    first, each = 0, lanes(value.type)
    while first < live:
        while each > live - first:
            each //= 2
        part = f.extract(value, first) if each == 1 else f.shuffle(value, value, range(first, first + each))
        f.store(part, f.gep(pointer, first, element(value.type)), align)
        first += each


def _is_emulated(f: Function, type_: str, mask: V | None = None) -> bool:
    features, n = f.module.features, lanes(type_)
    if "sse2" not in features or "avx512bw" in features or element(type_) == "ptr" or bits(element(type_)) not in (8, 16):
        return False
    return n >= 4 and n & (n - 1) == 0 and (mask is None or known_lanes(mask) is None)


def _stores_slowly(f: Function, type_: str) -> bool:
    """Whether a processor takes 20 cycles to store elements that AVX masks: AMD's before AVX-512, which have SSE4a, too."""
    features, n = f.module.features, lanes(type_)
    if not {"avx", "sse4a"} <= features or "avx512f" in features or element(type_) == "ptr" or bits(element(type_)) < 32:
        return False
    return n > 1 and n & (n - 1) == 0


def _number(f: Function, mask: V) -> V:
    """Returns a mask as a number whose bit i is lane i."""
    n = lanes(mask.type)
    number = f.bitcast(mask, f"i{n}")
    return number if n == 32 else f.cast("zext", number, "i32")


@dataclass(frozen=True, slots=True)
class LoadLanes:
    """The function that copies n elements to a buffer, at least those whose bit is set. Implements `SharedFunction`."""

    n: int
    size: int
    parameters: ClassVar = (("ptr", "source"), ("i32", "live"), ("ptr", "buffer"))

    @property
    def name(self) -> str:
        return f"jn_load_{self.n}_of_{self.size}"

    def add(self, module: Module, linkage: str = "internal") -> None:
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        source, live, buffer = f.params
        total = self.n * self.size
        with f.when(f.icmp("ne", live, i32(0))):
            within = f.binary("and", f.cast("ptrtoint", source, "i64"), i64(PAGE - 1))
            together, apart, done = f.label("together"), f.label("apart"), f.label("loaded")
            f.cond_branch(f.icmp("ule", within, i64(PAGE - total)), together, apart)
            f.start(together)
            f.store(f.load(vector("i8", total), source), buffer)
            f.branch(done)
            f.start(apart)
            _one_by_one(f, live, source, buffer, self.size)
            f.branch(done)
            f.start(done)
        f.ret()
        module.add(f)


@dataclass(frozen=True, slots=True)
class StoreLanes:
    """The function that copies the elements of a buffer whose bit is set to memory. Implements `SharedFunction`."""

    n: int
    size: int
    parameters: ClassVar = (("ptr", "target"), ("i32", "live"), ("ptr", "buffer"))

    @property
    def name(self) -> str:
        return f"jn_store_{self.n}_of_{self.size}"

    def add(self, module: Module, linkage: str = "internal") -> None:
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        target, live, buffer = f.params
        done = f.label("stored")
        some = f.label("some")
        f.cond_branch(f.icmp("eq", live, i32(0)), done, some)
        f.start(some)
        first = f.intrinsic("cttz", [live, TRUE], "i32")
        run = f.binary("lshr", live, first)
        is_run = f.icmp("eq", f.binary("and", run, f.binary("add", run, i32(1))), i32(0))
        together, apart = f.label("together"), f.label("apart")
        f.cond_branch(is_run, together, apart)
        f.start(together)
        begin = f.binary("mul", f.cast("zext", first, "i64"), i64(self.size))
        length = f.binary("mul", f.cast("zext", f.intrinsic("ctpop", [live]), "i64"), i64(self.size))
        source, there = f.gep(buffer, begin), f.gep(target, begin)
        width = min(self.n * self.size, REGISTER) // 2
        while width >= self.size:
            long, shorter = f.label("long"), f.label("shorter")
            f.cond_branch(f.icmp("uge", length, i64(width)), long, shorter)
            f.start(long)
            last = f.sub(length, i64(width))
            type_ = f"i{8 * width}" if width <= 8 else vector("i8", width)
            ends = f.load(type_, source), f.load(type_, f.gep(source, last))
            f.store(ends[0], there)
            f.store(ends[1], f.gep(there, last))
            f.branch(done)
            f.start(shorter)
            width //= 2
        f.branch(done)
        f.start(apart)
        _one_by_one(f, live, buffer, target, self.size)
        f.branch(done)
        f.start(done)
        f.ret()
        module.add(f)


@dataclass(frozen=True, slots=True)
class GatherLanes:
    """The function that copies elements that are a distance apart to a buffer, those whose bit is set. Implements
    `SharedFunction`."""

    size: int
    parameters: ClassVar = (("ptr", "source"), ("i64", "stride"), ("i32", "live"), ("ptr", "buffer"))

    @property
    def name(self) -> str:
        return f"jn_gather_lanes_of_{self.size}"

    def add(self, module: Module, linkage: str = "internal") -> None:
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        source, stride, live, buffer = f.params
        _one_by_one(f, live, source, buffer, self.size, stride)
        f.ret()
        module.add(f)


def _one_by_one(f: Function, live: V, source: V, target: V, size: int, stride: V | None = None) -> None:
    """Copies the elements whose bit is set, which are `stride` apart in the source, or side by side."""
    type_ = f"i{8 * size}"
    with f.loop(0, f.cast("zext", f.intrinsic("ctpop", [live]), "i64"), 1, [live]) as state:
        (left,) = state.values
        number = f.cast("zext", f.intrinsic("cttz", [left, TRUE], "i32"), "i64")
        at = number if stride is None else f.mul(number, stride)
        f.store(f.load(type_, f.gep(source, at, type_)), f.gep(target, number, type_))
        state.next = [f.binary("and", left, f.binary("sub", left, i32(1)))]
