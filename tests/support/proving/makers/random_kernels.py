"""Makes random small kernels with specifications: loops, masks, carried and cast pointers, atomics, descriptors."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

LANES = 4
_OPERATIONS = ["addi", "addi", "addi", "subi", "subi", "muli", "divsi", "remsi", "remui", "divui", "minsi", "maxsi", "andi",
               "xori", "shli", "shrsi", "shrui"]  # fmt: skip
_PREDICATES = ["slt", "slt", "sle", "sge", "sgt", "eq", "ne", "ult", "uge"]
_CONSTANTS = [0, 1, 1, 2, 3, 4, 4, 5, 7, 8, 16, 17, 31, 64, 100, 127, -1, -2, -8, -128]
_ATOMICS = ["add", "max", "exch"]


class RandomKernel(NamedTuple):
    """A kernel, its specification, and the types of the elements of its arrays by name."""

    text: str
    extents: dict[str, str]
    grid: tuple[str, ...]
    assume: tuple[str, ...]
    elements: dict[str, str]


class _Maker:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.width = rng.choice(["i8", "i8", "i32"])
        self.block = f"tensor<{LANES}x{self.width}>"
        self.lines: list[str] = []
        self.indent = "  "
        self.count = 0
        self.scalars = ["%n", "%m"]
        self.blocks: list[str] = []
        self.offsets: list[str] = []
        self.pointers: list[tuple[str, str]] = []
        self.depth = 0
        self.elements = {name: rng.choice(["i8", "i16", "i32", "i32", "i64"]) for name in ("x", "y")}
        self.elements["idx"] = rng.choice([self.width, self.width, "i8", "i16"])

    def emit(self, text: str) -> None:
        self.lines.append(self.indent + text)

    def name(self, text: str) -> str:
        """Emits an operation, and returns the name of its result."""
        self.count += 1
        made = f"%v{self.count}"
        self.emit(f"{made} = {text}")
        return made

    # Numbers

    def number(self, operation: str, left: str, right: str) -> str:
        """Emits an operation on scalars."""
        return self.name(f"arith.{operation} {left}, {right} : {self.width}")

    def blocks_of(self, operation: str, left: str, right: str) -> str:
        """Emits an operation on blocks."""
        return self.name(f"arith.{operation} {left}, {right} : {self.block}")

    def constant(self, value: int | None = None) -> str:
        value = self.rng.choice(_CONSTANTS) if value is None else value
        return self.name(f"arith.constant {value} : {self.width}")

    def splat(self, scalar: str) -> str:
        return self.name(f"tt.splat {scalar} : {self.width} -> {self.block}")

    def scalar(self) -> str:
        return self.constant() if self.rng.random() < 0.4 else self.rng.choice(self.scalars)

    def any_block(self) -> str:
        return self.splat(self.scalar()) if self.rng.random() < 0.4 else self.rng.choice(self.blocks)

    def compute(self) -> None:
        """Makes a scalar or a block of those there are."""
        rng = self.rng
        if rng.random() < 0.35:
            self.scalars.append(self.number(rng.choice(_OPERATIONS), rng.choice(self.scalars), self.scalar()))
            return
        choice = rng.random()
        if choice < 0.1:
            given = f"{self.mask()}, {self.any_block()}, {self.any_block()}"
            self.blocks.append(self.name(f"arith.select {given} : {_mask()}, {self.block}"))
        elif choice < 0.2:
            wide = _block("i16" if self.width == "i8" else "i64")
            big = self.name(f"arith.{rng.choice(['extsi', 'extui'])} {rng.choice(self.blocks)} : {self.block} to {wide}")
            k = self.name(f"arith.constant dense<{rng.choice([1, 2, 3, -1, 100, 128, 255])}> : {wide}")
            big = self.name(f"arith.{rng.choice(['addi', 'muli', 'subi', 'remsi'])} {big}, {k} : {wide}")
            self.blocks.append(self.name(f"arith.trunci {big} : {wide} to {self.block}"))
        elif choice < 0.25:
            self.blocks.append(self.name(f"math.absi {rng.choice(self.blocks)} : {self.block}"))
        else:
            self.blocks.append(self.blocks_of(rng.choice(_OPERATIONS), rng.choice(self.blocks[-4:]), self.any_block()))

    def compare(self, left: str, right: str, predicate: str) -> str:
        return self.name(f"arith.cmpi {predicate}, {left}, {right} : {self.block}")

    def mask(self, offset: str | None = None) -> str:
        """Makes a mask; of an offset mostly one that keeps it inside of something."""
        rng = self.rng
        if offset is None or rng.random() < 0.15:
            return self.compare(rng.choice(self.blocks), self.any_block(), rng.choice(_PREDICATES))
        number = self.constant(rng.choice([1, 4, 7, 8, 16, 17]))
        limit = rng.choice(["%n", "%n", "%m"]) if rng.random() < 0.6 else number
        parts = [self.compare(offset, self.splat(limit), rng.choice(["slt", "slt", "slt", "ult", "sle"]))]
        if rng.random() < 0.8:
            parts.append(self.compare(offset, self.splat(self.constant(0)), "sge"))
        if rng.random() < 0.3:
            parts.append(self.mask())
        found = parts[0]
        for part in parts[1:]:
            found = self.name(f"arith.andi {found}, {part} : {_mask()}")
        return found

    def condition(self) -> str:
        return self.name(f"arith.cmpi {self.rng.choice(_PREDICATES)}, {self.scalar()}, {self.scalar()} : {self.width}")

    # Memory

    def offset(self) -> str:
        return self.rng.choice(self.offsets) if self.rng.random() < 0.6 else self.rng.choice(self.blocks)

    def address(self, array: str) -> tuple[str, str, str]:
        """Makes a block of pointers into an array; returns it with the type of its elements, and the offset."""
        rng = self.rng
        element = self.elements[array]
        base = self.name(f"tt.splat %{array} : !tt.ptr<{element}> -> {_pointers(element)}")
        if self.pointers and rng.random() < 0.35:
            base, element = rng.choice(self.pointers)
        offset, kind = self.offset(), self.width
        number = offset
        if rng.random() < 0.3:
            kind = rng.choice(["i32", "i64"]) if self.width == "i8" else "i64"
            number = self.name(f"arith.{rng.choice(['extsi', 'extsi', 'extui'])} {offset} : {self.block} to {_block(kind)}")
        at = self.name(f"tt.addptr {base}, {number} : {_pointers(element)}, {_block(kind)}")
        if rng.random() < 0.12:
            other = rng.choice(["i8", "i16", "i32", "i64"])
            at = self.name(f"tt.bitcast {at} : {_pointers(element)} -> {_pointers(other)}")
            element = other
            if rng.random() < 0.4:
                k = self.name(f"arith.constant dense<{rng.choice([1, 2, -1])}> : tensor<{LANES}xi32>")
                at = self.name(f"tt.addptr {at}, {k} : {_pointers(element)}, tensor<{LANES}xi32>")
        if rng.random() < 0.06:
            other_base = self.name(f"tt.splat %{array} : !tt.ptr<{self.elements[array]}> -> {_pointers(self.elements[array])}")
            again = other_base if element == self.elements[array] else at
            at = self.name(f"arith.select {self.mask()}, {at}, {again} : {_mask()}, {_pointers(element)}")
        return at, element, offset

    def value(self, element: str) -> str:
        """Makes a block of numbers to store."""
        rng = self.rng
        source = rng.choice(self.blocks) if rng.random() < 0.7 else self.splat(self.scalar())
        if element == self.width:
            return source
        if int(element[1:]) > int(self.width[1:]):
            return self.name(f"arith.extsi {source} : {self.block} to {_block(element)}")
        return self.name(f"arith.trunci {source} : {self.block} to {_block(element)}")

    def access(self) -> None:
        rng = self.rng
        at, element, offset = self.address(rng.choice(["x", "x", "y"]))
        mask = self.mask(offset) if rng.random() < 0.9 else None
        suffix = "" if mask is None else f", {mask}"
        choice = rng.random()
        if choice < 0.6:
            self.emit(f"tt.store {at}, {self.value(element)}{suffix} : {_pointers(element)}")
        elif choice < 0.8 or element in ("i8", "i16"):
            loaded = self.name(f"tt.load {at}{suffix} : {_pointers(element)}")
            if element == self.width:
                self.blocks.append(loaded)
        else:
            mask = self.mask() if mask is None else mask
            kind, value = rng.choice(_ATOMICS), self.value(element)
            scope = rng.choice(["gpu", "gpu", "cta", "sys"])
            found = self.name(
                f"tt.atomic_rmw {kind}, acq_rel, {scope}, {at}, {value}, {mask} : "
                f"({_pointers(element)}, {_block(element)}, {_mask()}) -> {_block(element)}"
            )
            if element == self.width:
                self.blocks.append(found)

    def gather(self) -> None:
        """Loads indices, which are offsets from now on."""
        rng = self.rng
        element = self.elements["idx"]
        base = self.name(f"tt.splat %idx : !tt.ptr<{element}> -> {_pointers(element)}")
        offset = self.offset()
        at = self.name(f"tt.addptr {base}, {offset} : {_pointers(element)}, {self.block}")
        mask = self.mask(offset)
        other = self.name(f"arith.constant dense<{rng.choice([0, 0, 3, -1])}> : {_block(element)}")
        more = f", {other}" if rng.random() < 0.5 else ""
        found = self.name(f"tt.load {at}, {mask}{more} : {_pointers(element)}")
        if element != self.width:
            extend = int(element[1:]) < int(self.width[1:])
            kind = rng.choice(["extsi", "extui"]) if extend else "trunci"
            found = self.name(f"arith.{kind} {found} : {_block(element)} to {self.block}")
        self.blocks.append(found)
        self.offsets.append(found)

    def single(self) -> None:
        """Stores or loads one element."""
        rng = self.rng
        array = rng.choice(["x", "y"])
        element = self.elements[array]
        at = self.name(f"tt.addptr %{array}, {rng.choice(self.scalars)} : !tt.ptr<{element}>, {self.width}")
        k = self.name(f"arith.constant {rng.choice([0, 1, 5])} : {element}")
        if rng.random() < 0.7:
            self.emit(f"tt.store {at}, {k}, {self.condition()} : !tt.ptr<{element}>")
        else:
            self.name(f"tt.load {at}, {self.condition()} : !tt.ptr<{element}>")

    def described(self) -> None:
        """Reads and writes a block by a descriptor, or by a pointer to blocks."""
        rng = self.rng
        array = rng.choice(["x", "y"])
        element = self.elements[array]
        size, start = rng.choice(["%n", "%m"]), rng.choice(self.scalars)
        if self.width == "i8":
            size, start = [self.name(f"arith.extsi {each} : i8 to i32") for each in (size, start)]
        one = self.name("arith.constant 1 : i64")
        if rng.random() < 0.5:
            block = _block(element)
            made = self.name(f"tt.make_tensor_descriptor %{array}, [{size}], [{one}] : <{element}>, <{block}>")
            found = self.name(f"tt.descriptor_load {made}[{start}] : !tt.tensordesc<{block}> -> {block}")
            if rng.random() < 0.6:
                self.emit(f"tt.descriptor_store {made}[{start}], {found} : !tt.tensordesc<{block}>, {block}")
            return
        wide = self.name(f"arith.extsi {size} : i32 to i64")
        order = "{order = array<i32: 0>}"
        made = self.name(f"tt.make_tensor_ptr %{array}, [{wide}], [{one}], [{start}] {order} : <{_block(element)}>")
        check = rng.choice(["{boundaryCheck = array<i32: 0>}", "{boundaryCheck = array<i32: 0>}", ""])
        found = self.name(f"tt.load {made} {check} : !tt.ptr<{_block(element)}>")
        if rng.random() < 0.6:
            moved = self.name(f"tt.advance {made}, [{start}] : <{_block(element)}>")
            self.emit(f"tt.store {moved}, {found} {check} : !tt.ptr<{_block(element)}>")

    # Control

    def statements(self, count: int) -> None:
        for _ in range(count):
            choice = self.rng.random()
            if choice < 0.42:
                self.compute()
            elif choice < 0.7:
                self.access()
            elif choice < 0.76:
                self.gather()
            elif choice < 0.82:
                self.single()
            elif choice < 0.86:
                self.described()
            elif self.depth < 2:
                self.rng.choice([self.loop, self.loop, self.loop, self.repeat, self.branch])()

    def _inside(self, body: Callable[[], None]) -> None:
        """Emits a region, after which the values are those of before."""
        saved = [list(each) for each in (self.scalars, self.blocks, self.offsets)], list(self.pointers), self.indent
        self.depth += 1
        self.indent += "  "
        body()
        self.depth -= 1
        (self.scalars, self.blocks, self.offsets), self.pointers, self.indent = saved

    def branch(self) -> None:
        rng = self.rng
        given, yes = self.condition(), [self.rng.choice(self.scalars) for _ in range(2)]
        found = f"%b{self.count}"
        self.emit(f"{found} = scf.if {given} -> ({self.width}) {{")

        def first() -> None:
            self.statements(2)
            self.emit(f"scf.yield {rng.choice([yes[0], self.constant()])} : {self.width}")

        def second() -> None:
            self.statements(1)
            self.emit(f"scf.yield {yes[1]} : {self.width}")

        self._inside(first)
        self.emit("} else {")
        self._inside(second)
        self.emit("}")
        self.scalars.append(found)

    def loop(self) -> None:
        """A loop with a counter that carries a number, a block and pointers."""
        rng = self.rng
        self.count += 1
        own = self.count
        low = self.constant(rng.choice([0, 0, 0, 1, -3])) if rng.random() < 0.8 else self.scalar()
        high = rng.choice(["%n", "%m", self.constant(rng.choice([2, 3, 5]))])
        step = self.constant(rng.choice([1, 1, 2, 3, 4]))
        array = rng.choice(["x", "y"])
        element = self.elements[array]
        if self.pointers and rng.random() < 0.4:
            start, element = rng.choice(self.pointers)
        else:
            start = self.name(f"tt.splat %{array} : !tt.ptr<{element}> -> {_pointers(element)}")
            if rng.random() < 0.5:
                start = self.name(f"tt.addptr {start}, {self.offset()} : {_pointers(element)}, {self.block}")
        types = f"{self.width}, {self.block}, {_pointers(element)}"
        first = f"%c{own} = {self.scalar()}, %d{own} = {self.any_block()}, %p{own} = {start}"
        head = f"%r{own}:3 = scf.for %i{own} = {low} to {high} step {step}"
        self.emit(f"{head} iter_args({first}) -> ({types}) : {self.width} {{")

        def body() -> None:
            self.scalars += [f"%i{own}", f"%c{own}"]
            self.blocks.append(f"%d{own}")
            index = self.splat(f"%i{own}")
            self.blocks.append(self.name(f"arith.addi {index}, %lanes : {self.block}"))
            self.offsets += [self.blocks[-1], f"%d{own}"]
            self.pointers.append((f"%p{own}", element))
            self.statements(rng.randint(1, 4))
            step = rng.choice([self.constant(rng.choice([1, 2, 4, 64])), rng.choice(self.scalars)])
            scalar = self.number(rng.choice(["addi", "addi", "subi", "muli"]), f"%c{own}", step)
            scalar = rng.choice([scalar, scalar, scalar, rng.choice(self.scalars)])
            block = self.blocks_of("addi", f"%d{own}", self.splat(self.scalar()))
            block = rng.choice([block, block, rng.choice(self.blocks)])
            far = rng.choice([self.splat(self.constant(rng.choice([1, 4, 4, -1, 64]))), rng.choice(self.blocks)])
            pointer = self.name(f"tt.addptr %p{own}, {far} : {_pointers(element)}, {self.block}")
            self.emit(f"scf.yield {scalar}, {block}, {pointer} : {types}")

        self._inside(body)
        self.emit("}")
        self.scalars.append(f"%r{own}#0")
        self.blocks.append(f"%r{own}#1")
        self.offsets.append(f"%r{own}#1")
        self.pointers.append((f"%r{own}#2", element))

    def repeat(self) -> None:
        """A loop with a condition, which ends after a few iterations."""
        rng = self.rng
        self.count += 1
        own = self.count
        kind = f"{self.width}, {self.width}"
        zero, cap = self.constant(0), self.constant(rng.choice([2, 3, 6]))
        self.emit(f"%w{own}:2 = scf.while (%i{own} = {self.scalar()}, %t{own} = {zero}) : ({kind}) -> ({kind}) {{")

        def before() -> None:
            self.scalars += [f"%i{own}", f"%t{own}"]
            self.statements(rng.randint(0, 2))
            one = self.name(f"arith.cmpi slt, %t{own}, {cap} : {self.width}")
            end = rng.choice(["%n", "%m", self.constant(17)])
            two = self.name(f"arith.cmpi {rng.choice(['slt', 'slt', 'ne'])}, %i{own}, {end} : {self.width}")
            go = self.name(f"arith.andi {one}, {two} : i1")
            self.emit(f"scf.condition({go}) %i{own}, %t{own} : {kind}")

        def after() -> None:
            self.emit(f"^bb0(%j{own}: {self.width}, %u{own}: {self.width}):")
            self.scalars += [f"%j{own}", f"%u{own}"]
            index = self.splat(f"%j{own}")
            self.blocks.append(self.name(f"arith.addi {index}, %lanes : {self.block}"))
            self.offsets.append(self.blocks[-1])
            self.statements(rng.randint(1, 3))
            step = rng.choice([self.constant(rng.choice([1, 4, 64])), "%programs", rng.choice(self.scalars)])
            moved = self.name(f"arith.addi %j{own}, {step} : {self.width}")
            one = self.constant(1)
            counted = self.name(f"arith.addi %u{own}, {one} : {self.width}")
            self.emit(f"scf.yield {moved}, {counted} : {kind}")

        self._inside(before)
        self.emit("} do {")
        self._inside(after)
        self.emit("}")
        self.scalars.append(f"%w{own}#0")

    def make(self) -> RandomKernel:
        """Makes the kernel."""
        rng = self.rng
        self.emit("%pid = tt.get_program_id x : i32")
        self.emit("%np = tt.get_num_programs x : i32")
        self.emit(f"%wide = tt.make_range {{end = {LANES} : i32, start = 0 : i32}} : tensor<{LANES}xi32>")
        if self.width == "i8":
            self.emit("%program = arith.trunci %pid : i32 to i8")
            self.emit("%programs = arith.trunci %np : i32 to i8")
            self.emit(f"%lanes = arith.trunci %wide : tensor<{LANES}xi32> to {self.block}")
        else:
            zero = self.constant(0)
            self.emit(f"%program = arith.addi %pid, {zero} : i32")
            self.emit(f"%programs = arith.addi %np, {zero} : i32")
            self.emit(f"%lanes = arith.{'addi' if rng.random() < 0.1 else 'maxsi'} %wide, %wide : {self.block}")
        self.scalars += ["%program", "%programs"]
        size = self.constant(rng.choice([4, 4, 4, 4, 3, 8, 1]))
        first = self.name(f"arith.muli %program, {size} : {self.width}")
        start = self.splat(first)
        index = self.name(f"arith.addi {start}, %lanes : {self.block}")
        self.blocks += ["%lanes", index]
        self.offsets += [index, index, index, "%lanes"]
        self.scalars.append(first)
        self.statements(rng.randint(1, 5))
        if not any("tt.store" in line or "tt.load" in line for line in self.lines):
            self.access()
        if rng.random() < 0.5:
            self.access()
        return self._finished()

    def _finished(self) -> RandomKernel:
        rng = self.rng
        parameters = ", ".join([f"%{name}: !tt.ptr<{element}>" for name, element in self.elements.items()])
        text = f"tt.func public @k({parameters}, %n: {self.width}, %m: {self.width}) {{\n" + "\n".join(self.lines)
        text += "\n  tt.return\n}\n"
        sizes = ["n", "n", "m", "n + 3", "2 * n", "17", "8", "n * m", "4 * m", "128", "300"]
        extents = {name: rng.choice(sizes) for name in self.elements}
        grid = rng.choice(["grid_x", "cdiv(n, 4)", "2", "cdiv(n, 4)", "m", "1"])
        assume = [f"grid_x <= {rng.choice([5, 5, 30])}"] if grid == "grid_x" else []
        assume += [each for each in ("n >= 0", "m >= 1", "m <= n", "n <= 17", "n <= 100") if rng.random() < 0.3]
        if rng.random() < 0.6 and "%idx" in text:
            ranges = ["0 <= idx[:] < n", "0 <= idx[:] < 8", "idx[:] < 17", "0 <= idx[:] <= 200", "-3 <= idx[:] < m"]
            assume.append(rng.choice(ranges))
        return RandomKernel(text, extents, (grid,), tuple(assume), dict(self.elements))


def _block(element: str) -> str:
    return f"tensor<{LANES}x{element}>"


def _mask() -> str:
    return f"tensor<{LANES}xi1>"


def _pointers(element: str) -> str:
    return f"tensor<{LANES}x!tt.ptr<{element}>>"


def random_kernel(rng: random.Random) -> RandomKernel:
    """Returns a kernel as the random numbers choose it."""
    return _Maker(rng).make()
