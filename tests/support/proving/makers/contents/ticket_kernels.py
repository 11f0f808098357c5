"""Makes random kernels whose programs count, and do something where they are the last: right, and nearly right."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TypeAlias

ARRAYS, COUNTERS = ("x", "y"), ("c", "d")
NUMBERS = {"all - 1": "%last", "all - 2": "%last2", "all": "%all", "x - 1": "%lastx", "y - 1": "%lasty", "0": "%zero"}
PLACES = {"0": "%zero", "x": "%p", "y": "%q", "x + 4 * y": "%id"}


@dataclass(frozen=True)
class Touch:
    """A plain access: of one element, or a load of all."""

    array: str
    is_write: bool
    place: str


@dataclass(frozen=True)
class Barrier:
    space: str


@dataclass(frozen=True)
class Add:
    """An atomic access that adds, or exchanges; its result is what conditions behind it are about."""

    array: str
    place: str
    amount: int = 1
    kind: str = "add"
    order: str = "acq_rel"
    scope: str = "gpu"
    is_masked: bool = False


@dataclass(frozen=True)
class Branch:
    """A branch on what the last atomic access before it returned."""

    relation: str
    number: str
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class Loop:
    """Two iterations."""

    inner: tuple[Statement, ...]


@dataclass(frozen=True)
class Leave:
    """Leaves the program, at the outermost level, by what the last atomic access before it returned."""

    relation: str
    number: str


Statement: TypeAlias = Touch | Barrier | Add | Branch | Loop | Leave


class TicketKernel:
    """A kernel, with what is assumed of its counters.

    Attributes:
        body: its statements.
        starts: what counters hold at launch.
    """

    def __init__(self, rng: random.Random) -> None:
        """Makes a right kernel, and changes up to three things."""
        self._rng = rng
        self.starts = {name: rng.choice((0, 0, 0, 1)) for name in COUNTERS}
        self.body = self._right()
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            self.body = self._changed(self.body)
        if rng.random() < 0.1:
            self.starts[rng.choice(COUNTERS)] += rng.choice((-1, 1))
        self._names = 0

    def _right(self) -> tuple[Statement, ...]:
        rng = self._rng
        array, other = rng.sample(ARRAYS, 2)
        counter = rng.choice(COUNTERS)
        place, number = rng.choice((("0", "all - 1"), ("0", "all - 1"), ("y", "x - 1"), ("x", "y - 1")))
        own = {"0": "0", "x": "x", "y": "y"}[place]
        add = Add(counter, place, scope=rng.choice(("gpu", "gpu", "sys")))
        if self.starts[counter]:
            number = "all" if number == "all - 1" else number
        read = Touch(array, False, "all" if place == "0" else place)
        then: list[Statement] = [read, Touch(other, True, own)]
        if rng.random() < 0.4:
            where = place if rng.random() < 0.8 else rng.choice([*PLACES])
            then.append(rng.choice((Touch(counter, True, where), Add(counter, where, 0, "exch", "relaxed"))))
        before: list[Statement] = [Touch(array, True, "x + 4 * y" if place == "0" else place)]
        if place != "0":  # of programs with one place one writes what is there
            before = [Add(array, place, 1, order="relaxed")]
        if rng.random() < 0.3:
            before = [Loop(tuple(before))]
        if rng.random() < 0.2:
            before.insert(0, Add(next(each for each in COUNTERS if each != counter), "0"))
        relation = rng.choice(("eq", "eq", "eq", "sge"))
        if rng.random() < 0.25:
            return (*before, Barrier("all"), add, Leave({"eq": "ne", "sge": "slt"}[relation], number), *then)
        return (*before, Barrier("all"), add, Branch(relation, number, tuple(then)))

    def _changed(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """Returns statements with one of them, or of those inside one, changed."""
        rng = self._rng
        found = [*body]
        at = rng.randrange(len(found)) if found else 0
        if not found:
            return (self._any(),)
        own = found[at]
        if isinstance(own, Branch) and rng.random() < 0.6:
            found[at] = replace(own, then=self._changed(own.then))
            return tuple(found)
        if isinstance(own, Loop) and rng.random() < 0.6:
            found[at] = Loop(self._changed(own.inner))
            return tuple(found)
        match rng.randrange(8):
            case 0:
                del found[at]
            case 1:
                found.insert(at, self._any())
            case 2:
                found.append(self._any())
            case 3 if at + 1 < len(found):
                found[at], found[at + 1] = found[at + 1], found[at]
            case 4 if not isinstance(own, Leave):
                found[at] = Loop((own,))
            case 5 if not any(isinstance(each, Leave) for each in found[at:]):
                found[at:] = [Loop(tuple(found[at:]))]
            case _:
                found[at] = self._other(own)
        return tuple(found)

    def _any(self) -> Statement:
        rng = self._rng
        return rng.choice((
            Touch(rng.choice(ARRAYS), rng.random() < 0.5, rng.choice([*PLACES])), Barrier("all"),
            Touch(rng.choice(COUNTERS), rng.random() < 0.7, rng.choice([*PLACES])),
            Add(rng.choice(COUNTERS), rng.choice([*PLACES])),
        ))  # fmt: skip

    def _other(self, own: Statement) -> Statement:
        rng = self._rng
        match own:
            case Touch():
                return rng.choice((
                    replace(own, place=rng.choice([*PLACES])), replace(own, array=rng.choice((*ARRAYS, *COUNTERS))),
                    replace(own, is_write=not own.is_write, place="0"),
                ))  # fmt: skip
            case Barrier():
                return Barrier("local")
            case Add():
                return rng.choice((
                    replace(own, amount=rng.choice((-1, 0, 2))), replace(own, place=rng.choice([*PLACES])),
                    replace(own, order=rng.choice(("relaxed", "acquire", "release"))), replace(own, scope="cta"),
                    replace(own, array=rng.choice(COUNTERS)), replace(own, kind=rng.choice(("exch", "max"))),
                    replace(own, is_masked=True),
                ))  # fmt: skip
            case Branch():
                return rng.choice((
                    replace(own, number=rng.choice([*NUMBERS])), replace(own, then=own.otherwise, otherwise=own.then),
                    replace(own, relation=rng.choice(("ne", "sge", "sle", "sgt"))), replace(own, otherwise=own.then),
                ))  # fmt: skip
            case Leave():
                return rng.choice((
                    replace(own, number=rng.choice([*NUMBERS])), replace(own, relation=rng.choice(("eq", "sge", "sle", "sgt"))),
                ))  # fmt: skip
            case Loop(inner):
                return Loop((*inner, self._any()))

    @property
    def assume(self) -> list[str]:
        """What is said of its launches."""
        starts = [f"at_launch({name}[:]) == {start}" for name, start in self.starts.items()]
        return [*starts, "grid_x <= 4", "grid_y <= 4"]

    @property
    def text(self) -> str:
        """The kernel in TTIR."""
        self._names = 0
        names = ", ".join(f"%{name}: !tt.ptr<i32>" for name in (*ARRAYS, *COUNTERS))
        lines = self._lines(self.body, "%zero")
        leaves = [f"^leave{number}:\n  tt.return" for number in range(sum(isinstance(each, Leave) for each in self.body))]
        rest = "\n".join(leaves)
        return f"""tt.func public @k({names}) {{
  %true = arith.constant true
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %minus = arith.constant -1 : i32
  %four = arith.constant 4 : i32
  %p = tt.get_program_id x : i32
  %q = tt.get_program_id y : i32
  %g = tt.get_num_programs x : i32
  %h = tt.get_num_programs y : i32
  %rows = arith.muli %q, %four : i32
  %id = arith.addi %rows, %p : i32
  %all = arith.muli %g, %h : i32
  %last = arith.subi %all, %one : i32
  %last2 = arith.subi %all, %two : i32
  %lastx = arith.subi %g, %one : i32
  %lasty = arith.subi %h, %one : i32
  %even = arith.cmpi slt, %p, %one : i32
  %lanes = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>
  {lines}
  tt.return
{rest}
}}
"""

    def _name(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def _lines(self, body: tuple[Statement, ...], old: str) -> str:
        return "\n  ".join(self._written(body, old))

    def _written(self, body: tuple[Statement, ...], old: str) -> list[str]:
        found: list[str] = []
        leaves = 0
        for each in body:
            name = self._name()
            match each:
                case Barrier(space):
                    found.append(f"ttg.barrier {space}")
                case Touch(array, False, "all"):
                    found += [
                        f"%{name}b = tt.splat %{array} : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>",
                        f"%{name}a = tt.addptr %{name}b, %lanes : tensor<16x!tt.ptr<i32>>, tensor<16xi32>",
                        f"%{name} = tt.load %{name}a : tensor<16x!tt.ptr<i32>>",
                    ]
                case Touch(array, is_write, place):
                    at = PLACES.get(place, "%zero")
                    found.append(f"%{name}a = tt.addptr %{array}, {at} : !tt.ptr<i32>, i32")
                    # The number is that of no program, so that what counters hold is as the oracle has it.
                    store, load = f"tt.store %{name}a, %zero : !tt.ptr<i32>", f"%{name} = tt.load %{name}a : !tt.ptr<i32>"
                    found.append(store if is_write else load)
                case Add():
                    amount = {-1: "%minus", 0: "%zero", 1: "%one", 2: "%two"}[each.amount]
                    mask = "%even" if each.is_masked else "%true"
                    found += [
                        f"%{name}a = tt.addptr %{each.array}, {PLACES[each.place]} : !tt.ptr<i32>, i32",
                        f"%{name} = tt.atomic_rmw {each.kind}, {each.order}, {each.scope}, %{name}a, {amount}, {mask} "
                        ": (!tt.ptr<i32>, i32, i1) -> i32",
                    ]
                    old = f"%{name}"
                case Branch(relation, number, then, otherwise):
                    found.append(f"%{name} = arith.cmpi {relation}, {old}, {NUMBERS[number]} : i32")
                    found += [f"scf.if %{name} {{", *self._written(then, old), "} else {", *self._written(otherwise, old), "}"]
                case Loop(inner):
                    found += [f"scf.for %{name} = %zero to %two step %one : i32 {{", *self._written(inner, old), "}"]
                case Leave(relation, number):
                    found.append(f"%{name} = arith.cmpi {relation}, {old}, {NUMBERS[number]} : i32")
                    found += [f"cf.cond_br %{name}, ^leave{leaves}, ^{name}", f"^{name}:"]
                    leaves += 1
        return found


__all__ = [
    "ARRAYS", "COUNTERS", "Add", "Barrier", "Branch", "Leave", "Loop", "Statement", "TicketKernel", "Touch",
]  # fmt: skip
