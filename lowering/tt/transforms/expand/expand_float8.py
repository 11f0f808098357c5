"""Expands arithmetic on 8-bit floats, for which back ends have no instructions.

Operands are widened to float32, and results are rounded to nearest even, once, as the interpreter does. Results
beyond the range become infinite, or NaN where a format has no infinity, while a conversion (`tt.fp_to_fp`)
saturates. Negation and absolute value change the sign bit alone, where a format has a negative zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import Float8E4M3FNType, Float8E5M2Type
from xdsl.ir import Attribute, Operation, SSAValue

from ... import types as t
from ...dialect.functions import FuncOp
from ...types import numpy_dtype
from ..function_pass import FunctionPass
from ..rewriting import Rewriter

_MOVES = frozenset({"arith.select", "arith.constant", "arith.extf", "arith.truncf", "arith.bitcast"})
"""Operations of `arith` that compute nothing with the floats that they take."""
_SIGN = 0x80


def expand_float8(func: Operation) -> None:
    """Rewrites a function in place."""
    for op in [op for op in func.walk() if _computes(op)]:
        _expand(op)


def _is_float8(value: SSAValue) -> bool:
    return t.is_float(value.type) and t.bit_width(value.type) == 8


def _computes(op: Operation) -> bool:
    """Whether an operation computes with 8-bit floats."""
    if not op.name.startswith(("arith.", "math.", "tt.precise_", "tt.approx_", "tt.clampf")) or op.name in _MOVES:
        return False
    return any(map(_is_float8, (*op.operands, *op.results)))


def _expand(op: Operation) -> None:
    w = Rewriter(op)
    if op.name in ("arith.negf", "math.absf") and isinstance(t.elem(op.operands[0].type), Float8E4M3FNType | Float8E5M2Type):
        bits = w.cast("tt.bitcast", op.operands[0], t.I8)
        shape = t.shape_of(bits.type)
        if op.name == "arith.negf":
            bits = w.binary("arith.xori", bits, w.const(_SIGN, t.I8, shape))
        else:
            bits = w.binary("arith.andi", bits, w.const(_SIGN - 1, t.I8, shape))
        w.replace([w.cast("tt.bitcast", bits, t.elem(op.results[0].type))])
        return
    operands = [w.cast("tt.fp_to_fp", x, t.F32) if _is_float8(x) else x for x in op.operands]
    types = [t.with_elem(r.type, t.F32) if _is_float8(r) else r.type for r in op.results]
    wide = w.op(type(op), operands, types, op.properties)
    w.replace([_rounded(w, x, t.elem(old.type)) if _is_float8(old) else x for x, old in zip(wide, op.results, strict=True)])


def _rounded(w: Rewriter, x: SSAValue, elem: Attribute) -> SSAValue:
    """Rounds float32 to an 8-bit float without saturating."""
    saturated = w.cast("tt.bitcast", w.cast("tt.fp_to_fp", x, elem), t.I8)
    shape = t.shape_of(x.type)
    dtype = numpy_dtype(elem)
    with np.errstate(over="ignore"):
        beyond = np.float32(np.inf).astype(dtype).view(np.uint8)
    largest = float(ml_dtypes.finfo(dtype).max)
    gap = largest - float(np.nextafter(dtype.type(largest), dtype.type(0)))
    halfway = np.float32(largest + gap / 2)
    goes_up = not np.isfinite(halfway.astype(dtype).astype(np.float32))  # where the tie is rounded to
    over = w.cmpf("oge" if goes_up else "ogt", w.unary("math.absf", x), w.const(float(halfway), t.F32, shape))
    special = w.const(int(beyond), t.I8, shape)
    if int(beyond) != _SIGN:  # the one NaN of formats without a negative zero has the bits of its sign
        special = w.binary("arith.ori", special, w.binary("arith.andi", saturated, w.const(_SIGN, t.I8, shape)))
    return w.cast("tt.bitcast", w.select(over, special, saturated), elem)


@dataclass(frozen=True)
class ExpandFloat8(FunctionPass):
    """Computes with 8-bit floats in float32, and rounds once."""

    name = "expand-float8"

    def run(self, function: FuncOp) -> None:
        expand_float8(function)

    def is_needed(self, function: FuncOp) -> bool:
        return any(map(_computes, function.walk()))
