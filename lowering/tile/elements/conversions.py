"""Emits casts and bit casts of block values for every pair of dtypes that has one, with one rounding per
cast.

float → integer truncates, saturates and maps NaN to 0; integers wrap; anything → bool is `x != 0`. Where a
conversion would round twice (float64 → tensor_float32, int32 → bfloat16) the first step rounds to odd (Boldo
& Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
"""

from __future__ import annotations

import itertools
import math

from xdsl.ir import SSAValue

from ....promotion.casts import overflow_limit
from ....promotion.dtype import DType
from ....promotion.errors import UnsupportedError
from ...tt.builder.block_builder import BlockBuilder
from ...tt.types import (
    BF16,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    bit_width,
    elem,
    is_float,
    scalar_type,
    shape_of,
)
from ..blocks import register_type

INTEGER_OF_WIDTH = {8: I8, 16: I16, 32: I32, 64: I64}


def like(b: BlockBuilder, value: int | float | bool, x: SSAValue) -> SSAValue:
    """Emits the constant `value` with the type of `x`."""
    return b.const(value, elem(x.type), shape_of(x.type))


def is_eight_bits(dtype: DType) -> bool:
    return dtype.is_float and dtype.bits == 8


def round_tensor_float32(b: BlockBuilder, x: SSAValue) -> SSAValue:
    """Rounds float32 to 10 mantissa bits, to nearest even; NaN, infinities and signs are kept."""
    bits = b.cast("tt.bitcast", x, I32)
    odd = b.binary("arith.andi", b.binary("arith.shrui", bits, like(b, 13, bits)), like(b, 1, bits))
    biased = b.binary("arith.addi", bits, b.binary("arith.addi", odd, like(b, 0xFFF, bits)))
    rounded = b.cast("tt.bitcast", b.binary("arith.andi", biased, like(b, ~0x1FFF, bits)), F32)
    return b.select(b.cmpf("uno", x, x), x, rounded)


_TOO_LARGE = 1 << 17
"""More than any float of 16 bits but bfloat16, and than any of 8 bits, so that integers beyond become what this does."""


def cast(
    b: BlockBuilder, x: SSAValue, source: DType, target: DType, rounding: str = "nearest", saturate: bool = True
) -> SSAValue:
    """Converts `x` from dtype `source` to `target`.

    `rounding` is "nearest" or "toward_zero"; `saturate` makes 8-bit floats stop at their largest finite
    value. Raises `UnsupportedError` for storage-only dtypes, which have no conversions.
    """
    if source is target:
        return x
    if source.storage_only or target.storage_only or source.is_complex or target.is_complex:
        raise UnsupportedError(
            f"cast from {source} to {target}: values of storage-only dtypes cannot be converted"
        )
    if rounding not in ("nearest", "toward_zero"):
        raise UnsupportedError(f'cast: rounding {rounding!r}; known: "nearest", "toward_zero"')
    if source.is_float:
        if is_eight_bits(source):
            x = b.cast("tt.fp_to_fp", x, F32)
        elif source.bits == 4:
            x = _from_four_bits(b, x)
        if target.is_float:
            return _float_to_float(b, x, target, rounding == "toward_zero", saturate)
        if target.is_bool:
            return b.cmpf("une", x, like(b, 0.0, x))
        return _float_to_integer(b, x, target)
    if target.is_bool:
        return b.cmpi("ne", x, like(b, 0, x))
    if target.is_float:
        return _integer_to_float(b, x, source, target, rounding == "toward_zero", saturate)
    return _resize(b, x, source, target)


def _resize(b: BlockBuilder, x: SSAValue, source: DType, target: DType) -> SSAValue:
    """Converts an integer or bool to an integer, modulo 2**bits."""
    to = register_type(target)
    if bit_width(to) > bit_width(x.type):
        x = b.cast("arith.extsi" if source.kind == "int" else "arith.extui", x, to)
    elif bit_width(to) < bit_width(x.type):
        x = b.cast("arith.trunci", x, to)
    return low_bits(b, x, target) if target.bits < 8 and source.bits != 1 else x


def low_bits(b: BlockBuilder, x: SSAValue, dtype: DType) -> SSAValue:
    """Makes the value of an integer of 2 or 4 bits from the low bits of an i8."""
    if dtype.kind == "uint":
        return b.binary("arith.andi", x, like(b, (1 << dtype.bits) - 1, x))
    rest = like(b, 8 - dtype.bits, x)
    return b.binary("arith.shrsi", b.binary("arith.shli", x, rest), rest)


def _float_to_integer(b: BlockBuilder, x: SSAValue, target: DType) -> SSAValue:
    """Converts a float to an integer. In the block IR, conversions saturate and map NaN to 0; types that they do not
    convert to are clamped here."""
    if elem(x.type) in (F16, BF16):
        x = b.cast("arith.extf", x, F32)
    if target.bits > 16:
        op = "arith.fptosi" if target.kind == "int" else "arith.fptoui"
        return b.cast(op, x, register_type(target))
    # Floats hold both ends, and take fewer instructions to clamp than what else would be converted.
    x = b.binary("arith.maximumf", x, like(b, float(target.min_value), x))
    x = b.binary("arith.minimumf", x, like(b, float(target.max_value), x))
    return b.cast("arith.trunci", b.cast("arith.fptosi", x, I32), register_type(target))


def _integer_to_float(
    b: BlockBuilder, x: SSAValue, source: DType, target: DType, toward_zero: bool, saturate: bool
) -> SSAValue:
    op = "arith.sitofp" if source.kind == "int" else "arith.uitofp"
    direct = register_type(target)
    digits = source.bits - (source.kind == "int")
    if digits > 24 and target.is_float and float(target.max_value) < _TOO_LARGE:
        x, op, digits = _not_beyond(b, x, source), "arith.sitofp", 18
    if target.name in ("float32", "float64") and (not toward_zero or digits <= target.mantissa_bits + 1):
        return b.cast(op, x, direct)
    if digits <= 24:  # exact in float32
        return _float_to_float(b, b.cast(op, x, F32), target, toward_zero, saturate)
    if digits > 53:
        x = _fold_low_bits(b, x, source, sticky=not toward_zero)
    return _float_to_float(b, b.cast(op, x, F64), target, toward_zero, saturate)


def _not_beyond(b: BlockBuilder, x: SSAValue, source: DType) -> SSAValue:
    """Makes i32 of integers, of which those that are too large for a small float stay so."""
    if source.kind == "int":
        x = b.binary("arith.maxsi", x, like(b, -_TOO_LARGE, x))
    x = b.binary("arith.minsi" if source.kind == "int" else "arith.minui", x, like(b, _TOO_LARGE, x))
    return x if bit_width(x.type) == 32 else b.cast("arith.trunci", x, I32)


def _fold_low_bits(b: BlockBuilder, x: SSAValue, source: DType, sticky: bool) -> SSAValue:
    """Makes 64-bit integers exact in float64: rounds them to odd at eleven bits (`sticky`), or truncates them
    to 53 digits."""
    zero, low = like(b, 0, x), like(b, 0x7FF, x)
    magnitude, negative = x, None
    if source.kind == "int":
        negative = b.cmpi("slt", x, zero)
        magnitude = b.select(negative, b.binary("arith.subi", zero, x), x)
    if sticky:
        lost = b.cmpi("ne", b.binary("arith.andi", magnitude, low), zero)
        kept = b.binary("arith.andi", magnitude, like(b, ~0x7FF, x))
        kept = b.binary("arith.ori", kept, b.select(lost, like(b, 0x800, x), zero))
        kept = b.select(b.cmpi("ugt", magnitude, like(b, 2**53, x)), kept, magnitude)
    else:  # exactly the bits below the 53 leading ones
        surplus = b.binary("arith.subi", like(b, 64 - 53, x), b.unary("math.ctlz", magnitude))
        surplus = b.binary("arith.maxsi", surplus, zero)
        kept = b.binary("arith.shli", b.binary("arith.shrui", magnitude, surplus), surplus)
    return kept if negative is None else b.select(negative, b.binary("arith.subi", zero, kept), kept)


def _float_to_float(b: BlockBuilder, x: SSAValue, target: DType, toward_zero: bool, saturate: bool) -> SSAValue:
    """Converts `x`, which is f16, bf16, f32 or f64 of any shape, to `target`."""
    if target.bits == 4:
        return _to_four_bits(b, x, toward_zero)
    have, want = elem(x.type), scalar_type(target)
    if is_eight_bits(target):
        if not target.is_signed:  # powers of two only: neither zero nor negative numbers
            x = x if have in (F32, F64) else b.cast("arith.extf", x, F32)
            positive = b.cmpf("ogt", x, like(b, 0.0, x))
            x = b.select(
                positive, b.binary("arith.maximumf", x, like(b, target.min_value, x)), like(b, math.nan, x)
            )
        return _to_eight_bits(b, _to_single(b, x, toward_zero), target, toward_zero, saturate)
    if target.name == "tensor_float32":
        single = _to_single(b, x, toward_zero)
        if not toward_zero:
            return single if have == F16 else round_tensor_float32(b, single)
        bits = b.cast("tt.bitcast", single, I32)
        cut = b.cast("tt.bitcast", b.binary("arith.andi", bits, like(b, ~0x1FFF, bits)), F32)
        return b.select(b.cmpf("uno", single, single), single, cut)
    if have == want:
        return x
    if bit_width(want) > bit_width(have):
        return b.cast("arith.extf", x, want)
    if bit_width(want) == bit_width(have):  # float16 and bfloat16: neither holds the other
        x = b.cast("arith.extf", x, F32)
    near = b.cast("arith.truncf", x, want)
    return _step_back(b, x, near, b.cast("arith.extf", near, elem(x.type))) if toward_zero else near


def _step_back(b: BlockBuilder, x: SSAValue, near: SSAValue, back: SSAValue) -> SSAValue:
    """Moves the rounded value one step towards zero where rounding to nearest went away from zero."""
    away = b.cmpf("ogt", b.unary("math.absf", back), b.unary("math.absf", x))
    bits = b.cast("tt.bitcast", near, INTEGER_OF_WIDTH[bit_width(near.type)])
    return b.cast(
        "tt.bitcast", b.select(away, b.binary("arith.subi", bits, like(b, 1, bits)), bits), elem(near.type)
    )


def _to_single(b: BlockBuilder, x: SSAValue, toward_zero: bool) -> SSAValue:
    """Converts to a float32 from which rounding to fewer bits is as if done once: exact, rounded to odd, or
    truncated."""
    if elem(x.type) == F32:
        return x
    if elem(x.type) != F64:
        return b.cast("arith.extf", x, F32)
    near = b.cast("arith.truncf", x, F32)
    back = b.cast("arith.extf", near, F64)
    stepped = _step_back(b, x, near, back)
    if toward_zero:
        return stepped
    bits = b.cast("tt.bitcast", stepped, I32)
    lost = b.cmpf("one", back, x)
    infinite = b.cmpf("oeq", b.unary("math.absf", x), like(b, math.inf, x))
    odd = b.cast("tt.bitcast", b.select(lost, b.binary("arith.ori", bits, like(b, 1, bits)), bits), F32)
    return b.select(infinite, near, odd)


def _to_eight_bits(b: BlockBuilder, x: SSAValue, target: DType, toward_zero: bool, saturate: bool) -> SSAValue:
    """Converts float32 to an 8-bit float. tt.fp_to_fp rounds to nearest even and stops at the largest finite value."""
    result = b.cast("tt.fp_to_fp", x, scalar_type(target))
    if toward_zero:
        result = _step_back(b, x, result, b.cast("tt.fp_to_fp", result, F32))
        if target.name.endswith(
            "fnuz"
        ):  # the step from the smallest negative number leads to NaN, there is no -0
            bits = b.cast("tt.bitcast", result, I8)
            fell = b.binary("arith.andi", b.cmpi("eq", bits, like(b, -128, bits)), b.cmpf("ord", x, x))
            result = b.cast("tt.bitcast", b.select(fell, like(b, 0, bits), bits), scalar_type(target))
    if saturate:
        return result
    limit = math.inf if toward_zero else overflow_limit(target)
    # A number halfway to the next one rounds up, unless the largest finite value is the even one of the two.
    relation = "oge" if toward_zero or _largest_is_odd(target) else "ogt"
    outside = b.cmpf(relation, b.unary("math.absf", x), like(b, limit, x))
    bits = b.cast("tt.bitcast", result, I8)
    if target.has_infinity:  # the sign of the largest finite value, the magnitude of infinity
        infinity = ((1 << target.exponent_bits) - 1) << target.mantissa_bits
        beyond = b.binary(
            "arith.ori", b.binary("arith.andi", bits, like(b, -128, bits)), like(b, infinity, bits)
        )
    else:
        beyond = b.cast("tt.bitcast", b.cast("tt.fp_to_fp", like(b, math.nan, x), scalar_type(target)), I8)
    return b.cast("tt.bitcast", b.select(outside, beyond, bits), scalar_type(target))


_FOUR_BITS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""The magnitudes of float4_e2m1fn by their codes."""


def _to_four_bits(b: BlockBuilder, x: SSAValue, toward_zero: bool) -> SSAValue:
    """Converts a float to the code of a float4_e2m1fn in an i8: the sign, and how many magnitudes it reaches.

    A number halfway between two goes to the one of even code; NaN reaches none and becomes -0.0.
    """
    if elem(x.type) in (F16, BF16):
        x = b.cast("arith.extf", x, F32)
    magnitude = b.unary("math.absf", x)
    bits = b.cast("tt.bitcast", x, INTEGER_OF_WIDTH[bit_width(x.type)])
    negative = b.binary("arith.ori", b.cmpi("slt", bits, like(b, 0, bits)), b.cmpf("uno", x, x))
    code = b.binary("arith.shli", b.cast("arith.extui", negative, I8), like(b, 3, b.cast("arith.extui", negative, I8)))
    for number, (below, value) in enumerate(itertools.pairwise(_FOUR_BITS)):
        limit = value if toward_zero else (below + value) / 2
        reached = b.cmpf("oge" if toward_zero or number % 2 else "ogt", magnitude, like(b, limit, magnitude))
        code = b.binary("arith.addi", code, b.cast("arith.extui", reached, I8))
    return code


def _from_four_bits(b: BlockBuilder, x: SSAValue) -> SSAValue:
    """Converts the code of a float4_e2m1fn in an i8 to float32, by the bits of that."""
    bits = b.cast("arith.extui", b.binary("arith.andi", x, like(b, 15, x)), I32)
    fraction = b.binary("arith.shli", b.binary("arith.andi", bits, like(b, 7, bits)), like(b, 22, bits))
    normal = b.binary("arith.addi", fraction, like(b, 126 << 23, bits))
    magnitude = b.binary("arith.andi", bits, like(b, 7, bits))
    small = b.select(b.cmpi("eq", magnitude, like(b, 0, bits)), like(b, 0, bits), like(b, 126 << 23, bits))
    magnitude = b.select(b.cmpi("ult", magnitude, like(b, 2, bits)), small, normal)
    sign = b.binary("arith.shli", b.binary("arith.shrui", bits, like(b, 3, bits)), like(b, 31, bits))
    return b.cast("tt.bitcast", b.binary("arith.ori", magnitude, sign), F32)


def _largest_is_odd(dtype: DType) -> bool:
    fraction, _ = math.frexp(dtype.max_value)
    return int(math.ldexp(fraction, dtype.mantissa_bits + 1)) % 2 == 1


def bitcast(b: BlockBuilder, x: SSAValue, source: DType, target: DType) -> SSAValue:
    """Reinterprets the bits as another dtype of the same width; bool's one byte counts as eight bits, smaller
    types have their own. Raises `UnsupportedError` for different widths."""
    if (
        1 not in (source.bits, target.bits) and source.bits != target.bits
    ) or source.itemsize != target.itemsize:
        raise UnsupportedError(f"bitcast from {source} ({source.bits} bits) to {target} ({target.bits} bits)")
    if source is target:
        return x
    if source.is_bool:
        x = b.cast("arith.extui", x, I8)
    if target.is_bool:
        bits = x if not is_float(x.type) else b.cast("tt.bitcast", x, I8)
        return b.cmpi("ne", bits, like(b, 0, bits))
    if source.bits < 8 and target.is_integer:
        return low_bits(b, x, target)
    if source.bits == 4:
        return b.binary("arith.andi", x, like(b, 15, x))
    return b.cast("tt.bitcast", x, register_type(target))


def from_memory(b: BlockBuilder, x: SSAValue, dtype: DType) -> SSAValue:
    """Converts a loaded value of `memory_type` to its register form."""
    if dtype.is_bool:
        return b.cmpi("ne", x, like(b, 0, x))
    return low_bits(b, x, dtype) if dtype.is_integer and dtype.bits < 8 else x


def to_memory(b: BlockBuilder, x: SSAValue, dtype: DType) -> SSAValue:
    """Converts a value in register form to what is stored; values of fewer than 8 bits fill the low bits of
    their byte, as in ml_dtypes."""
    if dtype.is_bool:
        return b.cast("arith.extui", x, I8)
    return b.binary("arith.andi", x, like(b, (1 << dtype.bits) - 1, x)) if dtype.kind == "int" and dtype.bits < 8 else x
