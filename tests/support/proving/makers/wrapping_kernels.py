"""Makes kernels of 64-bit indices that wrap, and that are known only under a condition on sizes.

A loop whose counter may wrap leaves any number; where a size is small enough that it does not, what it leaves is a sum with big
terms, which wraps. So does what a gather takes by an index that is inside the block under a condition. Masks keep
the number inside the array, whichever it is, and leave out the runs in which nothing wraps.
"""

from __future__ import annotations

import random

from .random_kernels import RandomKernel
from .writing import Writer, can_hold

_INDEX = "i64"
_FAR = [1 << 60, 1 << 61, 1 << 61, 1 << 62, 1 << 62, 1 << 62, (1 << 62) + 1, 3 << 61, -(1 << 62), (1 << 61) + 2]


class _Maker(Writer):
    """Writes one kernel."""

    def far(self) -> str:
        """What is added again and again: half, a quarter or an eighth of all numbers, times a small one now and then."""
        rng = self.rng
        found = self.number(rng.choice(_FAR), _INDEX)
        if rng.random() < 0.2:
            found = self.op("muli", found, rng.choice(["%pid", "%m", self.number(3, _INDEX)]), _INDEX)
        return found

    def start(self) -> str:
        rng = self.rng
        return rng.choice(["%pid", self.number(rng.choice([0, 0, 0, 1, 3]), _INDEX), self.number(0, _INDEX)])

    def summed(self) -> str:
        """What a loop adds up: its counter may wrap, unless the number to which it counts is less than the most there is."""
        rng, tag = self.rng, self.fresh()
        start, far = self.start(), self.far()
        zero, step = self.number(0, "i32"), self.number(rng.choice([1, 2, 2, 2, 3, 4]), "i32")
        self.emit(f"%{tag} = scf.for %t{tag} = {zero} to %n step {step} iter_args(%a{tag} = {start}) -> (i64) : i32 {{")
        self.depth += 1
        outer = {kind: list(names) for kind, names in self.scope.items()}
        if rng.random() < 0.25:
            self.touched(f"%a{tag}")
        following = self.op("addi", f"%a{tag}", far, _INDEX)
        self.scope = outer
        self.emit(f"scf.yield {following} : i64")
        self.depth -= 1
        self.emit("}")
        return f"%{tag}"

    def lanes(self, kind: str) -> str:
        made = self.made(f"tt.make_range {{end = {self.size} : i32, start = 0 : i32}} : {self.block('i32')}", "")
        return self.cast(made, self.block("i32"), kind)

    def taken(self) -> str:
        """What a gather takes of a block: its index is one of it only where a size is small."""
        rng, own, narrow = self.rng, self.block(_INDEX), self.block("i32")
        source = self.op("muli", self.lanes(own), self.splat(self.far(), _INDEX), own)
        if rng.random() < 0.5:
            source = self.op("addi", source, self.splat(self.start(), _INDEX), own)
        shift = self.number(rng.choice([24, 24, 26, 28, 30]), "i32")
        index = self.splat(self.op(rng.choice(["shrsi", "shrui"]), "%n", shift, "i32"), "i32")
        if rng.random() < 0.3:
            index = self.op("remsi", self.op("addi", index, self.lanes(narrow), narrow), self.number(self.size, narrow), narrow)
        return self.made(f"tt.gather {source}[{index}] {{axis = 0 : i32}} : ({own}, {narrow}) -> {own}", own)

    def masked(self, index: str, kind: str) -> str:
        """A mask that keeps an index inside, and leaves out the runs of small numbers."""
        rng = self.rng
        is_block = kind != _INDEX
        yes = self.block("i1") if is_block else "i1"
        size = self.splat("%m", _INDEX) if is_block else "%m"
        if rng.random() < 0.5:
            found = self.compare("ult", index, size, kind)
        else:
            low = self.compare("sge", index, self.number(0, kind), kind)
            found = self.op("andi", low, self.compare("slt", index, size, kind), yes)
        if rng.random() < 0.8:
            least = self.number(rng.choice([1, 1, 1, 2, 5, 1 << 24]), "i32")
            flag = self.made(f"arith.cmpi sge, %n, {least} : i32", "i1")
            found = self.op("andi", found, self.splat(flag, "i1") if is_block else flag, yes)
        if rng.random() < 0.2:
            other = rng.choice([self.number(0, _INDEX), "%pid", "%m"])
            apart = self.compare("ne", index, self.splat(other, _INDEX) if is_block else other, kind)
            found = self.op("andi", found, apart, yes)
        return found

    def touched(self, index: str, kind: str = _INDEX) -> None:
        """An access to x by an index."""
        rng, element = self.rng, self.elements["x"]
        mask = self.masked(index, kind)
        is_block = kind != _INDEX
        pointer = f"!tt.ptr<{element}>"
        to, own = (self.block(pointer), self.block(element)) if is_block else (pointer, element)
        base = self.made(f"tt.splat %x : {pointer} -> {to}", to) if is_block else "%x"
        at = self.made(f"tt.addptr {base}, {index} : {to}, {kind}", to)
        if rng.random() < 0.15:
            self.made(f"tt.load {at}, {mask} : {to}", own)
            return
        value = self.lanes(own) if is_block and rng.random() < 0.7 else self.number(rng.choice([1, 7]), own)
        self.emit(f"tt.store {at}, {value}, {mask} : {to}")

    def plain(self) -> None:
        """An access to x, or to y, that wraps nowhere."""
        rng = self.rng
        index = rng.choice(["%pid", self.op("muli", "%pid", self.number(rng.choice([2, 4]), _INDEX), _INDEX)])
        if rng.random() < 0.7:
            self.touched(index)
            return
        at = self.made("tt.addptr %y, %n : !tt.ptr<i32>, i32", "")
        flag = self.made(f"arith.cmpi sge, %n, {self.number(0, 'i32')} : i32", "i1")
        self.made(f"tt.load {at}, {flag} : !tt.ptr<i32>", "i32")

    def make(self) -> RandomKernel:
        """Makes the kernel."""
        rng = self.rng
        self.width, self.size, self.faults = "i32", 4, rng.choice([0, 0, 0, 1])
        self.elements = {"x": rng.choice(["i32", "i32", "i64", "i8"]), "y": "i32"}
        self.emit("%pid32 = tt.get_program_id x : i32")
        self.emit("%pid = arith.extsi %pid32 : i32 to i64")
        for _ in range(rng.choice([1, 1, 2])):
            if rng.random() < 0.65:
                index, kind = self.summed(), _INDEX
            else:
                index, kind = self.taken(), self.block(_INDEX)
            if kind == _INDEX and rng.random() < 0.3:
                kind = self.block(_INDEX)
                lanes = self.lanes(kind)
                if rng.random() < 0.5:
                    lanes = self.op("muli", lanes, self.splat(self.far(), _INDEX), kind)
                index = self.op("addi", self.splat(index, _INDEX), lanes, kind)
            self.touched(index, kind)
        if rng.random() < 0.4:
            self.plain()
        chosen = ["n >= 0", "n >= 1", "m >= 1", "m <= 100", "n <= 2**30", "n <= 17"]
        assume = [each for each in chosen if rng.random() < (0.05 if "n <=" in each else 0.35)]
        while assume and not can_hold(assume, ()):
            del assume[0]
        grid = rng.choice(["grid_x", "grid_x", "2", "3", "cdiv(m, 4)"])
        assume += [f"grid_x <= {rng.choice([5, 30])}"] if grid == "grid_x" else []
        parameters = ", ".join([f"%{name}: !tt.ptr<{element}>" for name, element in self.elements.items()])
        text = f"tt.func public @k({parameters}, %n: i32, %m: i64) {{\n" + "\n".join(self.lines) + "\n  tt.return\n}\n"
        return RandomKernel(text, {"x": "m", "y": "n + 1"}, (grid,), tuple(assume), dict(self.elements))


def wrapping_kernel(rng: random.Random) -> RandomKernel:
    """Returns a kernel as the random numbers choose it."""
    return _Maker(rng).make()


__all__ = ["wrapping_kernel"]
