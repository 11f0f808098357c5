"""What `numerics="reproducible"` means for the operations of a kernel: results do not depend on what runs it.

IEEE arithmetic, comparisons and casts give the same bits everywhere. What does not by itself is the order of sums, the
instructions that functions are made of, and the order in which programs meet at an atomic. `fix_order` marks the first,
asks for a portable form of the second and refuses the third. The orders are those of the interpreter:

* `tt.reduce`: a balanced tree over neighbours, (x0 x1) (x2 x3) …, level by level;
* `tt.scan`: for each bit of the position, lowest first, the last prefix of the lower half goes to all of the upper half
  (Sklansky, "Conditional-sum addition logic", 1960);
* `tt.dot`: a chain of fused multiply-adds along the contraction, which begins with the accumulator; then 0 is added, so that
  no sum is -0 and masked steps change nothing.

See docs/design/011-numerics.md.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, Region

from .....promotion.errors import UnsupportedError
from ... import types as t
from ...dialect.attributes import enum_name
from ...dialect.memory.atomics import RMW_OPERATIONS
from ...source_locations import line_of
from .fast_math import IN_RANGE, REDUCED, SHORT, WEIGHT

ORDERED = "joinery.ordered"
"""Unit attribute of reductions, scans and products whose order is the one above."""
PORTABLE = "joinery.portable"
"""Unit attribute of functions whose form is the same on all targets."""

_SINGLE_ROUNDING = frozenset(
    f"math.{name}" for name in ("absf", "absi", "ceil", "copysign", "ctlz", "ctpop", "cttz", "floor", "fma", "roundeven",
                                "sqrt", "trunc")
)  # fmt: skip
_NO_FLAGS = FastMathFlagsAttr("none")
_ANY_ORDER = frozenset(
    f"arith.{name}" for name in ("addi", "muli", "andi", "ori", "xori", "maxsi", "minsi", "maxui", "minui")
)
"""Not the largest and smallest float: quick forms leave open which of two zeros they are."""


def fix_order(func: Operation) -> None:
    """Mark what depends on order or instructions; `func` is changed in place, and loses all flags that allow anything.

    Raises `UnsupportedError` for float atomics, whose order is that in which programs run.
    """
    for op in func.walk():
        if "fastmath" in op.properties:
            op.properties["fastmath"] = _NO_FLAGS
        for mark in (REDUCED, SHORT, WEIGHT, IN_RANGE):
            op.attributes.pop(mark, None)
        if op.name.startswith("math.") and op.name not in _SINGLE_ROUNDING:
            op.attributes[PORTABLE] = UnitAttr()
        elif (op.name in ("tt.reduce", "tt.scan") and not _is_exact(op)) or (op.name == "tt.dot" and _adds_floats(op)):
            op.attributes[ORDERED] = UnitAttr()
        elif op.name == "tt.atomic_rmw" and enum_name(RMW_OPERATIONS, op.properties["atomic_rmw_op"]) == "fadd":
            _refuse(op)


def prefix_moves(count: int, length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """One level of a scan of `count` places, where runs of `length` have their prefixes: (sources, takers), place by place."""
    takers = np.flatnonzero(np.arange(count) & length)
    return (takers & -length) - 1, takers


def _is_exact(op: Operation) -> bool:
    """Whether the region gives the same bits in any order."""
    single = single_operation(op.regions[0])
    return single is not None and single.name in _ANY_ORDER


def single_operation(region: Region) -> Operation | None:
    """The operation that is all a region does: it takes both arguments, in either order, and what it gives is returned."""
    operations = [each for block in region.blocks for each in block.ops]
    if len(region.blocks) != 1 or len(operations) != 2 or len(region.block.args) != 2:
        return None
    inner, end = operations
    takes, gives = list(inner.operands), list(end.operands)
    arguments = list(region.block.args)
    return inner if takes in (arguments, arguments[::-1]) and gives == list(inner.results) else None


def _adds_floats(op: Operation) -> bool:
    return t.is_float(t.elem(op.results[0].type))


def _refuse(op: Operation) -> NoReturn:
    line = line_of(op)
    location = f" ({line})" if line else ""
    raise UnsupportedError(
        f"tt.atomic_rmw fadd{location} with numerics='reproducible': programs add in the order in which they run; fix: store "
        "partial sums and add them in a second kernel, or numerics='strict'"
    )


__all__ = ["ORDERED", "PORTABLE", "fix_order", "prefix_moves", "single_operation"]
