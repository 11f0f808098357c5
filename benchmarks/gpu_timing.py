"""Times contenders on a GPU fairly: in turn, by events on their own streams, on inputs that have left the L2 cache.

Method. Every contender's result is checked first. Then there are rounds, in which the order of the contenders rotates. In a
round a contender makes a few calls that are not timed and, immediately after them, so that the device never waits for the
host, some that are, each between two events. Calls rotate through sets of inputs that together exceed the L2 cache. The median
of a round's times is its sample; ratios are formed within a round (see harness.py), so that clock changes cancel out.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from harness import LIMIT, Measurement

Run = Callable[[int], object]
Timer = Callable[[Callable[[], object], int], list[float]]


@dataclass(frozen=True, slots=True)
class Effort:
    """The time spent on measuring: samples of about `sample_ms` with `least` to `most` calls, and at least
    `rounds` rounds.

    trying: called with the name of each step before it starts, so that a step that does not end is known.  without: names
    that are left out, since they did not end or lost the device.
    """

    warm_ms: float = 3.0
    sample_ms: float = 15.0
    least: int = 3
    most: int = 50
    rounds: int = 5
    trials: int = 5
    trying: Callable[[str], None] = lambda what: None
    without: frozenset[str] = frozenset()


LEFT_OUT = "it did not end, or took the device along"
QUICK = {"warm_ms": 0.0, "sample_ms": 0.0, "least": 1, "most": 1, "rounds": 2, "trials": 1}
"""The effort for the simulator."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A competitor in a case. run: queues the work on the set of inputs of that number.  time: returns the milliseconds of each
    of so many calls.  result: returns the result of `run(0)`."""

    name: str
    run: Run
    time: Timer
    result: Callable[[], Any]
    ours: bool = False


@dataclass(slots=True)
class GpuCase:
    """A computation to time. check: raises `WrongResult` for a wrong result.  limit: returns the milliseconds that the machine
    needs at least, measured anew in every round, or computed."""

    title: str
    sets: int
    contenders: list[Contender]
    check: Callable[[Any], None]
    limit: Callable[[], float]
    limit_reason: str
    notes: dict[str, str] = field(default_factory=dict)


class WrongResult(Exception):
    """A contender's result does not match the reference."""


def sets_beyond(l2_bytes: int, set_bytes: int) -> int:
    """Returns how many sets of inputs it takes for each to leave the L2 cache before its next use."""
    return max(2, math.ceil(2 * l2_bytes / max(set_bytes, 1)) + 1) if l2_bytes else 2


def turns(sets: int) -> Iterator[int]:
    number = 0
    while True:
        yield number
        number = (number + 1) % sets


def fastest(candidates: list[Contender], sets: int, effort: Effort) -> Contender:
    """Returns the contender with the smallest median of a few calls."""
    times = {}
    for contender in candidates:
        effort.trying(contender.name)
        numbers = turns(sets)
        times[contender.name] = statistics.median(contender.time(lambda c=contender, n=numbers: c.run(next(n)), effort.trials))
    return min(candidates, key=lambda contender: times[contender.name])


def sample(case: GpuCase, seconds: float, effort: Effort) -> Measurement:
    """Checks and times the contenders; returns seconds per call, one sample for each round."""
    calls: dict[str, tuple[Callable[[], object], int, int]] = {}
    for contender in case.contenders:
        effort.trying(contender.name)
        contender.run(0)
        case.check(contender.result())
        numbers = turns(case.sets)

        def call(contender: Contender = contender, numbers: Iterator[int] = numbers) -> None:
            contender.run(next(numbers))

        once = max(statistics.median(contender.time(call, effort.least)), 1e-4)
        warm, timed = math.ceil(effort.warm_ms / once), math.ceil(effort.sample_ms / once)
        calls[contender.name] = call, min(warm, effort.most), min(max(timed, effort.least), effort.most)
    samples: dict[str, list[float]] = {contender.name: [] for contender in case.contenders}
    samples[LIMIT] = []
    end, turn = time.perf_counter() + seconds, 0
    while turn < effort.rounds or time.perf_counter() < end:
        effort.trying(f"round {turn}")
        first = turn % len(case.contenders)
        for contender in [*case.contenders[first:], *case.contenders[:first]]:
            call, warm, timed = calls[contender.name]
            for _ in range(warm):
                call()
            samples[contender.name].append(statistics.median(contender.time(call, timed)) / 1e3)
        samples[LIMIT].append(case.limit() / 1e3)
        turn += 1
    ours = tuple(contender.name for contender in case.contenders if contender.ours)
    return Measurement(case.title, case.limit_reason, samples, ours, case.notes)
