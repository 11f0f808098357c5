"""Reserves memory for blocks that must exist as a whole: on the stack while they are small, else from the heap.

A function asks the heap once, for everything, before its first program: pages are touched as blocks are used. Where there is no
memory, a function of a user's text stops the launch. One of a graph has no way to do that: it takes the memory from the stack.
Its blocks are on the stack only while all of them fit a thread of 128 KiB, which is what the C library musl gives one.
"""

from __future__ import annotations

from .....promotion.errors import UnsupportedError
from ....target import CACHE_LINE
from ...elementwise import from_memory, to_memory
from ...ir import Function
from ...values import V, i64, vector, zero
from ..control.sites import Site
from ..control.status import Status
from ..loops.coordinates import Coordinates, memory_size_of
from ..nodes import Stored
from ..scalars import ZERO, Scalars

STACK_BLOCK, STACK_TOTAL = 129 << 10, 2 << 20
"""The most bytes of one block, and of all of them, on the stack: of functions of texts."""
GRAPH_STACK_BLOCK, GRAPH_STACK_TOTAL = 17 << 10, 48 << 10
"""The same of functions of graphs."""
HEAP_TOTAL = 1 << 30


class Scratch:
    """Scratch memory of one function under construction."""

    def __init__(self, f: Function) -> None:
        self._f = f
        self._stack = 0
        self._heap = 0
        self._status: Status | None = None
        self._slots: list[int] = []
        self._free: dict[tuple[str, int], list[V]] = {}

    def begin(self, status: Status) -> None:
        """Allows the heap; it is called in the entry block, which it ends."""
        self._status = status
        self._slots.append(len(self._f.lines))
        self._f.emit("")
        begin = self._f.label("begin")
        self._f.branch(begin)
        self._f.start(begin)

    def end(self) -> None:
        """Releases the memory; it is called before every return of the function."""
        if self._status is not None:
            self._slots.append(len(self._f.lines))
            self._f.emit("")

    def block(self, memory: str, count: int, size: int, what: str) -> V:
        """Reserves `count` elements of LLVM type `memory`, `size` bytes each, aligned to a cache line; returns the address."""
        if free := self._free.get((memory, count)):
            return free.pop()
        total = count * size
        one, all_of_them = (GRAPH_STACK_BLOCK, GRAPH_STACK_TOTAL) if self._status is None else (STACK_BLOCK, STACK_TOTAL)
        if total <= one and self._stack + total <= all_of_them:
            self._stack += total
            return self._f.alloca(memory, count)
        offset = self._heap
        self._heap += -(-total // CACHE_LINE) * CACHE_LINE
        if self._heap > HEAP_TOTAL:
            raise UnsupportedError(f"host lowering: with {what}, more than {HEAP_TOTAL >> 20} MiB of scratch memory per thread")
        return self._f.gep(V("%heap", "ptr"), offset)

    def release(self, memory: str, count: int, address: V) -> None:
        """Gives a block back: the code that is emitted next may have it, which keeps what is in use in the nearest cache."""
        self._free.setdefault((memory, count), []).append(address)

    def finish(self) -> None:
        """Writes the request and the releases, if any block is on the heap."""
        if not self._heap:
            return
        f = self._f
        f.module.declare("malloc", "ptr", ["i64"])
        f.module.declare("free", "void", ["ptr"])
        if self._status is None:
            self._finish_apart()
            return
        message = f"no memory for {self._heap >> 10} KiB of scratch"
        site = self._status.add(Site("memory", message))
        missing = self._status.report(site, i64(0), i64(-1))
        request = [*self._request("heap"), "br i1 %heap_none, label %heap_missing, label %heap_there"]
        lines = [*(f"  {line}" for line in request), "heap_missing:", *(f"  {line}" for line in missing), "heap_there:"]
        f.lines[self._slots[0]] = "\n".join(lines)
        for slot in self._slots[1:]:
            f.lines[slot] = "  call void @free(ptr %heap_raw)"

    def _request(self, name: str) -> list[str]:
        return [
            f"%heap_raw = call ptr @malloc(i64 {self._heap + CACHE_LINE})",
            "%heap_at = ptrtoint ptr %heap_raw to i64",
            f"%heap_up = add i64 %heap_at, {CACHE_LINE - 1}",
            f"%heap_line = and i64 %heap_up, {-CACHE_LINE}",
            f"%{name} = inttoptr i64 %heap_line to ptr",
            "%heap_none = icmp eq ptr %heap_raw, null",
        ]

    def _finish_apart(self) -> None:
        """Makes the function a part of one that gets the memory: of a stack that grows, registers would hold two ends."""
        f, name = self._f, self._f.name
        f.becomes_part(f"{name}_in_scratch", f"ptr noalias align {CACHE_LINE}", "heap")
        outer = Function(f.module, name, [("ptr noalias", "args"), ("i64", "lo"), ("i64", "hi")])
        for line in self._request("heap_line_at"):
            outer.emit(line)
        outer.emit(f"%heap_spare = select i1 %heap_none, i64 {self._heap}, i64 0")
        outer.emit(f"%heap_stack = alloca i8, i64 %heap_spare, align {CACHE_LINE}")
        outer.emit("%heap = select i1 %heap_none, ptr %heap_stack, ptr %heap_line_at")
        outer.call(f.name, "void", [*outer.params, V("%heap", "ptr")])
        outer.emit("call void @free(ptr %heap_raw)")
        outer.ret()
        f.module.add(outer)


def read_elements(s: Scalars, node: Stored, coordinates: Coordinates) -> V:
    """Reads the elements of a block at the coordinates: a scalar, or a vector along the dimension with several lanes."""
    f, (pointer, n, lane_step) = s.f, _location(s, node, coordinates)
    size = memory_size_of(node.memory)
    if n == 1 or lane_step == 1:
        raw = f.load(vector(node.memory, n), pointer, size)
    else:
        raw = zero(vector(node.memory, n))
        for lane in range(n):
            raw = f.insert(raw, f.load(node.memory, f.gep(pointer, lane * lane_step, node.memory), size), lane)
    return from_memory(f, raw, "i1") if node.elem == "i1" else raw


def write_elements(s: Scalars, node: Stored, coordinates: Coordinates, value: V) -> None:
    """Writes elements of a block at the coordinates, as many as these have lanes."""
    f, (pointer, n, lane_step) = s.f, _location(s, node, coordinates)
    value = f.splat(value, n)
    stored = to_memory(f, value, "i1") if node.elem == "i1" else value
    size = memory_size_of(node.memory)
    if n == 1 or lane_step == 1:
        f.store(stored, pointer, size)
        return
    for lane in range(n):
        f.store(f.extract(stored, lane), f.gep(pointer, lane * lane_step, node.memory), size)


def _location(s: Scalars, node: Stored, coordinates: Coordinates) -> tuple[V, int, int]:
    """Returns the address of the first element at the coordinates, how many there are, and how far apart they lie."""
    total, fixed, n, lane_step = ZERO, 0, 1, 1
    for stride, coordinate in zip(node.strides, coordinates, strict=True):
        if stride == 0 or coordinate is None:
            continue
        total = s.add(total, s.mul(s.constant(stride), coordinate.at))
        fixed += stride * coordinate.offset
        if coordinate.lanes > 1:
            n, lane_step = coordinate.lanes, stride
    return s.f.gep(s.f.gep(node.pointer, total, node.memory), fixed, node.memory), n, lane_step
