"""Keeps blocks of pointers in loops that carry few pointers per thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.dialects.builtin import DenseArrayBase, i32

from ....tt.dialect.functions import FuncOp
from ....tt.facts import FEW_POINTERS
from ....tt.transforms.function_pass import Allowed, FunctionPass
from ....tt.transforms.loops.pointer_induction import uniform_moves
from ..control.loop_carried import CarriedPointers
from ..targets import DEFAULT_WARPS, WARP_SIZE, WARPS


@dataclass(frozen=True)
class MarkFewPointers(FunctionPass):
    """Marks blocks of pointers that `pointer-induction` leaves to a loop: a thread has few of them, and wide accesses.

    warps: how many warps of 32 threads run a program.
    """

    name = "mark-few-pointers"
    warps: int = DEFAULT_WARPS

    def allowed(self) -> Mapping[str, Allowed]:
        return {"warps": Allowed(f"one of {', '.join(map(str, WARPS))}", WARPS.__contains__)}

    def run(self, function: FuncOp) -> None:
        pointers = CarriedPointers(function, self.warps * WARP_SIZE)
        for op in function.walk():
            op.attributes.pop(FEW_POINTERS, None)
        for op in function.walk():
            if isinstance(op, scf.ForOp):
                few = [number for number in uniform_moves(op) if pointers.are_few(op.body.blocks[0].args[1 + number])]
                if few:
                    op.attributes[FEW_POINTERS] = DenseArrayBase.from_list(i32, few)

    def is_needed(self, function: FuncOp) -> bool:
        return any(FEW_POINTERS in op.attributes or (isinstance(op, scf.ForOp) and uniform_moves(op)) for op in function.walk())


__all__ = ["MarkFewPointers"]
