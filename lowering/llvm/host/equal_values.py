"""Finds the comparisons of a function that give equal results: pure operations on equal operands give equal values."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Block, SSAValue

from ...tt.transforms.folding import is_pure
from .loops.liveness import all_operations


class Comparisons:
    """The comparisons (`arith.cmpi`) of a block and those nested in it. Equal ones have the same number."""

    def __init__(self, block: Block) -> None:
        self._numbers = _Numbers()
        self._outermost: dict[int, tuple[int, Any]] = {}
        for op in all_operations(block):
            if op.name == "arith.cmpi":
                value, depth = op.results[0], _depth(op.parent)
                found = self._outermost.get(number := self.number(value))
                if found is None or depth < found[0]:
                    self._outermost[number] = depth, value

    def number(self, value: SSAValue) -> int:
        return self._numbers.of(value)

    def outermost(self, value: SSAValue) -> Any:
        """Returns the comparison with the same value that is inside the fewest loops: it varies in none of the others."""
        found = self._outermost.get(self.number(value))
        return value if found is None else found[1]


def _depth(block: Any) -> int:
    depth = 0
    while block is not None:
        block, depth = block.parent_block(), depth + 1
    return depth


class _Numbers:
    """Numbers of values: values that are computed in the same way from the same operands share one."""

    def __init__(self) -> None:
        self._of_value: dict[Any, int] = {}
        self._of_key: dict[Any, int] = {}

    def of(self, value: SSAValue) -> int:
        waiting = [value]
        while waiting:
            here = waiting[-1]
            if here not in self._of_value:
                op = getattr(here, "op", None)
                key: Any = (id(here),)
                if op is not None and len(op.results) == 1 and not op.regions and is_pure(type(op)):
                    missing = [operand for operand in op.operands if operand not in self._of_value]
                    if missing:
                        waiting += missing
                        continue
                    facts = (*op.properties.items(), *op.attributes.items())
                    key = (op.name, tuple([self._of_value[operand] for operand in op.operands]), facts, here.type)
                self._of_value[here] = self._of_key.setdefault(key, len(self._of_key))
            waiting.pop()
        return self._of_value[value]
