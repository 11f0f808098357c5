"""Defines tt.check_access, which stands before an access whose bounds are checked.

Only the instrumentation of launches writes it (`lowering/tt/instrument`): no text has it, and the interpreter, which checks
every access anyway, does not know it.
"""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_operand_def, prop_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect


@irdl_op_definition
class CheckAccessOp(IRDLOperation):
    """Stops the launch if an element of an active lane lies outside of the memory that the pointer may reach.

    `access` is the name of the operation that is checked.
    """

    name = "tt.check_access"

    ptr = operand_def()
    mask = opt_operand_def()
    access = prop_def(StringAttr)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @staticmethod
    def of(op: Operation) -> CheckAccessOp:
        """Makes the check of a load, a store or an atomic, with its location."""
        mask: SSAValue | None = getattr(op, "mask", None)
        operands = [op.operands[0]] if mask is None else [op.operands[0], mask]
        return CheckAccessOp.create(operands=operands, properties={"access": StringAttr(op.name)}, location=op.location)
