"""Writes random programs that hash: 32-bit arithmetic that wraps, reduced to an array's range by remainders, quotients and
masks.

Neighbours in a block of such numbers are mostly neighbours in memory too, but not where they wrap or change sign.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import joinery as jn
import numpy as np

LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1
CONSTANTS = (
    3, 5, 16, 48, 64, 256, 4096, 1 << 20, 1 << 30, LOWEST, -16, -64, HIGHEST, 1664525, 1013904223, -1640531527, 64 * 22369621,
    (1 << 31) - 64, (1 << 28) * 3,
)  # fmt: skip
SIZES = (16, 24, 64, 96, 128, 1024)
WAYS = ("remsi", "remsi", "remui", "andi", "shrui", "divsi", "divui", "select", "clamp")


class Writer:
    """Writes operations on i32 blocks of one shape, and on scalars."""

    def __init__(self, rng: random.Random, width: int) -> None:
        self.rng, self.width = rng, width
        self.block = f"tensor<{width}xi32>"
        self.lines: list[str] = []

    def op(self, text: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def binary(self, kind: str, left: str, right: str, type_: str = "") -> str:
        return self.op(f"arith.{kind} {left}, {right} : {type_ or self.block}")

    def number(self, value: int) -> str:
        return self.op(f"arith.constant {value} : i32")

    def filled(self, value: int) -> str:
        return self.op(f"arith.constant dense<{value}> : {self.block}")

    def spread(self, scalar: str) -> str:
        return self.op(f"tt.splat {scalar} : i32 -> {self.block}")

    def scalar(self) -> str:
        """Hashes the program id or an argument of the launch."""
        rng = self.rng
        value = rng.choice(["%pid", "%pid", "%n", "%m"])
        for _ in range(rng.randint(1, 3)):
            kind = rng.choice(["muli", "muli", "addi", "subi", "xori", "shli", "andi"])
            other = self.number(rng.randint(1, 9) if kind == "shli" else rng.choice(CONSTANTS))
            if kind in ("addi", "subi", "muli") and rng.random() < 0.3:
                other = rng.choice(["%n", "%m", "%pid"])
            value = self.binary(kind, value, other, "i32")
        return value

    def index(self, is_plain: bool) -> str:
        """Returns a block of any numbers, often consecutive ones. is_plain: consecutive, from starts that are
        far apart."""
        rng = self.rng
        start = rng.choice([0, 0, 0, 16, 40])
        ramp = self.op(f"tt.make_range {{end = {start + self.width} : i32, start = {start} : i32}} : {self.block}")
        if is_plain:
            scalar = self.binary("muli", "%pid", self.number(64 * rng.randrange(1 << 22, 1 << 25)), "i32")
            return self.binary("addi", self.spread(scalar), ramp)
        scalar = self.scalar()
        if rng.random() < 0.6:
            scalar = self.binary("muli", scalar, self.number(rng.choice([16, 32, 64, 128])), "i32")
        value = self.binary(rng.choice(["addi", "addi", "addi", "subi"]), *rng.sample([self.spread(scalar), ramp], 2))
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            kind = rng.choice(["muli", "addi", "subi", "xori", "shrsi", "maxsi", "minsi", "divsi", "remsi"])
            amount = rng.randint(0, 5) if kind == "shrsi" else rng.choice(CONSTANTS)
            value = self.binary(kind, value, self.filled(amount))
        return value

    def reduced(self, value: str, size: int, ways: tuple[str, ...] = WAYS) -> str:
        """Reduces numbers of any size to 0 … 2 · size."""
        rng = self.rng
        way = rng.choice(ways)
        if way == "remsi":
            by = self.filled(size) if rng.random() < 0.5 else self.spread("%size")
            return self.binary("addi", self.binary("remsi", value, by), self.filled(size))
        if way == "remui":
            return self.binary("remui", value, self.filled(size))
        if way == "andi":
            return self.binary("andi", value, self.filled((1 << size.bit_length() - 1) - 1))
        if way == "shrui":
            return self.binary("shrui", value, self.filled(33 - size.bit_length()))
        if way in ("divsi", "divui"):  # by so large a divisor that the quotient is in range
            by = 1 << 33 - size.bit_length()
            value = self.binary(way, value, self.filled(min(by, HIGHEST)))
            return self.binary("addi", value, self.filled(size)) if way == "divsi" else value
        inner = self.reduced(value, size, ("remsi", "remui", "andi"))
        if way == "select":
            low = self.op(f"arith.cmpi {rng.choice(['slt', 'sge', 'ult', 'uge'])}, {value}, "
                          f"{self.filled(rng.choice(CONSTANTS))} : {self.block}")  # fmt: skip
            other = self.reduced(value, size, ("remsi", "divsi", "andi"))
            return self.op(f"arith.select {low}, {inner}, {other} : tensor<{self.width}xi1>, {self.block}")
        limit = self.filled(2 * size - 1)
        return self.binary("maxsi", self.binary("minsi", value, limit), self.filled(0))


@dataclass(frozen=True, slots=True)
class Program:
    """A random program. text: a kernel that loads from hashed indices and stores consecutively.  grid, numbers, size: of its
    launch."""

    text: str
    grid: int
    numbers: tuple[int, int]
    size: int
    width: int

    def run(self, **where: Any) -> np.ndarray[Any, Any]:
        kernel = jn.kernel.from_ttir(self.text)
        data = np.arange(2 * self.size, dtype=np.float32)
        out = np.full(self.grid * self.width, -1, np.float32)
        args = (data, out, *self.numbers, self.size)
        if where:
            kernel.launch(self.grid, *args, **where)
        else:
            kernel.interpret(self.grid, *args)
        return out


def program(seed: int) -> Program:
    rng = random.Random(seed)
    width = rng.choice([64, 256, 512])
    size = rng.choice(SIZES)
    w = Writer(rng, width)
    is_plain = rng.random() < 0.5
    value = w.index(is_plain)
    place = w.reduced(value, size, ("remsi", "andi") if is_plain else WAYS)
    mask = other = ""
    if rng.random() < 0.4:
        kind = rng.choice(["slt", "sge", "ult", "sgt"])
        bound = w.spread(w.scalar()) if rng.random() < 0.5 else w.filled(rng.choice(CONSTANTS))
        compared = rng.choice([value, place])
        if rng.random() < 0.5:
            compared, kind, bound = w.binary("divsi", value, w.filled(rng.choice([16, 64, 96]))), "eq", w.filled(0)
        mask = w.op(f"arith.cmpi {kind}, {compared}, {bound} : {w.block}")
        other = w.op(f"arith.constant dense<-7.0> : tensor<{width}xf32>")
    pointers = f"tensor<{width}x!tt.ptr<f32>>"
    source = w.op(f"tt.splat %p : !tt.ptr<f32> -> {pointers}")
    source = w.op(f"tt.addptr {source}, {place} : {pointers}, {w.block}")
    got = w.op(f"tt.load {source}{mask and f', {mask}, {other}'} : {pointers}")
    ramp = w.op(f"tt.make_range {{end = {width} : i32, start = 0 : i32}} : {w.block}")
    first = w.spread(w.binary("muli", "%pid", w.number(width), "i32"))
    target = w.op(f"tt.splat %o : !tt.ptr<f32> -> {pointers}")
    target = w.op(f"tt.addptr {target}, {w.binary('addi', first, ramp)} : {pointers}, {w.block}")
    w.lines.append(f"tt.store {target}, {got} : {pointers}")
    multiple = "{tt.divisibility = 16 : i32}"
    body = "\n  ".join(["%pid = tt.get_program_id x : i32", *w.lines, "tt.return"])
    parameters = f"%p: !tt.ptr<f32> {multiple}, %o: !tt.ptr<f32> {multiple}, %n: i32, %m: i32, %size: i32"
    numbers = rng.choice(CONSTANTS), rng.choice(CONSTANTS)
    return Program(f"tt.func @hash({parameters}) {{\n  {body}\n}}", rng.choice([1, 5, 12]), numbers, size, width)
