"""Tests whether a matrix in memory holds only finite numbers, in a fraction of a product's time."""

from __future__ import annotations

from .....promotion.dataclass import dataclass
from ...ir import Function
from ...module import Module
from ...values import i64, vector, zero
from ..loops.coordinates import memory_size_of


@dataclass(frozen=True, slots=True)
class FindOdd:
    """The function that stores 1 for a matrix with an element that is infinite or NaN, else 0. Implements `SharedFunction`.

    It sums 0 · x, which is NaN then. n: lanes of a vector.  unit: elements of a row are neighbours.
    gathered: rows begin at the offsets, in elements, that `row` points to; it is their distance otherwise.
    """

    element: str
    n: int
    unit: bool
    gathered: bool = False

    @property
    def name(self) -> str:
        return f"jn_find_odd_{self.element}_{self.n}{'' if self.unit else '_strided'}{'_gathered' * self.gathered}"

    @property
    def parameters(self) -> list[tuple[str, str]]:
        strides = [("ptr", "x"), ("ptr" if self.gathered else "i64", "row"), ("i64", "column")]
        return [*strides, ("i64", "rows"), ("i64", "columns"), ("ptr", "found")]

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Adds the function to a module."""
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        x, row, column, rows, columns, found = f.params
        n = self.n if self.unit else 1
        type_, size = vector(self.element, n), memory_size_of(self.element)
        with f.loop(0, rows, 1, [zero(type_)]) as outer:
            offset = f.load("i64", f.gep(row, outer.index, "i64"), 8) if self.gathered else f.mul(outer.index, row)
            start = f.gep(x, offset, self.element)
            with f.loop(0, columns, n, outer.values) as inner:
                at = f.gep(start, inner.index if self.unit else f.mul(inner.index, column), self.element)
                if self.unit:
                    left = f.smin(f.sub(columns, inner.index), i64(n))
                    mask = f.icmp("sgt", f.splat(f.cast("trunc", left, "i32"), n), f.iota(n, "i32"))
                    value = f.masked_load(type_, at, mask, zero(type_), size)
                else:
                    value = f.load(type_, at, size)
                inner.next = [f.fma(value, zero(type_), inner.values[0])]
            outer.next = inner.results
        odd = f.fcmp("uno", outer.results[0], outer.results[0])
        if n > 1:
            odd = f.intrinsic("vector.reduce.or", [odd], "i1")
        f.store(f.cast("zext", odd, "i8"), found, 1)
        f.ret()
        module.add(f)
