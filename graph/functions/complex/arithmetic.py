"""Computes with complex numbers by their parts. Graphs and programs of PyTorch both use it."""

from __future__ import annotations

import math

import numpy as np

from ....promotion.dtype import DType, float32, float64
from ...symbol import Symbol
from ..building import apply
from ..elementwise import is_finite, is_inf, reciprocal
from ..linalg import matmul
from ..pairs import atan2, hypot
from .parts import Complex

_LARGEST_EXPONENT: dict[DType, float] = {float32: 88.0, float64: 709.0}
"""Whole numbers whose exponentials are in range."""
_LARGE: dict[DType, float] = {float32: 2.0**126, float64: 2.0**1022}
"""Parts up to here have absolute values in range."""


def by_parts(row: str, x: Complex, y: Complex) -> Complex:
    """Return what an operation gives that treats both parts alike."""
    return Complex(apply(row, x.real, y.real), apply(row, x.imaginary, y.imaginary))


def scaled(x: Complex, factor: Symbol, row: str = "mul") -> Complex:
    """Return numbers times, or divided by, real ones."""
    return Complex(apply(row, x.real, factor), apply(row, x.imaginary, factor))


def product(x: Complex, y: Complex) -> Complex:
    """Return products, the real parts of which round each of theirs."""
    real = apply("sub", apply("mul", x.real, y.real), apply("mul", x.imaginary, y.imaginary))
    return Complex(real, apply("add", apply("mul", x.real, y.imaginary), apply("mul", x.imaginary, y.real)))


def conjugate(x: Complex) -> Complex:
    """Return conjugates."""
    return Complex(x.real, apply("negate", x.imaginary))


def quotient(x: Complex, y: Complex) -> Complex:
    """Return x / y by the smaller part of y over the larger one (R. L. Smith, 1962), as NumPy and PyTorch do.

    Infinities and NaN are theirs, too: a number over an infinite one is 0, and over 0 its parts over 0.
    """
    sizes = [apply("abs", part) for part in (y.real, y.imaginary)]
    turned = apply("less", *sizes)
    small, large = apply("where", turned, y.real, y.imaginary), apply("where", turned, y.imaginary, y.real)
    ratio = apply("div", small, large)
    scale = apply("div", 1.0, apply("add", large, apply("mul", small, ratio)))
    first, second = apply("where", turned, x.imaginary, x.real), apply("where", turned, x.real, x.imaginary)
    real = apply("mul", apply("add", first, apply("mul", second, ratio)), scale)
    part = apply("mul", first, ratio)
    minuend, subtrahend = apply("where", turned, part, second), apply("where", turned, second, part)
    imaginary = apply("mul", apply("sub", minuend, subtrahend), scale)
    is_zero = apply("equal", apply("maximum", *sizes), 0.0)
    over_zero = scaled(x, y.real.graph.scalar(math.inf, y.real.dtype))
    return Complex(
        apply("where", is_zero, over_zero.real, real), apply("where", is_zero, over_zero.imaginary, imaginary)
    )


def inverse(x: Complex) -> Complex:
    """Return 1 / x."""
    one, zero = (x.real.graph.scalar(number, x.real.dtype) for number in (1.0, 0.0))
    return quotient(Complex(one, zero), x)


def absolute(x: Complex) -> Symbol:
    """Return absolute values."""
    return hypot(x.real, x.imaginary)


def angle(x: Complex) -> Symbol:
    """Return angles in [-π, π]."""
    return atan2(x.imaginary, x.real)


def direction(x: Complex) -> Complex:
    """Return x / |x|, and 0 for 0."""
    size = absolute(x)
    is_zero = apply("equal", size, 0.0)
    one = size.graph.scalar(1.0, size.dtype)
    nothing = size.graph.scalar(0.0, size.dtype)
    return scaled(x, apply("where", is_zero, nothing, reciprocal(apply("where", is_zero, one, size))))


def exponential(x: Complex) -> Complex:
    """Return exponentials, as C's cexp (Annex G of C99).

    Where e^x is out of range, a factor of it is applied to the sine and the cosine first, for these may bring it back. Real
    numbers stay real, infinite ones as well; infinite real parts do without an angle.
    """
    largest = _LARGEST_EXPONENT[x.real.dtype]
    factor, left = float(np.exp(x.real.dtype.numpy.type(largest))), x.real
    real, imaginary = apply("cos", x.imaginary), apply("sin", x.imaginary)
    for _ in range(2):
        is_large = apply("greater", left, largest)
        left = apply("where", is_large, apply("sub", left, largest), left)
        real, imaginary = (apply("where", is_large, apply("mul", each, factor), each) for each in (real, imaginary))
    size = apply("exp", left)
    real, imaginary = apply("mul", size, real), apply("mul", size, imaginary)
    is_real = apply("equal", x.imaginary, 0.0)
    has_angle = is_finite(x.imaginary)
    without = apply("logical_and", apply("logical_not", has_angle), is_inf(x.real))
    is_nothing = apply("logical_and", without, apply("less", x.real, 0.0))
    zero = apply("where", apply("less", x.imaginary, 0.0), *[x.real.graph.scalar(each, x.real.dtype) for each in (-0.0, 0.0)])
    imaginary = apply("where", is_real, x.imaginary, apply("where", is_nothing, zero, imaginary))
    return Complex(apply("where", without, size, real), imaginary)


def logarithm(x: Complex) -> Complex:
    """Return natural logarithms, of numbers whose absolute values are out of range too."""
    dtype = x.real.dtype
    largest = apply("maximum", apply("abs", x.real), apply("abs", x.imaginary))
    is_large = apply("greater", largest, _LARGE[dtype])
    one, half, zero, more = (x.real.graph.scalar(number, dtype) for number in (1.0, 0.5, 0.0, math.log(2)))
    size = absolute(scaled(x, apply("where", is_large, half, one)))
    return Complex(apply("add", apply("log", size), apply("where", is_large, more, zero)), angle(x))


def equal(x: Complex, y: Complex) -> Symbol:
    """Return where both parts are equal."""
    return apply("logical_and", apply("equal", x.real, y.real), apply("equal", x.imaginary, y.imaginary))


def multiplied(x: Complex, y: Complex) -> Complex:
    """Return matrix products, by four products of real matrices."""
    real = apply("sub", matmul(x.real, y.real), matmul(x.imaginary, y.imaginary))
    return Complex(real, apply("add", matmul(x.real, y.imaginary), matmul(x.imaginary, y.real)))
