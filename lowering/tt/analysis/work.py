"""Bounds what a program of a function does: a launch whose end is near need not be watched for Ctrl-C."""

from __future__ import annotations

import math

from xdsl.ir import Operation

from .. import types as t
from ..dialect.functions import FuncOp

_UNBOUNDED = frozenset({"scf.for", "scf.while", "cf.br", "cf.cond_br", "tt.call", "tt.atomic_poll", "tt.print"})
"""Operations that may run others any number of times, that wait, or that call into Python."""


def element_operations(function: FuncOp) -> int | None:
    """Returns the operations on single elements that a program of the function does; None if nothing is known of their time."""
    total = 0
    for op in function.walk():
        if op.name in _UNBOUNDED:
            return None
        total += _elements(op)
    return total


def _elements(op: Operation) -> int:
    sizes = [math.prod(t.shape_of(value.type)) for value in (*op.operands, *op.results)]
    if op.name == "tt.dot":
        return sizes[0] * t.shape_of(op.operands[1].type)[-1]
    return max(sizes, default=1)


__all__ = ["element_operations"]
