"""Sorts lines where they lie in memory, of lengths that are known at launch.

Short lines are sorted beside each other, a lane of a register for each: the network is that of the next power of two, and rows
beyond the end hold the largest number. Others are partitioned, or where processors do not compress registers, sorted as heaps.
"""

from __future__ import annotations

from collections.abc import Callable

from .....promotion.dataclass import dataclass
from ....target import SHORT_LINE
from ...ir import Function
from ...module import Module
from ...values import FALSE, V, i64
from ..memory.transposed_copy import TransposedCopy
from .network import Rows, SortedLines
from .quicksort import Part, SortedHeap, SortedLine

MIN_ROWS = 8
"""Rows of the smallest network of lines beside each other."""


@dataclass(frozen=True, slots=True)
class _Lines(Part):
    """What functions over `lines` lines of `count` elements, one after the other in memory, have in common."""

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return [("ptr", "first"), ("i64", "lines"), ("i64", "count")]


@dataclass(frozen=True, slots=True)
class LinesInMemory(_Lines):
    """The function that puts each of `lines` lines of `count` integers, one after the other, in ascending order.

    partitions: whether the processor compresses registers.
    """

    partitions: bool

    @property
    def name(self) -> str:
        return f"jn_sort_{'lines' if self.partitions else 'heaps'}_in_memory_{self.elem}_{self.width}"

    def add(self, module: Module, linkage: str = "internal") -> None:
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        first, lines, count = f.params
        if self.partitions:
            beside, apart, done = (f.label(name) for name in ("beside", "apart", "done"))
            is_short = f.binary("and", f.icmp("sgt", lines, i64(1)), f.icmp("sle", count, i64(SHORT_LINE)))
            f.cond_branch(is_short, beside, apart)
            f.start(beside)
            with f.loop(0, lines, self.lanes) as state:
                at = f.gep(first, f.mul(state.index, count), self.elem)
                left = f.smin(f.sub(lines, state.index), i64(self.lanes))
                f.call(module.provide(_LinesBeside(self.elem, self.width)), "void", [at, left, count])
            f.branch(done)
            f.start(apart)
            f.module.declare("llvm.ctlz.i64", "i64", ["i64", "i1"])
            bits = f.sub(i64(64), f.call("llvm.ctlz.i64", "i64", [count, FALSE]))
            levels = f.add(bits, bits)
            self._each(f, lambda line: f.call(module.provide(SortedLine(self.elem, self.width)), "void", [line, count, levels]))
            f.branch(done)
            f.start(done)
        else:
            self._each(f, lambda line: f.call(module.provide(SortedHeap(self.elem, self.width)), "void", [line, count]))
        f.ret()
        module.add(f)

    def _each(self, f: Function, body: Callable[[V], object]) -> None:
        first, lines, count = f.params
        with f.loop(0, lines) as state:
            body(f.gep(first, f.mul(state.index, count), self.elem))


@dataclass(frozen=True, slots=True)
class _LinesBeside(_Lines):
    """The function that sorts as many lines of at most `SHORT_LINE` elements as a register has lanes, or fewer."""

    @property
    def name(self) -> str:
        return f"jn_sort_lines_beside_{self.elem}_{self.width}"

    def add(self, module: Module, linkage: str = "internal") -> None:
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        first, lines, count = f.params
        rows = f.alloca(self.elem, SHORT_LINE * self.lanes)
        copy = module.provide(TransposedCopy(self.size, self.size, self.width, True, False))
        line = f.mul(count, i64(self.size))
        f.call(copy, "void", [first, line, rows, i64(self.width), lines, count])
        network, done, size = Rows(self.elem, self.lanes, self.width), f.label("sorted"), MIN_ROWS
        while size <= SHORT_LINE:
            here, larger = f.label("here"), f.label("larger")
            if size < SHORT_LINE:
                f.cond_branch(f.icmp("sle", count, i64(size)), here, larger)
            else:
                f.branch(here)
            f.start(here)
            with f.loop(count, i64(size)) as state:
                f.store(f.splat(self.largest, self.lanes), f.gep(rows, f.mul(state.index, i64(self.width))), self.width)
            f.call(module.provide(SortedLines(network, size)), "void", [rows])
            f.branch(done)
            if size < SHORT_LINE:
                f.start(larger)
            size *= 2
        f.start(done)
        f.call(copy, "void", [rows, i64(self.width), first, line, count, lines])
        f.ret()
        module.add(f)
