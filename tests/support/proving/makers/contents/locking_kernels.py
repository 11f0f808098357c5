"""Makes kernels that take locks and give them back, nearly right, as text and as statements that an oracle runs."""

from __future__ import annotations

import random
from typing import NamedTuple, TypeAlias


class Take(NamedTuple):
    """A loop around an exchange of `expected` for `taken`, which goes on while what was there is in a relation to a number."""

    place: str
    expected: int
    taken: int
    order: str
    scope: str
    relation: str
    number: int


class Give(NamedTuple):
    """An exchange, or a sum. is_masked: the first program alone does it."""

    place: str
    kind: str
    number: int
    order: str
    scope: str
    is_masked: bool


class Access(NamedTuple):
    array: str
    is_write: bool


class Barrier(NamedTuple):
    space: str


class Branch(NamedTuple):
    """is_first: whether it asks for the first program, or else for a number of the launch."""

    is_first: bool
    then: list[Statement]
    otherwise: list[Statement]


class Loop(NamedTuple):
    count: int
    body: list[Statement]


Statement: TypeAlias = Take | Give | Access | Barrier | Branch | Loop
PLACES = ("lock", "lock2")
_NUMBERS = {0: "%zero", 1: "%one", 2: "%two"}
_HEAD = """tt.func public @k(%lock: !tt.ptr<i32>, %lock2: !tt.ptr<i32>, %total: !tt.ptr<i32>, %other: !tt.ptr<i32>, %z: !tt.ptr<i8>, %f: i32) {
  %true = arith.constant true
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %p = tt.get_program_id x : i32
  %is_first = arith.cmpi eq, %p, %zero : i32
  %flag = arith.cmpi sgt, %f, %zero : i32
  %far = arith.constant 1048576 : i32
  %row = arith.muli %p, %far : i32
  %at = tt.addptr %z, %row : !tt.ptr<i8>, i32
  %there = tt.load %at : !tt.ptr<i8>
"""  # noqa: E501
"""Reads an array, too, that is inside under a condition alone: 2**20 * n elements, at an index that wraps."""


class LockingKernel:
    """A kernel and its specification. Two programs of it are few enough for all its conditions."""

    def __init__(self, rng: random.Random) -> None:
        """Draws a kernel."""
        self._rng = rng
        self._places = PLACES[:1] if rng.random() < 0.7 else PLACES
        self.body = self._section()
        if rng.random() < 0.15:
            self.body = [Loop(rng.choice([1, 2]), self.body)]
        elif rng.random() < 0.15:
            self.body = [self._branch(self.body)]
        elif rng.random() < 0.12:
            self.body += self._section()
        self._lines: list[str] = []
        self._write(self.body, "  ")
        self.text = f"{_HEAD}{chr(10).join(self._lines)}\n  tt.return\n}}\n"
        ranges = ["0 <= lock[:] <= 1", "0 <= lock2[:] <= 1"]
        self.assume = rng.choice([ranges, ranges, [], ranges[:1], ["0 <= lock[:] <= 2", ranges[1]]])
        self.extents = {"lock": 1, "lock2": 1, "total": 1, "other": 1, "z": "2**20 * n"}

    def _section(self, depth: int = 0) -> list[Statement]:
        """Takes a lock, touches something, and gives it back, with a fault now and then."""
        rng = self._rng
        place = rng.choice(self._places)
        inside: list[Statement] = self._accesses(2) or [self._access()]
        if rng.random() < 0.25:
            inside = [self._branch(inside)]
        elif rng.random() < 0.15:
            inside = [Loop(rng.choice([1, 2]), inside)]
        elif rng.random() < 0.15 and not depth and len(self._places) > 1:
            inside += self._section(1)
        barrier = [Barrier("all")] if rng.random() < 0.85 else [Barrier("local")] if rng.random() < 0.3 else []
        give = self._give(place if rng.random() < 0.93 else rng.choice(self._places))
        last: list[Statement] = [give] if rng.random() < 0.92 else [Branch(True, [give], [])]
        late = [self._access()] if rng.random() < 0.08 else []
        found: list[Statement] = [*self._rarely(0.15), self._take(place), *inside, *barrier, *late, *last, *self._rarely(0.1)]
        if rng.random() < 0.05:
            found.insert(rng.randrange(len(found) + 1), Access(place, rng.random() < 0.5))
        if rng.random() < 0.04:
            found.insert(rng.randrange(len(found) + 1), self._give(place))
        if rng.random() < 0.04:
            at = rng.randrange(len(found) - 1)
            found[at], found[at + 1] = found[at + 1], found[at]
        return found

    def _take(self, place: str) -> Take:
        rng = self._rng
        expected, taken = (0, 1) if rng.random() < 0.85 else rng.choice([(1, 0), (0, 2), (0, 0), (2, 1)])
        right = [("ne", expected), ("eq", taken)]
        relation = rng.choice([*right * 5, ("ne", taken), ("eq", expected), ("sgt", expected)])
        order = rng.choice(["acq_rel", "acquire"] if rng.random() < 0.7 else ["acq_rel", "acquire", "relaxed", "release"])
        return Take(place, expected, taken, order, "gpu" if rng.random() < 0.95 else "cta", *relation)

    def _give(self, place: str) -> Give:
        rng = self._rng
        order = rng.choice(["acq_rel", "release"] if rng.random() < 0.85 else ["relaxed", "acquire"])
        kind, number = "exch" if rng.random() < 0.93 else "add", 0 if rng.random() < 0.9 else rng.choice([1, 2])
        return Give(place, kind, number, order, "gpu" if rng.random() < 0.95 else "sys", rng.random() < 0.07)

    def _access(self) -> Access:
        return Access(self._rng.choice(["total", "total", "total", "other"]), self._rng.random() < 0.67)

    def _accesses(self, most: int) -> list[Statement]:
        return [self._access() for _ in range(self._rng.randrange(most + 1))]

    def _rarely(self, chance: float) -> list[Statement]:
        return self._accesses(1) if self._rng.random() < chance else []

    def _branch(self, then: list[Statement]) -> Branch:
        return Branch(self._rng.random() < 0.5, then, self._accesses(1) if self._rng.random() < 0.5 else [])

    # Text

    def _made(self, indent: str, text: str) -> str:
        self._lines.append(f"{indent}%v{len(self._lines)} = {text}")
        return f"%v{len(self._lines) - 1}"

    def _write(self, statements: list[Statement], indent: str) -> None:
        inner = f"{indent}  "
        for each in statements:
            match each:
                case Take(place, expected, taken, order, scope, relation, number):
                    self._lines.append(f"{indent}scf.while : () -> () {{")
                    numbers = f"{_NUMBERS[expected]}, {_NUMBERS[taken]} : (!tt.ptr<i32>, i32, i32) -> i32"
                    old = self._made(inner, f"tt.atomic_cas {order}, {scope}, %{place}, {numbers}")
                    again = self._made(inner, f"arith.cmpi {relation}, {old}, {_NUMBERS[number]} : i32")
                    self._lines.append(f"{inner}scf.condition({again})\n{indent}}} do {{\n{inner}scf.yield\n{indent}}}")
                case Give(place, kind, number, order, scope, is_masked):
                    given = f"{_NUMBERS[number]}, {'%is_first' if is_masked else '%true'} : (!tt.ptr<i32>, i32, i1) -> i32"
                    self._made(indent, f"tt.atomic_rmw {kind}, {order}, {scope}, %{place}, {given}")
                case Access(array, True):
                    self._lines.append(f"{indent}tt.store %{array}, %p : !tt.ptr<i32>")
                case Access(array, False):
                    self._made(indent, f"tt.load %{array} : !tt.ptr<i32>")
                case Barrier(space):
                    self._lines.append(f"{indent}ttg.barrier {space}")
                case Branch(is_first, then, otherwise):
                    self._lines.append(f"{indent}scf.if {'%is_first' if is_first else '%flag'} {{")
                    self._write(then, inner)
                    if otherwise:
                        self._lines.append(f"{indent}}} else {{")
                        self._write(otherwise, inner)
                    self._lines.append(f"{indent}}}")
                case Loop(count, body):
                    name = f"%i{len(self._lines)}"
                    self._lines.append(f"{indent}scf.for {name} = %zero to {_NUMBERS[count]} step %one : i32 {{")
                    self._write(body, inner)
                    self._lines.append(f"{indent}}}")


__all__ = ["PLACES", "Access", "Barrier", "Branch", "Give", "LockingKernel", "Loop", "Statement", "Take"]
