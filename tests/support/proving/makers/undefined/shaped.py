"""Makes kernels whose partly undefined blocks change shape: reshaped, turned, joined, split, reduced, scanned, gathered."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from ..random_kernels import RandomKernel
from .carrying import kernel_of

Shape = tuple[int, ...]
_SHAPES: tuple[Shape, ...] = ((4, 8), (8, 4), (8,), (4,), (32,), (2, 4, 4))
_POINTER = "!tt.ptr<i32>"


def _type(shape: Shape, element: str = "i32") -> str:
    return f"tensor<{''.join([f'{extent}x' for extent in shape])}{element}>"


class _Maker:
    """Writes one kernel. blocks, masks: what there is of each shape."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.count = 0
        self.blocks: dict[Shape, list[str]] = {}
        self.masks: dict[Shape, list[str]] = {}

    def name(self) -> str:
        self.count += 1
        return f"%q{self.count}q"

    def made(self, text: str) -> str:
        name = self.name()
        self.lines.append(f"{name} = {text}")
        return name

    def add(self, shape: Shape, name: str) -> None:
        self.blocks.setdefault(shape, []).append(name)

    def filled(self, value: int, shape: Shape) -> str:
        return self.made(f"arith.constant dense<{value}> : {_type(shape)}")

    def computed(self, name: str, one: str, two: str, shape: Shape) -> str:
        return self.made(f"arith.{name} {one}, {two} : {_type(shape)}")

    # Addresses and masks

    def index(self, shape: Shape, axis: int) -> str:
        """The index of each lane along an axis."""
        extent = shape[axis]
        found = self.made(f"tt.make_range {{end = {extent} : i32, start = 0 : i32}} : {_type((extent,))}")
        now: Shape = (extent,)
        for other in range(len(shape)):
            if other != axis:
                at = other if other < axis else len(now)
                wider = (*now[:at], 1, *now[at:])
                found = self.made(f"tt.expand_dims {found} {{axis = {at} : i32}} : {_type(now)} -> {_type(wider)}")
                now = wider
        return found if now == shape else self.made(f"tt.broadcast {found} : {_type(now)} -> {_type(shape)}")

    def number(self, shape: Shape) -> str:
        """The number of each lane, in row-major order."""
        found = ""
        for axis in range(len(shape)):
            along = self.computed("muli", self.index(shape, axis), self.filled(math.prod(shape[axis + 1 :]), shape), shape)
            found = self.computed("addi", found, along, shape) if found else along
        return found

    def place(self, shape: Shape, array: str) -> str:
        type_ = _type(shape, _POINTER)
        base = self.made(f"tt.splat {array} : {_POINTER} -> {type_}")
        return self.made(f"tt.addptr {base}, {self.number(shape)} : {type_}, {_type(shape)}")

    def mask(self, shape: Shape) -> str:
        rng, pool = self.rng, self.masks.setdefault(shape, [])
        if pool and rng.random() < 0.6:
            return rng.choice(pool)
        if len(pool) > 1 and rng.random() < 0.5:
            name = rng.choice(["andi", "andi", "ori", "xori"])
            pool.append(self.made(f"arith.{name} {rng.choice(pool)}, {rng.choice(pool)} : {_type(shape, 'i1')}"))
            return pool[-1]
        index = self.number(shape) if rng.random() < 0.3 else self.index(shape, rng.randrange(len(shape)))
        limit = self.made(f"tt.splat {rng.choice(['%n', '%m'])} : i32 -> {_type(shape)}")
        pool.append(self.made(f"arith.cmpi {rng.choice(['slt', 'slt', 'sge', 'ult'])}, {index}, {limit} : {_type(shape)}"))
        return pool[-1]

    # Blocks

    def block(self, shape: Shape) -> str:
        """One of a shape, the last ones more often."""
        if not self.blocks.get(shape) or self.rng.random() < 0.15:
            self.load(shape)
        pool = self.blocks[shape]
        return pool[-1 - min(int(self.rng.expovariate(0.6)), len(pool) - 1)]

    def load(self, shape: Shape) -> None:
        kind, at = self.rng.random(), self.place(shape, self.rng.choice(["%x", "%y"]))
        operands = at if kind < 0.2 else f"{at}, {self.mask(shape)}"
        if kind >= 0.8:
            operands += f", {self.filled(0, shape)}"
        self.add(shape, self.made(f"tt.load {operands} : {_type(shape, _POINTER)}"))

    def store(self, shape: Shape) -> None:
        rng = self.rng
        mask = rng.choice(["", self.mask(shape), self.mask(shape)])
        if rng.random() < 0.15:
            small = self.made(f"arith.cmpi slt, {self.block(shape)}, {self.filled(3, shape)} : {_type(shape)}")
            mask = self.made(f"arith.andi {small}, {self.mask(shape)} : {_type(shape, 'i1')}")
        at, value = self.place(shape, rng.choice(["%o", "%o", "%x"])), self.block(shape)
        self.lines.append(f"tt.store {at}, {value}{mask and f', {mask}'} : {_type(shape, _POINTER)}")

    def compute(self, shape: Shape) -> None:
        one, two = self.block(shape), self.block(shape)
        self.add(shape, self.computed(self.rng.choice(["addi", "muli", "andi", "maxsi"]), one, two, shape))

    def chosen(self, one: str, two: str, shape: Shape) -> str:
        return self.made(f"arith.select {self.mask(shape)}, {one}, {two} : {_type(shape, 'i1')}, {_type(shape)}")

    def select(self, shape: Shape) -> None:
        self.add(shape, self.chosen(self.block(shape), self.block(shape), shape))

    def reshape(self, shape: Shape) -> None:
        others = [each for each in _SHAPES if math.prod(each) == math.prod(shape) and each != shape]
        if others:
            to = self.rng.choice(others)
            self.add(to, self.made(f"tt.reshape {self.block(shape)} : {_type(shape)} -> {_type(to)}"))

    def turn(self, shape: Shape) -> None:
        order = list(range(len(shape)))
        self.rng.shuffle(order)
        to = tuple([shape[axis] for axis in order])
        text = f"{{order = array<i32: {', '.join(map(str, order))}>}} : {_type(shape)} -> {_type(to)}"
        self.add(to, self.made(f"tt.trans {self.block(shape)} {text}"))

    def combined(self, what: str, source: str, properties: str) -> str:
        return self.made(
            f'"tt.{what}"({source}) <{{{properties}}}> ({{\n^bb0(%e: i32, %f: i32):\n  %s = arith.addi %e, %f : i32\n'
            f"  tt.{what}.return %s : i32\n}})"
        )

    def reduce(self, shape: Shape) -> None:
        if len(shape) == 1:
            return
        axis = self.rng.randrange(len(shape))
        source = self.block(shape)
        if self.rng.random() < 0.6:
            source = self.chosen(source, self.filled(0, shape), shape)
        to = shape[:axis] + shape[axis + 1 :]
        name = self.combined("reduce", source, f"axis = {axis} : i32")
        self.lines[-1] += f" : ({_type(shape)}) -> {_type(to)}"
        self.add(to, name)

    def scan(self, shape: Shape) -> None:
        turned = self.rng.choice(["true", "false"])
        properties = f"axis = {self.rng.randrange(len(shape))} : i32, reverse = {turned}"
        name = self.combined("scan", self.block(shape), properties)
        self.lines[-1] += f" : ({_type(shape)}) -> {_type(shape)}"
        self.add(shape, name)

    def spread(self, shape: Shape) -> None:
        to = self.rng.choice([each for each in _SHAPES if len(each) == 2])
        axis = next((axis for axis in (0, 1) if (to[1 - axis],) == shape), None)
        if axis is not None:
            row = (1, *shape) if axis == 0 else (*shape, 1)
            wide = self.made(
                f"tt.expand_dims {self.block(shape)} {{axis = {axis} : i32}} : {_type(shape)} -> {_type(row)}"
            )
            self.add(to, self.made(f"tt.broadcast {wide} : {_type(row)} -> {_type(to)}"))

    def pair(self, shape: Shape) -> None:
        """Two blocks that are joined, turned or not, and split again."""
        both = (*shape, 2)
        joined = self.made(f"tt.join {self.block(shape)}, {self.block(shape)} : {_type(shape)} -> {_type(both)}")
        if self.rng.random() < 0.5 and len(shape) == 2:
            shape = shape[::-1]
            to = f"{_type(both)} -> {_type((*shape, 2))}"
            joined = self.made(f"tt.trans {joined} {{order = array<i32: 1, 0, 2>}} : {to}")
        one, two = self.name(), self.name()
        self.lines.append(f"{one}, {two} = tt.split {joined} : {_type((*shape, 2))} -> {_type(shape)}")
        self.add(shape, one)
        self.add(shape, two)

    def gather(self, shape: Shape) -> None:
        axis = self.rng.randrange(len(shape))
        last = shape[axis] - 1
        index = self.index(shape, self.rng.randrange(len(shape)))
        index = self.computed("xori", index, self.filled(self.rng.choice([0, 1, last]), shape), shape)
        index = self.computed("andi", index, self.filled(last, shape), shape)
        types = f"({_type(shape)}, {_type(shape)}) -> {_type(shape)}"
        self.add(shape, self.made(f"tt.gather {self.block(shape)}[{index}] {{axis = {axis} : i32}} : {types}"))

    def kernel(self) -> RandomKernel:
        rng = self.rng
        steps: list[Callable[[Shape], None]] = [
            self.compute, self.select, self.reshape, self.turn, self.reduce, self.scan, self.spread, self.pair, self.gather,
            self.store,
        ]  # fmt: skip
        self.load(rng.choice(_SHAPES))
        for _ in range(rng.randint(3, 10)):
            rng.choice(steps)(rng.choice(list(self.blocks)))
        for shape in list(self.blocks):
            self.store(shape)
        return kernel_of("\n".join(self.lines), 32)


def shaped_kernel(rng: random.Random) -> RandomKernel:
    """Returns a random kernel, and its specification."""
    return _Maker(rng).kernel()


__all__ = ["shaped_kernel"]
