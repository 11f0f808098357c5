"""Scalar index arithmetic of a kernel: i64 words that stay Python ints as long as they are known.

Every size, stride and start of a kernel is a `Word`. Arithmetic on known words happens here, so that a kernel
of static shape carries no index arithmetic but that on its program id; equal expressions of one block are
emitted once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..tt.builder import BlockBuilder
from ..tt.types import I64

Word = Any
"""An `int`, or an SSA value of type i64."""


class Words:
    """Emits i64 arithmetic into `builder`. Divisors are positive and dividends are not negative."""

    def __init__(self, builder: BlockBuilder) -> None:
        self.builder = builder
        self._known: list[dict[tuple[Any, ...], Any]] = [{}]

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Values made inside (a loop body) are forgotten at the end: they are not visible outside."""
        self._known.append({})
        try:
            yield
        finally:
            self._known.pop()

    def value(self, word: Word) -> Any:
        """The word as an SSA value."""
        return self.builder.const(word, I64) if isinstance(word, int) else word

    def _binary(self, name: str, a: Word, b: Word) -> Any:
        return self.once((name, a, b), lambda: self.builder.binary(name, self.value(a), self.value(b)))

    def once(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """`make()`, or what an earlier call with an equal key made where it is still visible."""
        for table in self._known:
            if key in table:
                return table[key]
        made = make()
        self._known[-1][key] = made
        return made

    def add(self, a: Word, b: Word) -> Word:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if isinstance(b, int) and b == 0:
            return a
        if isinstance(a, int) and a == 0:
            return b
        return self._binary("arith.addi", a, b)

    def sub(self, a: Word, b: Word) -> Word:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        if isinstance(b, int) and b == 0:
            return a
        return self._binary("arith.subi", a, b)

    def minimum(self, a: Word, b: Word) -> Word:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self._binary("arith.minsi", a, b)

    def mul(self, a: Word, b: Word) -> Word:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        for known, other in ((a, b), (b, a)):
            if isinstance(known, int) and known in (0, 1):
                return other if known else 0
        return self._binary("arith.muli", a, b)

    def div(self, a: Word, b: Word) -> Word:
        if isinstance(a, int) and isinstance(b, int):
            return a // b
        if isinstance(b, int) and b == 1:
            return a
        return self._binary("arith.divsi", a, b)

    def mod(self, a: Word, b: Word) -> Word:
        if isinstance(a, int) and isinstance(b, int):
            return a % b
        if isinstance(b, int) and b == 1:
            return 0
        return self._binary("arith.remsi", a, b)

    def ceil_div(self, a: Word, b: int) -> Word:
        return self.div(self.add(a, b - 1), b)

    def is_less(self, a: Word, b: Word) -> Any:
        """a < b as an SSA value of type i1."""
        return self.once(("slt", a, b), lambda: self.builder.cmpi("slt", self.value(a), self.value(b)))
