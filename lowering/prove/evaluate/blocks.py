"""Keeps what paths ask of the blocks of a region: where branches come from, and which block every way to another one passes."""

from __future__ import annotations

from xdsl.dialects import cf
from xdsl.ir import Block, Region

from ...tt.analysis.dominance import dominated, postorder


class Blocks:
    """The blocks of a function's regions, each region looked at once."""

    def __init__(self) -> None:
        """Starts with nothing looked at."""
        self._is_acyclic: dict[Region, bool] = {}
        self._sources: dict[Block, list[Block]] = {}
        self._dominators: dict[Block, Block] = {}

    def is_acyclic(self, region: Region) -> bool:
        """Returns whether no branch of a region leads back, and all of them are known ones."""
        found = self._is_acyclic.get(region)
        if found is None:
            found = self._is_acyclic[region] = self._look(region)
        return found

    def sources(self, block: Block) -> list[Block]:
        """Returns the blocks, reachable themselves, from which a branch leads to a block of an acyclic region."""
        return self._sources.get(block, [])

    def dominator(self, block: Block) -> Block:
        """Returns the nearest block that every way to a reachable block of an acyclic region passes before."""
        return self._dominators[block]

    def is_reachable(self, block: Block) -> bool:
        """Returns whether branches lead to a block that is not the first of its acyclic region."""
        return block in self._dominators

    def _look(self, region: Region) -> bool:
        order = {block: number for number, block in enumerate(postorder(region.blocks[0]))}
        for block in order:
            last = block.last_op
            if last is None or (last.successors and not isinstance(last, cf.BranchOp | cf.ConditionalBranchOp)):
                return False
            if any(order[successor] >= order[block] for successor in last.successors):
                return False
        for block in region.blocks:
            if block in order and block.last_op is not None:
                for successor in dict.fromkeys(block.last_op.successors):
                    self._sources.setdefault(successor, []).append(block)
        for above, below in dominated(region.blocks[0]).items():
            self._dominators.update(dict.fromkeys(below, above))
        return True


__all__ = ["Blocks"]
