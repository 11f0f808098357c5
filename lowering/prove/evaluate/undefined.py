"""Finds what is computed from poison, or from other values that are not looked at as terms.

Each that reads poison may see another number, so no term stands for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xdsl.dialects import cf
from xdsl.ir import Operation, Region, SSAValue
from xdsl.traits import IsTerminator

_POISON = frozenset({"ub.poison", "llvm.mlir.poison", "llvm.mlir.undef", "tt.fft"})
"""A transform leaves elements beyond its results as it found its scratch, which nobody has written."""


def is_poison(op: Operation) -> bool:
    """Returns whether an operation makes poison, in some lanes at least."""
    return op.name in _POISON


class Undefined:
    """The values of a function that are computed from poison, and the regions to which a path is chosen by such values.

    Or from what other operations make: `is_source` says of which.
    """

    def __init__(self, function: Operation, is_source: Callable[[Operation], bool] = is_poison) -> None:
        """Follows poison from where it is made, through branches and loops, but not through memory."""
        self._function = function
        self._values: set[SSAValue] = set()
        self._regions: set[Region] = set()
        self._waiting: list[SSAValue] = []
        for op in function.walk():
            if is_source(op):
                self._add(op.results)
        while self._waiting:
            value = self._waiting.pop()
            for use in value.uses:
                self._follow(use.operation, use.index)

    def is_value(self, value: SSAValue | None) -> bool:
        """Returns whether a value is computed from poison."""
        return value in self._values

    def is_path(self, op: Operation) -> bool:
        """Returns whether poison decides whether, or how often, an operation runs."""
        region = None if op.parent is None else op.parent.parent
        while region is not None:
            if region in self._regions:
                return True
            parent = region.parent
            region = None if parent is None or parent is self._function or parent.parent is None else parent.parent.parent
        return False

    def _add(self, values: Iterable[SSAValue]) -> None:
        for value in values:
            if value not in self._values:
                self._values.add(value)
                self._waiting.append(value)

    def _inside(self, op: Operation) -> None:
        """Notes that poison decides what the regions of an operation do."""
        for region in op.regions:
            self._choose(region)
        self._add(op.results)

    def _choose(self, region: Region) -> None:
        """Notes that poison decides which blocks of a region run."""
        self._regions.add(region)
        self._add([argument for block in region.blocks for argument in block.args if block is not region.blocks[0]])
        parent = region.parent
        if parent is not None and parent is not self._function:
            self._add([argument for each in parent.regions for block in each.blocks for argument in block.args])
            self._add(parent.results)

    def _follow(self, op: Operation, index: int) -> None:
        """Notes what an operand that is poison makes poison."""
        if op.successors:
            self._branch(op, index)
        elif op.has_trait(IsTerminator):
            self._leave(op, index)
        elif op.name == "scf.for" and index >= 3:
            self._add([op.regions[0].blocks[0].args[index - 2], op.results[index - 3]])
        elif op.name == "scf.while":
            self._add([op.regions[0].blocks[0].args[index]])
        elif op.regions:
            self._inside(op)
        else:
            self._add(op.results)

    def _branch(self, op: Operation, index: int) -> None:
        if isinstance(op, cf.BranchOp):
            self._add([op.successor.args[index]])
        elif isinstance(op, cf.ConditionalBranchOp) and index > 0:
            count = len(op.then_arguments)
            is_then = index - 1 < count
            block = op.then_block if is_then else op.else_block
            self._add([block.args[index - 1 if is_then else index - 1 - count]])
        elif op.parent is not None and op.parent.parent is not None:
            self._choose(op.parent.parent)

    def _leave(self, op: Operation, index: int) -> None:
        parent = op.parent_op()
        if parent is None or parent is self._function:
            return
        if op.name == "scf.yield" and parent.name in ("scf.if", "scf.execute_region"):
            self._add([parent.results[index]])
        elif op.name == "scf.yield" and parent.name == "scf.for":
            self._add([parent.results[index], parent.regions[0].blocks[0].args[index + 1]])
        elif op.name == "scf.yield" and parent.name == "scf.while":
            self._add([parent.regions[0].blocks[0].args[index]])
        elif op.name == "scf.condition" and index > 0:
            self._add([parent.results[index - 1], parent.regions[1].blocks[0].args[index - 1]])
        else:
            self._inside(parent)


__all__ = ["Undefined", "is_poison"]
