"""Manages memory that the runtime owns: aligned to 64 bytes and recycled.

Every buffer that generated code writes is aligned to 64 bytes, which NumPy does not promise for its arrays. Where
the native library runs, arrays made here own blocks of its allocator (`native/memory.ll`) and give them back
when they die; elsewhere they are aligned views into larger NumPy arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ...promotion.arrays import Array, NumpyDType
from ..native.library import native_library

ALIGNMENT = 64


def address(array: Array) -> int:
    """Returns the address of the first element."""
    return int(array.__array_interface__["data"][0])


def is_aligned(array: Array) -> bool:
    """Returns whether generated code may treat the array as one of its own buffers: C-contiguous on a 64-byte
    boundary."""
    return array.flags.c_contiguous and address(array) % ALIGNMENT == 0


def empty(shape: tuple[int, ...], dtype: NumpyDType) -> Array:
    """Returns an uninitialised C-contiguous array on a 64-byte boundary. Raises `MemoryError` naming the size."""
    entry = native_library().entry
    array = entry.new_array(shape, dtype) if entry is not None else _empty_numpy(shape, dtype)
    if array is None:
        raise MemoryError(
            f"no memory for an array of {dtype} with shape {shape} ({_size_text(shape, dtype)})"
        )
    return array


def _empty_numpy(shape: tuple[int, ...], dtype: NumpyDType) -> Array | None:
    count = math.prod(shape)
    nbytes = count * dtype.itemsize
    try:
        raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    except (MemoryError, ValueError):
        return None
    start = -address(raw) % ALIGNMENT
    return raw[start : start + nbytes].view(dtype).reshape(shape)


def _size_text(shape: tuple[int, ...], dtype: NumpyDType) -> str:
    nbytes = math.prod(shape) * dtype.itemsize
    return f"{nbytes} bytes" if nbytes < 1 << 20 else f"{nbytes / 2**20:.4g} MiB"


def aligned_copy(array: Array) -> Array:
    """Returns the array itself when it is aligned and C-contiguous, else a copy that is."""
    if is_aligned(array):
        return array
    copy = empty(array.shape, array.dtype)
    np.copyto(copy, array)
    return copy


@contextmanager
def scratch(nbytes: int) -> Iterator[int]:
    """Yields the address of an aligned block of bytes, for the duration of a `with` statement; 0 for no bytes."""
    if nbytes == 0:
        yield 0
        return
    block = empty((nbytes,), np.dtype(np.uint8))
    yield address(block)


def cached_bytes() -> int:
    """Returns how many bytes of free blocks are kept for reuse."""
    entry = native_library().entry
    return int(entry.cached_bytes.value) if entry is not None else 0


def trim() -> None:
    """Gives every free block back to the system."""
    entry = native_library().entry
    if entry is not None:
        entry.trim()
