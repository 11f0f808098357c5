"""Measures the sizes of a CPU's caches by the time that an access takes that waits for the one before it.

What an operating system reports is believed otherwise, and virtual machines report what their host chooses. The method is
that of lmbench (McVoy and Staelin, 1996): a chain visits all cache lines of an array in random order, and the time for each
is that of the smallest cache that holds the array.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

LINE = 64
"""Bytes from one element of a chain to another: a cache line each."""
SMALLEST, LARGEST = 8 << 10, 64 << 20
STEPS, ROUNDS = 40_000, 5
RISES = (1.6, 2.0, 4.0)
"""How many times as long as in a cache, level by level, an access takes beyond it, at least. It takes up to twice as long in
the last level, too, when pages are more than the processor keeps addresses of."""
ROOM = 4
"""Arrays of so many times the size of a level are in the next one."""
AGREES = 0.6, 1.5
"""Shares of the reported size between which a measured one confirms it: sets of a cache fill up before all of it does."""

_CHASE = """
module {
  tt.func public @chase(%next: !tt.ptr<i64>, %steps: i64, %out: !tt.ptr<i64>) {
    %zero = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %last = scf.for %step = %zero to %steps step %one iter_args(%at = %zero) -> (i64) : i64 {
      %pointer = tt.addptr %next, %at : !tt.ptr<i64>, i64
      %following = tt.load %pointer : !tt.ptr<i64>
      scf.yield %following : i64
    }
    tt.store %out, %last : !tt.ptr<i64>
    tt.return
  }
}
"""


class Latency(NamedTuple):
    """Seconds that one access to an array of so many bytes takes."""

    nbytes: int
    seconds: float


def latencies() -> list[Latency]:
    """Return the latency of arrays of `SMALLEST` to `LARGEST` bytes, in steps of about a fifth, the least of two passes.

    All are the beginning of one array, so that their pages are of one size. It takes about two seconds.
    """
    from ..kernel import from_ttir

    kernel, out = from_ttir(_CHASE), np.zeros(1, np.int64)
    random, memory = np.random.default_rng(0), np.zeros(LARGEST // 8, np.int64)
    least: dict[int, float] = {}
    for nbytes in 2 * _sizes():
        memory[: nbytes // 8] = _chain(nbytes // LINE, random)
        for number in range(ROUNDS + 1):
            start = time.perf_counter()
            kernel.launch((1,), memory, STEPS, out)
            seconds = (time.perf_counter() - start) / STEPS
            if number:  # the first one fills the caches
                least[nbytes] = min(seconds, least.get(nbytes, seconds))
    return [Latency(nbytes, seconds) for nbytes, seconds in least.items()]


def _sizes() -> list[int]:
    steps = round(4 * math.log2(LARGEST / SMALLEST))
    return sorted({round(SMALLEST * 2 ** (step / 4) / 4096) * 4096 for step in range(steps + 1)})


def _chain(lines: int, random: Any) -> Any:
    """Return an array of whose elements, a line apart, each holds the position of the next one of a random cycle."""
    order = random.permutation(lines) * (LINE // 8)
    chain = np.zeros(lines * (LINE // 8), np.int64)
    chain[order] = np.roll(order, -1)
    return chain


def cache_sizes(found: Sequence[Latency], reported: Sequence[int]) -> tuple[int, ...]:
    """Return the bytes of each level by the latencies: as reported, where these agree with it.

    A level ends where accesses to two arrays in a row take `RISES` times as long as at its beginning. One of which no end is
    seen is as reported.
    """
    sizes = []
    begins = found[0].nbytes
    for rise, believed in zip(RISES, reported, strict=True):
        inside = [each for each in found if each.nbytes >= begins]
        if len(inside) < 3:
            sizes.append(believed)
            continue
        base = statistics.median([each.seconds for each in inside[:3]])
        beyond = [each.seconds > rise * base for each in inside]
        end = next((number for number in range(1, len(inside) - 1) if beyond[number] and beyond[number + 1]), None)
        measured = None if end is None else inside[end - 1].nbytes
        low, high = AGREES
        if measured is None or low * believed <= measured <= high * believed:
            sizes.append(believed)
        else:
            sizes.append(measured)
        begins = ROOM * sizes[-1]
    return tuple(sizes)


def confirmed(one: Sequence[int], other: Sequence[int], reported: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes that two measurements agree about, within a quarter, and the reported ones elsewhere: other work on the
    machine ends levels too soon."""
    pairs = zip(one, other, reported, strict=True)
    return tuple([min(a, b) if max(a, b) <= 1.25 * min(a, b) else believed for a, b, believed in pairs])
