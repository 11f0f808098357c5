"""Defines special functions beyond the op table."""

from __future__ import annotations

import numpy as np

from ..symbol import Symbol
from .building import apply, in_float

# Chebyshev coefficients of log(erfc(z) / t) + z² in u = 2t - 1, where t = 2 / (2 + z), for z >= 0: the substitution of Press et
# al., "Numerical Recipes", 6.2; the coefficients were computed with mpmath at 60 digits, by interpolation in 80 points.
_ERFC = (
    -0.6513268598908547,
    0.6419697923564902,
    0.019476473204185836,
    -0.009561514786808632,
    -0.0009465953444820369,
    0.00036683949785276145,
    4.252332480690777e-05,
    -2.0278578112534242e-05,
    -1.6242900046470256e-06,
    1.3036558355805232e-06,
    1.5626441722066142e-08,
    -8.523809591492654e-08,
    6.5290544390988515e-09,
    5.059343495551469e-09,
    -9.91364156493033e-10,
    -2.273651222931836e-10,
    9.646791102015527e-11,
    2.3940380830391146e-12,
    -6.886027526497553e-12,
    8.944879273090725e-13,
    3.130921399342958e-13,
    -1.1270822361367252e-13,
    3.810905255189232e-16,
    7.106097613609237e-15,
    -1.5230282014571043e-15,
    -9.457494571291233e-17,
    1.210237189224279e-16,
    -2.816663087747177e-17,
    5.003005559445902e-20,
)
_ERFC_FLOAT32 = 15
"""The number of terms that float32 needs; the next coefficient is below its rounding error."""


@in_float
def erfc(x: Symbol) -> Symbol:
    """Compute the complementary error function 1 - erf(x), accurately where it is tiny.

    It is 1 - erf(x) for |x| < 1/2, else t · exp(-z² + P(t)) with z = |x|, and 2 minus that for negative x.
    exp(-z²) is computed as exp(-h²) · exp(-(z - h)(z + h)) with h = z cut to half its digits, so that h² is
    exact.
    """
    double = x.dtype.name == "float64"
    size = apply("abs", x)
    t = apply("div", 2.0, apply("add", size, 2.0))
    twice = apply("sub", apply("mul", t, 4.0), 2.0)
    terms = _ERFC if double else _ERFC[:_ERFC_FLOAT32]
    current: Symbol | float = 0.0
    before: Symbol | float = 0.0
    for coefficient in reversed(terms[1:]):
        step = apply("mul", twice, current)
        current, before = apply("add", apply("sub", step, before), coefficient), current
    polynomial = apply("add", apply("sub", apply("mul", apply("mul", twice, 0.5), current), before), terms[0])
    high = _upper_half(size)
    rest = apply("mul", apply("sub", size, high), apply("add", size, high))
    tail = apply("exp", apply("sub", polynomial, rest))
    value = apply("mul", apply("mul", t, tail), apply("exp", apply("negate", apply("mul", high, high))))
    value = apply("where", apply("less", size, 30.0), value, apply("where", apply("is_nan", x), x, 0.0))
    outside = apply("where", apply("less", x, 0.0), apply("sub", 2.0, value), value)
    return apply("where", apply("less", size, 0.5), apply("sub", 1.0, apply("erf", x)), outside)


def _upper_half(x: Symbol) -> Symbol:
    """Return `x` with the lower half of its mantissa cleared."""
    if x.dtype.name == "float64":
        mask = np.int64(-(1 << 27))
        return apply("bitwise_and", x.bitcast("int64"), mask).bitcast("float64")
    return apply("bitwise_and", x.bitcast("int32"), np.int32(-(1 << 12))).bitcast(x.dtype)
