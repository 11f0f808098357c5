"""The product of one row with a matrix that lies row by row: it goes along the matrix's rows, as they stream from memory.

A panel reads 64 columns of each row, a quarter of a KiB in every page, at half the rate of memory. Here eight rows are added
at a time to all columns of the result, which stay in the first-level cache, and the eight rows below are fetched there. Each
result is the same chain of fused steps along k.
"""

from __future__ import annotations

from .....promotion.dataclass import dataclass
from ...ir import Function
from ...module import Module
from ...values import V, i64, vector, zero
from ..loops.coordinates import memory_size_of

TOGETHER = 8
"""Rows that are added at a time: for each of their vectors an eighth of a vector of results is loaded and stored."""


@dataclass(frozen=True, slots=True)
class SingleRow:
    """The function that computes C[j] (+)= A[k] · B[k, j] in vectors of n elements. `acs`, `ldb`: distances in elements.

    B's columns lie side by side. C may be written up to the end of the last vector.
    """

    element: str
    n: int

    @property
    def name(self) -> str:
        return f"jn_row_{self.element}_{self.n}"

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return [("ptr", "a"), ("i64", "acs"), ("ptr", "b"), ("i64", "ldb"), ("ptr", "c"), ("i64", "j"), ("i64", "k"),
                ("i1", "acc")]  # fmt: skip

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Add the function to a module."""
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        _, _, _, _, c, j, k, acc = f.params
        type_, size = vector(self.element, self.n), memory_size_of(self.element)
        clear, go = f.label("clear"), f.label("go")
        f.cond_branch(acc, go, clear)
        f.start(clear)
        with f.loop(0, j, self.n) as state:
            f.store(zero(type_), f.gep(c, state.index, self.element), size)
        f.branch(go)
        f.start(go)
        bulk = f.binary("and", k, i64(-TOGETHER))
        with f.loop(0, bulk, TOGETHER) as state:
            self._rows(f, state.index, TOGETHER)
        with f.loop(bulk, k, 1) as state:
            self._rows(f, state.index, 1)
        f.ret()
        module.add(f)

    def _rows(self, f: Function, first: V, count: int) -> None:
        """Emit the addition of so many rows of B, times elements of A, to C."""
        a, acs, b, ldb, c, j, _, _ = f.params
        type_, size = vector(self.element, self.n), memory_size_of(self.element)
        factors, rows = [], []
        for number in range(count):
            step = f.add(first, i64(number)) if number else first
            factors.append(f.splat(f.load(self.element, f.gep(a, f.mul(step, acs), self.element), size), self.n))
            rows.append(f.gep(b, f.mul(step, ldb), self.element))
        prefetch = f.mul(ldb, i64(count))

        def add(column: V, mask: V | None) -> None:
            result = f.gep(c, column, self.element)
            total = f.load(type_, result, size)
            for factor, row in zip(factors, rows, strict=True):
                here = f.gep(row, column, self.element)
                if mask is None:
                    f.prefetch(f.gep(here, prefetch, self.element), locality=3)
                    part = f.load(type_, here, size)
                else:
                    part = f.masked_load(type_, here, mask, zero(type_), size)
                total = f.fma(factor, part, total)
            f.store(total, result, size)

        whole = f.binary("and", j, i64(-self.n))
        with f.loop(0, whole, self.n) as state:
            add(state.index, None)
        with f.when(f.icmp("slt", whole, j)):
            left = f.splat(f.cast("trunc", f.sub(j, whole), "i32"), self.n)
            add(whole, f.icmp("sgt", left, f.iota(self.n, "i32")))
