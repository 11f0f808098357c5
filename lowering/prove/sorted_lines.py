"""Writes operations that sort memory as loops over the elements which they touch, for proofs alone: nothing is sorted."""

from __future__ import annotations

from ..tt import types as t
from ..tt.dialect.functions import FuncOp
from ..tt.dialect.memory.sort_lines import SortLinesOp
from ..tt.transforms.rewriting import Rewriter


def expand_sorted_lines(function: FuncOp) -> None:
    """Replaces each `tt.sort_lines` by loops that load each element of each line, and store it there.

    What is stored is another element of the line, of which a proof knows as little: elements that are loaded are any numbers.
    """
    for op in [each for each in function.walk() if isinstance(each, SortLinesOp)]:
        b = Rewriter(op)
        pointer, lines, count = b.args
        zero, one = b.const(0, t.I64), b.const(1, t.I64)
        with b.for_(zero, lines, one) as line:
            first = b.addptr(pointer, b.binary("arith.muli", line.index, count))
            with b.for_(zero, count, one) as element:
                at = b.addptr(first, element.index)
                b.store(at, b.load(at))
        b.replace([])


__all__ = ["expand_sorted_lines"]
