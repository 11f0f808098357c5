"""Holds the composites between complex numbers and their parts: everything else that is computed of them is made of these.

Kernels hold a complex64 as 64 bits, whose halves are the parts. A complex128 is two elements (`lowering/graph_passes/wide.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....promotion.dtype import DType, complex64, complex128, float32, float64, uint32, uint64
from ....promotion.errors import UserError
from ....promotion.literals import Operand
from ....promotion.result_rules import Promotion, ResultRule
from ....promotion.rules import RuleSet, dtype_of
from ...checks import Checks, ShapeError
from ...protocols import SymbolLike
from ...types import Shape
from ..attributes import Attributes
from ..building import apply, cast
from ..opdef import OpDef
from ..shape import broadcast_shapes

PARTS: dict[DType, DType] = {complex64: float32, complex128: float64}
"""Dtypes of complex numbers → those of their parts."""
WHOLE: dict[DType, DType] = {part: whole for whole, part in PARTS.items()}
NAMES = ("real", "imag", "complex", "complex_parts")
_HALF = np.array(32, np.uint64)
"""The bits of a part, with a dtype: rule sets differ in what they make of a literal."""


def is_wide(symbol: SymbolLike) -> bool:
    """Return whether a symbol makes or takes apart complex128."""
    return symbol.op.name in NAMES and complex128 in (symbol.dtype, symbol.inputs[0].dtype)


def _part(rule_set: RuleSet, operands: Sequence[Operand], op: str, dtype: DType | None) -> Promotion:
    (own,) = [dtype_of(operand) for operand in operands]
    if own not in PARTS:
        raise UserError(f"{op}: not defined for {own}; fix: pass complex64 or complex128")
    return Promotion((own,), PARTS[own])


def _whole(rule_set: RuleSet, operands: Sequence[Operand], op: str, dtype: DType | None) -> Promotion:
    own = tuple([dtype_of(operand) for operand in operands])
    if own[0] not in WHOLE or own[0] is not own[1]:
        raise UserError(f"{op}: parts of {own[0]} and {own[1]}; fix: pass two tensors of float32, or of float64")
    return Promotion(own, WHOLE[own[0]])


PART = ResultRule("PART", "the operand is complex; the result is a float of half its bits", _part)
OF_PARTS = ResultRule("OF_PARTS", "operands are float32 or float64, both alike; the result is complex", _whole)


def _same(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    return broadcast_shapes(shapes, checks)


def _real(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    return apply("bitcast", cast(apply("bitcast", x, dtype=uint64), uint32), dtype=float32)


def _imaginary(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    bits = apply("bitcast", x, dtype=uint64)
    high = apply("shift_right", bits, _HALF)
    return apply("bitcast", cast(high, uint32), dtype=float32)


def _paired(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    if not shapes[0]:
        raise ShapeError("no axis", "an axis along which the parts of a number are neighbours")
    return (*shapes[0][:-1], 2 * shapes[0][-1])


def _pairs(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    parts = [apply("reshape", apply(name, x), shape=(*x.shape, 1)) for name in ("real", "imag")]
    return apply("reshape", apply("concat", *parts, axis=len(x.shape)), shape=symbol.shape)


def _complex(symbol: SymbolLike, real: SymbolLike, imaginary: SymbolLike) -> SymbolLike:
    low, high = (cast(apply("bitcast", part, dtype=uint32), uint64) for part in (real, imaginary))
    return apply("bitcast", apply("bitwise_or", apply("shift_left", high, _HALF), low), dtype=complex64)



ROWS = (
    OpDef("real", "composite", 1, "The real parts.", PART, _same, expand=_real, traits=frozenset(("any_dtype",))),
    OpDef("imag", "composite", 1, "The imaginary parts.", PART, _same, expand=_imaginary, traits=frozenset(("any_dtype",))),
    OpDef("complex", "composite", 2, "Complex numbers of real and imaginary parts.", OF_PARTS, _same, expand=_complex,
          traits=frozenset(("any_dtype",))),
    OpDef("complex_parts", "composite", 1, "The real and the imaginary parts as neighbours along the last axis.", PART, _paired,
          expand=_pairs, traits=frozenset(("any_dtype", "internal"))),
)  # fmt: skip
