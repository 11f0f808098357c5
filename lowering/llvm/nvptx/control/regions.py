"""Lowers regions on scalars that each thread runs on its own: combine regions, and maps over elements.

Threads may branch differently in them, so nothing in them may need other threads: no stores, atomics or prints, no blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from xdsl.ir import Operation

from ....tt.analysis.aliasing import WRITES
from ....tt.analysis.control_flow import terminator
from ...syntax import is_tensor
from ...values import V
from ..context import KernelContext
from .branches import lower_graph

_OF_THE_PROGRAM = WRITES | {"tt.atomic_load", "tt.atomic_poll", "tt.print", "ttg.barrier"}


@contextmanager
def each_thread_alone(k: KernelContext, op: Operation) -> Iterator[None]:
    """Encloses the code of an operation with such a region. Memory that the region reads is waited for before.

    UnsupportedError if the region has operations of the whole program.
    """
    for inner in op.regions[0].walk():
        if inner.name in _OF_THE_PROGRAM or any(is_tensor(value.type) for value in (*inner.operands, *inner.results)):
            raise k.unsupported(op, f"{inner.name} in its region")
    k.is_alone = True
    with k.order.apart(op):
        yield
    k.is_alone = False


def region_values(k: KernelContext, region: Any, arguments: Sequence[V]) -> list[V]:
    """Lowers a region on scalars for these arguments and returns its results; its blocks may branch to each other."""
    f, entry = k.f, region.blocks[0]
    saved = dict(k.scalars)
    k.scalars.update(zip(entry.args, arguments, strict=True))
    if len(region.blocks) == 1:
        k.block_without_end(entry)
        found = [k.scalar(value) for value in terminator(entry).operands]
    else:
        ends: list[tuple[str, list[V]]] = []
        done = f.label("done")

        def leave(last: Operation) -> None:
            values = [k.scalar(value) for value in last.operands]
            ends.append((f.block, values))
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
