"""Numbers that may be addresses: in memory, and of memory of this process."""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import sys
from collections.abc import Callable, Sequence

import numpy as np

from ...promotion.arrays import Array

MAX_TABLE = 1 << 16
"""64-bit integers up to which memory is looked through for addresses."""
_MAX_BYTES = 1 << 14
"""Bytes up to which addresses may begin at any byte."""
_FEW_PAGES, _FEW_NUMBERS = 1 << 9, 1 << 8


def integers_in(octets: Array, step: int = 8) -> Array | None:
    """The 64-bit integers in memory; None if there are more than are looked through.

    octets: the memory, as bytes.  step: bytes that the elements have of which addresses may be put together; they begin at
        multiples of it, of single bytes in large memory at multiples of four.
    """
    if len(octets) > 8 * MAX_TABLE + 8:
        return None
    if step >= 8 and not octets.ctypes.data % 8:
        return octets[: len(octets) & -8].view(np.int64)
    step = min(step, 8) if step >= 4 or len(octets) <= _MAX_BYTES else 4
    start = -int(octets.ctypes.data) % min(step, 8) if len(octets) else 0
    found: list[Array] = []
    for first in range(start, 8 + start if step < 8 else start + 1, step):
        count = max(0, (len(octets) - first) // 8)
        found.append(octets[first : first + 8 * count].view(np.int64) if count else np.empty(0, np.int64))
    return found[0] if len(found) == 1 else np.concatenate(found)


def mapped(addresses: Sequence[int]) -> list[int]:
    """Those of the numbers that are addresses of memory of this process; all of them where no system tells.

    Asking for a page takes a microsecond, reading the process's map of memory a millisecond.
    """
    pages = {address & -mmap.PAGESIZE for address in addresses}
    is_mapped = _page_test() if len(pages) <= _FEW_PAGES else None
    if is_mapped is not None:
        there = {page for page in pages if is_mapped(page)}
        return [address for address in addresses if address & -mmap.PAGESIZE in there]
    try:
        with open("/proc/self/maps", "rb") as maps:
            spans = [line.split(b" ", 1)[0].split(b"-") for line in maps]
    except OSError:
        return list(addresses)
    starts, ends = (np.array([int(span[each], 16) & (1 << 63) - 1 for span in spans], np.int64) for each in (0, 1))
    asked = np.array(addresses, np.int64)
    numbers = np.searchsorted(starts, asked, side="right") - 1
    kept: list[int] = asked[(numbers >= 0) & (asked < ends[numbers])].tolist()
    return kept


@functools.cache
def _page_test() -> Callable[[int], bool] | None:
    """What tells whether a page is mapped; None where nothing does. Linux answers so for every page, others for some."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        mincore = ctypes.CDLL(None, use_errno=True).mincore
    except (AttributeError, OSError):
        return None
    mincore.argtypes, mincore.restype = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p), ctypes.c_int
    answer = ctypes.create_string_buffer(1)
    first = ctypes.addressof(answer)

    def is_mapped(page: int) -> bool:
        assert len(answer) == 1
        return not mincore(page, 1, first) or ctypes.get_errno() != errno.ENOMEM

    return None if is_mapped(0) or not is_mapped(first & -mmap.PAGESIZE) else is_mapped


def distinct(numbers: Sequence[Array]) -> list[int]:
    """Those of the numbers that are no smaller or larger than addresses are, once each, in order."""
    if sum(map(len, numbers)) <= _FEW_NUMBERS:
        few = {number for each in numbers for number in each.tolist()}
        return sorted([number for number in few if SMALLEST_ADDRESS <= number < LARGEST_ADDRESS])
    joined = np.concatenate(numbers)
    found: list[int] = np.unique(joined[(joined >= SMALLEST_ADDRESS) & (joined < LARGEST_ADDRESS)]).tolist()
    return found


SMALLEST_ADDRESS, LARGEST_ADDRESS = 1 << 16, 1 << 48
"""No memory lies below the one or above the other: other integers are no addresses."""
