"""Emits exponentials and activations whose relative error stays within a few ulp over the whole range.

An exponential turns the absolute error of its argument into a relative error: exp(-a²/2) of a rounded square
is off by 60 ulp at a = 10, and so is exp(x - m) of a rounded difference. So the argument is kept as a sum of
two numbers, or reduced from the operand itself. In float32, with e^h = 2^k 2^w, k an integer and |w| <= 1/2:

* w is one fused multiply-add per part of the argument and of log2 e, each rounded below 2^-25;
* 2^w is `math.exp2` of a reduced argument, a polynomial (host) or one instruction (GPUs);
* 2^k is carried as 2^(k + 64), a normal number down to results of 0, and the last product takes 2^-64 back, so
  that denormal results are rounded once.

Operands are float32 or float64 blocks; 16-bit ones are widened before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from ....promotion.dtype import DType
from ...libdevice import elementary
from ...llvm.math.tables.polynomials import ATAN_SHORT
from ...tt.builder.block_builder import BlockBuilder
from ...tt.transforms.expression import Expr
from ...tt.types import F32, F64, elem
from .floats import Floats, Operand

ROUNDER = 12582912.0
"""1.5 · 2^23: added to a float32 it leaves the nearest integer in the low bits of the sum."""
_EXTRA = 64
_CUTOFF = 189
"""Weights below 2^-189 times the largest are raised to that: 0 in every quotient, and normal with the factor
2^64."""
NEAR = 2.0**20
"""Maxima up to this are subtracted in the exponent alone; beyond, the differences that matter are exact."""


def _split(value: float, rest: float = 0.0) -> tuple[float, float]:
    """Splits a number into the sum of two float32."""
    high = float(np.float32(value))
    return high, float(np.float32(value - high + rest))


LOG2E = _split(math.log2(math.e))
_TANH = 2 * math.sqrt(2 / math.pi)
_CUBIC = 0.044715

# Φ(-a) = exp(-a²/2) · P(a) / R(a) for 0 <= a <= 14.5, all float32. Vector units of hosts multiply in two pipes and add in two
# others, so P and R have leading coefficients of 1, and R, with P a rational minimax fit (iterated least squares) to
# erfcx(a / √2) / 2, is evaluated as (y + a + s2) y + s3, y = (a + s0) a + s1: two products for four (Knuth, "Evaluation of
# polynomials by computer", 1962). a² = k _STEP + r with |r| <= _STEP / 2, where _STEP is 2 ln 2 (1 + 6e-7) rounded: 2^-k for
# exp(-k _STEP / 2) makes a factor exp(6e-7 a² / 2), which the fit takes up, and which brings its error from 3.6e-7 to 1.4e-7.
# The last factor of all coefficients, 0.3987, is in those of exp(-r / 2), which has relative error 7.6e-8, and so is 2^-11.
_STEP = 1.386295199394226
_PHI_P = (34.08993148803711, 23.378591537475586, 7.436179161071777)
_PHI_R = (3.2099082469940186, 4.999680519104004, 1.0088342428207397, -2.854681968688965)
_PHI_EXP = (
    0.0001946967822732404, -9.734829654917121e-05, 2.433652480249293e-05, -4.056398211105261e-06, 5.100601470076072e-07,
    -5.0484185720733876e-08,
)  # fmt: skip
_PHI_SCALE = 2.0**-11

# The same in float64 for 0 <= a <= 39: t S(u) with t = 4 / (4 + a) and u its image in [-1, 1]; relative error 1.9e-16. The
# interpolating polynomial in 42 Chebyshev nodes, computed with mpmath at 300 bits and cut where coefficients are below 1e-16.
_PHI_64 = (
    0.2038345992106292, 0.15531102555618134, 0.09097668420676289, 0.03909248886698618, 0.01072658169410569,
    0.0008147115475050299, -0.0006253647621592918, -0.00018435522292487933, 3.680199953837872e-05, 2.211754444899217e-05,
    -3.405497607097222e-06, -2.6159823098237816e-06, 5.457845489326543e-07, 3.034925280173001e-07, -1.0843799683730244e-07,
    -2.8819551388032485e-08, 2.0480373871384362e-08, 8.231803425186702e-10, -3.0757049372952213e-09, 3.9205839848699386e-10,
    2.6550380918326583e-10, -6.609680632682194e-11,
)  # fmt: skip
_T_END = 4.0 / 43.0


def exp_shifted(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    """Emits e^(x - m) times a number that depends on m alone, for x <= m, of which softmax takes quotients.

    float32: 2^64 e^x 2^-K with K = round(m log2 e), where |m| <= 2^20. Then nothing is subtracted before the
    exponential, and the factor is within √2 of 2^64 e^-m. Where m is larger, x - m is exact for all x that
    matter. Weights that are 0 beside the largest stay above 0, but their quotients by the largest are 0.
    """
    del dtype
    x, top = operands
    f = Floats(b, x)
    if elem(x.type) == F64:
        return _exp_difference(f, x, top)
    power, shifted = _exp_shifted(f, x, top, 127.0)
    return f.mul(power, f.power(f.bits(shifted)))


def exp_shifted_unchecked(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    """Emits `exp_shifted`, but any number where m is NaN."""
    x, top = operands
    f = Floats(b, x)
    if elem(x.type) == F64:
        return exp_shifted(b, operands, dtype)
    return f.turned(*_exp_shifted(f, x, top, 0.0))


def where_below(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    """Emits x where y < z, 0 where y = z, and either where y - z is NaN."""
    del dtype
    x, y, z = operands
    f = Floats(b, x)
    if elem(x.type) != F32:
        return f.where("olt", y, z, x, 0.0)
    return f.float_of(f.integer("arith.andi", f.bits(x), _below(f, y, z)))


def one_unless_below(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    """Emits 1 where x = y, 0 where x < y, and either where x - y is NaN."""
    del dtype
    x, y = operands
    f = Floats(b, x)
    if elem(x.type) != F32:
        return f.where("olt", x, y, 0.0, 1.0)
    one = int(np.float32(1.0).view(np.int32))
    return f.float_of(f.integer("arith.andi", f.integer("arith.xori", _below(f, x, y), -1), one))


def _below(f: Floats, x: SSAValue, y: Operand) -> SSAValue:
    """Emits -1 where x < y and 0 where x = y, from the sign of x - y, which is 0 only for equal float32. A
    comparison would use the pipes of hosts' vector units that multiply."""
    return f.integer("arith.shrsi", f.bits(f.sub(x, y)), 31)


def _exp_difference(f: Floats, x: SSAValue, top: SSAValue) -> SSAValue:
    """Emits e^(x - m) in float64."""
    difference, rest = f.sum(x, f.neg(top))
    weight = f.exp(difference)
    return f.where("oeq", rest, rest, f.fma(weight, rest, weight), weight)


def _exp_shifted(f: Floats, x: SSAValue, top: SSAValue, bias: float) -> tuple[SSAValue, SSAValue]:
    """Emits `exp_shifted` in float32 as a factor 2^w near 1 and a float whose low bits are the exponent of 2
    plus `bias`."""
    near = f.compare("ole", f.abs(top), NEAR)
    shift = f.select(near, 0.0, top)
    exponent = f.select(near, f.sub(f.fma(top, LOG2E[0], ROUNDER), ROUNDER), 0.0)
    offset = f.sub(ROUNDER + _EXTRA + bias, exponent)
    lowest = f.mul(f.sub(exponent, float(_CUTOFF)), math.log(2.0))
    shifted, w = f.rounded(f.at_least(f.sub(x, shift), lowest), LOG2E, offset)
    return f.exp2(w), shifted


def x_phi(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    """Emits x Φ(x) = max(x, 0) - |x| Φ(-|x|): above 0 at least half of max(x, 0) is left, and below 0 nothing
    cancels."""
    del dtype
    (x,) = operands
    f = Floats(b, x)
    positive = f.at_least(x, -0.0)
    if elem(x.type) == F64:
        a = f.at_most(f.abs(x), f.end("x_phi", x))
        square, rest = f.product(a, a)
        decay = f.exp(f.mul(square, -0.5))
        decay = f.fma(decay, f.mul(rest, -0.5), decay)
        t = f.div(4.0, f.add(a, 4.0))
        u = f.fma(t, 2 / (1 - _T_END), -(1 + _T_END) / (1 - _T_END))
        value = f.fma(f.mul(f.mul(a, t), f.poly(u, _PHI_64)), f.neg(decay), positive)
        return f.normal("x_phi", x, value, positive)
    a = f.at_most(f.abs(x), f.end("x_phi", x))
    square, rest = f.product(a, a)
    offset = ROUNDER + _EXTRA
    exponent = f.fma(square, -1.0 / _STEP, offset)
    r = f.add(f.fma(f.sub(exponent, offset), _STEP, square), rest)
    p0, p1, p2 = _PHI_P
    numerator = f.fma(f.fma(f.add(a, p2), a, p1), a, p0)
    s0, s1, s2, s3 = _PHI_R
    y = f.fma(f.add(a, s0), a, s1)
    denominator = f.fma(f.add(y, f.add(a, s2)), y, s3)
    tail = f.turned(f.in_range(f.mul(f.poly(r, _PHI_EXP), numerator), denominator), exponent)
    value = f.fma(f.mul(a, tail), -(2.0**-_EXTRA) / _PHI_SCALE, positive)
    return f.normal("x_phi", x, value, positive)


def x_sigmoid(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    """Emits x / (1 + exp(-x))."""
    del dtype
    return _sigmoid_product(b, "x_sigmoid", operands[0], 1.0)


def x_sigmoid_quick(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    """Emits x / (1 + exp(-1.702 x))."""
    del dtype
    return _sigmoid_product(b, "x_sigmoid_quick", operands[0], 1.702, 4.263256414560601e-17)


def x_sigmoid_tanh(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    """Emits x/2 · (1 + tanh h) with h = √(2/π) (x + 0.044715 x³), which is x / (1 + exp(-2h))."""
    del dtype
    (x,) = operands
    f = Floats(b, x)
    if elem(x.type) == F64:
        a = f.at_most(f.abs(x), f.end("x_sigmoid_tanh", x))
        return _sigmoid_product_64(f, "x_sigmoid_tanh", x, _cubic_64(f, a))
    a = f.at_most(f.at_least(x, -f.end("x_sigmoid_tanh", x)), _TANH_END)
    square, rest = f.product(a, a)
    cube, lost = f.product(a, square)
    lost = f.fma(a, rest, lost)
    linear, cubic = _split(-_TANH * math.log2(math.e)), _split(-_TANH * _CUBIC * math.log2(math.e))
    first, w = f.rounded(a, linear, ROUNDER - _LESS)
    second, v = f.rounded(cube, cubic, ROUNDER)
    w = f.add(w, f.fma(lost, cubic[0], v))
    third = f.add(w, ROUNDER)
    w = f.sub(w, f.sub(third, ROUNDER))
    return _finished(f, "x_sigmoid_tanh", x, a, _TANH_END, f.turned(f.exp2(w), first, second, third))


def _sigmoid_product(b: BlockBuilder, name: str, x: SSAValue, slope: float, rest: float = 0.0) -> SSAValue:
    """Emits x / (1 + exp(-(slope + rest) x))."""
    f = Floats(b, x)
    if elem(x.type) == F64:
        a = f.at_most(f.abs(x), f.end(name, x))
        high, low = (a, None) if slope == 1.0 else f.product(a, slope)
        if low is not None and rest:
            low = f.fma(a, rest, low)
        return _sigmoid_product_64(f, name, x, (high, low))
    a = f.at_most(f.at_least(x, -f.end(name, x)), _END)
    shifted, w = f.rounded(a, _split(-slope * math.log2(math.e)), ROUNDER - _LESS)
    return _finished(f, name, x, a, _END, f.turned(f.exp2(w), shifted))


_LESS = 40
"""exp(-h) is carried as 2^-40 exp(-h), which is finite and normal wherever it matters."""
_END = 32.0
_TANH_END = 8.0
"""Bounds of x, powers of two, from which on exp(-h) is negligible beside 1, so that the result is x."""


def _finished(f: Floats, name: str, x: SSAValue, a: SSAValue, end: float, z: SSAValue) -> SSAValue:
    """Emits x / (1 + 2^40 z), where a is x clamped, to at most `end`, and -0 for large negative x whose result is
    denormal; x above `end` is the sum of `end` and the rest, which is within an ulp."""
    rest = f.at_least(f.sub(x, end), -0.0)
    quotient = f.in_range(1.0, f.add(z, 2.0**-_LESS))
    return f.normal(name, x, f.fma(f.mul(a, quotient), 2.0**-_LESS, rest), rest)


_SHIFT = 64.0


def _sigmoid_product_64(f: Floats, name: str, x: SSAValue, size: tuple[SSAValue, SSAValue | None]) -> SSAValue:
    """Emits x / (1 + exp(-h)) in float64, where `size` is |h| in two parts and h has the sign of x. With z =
    exp(-|h|), e^-64 is factored out where z might be denormal."""
    high, low = size
    far = f.compare("ogt", high, _SHIFT)
    z = f.exp(f.sub(f.select(far, _SHIFT, 0.0), high))
    z = z if low is None else f.fma(z, f.neg(low), z)
    factor = f.select(far, math.exp(-_SHIFT), 1.0)
    below = f.compare("olt", x, 0.0)
    quotient = f.div(f.select(below, z, 1.0), f.fma(z, factor, 1.0))
    return f.normal(name, x, f.mul(f.mul(f.at_least(x, -f.end(name, x)), quotient), f.select(below, factor, 1.0)))


# 2 √(2/π) and its product with 0.044715 as sums of two float64.
_TANH_64 = (1.5957691216057308, -9.96930880911092e-17)
_CUBIC_64 = (0.07135481627260025, -6.175149918155315e-19)


def _cubic_64(f: Floats, a: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Emits 2h of `x_sigmoid_tanh` in two parts."""
    square, rest = f.product(a, a)
    cube, lost = f.product(a, square)
    lost = f.fma(a, rest, lost)
    first, first_low = f.product(a, _TANH_64[0])
    second, second_low = f.product(cube, _CUBIC_64[0])
    high, low = f.sum(first, second)
    low = f.add(low, f.fma(a, _TANH_64[1], first_low))
    return high, f.add(low, f.fma(lost, _CUBIC_64[0], f.fma(cube, _CUBIC_64[1], second_low)))


def cbrt(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    """Emits the cube root."""
    del dtype
    (x,) = operands
    return elementary.cbrt(Expr(b, x)).v


def atan_ratio(b: BlockBuilder, operands: Sequence[SSAValue], dtype: DType) -> SSAValue:
    """Emits the arctangent of 0 <= x <= 1, in float32 by a polynomial; even and odd powers by themselves would cancel."""
    del dtype
    (x,) = operands
    if elem(x.type) == F64:
        return b.unary("math.atan", x)
    f = Floats(b, x)
    square = f.mul(x, x)
    tail = f.poly(square, ATAN_SHORT)
    return f.fma(f.mul(x, square), tail, x)
