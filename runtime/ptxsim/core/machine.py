"""Defines the machine of a launch: the instructions' interface, and the agents that complete what they have
started."""

from __future__ import annotations

from ....promotion.arrays import Array
from ..async_copies import bulk, clusters, warpgroups
from ..checks.races import Races
from ..checks.watch import Watch
from .blocks import Cta
from .context import MachineContext
from .types import Mask


class Machine(MachineContext):
    """A machine with its agents. `watch`: at level 2 and above; the binder passes it to the instructions."""

    watch: Watch | None = None

    def start_checks(self) -> None:
        """Creates the checks that the level asks for."""
        if self.level > 2:
            self.races = Races(self)
        if self.level > 1:
            self.watch = Watch(self)

    def arrays_of_block(self) -> list[Array]:
        return super().arrays_of_block() + ([] if self.watch is None else self.watch.arrays)

    def clear_block(self) -> None:
        super().clear_block()
        if self.watch is not None:
            self.watch.clear()

    def ending(self, cta: Cta, mask: Mask) -> None:
        """Checks lanes that are about to exit."""
        if self.watch is not None:
            self.watch.ending(cta, mask)

    def lanes_ended(self, cta: Cta) -> None:
        """Ends the cluster barrier's phase if the lanes that have exited were the last ones missing."""
        if "cluster" in cta.others[0].agents:
            clusters.cluster_barrier(self, cta).check(self, cta)

    def block_ended(self, cta: Cta) -> None:
        """Completes and checks asynchronous operations when all lanes of a block have exited."""
        bulk.finish(self, cta)
        if warpgroups.pending(cta):
            text = "the block ends with products of warpgroups that were never waited for"
            self.violation("in flight", text)

    def wake(self, cta: Cta) -> bool:
        """Completes one pending asynchronous operation; returns whether there was one."""
        return bulk.wake(self, cta)
