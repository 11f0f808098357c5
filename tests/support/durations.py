"""Measures test durations in seconds of a machine on which `unit_of_work` takes `UNIT`: no test fails because
a machine is slow or busy.

Only processor time counts, including that of the test's children: other processes do not matter.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

UNIT = 0.035
NAMED, TOO_LONG = 5.0, 10.0
"""The seconds above which a fast test is named, and above which the run fails."""


def unit_of_work() -> float:
    """Returns the seconds that a fixed piece of work takes here: the least of a few runs."""

    def once() -> float:
        start = time.process_time()
        text, table = "", {}
        for i in range(300_000):
            table[i % 997] = text
            text = str(i ^ 0x5555)
        return time.process_time() - start

    return min(once() for _ in range(5))


def scale(unit: float) -> float:
    """Returns how many seconds here make one; at least one, so that a fast machine makes no limit stricter."""
    return max(1.0, unit / UNIT)


def processor_seconds() -> float:
    """Returns the processor time of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def report(seconds: Mapping[str, float]) -> tuple[list[str], bool]:
    """Returns lines about the tests that take long, the longest first, and whether one takes too long.
    seconds: by the test's name."""
    found = sorted(((taken, name) for name, taken in seconds.items() if taken > NAMED), reverse=True)
    lines = [f"{taken:.1f} s{' (too long)' if taken > TOO_LONG else ''}: {name}" for taken, name in found]
    return lines, any(taken > TOO_LONG for taken, _ in found)
