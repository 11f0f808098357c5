"""Emits number conversions as inline LLVM IR: one rounding, to nearest even; NaN stays NaN; denormals are kept.

All functions take a scalar or a vector of any number of lanes and return the same number of lanes. They
exist where LLVM's own instruction would call a run-time library (`__truncsfbf2`), flush denormals
(AVX512-BF16), leave the result undefined (`fptosi` out of range) or round twice.

"Register form" is how the host back end holds a block element: f64 as double, f32 as float, f16 and bf16 as
float already rounded to them, 8-bit floats as their bits (i8). Formats of 8-bit floats: `conversions_fp8`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any

from ...promotion.errors import InternalError
from . import conversions_fp8 as fp8
from . import values
from .ir import Function, mangle
from .masks.signs import lowest_bit
from .values import V, const, i32, lanes, with_element


def _expect(x: V, *elements: str) -> None:
    if values.element(x.type) not in elements:
        raise InternalError(f"conversion of {x.type}: expected lanes of {' or '.join(elements)}")


def _op(fn: Function, opcode: str, a: V, b: V | int) -> V:
    return fn.binary(opcode, a, b if isinstance(b, V) else values.const(b, a.type))


def _is_nan(fn: Function, x: V) -> V:
    return fn.fcmp("uno", x, x)


# -- bfloat16 -------------------------------------------------------------------


def float_to_bfloat_bits(fn: Function, x: V) -> V:
    """Converts float to the 16 bits of the nearest bfloat16 (i16 lanes).

    NaN keeps its sign and upper payload and becomes quiet.
    """
    _expect(x, "float")
    bits = fn.bitcast(x, with_element(x.type, "i32"))
    high = _op(fn, "lshr", bits, 16)
    rounded = fn.add(bits, _op(fn, "add", _op(fn, "and", high, 1), 0x7FFF))
    chosen = fn.select(_is_nan(fn, x), _op(fn, "or", high, 0x40), _op(fn, "lshr", rounded, 16))
    return fn.cast("trunc", chosen, with_element(x.type, "i16"))


def bfloat_bits_to_float(fn: Function, bits: V) -> V:
    """Converts the 16 bits of bfloat16 values (i16 lanes) to float, exactly."""
    _expect(bits, "i16")
    wide = fn.cast("zext", bits, with_element(bits.type, "i32"))
    return fn.bitcast(_op(fn, "shl", wide, 16), with_element(bits.type, "float"))


def float_to_bfloat(fn: Function, x: V) -> V:
    return fn.bitcast(float_to_bfloat_bits(fn, x), with_element(x.type, "bfloat"))


def bfloat_to_float(fn: Function, x: V) -> V:
    _expect(x, "bfloat")
    return bfloat_bits_to_float(fn, fn.bitcast(x, with_element(x.type, "i16")))


def double_to_bfloat(fn: Function, x: V) -> V:
    return float_to_bfloat(fn, double_to_odd_float(fn, x))


# -- float16 and float32 ----------------------------------------------------------


def float_to_half(fn: Function, x: V) -> V:
    """Converts float to half: one instruction with F16C, AVX-512 or on AArch64; the target must have one of them."""
    _expect(x, "float")
    return fn.cast("fptrunc", x, with_element(x.type, "half"))


def half_to_float(fn: Function, x: V) -> V:
    _expect(x, "half")
    return fn.cast("fpext", x, with_element(x.type, "float"))


def double_to_odd_float(fn: Function, x: V) -> V:
    """Rounds double to odd as float (Boldo and Melquiond): exact values stay, others go to the neighbour with an odd last bit.

    A second rounding, to at most 22 bits of precision, then gives what rounding the double once would have given.
    """
    truncated, back = _toward_zero(fn, x)
    inexact = fn.fcmp("one", back, x)
    bits = fn.binary("or", truncated, fn.cast("zext", inexact, truncated.type))
    return fn.bitcast(bits, with_element(x.type, "float"))


def _toward_zero(fn: Function, x: V) -> tuple[V, V]:
    """Returns the bits of the float next to a double toward zero (infinities and NaN stay), and the nearest float as double."""
    _expect(x, "double")
    bits_type = with_element(x.type, "i32")
    nearest = fn.cast("fptrunc", x, with_element(x.type, "float"))
    back = fn.cast("fpext", nearest, x.type)
    beyond = fn.fcmp("ogt", fn.intrinsic("fabs", [back]), fn.intrinsic("fabs", [x]))
    return fn.sub(fn.bitcast(nearest, bits_type), fn.cast("zext", beyond, bits_type)), back


def double_to_half(fn: Function, x: V) -> V:
    return float_to_half(fn, double_to_odd_float(fn, x))


def round_to_tf32(fn: Function, x: V) -> V:
    """Rounds float to 10 mantissa bits (TensorFloat-32), to nearest even; overflow gives inf."""
    _expect(x, "float")
    if "tf32" in fn.module.features and x.type == "float":
        bits = fn.pure(f'call i32 asm "cvt.rn.tf32.f32 $0, $1;", "=r,f"(float {x.operand()})', "i32")
        return fn.bitcast(_op(fn, "and", bits, ~0x1FFF), "float")  # the ISA leaves the other bits undefined
    bits = fn.bitcast(x, with_element(x.type, "i32"))
    odd = _op(fn, "and", _op(fn, "lshr", bits, 13), 1)
    rounded = _op(fn, "and", fn.add(bits, _op(fn, "add", odd, 0xFFF)), ~0x1FFF)
    return fn.select(_is_nan(fn, x), x, fn.bitcast(rounded, x.type))


def convert_float(fn: Function, x: V, to: str) -> V:
    """Converts any of half, bfloat, float, double to any other, rounded once."""
    _expect(x, "half", "bfloat", "float", "double")
    source = values.element(x.type)
    if to not in ("half", "bfloat", "float", "double"):
        raise InternalError(f"convert_float to {to!r}: not a float element")
    if source == to:
        return x
    if source == "double":
        if to == "float":
            return fn.cast("fptrunc", x, with_element(x.type, to))
        return double_to_half(fn, x) if to == "half" else double_to_bfloat(fn, x)
    middle = half_to_float(fn, x) if source == "half" else bfloat_to_float(fn, x) if source == "bfloat" else x
    if to == "double":
        return fn.cast("fpext", middle, with_element(x.type, to))
    if to == "float":
        return middle
    return float_to_half(fn, middle) if to == "half" else float_to_bfloat(fn, middle)


# -- register form ------------------------------------------------------------------


def round_to_bfloat(fn: Function, x: V) -> V:
    """Rounds float to a bfloat16 value, as float."""
    return bfloat_bits_to_float(fn, float_to_bfloat_bits(fn, x))


def round_to_half(fn: Function, x: V) -> V:
    """Rounds float to a float16 value, as float; infinite from 65520 on."""
    return half_to_float(fn, float_to_half(fn, x))


def _round_float(fn: Function, x: V, target: str) -> V:
    if target not in ("f32", "f16", "bf16"):
        raise InternalError(f"{target!r} is not f32, f16 or bf16")
    return x if target == "f32" else round_to_half(fn, x) if target == "f16" else round_to_bfloat(fn, x)


def round_double(fn: Function, x: V, target: str) -> V:
    """Rounds double to the register form of f32, f16 or bf16."""
    if target == "f32":
        return fn.cast("fptrunc", x, with_element(x.type, "float"))
    return _round_float(fn, double_to_odd_float(fn, x), target)


def truncate_float(fn: Function, x: V, source: str, target: str) -> V:
    """Truncates f64, f32, f16 or bf16 to the register form of f16 or bf16, or f64 to f32, toward zero.

    A number that is too large becomes the largest finite value; infinities and NaN stay.
    """
    if target == "f32":
        return fn.bitcast(_toward_zero(fn, x)[0], with_element(x.type, "float"))
    value = double_to_odd_float(fn, x) if source == "f64" else x
    integers = with_element(value.type, "i32")
    n = lanes(value.type)

    def number(v: float) -> V:
        return const(v, value.type)

    dropped = 0xFFFF0000 if target == "bf16" else 0xFFFFE000
    mask = fn.splat(i32(dropped - (1 << 32)), n)
    kept = fn.bitcast(fn.binary("and", fn.bitcast(value, integers), mask), value.type)
    if target == "f16":
        size = fn.intrinsic("fabs", [value])
        steps = fn.intrinsic("trunc", [fn.binary("fmul", value, number(2.0**24))])
        small = fn.fcmp("olt", size, number(2.0**-14))
        kept = fn.select(small, fn.intrinsic("copysign", [fn.binary("fmul", steps, number(2.0**-24)), value]), kept)
        finite = fn.fcmp("olt", size, number(math.inf))
        large = fn.binary("and", finite, fn.fcmp("ogt", size, number(65504.0)))
        kept = fn.select(large, fn.intrinsic("copysign", [number(65504.0), value]), kept)
    return fn.select(fn.fcmp("uno", value, value), number(math.nan), kept)


def convert_fp8(fn: Function, x: V, source: str, target: str, rounding: str = "rtne") -> V:
    """Converts as `tt.fp_to_fp` does where source or target (block element names) is an 8-bit float, in register form.

    8-bit results saturate at the largest finite value, infinities too. `rounding`: "rtne", or "rtz" toward zero.
    """
    if rounding not in ("rtne", "rtz"):
        raise InternalError(f"rounding {rounding!r} is neither rtne nor rtz")
    if source.startswith("f8"):
        value = fp8.fp8_to_float(fn, x, source)
    elif source == "f64":
        value = double_to_odd_float(fn, x)
    else:
        value = x
    if target.startswith("f8"):
        code = fp8.float_to_fp8(fn, value, target)
        if rounding == "rtne":
            return code
        return fp8.step_toward_zero(fn, code, value, target)
    if target == "f64":
        return fn.cast("fpext", value, with_element(x.type, "double"))
    return _round_float(fn, value, target)  # rounds only f8E8M0FNU to f16


def half_value(value: float) -> float:
    """Returns the float16 nearest to a number, as a Python float; infinite where it overflows."""
    try:
        return float(struct.unpack("<e", struct.pack("<e", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def bfloat_value(value: float) -> float:
    """Returns the bfloat16 nearest to a number, as a Python float; infinite where it overflows."""
    if value == 0 or not math.isfinite(value):
        return value
    ulp = math.ldexp(1.0, max(math.frexp(value)[1], -125) - 8)
    rounded = math.copysign(round(value / ulp) * ulp, value)
    return rounded if abs(rounded) < 2.0**128 else math.copysign(math.inf, value)


# -- float → integer ----------------------------------------------------------------


def float_to_int_saturating(fn: Function, x: V, to: str, signed: bool) -> V:
    """Converts half, bfloat, float or double to `to`, up to i16, i32 or i64: toward zero, saturated, NaN → 0.

    LLVM's `fptosi` is undefined out of range and `llvm.fptosi.sat` is slow on vectors; here only safe
    values reach `fptosi`.
    """
    bits = values.bits(to)
    if to[0] != "i" or not (bits <= 16 or bits in (32, 64)):
        raise InternalError(f"float_to_int_saturating to {to}")
    if values.element(x.type) in ("half", "bfloat"):
        x = convert_float(fn, x, "float")
    _expect(x, "float", "double")
    target = with_element(x.type, f"i{bits}")
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    if bits <= 16 or (bits == 32 and signed and values.element(x.type) == "double"):
        # Both ends are floats: clamp, then convert through i32.
        bottom, top = values.const(low, x.type), values.const(high, x.type)
        x = fn.select(fn.fcmp("ogt", x, top), top, x)
        x = fn.select(fn.fcmp("olt", x, bottom), bottom, x)
        x = fn.select(fn.fcmp("ord", x, x), x, values.const(0, x.type))
        whole = fn.cast("fptosi", x, with_element(x.type, "i32"))
        return lowest_bit(fn, whole) if bits == 1 else whole if bits == 32 else fn.cast("trunc", whole, target)
    if lanes(x.type) > 1 and "avx512f" not in fn.module.features and "sse4.1" in fn.module.features:
        if bits == 64:
            wide = with_element(x.type, "double")
            return _to_halves(fn, x if x.type == wide else fn.cast("fpext", x, wide), signed)
        if not signed:
            return _to_unsigned(fn, x)
    limit = values.const(math.ldexp(1.0, bits - 1 if signed else bits), x.type)
    below = fn.fcmp("olt", x, limit)
    # Unsigned: everything above -1 truncates to 0 or more.
    above = fn.fcmp("oge" if signed else "ogt", x, values.const(float(low if signed else -1), x.type))
    safe = fn.select(fn.binary("and", below, above), x, values.const(0, x.type))
    value = fn.cast("fptosi" if signed else "fptoui", safe, target)
    value = fn.select(fn.fcmp("oge", x, limit), values.const(high, target), value)
    if signed:
        value = fn.select(fn.fcmp("olt", x, values.const(float(low), x.type)), values.const(low, target), value)
    return value


def _clamped_below(fn: Function, x: V, low: float) -> V:
    """Returns max(x, low), and low for NaN: one instruction."""
    bottom = values.const(low, x.type)
    return fn.select(fn.fcmp("ogt", x, bottom), x, bottom)


def _to_halves(fn: Function, x: V, signed: bool) -> V:
    """Converts doubles to i64 as `float_to_int_saturating`, by 32 bits at a time, for processors that convert no vectors.

    Half an integer, added to 2^52, lies in the low bits of the sum.
    """
    target = with_element(x.type, "i64")
    low, high = (-(2.0**63), (1 << 63) - 1) if signed else (0.0, -1)
    limit = 2.0**63 if signed else 2.0**64
    whole = fn.intrinsic("trunc", [_clamped_below(fn, x, low)])
    upper = fn.intrinsic("floor", [fn.binary("fmul", whole, values.const(2.0**-32, x.type))])
    lower = fn.fma(upper, values.const(-(2.0**32), x.type), whole)
    ones, room = fn.binary("fadd", upper, values.const(1.5 * 2.0**52, x.type)), values.const(2.0**52, x.type)
    found = _op(fn, "shl", fn.bitcast(ones, target), 32)
    below = fn.binary("xor", fn.bitcast(fn.binary("fadd", lower, room), target), fn.bitcast(room, target))
    found = fn.binary("or", found, below)
    found = fn.select(fn.fcmp("oge", x, values.const(limit, x.type)), values.const(high, target), found)
    return fn.select(fn.fcmp("ord", x, x), found, values.zero(target)) if signed else found


def _to_unsigned(fn: Function, x: V) -> V:
    """Converts float or double to u32 as `float_to_int_saturating`, through signed integers: from 2^31 on less that."""
    target = with_element(x.type, "i32")
    positive = _clamped_below(fn, x, 0.0)
    if values.element(x.type) == "double":
        top, half = values.const(float((1 << 32) - 1), x.type), values.const(-(2.0**31), x.type)
        whole = fn.intrinsic("trunc", [fn.select(fn.fcmp("ogt", positive, top), top, positive)])
        return _op(fn, "xor", fn.cast("fptosi", fn.binary("fadd", whole, half), target), -(1 << 31))
    limit, half = values.const(2.0**32, x.type), values.const(2.0**31, x.type)
    fits = fn.fcmp("olt", positive, limit)
    safe = fn.select(fits, positive, values.zero(x.type))
    far = fn.fcmp("oge", safe, half)
    near = fn.cast("fptosi", fn.binary("fsub", safe, fn.select(far, half, values.zero(x.type))), target)
    found = fn.binary("xor", near, fn.select(far, values.const(-(1 << 31), target), values.zero(target)))
    return fn.select(fits, found, values.const(-1, target))


NEAREST = "joinery.nearest_integer"
"""The operation of `nearest_integer`."""
CLAMPED = "joinery.clamped"
"""Of a conversion of floats that are NaN or lie in the range of the integers."""
POSITIVE = "joinery.positive_integer"
"""The operation of `positive_integer`."""


def positive_integer(fn: Function, x: V, high: int) -> V:
    """Converts floats that are at most `high`, or NaN, toward zero to integers from 0 on; NaN → 0. LLVM packs those in one
    instruction where they are shortened."""
    to, n = with_element(x.type, "i32"), lanes(x.type)
    if n % 4 == 0:  # what the instruction makes of NaN, and of numbers out of range, is negative
        each, name = (8, "avx.cvtt.ps2dq.256") if n % 8 == 0 and "avx" in fn.module.features else (4, "sse2.cvttps2dq")
        parts = [x if n == each else fn.shuffle(x, x, range(first, first + each)) for first in range(0, n, each)]
        whole = fn.concatenated([fn.target_intrinsic(f"llvm.x86.{name}", [part], values.vector("i32", each)) for part in parts])
    else:
        whole = fn.cast("fptosi", _clamped_below(fn, x, 0.0), to)
    whole = fn.intrinsic("smax", [whole, values.zero(to)])
    return fn.intrinsic("smin", [whole, values.const(high, to)])


def clamped_float_to_int(fn: Function, x: V, to: str) -> V:
    """Converts floats of which it is known that they are in range, or NaN, toward zero; NaN → 0."""
    return fn.select(fn.fcmp("ord", x, x), fn.cast("fptosi", x, to), values.zero(to))


def nearest_integer(fn: Function, x: V, attrs: Mapping[str, Any]) -> V:
    """Rounds floats that int32 can hold, or NaN, half to even, and adds an offset; NaN → 0.

    One instruction rounds and converts. attrs: the offset; whether the sum is in int32, but not yet between `low` and `high`
    (`fits`); whether none is NaN (`number`).
    """
    to = with_element(x.type, "i32")
    name = f"llvm.lrint.{mangle(to)}.{mangle(x.type)}"
    whole = fn.target_intrinsic(name, [x], to)
    if attrs["offset"]:
        whole = fn.add(whole, values.const(attrs["offset"], to))
    if "fits" in attrs:
        whole = fn.intrinsic("smax", [whole, values.const(attrs["low"], to)])
        return fn.intrinsic("smin", [whole, values.const(attrs["high"], to)])
    return whole if "number" in attrs else fn.select(fn.fcmp("ord", x, x), whole, values.zero(to))


# -- integer → float ----------------------------------------------------------------


def int_to_float(fn: Function, x: V, to: str, signed: bool) -> V:
    """Converts integer lanes to the register form of f64, f32, f16 or bf16, rounded once; too large for f16 gives inf."""
    if to in ("f64", "f32"):
        return fn.cast(
            "sitofp" if signed else "uitofp", x, with_element(x.type, "double" if to == "f64" else "float")
        )
    width = values.bits(values.element(x.type))
    if width <= 32:  # exact in float
        exact = _odd_to_bits(fn, x, signed, 24) if width == 32 else x
        return _round_float(fn, int_to_float(fn, exact, "f32", signed), to)
    return round_double(fn, int_to_float(fn, _odd_to_bits(fn, x, signed, 52), "f64", signed), to)


def _odd_to_bits(fn: Function, x: V, signed: bool, bits: int) -> V:
    """Shortens integer lanes to at most `bits` significant bits, which round to 16-bit floats as x does.

    Large values lose their low bits, with a sticky bit in place of them. Two's complement truncation works toward -inf, which
    the odd last bit undoes as well.
    """
    dropped = values.bits(values.element(x.type)) - bits
    low = _op(fn, "and", x, (1 << dropped) - 1)
    sticky = fn.cast("zext", fn.icmp("ne", low, values.zero(x.type)), x.type)
    shortened = fn.binary("or", _op(fn, "and", x, -(1 << dropped)), _op(fn, "shl", sticky, dropped))
    magnitude = fn.binary("xor", x, _op(fn, "ashr", x, bits + dropped - 1)) if signed else x
    small = fn.icmp("ult", magnitude, values.const(1 << bits, x.type))
    return fn.select(small, x, shortened)
