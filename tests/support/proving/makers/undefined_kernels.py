"""Makes kernels whose loads and atomics leave lanes undefined, which blocks, reductions, loops and branches carry on.

Addresses are always inside their arrays. Few masks are drawn, so that much is stored by the mask that it was loaded by, by a
stronger one, or by one that is weaker or has nothing to do with it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from .random_kernels import RandomKernel

_LANES = 8
_I = f"tensor<{_LANES}xi32>"
_B = f"tensor<{_LANES}xi1>"
_P = f"tensor<{_LANES}x!tt.ptr<i32>>"
_ADDS = "%s = arith.addi %a, %b : i32"
_BRANCHES = """%c = arith.cmpi slt, %a, %b : i32
      %s = scf.if %c -> (i32) {
        scf.yield %a : i32
      } else {
        scf.yield %b : i32
      }"""
_CHOOSES = """%c = arith.cmpi slt, %a, %b : i32
      %s = arith.select %c, %a, %b : i32"""


class Maker:
    """Writes one kernel. blocks, masks, scalars, bits: the values of each type that may be used where it stands."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.count = 0
        self.depth = 1
        self.blocks: list[str] = ["%lanes", "%zeros"]
        self.masks: list[str] = []
        self.scalars: list[str] = ["%n", "%m", "%pid"]
        self.bits: list[str] = []
        self.stores = 0
        self.carelessness = rng.choice([0.05, 0.2, 0.5])
        self.dots = rng.random() < 0.1

    def emit(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}q"

    def made(self, text: str) -> str:
        name = self.name()
        self.emit(f"{name} = {text}")
        return name

    def add(self, pool: list[str], text: str) -> str:
        name = self.made(text)
        pool.append(name)
        return name

    def careless(self) -> bool:
        return self.rng.random() < self.carelessness

    def late(self, pool: list[str]) -> str:
        """One of a pool, the last ones more often."""
        return pool[-1 - min(int(self.rng.expovariate(0.5)), len(pool) - 1)]

    # Values

    def scope(self, write: Callable[[], None]) -> None:
        """Writes a part whose values are not seen behind it."""
        kept = [list(each) for each in (self.blocks, self.masks, self.scalars, self.bits)]
        self.depth += 1
        write()
        self.depth -= 1
        self.blocks, self.masks, self.scalars, self.bits = kept

    def number(self, value: int) -> str:
        return self.made(f"arith.constant {value} : i32")

    def repeated(self, value: int | str) -> str:
        if isinstance(value, int):
            return self.made(f"arith.constant dense<{value}> : {_I}")
        return self.made(f"tt.splat {value} : i32 -> {_I}")

    def mask(self) -> str:
        rng = self.rng
        if len(self.masks) > 2 and rng.random() < 0.6:
            one, two = rng.choice(self.masks), rng.choice(self.masks)
            return self.add(self.masks, f"arith.{rng.choice(['andi', 'andi', 'ori', 'xori'])} {one}, {two} : {_B}")
        left = rng.choice(["%lanes", "%lanes", self.late(self.blocks)])
        right = self.repeated(rng.choice(["%n", "%m", "%n", rng.randrange(9), self.late(self.scalars)]))
        predicate = rng.choice(["slt", "slt", "sle", "sge", "eq", "ne", "ult"])
        return self.add(self.masks, f"arith.cmpi {predicate}, {left}, {right} : {_I}")

    def some_mask(self) -> str:
        return self.rng.choice(self.masks) if self.masks and self.rng.random() < 0.85 else self.mask()

    def bit(self) -> str:
        rng = self.rng
        if self.bits and rng.random() < 0.3:
            return rng.choice(self.bits)
        left = rng.choice(["%n", "%m", "%pid"]) if not self.careless() else self.late(self.scalars)
        right = rng.choice(["%n", "%m", self.number(rng.randrange(6))])
        return self.add(self.bits, f"arith.cmpi {rng.choice(['slt', 'sge', 'eq'])}, {left}, {right} : i32")

    def place(self) -> str:
        """Pointers that are inside their array whatever they are made of."""
        rng = self.rng
        index = "%lanes" if not self.careless() else self.late(self.blocks)
        start = self.repeated(rng.choice(["%pid", 0, 8]))
        moved = self.made(f"arith.addi {index}, {start} : {_I}")
        inside = self.made(f"arith.andi {moved}, %low : {_I}")
        base = self.made(f"tt.splat {rng.choice(['%x', '%y', '%o'])} : !tt.ptr<i32> -> {_P}")
        return self.made(f"tt.addptr {base}, {inside} : {_P}, {_I}")

    # Steps

    def load(self) -> None:
        at, kind = self.place(), self.rng.random()
        if kind < 0.15:
            self.add(self.blocks, f"tt.load {at} : {_P}")
        elif kind < 0.65:
            self.add(self.blocks, f"tt.load {at}, {self.some_mask()} : {_P}")
        else:
            other = self.rng.choice(["%zeros", self.late(self.blocks)])
            self.add(self.blocks, f"tt.load {at}, {self.some_mask()}, {other} : {_P}")

    def load_scalar(self) -> None:
        rng = self.rng
        index = self.made(f"arith.andi {self.late(self.scalars) if self.careless() else '%pid'}, %least : i32")
        at = self.made(f"tt.addptr {rng.choice(['%x', '%y'])}, {index} : !tt.ptr<i32>, i32")
        mask = rng.choice(["", f", {self.bit()}", f", {self.bit()}, {rng.choice(self.scalars)}"])
        self.add(self.scalars, f"tt.load {at}{mask} : !tt.ptr<i32>")

    def compute(self) -> None:
        rng = self.rng
        x, y = self.late(self.blocks), self.late(self.blocks)
        operation = rng.choice(["addi", "muli", "andi", "ori", "xori", "minsi", "maxsi", "subi", "addi"])
        self.add(self.blocks, f"arith.{operation} {x}, {y} : {_I}")

    def select(self) -> None:
        x, y = self.late(self.blocks), self.rng.choice(["%zeros", self.late(self.blocks)])
        x, y = (x, y) if self.rng.random() < 0.8 else (y, x)
        if self.rng.random() < 0.2:
            self.add(self.blocks, f"arith.select {self.bit()}, {x}, {y} : {_I}")
        else:
            self.add(self.blocks, f"arith.select {self.some_mask()}, {x}, {y} : {_B}, {_I}")

    def reduce(self) -> None:
        rng = self.rng
        source = self.late(self.blocks)
        if not self.careless():
            source = self.add(self.blocks, f"arith.select {self.some_mask()}, {source}, %zeros : {_B}, {_I}")
        captures = f"%d = arith.addi %a, %b : i32\n      %s = arith.addi %d, {self.late(self.scalars)} : i32"
        body = rng.choice([_ADDS, _CHOOSES, _BRANCHES, captures])
        scan = rng.random() < 0.3
        kind, more = ("scan", ", reverse = false") if scan else ("reduce", "")
        name = self.name()
        self.emit(f'{name} = "tt.{kind}"({source}) <{{axis = 0 : i32{more}}}> ({{')
        self.emit("^bb0(%a: i32, %b: i32):")
        self.emit(f"  {body}")
        self.emit(f"  tt.{kind}.return %s : i32")
        self.emit(f"}}) : ({_I}) -> {_I if scan else 'i32'}")
        (self.blocks if scan else self.scalars).append(name)

    def spread(self) -> None:
        self.add(self.blocks, f"tt.splat {self.late(self.scalars)} : i32 -> {_I}")

    def arithmetic(self) -> None:
        x, y = self.late(self.scalars), self.rng.choice(self.scalars)
        self.add(self.scalars, f"arith.{self.rng.choice(['addi', 'muli', 'andi', 'maxsi'])} {x}, {y} : i32")

    def move(self) -> None:
        rng, source = self.rng, self.late(self.blocks)
        kind = rng.randrange(8 if self.dots else 7)
        if kind == 0:
            index = self.made(f"arith.andi {rng.choice(['%lanes', self.late(self.blocks)])}, %seven : {_I}")
            text = f"tt.gather {source}[{index}] {{axis = 0 : i32}} : ({_I}, {_I}) -> {_I}"
        elif kind == 1:
            flat = self.made(f"tt.reshape {source} : {_I} -> tensor<2x4xi32>")
            turned = self.made(f"tt.trans {flat} {{order = array<i32: 1, 0>}} : tensor<2x4xi32> -> tensor<4x2xi32>")
            text = f"tt.reshape {turned} : tensor<4x2xi32> -> {_I}"
        elif kind == 2:
            joined = self.made(f"tt.join {source}, {self.late(self.blocks)} : {_I} -> tensor<{_LANES}x2xi32>")
            one, two = self.name(), self.name()
            self.emit(f"{one}, {two} = tt.split {joined} : tensor<{_LANES}x2xi32> -> {_I}")
            self.blocks += [one, two]
            return
        elif kind == 3:
            row = self.made(f"tt.expand_dims {source} {{axis = {rng.randrange(2)} : i32}} : {_I} -> tensor<1x8xi32>")
            if "axis = 1" in self.lines[-1]:
                self.lines[-1] = self.lines[-1].replace("tensor<1x8xi32>", "tensor<8x1xi32>")
                wide = self.made(f"tt.broadcast {row} : tensor<8x1xi32> -> tensor<8x8xi32>")
            else:
                wide = self.made(f"tt.broadcast {row} : tensor<1x8xi32> -> tensor<8x8xi32>")
            name = self.add(self.blocks, f'"tt.reduce"({wide}) <{{axis = {rng.randrange(2)} : i32}}> ({{')
            self.emit(f"^bb0(%a: i32, %b: i32):\n  {_ADDS}\n  tt.reduce.return %s : i32")
            self.emit(f"}}) : (tensor<8x8xi32>) -> {_I} // {name}")
            return
        elif kind == 4:
            both = self.made(f"tt.cat {source}, {self.late(self.blocks)} : {_I} -> tensor<16xi32>")
            rows = self.made(f"tt.reshape {both} : tensor<16xi32> -> tensor<8x2xi32>")
            one, two = self.name(), self.name()
            self.emit(f"{one}, {two} = tt.split {rows} : tensor<8x2xi32> -> {_I}")
            self.blocks += [one, two]
            return
        elif kind == 5:
            inside = self.made(f"arith.andi {source}, %seven : {_I}")
            text = f"tt.histogram {inside}{rng.choice(['', f', {self.some_mask()}'])} : {_I} -> {_I}"
        elif kind == 6:
            text = f"math.absi {source} : {_I}"
        else:
            self.dot(source)
            return
        self.add(self.blocks, text)

    def dot(self, source: str) -> None:
        """A product of blocks whose rows, or columns, are a block's, which lanes of a row leave undefined or do not."""
        wide = []
        for axis, shape in ((0, "1x8"), (1, "8x1")):
            one = self.made(f"tt.expand_dims {source} {{axis = {axis} : i32}} : {_I} -> tensor<{shape}xi32>")
            all_ = self.made(f"tt.broadcast {one} : tensor<{shape}xi32> -> tensor<8x8xi32>")
            wide.append(self.made(f"arith.sitofp {all_} : tensor<8x8xi32> to tensor<8x8xf32>"))
            source = self.late(self.blocks)
        start = self.made("arith.constant dense<0.0> : tensor<8x8xf32>")
        left, right = self.rng.choice([(0, 1), (1, 0)])
        product = self.made(
            f"tt.dot {wide[left]}, {wide[right]}, {start} : tensor<8x8xf32> * tensor<8x8xf32> -> tensor<8x8xf32>"
        )
        numbers = self.made(f"arith.fptosi {product} : tensor<8x8xf32> to tensor<8x8xi32>")
        name = self.add(self.blocks, f'"tt.reduce"({numbers}) <{{axis = {self.rng.randrange(2)} : i32}}> ({{')
        self.emit(f"^bb0(%a: i32, %b: i32):\n  {_CHOOSES}\n  tt.reduce.return %s : i32")
        self.emit(f"}}) : (tensor<8x8xi32>) -> {_I} // {name}")

    def poison(self) -> None:
        if self.rng.random() < 0.5:
            self.add(self.blocks, f"ub.poison : {_I}")
        else:
            self.add(self.scalars, "ub.poison : i32")

    def store(self) -> None:
        rng = self.rng
        self.stores += 1
        at, value = self.place(), self.late(self.blocks)
        kind = rng.random()
        if kind < 0.25:
            self.emit(f"tt.store {at}, {value} : {_P}")
        elif kind < 0.85:
            self.emit(f"tt.store {at}, {value}, {self.some_mask()} : {_P}")
        elif kind < 0.95:
            operands = f"{at}, {value}, {self.some_mask()} : ({_P}, {_I}, {_B}) -> {_I}"
            self.add(self.blocks, f"tt.atomic_rmw add, relaxed, gpu, {operands}")
        else:
            where = self.made("tt.addptr %o, %pid : !tt.ptr<i32>, i32")
            self.emit(f"tt.store {where}, {self.late(self.scalars)}{rng.choice(['', f', {self.bit()}'])} : !tt.ptr<i32>")

    # Control

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step()

    def body(self, count: int) -> Callable[[], None]:
        return lambda: self.steps(count)

    def step(self) -> None:
        rng = self.rng
        simple = [
            self.load, self.load, self.load, self.compute, self.compute, self.select, self.reduce, self.spread, self.move,
            self.store, self.store, self.arithmetic, self.load_scalar,
        ]  # fmt: skip
        if self.careless() and rng.random() < 0.1:
            simple.append(self.poison)
        if self.depth < 3 and rng.random() < 0.25:
            rng.choice([self.loop, self.loop, self.branch, self.waiting])()
        else:
            rng.choice(simple)()

    def loop(self) -> None:
        rng = self.rng
        starts = [self.late(self.blocks) if rng.random() < 0.6 else "%zeros" for _ in range(rng.randint(1, 2))]
        carried = [self.name() for _ in starts]
        result, counter = self.name(), self.name()
        end = rng.choice(["%two", "%two", "%m"]) if not self.careless() else self.late(self.scalars)
        bounded = self.made(f"arith.minsi {end}, %three : i32")
        given = ", ".join([f"{one} = {two}" for one, two in zip(carried, starts, strict=True)])
        types = ", ".join([_I] * len(starts))
        counts = f"scf.for {counter} = %none to {bounded} step %one iter_args({given})"
        self.emit(f"{result}:{len(starts)} = {counts} -> ({types}) : i32 {{")

        def write() -> None:
            self.blocks += carried
            self.scalars.append(counter)
            self.steps(rng.randint(2, 5))
            left = []
            for each in carried:
                kind = rng.random()
                if kind < 0.5:
                    left.append(self.made(f"arith.{rng.choice(['addi', 'maxsi'])} {each}, {self.late(self.blocks)} : {_I}"))
                elif kind < 0.7:
                    inner = f"arith.select {self.some_mask()}, {self.late(self.blocks)}, {each} : {_B}, {_I}"
                    left.append(self.made(inner))
                else:
                    left.append(rng.choice([each, self.late(self.blocks), *carried]))
            self.emit(f"scf.yield {', '.join(left)} : {types}")

        self.scope(write)
        self.emit("}")
        self.blocks += [f"{result}#{number}" for number in range(len(starts))]

    def waiting(self) -> None:
        """A loop with a condition, which runs twice at most."""
        start, result = self.late(self.blocks), self.name()
        low = self.made(f"arith.{self.rng.choice(['minsi', 'maxsi'])} %none, {self.rng.choice(['%n', '%pid', '%none'])} : i32")
        low = self.made(f"arith.maxsi {low}, %none : i32")
        self.emit(f"{result}:2 = scf.while (%i{result[1:]} = {low}, %w{result[1:]} = {start}) : (i32, {_I}) -> (i32, {_I}) {{")

        def before() -> None:
            self.blocks.append(f"%w{result[1:]}")
            self.steps(self.rng.randint(0, 2))
            go = self.made(f"arith.cmpi slt, %i{result[1:]}, %two : i32")
            if self.careless() and self.bits:
                go = self.made(f"arith.andi {go}, {self.rng.choice(self.bits)} : i1")
            kept = self.rng.choice([f"%w{result[1:]}", self.late(self.blocks)])
            self.emit(f"scf.condition({go}) %i{result[1:]}, {kept} : i32, {_I}")

        def after() -> None:
            self.emit(f"^bb0(%j{result[1:]}: i32, %u{result[1:]}: {_I}):")
            self.blocks.append(f"%u{result[1:]}")
            self.steps(self.rng.randint(1, 3))
            more = self.made(f"arith.addi %j{result[1:]}, %one : i32")
            self.emit(f"scf.yield {more}, {self.late(self.blocks)} : i32, {_I}")

        self.scope(before)
        self.emit("} do {")
        self.scope(after)
        self.emit("}")
        self.blocks.append(f"{result}#1")

    def branch(self) -> None:
        rng = self.rng
        condition, result = self.bit(), self.name()
        if rng.random() < 0.5:
            self.emit(f"scf.if {condition} {{")
            self.scope(self.body(rng.randint(1, 3)))
            self.emit("}")
            return

        def way() -> None:
            self.steps(rng.randint(0, 2))
            self.emit(f"scf.yield {self.late(self.blocks)} : {_I}")

        self.emit(f"{result} = scf.if {condition} -> ({_I}) {{")
        self.scope(way)
        self.emit("} else {")
        self.scope(way)
        self.emit("}")
        self.blocks.append(result)

    def early(self, number: int) -> None:
        """Branches of the function that merge again: what is passed on is one thing or another, or poison."""
        rng = self.rng
        passed = rng.choice(["%zeros", self.late(self.blocks)]) if not self.careless() else self.made(f"ub.poison : {_I}")
        if rng.random() < 0.4:
            self.emit(f"cf.cond_br {self.bit()}, ^end, ^go{number}")
            self.lines.append(f"^go{number}:")
            return
        self.emit(f"cf.cond_br {self.bit()}, ^join{number}({passed} : {_I}), ^go{number}")
        self.lines.append(f"^go{number}:")
        kept = [list(each) for each in (self.blocks, self.masks, self.scalars, self.bits)]
        self.steps(rng.randint(1, 3))
        self.emit(f"cf.br ^join{number}({self.late(self.blocks)} : {_I})")
        self.lines.append(f"^join{number}(%merged{number}: {_I}):")
        self.blocks, self.masks, self.scalars, self.bits = kept
        self.blocks.append(f"%merged{number}")

    # One thing at a time

    def focused(self) -> None:
        """A block of which some lanes are undefined, one thing that is made of it, and a store by one mask or another."""
        rng = self.rng
        self.carelessness = 0.0
        one, two = self.masks[:2]
        self.add(self.blocks, f"tt.load {self.place()}{rng.choice(['', f', {two}'])} : {_P}")
        if rng.random() < 0.4:
            operands = f"{self.place()}, %zeros, {one} : ({_P}, {_I}, {_B}) -> {_I}"
            self.add(self.blocks, f"tt.atomic_rmw add, relaxed, gpu, {operands}")
        else:
            self.add(self.blocks, f"tt.load {self.place()}, {one} : {_P}")
        self.one_thing(rng.choice(["mask", "address", "choice", "zero", "scalar", "other", *["step"] * 4, *["control"] * 4]))
        value, mask = self.blocks[-1], self.masks[-1] if len(self.masks) > 2 else one
        if mask == one and rng.random() < 0.6:
            mask = rng.choice([two, self.made(f"arith.{rng.choice(['andi', 'ori'])} {one}, {two} : {_B}"), ""])
        self.emit(f"tt.store {self.place()}, {value}{mask and f', {mask}'} : {_P}")

    def one_thing(self, kind: str) -> None:
        rng, last = self.rng, self.blocks[-1]
        match kind:
            case "mask":
                self.add(self.masks, f"arith.cmpi slt, {last}, %seven : {_I}")
                self.blocks.append("%lanes")
            case "address":
                inside = self.made(f"arith.andi {last}, %low : {_I}")
                base = self.made(f"tt.splat %x : !tt.ptr<i32> -> {_P}")
                at = self.made(f"tt.addptr {base}, {inside} : {_P}, {_I}")
                kept = rng.choice(["", *[f", {each}, %zeros" for each in self.masks]])
                self.add(self.blocks, f"tt.load {at}{kept} : {_P}")
            case "choice":
                chosen = self.made(f"arith.cmpi slt, {last}, %seven : {_I}")
                self.add(self.blocks, f"arith.select {chosen}, %lanes, %seven : {_B}, {_I}")
            case "zero":  # which undefined lanes hold, too
                zero = self.made(f"arith.subi {last}, {last} : {_I}")
                factor = rng.choice([last, self.blocks[2]])
                self.add(self.blocks, f"arith.{rng.choice(['andi', 'muli'])} {factor}, {zero} : {_I}")
            case "scalar":
                at = self.made("tt.addptr %x, %pid : !tt.ptr<i32>, i32")
                bit = self.bit()
                self.add(self.scalars, f"tt.load {at}, {bit} : !tt.ptr<i32>")
                self.blocks.append(self.blocks[2])
                rng.choice([self.reduce, self.spread, self.scalar_bounds, self.scalar_condition])()
                self.spread()
            case "other":
                self.add(self.blocks, f"tt.load {self.place()}, {rng.choice(self.masks)}, {last} : {_P}")
            case "control":
                rng.choice([self.loop, self.loop, self.waiting, self.branch])()
            case _:
                rng.choice([self.move, self.move, self.reduce, self.select, self.compute])()
                if rng.random() < 0.5:
                    self.spread()

    def scalar_condition(self) -> None:
        condition = self.made(f"arith.cmpi slt, {self.scalars[-1]}, %three : i32")
        self.add(self.blocks, f"arith.select {condition}, %lanes, %zeros : {_I}")
        if self.rng.random() < 0.5:
            self.bits.append(condition)
            self.branch()

    def scalar_bounds(self) -> None:
        self.carelessness = 0.5
        self.loop()

    def kernel(self) -> RandomKernel:
        rng = self.rng
        constants = {"none": 0, "one": 1, "two": 2, "three": 3, "least": 31}
        for name, value in constants.items():
            self.emit(f"%{name} = arith.constant {value} : i32")
        for name, value in {"zeros": 0, "low": 31, "seven": 7}.items():
            self.emit(f"%{name} = arith.constant dense<{value}> : {_I}")
        self.emit("%pid = tt.get_program_id x : i32")
        self.emit(f"%lanes = tt.make_range {{end = {_LANES} : i32, start = 0 : i32}} : {_I}")
        for _ in range(2):
            self.mask()
        with_blocks = rng.random() < 0.25
        if rng.random() < 0.7:
            self.dots = True
            if with_blocks:
                self.early(0)
            self.focused()
        else:
            for number in range(rng.randint(1, 3)):
                self.steps(rng.randint(2, 7))
                if with_blocks:
                    self.early(number)
            self.steps(rng.randint(1, 4))
            self.store()
            self.store()
        end = "  cf.br ^end\n^end:\n  tt.return" if with_blocks else "  tt.return"
        body = "\n".join(self.lines)
        parameters = ", ".join([*[f"%{name}: !tt.ptr<i32>" for name in "xyo"], "%n: i32", "%m: i32"])
        text = f"tt.func public @k({parameters}) {{\n{body}\n{end}\n}}\n"
        return RandomKernel(text, dict.fromkeys("xyo", "32"), ("2",), (), dict.fromkeys("xyo", "i32"))


def undefined_kernel(rng: random.Random) -> RandomKernel:
    """Returns a random kernel, and its specification."""
    return Maker(rng).kernel()


__all__ = ["Maker", "undefined_kernel"]
