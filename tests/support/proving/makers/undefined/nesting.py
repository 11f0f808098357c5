"""Makes kernels with undefined lanes, mostly loops and branches inside each other, which exchange and turn what they carry."""

from __future__ import annotations

import random

from ..random_kernels import RandomKernel
from ..undefined_kernels import Maker

_I, _B, _P = "tensor<8xi32>", "tensor<8xi1>", "tensor<8x!tt.ptr<i32>>"


class _Maker(Maker):
    """Writes one kernel."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.nests = rng.random() < 0.8

    def step(self) -> None:
        rng = self.rng
        if self.depth < 4 and rng.random() < 0.42:
            rng.choice([self.loop, self.loop, self.loop, self.branch, self.waiting])()
            return
        simple = [self.load, self.compute, self.compute, self.select, self.move, self.store, self.store, self.reduce]
        rng.choice([*simple, self.spread])()

    def turned(self, source: str) -> str:
        index = self.made(f"arith.xori %lanes, {self.repeated(self.rng.choice([1, 7, 3]))} : {_I}")
        return self.made(f"tt.gather {source}[{index}] {{axis = 0 : i32}} : ({_I}, {_I}) -> {_I}")

    def store(self) -> None:
        if self.rng.random() > 0.7:
            super().store()
            return
        self.stores += 1
        one, two = [f", {each}" for each in self.masks[:2]]
        at, value = self.place(), self.late(self.blocks)
        self.emit(f"tt.store {at}, {value}{self.rng.choice(['', one, one, two])} : {_P}")

    def loop(self) -> None:
        rng = self.rng
        starts = [self.late(self.blocks) if rng.random() < 0.7 else "%zeros" for _ in range(rng.randint(1, 4))]
        carried = [self.name() for _ in starts]
        result, counter = self.name(), self.name()
        end = rng.choice(["%two", "%two", "%three", "%m"]) if not self.careless() else self.late(self.scalars)
        bounded = self.made(f"arith.minsi {end}, %three : i32")
        low, step = rng.choice(["%none", "%none", "%one"]), rng.choice(["%one", "%one", "%two"])
        given = ", ".join([f"{one} = {two}" for one, two in zip(carried, starts, strict=True)])
        types = ", ".join([_I] * len(starts))
        counts = f"scf.for {counter} = {low} to {bounded} step {step} iter_args({given})"
        self.emit(f"{result}:{len(starts)} = {counts} -> ({types}) : i32 {{")

        def write() -> None:
            self.blocks += carried
            self.scalars.append(counter)
            self.steps(rng.randint(1, 4))
            self.emit(f"scf.yield {', '.join([self.left(each, carried) for each in carried])} : {types}")

        self.scope(write)
        self.emit("}")
        self.blocks += [f"{result}#{number}" for number in range(len(starts))]

    def left(self, own: str, carried: list[str]) -> str:
        """What an iteration makes of a value."""
        rng = self.rng
        kind = rng.random()
        if kind < 0.25:
            return self.made(f"arith.addi {own}, {self.late(self.blocks)} : {_I}")
        if kind < 0.4:
            return self.made(f"arith.addi {own}, {self.turned(rng.choice(carried))} : {_I}")
        if kind < 0.5:
            return self.turned(rng.choice(carried))
        if kind < 0.6:
            return self.made(f"arith.select {self.some_mask()}, {self.late(self.blocks)}, {own} : {_B}, {_I}")
        return rng.choice(carried) if kind < 0.8 else self.late(self.blocks)

    def focused(self) -> None:
        if not self.nests:
            super().focused()
            return
        rng = self.rng
        self.carelessness = rng.choice([0.0, 0.02])
        self.add(self.blocks, f"tt.load {self.place()} : {_P}")
        self.add(self.blocks, f"tt.load {self.place()}, {self.masks[0]} : {_P}")
        for _ in range(rng.randint(1, 3)):
            rng.choice([self.loop, self.loop, self.waiting, self.step])()
        self.store()
        self.store()


def nesting_kernel(rng: random.Random) -> RandomKernel:
    """Returns a random kernel, and its specification."""
    return _Maker(rng).kernel()


__all__ = ["nesting_kernel"]
