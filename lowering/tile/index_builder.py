"""Builds the scalar i64 index arithmetic of a kernel, folding what is known at compile time to Python ints.

Every size, stride and start of a kernel is an `Index`. Constants are folded here, so that a kernel of static shape carries no
index arithmetic but that on its program id; equal expressions of one block are emitted once (common subexpressions).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from xdsl.ir import SSAValue

from ..tt.builder.block_builder import BlockBuilder
from ..tt.types import I64

Index = int | SSAValue
"""An index value: an `int`, or an SSA value of type i64."""


class IndexBuilder:
    """Emits i64 arithmetic into `builder`. Divisors are positive and dividends are not negative."""

    def __init__(self, builder: BlockBuilder) -> None:
        self.builder = builder
        self._known: list[dict[tuple[object, ...], SSAValue]] = [{}]

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forgets at the end what was emitted inside (a loop body): those values do not dominate what follows."""
        self._known.append({})
        try:
            yield
        finally:
            self._known.pop()

    def value(self, index: Index) -> SSAValue:
        """Materializes the index as an SSA value."""
        return self.builder.const(index, I64) if isinstance(index, int) else index

    def _binary(self, name: str, a: Index, b: Index) -> SSAValue:
        return self.once((name, a, b), lambda: self.builder.binary(name, self.value(a), self.value(b)))

    def once(self, key: tuple[object, ...], make: Callable[[], SSAValue]) -> SSAValue:
        """Returns `make()`, or what an earlier call with an equal key made if that is still visible."""
        for table in self._known:
            if key in table:
                return table[key]
        made = make()
        self._known[-1][key] = made
        return made

    def add(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if isinstance(b, int) and b == 0:
            return a
        if isinstance(a, int) and a == 0:
            return b
        return self._binary("arith.addi", a, b)

    def sub(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        if isinstance(b, int) and b == 0:
            return a
        return self._binary("arith.subi", a, b)

    def minimum(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self._binary("arith.minsi", a, b)

    def mul(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        for known, other in ((a, b), (b, a)):
            if isinstance(known, int) and known in (0, 1):
                return other if known else 0
        return self._binary("arith.muli", a, b)

    def div(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a // b
        if isinstance(b, int) and b == 1:
            return a
        return self._binary("arith.divsi", a, b)

    def mod(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a % b
        if isinstance(b, int) and b == 1:
            return 0
        return self._binary("arith.remsi", a, b)

    def ceil_div(self, a: Index, b: int) -> Index:
        return self.div(self.add(a, b - 1), b)

    def is_less(self, a: Index, b: Index) -> SSAValue:
        """Emits a < b as an SSA value of type i1."""
        return self.once(("slt", a, b), lambda: self.builder.cmpi("slt", self.value(a), self.value(b)))
