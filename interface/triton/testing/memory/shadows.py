"""Which bytes of torch's memory nothing has written, storage by storage.

A shadow begins with all bytes of a new storage. Bytes leave it when they are seen being written: by operators of torch
(`writes`) and by sanitized launches. Who is not asked (NumPy through an array, code that was given an address) is found by what
memory holds: new memory is filled with random words, and bytes that hold others were written.

A word is a signalling NaN of float32, and its halves are of bfloat16 and float16: no arithmetic returns one.
"""

from __future__ import annotations

import bisect
import ctypes
import secrets
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from .....promotion.arrays import Array
from ...known.holders import Span

_MAX_SHADOWS = 1 << 14
_RANDOM = 1 << 12
"""Numbers after which the fill begins anew."""
DOUBT = 16
"""Bytes around one that somebody wrote unseen which count as written too: they may have been given what they held. That all of
as many bytes were, by chance, is as likely as one in 2^55."""


def _random_bits() -> Array:
    halves = np.frombuffer(secrets.token_bytes(4 * _RANDOM), np.uint16)
    payload = np.maximum(halves & np.uint16(0x3F), np.uint16(1))
    return np.asarray(((halves & np.uint16(0x8000)) | np.uint16(0x7F80) | payload).view(np.uint8))


_FILL = _random_bits()
_NOTHING = np.empty(0, np.bool_)


class Shadow:
    """The bytes of one storage that nothing has written.

    storage: a weak reference of torch's.
    before: which of its first bytes nothing has written, where they are older than the rest: they stay as they are.
    """

    def __init__(self, storage: Any, first: int, size: int, before: Array) -> None:
        self.storage, self.first, self.end = storage, first, first + size
        self._blank: Array | None = None
        for start in range(0, size, len(_FILL)):
            piece, kept = memory(first + start, min(len(_FILL), size - start)), max(len(before) - start, 0)
            piece[kept:] = _FILL[kept : len(piece)]
        if len(before):
            self._blank = np.ones(size, np.bool_)
            self._blank[: len(before)] = before

    def holds(self) -> bool:
        """Whether the storage is alive and where it was."""
        import torch

        if self.storage.expired():
            return False
        storage = torch.UntypedStorage._new_with_weak_ptr(self.storage.cdata)
        return storage is not None and (storage.data_ptr(), storage.nbytes()) == (self.first, self.end - self.first)

    def write(self, address: int, shape: Sequence[int], strides: Sequence[int], size: int) -> bool:
        """Take elements of this many bytes out. Returns whether any byte is left."""
        if self._blank is None:
            if address == self.first and _is_dense(shape, strides) and size * _count(shape) == self.end - self.first:
                return False
            self._blank = np.ones(self.end - self.first, np.bool_)
        _elements(self._blank[address - self.first :], shape, strides, size)[...] = False
        return bool(self._blank.any())

    def view(self, address: int, shape: Sequence[int], strides: Sequence[int], size: int) -> Array:
        """What of elements nothing has written, as (*shape, bytes): taking it out of the array takes it out of the shadow."""
        if self._blank is None:
            self._blank = np.ones(self.end - self.first, np.bool_)
        return _elements(self._blank[address - self.first :], shape, strides, size)

    def blank(self) -> Array | None:
        """The bytes that nothing has written; None if there are none. Who writes takes them out of this array."""
        if self._blank is None:
            self._blank = np.ones(self.end - self.first, np.bool_)
        blank = self._blank
        for start in range(0, len(blank), len(_FILL)):
            piece = memory(self.first + start, min(len(_FILL), len(blank) - start))
            changed = blank[start : start + len(piece)] & (piece != _FILL[: len(piece)])
            if changed.any():
                _forget_around(blank, start, changed)
        return blank if blank.any() else None


def _forget_around(blank: Array, start: int, changed: Array) -> None:
    """Take bytes and those beside them out. changed: which ones, from a start on."""
    before, after = min(DOUBT, start), min(DOUBT, len(blank) - start - len(changed))
    doubtful = np.concatenate([np.zeros(before, np.bool_), changed, np.zeros(after, np.bool_)])
    width = 0
    while width < DOUBT:
        step = min(max(width, 1), DOUBT - width)
        wider = doubtful.copy()
        wider[step:] |= doubtful[:-step]
        wider[:-step] |= doubtful[step:]
        doubtful, width = wider, width + step
    blank[start - before : start + len(changed) + after] &= ~doubtful


def _count(shape: Sequence[int]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


def _is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements lie one behind the other, in the order of some of their axes."""
    expected = 1
    for stride, extent in sorted(zip(strides, shape, strict=True)):
        if extent != 1:
            if stride != expected:
                return False
            expected *= extent
    return True


def _elements(start: Array, shape: Sequence[int], strides: Sequence[int], size: int) -> Array:
    """The bytes of elements that lie behind the first byte of an array: (*shape, size)."""
    steps = tuple([stride * size for stride in strides])
    return np.lib.stride_tricks.as_strided(start, (*shape, size), (*steps, 1))


def memory(address: int, size: int) -> Array:
    """The bytes at an address."""
    return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), np.uint8)


def elements(address: int, shape: Sequence[int], strides: Sequence[int], size: int) -> Array:
    """The bytes of a tensor's elements in memory: (*shape, size)."""
    return _elements(memory(address, reach(shape, strides, size)), shape, strides, size)


_shadows: dict[int, Shadow] = {}
"""By the address of their memory."""
_starts: list[int] = []
"""Those addresses in order."""
_lock = threading.RLock()


def is_empty() -> bool:
    """Whether all memory that is known was written."""
    return not _shadows


def add(storage: Any, first: int, size: int, before: Array = _NOTHING) -> None:
    """Fill the memory of a new storage, and note it: all others that lay there are gone.

    before: which of its first bytes nothing has written, where they are older than the rest.
    """
    with _lock:
        at = bisect.bisect_left(_starts, first)
        if at and _shadows[_starts[at - 1]].end > first:
            _remove(_starts[at - 1])
            at -= 1
        while at < len(_starts) and _starts[at] < first + size:
            _remove(_starts[at])
        if len(_starts) >= _MAX_SHADOWS:
            for each in [each for each, shadow in _shadows.items() if shadow.storage.expired()]:
                _remove(each)
            at = bisect.bisect_left(_starts, first)
        _starts.insert(at, first)
        _shadows[first] = Shadow(storage, first, size, before)


def may_hold(address: int) -> bool:
    """Whether memory that nothing has written begins at an address or before it and ends behind it, as far as is known."""
    with _lock:
        at = bisect.bisect_right(_starts, address) - 1
        return at >= 0 and address < _shadows[_starts[at]].end


def around(address: int, size: int = 1) -> Shadow | None:
    """The shadow of the memory that holds so many bytes; one that ends between them is of memory that is gone."""
    with _lock:
        at = bisect.bisect_right(_starts, address) - 1
        found = _shadows[_starts[at]] if at >= 0 else None
        if found is None or address >= found.end:
            return None
        if address + size > found.end:
            _remove(found.first)
            return None
    return found


def reach(shape: Sequence[int], strides: Sequence[int], size: int) -> int:
    """Bytes from the first element of a tensor to the end of its last one; 0 if it has none."""
    if 0 in shape:
        return 0
    return (sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)) + 1) * size


def write(address: int, shape: Sequence[int], strides: Sequence[int], size: int) -> None:
    """Elements at this address are written."""
    reached = reach(shape, strides, size)
    found = around(address, reached) if reached else None
    if found is not None and not found.write(address, shape, strides, size):
        remove(found)


def remove(shadow: Shadow) -> None:
    """All of this memory is written."""
    with _lock:
        if _shadows.get(shadow.first) is shadow:
            _remove(shadow.first)


def clear() -> None:
    """Forget all shadows."""
    with _lock:
        _shadows.clear()
        _starts.clear()


def _remove(first: int) -> None:
    del _shadows[first]
    del _starts[bisect.bisect_left(_starts, first)]


def unwritten_bytes(span: Span) -> Array | None:
    """Which bytes of a storage's memory nothing has written (bool); None if that is not known, or none of them.

    Who writes takes them out of this array.
    """
    found = _shadows.get(span[0])
    if found is None:
        return None
    blank = found.blank() if found.end == span[1] and found.holds() else None
    if blank is None:
        remove(found)
    return blank
