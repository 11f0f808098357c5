"""Writes random block programs, well-typed and clean by construction: their text, the values in scope, memory.

A program is a list of integers. Each is the seed of one statement (`statements.py`), which takes its operands from the
values that the statements before it defined: any part of the list is a program again, so hypothesis can shrink failures.

Clean means: every access is inside its array; programs of a grid share no memory that one of them writes, except cells
that only atomics access; undefined lanes are replaced before anything depends on them; the bits of NaNs are never observed.
Reductions are over values whose combination is exact in any order. Results that a back end may compute differently
(elementary functions) are stored to arrays of their own (`near_…`) and not used further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from random import Random

import ml_dtypes
import numpy as np

INTEGERS = ("i1", "i8", "i16", "i32", "i64")
FLOATS = ("f16", "bf16", "f32", "f64")
ELEMENTS = INTEGERS + FLOATS
DTYPES = {
    "i1": np.uint8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
WIDTH = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}
Shape = tuple[int, ...]


def type_text(elem: str, shape: Shape = ()) -> str:
    return f"tensor<{'x'.join(map(str, shape))}x{elem}>" if shape else elem


@dataclass(frozen=True)
class Value:
    """An SSA value; `elem` may also be a pointer type."""

    name: str
    elem: str
    shape: Shape = ()

    @property
    def type(self) -> str:
        return type_text(self.elem, self.shape)

    def __str__(self) -> str:
        return self.name


@dataclass
class Array:
    """A pointer parameter. `own`: elements per program; 0 for arrays that all programs share."""

    name: str
    kind: str
    elem: str
    own: int


@dataclass
class Program:
    """The state of a program while it is written.

    Attributes:
        most: the largest number of elements of a block.
        slab: elements that a program owns of every array it loads from and stores to; a power of two, at least `most`.
        more: further statements that it may contain, with their weights.
    """

    grid: tuple[int, int]
    most: int
    slab: int
    lines: list[str] = field(default_factory=list)
    scope: list[Value] = field(default_factory=list)
    arrays: dict[tuple[str, str], Array] = field(default_factory=dict)
    scalars: dict[str, str] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)
    depth: int = 0
    pure: bool = False  # inside a function that is called: no memory, no program id
    count: int = 0
    results: int = 0
    kept: dict[str, int] = field(default_factory=dict)
    more: Sequence[tuple[int, Callable[[Random, Program], None]]] = ()

    # Writing

    def fresh(self) -> str:
        self.count += 1
        return f"%{self.count}"

    def line(self, text: str) -> None:
        self.lines.append("  " * (self.depth + 1) + text)

    def op(self, text: str, elem: str, shape: Shape = (), keep: bool = False) -> Value:
        """Appends `%n = text`; `keep` makes the result an operand of later statements."""
        value = Value(self.fresh(), elem, shape)
        self.line(f"{value} = {text}")
        if keep:
            self.scope.append(value)
        return value

    def map(self, name: str, *xs: Value, keep: bool = False) -> Value:
        """Appends an operation whose operands and result have one type."""
        return self.op(f"{name} {', '.join(map(str, xs))} : {xs[0].type}", xs[0].elem, xs[0].shape, keep)

    @contextmanager
    def nested(self, *arguments: Value) -> Iterator[None]:
        """Opens a region: values that are defined in it are out of scope after it."""
        known = list(self.scope)
        self.scope += arguments
        self.depth += 1
        yield
        self.depth -= 1
        self.scope = known

    # Values

    def constant(self, number: int | float, elem: str, shape: Shape = ()) -> Value:
        if elem == "i1":
            text = "true" if number else "false"
        elif elem in FLOATS:
            text = f"{float(number):e}"
        else:
            half = 1 << (WIDTH[elem] - 1)
            text = str((int(number) + half) % (2 * half) - half)
        kind = f"dense<{text}> : {type_text(elem, shape)}" if shape else text + ("" if elem == "i1" else f" : {elem}")
        return self.op(f"arith.constant {kind}", elem, shape)

    def splat(self, x: Value, shape: Shape) -> Value:
        return self.op(f"tt.splat {x} : {x.elem} -> {type_text(x.elem, shape)}", x.elem, shape) if shape else x

    def reshape(self, x: Value, shape: Shape) -> Value:
        if x.shape == shape:
            return x
        if not shape:
            return self.op(f"tt.unsplat {x} : {x.type}", x.elem)
        if not x.shape:
            return self.splat(x, shape)
        return self.op(f"tt.reshape {x} : {x.type} -> {type_text(x.elem, shape)}", x.elem, shape)

    def cast(self, x: Value, elem: str, how: str | None = None) -> Value:
        """Casts to another element type, by the operation that fits (signed for integers)."""
        if x.elem == elem and how is None:
            return x
        if how is None:
            old, new = x.elem in FLOATS, elem in FLOATS
            if old and new:
                if WIDTH[x.elem] == WIDTH[elem]:
                    x = self.cast(x, "f32")
                how = "arith.extf" if WIDTH[elem] > WIDTH[x.elem] else "arith.truncf"
            elif old != new:
                how = "arith.fptosi" if old else "arith.sitofp"
            else:
                how = "arith.extsi" if WIDTH[elem] > WIDTH[x.elem] else "arith.trunci"
        return self.op(f"{how} {x} : {x.type} to {type_text(elem, x.shape)}", elem, x.shape)

    def random_constant(self, r: Random, elem: str, shape: Shape) -> Value:
        if elem in INTEGERS:
            width = WIDTH[elem]
            small = (0, 1, 2, 3, 7, -1, -2, width - 1, width, 1 << (width - 1), (1 << (width - 1)) - 1)
            return self.constant(r.choice((*small, r.getrandbits(width))), elem, shape)
        return self.constant(r.choice((0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -7.25, 1024.0, 2.0**-13)), elem, shape)

    def value(self, r: Random, elem: str, shape: Shape, fresh: float = 0.15) -> Value:
        """Returns a value of this type: one in scope, or a new one made from values in scope, from memory or
        from a constant."""
        exact = [value for value in self.scope if value.elem == elem and value.shape == shape]
        if exact and r.random() > fresh:
            return r.choice(exact[-6:]) if r.random() < 0.6 else r.choice(exact)
        alike = [value for value in self.scope if value.shape == shape and value.elem in ELEMENTS]
        sized = [value for value in self.scope if value.elem == elem and prod(value.shape) == prod(shape)]
        scalars = [value for value in self.scope if value.elem == elem and not value.shape]
        ways: list[Callable[[], Value]] = [lambda: self.random_constant(r, elem, shape)]
        if alike:
            ways += [lambda: self.cast(r.choice(alike), elem)] * 3
        if sized:
            ways += [lambda: self.reshape(r.choice(sized), shape)] * 2
        if scalars and shape:
            ways.append(lambda: self.splat(r.choice(scalars), shape))
        if elem == "i32" and shape:
            ways += [lambda: self.index(shape)] * 2
        if not self.pure:
            ways += [lambda: self.load(r, elem, shape)] * 4
            if not shape and elem in ("i32", "i64", "f32"):
                ways += [lambda: self.scalar(elem)] * 2
        made = r.choice(ways)()
        self.scope.append(made)
        return made

    def scalar(self, elem: str) -> Value:
        """Returns a scalar parameter."""
        return Value(self.scalars.setdefault(elem, f"%s_{elem}"), elem)

    def shape(self, r: Random, most: int | None = None, rank: int | None = None) -> Shape:
        """Returns the shape of a value in scope, or a new one of at most `most` elements."""
        most = self.most if most is None else most
        known = [v.shape for v in self.scope if prod(v.shape) <= most and (rank is None or len(v.shape) == rank)]
        if known and r.random() < 0.7:
            return r.choice(known[-8:])
        if rank is None:
            rank = r.choice((0, 1, 1, 1, 2, 2, 2, 3, 3, 4))
        shape: list[int] = []
        left = r.choice((1, most, most, min(most, 64), min(most, 8)))
        for _ in range(rank):
            extent = r.choice([1 << i for i in range(left.bit_length())])
            shape.append(extent)
            left //= extent
        if shape and r.random() < 0.3:  # few large blocks would arise otherwise
            shape[-1] *= left
        r.shuffle(shape)
        return tuple(shape)

    def element(self, r: Random, among: Sequence[str] = ELEMENTS) -> str:
        return r.choice(among)

    # Memory

    def array(self, kind: str, elem: str) -> Array:
        own = {"in": 0, "cells": 0}.get(kind, self.slab)
        return self.arrays.setdefault((kind, elem), Array(f"%{kind}_{elem}", kind, elem, own))

    def program(self) -> Value:
        """Returns the linear program id in the grid, i32."""
        x = self.op("tt.get_program_id x : i32", "i32")
        if self.grid[1] == 1:
            return x
        y = self.op("tt.get_program_id y : i32", "i32")
        wide = self.op("tt.get_num_programs x : i32", "i32")
        return self.map("arith.addi", x, self.map("arith.muli", y, wide))

    def index(self, shape: Shape) -> Value:
        """Returns 0 … n - 1 in row-major order, i32."""
        n = prod(shape)
        if not shape:
            return self.constant(0, "i32")
        flat = self.op(f"tt.make_range {{end = {n} : i32, start = 0 : i32}} : {type_text('i32', (n,))}", "i32", (n,))
        return self.reshape(flat, shape)

    def axis(self, extent: int, axis: int, rank: int) -> Value:
        """Returns 0 … extent - 1 along one axis of `rank`, i32, with extents of 1 along the others."""
        x = self.op(f"tt.make_range {{end = {extent} : i32, start = 0 : i32}} : tensor<{extent}xi32>", "i32", (extent,))
        for other in range(rank):
            if other != axis:
                at = min(other, len(x.shape)) if other < axis else other
                shape = (*x.shape[:at], 1, *x.shape[at:])
                text = f"tt.expand_dims {x} {{axis = {at} : i32}} : {x.type} -> {type_text('i32', shape)}"
                x = self.op(text, "i32", shape)
        return x

    def places(self, r: Random, shape: Shape) -> Value:
        """Returns different indices 0 … < slab for all elements of a block, i32."""
        n = prod(shape)
        way = r.randrange(4)
        if way == 0 and shape:
            order = list(range(len(shape)))
            r.shuffle(order)
            total, step = self.constant(0, "i32", shape), r.choice((1, 1, 2)) if 2 * n <= self.slab else 1
            for axis in order:
                part = self.axis(shape[axis], axis, len(shape))
                part = self.map("arith.muli", part, self.constant(step, "i32", part.shape))
                if part.shape != shape:
                    part = self.op(f"tt.broadcast {part} : {part.type} -> {type_text('i32', shape)}", "i32", shape)
                total, step = self.map("arith.addi", total, part), step * shape[axis]
            n = min(step, self.slab)
        else:
            total = self.index(shape)
            if way == 1:
                total = self.map("arith.xori", total, self.constant(r.randrange(n), "i32", shape))
            elif way == 2:
                total = self.map("arith.muli", total, self.constant(2 * r.randrange(n) + 1, "i32", shape))
                total = self.map("arith.andi", total, self.constant(n - 1, "i32", shape))
        base = r.randrange(self.slab - n + 1)
        return self.map("arith.addi", total, self.constant(base, "i32", shape)) if base or r.random() < 0.3 else total

    def pointers(self, r: Random, array: Array, local: Value) -> Value:
        """Returns pointers to these indices in this program's part of an array."""
        pointer = Value(array.name, f"!tt.ptr<{array.elem}>")
        offsets = self.cast(local, "i64") if r.random() < 0.3 else local
        if array.own:
            start = self.map("arith.muli", self.program(), self.constant(array.own, "i32"))
            if r.random() < 0.5:
                pointer = self.op(f"tt.addptr {pointer}, {start} : {pointer.elem}, i32", pointer.elem)
            else:
                offsets = self.map("arith.addi", offsets, self.splat(self.cast(start, offsets.elem), local.shape))
        block = self.splat(pointer, local.shape)
        return self.op(f"tt.addptr {block}, {offsets} : {block.type}, {offsets.type}", pointer.elem, local.shape)

    def mask(self, r: Random, shape: Shape) -> Value:
        if shape and r.random() < 0.5:
            limit = self.constant(r.randrange(prod(shape) + 1), "i32", shape)
            index = self.index(shape)
            return self.op(f"arith.cmpi slt, {index}, {limit} : {index.type}", "i1", shape)
        return self.value(r, "i1", shape, 0.1)

    def gathered(self, r: Random, shape: Shape) -> Value:
        """Returns any indices, some of them equal, i32."""
        x = self.value(r, self.element(r, ("i8", "i16", "i32", "i64")), shape, 0.1)
        x = self.cast(x, "i32")
        return self.map("arith.andi", x, self.constant(self.slab - 1, "i32", shape))

    def load(self, r: Random, elem: str, shape: Shape) -> Value:
        array = self.array(r.choice(("in", "io")), elem)
        known = any(value.shape == shape and value.elem in INTEGERS for value in self.scope)
        local = self.gathered(r, shape) if known and r.random() < 0.25 else self.places(r, shape)
        pointers = self.pointers(r, array, local)
        if r.random() < 0.5:
            return self.op(f"tt.load {pointers} : {pointers.type}", elem, shape)
        mask, other = self.mask(r, shape), self.random_constant(r, elem, shape)
        if r.random() < 0.7:
            return self.op(f"tt.load {pointers}, {mask}, {other} : {pointers.type}", elem, shape)
        value = self.op(f"tt.load {pointers}, {mask} : {pointers.type}", elem, shape)
        return self.select(mask, value, other)

    def select(self, condition: Value, x: Value, y: Value, keep: bool = False) -> Value:
        kind = f"{condition.type}, {x.type}" if condition.shape else x.type
        return self.op(f"arith.select {condition}, {x}, {y} : {kind}", x.elem, x.shape, keep)

    def store(self, r: Random, x: Value) -> None:
        pointers = self.pointers(r, self.array("io", x.elem), self.places(r, x.shape))
        mask = f", {self.mask(r, x.shape)}" if r.random() < 0.4 else ""
        self.line(f"tt.store {pointers}, {x}{mask} : {pointers.type}")

    def keep(self, x: Value, kind: str = "out") -> None:
        """Stores a value to memory of its own, where the comparison sees it."""
        array = self.array(kind, x.elem)
        n, programs = prod(x.shape), self.grid[0] * self.grid[1]
        array.own = 0  # the values lie one after the other, each once per program
        taken = self.kept.get(array.name, 0)
        self.kept[array.name] = taken + n * programs
        start = self.map("arith.muli", self.program(), self.constant(n, "i32"))
        start = self.map("arith.addi", start, self.constant(taken, "i32"))
        local = self.map("arith.addi", self.index(x.shape), self.splat(start, x.shape))
        pointer = Value(array.name, f"!tt.ptr<{x.elem}>")
        block = self.splat(pointer, x.shape)
        pointers = self.op(f"tt.addptr {block}, {local} : {block.type}, {local.type}", pointer.elem, x.shape)
        self.line(f"tt.store {pointers}, {x} : {pointers.type}")

    # The whole

    def text(self) -> str:
        parameters = [f"{array.name}: !tt.ptr<{array.elem}> {{tt.divisibility = 16 : i32}}" for array in self.arrays.values()]
        parameters += [f"{name}: {elem}" for elem, name in self.scalars.items()]
        body = "\n".join(self.lines)
        functions = "\n".join(self.functions)
        return f"module {{\ntt.func public @f({', '.join(parameters)}) {{\n{body}\n  tt.return\n}}\n{functions}\n}}\n"

    def arguments(self, seed: int) -> list[np.ndarray | int | float]:
        """Returns arrays with special values among ordinary ones, and scalars."""
        rng = np.random.default_rng(seed)
        found: list[np.ndarray | int | float] = []
        for array in self.arrays.values():
            programs = self.grid[0] * self.grid[1]
            size = self.kept.get(array.name) or (self.slab if array.kind == "in" else array.own * programs or CELLS)
            found.append(random_array(rng, array.elem, size + GUARD))
        numbers = {"i32": int(rng.integers(-3, 6)), "i64": int(rng.integers(-3, 6)), "f32": float(rng.integers(-3, 6)) / 2}
        return found + [numbers[elem] for elem in self.scalars]


CELLS = 16
"""How many elements an array has that only atomics access."""
GUARD = 8
"""How many elements follow every array that must not change."""


def random_array(rng: np.random.Generator, elem: str, size: int) -> np.ndarray:
    dtype = np.dtype(DTYPES[elem])
    if elem == "i1":
        return rng.integers(0, 2, size).astype(dtype)
    if elem in INTEGERS:
        info = np.iinfo(dtype)
        wide = rng.integers(info.min, info.max, size, dtype, endpoint=True)
        return np.where(rng.random(size) < 0.5, wide, rng.integers(-9, 10, size).astype(dtype))
    with np.errstate(all="ignore"):
        values = (rng.normal(size=size) * 2.0 ** rng.integers(-4, 5, size)).astype(dtype)
        special = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 1e-40, 6e-8, 3e38, 65504.0, -2.5]).astype(dtype)
    return np.where(rng.random(size) < 0.1, special[rng.integers(0, special.size, size)], values)


__all__ = ["ELEMENTS", "FLOATS", "GUARD", "INTEGERS", "WIDTH", "Array", "Program", "Shape", "Value", "type_text"]
