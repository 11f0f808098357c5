"""Emits conversions between 8-bit floats and float as inline LLVM IR.

The bits are in i8 lanes and computed with integers and one float addition. Formats are as in the OCP 8-bit
specification and in ml_dtypes, by dtype name (`FORMATS`, and "float8_e8m0fnu", the powers of two of the microscaling
formats) or by block element name ("f8E4M3FN").
"""

from __future__ import annotations

import math

from ...promotion.dataclass import dataclass
from ...promotion.dtype import BY_MLIR_NAME, DTYPES, DType
from ...promotion.errors import InternalError
from . import values
from .ir import Function
from .values import V, with_element


@dataclass(frozen=True, slots=True)
class Float8:
    """A format of 8-bit floats: sign, exponent, `mantissa` bits. `unsigned_zero`: one zero and one NaN, 0x80 ("uz" formats)."""

    mantissa: int
    bias: int
    infinity: bool = False
    unsigned_zero: bool = False

    @property
    def max_code(self) -> int:
        """The bits of the largest finite value."""
        if self.infinity:
            return self.infinity_code - 1
        return 0x7F if self.unsigned_zero else 0x7E

    @property
    def infinity_code(self) -> int:
        return 0x7F >> self.mantissa << self.mantissa

    @property
    def nan_code(self) -> int:
        """The magnitude bits of the NaN that conversions produce."""
        if self.unsigned_zero:
            return 0x80
        return self.infinity_code | 1 << (self.mantissa - 1) if self.infinity else 0x7F


SCALE_FORMAT = "float8_e8m0fnu"


def _format(dtype: DType) -> Float8:
    return Float8(dtype.mantissa_bits, 1 - dtype.min_exponent, dtype.has_infinity, dtype.unsigned_zero)


FORMATS = {
    name: _format(dtype) for name, dtype in DTYPES.items() if dtype.is_float and dtype.bits == 8 and name != SCALE_FORMAT
}


def _dtype_name(name: str) -> str:
    """Returns the dtype name, `float8_e4m3fn` for itself and for the block element name `f8E4M3FN`."""
    result = BY_MLIR_NAME[name].name if name in BY_MLIR_NAME else name
    if result not in FORMATS and result != SCALE_FORMAT:
        raise InternalError(f"{name!r} is not an 8-bit float; there are {', '.join(FORMATS)}, {SCALE_FORMAT}")
    return result


def float_to_fp8(fn: Function, x: V, name: str, saturate: bool = True) -> V:
    """Converts float lanes to i8 lanes, to nearest even, denormals kept, NaN stays NaN (with its sign where there is one).

    Overflow, infinity included: the largest finite value if `saturate`, else infinity or, in formats without it, NaN. Into
    float8_e8m0fnu ties go up, and numbers that are not positive become NaN (as in ml_dtypes). From double go through
    `double_to_odd_float`: then the value is rounded once.
    """
    if values.element(x.type) != "float":
        raise InternalError(f"float_to_fp8 takes float lanes, got {x.type}")
    name = _dtype_name(name)
    if name == SCALE_FORMAT:
        return _float_to_scale(fn, x, saturate)
    form = FORMATS[name]
    i32 = with_element(x.type, "i32")

    def c(value: int) -> V:
        return values.const(value, i32)

    x_bits = fn.bitcast(x, i32)
    magnitude = fn.binary("and", x_bits, c(0x7FFFFFFF))
    drop = 23 - form.mantissa
    # Normal results: add half an ulp less one, plus the last bit kept; a carry moves into the exponent by itself.
    odd = fn.binary("and", fn.binary("lshr", magnitude, c(drop)), c(1))
    rounded = fn.add(fn.add(magnitude, c((1 << (drop - 1)) - 1)), odd)
    code = fn.sub(fn.binary("lshr", rounded, c(drop)), c((127 - form.bias) << form.mantissa))
    # Denormal results: the float unit rounds when a number with the right last place is added.
    smallest_normal = math.ldexp(1.0, 1 - form.bias)
    aligner = math.ldexp(1.0, 1 - form.bias + drop)
    aligned = fn.binary("fadd", fn.bitcast(magnitude, x.type), values.const(aligner, x.type))
    aligner_bits = 127 + 1 - form.bias + drop << 23
    denormal = fn.sub(fn.bitcast(aligned, i32), c(aligner_bits))
    is_denormal = fn.icmp("ult", magnitude, c(_float_bits(smallest_normal)))
    code = fn.select(is_denormal, denormal, code)
    overflow = form.max_code if saturate else form.infinity_code if form.infinity else form.nan_code
    code = fn.select(fn.icmp("sgt", code, c(form.max_code)), c(overflow), code)
    code = fn.select(fn.icmp("ugt", magnitude, c(0x7F800000)), c(form.nan_code), code)
    sign = fn.binary("and", fn.binary("lshr", x_bits, c(24)), c(0x80))
    if form.unsigned_zero:  # 0x80 is NaN, so zero has no sign
        sign = fn.select(fn.icmp("eq", code, c(0)), c(0), sign)
    return fn.cast("trunc", fn.binary("or", code, sign), with_element(x.type, "i8"))


def step_toward_zero(fn: Function, code: V, x: V, name: str) -> V:
    """Moves `code`, which is `float_to_fp8(fn, x, name)`, to the truncated value where rounding went away from zero."""
    back = fp8_to_float(fn, code, name)
    away = fn.fcmp("ogt", fn.intrinsic("fabs", [back]), fn.intrinsic("fabs", [x]))
    code = fn.sub(code, fn.cast("zext", away, code.type))
    name = _dtype_name(name)
    if name == SCALE_FORMAT or not FORMATS[name].unsigned_zero:
        return code
    vanished = fn.binary("and", away, fn.icmp("eq", code, values.const(0x80, code.type)))
    return fn.select(vanished, values.const(0, code.type), code)


def fp8_to_float(fn: Function, bits: V, name: str) -> V:
    """Converts i8 lanes to float lanes, exactly; NaN keeps its sign where the format has one."""
    if values.element(bits.type) != "i8":
        raise InternalError(f"fp8_to_float takes i8 lanes, got {bits.type}")
    name = _dtype_name(name)
    if name == SCALE_FORMAT:
        return _scale_to_float(fn, bits)
    form = FORMATS[name]
    i32, real = with_element(bits.type, "i32"), with_element(bits.type, "float")

    def c(value: int) -> V:
        return values.const(value, i32)

    code_bits = fn.cast("zext", bits, i32)
    code = fn.binary("and", code_bits, c(0x7F))
    sign = fn.binary("shl", fn.binary("and", code_bits, c(0x80)), c(24))
    shifted = fn.binary("shl", code, c(23 - form.mantissa))
    normal = fn.add(shifted, c((127 - form.bias) << 23))
    scale = values.const(math.ldexp(1.0, 1 - form.bias - form.mantissa), real)
    denormal = fn.bitcast(fn.binary("fmul", fn.cast("sitofp", code, real), scale), i32)
    value = fn.select(fn.icmp("ult", code, c(1 << form.mantissa)), denormal, normal)
    if form.infinity:
        value = fn.select(fn.icmp("eq", code, c(form.infinity_code)), c(0x7F800000), value)
        value = fn.select(fn.icmp("ugt", code, c(form.infinity_code)), c(0x7FC00000), value)
    elif form.unsigned_zero:
        value = fn.select(fn.icmp("eq", code_bits, c(0x80)), c(0x7FC00000), value)
    else:
        value = fn.select(fn.icmp("eq", code, c(0x7F)), c(0x7FC00000), value)
    return fn.bitcast(fn.binary("or", value, sign), real)


def _float_to_scale(fn: Function, x: V, saturate: bool) -> V:
    i32 = with_element(x.type, "i32")

    def c(value: int) -> V:
        return values.const(value, i32)

    x_bits = fn.bitcast(x, i32)
    # The code is float's own exponent. Denormals count as 2^-127 (code 0), halfway to 2^-126 being 0x600000.
    half = fn.select(fn.icmp("ult", x_bits, c(0x800000)), c(0x200000), c(0x400000))
    code = fn.binary("lshr", fn.add(x_bits, half), c(23))
    code = fn.intrinsic("umin", [code, c(0xFE if saturate else 0xFF)])
    valid = fn.fcmp("ogt", x, values.const(0.0, x.type))
    return fn.cast("trunc", fn.select(valid, code, c(0xFF)), with_element(x.type, "i8"))


def _scale_to_float(fn: Function, bits: V) -> V:
    i32 = with_element(bits.type, "i32")
    code = fn.cast("zext", bits, i32)
    value = fn.binary("shl", code, values.const(23, i32))
    value = fn.select(fn.icmp("eq", code, values.const(0, i32)), values.const(0x400000, i32), value)
    value = fn.select(fn.icmp("eq", code, values.const(0xFF, i32)), values.const(0x7FC00000, i32), value)
    return fn.bitcast(value, with_element(bits.type, "float"))


def _float_bits(value: float) -> int:
    """Returns the bits of a float32 power of two."""
    return math.frexp(value)[1] - 1 + 127 << 23
