"""Numbers the operations that emit loop nests, and finds the last one that reads each block value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from xdsl.ir import Block, Operation, Region

from ....tt.analysis.control_flow import terminator
from ...syntax import attributes, is_tensor

NEST_OPERATIONS = frozenset(
    [
        *("tt.store", "tt.reduce", "tt.scan", "tt.dot", "tt.reshape", "tt.join", "tt.cat", "tt.split", "tt.unsplat"),
        *("tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_load", "tt.atomic_store", "tt.atomic_poll"),
        *("tt.gather", "tt.histogram", "tt.sort", "tt.sort_lines", "tt.fft", "tt.map_elementwise", "tt.check_access"),
        *("tt.assert", "cf.assert", "tt.print"),
        *("scf.for", "scf.if", "scf.while", "scf.condition", "scf.yield", "scf.execute_region"),
        *("cf.br", "cf.cond_br", "tt.return"),
    ]
)
"""The operations that evaluate lazy block values, each in a loop nest of its own."""
SCALAR_REGIONS = frozenset({"tt.reduce", "tt.scan", "tt.map_elementwise"})
"""The operations whose regions work on scalars only."""

NEVER = 1 << 60


def emits_nest(op: Operation) -> bool:
    """Whether the operation evaluates lazy block values in a loop nest of its own. A volatile load does: it happens once, in
    its place."""
    return op.name in NEST_OPERATIONS or (op.name == "tt.load" and bool(attributes(op).get("isVolatile")))


def all_operations(block: Block) -> Iterator[Any]:
    """Yields operations in the order of execution, an operation before its regions. Regions on scalars are left out."""
    for op in block.ops:
        yield op
        if op.name not in SCALAR_REGIONS:
            for region in op.regions:
                for inner in region.blocks:
                    yield from all_operations(inner)


def reachable(region: Region) -> list[Any]:
    """Returns the blocks of a region that can be reached from its first one, that one first."""
    found, waiting = [], [region.blocks[0]]
    seen = set()
    while waiting:
        block = waiting.pop()
        if block in seen:
            continue
        seen.add(block)
        found.append(block)
        if block.last_op is not None:
            waiting.extend(reversed(terminator(block).successors))
    return found


class Liveness:
    """The operations of a function that emit loop nests, in order, and the last of them that evaluates each block value.

    `elsewhere`: values that are read in another block of the same branching region than the one that defines them. The order of
    such reads is not known: their last reader counts as after every other.
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        operations = [op for block in blocks for op in all_operations(block) if emits_nest(op)]
        self.index: dict[Any, int] = {op: i for i, op in enumerate(operations)}
        self.last: dict[Any, int] = {}
        self.elsewhere: set[Any] = set()
        for op in reversed(operations):
            self._reads(op)
        if any(len(region.blocks) > 1 for op in operations for region in op.regions) or len(blocks) > 1:
            for op in operations:
                self._crossings(op)

    def _reads(self, op: Operation) -> None:
        stack = [v for v in op.operands if is_tensor(v.type)]
        while stack:
            value = stack.pop()
            if value in self.last:
                continue
            self.last[value] = self.index[op]
            producer = getattr(value, "op", None)
            if producer is not None and not emits_nest(producer):
                stack.extend(v for v in producer.operands if is_tensor(v.type))

    def _crossings(self, op: Any) -> None:
        """Records the values that an operation evaluates and that are defined in a block which does not enclose it."""
        stack = [v for v in op.operands if is_tensor(v.type)]
        seen = set()
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            block = value.owner if not hasattr(value, "op") else value.op.parent
            if not _encloses(block, op):
                self.elsewhere.add(value)
                self.last[value] = NEVER
            producer = getattr(value, "op", None)
            if producer is not None and not emits_nest(producer):
                stack.extend(v for v in producer.operands if is_tensor(v.type))


def _encloses(block: Block, op: Operation) -> bool:
    here = op.parent
    while here is not None:
        if here is block:
            return True
        here = here.parent_block()
    return False
