"""How long tests take, in seconds of a machine on which `unit_of_work` takes `UNIT`: a slow or busy machine blames nobody.

What counts is the time of processors, the test's children included: what other processes take does not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

UNIT = 0.035
NAMED, TOO_LONG = 5.0, 10.0
"""Seconds from which a test that is not slow is named, and from which the run fails."""


def unit_of_work() -> float:
    """Seconds that a fixed piece of work takes here; the least of a few."""

    def once() -> float:
        start = time.process_time()
        text, table = "", {}
        for i in range(300_000):
            table[i % 997] = text
            text = str(i ^ 0x5555)
        return time.process_time() - start

    return min(once() for _ in range(5))


def scale(unit: float) -> float:
    """How many seconds here are one; at least one, so that no machine is too fast for a test."""
    return max(1.0, unit / UNIT)


def processor_seconds() -> float:
    """Seconds that processors have spent on this process and on its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def report(seconds: Mapping[str, float]) -> tuple[list[str], bool]:
    """Lines about the tests that take long, the longest first, and whether one takes too long. seconds: by a test's name."""
    found = sorted(((taken, name) for name, taken in seconds.items() if taken > NAMED), reverse=True)
    lines = [f"{taken:.1f} s{' (too long)' if taken > TOO_LONG else ''}: {name}" for taken, name in found]
    return lines, any(taken > TOO_LONG for taken, _ in found)
