"""Defines float functions of two operands beyond the op table. Special values follow C99 Annex F."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from ...promotion.dtype import DType, float32, float64, int32
from ..construction import primitives
from ..graph import graph_of
from ..protocols import TensorLike
from ..symbol import Symbol
from .building import apply, as_floats

_PI = Fraction(31415926535897932384626433832795028841971693993751, 10**49)
_INFINITY, _MIN_POWER, _MAX_POWER, _POWERS = 0x7F800000, 0x00800000, 0x7E800000, 0x7F000000
"""Bits of float32: of infinity, 2⁻¹²⁶ and 2¹²⁶, and the sum of those of a power of two and of its reciprocal."""
_Pair = Callable[[Symbol, Symbol], Symbol]


def copysign(x: TensorLike, y: TensorLike) -> Symbol:
    """Return |x| with the sign of `y`, zeros and NaN included.

    Bools and integers become the default float.
    """
    value, sign = graph_of("copysign", x, y).promoted("copysign", (x, y), "div")
    return _signed(value, sign)


def hypot(x: TensorLike, y: TensorLike) -> Symbol:
    """Compute √(x² + y²) without overflow or underflow on the way.

    An infinite operand gives infinity, even beside NaN. Bools and integers become the default float. float32 is within
    1.5 ulp, as are 16-bit floats, which are computed in it; float64 is within 4 ulp.
    """
    return _in_float("hypot", x, y, _hypot)


def atan2(y: TensorLike, x: TensorLike) -> Symbol:
    """Compute the angle of the point (x, y) in [-π, π], as numpy.arctan2: within 2 ulp in float32.

    Signed zeros and infinities are as in C: atan2(±0, -0) is ±π, atan2(±inf, -inf) is ±3π/4. Bools and
    integers become the default float; 16-bit floats are computed in float32 and rounded once.
    """
    return _in_float("atan2", y, x, _atan2)


def _in_float(op: str, first: TensorLike, second: TensorLike, function: _Pair) -> Symbol:
    result, (a, b) = as_floats(op, first, second)
    return primitives.cast(function(a, b), result)


def _hypot(x: Symbol, y: Symbol) -> Symbol:
    a, b = apply("abs", x), apply("abs", y)
    if x.dtype is not float64:
        a, b = (primitives.cast(side, float32) for side in (a, b))
        return primitives.cast(_length(a, b), x.dtype)
    infinite = (a == math.inf) | (b == math.inf)
    large, small = apply("maximum", a, b), apply("minimum", a, b)
    plain = (large == 0.0) | infinite
    ratio = small / apply("where", plain, 1.0, large)
    length = large * apply("sqrt", ratio * ratio + 1.0)
    return apply("where", infinite, math.inf, apply("where", plain, large, length))


def _length(a: Symbol, b: Symbol) -> Symbol:
    """Compute √(a² + b²) in float32 of numbers without a sign, in units of the power of two of the larger one: no square leaves
    the range of float32 so, and both products with powers of two are exact.

    Bits of numbers without a sign are in their order; those of NaN are above those of infinity.
    """
    bits = [primitives.bitcast(side, int32) for side in (a, b)]
    power = apply("bitwise_and", apply("maximum", *bits), _INFINITY)
    power = apply("minimum", apply("maximum", power, _MIN_POWER), _MAX_POWER)
    unit = primitives.bitcast(power, float32)
    scale = primitives.bitcast(_POWERS - power, float32)
    a, b = a * scale, b * scale
    length = apply("sqrt", a * a + b * b) * unit
    return apply("where", apply("minimum", *bits) == _INFINITY, math.inf, length)


def _atan2(y: Symbol, x: Symbol) -> Symbol:
    """Compute the arctangent of a number in [0, 1], and the rest of the circle by its symmetries.

    The angle is added to 0, π/2 or π, or subtracted; π and π/2 are sums of two floats.
    """
    a, b = apply("abs", x), apply("abs", y)
    steep = b > a
    large, small = apply("where", steep, b, a), apply("where", steep, a, b)  # `large` is NaN if x or y is
    ratio = small / apply("where", large == 0.0, 1.0, large)
    ratio = apply("where", (large == math.inf) & (small == math.inf), 1.0, ratio)
    angle = apply("atan", ratio)
    left = _is_negative(x)
    angle = apply("where", apply("logical_xor", left, steep), -angle, angle)
    sums = [_in_two_parts(number, x) for number in (_PI / 2, _PI, Fraction(0))]
    high, low = [
        apply("where", steep, half, apply("where", left, whole, zero)) for half, whole, zero in zip(*sums, strict=True)
    ]
    total = high + angle
    return _signed(total + (angle - (total - high) + low), y)


def _in_two_parts(number: Fraction, x: Symbol) -> tuple[Symbol, Symbol]:
    """Return a number as a float of the dtype of x and what that lacks."""
    high = float(number) if x.dtype.bits == 64 else _float32(number)
    return x.graph.scalar(high, x.dtype), x.graph.scalar(float(number - Fraction(high)), x.dtype)


def _float32(number: Fraction) -> float:
    """Round a number, which is not tiny, to the 24 significant bits of float32."""
    _, exponent = math.frexp(float(number))
    scale = Fraction(2) ** (24 - exponent)
    return float(round(number * scale) / scale)


def _bits_of(x: Symbol) -> Symbol:
    return primitives.bitcast(x, DType(f"uint{x.dtype.bits}"))


def _is_negative(x: Symbol) -> Symbol:
    """Return the sign bit as bool; that of -0.0 is set."""
    bits = _bits_of(x)
    return apply("greater_equal", bits, _top_of(bits))


def _signed(x: Symbol, sign: Symbol) -> Symbol:
    """Return |x| with the sign bit of a value of the same dtype."""
    magnitude, bits = _bits_of(x), _bits_of(sign)
    top = _top_of(bits)
    return primitives.bitcast((magnitude & ~top) | (bits & top), x.dtype)


def _top_of(bits: Symbol) -> Symbol:
    """Return the highest bit of an unsigned integer, in its dtype whatever rule set the graph has."""
    return bits.graph.scalar(1 << (bits.dtype.bits - 1), bits.dtype)
