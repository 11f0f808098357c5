"""Makes kernels of 8-bit numbers as trees, which have a text and can be computed for thousands of sizes at once.

In 8 bits everything wraps, and nearly all sizes can be tried. `exhausting.py` computes the trees by NumPy, apart from the
interpreter: loops count as devices do, in the counter's own bits, and go on below 0.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from .random_kernels import RandomKernel

OPERATIONS = ("addi", "subi", "muli", "divsi", "remsi", "divui", "remui", "minsi", "maxsi", "minui", "maxui", "andi", "ori",
              "xori", "shli", "shrsi", "shrui")  # fmt: skip
PREDICATES = ("slt", "sle", "sgt", "sge", "eq", "ne", "ult", "ule", "ugt", "uge")
_NUMBERS = (0, 1, 1, 2, 3, 4, 4, 5, 8, 16, -1, -2, 127, -128, 100)
_EXTENTS = ("n", "n", "m", "8", "n + m", "n * m")
_ASSUMPTIONS = ("n >= 0", "m >= 1", "n >= 1", "n <= 100", "m <= 16", "n <= m", "n % 4 == 0", "m == 4")


class Constant(NamedTuple):
    name: str
    value: int


class Binary(NamedTuple):
    """An operation, or a comparison, of two numbers; of two conditions if `is_flags`."""

    name: str
    operation: str
    left: str
    right: str
    is_flags: bool = False


class Select(NamedTuple):
    name: str
    condition: str
    yes: str
    no: str


class Widened(NamedTuple):
    """A number that is extended to 16 bits, changed by a constant, and cut to 8 bits again."""

    name: str
    cast: str
    operation: str
    by: int
    source: str


class Lanes(NamedTuple):
    """The block of 0, 1, 2, …"""

    name: str


class Program(NamedTuple):
    """The program's index, in 8 bits."""

    name: str


class Access(NamedTuple):
    """A load, or a store of `value`, at a line of its own."""

    line: int
    array: str
    index: str
    mask: str
    value: str


class If(NamedTuple):
    condition: str
    yes: list[Node]
    no: list[Node]


class For(NamedTuple):
    """A loop that carries one number."""

    counter: str
    carried: str
    low: str
    end: str
    step: str
    start: str
    body: list[Node]
    following: str
    result: str


class While(NamedTuple):
    """A loop with a condition, which carries two numbers: `before` computes the condition of them, `body` the next ones."""

    numbers: tuple[str, str]
    starts: tuple[str, str]
    before: list[Node]
    condition: str
    passed: tuple[str, str]
    body: list[Node]
    following: tuple[str, str]
    results: tuple[str, str]


Node = Constant | Binary | Select | Widened | Lanes | Program | Access | If | For | While


class SmallKernel(NamedTuple):
    """A kernel, what it computes, and how many lanes its blocks have."""

    kernel: RandomKernel
    body: list[Node]
    lanes: int


class _Maker:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lanes = rng.choice([1, 1, 4])
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.line = 100
        self.numbers = ["%n", "%m"]
        self.blocks: set[str] = set()
        self.body: list[Node] = []
        self.extents = {"x": rng.choice(_EXTENTS), "y": rng.choice(["m", "4", "n"])}

    # Text

    def emit(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}q"

    def kind(self, is_block: bool, element: str = "i8") -> str:
        return f"tensor<{self.lanes}x{element}>" if is_block else element

    def lifted(self, name: str, is_block: bool, element: str = "i8") -> str:
        """A scalar as a block where one is needed; in the tree it is the same value."""
        if not is_block or name in self.blocks:
            return name
        made = self.fresh()
        self.emit(f"{made} = tt.splat {name} : {element} -> {self.kind(True, element)}")
        self.body.append(Select(made, "", name, name))
        self.blocks.add(made)
        return made

    def constant(self, value: int | None = None) -> str:
        value = self.rng.choice(_NUMBERS) if value is None else value
        made = self.fresh()
        self.emit(f"{made} = arith.constant {value} : i8")
        self.body.append(Constant(made, value))
        return made

    def binary(self, operation: str, left: str, right: str, is_flags: bool = False) -> str:
        is_block = left in self.blocks or right in self.blocks
        element = "i1" if is_flags else "i8"
        left, right, made = (
            self.lifted(left, is_block, element),
            self.lifted(right, is_block, element),
            self.fresh(),
        )
        name = f"cmpi {operation}," if operation in PREDICATES else operation
        self.emit(f"{made} = arith.{name} {left}, {right} : {self.kind(is_block, element)}")
        self.body.append(Binary(made, operation, left, right, is_flags))
        if is_block:
            self.blocks.add(made)
        return made

    def select(self, condition: str, yes: str, no: str) -> str:
        is_block = bool({condition, yes, no} & self.blocks)
        condition, made = self.lifted(condition, is_block, "i1"), self.fresh()
        yes, no = self.lifted(yes, is_block), self.lifted(no, is_block)
        self.emit(
            f"{made} = arith.select {condition}, {yes}, {no} : {self.kind(is_block, 'i1')}, {self.kind(is_block)}"
        )
        self.body.append(Select(made, condition, yes, no))
        if is_block:
            self.blocks.add(made)
        return made

    def widened(self, source: str) -> str:
        rng, is_block = self.rng, source in self.blocks
        cast, operation, by = (
            rng.choice(["extsi", "extui"]),
            rng.choice(["addi", "muli", "subi", "shrsi", "shrui", "divsi"]),
            rng.choice([1, 2, 3, 4]),
        )
        wide, number, changed, made = [self.fresh() for _ in range(4)]
        narrow, to = self.kind(is_block), self.kind(is_block, "i16")
        self.emit(f"{wide} = arith.{cast} {source} : {narrow} to {to}")
        self.emit(f"{number} = arith.constant {f'dense<{by}>' if is_block else by} : {to}")
        self.emit(f"{changed} = arith.{operation} {wide}, {number} : {to}")
        self.emit(f"{made} = arith.trunci {changed} : {to} to {narrow}")
        self.body.append(Widened(made, cast, operation, by, source))
        if is_block:
            self.blocks.add(made)
        return made

    # Numbers

    def atom(self, is_scalar: bool) -> str:
        if self.rng.random() < 0.25:
            return self.constant()
        pool = [each for each in self.numbers if not is_scalar or each not in self.blocks]
        return self.rng.choice(pool[-5:] if self.rng.random() < 0.6 else pool)

    def number(self, depth: int, is_scalar: bool = False) -> str:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.2:
            return self.atom(is_scalar)
        choice = rng.random()
        if choice < 0.1:
            return self.select(
                self.flag(0, is_scalar), self.number(depth - 1, is_scalar), self.number(depth - 1, is_scalar)
            )
        if choice < 0.18:
            return self.widened(self.number(depth - 1, is_scalar))
        operation = rng.choice(["addi"] * 5 + ["subi"] * 3 + ["muli"] * 3 + list(OPERATIONS))
        left = self.number(depth - 1, is_scalar)
        is_shift = operation.startswith("sh") and rng.random() < 0.7
        right = self.constant(rng.choice([1, 2, 3, 4, 7])) if is_shift else self.number(depth - 1, is_scalar)
        return self.binary(operation, left, right)

    def flag(self, depth: int = 1, is_scalar: bool = False) -> str:
        rng = self.rng
        right = rng.choice(["%n", "%m", ""]) or self.number(depth, is_scalar)
        found = self.binary(rng.choice(["slt", "slt", *PREDICATES]), self.number(depth, is_scalar), right)
        if rng.random() < 0.3:
            other = self.binary(rng.choice(PREDICATES), self.number(0, is_scalar), self.atom(is_scalar))
            found = self.binary(rng.choice(["andi", "andi", "ori", "xori"]), found, other, True)
        return found

    # Statements

    def guarded(self, index: str, end: str) -> tuple[str, str]:
        """An index and a mask that keep it inside, or nearly; "" for no mask."""
        rng, choice = self.rng, self.rng.random()
        if choice < 0.4:
            above = self.binary(rng.choice(["sge"] * 8 + ["sgt", "ne"]), index, self.constant(0))
            return index, self.binary(
                "andi", self.binary(rng.choice(["slt"] * 8 + ["sle"]), index, end), above, True
            )
        if choice < 0.55:
            return index, self.binary(rng.choice(["ult"] * 6 + ["ule"]), index, end)
        if choice < 0.65:
            return self.binary(rng.choice(["remui", "remui", "remsi"]), index, end), ""
        if choice < 0.75:
            least = self.binary("minsi", index, self.binary("subi", end, self.constant(1)))
            return self.binary("maxsi", least, self.constant(0)), ""
        return (index, self.binary("slt", index, end)) if choice < 0.9 else (index, "")

    def access(self) -> None:
        rng, array = self.rng, self.rng.choice(["x", "x", "y"])
        extent = self.extents[array]
        end = (
            f"%{extent}"
            if extent in ("n", "m")
            else self.constant(int(extent))
            if extent.isdigit()
            else self.atom(False)
        )
        index, mask = self.guarded(self.number(rng.randrange(4)), end)
        if mask and rng.random() < 0.35:
            mask = self.binary(rng.choice(["andi", "andi", "andi", "ori"]), mask, self.flag(), True)
        if rng.random() < 0.15:
            index = self.binary(rng.choice(["addi", "subi", "xori", "ori"]), index, self.constant(1))
        is_block = index in self.blocks or mask in self.blocks
        value = ""
        if rng.random() < 0.65:
            value = self.lifted(self.atom(False) if is_block else self.atom(True), is_block)
        index = self.lifted(index, is_block)
        mask = self.lifted(mask, is_block, "i1") if mask else ""
        pointer, base, at = self.kind(is_block, "!tt.ptr<i8>"), f"%{array}", self.fresh()
        if is_block:
            base = self.fresh()
            self.emit(f"{base} = tt.splat %{array} : !tt.ptr<i8> -> {pointer}")
        self.line += 1
        where, more = f' loc("k.py":{self.line}:0)', f", {mask}" if mask else ""
        self.emit(f"{at} = tt.addptr {base}, {index} : {pointer}, {self.kind(is_block)}")
        self.emit(
            f"tt.store {at}, {value}{more} : {pointer}{where}"
            if value
            else f"{self.fresh()} = tt.load {at}{more} : {pointer}{where}"
        )
        self.body.append(Access(self.line, array, index, mask, value))

    def inner(self, count: int, depth: int, *names: str) -> list[Node]:
        """Statements of a region; what is made in it is known there alone."""
        outer, numbers, self.body = self.body, list(self.numbers), []
        self.numbers += names
        self.depth += 1
        for _ in range(count):
            self.statement(depth)
        made, self.body = self.body, outer
        self.kept, self.numbers = self.numbers, numbers
        self.depth -= 1
        return made

    def continued(self, body: list[Node], carried: str, step: str) -> str:
        """What a loop's body passes on, made at its end."""
        outer, numbers, self.body, self.numbers = self.body, self.numbers, body, self.kept
        self.depth += 1
        rng = self.rng
        by = rng.choice([self.constant(1), step, self.number(1, True)])
        found = (
            self.binary(rng.choice(["addi", "addi", "subi"]), carried, by)
            if rng.random() < 0.85
            else self.number(1, True)
        )
        self.depth -= 1
        self.body, self.numbers = outer, numbers
        return found

    def branch(self, depth: int) -> None:
        condition = self.flag(1, True)
        self.emit(f"scf.if {condition} {{")
        yes = self.inner(self.rng.randrange(1, 3), depth)
        self.emit("} else {")
        no = self.inner(self.rng.randrange(2), depth)
        self.emit("}")
        self.body.append(If(condition, yes, no))

    def loop(self, depth: int) -> None:
        rng = self.rng
        low, end = (
            rng.choice([self.constant(0), self.constant(0), self.number(1, True)]),
            rng.choice(["%n", "%m", self.number(1, True)]),
        )
        step = rng.choice(
            [self.constant(1), self.constant(rng.choice([2, 3, 4, 8, 50])), "%m", self.number(1, True)]
        )
        start, counter, carried, result = self.atom(True), *[self.fresh() for _ in range(3)]
        if rng.random() < 0.25:
            self.loop_with_condition(depth, (low, start), end, step)
            return
        self.emit(
            f"{result} = scf.for {counter} = {low} to {end} step {step} iter_args({carried} = {start}) -> (i8) : i8 {{"
        )
        body = self.inner(rng.randrange(1, 4), depth, counter, carried, counter)
        following = self.continued(body, carried, step)
        self.emit(f"  scf.yield {following} : i8")
        self.emit("}")
        self.body.append(For(counter, carried, low, end, step, start, body, following, result))
        self.numbers.append(result)

    def loop_with_condition(self, depth: int, starts: tuple[str, str], end: str, step: str) -> None:
        rng, result = self.rng, self.fresh()
        numbers, passed = (self.fresh(), self.fresh()), (self.fresh(), self.fresh())
        self.emit(
            f"{result}:2 = scf.while ({numbers[0]} = {starts[0]}, {numbers[1]} = {starts[1]}) : (i8, i8) -> (i8, i8) {{"
        )
        before = self.inner(0, 0, *numbers)
        outer, own, self.body, self.numbers = self.body, self.numbers, before, self.kept
        self.depth += 1
        condition = self.binary(rng.choice(["slt", "slt", "sgt", "ult"]), numbers[0], end)
        if rng.random() < 0.6:
            condition = self.binary("andi", condition, self.flag(0, True), True)
        self.emit(f"scf.condition({condition}) {numbers[0]}, {numbers[1]} : i8, i8")
        self.depth -= 1
        self.body, self.numbers = outer, own
        self.emit("} do {")
        self.emit(f"^bb0({passed[0]}: i8, {passed[1]}: i8):")
        body = self.inner(rng.randrange(1, 3), depth, *passed)
        following = (self.continued(body, passed[0], step), self.continued(body, passed[1], step))
        self.emit(f"  scf.yield {following[0]}, {following[1]} : i8, i8")
        self.emit("}")
        results = (f"{result}#0", f"{result}#1")
        self.body.append(While(numbers, starts, before, condition, passed, body, following, results))
        self.numbers += results

    def statement(self, depth: int) -> None:
        choice = self.rng.random()
        if choice < 0.25:
            self.numbers.append(self.number(2))
        elif choice < 0.6 or depth <= 0:
            self.access()
        elif choice < 0.75:
            self.branch(depth - 1)
        else:
            self.loop(depth - 1)

    def make(self) -> SmallKernel:
        """Makes the kernel."""
        rng = self.rng
        self.emit("%pid = tt.get_program_id x : i32")
        self.emit("%p = arith.trunci %pid : i32 to i8")
        self.body.append(Program("%p"))
        self.numbers += ["%p", "%p"]
        if self.lanes > 1:
            self.emit(
                f"%wide = tt.make_range {{end = {self.lanes} : i32, start = 0 : i32}} : {self.kind(True, 'i32')}"
            )
            self.emit(f"%lanes = arith.trunci %wide : {self.kind(True, 'i32')} to {self.kind(True)}")
            self.body.append(Lanes("%lanes"))
            self.blocks.add("%lanes")
            first = self.binary("muli", "%p", self.constant(self.lanes))
            self.numbers += ["%lanes", self.binary("addi", first, "%lanes")]
        for _ in range(rng.randrange(2, 5)):
            self.statement(2)
        self.access()
        assume = tuple([each for each in _ASSUMPTIONS if rng.random() < 0.3])
        grid = rng.choice(["grid_x", "n", "cdiv(n, 4)", "min(n, 3)", "1", "1", "2"])
        arguments = "%x: !tt.ptr<i8>, %y: !tt.ptr<i8>, %n: i8, %m: i8"
        text = f"tt.func public @k({arguments}) {{\n" + "\n".join(self.lines) + "\n  tt.return\n}\n"
        kernel = RandomKernel(text, self.extents, (grid,), assume, {"x": "i8", "y": "i8"})
        return SmallKernel(kernel, self.body, self.lanes)


def small_kernel(rng: random.Random) -> SmallKernel:
    """Returns a kernel as the random numbers choose it."""
    return _Maker(rng).make()


__all__ = [
    "Access", "Binary", "Constant", "For", "If", "Lanes", "Node", "Program", "Select", "SmallKernel", "While", "Widened",
    "small_kernel",
]  # fmt: skip
