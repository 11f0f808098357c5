"""Builds texts on blocks of many dimensions: loaded as a line of numbers, reshaped, worked on, and stored as
a line again."""

from __future__ import annotations

import math
from collections.abc import Sequence

Shape = Sequence[int]


def block(shape: Shape, elem: str) -> str:
    return "tensor<" + "".join(f"{n}x" for n in shape) + f"{elem}>"


class Text:
    """A kernel `f(x, y, o, n)` under construction: pointers to `elem`, `elem` and `out`, and an i32. Methods return the names
    of values, whose block types are recorded by name."""

    def __init__(self, elem: str, out: str | None = None) -> None:
        self.elem, self.out = elem, out or elem
        self.lines: list[str] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.elems: dict[str, str] = {}

    def type(self, name: str) -> str:
        return block(self.shapes[name], self.elems[name])

    def add(self, text: str, shape: Shape, elem: str) -> str:
        name = f"%v{len(self.shapes)}"
        self.shapes[name], self.elems[name] = tuple(shape), elem
        self.lines.append(f"{name} = {text}")
        return name

    def map(self, op: str, *names: str, elem: str | None = None) -> str:
        """Appends an operation on blocks of one type; the result has that type too, or the element type
        `elem`, which the text does not spell."""
        shape, own = self.shapes[names[0]], self.elems[names[0]]
        return self.add(f"{op} {', '.join(names)} : {self.type(names[0])}", shape, elem or own)

    def cast(self, op: str, name: str, elem: str) -> str:
        shape = self.shapes[name]
        return self.add(f"{op} {name} : {self.type(name)} to {block(shape, elem)}", shape, elem)

    def select(self, condition: str, one: str, other: str) -> str:
        types = f"{self.type(condition)}, {self.type(one)}"
        return self.add(f"arith.select {condition}, {one}, {other} : {types}", self.shapes[one], self.elems[one])

    def constant(self, value: str, shape: Shape, elem: str) -> str:
        return self.add(f"arith.constant dense<{value}> : {block(shape, elem)}", shape, elem)

    def range(self, extent: int) -> str:
        return self.add(f"tt.make_range {{end = {extent} : i32, start = 0 : i32}} : {block([extent], 'i32')}", [extent], "i32")

    def splat(self, name: str, elem: str, shape: Shape) -> str:
        return self.add(f"tt.splat {name} : {elem} -> {block(shape, elem)}", shape, elem)

    def moved(self, op: str, name: str, shape: Shape, facts: str = "") -> str:
        return self.add(f"{op} {name}{facts} : {self.type(name)} -> {block(shape, self.elems[name])}", shape, self.elems[name])

    def reshape(self, name: str, shape: Shape) -> str:
        return self.moved("tt.reshape", name, shape)

    def spread(self, name: str, shape: Shape) -> str:
        return self.moved("tt.broadcast", name, shape)

    def trans(self, name: str, order: Sequence[int]) -> str:
        facts = f" {{order = array<i32: {', '.join(map(str, order))}>}}"
        return self.moved("tt.trans", name, [self.shapes[name][d] for d in order], facts)

    def along(self, name: str, shape: Shape, dim: int) -> str:
        """Spreads a line over a block of the shape, so that it varies along one dimension."""
        return self.spread(self.reshape(name, [n if d == dim else 1 for d, n in enumerate(shape)]), shape)

    def reduce(self, name: str, axis: int, op: str) -> str:
        shape, elem = self.shapes[name], self.elems[name]
        rest = [*shape[:axis], *shape[axis + 1 :]]
        number = len(self.shapes)
        return self.add(f""""tt.reduce"({name}) <{{axis = {axis} : i32}}> ({{
    ^bb0(%l{number}: {elem}, %r{number}: {elem}):
      %t{number} = {op} %l{number}, %r{number} : {elem}
      tt.reduce.return %t{number} : {elem}
    }}) : ({block(shape, elem)}) -> {block(rest, elem)}""", rest, elem)  # fmt: skip

    def partner(self, name: str, axis: int, op: str) -> str:
        """Appends a reduction along an axis, spread over the block again, as sorts use it."""
        shape = self.shapes[name]
        line = self.reduce(name, axis, op)
        one = [1 if d == axis else n for d, n in enumerate(shape)]
        return self.spread(self.moved("tt.expand_dims", line, one, f" {{axis = {axis} : i32}}"), shape)

    def places(self, pointer: str, elem: str, offsets: str) -> str:
        shape = self.shapes[offsets]
        base = self.splat(pointer, f"!tt.ptr<{elem}>", shape)
        return self.add(f"tt.addptr {base}, {offsets} : {self.type(base)}, {self.type(offsets)}", shape, f"!tt.ptr<{elem}>")

    def load(self, pointer: str, shape: Shape) -> str:
        """Loads the numbers at a pointer, as a block."""
        count = math.prod(shape)
        places = self.places(pointer, self.elem, self.range(count))
        line = self.add(f"tt.load {places} : {self.type(places)}", [count], self.elem)
        return self.reshape(line, shape)

    def store(self, name: str) -> None:
        """Stores the block as a line, at the third pointer."""
        count = math.prod(self.shapes[name])
        line = self.reshape(name, [count])
        places = self.places("%o", self.out, self.range(count))
        self.lines.append(f"tt.store {places}, {line} : {self.type(places)}")

    def text(self) -> str:
        arguments = f"%x: !tt.ptr<{self.elem}>, %y: !tt.ptr<{self.elem}>, %o: !tt.ptr<{self.out}>, %n: i32"
        lines = "\n".join(f"    {line}" for line in self.lines)
        return f"module {{\n  tt.func public @f({arguments}) {{\n{lines}\n    tt.return\n  }}\n}}\n"
