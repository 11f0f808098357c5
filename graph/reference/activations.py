"""Computes x Φ(x) and x sigmoid(...) in float64 NumPy, within a few ulp of float64 over the whole range.

A rounding error in the argument of an exponential grows with the argument's size, which is therefore a sum of
two numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from ...promotion.arrays import Array
from ...promotion.dtype import DType
from ..ops.denormal_results import DENORMAL_BELOW

_SPLITTER = 2.0**27 + 1


def two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """Return x + y as a sum of two numbers (Knuth)."""
    total = x + y
    other = total - x
    return total, (x - (total - other)) + (y - other)


def _halves(x: Array | float) -> tuple[Array, Array]:
    high = _SPLITTER * np.asarray(x, np.float64)
    high = high - (high - x)
    return high, np.asarray(x - high)


def two_product(x: Array, y: Array | float) -> tuple[Array, Array]:
    """Return x · y as a sum of two numbers (Dekker), for operands below 2^500."""
    product = np.asarray(x * y)
    (a, b), (c, d) = _halves(x), _halves(y)
    return product, ((a * c - product) + a * d + b * c) + b * d


def logistic(values: Array) -> Array:
    """Compute 1 / (1 + exp(-x)), also accurate where it is small."""
    z = np.exp(-np.abs(values))
    return np.asarray(np.where(values < 0, z, 1.0) / (1.0 + z))


def _times_logistic(x: Array, size: Array, low: Array | float, end: float) -> Array:
    """Compute x / (1 + z), and x z / (1 + z) below 0, where z = exp(-size - low).

    exp(-64) is factored out where z might be subnormal.
    """
    far = size > 64.0
    z = np.exp(np.where(far, 64.0, 0.0) - size) * (1.0 - low)
    factor = np.where(far, math.exp(-64.0), 1.0)
    below = x < 0
    quotient = np.where(below, z, 1.0) / (1.0 + z * factor)
    return np.asarray(np.maximum(x, -end) * quotient * np.where(below, factor, 1.0))


def x_sigmoid(x: Array, slope: float = 1.0, rest: float = 0.0) -> Array:
    """Compute x / (1 + exp(-(slope + rest) x)); -0 at -infinity, its limit."""
    end = 760.0 / slope
    a = np.minimum(np.abs(x), end)
    high, low = two_product(a, slope)
    low = low + a * rest
    return _times_logistic(x, high, low, end)


def x_sigmoid_quick(x: Array) -> Array:
    return x_sigmoid(x, 1.702, 4.263256414560601e-17)


# 2 √(2/π) and its product with 0.044715, each the sum of two float64.
_LINEAR = (1.5957691216057308, -9.96930880911092e-17)
_CUBIC = (0.07135481627260025, -6.175149918155315e-19)


def x_sigmoid_tanh(x: Array) -> Array:
    """Compute x/2 · (1 + tanh h) with h = √(2/π) (x + 0.044715 x³), as x / (1 + exp(-2h)).

    -0 at -infinity.
    """
    a = np.minimum(np.abs(x), 24.0)
    square, rest = two_product(a, a)
    cube, lost = two_product(a, square)
    lost = lost + a * rest
    first, first_low = two_product(a, _LINEAR[0])
    second, second_low = two_product(cube, _CUBIC[0])
    high, low = two_sum(first, second)
    low = low + first_low + a * _LINEAR[1] + second_low + lost * _CUBIC[0] + cube * _CUBIC[1]
    return _times_logistic(x, high, low, 24.0)


_erfc = np.frompyfunc(math.erfc, 1, 1)
# -√(1/2) as a sum of two float64.
_ROOT = (-0.7071067811865476, 4.833646656726457e-17)


def x_phi(x: Array) -> Array:
    """Compute x Φ(x) = x/2 · erfc(-x / √2); -0 at -infinity.

    What the argument of erfc loses to rounding is added back by its derivative.
    """
    a = np.maximum(x, -40.0)
    clipped = np.minimum(a, 40.0)
    argument, low = two_product(clipped, _ROOT[0])
    low = low + clipped * _ROOT[1]
    slope = np.exp(-argument * argument) * (2 / math.sqrt(math.pi))
    tail = np.asarray(_erfc(argument), np.float64) - slope * low
    return np.asarray(0.5 * a * tail)


_PARTS: Mapping[str, Callable[[Array], Array]] = MappingProxyType(
    {"x_phi": x_phi, "x_sigmoid": x_sigmoid, "x_sigmoid_quick": x_sigmoid_quick, "x_sigmoid_tanh": x_sigmoid_tanh}
)
GELU: Mapping[str, str] = MappingProxyType({"none": "x_phi", "tanh": "x_sigmoid_tanh", "quick": "x_sigmoid_quick"})
"""The approximation of gelu → the part that computes it."""


def without_denormals(name: str, x: Array, dtype: DType) -> Array:
    """Compute one of the parts of activations in a dtype, or in float32 for shorter ones; -0 for large negative x whose result
    is denormal there."""
    least = DENORMAL_BELOW[name]["float64" if dtype.name == "float64" else "float32"]
    return np.where(x < least, -0.0, _PARTS[name](x))
