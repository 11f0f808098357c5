"""Memory for the stamps of instrumented launches (`lowering/tt/instrument/plan.py`), which is used again without being cleared.

The numbers of programs grow from launch to launch, so that stamps of earlier ones are known by being less.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ...lowering.tt.instrument.plan import FIRST_NUMBER, MAX_NUMBER, NUMBER_SHIFT
from ...promotion.arrays import Array

MAX_KEPT = 1 << 28
"""Bytes of stamps that are kept between launches."""


class LaunchStamps:
    """The stamps of one launch. floor: at most any of its stamps, and more than all of earlier launches."""

    def __init__(self, pool: _Pool, floor: int) -> None:
        self._pool = pool
        self.floor = floor
        self.taken: list[Array] = []

    def take(self, count: int) -> Array:
        """Return memory for at least `count` stamps: int64, all of them less than `floor`."""
        found = self._pool.take(count)
        self.taken.append(found)
        return found


class _Pool:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = FIRST_NUMBER
        self._free: list[Array] = []
        self._generation = 0

    @contextmanager
    def launch(self, programs: int) -> Iterator[LaunchStamps]:
        """Number the programs of a launch, and take its stamps back when it has ended."""
        with self._lock:
            if self._next + programs + 1 >= MAX_NUMBER:  # after 2**36 programs
                self._next = FIRST_NUMBER
                self._free.clear()
                self._generation += 1
            generation = self._generation
            stamps = LaunchStamps(self, self._next << NUMBER_SHIFT)
            self._next += programs + 1
        try:
            yield stamps
        finally:
            with self._lock:
                if generation == self._generation:
                    self._free += stamps.taken
                    self._free.sort(key=len)
                    while self._free and sum(array.nbytes for array in self._free) > MAX_KEPT:
                        self._free.pop()

    def take(self, count: int) -> Array:
        """Return an array of at least `count` stamps."""
        with self._lock:
            for position, array in enumerate(self._free):
                if count <= len(array) <= 4 * count:
                    return self._free.pop(position)
        return np.zeros(count, np.int64)


STAMPS = _Pool()
"""Stamps of all launches of the process."""

__all__ = ["STAMPS", "LaunchStamps"]
