"""Defines the machine as instructions see it: its state, and at level 3 its race checks."""

from __future__ import annotations

import numpy as np

from ....promotion.arrays import Array
from ..checks.races import Races
from ..checks.traffic import Statistics
from .blocks import Cta
from .state import MachineState
from .types import Mask


class MachineContext(MachineState):
    """The interface of the machine to instructions that are bound and run. `races`: at level 3."""

    races: Races | None = None

    def synchronised(self, cta: Cta, lanes: Array | None, waiting: Array | None) -> None:
        """Records that a barrier phase of these lanes ended, of which some waited; None for all lanes."""
        if self.races is not None:
            self.races.barrier(cta, lanes, waiting)

    def warp_synchronised(self, mask: Mask, members: Array) -> None:
        """Records that lanes of warps synchronised at bar.warp.sync; `members`: the member mask of every lane."""
        if self.races is not None:
            lanes = np.arange(self.lanes) if mask is None else np.flatnonzero(mask)
            self.races.warp_barrier(self.cta, lanes, members[lanes])

    def statistics(self) -> tuple[Statistics, Statistics]:
        if self.races is None:
            return {}, {}
        return self.races.traffic.conflicts, self.races.traffic.sectors
