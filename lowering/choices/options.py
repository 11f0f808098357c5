"""Defines the options of a compilation; loads nothing of the lowering."""

from __future__ import annotations

from ...promotion.dataclass import dataclass
from .model_schedule import EMPTY, ModelSchedule


@dataclass(frozen=True, slots=True)
class Options:
    """The user's options. numerics: one of `NUMERICS`. debug: whether code has line tables. schedule: what the user chose of
    the schedules of kernels."""

    numerics: str = "strict"
    debug: bool = False
    schedule: ModelSchedule = EMPTY
