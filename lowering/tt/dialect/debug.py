"""Defines tt.assert and tt.print, which report to the user."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, StringAttr, i32
from xdsl.ir import Operation
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryWriteEffect

from .. import types as t
from ..checks import BlockSizes, expect_kind, expect_type, fail


@irdl_op_definition
class AssertOp(IRDLOperation):
    """Ends the run with `message` when the condition, an i1 or a block of i1, is false anywhere."""

    name = "tt.assert"

    condition = operand_def()
    message = prop_def(StringAttr)

    assembly_format = "$condition `,` $message attr-dict `:` type($condition)"
    traits = traits_def(MemoryWriteEffect(), BlockSizes())

    def verify_(self) -> None:
        type_ = self.condition.type
        expect_type(self, "condition", type_, t.mask_type(type_), "i1 or a block of i1")


@irdl_op_definition
class PrintOp(IRDLOperation):
    """Writes its operands, one line per element; without operands the prefix alone.

    `hex` writes bits instead of numbers; `isSigned`, one i32 per operand, says how integers are read.
    """

    name = "tt.print"

    args = var_operand_def()
    prefix = prop_def(StringAttr)
    hex = prop_def(BoolAttr)
    isSigned = prop_def(DenseArrayBase)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$prefix attr-dict (`:` $args^ `:` type($args))?"
    traits = traits_def(MemoryWriteEffect(), BlockSizes())

    def verify_(self) -> None:
        if self.isSigned.elt_type != i32:
            fail(self, f"isSigned has elements {self.isSigned.elt_type}, expected i32")
        signs = len(self.isSigned)
        if signs != len(self.args):
            fail(self, f"isSigned has {signs} entries for {len(self.args)} operands")
        for index, value in enumerate(self.args):
            expect_kind(self, f"operand {index}", value.type, "float", "integer", "pointer")


OPERATIONS: Sequence[type[Operation]] = (AssertOp, PrintOp)
