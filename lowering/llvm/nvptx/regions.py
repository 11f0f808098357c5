"""Regions on scalars that each thread runs on its own: combine regions, and maps over elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..ir import V
from .control import lower_graph

if TYPE_CHECKING:
    from .kernel import KernelLowering


def region_values(k: KernelLowering, region: Any, arguments: Sequence[V]) -> list[V]:
    """What a region on scalars gives for these arguments; its blocks may branch to each other."""
    f, entry = k.f, region.blocks[0]
    saved = dict(k.scalars)
    k.scalars.update(zip(entry.args, arguments, strict=True))
    if len(region.blocks) == 1:
        k.block_without_end(entry)
        found = [k.scalar(value) for value in entry.last_op.operands]
    else:
        ends: list[tuple[str, list[V]]] = []
        done = f.label("done")

        def leave(last: Any) -> None:
            ends.append((f.block, [k.scalar(value) for value in last.operands]))
            f.branch(done)

        with k.ev.scope():
            lower_graph(k, region, region.parent, leave)
        f.start(done)
        found = [
            f.phi(values[0].type, [(value, block) for value, (block, _) in zip(values, ends, strict=True)])
            for values in zip(*(values for _, values in ends), strict=True)
        ]
    k.scalars = saved
    return found
