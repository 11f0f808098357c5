"""Warns about chains of operators under rule sets whose joins keep a choice open.

Under "exact" int8 ∨ uint8 may become int16 or float16, and with float16 as a third operand it is float16. But
the value of `a + b` has a dtype, int16, which float16 does not hold: `(a + b) + c` is float32. The open
choice cannot be carried along, because a computed int16 need not be a value of any of its operands. So users
who chain operators are warned.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from ...promotion.dtype import DType
from ...promotion.errors import PromotionWarning, UserError
from ...promotion.result_rules import EXPLICIT
from ..location import user_location
from ..protocols import SymbolLike


def tell(symbol: SymbolLike, written: Sequence[SymbolLike]) -> None:
    """Warn at the user's line when operands meet in another dtype than all that they were made of.

    While the choice of `symbol` is open, the graph keeps the dtypes that it was made of.
    """
    graph = symbol.graph
    made_of: dict[DType, None] = {}
    chained = False
    for operand in written:
        written_cast = graph.symbols[operand.id] is not operand
        parts = None if written_cast else graph.parts.get(operand.id)
        chained = chained or parts is not None
        made_of.update(dict.fromkeys(parts or (operand.dtype,)))
    if symbol.op.promote is EXPLICIT or not made_of:
        return
    parts = tuple(made_of)
    if graph.rules.is_open(parts):
        graph.parts[symbol.id] = parts
    tensors = list(dict.fromkeys([operand.dtype for operand in written]))
    if not chained or len(tensors) < 2:
        return
    try:
        apart, at_once = graph.rules.join_all(tensors), graph.rules.join_all(parts)
    except UserError:
        return
    if apart is not at_once:
        location = graph.current_location or user_location()
        names = [", ".join(dtype.name for dtype in dtypes) for dtypes in (tensors, parts)]
        text = (
            f"{symbol.op.name}: {names[0]} meet in {apart}, but {names[1]}, which the operands were made of, meet in {at_once} "
            f"when joined at once; fix: joinery.promote all of them before the first operation, or write the cast"
        )
        warnings.warn_explicit(text, PromotionWarning, location.file, location.line)
