"""Makes kernels of many stores of blocks that lie side by side, overlap or nearly do, by masks, loops and strides.

Each kernel draws one tiling: how far programs, iterations and lanes are apart. Its stores keep to it, or shift, widen or
turn it, so that two stores of two programs, of two iterations, and two lanes of one store meet here and there. Blocks of
values differ by lane, or do not.
Two axes of the grid, rows by columns, chunks of a row by a loop, and halves of a block are among
the tilings.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from .random_kernels import RandomKernel
from .writing import Writer

_EXTENTS = {"x": "n", "y": "n * m", "z": "16"}


class _Maker(Writer):
    """Writes one kernel.

    Attributes:
        apart: how far programs, or iterations, are apart.
        odd: how often stores leave the tiling, of the chances below: never in half of the kernels, of which much is proven.
        counters: those of the loops around; `turns` of those that count from the program by the number of programs.
        is_folded: whether lanes of a block have elements in common.
        is_turned: whether the grid's first axis is that of columns.
        tiles: how many of the stores are to tiles of y.
    """

    apart: int
    odd: float
    counters: list[str]
    turns: list[str]
    is_folded: bool
    is_turned: bool
    tiles: float

    def strays(self, chance: float) -> bool:
        return self.rng.random() < chance * self.odd

    def near(self, value: int) -> int:
        rng = self.rng
        return value if not self.strays(0.15) else max(0, value + rng.choice([-1, 1, -value, value]))

    def lanes(self, count: int) -> str:
        wide = self.block("i32", count)
        made = self.made(f"tt.make_range {{end = {count} : i32, start = 0 : i32}} : {wide}", wide)
        return self.cast(made, wide, self.block(self.width, count))

    def start(self) -> str:
        """Where a program, or an iteration of a loop, begins."""
        rng, width = self.rng, self.width
        who = rng.choice(self.counters) if self.counters and self.strays(0.7) else "%pid"
        if self.turns and not self.strays(0.3):
            who = self.turns[-1]  # counts by the number of programs, from the program's own
            return self.op("muli", who, self.number(self.apart, width), width)
        apart = self.number(self.near(self.apart), width)
        first = self.op("muli", who, apart, width)
        if who != "%pid" and rng.random() < 0.6:
            across = rng.choice([self.number(self.near(self.apart * 4), width), "%m", "%n"])
            first = self.op("addi", first, self.op("muli", "%pid", across, width), width)
        if who != "%pid" and self.strays(0.5):
            strided = self.op("muli", who, "%np", width)
            first = self.op("muli", self.op("addi", strided, "%pid", width), apart, width)
        return first

    def flat(self) -> tuple[str, str]:
        """An index of x or z, and the block's type."""
        rng, own = self.rng, self.own
        lanes = self.lanes(self.size)
        if self.strays(0.3):
            lanes = self.op("muli", lanes, self.number(self.near(rng.choice([1, 2, self.apart])), own), own)
        if self.is_folded or self.strays(0.1):  # several lanes have one element
            lanes = self.op(
                rng.choice(["divsi", "remsi", "andi", "xori", "shrui"]),
                lanes,
                self.number(rng.choice([1, 2, 3]), own),
                own,
            )
        index = self.op(
            rng.choice(["addi", "addi", "addi", "ori" if self.odd else "addi"]),
            self.splat(self.start()),
            lanes,
            own,
        )
        if self.strays(0.3):  # a half, a neighbour, the other end
            shift = rng.choice([self.size // 2, self.size, self.apart, 1])
            index = self.op(rng.choice(["addi", "subi"]), index, self.number(shift, own), own)
        if self.strays(0.12):
            last = self.op("subi", self.splat("%n"), self.number(1, own), own)
            index = self.op("subi", last, index, own)
        if self.strays(0.12):
            index = self.op(rng.choice(["remsi", "remui"]), index, self.splat("%n"), own)
        return index, own

    def masked(self, index: str, own: str, end: str) -> str | None:
        """A mask that keeps an index inside; parts of it, and parity or halves of the block besides, now and then."""
        rng = self.rng
        booleans = own.replace(f"x{self.width}>", "xi1>")
        if self.strays(0.05):
            return None
        if rng.random() < 0.3:
            found = self.compare("ult", index, end, own)
        else:
            found = self.compare("slt", index, end, own)
            if not self.strays(0.2):
                zero = self.number(0, own)
                found = self.op("andi", self.compare("sge", index, zero, own), found, booleans)
        if rng.random() < 0.25:
            two = self.number(rng.choice([2, 2, self.apart or 1]), own)
            rest = self.op(rng.choice(["remsi", "remui"]), index, two, own)
            also = self.compare(rng.choice(["eq", "ne"]), rest, self.number(0, own), own)
            found = self.op("andi", found, also, booleans)
        if rng.random() < 0.15:
            limit = self.splat(rng.choice(["%m", "%pid", "%n"]), self.width, *self.shape_of(own))
            found = self.op(
                "andi", found, self.compare(rng.choice(["slt", "sge", "ne"]), index, limit, own), booleans
            )
        return found

    def shape_of(self, own: str) -> tuple[int, ...]:
        return tuple([int(each) for each in own.removeprefix("tensor<").split("x")[:-1]])

    def touch(self, array: str, index: str, mask: str | None, own: str) -> None:
        rng, element, shape = self.rng, self.elements[array], self.shape_of(own)
        to, block, yes = (
            self.block(f"!tt.ptr<{element}>", *shape),
            self.block(element, *shape),
            self.block("i1", *shape),
        )
        base = self.made(f"tt.splat %{array} : !tt.ptr<{element}> -> {to}", to)
        at = self.made(f"tt.addptr {base}, {index} : {to}, {own}", to)
        more = f", {mask}" if mask else ""
        choice = rng.random()
        if choice < 0.12:
            self.made(f"tt.load {at}{more} : {to}", block)
        elif choice < 0.12 + 0.08 * self.odd and element == "i32":
            mask = mask or self.made(f"arith.constant dense<true> : {yes}", yes)
            value, scope = (
                self.made(f"arith.constant dense<1> : {block}", block),
                rng.choice(["gpu", "gpu", "sys", "cta"]),
            )
            self.made(
                f"tt.atomic_rmw add, relaxed, {scope}, {at}, {value}, {mask} : ({to}, {block}, {yes}) -> {block}",
                block,
            )
        else:
            if len(shape) == 1 and rng.random() < 0.4:
                value = self.cast(self.lanes(shape[0]), own, block)
            elif rng.random() < 0.4:
                value = self.cast(index, own, block)
            else:
                value = self.made(f"arith.constant dense<{rng.choice([0, 1, 7])}> : {block}", block)
            self.emit(f"tt.store {at}, {value}{more} : {to}")

    def line(self) -> None:
        """A block of x, or of z."""
        array = "z" if self.strays(0.25) else "x"
        index, own = self.flat()
        limit = "%n" if array == "x" else self.number(16, self.width)
        self.touch(array, index, self.masked(index, own, self.splat(limit)), own)

    def tile(self) -> None:
        """A tile of y: rows by a program's axis, columns by the other one or by a loop."""
        rng, width = self.rng, self.width
        own, rows, columns = self.block(width, 2, 2), self.block(width, 2, 1), self.block(width, 1, 2)
        parts = []
        for axis, kind in ((1, rows), (0, columns)):
            lanes = self.lanes(2)
            who = "%pid" if (axis == 1) != self.is_turned else (self.counters or ["%pid1"])[-1]
            if self.strays(0.2):
                who = rng.choice(["%pid", "%pid1", *self.counters])
            first = self.op("muli", who, self.number(self.near(2), width), width)
            line = self.op("addi", self.splat(first, width, 2), lanes, self.block(width, 2))
            parts.append(
                self.made(
                    f"tt.expand_dims {line} {{axis = {axis} : i32}} : {self.block(width, 2)} -> {kind}", kind
                )
            )
        row, column = [
            self.made(f"tt.broadcast {part} : {kind} -> {own}", own)
            for part, kind in zip(parts, (rows, columns), strict=True)
        ]
        stride, ends = ("%n" if self.strays(0.25) else "%m"), {row: "%n", column: "%m"}
        index = self.op("addi", self.op("muli", row, self.splat(stride, width, 2, 2), own), column, own)
        mask: str | None = None
        for part, end in ends.items():
            inside = self.compare("slt", part, self.splat(end, width, 2, 2), own)
            if not self.strays(0.15):
                mask = inside if mask is None else self.op("andi", mask, inside, self.block("i1", 2, 2))
        self.touch("y", index, mask, own)

    def stores(self, count: int) -> None:
        for _ in range(count):
            if self.rng.random() < self.tiles:
                self.tile()
            else:
                self.line()

    def loop(self) -> None:
        """Stores in a loop that counts chunks, rows, or the programs' turns."""
        rng, width = self.rng, self.width
        low, end, step = rng.choice([
            ("0", "%n", "1"), ("0", "%m", "1"), ("%pid", "%n", "%np"), ("0", "4", "1"), ("0", "%n", str(self.apart or 1)),
            ("%m", "%n", "2"),
        ])  # fmt: skip
        bounds = [
            each if each.startswith("%") else self.number(int(each), width) for each in (low, end, step)
        ]
        counter = f"%{self.fresh()}"
        is_turn = (low, step) == ("%pid", "%np")
        self.emit(f"scf.for {counter} = {bounds[0]} to {bounds[1]} step {bounds[2]} : {width} {{")
        self.inner(lambda: self.stores(rng.choice([1, 1, 2])), counter, is_turn)
        self.emit("}")

    def branch(self) -> None:
        """Stores of some programs, and of the others."""
        rng, width = self.rng, self.width
        other = rng.choice([self.number(0, width), self.number(1, width), "%m"])
        flag = self.compare(rng.choice(["eq", "slt", "sge"]), "%pid", other, width)
        self.emit(f"scf.if {flag} {{")
        self.inner(lambda: self.stores(1))
        if rng.random() < 0.5:
            self.emit("} else {")
            self.inner(lambda: self.stores(1))
        self.emit("}")

    def inner(self, write: Callable[[], None], counter: str = "", is_turn: bool = False) -> None:
        scope, counters = {kind: list(names) for kind, names in self.scope.items()}, list(self.counters)
        turns = list(self.turns)
        if is_turn:
            self.turns.append(counter)
        if counter:
            self.counters.append(counter)
            self.scope[self.width].append(counter)
        self.depth += 1
        write()
        self.depth -= 1
        self.scope, self.counters, self.turns = scope, counters, turns

    def make(self) -> RandomKernel:
        """Makes the kernel."""
        rng, own = self.rng, self.width
        self.counters, self.turns = [], []
        self.odd = rng.choice([0.0, 0.0, 0.3, 1.0])
        self.faults = self.faults if self.odd or rng.random() < 0.3 else 0
        self.is_folded = rng.random() < 0.2
        self.is_turned, self.tiles = rng.random() < 0.3, rng.choice([0.0, 0.25, 1.0])
        self.scope = {own: ["%n", "%m", "%pid", "%np"]}
        self.apart = rng.choice([self.size, self.size, self.size, self.size // 2, 2 * self.size, 1])
        self.elements = {
            "x": rng.choice(["i32", "i32", "i64", "i8"]),
            "y": rng.choice(["i32", "i16"]),
            "z": "i32",
        }
        for name, what in (
            ("pid", "get_program_id x"),
            ("pid1", "get_program_id y"),
            ("np", "get_num_programs x"),
        ):
            self.emit(f"%{name}q = tt.{what} : i32")
            if own == "i32":
                self.emit(f"%{name}z = arith.constant 0 : i32")
                self.emit(f"%{name} = arith.addi %{name}q, %{name}z : i32")
            else:
                self.emit(f"%{name} = arith.{'extsi' if own == 'i64' else 'trunci'} %{name}q : i32 to {own}")
        for _ in range(rng.choice([2, 2, 3, 4])):
            choice = rng.random()
            (self.loop if choice < 0.3 else self.branch if choice < 0.45 else lambda: self.stores(1))()
        whole = f"cdiv(n, {self.near(self.apart) or 1})"
        grid = (rng.choice([whole, whole, "grid_x", "n", "m", "2"]),)
        if self.tiles and not self.is_turned and rng.random() < 0.8:
            grid = rng.choice([("cdiv(n, 2)", "cdiv(m, 2)"), ("grid_x", "grid_y"), ("n", "2")])
        chosen = [
            each
            for each in ("n >= 1", "m >= 0", "m <= n", "n <= 100", "n % 4 == 0", "m >= 2")
            if rng.random() < 0.3
        ]
        arguments = [f"%{name}: !tt.ptr<{element}>" for name, element in self.elements.items()] + [
            f"%n: {own}",
            f"%m: {own}",
        ]
        body = "\n".join(self.lines)
        text = f"tt.func public @k({', '.join(arguments)}) {{\n{body}\n  tt.return\n}}\n"
        return RandomKernel(text, dict(_EXTENTS), grid, (*self.assume, *chosen), dict(self.elements))


def storing_kernel(rng: random.Random) -> RandomKernel:
    """Returns a kernel as the random numbers choose it."""
    return _Maker(rng).make()


__all__ = ["storing_kernel"]
