"""Lists the operations whose results the threads of a program may take for different numbers, though they ask for one.

What each thread loads, or computes, by itself is one number for all only if what it is made of is. An address, a mask or a
branch that is computed from another one is a different one for each thread, and no single term stands for it.
"""

from __future__ import annotations

from collections.abc import Collection

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from ...libdevice.signatures import SIGNATURES
from ...tt import types as t
from ...tt.dialect.external import ExternElementwiseOp
from ..initialised.sources import leaves_undefined

_BY_EACH_THREAD = frozenset({"tt.atomic_load", "tt.atomic_poll", "tt.elementwise_inline_asm"})
"""What each thread does by itself, and may find another number than the next one. Assembly may ask which thread it is."""
_BY_ONE_THREAD = frozenset({"tt.atomic_rmw", "tt.atomic_cas"})
"""Updates: of a scalar one thread does it, and all take its number; who has that of a lane of a block is not known."""
_SYMMETRIC = frozenset({
    "arith.addi", "arith.muli", "arith.andi", "arith.ori", "arith.xori", "arith.maxsi", "arith.maxui", "arith.minsi",
    "arith.minui",
})  # fmt: skip
"""Operations of two numbers that have the same bits the other way round. Sums of floats have not, where one of the two is a
product that is not rounded first."""


def may_differ(op: Operation, loads: Collection[Operation]) -> bool:
    """Returns whether threads may have different numbers of what is one for all in the text.

    loads: those that may meet a write of another thread or program.
    """
    if op in loads or op.name in _BY_EACH_THREAD:
        return True
    if isinstance(op, ExternElementwiseOp):
        return not op.names_libdevice or op.symbol.data not in SIGNATURES
    if op.name in _BY_ONE_THREAD:
        return bool(t.shape_of(op.results[0].type)) or not _is_always_done(op)
    if op.name == "tt.reduce":
        return not _is_symmetric(op)
    return leaves_undefined(op)


def _is_always_done(update: Operation) -> bool:
    """Returns whether no mask leaves the result of an update undefined."""
    return update.name == "tt.atomic_cas" or len(update.operands) < 3 or _is_true(update.operands[2])


def _is_true(mask: SSAValue) -> bool:
    op = mask.owner
    if not isinstance(op, Operation) or op.name != "arith.constant":
        return False
    value = op.properties["value"]
    return isinstance(value, IntegerAttr) and value.value.data != 0


def _is_symmetric(reduction: Operation) -> bool:
    """Returns whether two threads that reduce the same two numbers, each its own one first, have the same bits."""
    blocks = reduction.regions[0].blocks
    if len(blocks) != 1:
        return False
    first, *others = reduction.regions[0].block.ops
    arguments = reduction.regions[0].block.args
    return len(arguments) == 2 and len(others) == 1 and first.name in _SYMMETRIC and {*first.operands} == {*arguments}


__all__ = ["may_differ"]
