"""Counts, at level 3, how accesses use the banks of shared memory and the sectors of global memory, per PTX line.

Source: CUDA C++ Best Practices Guide, "Shared Memory and Memory Banks", "Coalesced Access to Global Memory".
"""

from __future__ import annotations

import numpy as np

from ....promotion.arrays import Array

Statistics = dict[int, tuple[int, int, int]]
"""PTX line → (executions by warps, least number of passes, passes needed)."""


class Traffic:
    """The statistics of a launch. `conflicts`: of shared memory; `sectors`: of global memory."""

    def __init__(self) -> None:
        self.conflicts: Statistics = {}
        self.sectors: Statistics = {}

    def count_banks(self, line: int, offset: Array, size: int, warps: Array) -> None:
        together = 32 if size <= 4 else 32 * 4 // size
        executions = least = needed = 0
        for warp in np.unique(warps).tolist():
            own = offset[warps == warp].astype(np.int64)
            executions += 1
            for start in range(0, own.size, together):
                bank_words = own[start : start + together, None] // 4 + np.arange(-(-size // 4))
                least += 1
                needed += _passes(bank_words.reshape(-1))
        _add(self.conflicts, line, (executions, least, needed))

    def count_sectors(self, line: int, offset: Array, size: int, warps: Array) -> None:
        executions = least = touched = 0
        for warp in np.unique(warps).tolist():
            own = offset[warps == warp].astype(np.int64)
            sectors = np.unique(own[:, None] // 32 + np.arange(-(-size // 32)))
            octets = np.unique(own).size * size
            executions += 1
            least += -(-octets // 32)
            touched += sectors.size
        _add(self.sectors, line, (executions, least, touched))


def _add(table: Statistics, line: int, passes: tuple[int, int, int]) -> None:
    old = table.get(line, (0, 0, 0))
    table[line] = (old[0] + passes[0], old[1] + passes[1], old[2] + passes[2])


def _passes(bank_words: Array) -> int:
    """Returns how often the banks must be read: the largest number of different words in one bank."""
    return int(np.bincount(np.unique(bank_words) % 32, minlength=32).max())
