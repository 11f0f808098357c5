"""Decides for which kernels to ask the assembler for at least one block per SM.

Left alone, NVIDIA's assembler (12.9 and 13.0) sometimes gives a kernel whose values do not quite fit into the registers of a
thread just 32 of them, as if for more blocks at once, and spills kilobytes: a sum over 16384 elements by 8 warps spilled 4964
bytes, and none with 189 registers. Asked for one block it uses all registers. It then uses more elsewhere too, so
only kernels are marked that hold many elements at once, those with products of 8-bit floats, whose conversions made it spill 4
to 72 bytes at 48 to 128 registers, and (in `kernel`) those whose shared memory leaves room for no second block.
"""

from __future__ import annotations

from math import prod

from ....tt.dialect.functions import FuncOp
from ...syntax import element_name, is_tensor, shape_of
from ..matmul.operand_kinds import are_eight
from ..threads import bits_of

_MANY = {"tt.scan": 32, "tt.reduce": 64, "tt.dot": 128}
"""Operation → the 32-bit registers per thread for one of its blocks from which on a kernel is marked."""


def holds_many_elements(function: FuncOp, threads: int) -> bool:
    """Whether one block per SM should be asked for. threads: that compute."""
    for op in function.walk():
        least = _MANY.get(op.name)
        if least is None:
            continue
        if op.name == "tt.dot" and are_eight(op):
            return True
        blocks = [value.type for value in (*op.operands, *op.results) if is_tensor(value.type)]
        if any(prod(shape_of(type_)) * bits_of(element_name(type_)) >= least * 32 * threads for type_ in blocks):
            return True
    return False
