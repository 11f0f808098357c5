"""Folds constants, and removes operations with a neutral operand."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation

from ...dialect.functions import FuncOp
from ..folding import fold, is_pure, replace_by
from ..function_pass import FunctionPass


@dataclass(frozen=True)
class Canonicalize(FunctionPass):
    """Folds constants, and removes operations with a neutral operand."""

    name = "canonicalize"

    def run(self, function: FuncOp) -> None:
        _canonicalize(function)


def _canonicalize(func: Operation) -> None:
    for region in func.regions:
        for block in region.blocks:
            op = block.first_op
            while op is not None:
                following = op.next_op
                if op.regions:
                    _canonicalize(op)
                elif op.results and is_pure(type(op)) and (folded := fold(op)) is not None:
                    replace_by(block, op, folded)
                op = following
