"""Defines tt.sort_lines, which sorts where the elements lie.

Only programs of graphs have it, whose lines have lengths that are known at launch. Their texts are read like others, but hosts
launch no kernel that has it: nothing would compare its accesses with the memory behind the pointer.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from ... import types as t
from ...checks import expect_kind, expect_type, fail


@irdl_op_definition
class SortLinesOp(IRDLOperation):
    """Puts each of `lines` lines of `count` signed integers, which lie one after the other in memory, in ascending order."""

    name = "tt.sort_lines"

    ptr = operand_def()
    lines = operand_def()
    count = operand_def()

    assembly_format = "$ptr `,` $lines `,` $count attr-dict `:` type($ptr) `,` type($lines) `,` type($count)"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        if t.is_tensor(self.ptr.type) or not t.is_pointer(self.ptr.type):
            fail(self, f"ptr is {self.ptr.type}; expected a pointer")
        expect_kind(self, "what ptr points to", t.value_type(self.ptr.type), "integer")
        for name, value in (("lines", self.lines), ("count", self.count)):
            expect_type(self, name, value.type, t.I64, "i64")


OPERATIONS: Sequence[type[Operation]] = (SortLinesOp,)
