"""Adds floats of 16 bits up in float32, and rounds sums once.

A text says that each step of a sum is rounded to 16 bits, in an order that is left open; the error of a sum depends on that
order, and grows with the number of elements. With one rounding a sum is at least as near to the exact one as in any order.
Sums in a fixed order (`fix-order`) are rounded at each step, as the interpreter does.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from ... import types as t
from ...analysis.combining import single_operation
from ...builder.block_builder import BlockBuilder
from ...dialect.functions import FuncOp
from ..function_pass import FunctionPass
from ..rewriting import Rewriter


def widen_sums(func: Operation) -> None:
    """Rewrites a function in place."""
    for op in [op for op in func.walk() if _adds_short_floats(op)]:
        w = Rewriter(op)
        wide = [w.cast("arith.extf", op.operands[0], t.F32)]
        axis = op.properties["axis"]
        assert isinstance(axis, IntegerAttr)
        if op.name == "tt.reduce":
            found = w.reduce(wide, axis.value.data, _add)
        else:
            reverse = op.properties.get("reverse")
            found = w.scan(wide, axis.value.data, _add, isinstance(reverse, IntegerAttr) and bool(reverse.value.data))
        w.replace([w.cast("arith.truncf", found[0], t.elem(op.results[0].type))])


def _add(w: BlockBuilder, left: list[SSAValue], right: list[SSAValue]) -> list[SSAValue]:
    return [w.binary("arith.addf", left[0], right[0])]


def _adds_short_floats(op: Operation) -> bool:
    if op.name not in ("tt.reduce", "tt.scan") or len(op.operands) != 1:
        return False
    elem = t.elem(op.operands[0].type)
    if not t.is_float(elem) or t.bit_width(elem) != 16:
        return False
    single = single_operation(op.regions[0])
    return single is not None and single.name == "arith.addf"


@dataclass(frozen=True)
class WideSums(FunctionPass):
    """Adds 16-bit floats up in float32."""

    name = "wide-sums"

    def run(self, function: FuncOp) -> None:
        widen_sums(function)

    def is_needed(self, function: FuncOp) -> bool:
        return any(map(_adds_short_floats, function.walk()))
