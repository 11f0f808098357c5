"""Makes loops inside loops that carry blocks to each other, partly undefined ones among them, and store them on their way."""

from __future__ import annotations

import random

from ..random_kernels import RandomKernel

_I, _B, _P = "tensor<8xi32>", "tensor<8xi1>", "tensor<8x!tt.ptr<i32>>"
_PRELUDE = f"""%none = arith.constant 0 : i32
%one = arith.constant 1 : i32
%two = arith.constant 2 : i32
%three = arith.constant 3 : i32
%four = arith.constant 4 : i32
%few = arith.minsi %m, %four : i32
%zeros = arith.constant dense<0> : {_I}
%seven = arith.constant dense<7> : {_I}
%lanes = tt.make_range {{end = 8 : i32, start = 0 : i32}} : {_I}
%turn = arith.xori %lanes, %seven : {_I}
%ns = tt.splat %n : i32 -> {_I}
%ms = tt.splat %m : i32 -> {_I}
%a = arith.cmpi slt, %lanes, %ns : {_I}
%b = arith.cmpi slt, %lanes, %ms : {_I}
%xs = tt.splat %x : !tt.ptr<i32> -> {_P}
%at = tt.addptr %xs, %lanes : {_P}, {_I}
%ys = tt.splat %y : !tt.ptr<i32> -> {_P}
%near = tt.addptr %ys, %lanes : {_P}, {_I}
%os = tt.splat %o : !tt.ptr<i32> -> {_P}
%to = tt.addptr %os, %lanes : {_P}, {_I}
%u = tt.load %at, %a : {_P}
%v = tt.load %at : {_P}
"""


class _Maker:
    """Writes one kernel, of which a seed says all: what is drawn, and when, stays as it is."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"%z{self.count}q"

    def names(self, count: int) -> list[str]:
        return [self.name() for _ in range(count)]

    def value(self, pool: list[str]) -> str:
        """One of a pool, mostly of the last ones, or something that is made of it."""
        rng = self.rng
        found = rng.choice(pool[-5:]) if rng.random() < 0.8 else rng.choice(pool)
        kind = rng.random()
        if kind < 0.6:
            return found
        name = self.name()
        if kind < 0.75:
            text = f"arith.addi {found}, {rng.choice(pool)} : {_I}"
        elif kind < 0.9:
            text = f"tt.gather {found}[%turn] {{axis = 0 : i32}} : ({_I}, {_I}) -> {_I}"
        else:
            text = f"arith.select {rng.choice(['%a', '%b'])}, {found}, {rng.choice(pool)} : {_B}, {_I}"
        self.lines.append(f"{name} = {text}")
        return name

    def store(self, pool: list[str]) -> None:
        rng = self.rng
        where = rng.choice(["%to", "%near"])
        value = self.value(pool)
        self.lines.append(f"tt.store {where}, {value}{rng.choice(['', ', %a', ', %a', ', %a', ', %b'])} : {_P}")

    def loop(self, pool: list[str], depth: int) -> list[str]:
        """A loop; returns what it leaves."""
        rng = self.rng
        count = rng.randint(1, 3)
        starts = [self.value(pool) for _ in range(count)]
        carried, result, counter = self.names(count), self.name(), self.name()
        types = ", ".join([_I] * count)
        given = ", ".join([f"{one} = {two}" for one, two in zip(carried, starts, strict=True)])
        is_waiting = rng.random() < 0.2
        if is_waiting:
            head = f"{result}:{count + 1} = scf.while ({counter} = %none, {given})"
            self.lines.append(f"{head} : (i32, {types}) -> (i32, {types}) {{")
            counter, carried = self.condition(pool + carried, counter, types, depth)
        else:
            head = f"{result}:{count} = scf.for {counter} = %none to {rng.choice(['%two', '%few', '%three'])} step %one"
            self.lines.append(f"{head} iter_args({given}) -> ({types}) : i32 {{")
        left = ", ".join(self.body(pool + carried, count, depth))
        if not is_waiting:
            self.lines.append(f"scf.yield {left} : {types}\n}}")
            return [f"{result}#{number}" for number in range(count)]
        more = self.name()
        self.lines.append(f"{more} = arith.addi {counter}, %one : i32\nscf.yield {more}, {left} : i32, {types}\n}}")
        return [f"{result}#{number + 1}" for number in range(count)]

    def condition(self, pool: list[str], counter: str, types: str, depth: int) -> tuple[str, list[str]]:
        """What a loop does before its condition; returns the counter and the values behind it."""
        rng, count = self.rng, types.count(_I)
        if rng.random() < 0.4:
            self.store(pool)
        if depth < 2 and rng.random() < 0.2:
            pool = pool + self.loop(pool, depth + 1)
        passed = ", ".join([self.value(pool) for _ in range(count)])
        more = self.name()
        self.lines.append(f"{more} = arith.cmpi slt, {counter}, {rng.choice(['%two', '%few'])} : i32")
        self.lines.append(f"scf.condition({more}) {counter}, {passed} : i32, {types}\n}} do {{")
        names, inside = self.names(count), self.name()
        self.lines.append(f"^bb0({inside}: i32, {', '.join([f'{each}: {_I}' for each in names])}):")
        return inside, names

    def body(self, pool: list[str], count: int, depth: int) -> list[str]:
        """What an iteration does; returns what it yields."""
        rng = self.rng
        for _ in range(rng.randint(0, 2)):
            if depth < 3 and rng.random() < 0.5:
                pool = pool + self.loop(pool, depth + 1)
            elif rng.random() < 0.6:
                self.store(pool)
            else:
                pool = [*pool, self.value(pool)]
        if rng.random() < 0.4:
            self.store(pool)
        return [self.value(pool) for _ in range(count)]

    def kernel(self) -> RandomKernel:
        pool = ["%u", "%v", "%zeros", "%u"]
        for _ in range(self.rng.randint(1, 2)):
            pool = pool + self.loop(pool, 1)
        self.store(pool)
        return kernel_of(_PRELUDE + "\n".join(self.lines), 8)


def kernel_of(body: str, elements: int) -> RandomKernel:
    """A kernel of three arrays of some elements, of which one program runs."""
    parameters = ", ".join([*[f"%{name}: !tt.ptr<i32>" for name in "xyo"], "%n: i32", "%m: i32"])
    text = f"tt.func public @k({parameters}) {{\n{body}\ntt.return\n}}\n"
    return RandomKernel(text, dict.fromkeys("xyo", str(elements)), ("1",), (), dict.fromkeys("xyo", "i32"))


def carrying_kernel(rng: random.Random) -> RandomKernel:
    """Returns a random kernel, and its specification."""
    return _Maker(rng).kernel()


__all__ = ["carrying_kernel", "kernel_of"]
