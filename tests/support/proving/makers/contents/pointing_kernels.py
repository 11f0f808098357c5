"""Makes kernels that read arrays whose addresses are in a table, and tables of arrays with the bytes that are said."""

from __future__ import annotations

import random

import joinery as jn
import numpy as np
from joinery.lowering.prove.specify.expressions import evaluate, parse_size

from .tables import LANES, Launch, TableWriter


class PointingKernel(TableWriter):
    """A kernel that reads behind a loaded address as far as a loaded length says, and its specification."""

    def __init__(self, rng: random.Random) -> None:
        """Draws a kernel."""
        super().__init__(rng)
        self.length = rng.choice(["i8", "i16", "i32", "i32", "i32", "i64"])
        self.element = rng.choice(["i8", "i16", "i32", "i32"])
        self.loop = rng.choice([1, 2]) if rng.random() < 0.2 else 0
        self.lanes = self.vectors()[1]
        self.place = rng.choice([1, 1, 1, 1, 1, 2, 0]), rng.choice([0, 1, 4, 4, 4, 4])
        first = self._index()
        second = first if rng.random() < 0.4 else self._index()
        number, is_read = self._address_at(first)
        count = self._length_at(second)
        if rng.random() < 0.7:
            low = self.op("andi", self.cast(number, "i64", "i32"), self.number(15, "i32"), "i32")
            self.climb(low if rng.random() < 0.8 else count, "i32")
        found = self._read(self._moved(number), count, is_read)
        row = self.op("muli", "%p", self.number(LANES, "i32"), "i32")
        address, to = self.address("o", "i32", self.op("addi", self.splat(row, "i32"), self.lanes, self.own), self.own)
        self.emit(f"tt.store {address}, {self.cast(found, self.block(self.element), self.own)} : {to}")
        arrays = f"%tab: !tt.ptr<i64>, %lens: !tt.ptr<{self.length}>, %o: !tt.ptr<i32>, %y: !tt.ptr<i8>, %z: !tt.ptr<i8>"
        self.text = self.module(f"{arrays}, %e: i32, %k: i32", self.loop)
        self._specify()

    def _index(self) -> str:
        rng = self.rng
        program = self.wrapping("%p", "i32") if rng.random() < 0.5 else "%p"
        scale, added = self.place if rng.random() < 0.8 else (rng.choice([0, 1, 2]), rng.choice([0, 1, 4]))
        index = self.op("muli", program, self.number(scale, "i32"), "i32")
        index = self.op("addi", index, self.number(added, "i32"), "i32")
        return self.op("addi", index, "%t", "i32") if self.loop and rng.random() < 0.6 else index

    def _address_at(self, index: str) -> tuple[str, str]:
        """A loaded number, and the condition under which it is loaded."""
        address, to = self.address("tab", "i64", index, "i32")
        flag = self.compare("slt", index, "%e", "i32") if self.rng.random() < 0.2 else ""
        return self.made(f"tt.load {address}{flag and f', {flag}'} : {to}", ""), flag

    def _length_at(self, index: str) -> str:
        rng = self.rng
        address, to = self.address("lens", self.length, index, "i32")
        given = ""
        if rng.random() < 0.2:
            given = f", {self.compare('slt', index, '%e', 'i32')}, {self.number(rng.choice([0, 3]), self.length)}"
        return self.cast(self.made(f"tt.load {address}{given} : {to}", ""), self.length, "i32", rng.random() < 0.6)

    def _moved(self, number: str) -> str:
        """A number that is the address and something, or that is made of it and back."""
        rng = self.rng
        match rng.choice(["as it is"] * 10 + ["constant", "program", "array", "bits"]):
            case "constant":
                return self.op("addi", number, self.number(rng.choice([0, 4, 8]), "i64"), "i64")
            case "program":
                return self.op("addi", number, self.cast("%p", "i32", "i64"), "i64")
            case "array":
                other = self.made("tt.ptr_to_int %o : !tt.ptr<i32> -> i64", "")
                return self.op("subi", self.op("addi", number, other, "i64"), other, "i64")
            case "bits":
                return self.cast(self.cast(number, "i64", "i32"), "i32", "i64", False)
        return number

    def _read(self, number: str, count: str, is_read: str) -> str:
        rng = self.rng
        pointer = f"!tt.ptr<{self.element}>"
        base = self.made(f"tt.int_to_ptr {number} : i64 -> {pointer}", "")
        scale, added = rng.choice([1, 1, 1, 1, 1, 2, -1]), rng.choice([0, 0, 0, 0, 0, 1, 2])
        index = self.affine([(self.lanes, scale)], added, self.own)
        mask = self.compare(rng.choice(["slt", "slt", "slt", "sle", "ult"]), index, self.splat(count, "i32"), self.own)
        if rng.random() < 0.6:
            least = self.compare("sge", index, self.number(0, self.own), self.own)
            mask = self.op("andi", mask, least, self.block("i1"))
        if is_read and rng.random() < 0.8:
            mask = self.op("andi", mask, self.splat(is_read, "i1"), self.block("i1"))
        to = self.block(pointer)
        block = self.made(f"tt.splat {base} : {pointer} -> {to}", "")
        address = self.made(f"tt.addptr {block}, {index} : {to}, {self.own}", "")
        other = f", {self.number(0, self.block(self.element))}" if rng.random() < 0.7 else ""
        return self.made(f"tt.load {address}, {mask}{other} : {to}", "")

    # The specification

    def _specify(self) -> None:
        rng, n = self.rng, self.programs
        size = int(self.element[1:]) // 8
        self.bytes = rng.choice([
            *[f"{size} * lens[:]"] * 3, "4 * lens[:]", f"{size} * lens[:] + {size}", "32",
            "8 * lens[:] - 8", "min(8 * lens[:], 64)",
            f"{size} * max(lens[:], 4)", f"{size} * lens[:] + 8 // max(lens[:], 1)", "8 * e",
        ])  # fmt: skip
        extents = [f"{n} + 5", f"{n} + 5", n, f"2 * {n} + 6", "e", "24", "40"]
        table = "24" if rng.random() < 0.4 else rng.choice(extents)
        lengths = table if rng.random() < 0.8 else rng.choice(extents)
        self.extents |= {"tab": table, "lens": lengths, "o": f"{LANES} * {n}", "y": "k + 4096"}
        self.range = rng.choice([(0, 12), (0, 12), (0, 8), (-8, 8), (1, 12)])
        low, high = self.range
        self.assume = [f"points(tab[:], {self.bytes})", "0 <= e <= 40", "k >= 0", "number(c)", "c == 4096", *self.assumptions()]
        if self.range != (0, 12):
            self.assume.append(f"{low} <= lens[:] <= {high}")
        rng.shuffle(self.assume)

    def launch(self, rng: random.Random) -> Launch:
        """A launch that the specification allows, as far as sizes do."""
        sizes = self.sizes(rng) | {"e": rng.randrange(41), "c": 4096}
        count, lengths, stored = [evaluate(parse_size(self.extents[each], each), sizes) for each in ("tab", "lens", "o")]
        numbers = [rng.randint(*self.range) for _ in range(lengths)]
        size = int(self.element[1:]) // 8
        arrays = []
        for at in range(count):
            its = 0
            if at < lengths or "lens" not in self.bytes:
                text = self.bytes.replace("lens[:]", f"(0 + {numbers[at]})" if at < lengths else "")
                its = max(0, evaluate(parse_size(text.replace("+ -", "- "), "bytes"), sizes))
            arrays.append(np.zeros(-(-its // size), f"i{size}"))
        table = jn.PointerTable(arrays) if arrays else np.zeros(0, np.int64)
        given = np.array(numbers, f"i{int(self.length[1:]) // 8}")
        small, read = np.zeros(sizes["k"] + 5000, np.int8), np.zeros(stored, np.int32)
        return Launch(sizes, sizes["n"], [table, given, read, small, small.copy(), sizes["e"], sizes["k"]])


__all__ = ["PointingKernel"]
