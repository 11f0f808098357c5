"""Makes small kernels of counters that wrap or nearly do, of sizes that are fixed, and of maps, for `exhausting.py`.

Most loops have a condition, their counters move by steps as large as the type, and accesses at a counter are guarded from above
alone: what is proven of them rests on that the counter does not wrap.
"""

from __future__ import annotations

import random

from .small_kernels import Access, Binary, Node, Select, SmallKernel, While, _Maker
from .writing import can_hold

_FIXED = (0, 1, 2, 3, 4, 8, 16, 33, 64, 100, 126, 127, -1, -2, -128)


class _Counting(_Maker):
    def make(self) -> SmallKernel:
        """Makes the kernel; the numbers of some are constants of its text."""
        rng = self.rng
        for at in range(2):
            if rng.random() < 0.25:
                self.numbers[at] = self.constant(rng.choice(_FIXED))
        self.lanes = rng.choice([1, 1, 4, 4])
        made = super().make()
        assume = list(made.kernel.assume)
        for name in ("n", "m"):
            if rng.random() < 0.35:
                value = rng.choice(_FIXED)
                number = str(value) if value >= 0 else f"0 - {-value}"
                assume.append(rng.choice([f"{name} == {number}", f"{name} >= {number} and {name} <= {number}"]))
        if rng.random() < 0.2:
            assume.append(rng.choice(["n == m", "m == n", "n == 2 * m", "m == n - 1", "n == m * m", "3 * m + 1 == n"]))
        while assume and not can_hold(assume, _FIXED):
            del assume[0]
        return made._replace(kernel=made.kernel._replace(assume=tuple(assume)))

    def guarded(self, index: str, end: str) -> tuple[str, str]:
        if self.rng.random() < 0.55:
            return index, self.binary("slt", index, end)
        return super().guarded(index, end)

    def number(self, depth: int, is_scalar: bool = False) -> str:
        rng = self.rng
        if not is_scalar and self.lanes > 1 and rng.random() < 0.3:
            return self.mapped(self.atom(False), self.atom(False))
        return self.atom(is_scalar) if rng.random() < 0.5 else super().number(depth, is_scalar)

    def statement(self, depth: int) -> None:
        if depth > 0 and self.rng.random() < 0.4:
            self.loop(depth - 1)
        else:
            super().statement(depth)

    def loop(self, depth: int) -> None:
        rng = self.rng
        if rng.random() < 0.25:
            super().loop(depth)
            return
        starts = rng.choice([self.constant(0), "%p", self.atom(True)]), self.atom(True)
        end = rng.choice(["%n", "%m", self.atom(True)])
        steps = [self.constant(rng.choice([1, 2, 3, 8, 50, 100, 127])), "%m", self.atom(True)]
        self.loop_with_condition(depth, starts, end, rng.choice(steps))

    def loop_with_condition(self, depth: int, starts: tuple[str, str], end: str, step: str) -> None:
        """A loop whose condition bounds its counter, the next one, another number, or one that wraps first."""
        rng, result = self.rng, self.fresh()
        numbers, passed = (self.fresh(), self.fresh()), (self.fresh(), self.fresh())
        first = f"{numbers[0]} = {starts[0]}, {numbers[1]} = {starts[1]}"
        self.emit(f"{result}:2 = scf.while ({first}) : (i8, i8) -> (i8, i8) {{")
        before = self.inner(0, 0, *numbers)
        outer, own, self.body, self.numbers = self.body, self.numbers, before, self.kept
        self.depth += 1
        counter, choice = numbers[0], rng.random()
        if choice < 0.15:
            counter = self.binary("addi", counter, step)
        elif choice < 0.25:
            counter = numbers[1]
        elif choice < 0.3:
            counter = self.binary(rng.choice(["muli", "subi", "maxsi"]), counter, self.atom(True))
        condition = self.binary(rng.choice(["slt"] * 6 + ["sgt", "ult", "ne", "sle", "sge", "ule"]), counter, end)
        if rng.random() < 0.3:
            condition = self.binary(rng.choice(["andi", "ori"]), condition, self.flag(0, True), True)
        self.emit(f"scf.condition({condition}) {numbers[0]}, {numbers[1]} : i8, i8")
        self.depth -= 1
        self.body, self.numbers = outer, own
        self.emit("} do {")
        self.emit(f"^bb0({passed[0]}: i8, {passed[1]}: i8):")
        body = self.inner(rng.randrange(1, 3), depth, *passed)
        following = self.moved(body, passed[0], step), self.moved(body, passed[1], step)
        self.emit(f"  scf.yield {following[0]}, {following[1]} : i8, i8")
        self.emit("}")
        results = f"{result}#0", f"{result}#1"
        self.body.append(While(numbers, starts, before, condition, passed, body, following, results))
        self.numbers += results

    def moved(self, body: list[Node], number: str, step: str) -> str:
        if self.rng.random() < 0.3:
            return self.continued(body, number, step)
        outer, self.body = self.body, body
        self.depth += 1
        found = self.binary(self.rng.choice(["addi", "addi", "addi", "subi"]), number, step)
        self.depth -= 1
        self.body = outer
        return found

    def access(self) -> None:
        """Mostly one element, or a block, at a number that there is."""
        rng = self.rng
        if rng.random() < 0.4:
            super().access()
            return
        array = rng.choice(["x", "x", "y"])
        extent = self.extents[array]
        end = f"%{extent}" if extent in ("n", "m") else self.constant(int(extent)) if extent.isdigit() else "%n"
        index, mask = self.guarded(self.numbers[-1] if rng.random() < 0.5 else self.atom(True), end)
        is_block = index in self.blocks or mask in self.blocks
        index = self.lifted(index, is_block)
        mask = self.lifted(mask, is_block, "i1") if mask else ""
        value = self.lifted(self.atom(True), is_block)
        pointer, base, at = self.kind(is_block, "!tt.ptr<i8>"), f"%{array}", self.fresh()
        if is_block:
            base = self.fresh()
            self.emit(f"{base} = tt.splat %{array} : !tt.ptr<i8> -> {pointer}")
        self.line += 1
        self.emit(f"{at} = tt.addptr {base}, {index} : {pointer}, {self.kind(is_block)}")
        self.emit(f'tt.store {at}, {value}{f", {mask}" if mask else ""} : {pointer} loc("k.py":{self.line}:0)')
        self.body.append(Access(self.line, array, index, mask, value))

    def mapped(self, left: str, right: str) -> str:
        """What a region makes of two numbers of each lane: one of them, or what it computes; it may touch an element."""
        rng = self.rng
        left, right, made, tag = self.lifted(left, True), self.lifted(right, True), self.fresh(), self.fresh()
        block, operation = self.kind(True), rng.choice(["addi", "subi", "minsi", "maxsi", "xori", "remsi", "muli"])
        flag, computed, at = f"{tag}f", f"{tag}c", f"{tag}a"
        self.emit(f'{made} = "tt.map_elementwise"({left}, {right}) <{{pack = 1 : i32}}> ({{')
        self.emit(f"^bb0({tag}x: i8, {tag}y: i8):")
        self.emit(f"  {flag} = arith.cmpi slt, {tag}x, {tag}y : i8")
        self.emit(f"  {computed} = arith.{operation} {tag}x, {tag}y : i8")
        flags, computes = self.fresh(), self.fresh()
        self.body += [Binary(flags, "slt", left, right), Binary(computes, operation, left, right)]
        if rng.random() < 0.3:
            self.line += 1
            where = f'loc("k.py":{self.line}:0)'
            self.emit(f"  {at} = tt.addptr %x, {computed} : !tt.ptr<i8>, i8")
            value = ""
            if rng.random() < 0.6:
                self.emit(f"  tt.store {at}, {tag}x, {flag} : !tt.ptr<i8> {where}")
                value = left
            else:
                self.emit(f"  {tag}l = tt.load {at}, {flag} : !tt.ptr<i8> {where}")
            self.body.append(Access(self.line, "x", computes, flags, value))
        if rng.random() < 0.4:
            self.emit(f"  {tag}s = arith.select {flag}, {computed}, {tag}x : i8")
        else:
            name = tag[1:]
            self.emit(f"  cf.cond_br {flag}, ^more{name}, ^last{name}({tag}x : i8)")
            self.emit(f"^more{name}:")
            self.emit(f"  cf.br ^last{name}({computed} : i8)")
            self.emit(f"^last{name}({tag}s: i8):")
        self.emit(f"  tt.map_elementwise.return {tag}s : i8")
        self.emit(f"}}) : ({block}, {block}) -> {block}")
        self.body.append(Select(made, flags, computes, left))
        self.blocks |= {made, flags, computes}
        return made


def small_counting_kernel(rng: random.Random) -> SmallKernel:
    """Returns a kernel as the random numbers choose it."""
    return _Counting(rng).make()


__all__ = ["small_counting_kernel"]
