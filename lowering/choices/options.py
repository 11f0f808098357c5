"""Defines the options of a compilation; loads nothing of the lowering."""

from __future__ import annotations

from ...promotion.dataclass import dataclass
from .model_schedule import EMPTY, ModelSchedule

FEW_THREADS = 2


@dataclass(frozen=True, slots=True)
class Options:
    """The user's options. numerics: one of `NUMERICS`. debug: whether code has line tables. schedule: what the user chose of
    the schedules of kernels. threads: how many the cost model plans programs for on a CPU, see `planned_threads`."""

    numerics: str = "strict"
    debug: bool = False
    schedule: ModelSchedule = EMPTY
    threads: int = FEW_THREADS


def planned_threads(threads: int) -> int:
    """Returns how many threads programs are planned for where calls use `threads`: one number for up to 4, else a power of two
    up to 64, so that the cache has few codes for a graph."""
    return FEW_THREADS if threads <= 4 else min(64, 1 << threads.bit_length() - 1)
