"""Calls of the C library, lane by lane. Which addresses the names have is the loader's business."""

from __future__ import annotations

from collections.abc import Sequence

from ...promotion.errors import UnsupportedError
from ..libdevice.signatures import CALLS, SIGNATURES
from .ir import Function, V, element, lanes, zero


def emit_call(f: Function, symbol: str, operands: Sequence[V]) -> V:
    """A float64 function of `signatures.CALLS` on register values with equal lane counts."""
    signature = SIGNATURES.get(symbol)
    if signature is None or signature.function not in CALLS or signature.result != "f64":
        raise UnsupportedError(f"lowering: the library function {symbol!r}")
    name, n = signature.function, lanes(operands[-1].type)
    f.module.declare(name, "double", [element(v.type) for v in operands])
    if n == 1:
        return f.call(name, "double", operands)
    total = zero(operands[-1].type)
    for lane in range(n):
        total = f.insert(total, f.call(name, "double", [f.extract(v, lane) for v in operands]), lane)
    return total
