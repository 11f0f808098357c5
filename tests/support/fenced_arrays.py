"""Arrays that end where memory does, for tests of code that must not read beyond them."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np


class Fenced:
    """An array that ends at a page which nobody may touch."""

    def __init__(self, array: np.ndarray) -> None:
        pages = -(-max(array.nbytes, 1) // mmap.PAGESIZE)
        self._map = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        libc = ctypes.CDLL(None, use_errno=True)
        fence = ctypes.c_void_p(start + pages * mmap.PAGESIZE)
        assert libc.mprotect(fence, ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
        self.address = start + pages * mmap.PAGESIZE - array.nbytes
        ctypes.memmove(self.address, array.ctypes.data, array.nbytes)


def fenced(array: np.ndarray) -> tuple[np.ndarray, Fenced]:
    """Returns a copy of an array that ends where memory does, and what keeps its memory."""
    fence = Fenced(np.ascontiguousarray(array))
    pointer = ctypes.cast(fence.address, ctypes.POINTER(ctypes.c_byte))
    return np.ctypeslib.as_array(pointer, (array.nbytes,)).view(array.dtype).reshape(array.shape), fence
