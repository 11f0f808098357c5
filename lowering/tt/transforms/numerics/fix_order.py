"""Applies `numerics="reproducible"` to the operations of a kernel: results do not depend on what runs it.

IEEE arithmetic, comparisons and casts give the same bits everywhere. The order of sums, the instructions of
which functions consist, and the order in which programs meet at an atomic may differ: `fix_order` marks the
first, asks for a portable form of the second and refuses the third. The orders are those of the interpreter:

* `tt.reduce`: a balanced tree over neighbours, (x0 x1) (x2 x3) …, level by level;
* `tt.scan`: for each bit of the position, lowest first, the last prefix of the lower half goes to all of the upper half
  (Sklansky, "Conditional-sum addition logic", 1960);
* `tt.dot`: a chain of fused multiply-adds along the contraction, which begins with the accumulator; then 0 is added, so that
  no sum is -0 and masked steps change nothing.

See docs/design/011-numerics.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation

from .....promotion.errors import UnsupportedError
from ... import types as t
from ...analysis.combining import single_operation
from ...dialect.attributes import enum_name
from ...dialect.functions import FuncOp
from ...dialect.memory.atomics import RMW_OPERATIONS
from ...facts import IN_RANGE, NOT_POSITIVE, ORDERED, PORTABLE, REDUCED, SHORT, WEIGHT
from ...source_locations import naming_line
from ..function_pass import FunctionPass

_SINGLE_ROUNDING = frozenset(
    f"math.{name}" for name in ("absf", "absi", "ceil", "copysign", "ctlz", "ctpop", "cttz", "floor", "fma", "roundeven",
                                "sqrt", "trunc")
)  # fmt: skip
_NO_FLAGS = FastMathFlagsAttr("none")
_ANY_ORDER = frozenset(
    f"arith.{name}" for name in ("addi", "muli", "andi", "ori", "xori", "maxsi", "minsi", "maxui", "minui")
)
"""Operations that give the same bits in any order. Float maxima and minima do not: quick forms leave open
which of two zeros they return."""


def fix_order(func: Operation) -> None:
    """Marks what depends on order or instructions; `func` is changed in place, and loses all flags that
    permit inexact forms.

    Raises `UnsupportedError` for float atomics, whose order is that in which programs run.
    """
    for op in func.walk():
        if "fastmath" in op.properties:
            op.properties["fastmath"] = _NO_FLAGS
        for mark in (REDUCED, SHORT, WEIGHT, IN_RANGE, NOT_POSITIVE):
            op.attributes.pop(mark, None)
        if op.name.startswith("math.") and op.name not in _SINGLE_ROUNDING:
            op.attributes[PORTABLE] = UnitAttr()
        elif (op.name in ("tt.reduce", "tt.scan") and not _is_exact(op)) or (op.name == "tt.dot" and _adds_floats(op)):
            op.attributes[ORDERED] = UnitAttr()
        elif op.name == "tt.atomic_rmw" and enum_name(RMW_OPERATIONS, op.properties["atomic_rmw_op"]) == "fadd":
            _refuse(op)


def _is_exact(op: Operation) -> bool:
    """Returns whether the region gives the same bits in any order."""
    single = single_operation(op.regions[0])
    return single is not None and single.name in _ANY_ORDER


def _adds_floats(op: Operation) -> bool:
    return t.is_float(t.elem(op.results[0].type))


def _refuse(op: Operation) -> NoReturn:
    with naming_line(op):
        raise UnsupportedError(
            "tt.atomic_rmw fadd with numerics='reproducible': programs add in the order in which they run; fix: store "
            "partial sums and add them in a second kernel, or numerics='strict'"
        )


@dataclass(frozen=True)
class FixOrder(FunctionPass):
    """Fixes the order of sums and asks for portable forms of functions, for the same bits on every device."""

    name = "fix-order"

    def run(self, function: FuncOp) -> None:
        fix_order(function)


__all__ = ["FixOrder", "fix_order"]
