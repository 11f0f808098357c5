"""Checks, at level 2, the registers of wgmma products, which read and write them asynchronously.

From wgmma.mma_async until wgmma.wait_group no other instruction may access the registers of D, nor write those of A. Between
an access to one of them and a later product that uses it there must be a wgmma.fence, and also before the first product; only
products that accumulate in the same D one after the other need none.

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions: wgmma.fence, wgmma.wait_group".
"""

from __future__ import annotations

from collections.abc import Set

import numpy as np

from ....lowering.ptx.syntax import Register, Vector
from ....promotion.arrays import Array
from ..core.state import MachineState
from ..core.types import Mask, Step


class ProductRegisters:
    """Shadows of the registers of products in a machine's functions, as rows over the lanes of the block.

    writing: whether a pending product writes the register; reading: how many pending products read it; fenced: whether there
    was no access since the last wgmma.fence.
    """

    def __init__(self, machine: MachineState) -> None:
        self.machine = machine
        self.rows: dict[tuple[str, str], int] = {}
        for function in machine.functions:
            for instruction in function.code or ():
                if instruction.opcode == "wgmma" and "mma_async" in instruction.modifiers:
                    for operand in instruction.operands[:2]:
                        for each in operand.elements if isinstance(operand, Vector) else ():
                            if isinstance(each, Register):
                                self.rows.setdefault((function.name, each.name), len(self.rows))
        self.writing = machine.block_array((len(self.rows), machine.lanes), np.bool_)
        self.reading = machine.block_array((len(self.rows), machine.lanes), np.int16)
        self.fenced = machine.block_array((len(self.rows), machine.lanes), np.bool_)

    def row(self, function: str, name: str) -> int:
        return self.rows[function, name]

    def around(self, function: str, reads: Set[str], writes: Set[str], step: Step) -> Step:
        """Wraps the step of an ordinary instruction with checks of the registers that it may not access."""
        names = [name for name in sorted(reads | writes) if (function, name) in self.rows]
        if not names:
            return step
        machine, writing, reading, fenced = self.machine, self.writing, self.reading, self.fenced
        touched = np.array([self.row(function, name) for name in names])
        written = np.array([self.row(function, name) for name in names if name in writes], np.int64)

        def report(busy: Array, what: str) -> None:
            if np.count_nonzero(busy):
                which, lanes = np.nonzero(busy)
                name = names[which[0]].split("#")[0]
                machine.violation("in flight", f"register {name} is {what} is pending", np.unique(lanes))

        def checked(mask: Mask) -> None:
            here = True if mask is None else mask
            report(writing[touched] & here, "used while a wgmma into it")
            if written.size:
                report((reading[written] > 0) & here, "written while a wgmma that reads it")
            step(mask)
            if mask is None:
                fenced[touched] = False
            else:
                fenced[touched] &= ~mask

        return checked

    def fence(self, lanes: slice) -> None:
        """Executes wgmma.fence of a warpgroup."""
        self.fenced[:, lanes] = True

    def check(self, rows: Array, lanes: slice) -> None:
        """Reports a product of a warpgroup that uses these registers without a fence."""
        bare = ~self.fenced[rows, lanes]
        if np.count_nonzero(bare):
            which, lane = np.nonzero(bare)
            name = next(name for (_, name), row in self.rows.items() if row == rows[which[0]])
            text = f"register {name.split('#')[0]} goes into a wgmma without a wgmma.fence since it was accessed"
            self.machine.violation("wgmma fence", text, lanes.start + np.unique(lane))
