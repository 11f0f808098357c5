"""Allocates arrays between guard pages: a read or write of one byte too many ends the process.

An array either ends at a guard page or begins at one; where alignment leaves a gap, its bytes hold a pattern, which must
not change.
"""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from joinery.runtime.host import memory

Array = np.ndarray[Any, Any]

PAGE = mmap.PAGESIZE
PATTERN = 0xA5
_NONE = 0
_libc = ctypes.CDLL(None, use_errno=True)


class Fence:
    """Allocates fenced arrays, and records the bytes around them.

    at_end: whether arrays end at a guard page, or begin at one.
    """

    def __init__(self, at_end: bool) -> None:
        self.at_end = at_end
        self._frames: list[tuple[Array, int, int]] = []
        self._kept: list[Any] = []

    def empty(self, shape: Sequence[int], dtype: Any, alignment: int = 1) -> Array:
        """Allocates an array of PATTERN bytes whose first element is at a multiple of `alignment`."""
        dtype = np.dtype(dtype)
        size = math.prod(shape) * dtype.itemsize
        room = max(PAGE, -(-size // PAGE) * PAGE)
        mapped = mmap.mmap(-1, room + 2 * PAGE)
        whole = np.frombuffer(mapped, np.uint8)
        first = memory.address(whole)
        for page in (first, first + PAGE + room):
            if _libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), _NONE):
                raise OSError(ctypes.get_errno(), "mprotect")
        inside = whole[PAGE : PAGE + room]
        inside[...] = PATTERN
        start = (room - size) // alignment * alignment if self.at_end else 0
        self._kept.append(mapped)
        self._frames.append((inside, start, start + size))
        return inside[start : start + size].view(dtype).reshape(shape)

    def copy(self, array: Array, alignment: int = 1) -> Array:
        result = self.empty(array.shape, array.dtype, alignment)
        np.copyto(result, array)
        return result

    def damaged(self) -> bool:
        """Returns whether bytes beside an array were written to."""
        return any(
            (frame[:start] != PATTERN).any() or (frame[end:] != PATTERN).any()
            for frame, start, end in self._frames
        )


@contextmanager
def fenced(at_end: bool) -> Iterator[Fence]:
    """Yields a fence; inside, arrays that the runtime allocates for arenas, outputs and constants are fenced too."""
    fence = Fence(at_end)
    before = memory.empty, memory.aligned_copy

    def empty(shape: tuple[int, ...], dtype: Any) -> Array:
        return fence.empty(shape, dtype, memory.ALIGNMENT)

    def aligned_copy(array: Array) -> Array:
        return fence.copy(array, memory.ALIGNMENT)

    memory.empty, memory.aligned_copy = empty, aligned_copy
    try:
        yield fence
    finally:
        memory.empty, memory.aligned_copy = before
