"""Expands tt.sort into gathers, minima and maxima, for targets whose threads share out a block.

A step compares each element with the one at a distance from it, which a gather fetches, by shuffles where both are in a warp.
The steps are those of a bitonic network of which every merge begins with elements as far from both ends, so that the smaller
of two always goes to the lower position (see `lowering/llvm/host/sorts/network.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ... import types as t
from ...dialect.compute import SortOp
from ...dialect.functions import FuncOp
from ..function_pass import FunctionPass
from ..rewriting import Rewriter


def partners(extent: int) -> Iterator[int]:
    """Yields for each step which bits of a position are others in that of its partner; extent: a power of two."""
    run = 1
    while run < extent:
        yield 2 * run - 1
        distance = run // 2
        while distance:
            yield distance
            distance //= 2
        run *= 2


def _expand(op: SortOp) -> None:
    b, axis = Rewriter(op), op.axis.value.data
    value = op.src
    shape = t.shape_of(value.type)
    here = b.arange(shape[axis])
    for position in range(len(shape)):
        if position != axis:
            here = b.expand_dims(here, position)
    here = b.broadcast(here, shape)
    for bits in partners(shape[axis]):
        there = b.binary("arith.xori", here, b.const(bits, t.I32, shape))
        other = b.gather(value, there, axis)
        low, high = b.binary("arith.minsi", value, other), b.binary("arith.maxsi", value, other)
        value = b.select(b.cmpi("slt", here, there), low, high)
    b.replace([value])


@dataclass(frozen=True)
class ExpandSorts(FunctionPass):
    """Writes `tt.sort` as steps of gathers, minima and maxima."""

    name = "expand-sorts"

    def run(self, function: FuncOp) -> None:
        for op in list(function.walk()):
            if isinstance(op, SortOp):
                _expand(op)
