"""Numbers that may be addresses: in memory, and of memory of this process."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...promotion.arrays import Array

MAX_TABLE = 1 << 16
"""64-bit integers up to which memory is looked through for addresses."""
_MAX_BYTES = 1 << 14
"""Bytes up to which addresses may begin at any byte."""


def integers_in(octets: Array, step: int = 8) -> Array | None:
    """The 64-bit integers in memory; None if there are more than are looked through.

    octets: the memory, as bytes.  step: bytes that the elements have of which addresses may be put together; they begin at
        multiples of it, of single bytes in large memory at multiples of four.
    """
    if len(octets) > 8 * MAX_TABLE + 8:
        return None
    step = min(step, 8) if step >= 4 or len(octets) <= _MAX_BYTES else 4
    start = -int(octets.ctypes.data) % min(step, 8) if len(octets) else 0
    found: list[Array] = []
    for first in range(start, 8 + start if step < 8 else start + 1, step):
        count = max(0, (len(octets) - first) // 8)
        found.append(octets[first : first + 8 * count].view(np.int64) if count else np.empty(0, np.int64))
    return found[0] if len(found) == 1 else np.concatenate(found)


def mapped(addresses: Array) -> Array:
    """Those of the numbers that are addresses of memory of this process; all of them where no system tells."""
    try:
        with open("/proc/self/maps", "rb") as maps:
            spans = [line.split(b" ", 1)[0].split(b"-") for line in maps]
    except OSError:
        return addresses
    starts, ends = (np.array([int(span[each], 16) & (1 << 63) - 1 for span in spans], np.int64) for each in (0, 1))
    numbers = np.searchsorted(starts, addresses, side="right") - 1
    kept: Array = addresses[(numbers >= 0) & (addresses < ends[numbers])]
    return kept


def distinct(numbers: Sequence[Array]) -> Array:
    """Those of the numbers that are no smaller or larger than addresses are, once each."""
    joined = np.concatenate(numbers) if numbers else np.empty(0, np.int64)
    return np.unique(joined[(joined >= SMALLEST_ADDRESS) & (joined < LARGEST_ADDRESS)])


SMALLEST_ADDRESS, LARGEST_ADDRESS = 1 << 16, 1 << 48
"""No memory lies below the one or above the other: other integers are no addresses."""
