"""Applies `numerics="fast"`: `fastmath<arcp,contract,afn>` on the float arithmetic and functions that a
kernel itself has.

Flags that a text has mean the same. `reassoc`, `nnan`, `ninf` and `nsz` are read but not used. See
docs/design/011-numerics.md.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation

from ...dialect.functions import FuncOp
from ...facts import APPROXIMATE, CONTRACT, RECIPROCAL
from ..function_pass import FunctionPass

FAST = FastMathFlagsAttr([RECIPROCAL, CONTRACT, APPROXIMATE])

_ARITHMETIC = frozenset({"arith.addf", "arith.subf", "arith.mulf", "arith.divf"})

def allow_fast_math(func: Operation) -> None:
    """Allows approximations, reciprocals and fused multiply-adds for all float arithmetic and functions;
    `func` is changed in place. Flags that are there stay. What later passes add (expansions that need every
    rounding) has no flags.
    """
    for op in func.walk():
        if op.name in _ARITHMETIC or (op.name.startswith("math.") and _takes_flags(type(op))):
            flags = op.properties.get("fastmath")
            known = flags.data if isinstance(flags, FastMathFlagsAttr) else frozenset()
            op.properties["fastmath"] = FastMathFlagsAttr(FAST.data | known)


@functools.cache
def _takes_flags(kind: type[Operation]) -> bool:
    return issubclass(kind, IRDLOperation) and "fastmath" in kind.get_irdl_definition().properties


@dataclass(frozen=True)
class FastMath(FunctionPass):
    """Gives float operations the flags that allow what numerics="fast" allows."""

    name = "fast-math"

    def run(self, function: FuncOp) -> None:
        allow_fast_math(function)
