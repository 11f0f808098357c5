"""Runs two programs that take locks in every order, with clocks that say what happens before what.

Each program has two threads: one runs atomic accesses, whose results reach the other one, which runs plain accesses; a barrier
of all memory joins them. Whoever acquires a number knows what those who released it before knew.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from .makers.contents.locking_kernels import PLACES, Access, Barrier, Branch, Give, Loop, Statement, Take

_MAX_STATES = 40_000
_MOST = 4
"""Largest number in a lock that is followed: sums may grow without an end."""
_LAST = 30
"""Last time of a clock: loops may exchange a number for itself without an end. What is later is said to be in an order."""
Clock: TypeAlias = tuple[int, int, int, int]
Event: TypeAlias = tuple[str, int, int, str]
"""An array, who touched it, when, and how: "read", "write" or "atomic"."""
_NONE: Clock = (0, 0, 0, 0)


class State(NamedTuple):
    """How far the programs are, what the locks hold and who released that, what each thread knows, and what was done."""

    at: tuple[int, int]
    memory: tuple[int, ...]
    released: tuple[Clock, ...]
    clocks: tuple[Clock, ...]
    events: frozenset[Event]


def racing(body: list[Statement], memory: tuple[int, ...], flag: bool) -> set[str]:
    """Returns the arrays of which accesses of two programs are in no order, in some run. memory: what the locks hold."""
    programs = [_steps(body, number == 0, flag) for number in (0, 1)]
    found: set[str] = set()
    seen: set[State] = set()
    clocks: tuple[Clock, ...] = ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1))
    waiting = [State((0, 0), memory, (_NONE,) * len(PLACES), clocks, frozenset())]
    while waiting:
        state = waiting.pop()
        if state in seen:
            continue
        seen.add(state)
        if len(seen) > _MAX_STATES:
            break
        for number in (0, 1):
            if state.at[number] < len(programs[number]):
                step = programs[number][state.at[number]]
                following = _after(state, number, step, found)
                waiting += [] if following is None else [following]
    return found


def _steps(body: list[Statement], is_first: bool, flag: bool) -> list[Take | Give | Access | Barrier]:
    found: list[Take | Give | Access | Barrier] = []
    for each in body:
        match each:
            case Branch(asks_first, then, otherwise):
                found += _steps(then if (is_first if asks_first else flag) else otherwise, is_first, flag)
            case Loop(count, inner):
                found += [step for _ in range(count) for step in _steps(inner, is_first, flag)]
            case _:
                found.append(each)
    return found


def _joined(one: Clock, two: Clock) -> Clock:
    a, b, c, d = map(max, one, two)
    return a, b, c, d


def _ticked(clock: Clock, thread: int) -> Clock:
    a, b, c, d = [min(time + (at == thread), _LAST) for at, time in enumerate(clock)]
    return a, b, c, d


def _after(state: State, number: int, step: Take | Give | Access | Barrier, found: set[str]) -> State | None:
    """Returns what a step of a program leads to, and notes the arrays on which it races; None if it is not followed."""
    atomic, plain = 2 * number, 2 * number + 1
    clocks, memory, released, events = list(state.clocks), list(state.memory), list(state.released), state.events
    goes_on = False
    match step:
        case Barrier("all"):
            clocks[atomic] = clocks[plain] = _joined(clocks[atomic], clocks[plain])
        case Access(array, is_write):
            _meet(events, array, plain, clocks[plain], ("write", "atomic", "read") if is_write else ("write", "atomic"), found)
            events |= {(array, plain, clocks[plain][plain], "write" if is_write else "read")}
            clocks[plain] = _ticked(clocks[plain], plain)
            if is_write and array in PLACES:
                memory[PLACES.index(array)] = number
        case Take(place) | Give(place):
            at = PLACES.index(place)
            if step.scope != "cta" and step.order in ("acquire", "acq_rel"):
                clocks[atomic] = _joined(clocks[atomic], released[at])
            written, goes_on = _exchanged(step, memory[at], number == 0)
            _meet(events, place, atomic, clocks[atomic], ("write", "read"), found)
            events |= {(place, atomic, state.clocks[atomic][atomic], "atomic")}
            if written is not None:
                if written > _MOST:
                    return None
                memory[at] = written
                if step.scope != "cta" and step.order in ("release", "acq_rel"):
                    released[at] = _joined(released[at], clocks[atomic])  # exchanges go on with what others released
                clocks[atomic] = _ticked(clocks[atomic], atomic)
            clocks[plain] = _joined(clocks[plain], clocks[atomic])
    one, two = [place + (which == number and not goes_on) for which, place in enumerate(state.at)]
    return State((one, two), tuple(memory), tuple(released), tuple(clocks), events)


def _exchanged(step: Take | Give, old: int, is_first: bool) -> tuple[int | None, bool]:
    """Returns what an atomic access writes, if anything, and whether its loop goes on."""
    if isinstance(step, Take):
        goes_on = {"ne": old != step.number, "eq": old == step.number, "sgt": old > step.number}[step.relation]
        return (step.taken if old == step.expected else None), goes_on
    if step.is_masked and not is_first:
        return None, False
    return (step.number if step.kind == "exch" else old + step.number), False


def _meet(
    events: frozenset[Event], array: str, thread: int, clock: Clock, kinds: tuple[str, ...], found: set[str]
) -> None:
    """Notes an array that another program touched in one of these ways, of which the thread knows nothing."""
    for name, other, time, kind in events:
        if name == array and kind in kinds and other // 2 != thread // 2 and clock[other] < time:
            found.add(array)


__all__ = ["racing"]
