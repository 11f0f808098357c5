"""Compares verdicts on kernels that count with an oracle that runs their programs in many orders, with clocks.

Each program has two threads: one runs atomic accesses, whose results reach the other one, which runs plain accesses; a barrier
of all memory joins them. Whoever acquires a number knows what those who released it, or one before it in a row of atomic
accesses, knew.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import joinery as jn

from .launches import PROVED
from .makers.contents.ticket_kernels import Add, Barrier, Branch, Leave, Loop, Statement, TicketKernel, Touch

GRIDS = ((1, 1), (2, 1), (1, 2), (3, 1), (2, 2), (4, 1))
LIMIT = 200_000
_LANES = range(16)
_RELATIONS = {
    "eq": int.__eq__, "ne": int.__ne__, "slt": int.__lt__, "sge": int.__ge__, "sle": int.__le__, "sgt": int.__gt__,
}  # fmt: skip
Clock = dict[int, int]


@dataclass
class Launch:
    """What programs have done, and what they know.

    Attributes:
        memory: what counters hold, by array and element.
        released: what who acquires that knows.
        clocks: what each thread knows: of program n the threads 2 * n, which does atomic accesses, and 2 * n + 1.
        events: who touched an element, when and how.
        racing: the arrays on which two programs met without an order.
    """

    grid: tuple[int, int]
    starts: dict[str, int]
    memory: dict[tuple[str, int], int] = field(default_factory=dict)
    released: dict[tuple[str, int], Clock] = field(default_factory=dict)
    clocks: dict[int, Clock] = field(default_factory=dict)
    events: dict[tuple[str, int], list[tuple[int, int, str]]] = field(default_factory=dict)
    racing: set[str] = field(default_factory=set)

    def touch(self, array: str, place: int, thread: int, kind: str) -> None:
        """Notes an access: "read", "write", "gpu" or "cta", which are the scopes of atomic ones."""
        clock = self.clocks[thread]
        for other, time, its in self.events.setdefault((array, place), []):
            is_harmless = kind == its and kind in ("read", "gpu")
            if other // 2 != thread // 2 and not is_harmless and clock.get(other, 0) < time:
                self.racing.add(array)
        self.events[array, place].append((thread, clock[thread], kind))
        clock[thread] += 1

    def join(self, thread: int, clock: Clock) -> None:
        own = self.clocks[thread]
        for each, time in clock.items():
            own[each] = max(own.get(each, 0), time)


def racing(subject: TicketKernel, grid: tuple[int, int], rng: random.Random) -> set[str]:
    """Returns the arrays on which two programs meet without an order, where the programs run in a random order."""
    count = grid[0] * grid[1]
    launch = Launch(grid, subject.starts)
    launch.clocks = {thread: {thread: 1} for thread in range(2 * count)}
    running = {number: _program(launch, subject.body, number) for number in range(count)}
    is_in_turn = rng.random() < 0.3
    while running:
        number = min(running) if is_in_turn else rng.choice([*running])
        for _ in range(rng.choice((1, 1, 2, 5))):
            if next(running[number], None) is None:
                del running[number]
                break
    return launch.racing


class _Left(Exception):
    """Raised where a program returns."""


def _program(launch: Launch, body: tuple[Statement, ...], number: int) -> Iterator[int]:
    """Does what a program does, step by step."""
    try:
        yield from _run(launch, body, number, [0])
    except _Left:
        return


def _run(launch: Launch, body: tuple[Statement, ...], number: int, old: list[int]) -> Iterator[int]:
    """Does statements. old: what the last atomic access returned, of those that conditions can be about."""
    x, y = number % launch.grid[0], number // launch.grid[0]
    places = {"0": 0, "x": x, "y": y, "x + 4 * y": x + 4 * y}
    atomic, plain = 2 * number, 2 * number + 1
    for each in body:
        match each:
            case Barrier("all"):
                launch.join(atomic, launch.clocks[plain])
                launch.join(plain, launch.clocks[atomic])
            case Touch(array, False, "all"):
                for place in _LANES:
                    launch.touch(array, place, plain, "read")
            case Touch(array, is_write, place):
                at = places.get(place, 0)
                launch.touch(array, at, plain, "write" if is_write else "read")
                if is_write:
                    launch.memory[array, at] = 0
                    launch.released.pop((array, at), None)
            case Add():
                old[0] = _updated(launch, each, places[each.place], number)
            case Branch(relation, name, then, otherwise):
                inner = [*old]
                yield from _run(launch, then if _holds(launch, relation, name, old[0]) else otherwise, number, inner)
            case Loop(inner_body):
                inner = [*old]
                for _ in range(2):
                    own = [*inner]
                    yield from _run(launch, inner_body, number, own)
            case Leave(relation, name):
                if _holds(launch, relation, name, old[0]):
                    raise _Left
        yield number


def _holds(launch: Launch, relation: str, name: str, old: int) -> bool:
    x, y = launch.grid
    number = {"all - 1": x * y - 1, "all - 2": x * y - 2, "all": x * y, "x - 1": x - 1, "y - 1": y - 1, "0": 0}[name]
    return bool(_RELATIONS[relation](old, number))


def _updated(launch: Launch, add: Add, at: int, number: int) -> int:
    """Does an atomic access, and returns what was there; some number where its mask is false."""
    if add.is_masked and number % launch.grid[0] >= 1:
        return launch.grid[0] * launch.grid[1] - 1
    atomic, plain, key = 2 * number, 2 * number + 1, (add.array, at)
    is_wide = add.scope != "cta"
    if is_wide and add.order in ("acquire", "acq_rel"):
        launch.join(atomic, launch.released.get(key, {}))
    launch.touch(add.array, at, atomic, "gpu" if is_wide else "cta")
    if is_wide and add.order in ("release", "acq_rel"):
        clock = launch.released.setdefault(key, {})
        # The access itself is before what acquires it, too.
        for thread, time in launch.clocks[atomic].items():
            clock[thread] = max(clock.get(thread, 0), time - (thread == atomic))
    launch.join(plain, launch.clocks[atomic])
    old = launch.memory.get(key, launch.starts.get(add.array, 0))
    launch.memory[key] = {"add": old + add.amount, "exch": add.amount, "max": max(old, add.amount)}[add.kind]
    return old


def check(seed: int, orders: int = 60) -> Counter[str]:
    """Proves a random kernel: on an array without races programs meet in no order of them. Returns how many arrays are."""
    rng = random.Random(seed)
    subject = TicketKernel(rng)
    kernel = jn.kernel.from_ttir(subject.text)
    extents = dict.fromkeys(("x", "y", "c", "d"), "64")
    proof = kernel.prove(subject.assume, extents, ("grid_x", "grid_y"), ("bounds", "races"), limit=LIMIT)
    own: dict[str, bool] = {}
    for each in proof.accesses:
        if each.prop == "races":
            own[each.array] = own.get(each.array, True) and each.verdict in PROVED
    free = {array for array, is_free in own.items() if is_free}
    found: set[str] = set()
    for grid, _ in itertools.product(GRIDS, range(orders)):
        found |= racing(subject, grid, rng)
        wrong = free & found
        assert not wrong, f"counting {seed}: {wrong} {grid}\n{proof}\n{subject.body}\n{subject.text}"
    relied = {each.array for each in proof.accesses if each.operation in ("tt.load", "tt.store")}
    return Counter({"free": len(free & relied), "unknown": len(own) - len(free), "racing": len(found)})


def main() -> None:
    """Tries random kernels: the first seed, how many, and how many orders of each."""
    first, count, orders = map(int, sys.argv[1:4])
    found: Counter[str] = Counter()
    for seed in range(first, first + count):
        try:
            found += check(seed, orders)
        except AssertionError as error:
            print(error, flush=True)
            found["FAULT"] += 1
    print(dict(found))


if __name__ == "__main__":
    main()

__all__ = ["check", "racing"]
