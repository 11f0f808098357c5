"""Emits calls of library functions.

On hosts they are functions of the C library, called lane by lane, whose addresses the loader resolves; on GPUs functions of
libdevice, which `compile_ptx` links.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...promotion.errors import UnsupportedError
from ..libdevice.signatures import CALLS, SIGNATURES
from .ir import Function
from .values import V, element, lanes, zero


def emit_call(f: Function, symbol: str, operands: Sequence[V], result: str) -> V:
    """Emits a library call on register values with equal lane counts.

    On GPUs `symbol` is any of `SIGNATURES`, elsewhere a float64 function of `CALLS`; `UnsupportedError` for others.
    result: the LLVM type of one lane.
    """
    signature = SIGNATURES.get(symbol)
    if signature is not None and "ptx" in f.module.features:
        f.module.declare(symbol, result, [v.type for v in operands])
        arguments = ", ".join(f"{v.type} {v.operand()}" for v in operands)
        return f.pure(f"call {result} @{symbol}({arguments})", result)
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
