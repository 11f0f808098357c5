"""Defines reference implementations of the `map` rows: one scalar function per element.

A row that names a NumPy function (`OpDef.numpy`) needs nothing here. Arithmetic of 16-bit floats is done in
float32 and rounded once; elementary functions are evaluated in float64 and rounded, so in float32 they are
within 0.501 ulp. Integers wrap. Every function is total: see the numeric contract in
docs/design/001-architecture.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...promotion.arrays import Array
from ...promotion.dtype import DType
from ..ops.elementwise import ROWS
from .activations import logistic, two_product, two_sum, without_denormals
from .elementary import FUNCTIONS
from .numerics import bitcast, convert, double, to_dtype, working
from .registry import BoundSymbol, row

# Operands reach a map row with equal dtypes (promotion happened when the graph was built);
# `symbol.inputs[i].dtype` is theirs where the result's differs: comparisons, predicates, where, casts.


def _operands(symbol: BoundSymbol, arrays: tuple[Array, ...]) -> list[Array]:
    return [working(array, operand.dtype) for array, operand in zip(arrays, symbol.inputs, strict=True)]


def _by_numpy(name: str, function: Callable[..., Array]) -> None:
    @row(name)
    def implementation(symbol: BoundSymbol, *arrays: Array) -> Array:
        return to_dtype(function(*_operands(symbol, arrays)), symbol.dtype)


for _row in ROWS:
    if _row.numpy:
        _by_numpy(_row.name, getattr(np, _row.numpy))


@row("div", "div_approximate")
def div(symbol: BoundSymbol, *arrays: Array) -> Array:
    """Divide as IEEE 754; integers never get here, because the builder casts them to a float."""
    a, b = _operands(symbol, arrays)
    return to_dtype(np.true_divide(a, b), symbol.dtype)


@row("floor_div")
def floor_div(symbol: BoundSymbol, *arrays: Array) -> Array:
    """Compute Python's `//`. Integers: x // 0 = 0. Floats: (x - x % y) / y to the nearest integer."""
    a, b = _operands(symbol, arrays)
    if symbol.dtype.is_float:
        return to_dtype(np.floor_divide(a, b), symbol.dtype)
    quotient, remainder = _truncated(a, b)
    down = (remainder != 0) & ((remainder < 0) != (b < 0)) & (b != 0)
    return to_dtype(quotient - down, symbol.dtype)


@row("mod")
def mod(symbol: BoundSymbol, *arrays: Array) -> Array:
    """Compute Python's `%`, with the sign of the divisor. Integers: x % 0 = x. Floats: x % 0.0 is NaN."""
    a, b = _operands(symbol, arrays)
    if symbol.dtype.is_float:
        return to_dtype(np.remainder(a, b), symbol.dtype)
    _, remainder = _truncated(a, b)
    up = (remainder != 0) & ((remainder < 0) != (b < 0)) & (b != 0)
    return to_dtype(remainder + np.where(up, b, b.dtype.type(0)), symbol.dtype)


@row("trunc_div")
def trunc_div(symbol: BoundSymbol, *arrays: Array) -> Array:
    """Compute C's integer `/`, towards zero; x / 0 = 0.

    Floats: (x - rem(x, y)) / y to the nearest integer.
    """
    a, b = _operands(symbol, arrays)
    if symbol.dtype.is_float:
        quotient = np.rint((a - np.fmod(a, b)) / b)
        return to_dtype(np.where((b == 0) | np.isinf(a), a / b, np.copysign(quotient, a / b)), symbol.dtype)
    return to_dtype(_truncated(a, b)[0], symbol.dtype)


@row("rem")
def rem(symbol: BoundSymbol, *arrays: Array) -> Array:
    """Compute C's `%` (floats: fmod), with the sign of the dividend. Integers: x % 0 = x."""
    a, b = _operands(symbol, arrays)
    if symbol.dtype.is_float:
        return to_dtype(np.fmod(a, b), symbol.dtype)
    return to_dtype(_truncated(a, b)[1], symbol.dtype)


def _truncated(a: Array, b: Array) -> tuple[Array, Array]:
    """Return C's quotient and remainder of integers, with x / 0 = 0 rem x, INT_MIN / -1 = INT_MIN rem 0."""
    a, b = np.broadcast_arrays(a, b)
    one, zero = b.dtype.type(1), b.dtype.type(0)
    minus = b == -1 if b.dtype.kind == "i" else np.zeros(b.shape, np.bool_)
    divisor = np.where((b == 0) | minus, one, b)
    quotient = np.where(minus, zero - a, np.floor_divide(a, divisor))
    remainder = np.where(minus, zero, a - np.floor_divide(a, divisor) * divisor)
    # floor → trunc: where signs differ and a remainder is left, the floor is one too low
    low = (remainder != 0) & ((a < 0) != (divisor < 0))
    quotient = np.where(low, quotient + one, quotient)
    remainder = np.where(low, remainder - divisor, remainder)
    return np.where(b == 0, zero, quotient), np.where(b == 0, a, remainder)


@row("pow")
def power(symbol: BoundSymbol, *arrays: Array) -> Array:
    """Compute powers.

    Floats: C's pow. Integers wrap; a negative exponent truncates 1 / x**n, with 1 / 0 = 0.
    """
    a, b = _operands(symbol, arrays)
    if symbol.dtype.is_float:
        # not np.power: with one exponent for all it takes square roots, which differ for -inf and -0.0
        return to_dtype(np.float_power(double(a), double(b)), symbol.dtype)
    a, b = np.broadcast_arrays(a, b)
    result, base = np.ones_like(a), a.copy()
    remaining = np.where(b > 0, b, b.dtype.type(0))
    while np.any(remaining):  # square and multiply, at most 64 rounds
        result = np.where(remaining & 1, result * base, result)
        base = base * base
        remaining = remaining >> 1
    if b.dtype.kind == "i":
        unit = np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b & 1), 0)).astype(a.dtype)
        result = np.where(b < 0, unit, result)
    return to_dtype(result, symbol.dtype)


@row("maximum")
def maximum(symbol: BoundSymbol, *arrays: Array) -> Array:
    """Return the larger; NaN if either is NaN; +0.0 is larger than -0.0 (IEEE 754-2019 maximum)."""
    a, b = _operands(symbol, arrays)
    return to_dtype(larger(a, b), symbol.dtype)


@row("minimum")
def minimum(symbol: BoundSymbol, *arrays: Array) -> Array:
    """Return the smaller; NaN if either is NaN; -0.0 is smaller than +0.0 (IEEE 754-2019 minimum)."""
    a, b = _operands(symbol, arrays)
    return to_dtype(smaller(a, b), symbol.dtype)


def larger(a: Array, b: Array) -> Array:
    chosen = np.maximum(a, b)
    return np.where((a == 0) & (b == 0), a + b, chosen) if chosen.dtype.kind == "f" else chosen


def smaller(a: Array, b: Array) -> Array:
    chosen = np.minimum(a, b)
    return np.where((a == 0) & (b == 0), -(-a + -b), chosen) if chosen.dtype.kind == "f" else chosen


@row("bitwise_not")
def bitwise_not(symbol: BoundSymbol, a: Array) -> Array:
    return np.invert(a)


@row("popcount")
def popcount(symbol: BoundSymbol, a: Array) -> Array:
    if a.dtype.kind == "b":
        return a
    octets = np.ascontiguousarray(a).reshape(*a.shape, 1).view(np.uint8)
    return np.asarray(np.unpackbits(octets, axis=-1).sum(-1), a.dtype)


@row("shift_left")
def shift_left(symbol: BoundSymbol, a: Array, amount: Array) -> Array:
    """Shift left; bits shifted out are lost, and an amount outside [0, width) gives 0."""
    return _shift(symbol.dtype, a, amount, np.left_shift)


@row("shift_right")
def shift_right(symbol: BoundSymbol, a: Array, amount: Array) -> Array:
    """Shift right, arithmetically for signed integers.

    An amount outside [0, width) gives 0, or -1 for negative values.
    """
    return _shift(symbol.dtype, a, amount, np.right_shift)


def _shift(dtype: DType, a: Array, amount: Array, shift: Callable[[Array, Array], Array]) -> Array:
    if dtype.kind == "bool":  # one bit wide
        return np.logical_and(a, np.logical_not(amount))
    inside = (amount >= 0) & (amount < dtype.bits)
    safe = np.where(inside, amount, amount.dtype.type(0))
    fill = np.where(a < 0, -1, 0).astype(a.dtype) if shift is np.right_shift and dtype.kind == "int" else 0
    return np.where(inside, shift(a, safe), np.asarray(fill, a.dtype))


@row("where")
def where(symbol: BoundSymbol, condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition, a, b)


@row("sign")
def sign(symbol: BoundSymbol, *arrays: Array) -> Array:
    """Return -1, 0 or 1; zeros keep their sign and NaN stays NaN."""
    (a,) = _operands(symbol, arrays)
    one = a.dtype.type(1)
    result = np.where(a > 0, one, a)
    return to_dtype(result if a.dtype.kind == "u" else np.where(a < 0, -one, result), symbol.dtype)


_ELEMENTARY: dict[str, Callable[[Array], Array]] = {
    **{row.name: FUNCTIONS[row.name] for row in ROWS if row.name in FUNCTIONS},
    "sqrt": np.sqrt,
    "atan_ratio": np.arctan,
    "sigmoid": logistic,
}


@row("x_phi", "x_sigmoid", "x_sigmoid_quick", "x_sigmoid_tanh")
def activation(symbol: BoundSymbol, a: Array) -> Array:
    return to_dtype(without_denormals(symbol.op, double(a), symbol.dtype), symbol.dtype)


@row("exp_shifted", "exp_shifted_unchecked")
def exp_shifted(symbol: BoundSymbol, *arrays: Array) -> Array:
    x, top = [double(array) for array in arrays]
    if symbol.dtype.name == "float64":
        high, low = two_sum(x, -top)
        return to_dtype(np.exp(high) * np.where(np.isfinite(low), 1 + low, 1.0), symbol.dtype)
    near = np.abs(top) <= 2.0**20
    top_exponent = np.rint(np.where(near, top, 0.0) * float(np.float32(math.log2(math.e)))) - 64
    exponent = np.maximum(x - np.where(near, 0.0, top), (top_exponent - 126) * math.log(2)) - top_exponent * math.log(2)
    return to_dtype(np.exp(exponent), symbol.dtype)


@row("one_unless_below")
def one_unless_below(symbol: BoundSymbol, x: Array, y: Array) -> Array:
    return to_dtype(np.where(double(x) < double(y), 0.0, 1.0), symbol.dtype)


@row("mul_bounded")
def mul_bounded(symbol: BoundSymbol, x: Array, y: Array) -> Array:
    return to_dtype(double(x) * double(y), symbol.dtype)


@row("contiguous")
def contiguous(symbol: BoundSymbol, x: Array) -> Array:
    return x


@row("multiply_add")
def multiply_add(symbol: BoundSymbol, x: Array, y: Array, z: Array) -> Array:
    high, low = two_product(double(x), double(y))
    total, rest = two_sum(high, double(z))
    exact = np.isfinite(total) & np.isfinite(low)
    return to_dtype(np.where(exact, total + np.where(exact, rest + low, 0.0), total), symbol.dtype)


@row("sum_of_four")
def sum_of_four(symbol: BoundSymbol, *operands: Array) -> Array:
    *xs, packed = operands
    with np.errstate(over="ignore"):
        parts = [x * (packed << (24 - 8 * number) >> 24) for number, x in enumerate(xs[: symbol.attrs["k"]])]
        return np.asarray(sum(parts[1:], parts[0]), np.int32)


@row("where_below")
def where_below(symbol: BoundSymbol, x: Array, y: Array, z: Array) -> Array:
    return np.where(double(y) < double(z), x, np.zeros_like(x))


def _elementary(name: str, function: Callable[[Array], Array]) -> None:
    @row(name)
    def implementation(symbol: BoundSymbol, a: Array) -> Array:
        return to_dtype(function(double(a)), symbol.dtype)


for _name, _function in _ELEMENTARY.items():
    _elementary(_name, _function)


def _rounding(name: str, function: Callable[[Array], Array]) -> None:
    @row(name)
    def implementation(symbol: BoundSymbol, *arrays: Array) -> Array:
        if not symbol.dtype.is_float:
            return arrays[0]
        (a,) = _operands(symbol, arrays)
        return to_dtype(function(a), symbol.dtype)


_rounding("floor", np.floor)
_rounding("ceil", np.ceil)
_rounding("round", np.rint)
_rounding("trunc", np.trunc)


@row("is_nan")
def is_nan(symbol: BoundSymbol, *arrays: Array) -> Array:
    (a,) = _operands(symbol, arrays)
    return np.isnan(a) if a.dtype.kind == "f" else np.zeros(a.shape, np.bool_)


@row("cast")
def cast(symbol: BoundSymbol, a: Array) -> Array:
    rounding = symbol.attrs.get("rounding", "nearest")
    saturate = symbol.attrs.get("saturate", True)
    return convert(a, symbol.inputs[0].dtype, symbol.dtype, rounding=rounding, saturate=saturate)


@row("bitcast")
def bit_cast(symbol: BoundSymbol, a: Array) -> Array:
    return bitcast(a, symbol.inputs[0].dtype, symbol.dtype)


@row("complex_parts")
def complex_parts(symbol: BoundSymbol, a: Array) -> Array:
    return np.stack([a.real, a.imag], -1).reshape(symbol.shape)


@row("real")
def real(symbol: BoundSymbol, a: Array) -> Array:
    return np.array(a.real)


@row("imag")
def imag(symbol: BoundSymbol, a: Array) -> Array:
    return np.array(a.imag)


@row("complex")
def complex_of_parts(symbol: BoundSymbol, a: Array, b: Array) -> Array:
    """Put parts side by side: arithmetic would change infinities and signs of zeros."""
    found: Array = np.empty(symbol.shape, symbol.dtype.numpy)
    found.real, found.imag = a, b
    return found


@row("relu")
def relu(symbol: BoundSymbol, *arrays: Array) -> Array:
    """Compute maximum(x, 0): NaN stays, -0.0 becomes +0.0."""
    (a,) = _operands(symbol, arrays)
    return to_dtype(larger(a, np.zeros_like(a)), symbol.dtype)
