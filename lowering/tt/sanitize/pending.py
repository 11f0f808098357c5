"""Follows what lanes of one program store, until a barrier: another lane that loads it before may come too early.

A program's operations happen one after the other, but each of its threads does its part on its own, and nothing at this level
says which thread a lane belongs to. Only a lane that loads what it stored itself needs no barrier. joinery's code for GPUs has
barriers where they are needed; that of Triton's own back ends leaves them to the program.
"""

from __future__ import annotations

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dataclass import dataclass

SYNCHRONISING = frozenset(
    {
        "ttg.barrier", "tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_load", "tt.atomic_store", "tt.atomic_poll", "tt.reduce",
        "tt.scan", "tt.dot", "tt.dot_scaled", "tt.gather", "tt.histogram", "tt.sort", "tt.fft", "tt.assert", "tt.print",
        "tt.descriptor_load", "tt.descriptor_store", "tt.descriptor_gather", "tt.descriptor_scatter", "tt.descriptor_reduce",
    }
)  # fmt: skip
"""Operations behind which threads have waited for each other: barriers, and those that exchange values between threads.

The latter wait as they are made today and not by definition; programs rely on it, and are not blamed.
"""
_MAX_STORES = 64
"""Stores that are remembered; older ones are forgotten."""
_LANE_BITS = 22


@dataclass(frozen=True, slots=True)
class _Stored:
    """The lanes of one store: their places in an array and numbers, sorted, each pair in one integer."""

    op: int
    array: int
    size: int
    shape: tuple[int, ...]
    keys: Array


@dataclass(frozen=True, slots=True)
class EarlyRead:
    """Lanes (positions in the load) that read what other lanes of a store wrote, with no barrier between.

    lane: the flat number of the lane that the first of them reads from; shape: of its block, without axes of extent 1.
    """

    positions: Array
    op: int
    lane: int
    shape: tuple[int, ...]


class PendingStores:
    """The stores of the running program since its last barrier."""

    def __init__(self) -> None:
        self._stores: list[_Stored] = []

    def clear(self) -> None:
        """Forget all stores: a barrier, or the next program."""
        self._stores.clear()

    def store(self, op: int, array: int, offsets: Array, lanes: Array, shape: tuple[int, ...], size: int) -> None:
        """Remember a store of elements of `size` bytes at byte `offsets` of an array, by these lanes of a block."""
        if int(lanes[-1]) >> _LANE_BITS:
            return
        if len(self._stores) == _MAX_STORES:
            del self._stores[0]
        keys = np.sort(offsets.astype(np.int64) << _LANE_BITS | lanes)
        self._stores.append(_Stored(op, array, size, _extents(shape), keys))

    def load(self, array: int, offsets: Array, lanes: Array, shape: tuple[int, ...], size: int) -> list[EarlyRead]:
        """Return which lanes of a load come too early. What a lane reads is what the latest store left there."""
        found: list[EarlyRead] = []
        if not self._stores:
            return found
        extents, left = _extents(shape), np.arange(len(offsets))
        for stored in reversed(self._stores):
            if stored.array != array or stored.size != size or not len(left):
                continue
            keys = stored.keys
            first = offsets[left].astype(np.int64) << _LANE_BITS
            at = np.searchsorted(keys, first)
            is_stored = (at < len(keys)) & (keys[np.minimum(at, len(keys) - 1)] >> _LANE_BITS == offsets[left])
            if not is_stored.any():
                continue
            is_other = is_stored
            if stored.shape == extents:
                own = first | lanes[left]
                mine = np.searchsorted(keys, own)
                is_other = is_stored & (keys[np.minimum(mine, len(keys) - 1)] != own)
            positions = left[is_other]
            if len(positions):
                lane = int(keys[at[is_other][0]]) & ((1 << _LANE_BITS) - 1)
                found.append(EarlyRead(positions, stored.op, lane, stored.shape))
            left = left[~is_stored]
        return found


def _extents(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape without axes of extent 1, which change no lane's number."""
    return tuple(extent for extent in shape if extent != 1)


__all__ = ["SYNCHRONISING", "EarlyRead", "PendingStores"]
