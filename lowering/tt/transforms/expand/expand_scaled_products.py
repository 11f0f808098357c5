"""Expands tt.dot_scaled into other operations, for back ends without instructions for it.

Operands become float32: bytes are unpacked with shifts, elements converted, and multiplied by their scales,
whose bits are made into a float32 (e8m0: the exponent field; 0 is the denormal 2**-127, 255 NaN). A `tt.dot`
in float32 follows, which names the narrower type that has room for all bits of such operands, for back ends
that multiply those faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from ... import types as t
from ...builder.block_builder import BlockBuilder
from ...dialect.functions import FuncOp
from ...dialect.memory.pointers import BitcastOp
from ...dialect.scaled import DotScaledOp, ScaledOperand, element_dtype
from ...facts import EXACT
from ..function_pass import FunctionPass
from ..rewriting import Rewriter

_SMALL = ("e2m1", "e2m3", "e3m2")
_FLOAT8 = ("e4m3", "e5m2")


def expand_dot_scaled(function: Operation) -> None:
    """Replaces every `tt.dot_scaled` of a function in place."""
    for op in list(function.walk()):
        if isinstance(op, DotScaledOp):
            rewriter = Rewriter(op)
            rewriter.replace([_expansion(rewriter, op, rewriter.args)])


def _expansion(b: BlockBuilder, op: DotScaledOp, operands: list[SSAValue]) -> SSAValue:
    left, right, total, *scales = operands
    a_side, b_side = op.side("a"), op.side("b")
    rank = len(a_side.shape)
    x, y = _elements(b, a_side, left), _elements(b, b_side, right)
    if a_side.scale is not None:
        x = b.binary("arith.mulf", x, _factors(b, scales.pop(0), a_side.group))
    if b_side.scale is not None:
        factors = _factors(b, scales.pop(0), b_side.group)
        y = b.binary("arith.mulf", y, b.trans(factors, (*range(rank - 2), rank - 1, rank - 2)))
    result = t.elem(total.type)
    if result == t.F64:
        x, y = b.cast("arith.extf", x, t.F64), b.cast("arith.extf", y, t.F64)
        return b.dot(x, y, total)
    product = b.dot(x, y, total if result == t.F32 else b.cast("arith.extf", total, t.F32))
    bits = max(_bits(a_side), _bits(b_side))
    narrow = next((name for name, room in (("bf16", 8), ("tf32", 11)) if bits <= room), None)
    if narrow is not None and isinstance(product, OpResult):
        product.op.attributes[EXACT] = StringAttr(narrow)
    return product if result == t.F32 else b.cast("arith.truncf", product, result)


def _bits(side: ScaledOperand) -> int:
    """Returns the significant bits of an element times its scale, which is a power of two or an e4m3
    number."""
    dtypes = [element_dtype(side.kind)]
    if side.scale is not None and t.is_float(side.scale.type):
        dtypes.append(element_dtype("e4m3"))
    return sum(1 + dtype.mantissa_bits for dtype in dtypes)


def _elements(b: BlockBuilder, side: ScaledOperand, value: SSAValue) -> SSAValue:
    """Returns the elements of one side as float32, (…, M, K) or (…, K, N)."""
    if side.kind in _SMALL:
        return _small(b, side, value)
    if side.kind in _FLOAT8:
        stored = t.scalar_type(element_dtype(side.kind))
        value = value if t.elem(value.type) == stored else _bitcast(b, value, stored)
        return b.cast("tt.fp_to_fp", value, t.F32)
    return b.cast("arith.extf", value, t.F32)


def _small(b: BlockBuilder, side: ScaledOperand, value: SSAValue) -> SSAValue:
    """Converts elements of four or six bits to float32. Their bits, moved to where float32 has the low bits
    of its exponent and the high ones of its mantissa, differ from their value only by the difference of the
    biases: a power of two, which is exact for denormals as well."""
    bits = b.cast("arith.extui", value, t.I32)
    if side.packed_axis is not None:
        bits = _interleaved(b, bits, _shifted(b, "arith.shrui", bits, 4), side.packed_axis, side.shape)
    dtype = element_dtype(side.kind)
    magnitude_bits, mantissa_bits, bias = dtype.bits - 1, dtype.mantissa_bits, 1 - dtype.min_exponent
    shape = t.shape_of(bits.type)
    magnitude = b.binary("arith.andi", bits, b.const((1 << magnitude_bits) - 1, t.I32, shape))
    sign = b.binary("arith.andi", bits, b.const(1 << magnitude_bits, t.I32, shape))
    pattern = b.binary(
        "arith.ori",
        _shifted(b, "arith.shli", magnitude, 23 - mantissa_bits),
        _shifted(b, "arith.shli", sign, 31 - magnitude_bits),
    )
    return b.binary("arith.mulf", _bitcast(b, pattern, t.F32), b.const(2.0 ** (127 - bias), t.F32, shape))


def _interleaved(b: BlockBuilder, low: SSAValue, high: SSAValue, axis: int, shape: Sequence[int]) -> SSAValue:
    """Emits low[0], high[0], low[1], … along the axis of a block that then has this shape."""
    rank = len(shape)
    order = [*range(axis + 1), rank, *range(axis + 1, rank)]
    pairs = b.join(low, high)
    return b.reshape(pairs if order == sorted(order) else b.trans(pairs, order), shape)


def _factors(b: BlockBuilder, scale: SSAValue, group: int) -> SSAValue:
    """Converts scales (…, K/group) to float32 (…, K)."""
    shape = t.shape_of(scale.type)
    if t.is_float(scale.type):
        factors = b.cast("tt.fp_to_fp", scale, t.F32)
    else:
        exponent = b.cast("arith.extui", scale, t.I32)
        factors = _shifted(b, "arith.shli", exponent, 23)
        for special, bits in ((0, 1 << 22), (255, 0x7FC00000)):
            is_special = b.cmpi("eq", exponent, b.const(special, t.I32, shape))
            factors = b.select(is_special, b.const(bits, t.I32, shape), factors)
        factors = _bitcast(b, factors, t.F32)
    spread = b.broadcast(b.expand_dims(factors, len(shape)), (*shape, group))
    return b.reshape(spread, (*shape[:-1], shape[-1] * group))


def _shifted(b: BlockBuilder, name: str, value: SSAValue, distance: int) -> SSAValue:
    return b.binary(name, value, b.const(distance, t.I32, t.shape_of(value.type)))


def _bitcast(b: BlockBuilder, value: SSAValue, elem: Attribute) -> SSAValue:
    (result,) = b.op(BitcastOp, (value,), (t.with_elem(value.type, elem),))
    return result


@dataclass(frozen=True)
class ExpandScaledProducts(FunctionPass):
    """Writes `tt.dot_scaled` as scaled operands and `tt.dot`."""

    name = "expand-scaled-products"

    def run(self, function: FuncOp) -> None:
        expand_dot_scaled(function)
