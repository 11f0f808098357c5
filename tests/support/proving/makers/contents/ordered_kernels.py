"""Makes kernels over tables whose elements are sorted, distinct or in a range, and tables that are so."""

from __future__ import annotations

import random

import numpy as np
from joinery.lowering.prove.specify.expressions import evaluate, parse_size

from .tables import LANES, Launch, TableWriter

_BELOW = ["slt", "slt", "sle", "ult"]


class OrderedKernel(TableWriter):
    """A kernel that stores at elements of a table, or between two of them, and its specification."""

    def __init__(self, rng: random.Random) -> None:
        """Draws a kernel."""
        super().__init__(rng)
        self.table = rng.choice([8, 16, 32, 32, 32, 64])
        self.loop = rng.choice([1, 2, 3]) if rng.random() < 0.2 else 0
        self.vector, self.lanes = self.vectors()
        rows = rng.random() < 0.45
        index, mask = self._rows() if rows else self._elements()
        address, to = self.address("o", "i32", index, self.own)
        value = rng.choice([self.vector, self.lanes, self.lanes, index])
        self.emit(f"tt.store {address}, {value}{mask and f', {mask}'} : {to}")
        arrays = f"%idx: !tt.ptr<i{self.table}>, %o: !tt.ptr<i32>, %y: !tt.ptr<i8>, %z: !tt.ptr<i8>"
        self.text = self.module(f"{arrays}, %e: i32, %k: i32", self.loop)
        self._specify(rows)

    # The kernel

    def _loaded(self, name: str, kind: str) -> str:
        """An element as a number of 32 bits."""
        return self.cast(name, kind.replace("i32", f"i{self.table}"), kind, self.rng.random() < 0.6)

    def _rows(self) -> tuple[str, str]:
        """The places from one element to another one, and a mask that keeps them apart."""
        rng = self.rng
        scale, wraps = rng.choice([0, 1, 1, 1, 1, 1, 1, 2]), rng.random() < 0.7
        first = rng.choice([4, 4, 4, 4, 5, 0]) if wraps else rng.choice([0, 0, 1])
        ends = []
        program = self.wrapping("%p", "i32") if wraps else "%p"
        for added in (0, rng.choice([1, 1, 1, 1, 1, 1, 2, 0])):
            own = program if rng.random() < 0.9 else "%p"
            index = self.affine([], first + added, "i32")
            index = self.op("addi", self.op("muli", own, self.number(scale, "i32"), "i32"), index, "i32")
            if self.loop and rng.random() < 0.4:
                index = self.op("addi", index, "%t", "i32")
            address, to = self.address("idx", f"i{self.table}", index, "i32")
            ends.append(self._loaded(self.made(f"tt.load {address} : {to}", ""), "i32"))
        if rng.random() < 0.7:
            self.climb(ends[0], "i32")
        low, high = [self.splat(each, "i32") for each in ends]
        index = self.op("addi", low, self.lanes, self.own)
        mask = self.compare(rng.choice(_BELOW), index, high, self.own)
        if rng.random() < 0.3:
            index = self.op("muli", index, self.number(2, self.own), self.own)
        return index, mask

    def _elements(self) -> tuple[str, str]:
        """An element, or what is made of some, and perhaps a mask."""
        rng = self.rng
        loaded, masks = [], []
        for _ in range(rng.choice([1, 1, 2])):
            index = self._index() if not loaded or rng.random() < 0.85 else rng.choice(loaded)
            address, to = self.address("idx", f"i{self.table}", index, self.own)
            given = ""
            if rng.random() < 0.5:
                masks.append(self._inside(index))
                given = f", {masks[-1]}"
                if rng.random() < 0.6:
                    given += f", {self.number(rng.choice([0, 0, 1, 3]), self.block(f'i{self.table}'))}"
            loaded.append(self._loaded(self.made(f"tt.load {address}{given} : {to}", ""), self.own))
        if rng.random() < 0.4:
            self.climb(rng.choice(loaded), self.own)
        found = rng.choice(loaded)
        made = [
            lambda: found, lambda: found, lambda: self.op("addi", found, self.lanes, self.own),
            lambda: self.op("muli", found, self.number(rng.choice([2, 3, LANES]), self.own), self.own),
            lambda: self.op("andi", found, self.number(7, self.own), self.own),
            lambda: self.op("shrsi", found, self.number(1, self.own), self.own),
            lambda: self.op("addi", found, rng.choice(loaded), self.own),
        ]  # fmt: skip
        index = rng.choice(made)()
        mask = rng.choice(masks) if masks and rng.random() < 0.7 else ""
        if len(loaded) > 1 and rng.random() < 0.5:
            differ = self.compare(rng.choice(["slt", "ne", "sle", "eq"]), *loaded[:2], self.own)
            mask = self.op("andi", mask, differ, self.block("i1")) if mask else differ
        return index, mask

    def _index(self) -> str:
        rng = self.rng
        terms = [(self.vector, rng.choice([0, 1, 1, LANES, LANES, LANES, -1])), (self.lanes, rng.choice([0, 1, 1, 1, 2]))]
        found = self.affine(terms, rng.choice([0, 0, 0, 1, 4]), self.own)
        if self.loop and rng.random() < 0.5:
            found = self.op("addi", found, self.splat("%t", "i32"), self.own)
        return found

    def _inside(self, index: str) -> str:
        rng = self.rng
        found = self.compare(rng.choice(_BELOW), index, self.splat("%e", "i32"), self.own)
        if rng.random() < 0.5:
            least = self.compare("sge", index, self.number(0, self.own), self.own)
            found = self.op("andi", found, least, self.block("i1"))
        return found

    # The specification

    def _specify(self, rows: bool) -> None:
        rng, n = self.rng, self.programs
        orders: list[list[str]] = [["sorted"], ["sorted"], ["distinct"], ["distinct"], ["sorted", "distinct"], []]
        self.orders = rng.choice(orders[:2] if rows and rng.random() < 0.7 else orders)
        extents = ["e", "e + 1", f"4 * {n}", f"{n} + 1", f"{n} + 5", f"2 * {n} + 5", f"4 * {n} + 4", "24"]
        self.extents["idx"] = "24" if rows and rng.random() < 0.5 else rng.choice(extents)
        self.extents["o"] = rng.choice(["c", "c", "2 * c", "4 * c", "c + 8", "64"])
        self.most = rng.choice([30, 100, 230])
        self.assume = [f"{each}(idx[:])" for each in self.orders]
        self.assume += ["0 <= idx[:] < c" if rng.random() < 0.85 else "idx[:] < c", f"0 <= c <= {self.most}"]
        self.assume += ["0 <= e <= 40", "k >= 0", *self.assumptions()]
        rng.shuffle(self.assume)

    def launch(self, rng: random.Random) -> Launch | None:
        """A launch that the specification allows, as far as sizes do; None if there is no such table."""
        sizes = self.sizes(rng) | {"e": rng.randrange(41)}
        most = self.most if rng.random() < 0.3 else min(self.most, 48)
        sizes["c"] = rng.randrange(most + 1)
        programs = sizes["n"]
        count, stored = [evaluate(parse_size(self.extents[each], each), sizes) for each in ("idx", "o")]
        table = self._filled(rng, count, sizes["c"])
        small = np.zeros(sizes["k"] + 300, np.int8)
        if table is None:
            return None
        return Launch(sizes, programs, [table, np.zeros(stored, np.int32), small, small.copy(), sizes["e"], sizes["k"]])

    def _filled(self, rng: random.Random, count: int, high: int) -> np.ndarray | None:
        low = 0 if "0 <= idx[:] < c" in self.assume or (self.table == 8 and high > 128) else -12
        is_distinct = "distinct" in self.orders
        if count and high - low < (count if is_distinct else 1):
            return None
        numbers = rng.sample(range(low, high), count) if is_distinct else [rng.randrange(low, high) for _ in range(count)]
        sign = "u" if self.table == 8 and high > 128 else "i"
        return np.array(sorted(numbers) if "sorted" in self.orders else numbers, f"{sign}{self.table // 8}")


__all__ = ["OrderedKernel"]
