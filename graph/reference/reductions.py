"""Defines reference implementations of the reduce, scan and contract rows, and of the composite rows.

Sums and products of floats up to 32 bits are accumulated in float64 and rounded to float32, then to the
dtype: the value that any order of float32 additions approximates. Tests of back ends allow them the error
bound of float32 summation. Composites are evaluated by their defining formula in float64 and rounded once,
but with the range of their accumulator: sums, squares and quotients on the way overflow and underflow where
float32 does.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...promotion.arrays import Array
from ...promotion.dtype import DType, float32
from ...promotion.errors import UnsupportedError, UserError
from ..ops.structural import REDUCTIONS
from .activations import GELU, two_sum, without_denormals
from .elementwise import larger, smaller
from .numerics import double, in_range, round_tensor_float32, to_dtype, working
from .registry import BoundSymbol, row


def _axes(symbol: BoundSymbol) -> tuple[int, ...]:
    return tuple(symbol.attrs["axes"])


def _keepdims(symbol: BoundSymbol) -> bool:
    return bool(symbol.attrs.get("keepdims", False))


def _accumulator(symbol: BoundSymbol, a: Array) -> Array:
    return double(a) if symbol.dtype.is_float else working(a, symbol.inputs[0].dtype)


def _by_ufunc(name: str, ufunc: np.ufunc) -> None:
    @row(name)
    def implementation(symbol: BoundSymbol, a: Array) -> Array:
        return to_dtype(ufunc.reduce(_accumulator(symbol, a), _axes(symbol), keepdims=_keepdims(symbol)), symbol.dtype)


for _row in REDUCTIONS:
    if _row.numpy:
        _by_ufunc(_row.name, getattr(np, _row.numpy))


@row("reduce_sum")
def reduce_sum(symbol: BoundSymbol, a: Array) -> Array:
    """Compute the sum, which begins with 0 and is therefore never -0."""
    terms = _accumulator(symbol, a)
    total = np.sum(terms, _axes(symbol), terms.dtype, keepdims=_keepdims(symbol))
    return to_dtype(total + terms.dtype.type(0), symbol.dtype)


@row("reduce_prod")
def reduce_prod(symbol: BoundSymbol, a: Array) -> Array:
    total = _accumulator(symbol, a)
    return to_dtype(np.prod(total, _axes(symbol), total.dtype, keepdims=_keepdims(symbol)), symbol.dtype)


@row("reduce_max")
def reduce_max(symbol: BoundSymbol, a: Array) -> Array:
    """Return the largest element: NaN where any element is NaN; +0.0 is larger than -0.0."""
    return _extreme(symbol, a, larger)


@row("reduce_min")
def reduce_min(symbol: BoundSymbol, a: Array) -> Array:
    """Return the smallest element: NaN where any element is NaN; -0.0 is smaller than +0.0."""
    return _extreme(symbol, a, smaller)


def _extreme(symbol: BoundSymbol, a: Array, choose: Callable[[Array, Array], Array]) -> Array:
    if symbol.dtype.kind == "bool":  # any and all: of nothing they are False and True
        decide = np.any if choose is larger else np.all
        return np.asarray(decide(a, _axes(symbol), keepdims=_keepdims(symbol)))
    values = _flatten_axes(symbol, working(a, symbol.inputs[0].dtype))
    while (
        values.shape[-1] > 1
    ):  # halves are compared until one is left; an odd one out waits for the next round
        half = values.shape[-1] // 2
        paired = choose(values[..., :half], values[..., half : 2 * half])
        values = np.concatenate([paired, values[..., 2 * half :]], -1)
    return to_dtype(values.reshape(symbol.shape), symbol.dtype)


@row("argmax")
def argmax(symbol: BoundSymbol, a: Array) -> Array:
    """Return the first position of the largest element, or of the first NaN if there is one."""
    values = _flatten_axes(symbol, working(a, symbol.inputs[0].dtype))
    return np.asarray(np.argmax(values, -1), np.int64).reshape(symbol.shape)


@row("argmin")
def argmin(symbol: BoundSymbol, a: Array) -> Array:
    """Return the first position of the smallest element, or of the first NaN if there is one."""
    values = _flatten_axes(symbol, working(a, symbol.inputs[0].dtype))
    return np.asarray(np.argmin(values, -1), np.int64).reshape(symbol.shape)


def _flatten_axes(symbol: BoundSymbol, a: Array) -> Array:
    """Move the reduced axes to the end and merge them into one.

    Raises `UserError` if that is empty and the result is not.
    """
    axes = _axes(symbol)
    kept = [axis for axis in range(a.ndim) if axis not in axes]
    count = math.prod(a.shape[axis] for axis in axes)
    result = [a.shape[axis] for axis in kept]
    if count == 0:
        if math.prod(result):
            raise UserError(
                f"{symbol.op}: axes {axes} of shape {a.shape} are empty, and there is no {symbol.op[-3:]}; "
                "fix: concat an initial value"
            )
        return np.zeros((*result, 1), a.dtype)
    return np.transpose(a, (*kept, *axes)).reshape(*result, count)


@row("cumsum")
def cumsum(symbol: BoundSymbol, a: Array) -> Array:
    """Compute running sums along an axis.

    `exclusive` leaves each own value out, `reverse` runs from the end. Sums of nothing but -0 are -0,
    exclusive ones begin with 0.
    """
    axis = symbol.attrs["axis"]
    values = _accumulator(symbol, a)
    if symbol.attrs.get("reverse", False):
        values = np.flip(values, axis)
    total = np.cumsum(values, axis, values.dtype)
    if symbol.attrs.get("exclusive", False):
        shifted = np.zeros_like(total)
        target: list[slice] = [slice(None)] * a.ndim
        source = list(target)
        target[axis], source[axis] = slice(1, None), slice(None, -1)
        shifted[tuple(target)] = total[tuple(source)]
        total = shifted + shifted.dtype.type(0)
    if symbol.attrs.get("reverse", False):
        total = np.flip(total, axis)
    return to_dtype(total, symbol.dtype)


@row("matmul")
def matmul(symbol: BoundSymbol, a: Array, b: Array) -> Array:
    """Compute (..., M, K) @ (..., K, N).

    For floats up to 32 bits products and sums are in float64, rounded once to float32, then to the dtype.
    precision "tf32" rounds float32 operands to tensor_float32 first. Integers wrap in the result's dtype.
    """
    precision = symbol.attrs.get("precision", "ieee")
    if precision not in ("ieee", "tf32"):
        raise UnsupportedError(f'matmul: precision {precision!r}; known: "ieee", "tf32"')
    if not symbol.dtype.is_float:
        wide = symbol.dtype.numpy if symbol.dtype.kind != "bool" else np.dtype(np.int64)
        return to_dtype(np.matmul(a.astype(wide), b.astype(wide)), symbol.dtype)
    if precision == "tf32" and symbol.inputs[0].dtype is float32:
        a, b = round_tensor_float32(a), round_tensor_float32(b)
    return to_dtype(np.matmul(double(a), double(b)) + 0.0, symbol.dtype)


@row("softmax")
def softmax(symbol: BoundSymbol, a: Array) -> Array:
    """Compute exp(x - max x) divided by its sum. Rows that contain NaN or +inf, or only -inf, are NaN."""
    x = double(a)
    axis = symbol.attrs["axis"]
    if x.shape[axis] == 0:
        return to_dtype(x, symbol.dtype)
    weights = _weights(x, np.max(x, axis, keepdims=True))
    return to_dtype(weights / np.sum(weights, axis, keepdims=True), symbol.dtype)


@row("logsoftmax")
def logsoftmax(symbol: BoundSymbol, a: Array) -> Array:
    x = double(a)
    axis = symbol.attrs["axis"]
    if x.shape[axis] == 0:
        return to_dtype(x, symbol.dtype)
    top = np.max(x, axis, keepdims=True)
    others = np.sum(np.where(x < top, _weights(x, top), 0.0), axis, keepdims=True)
    ties = np.sum(np.where(x < top, 0.0, 1.0), axis, keepdims=True)
    nothing = top - top  # NaN where the largest element is infinite or NaN, else 0
    return to_dtype(x - top - np.log1p(others + (ties - 1.0) + nothing), symbol.dtype)


def _weights(x: Array, top: Array) -> Array:
    """Compute exp(x - top); what the difference loses to rounding is added back."""
    high, low = two_sum(x, -top)
    return np.asarray(np.exp(high) * np.where(np.isfinite(low), 1.0 + low, 1.0))


@row("logsumexp")
def logsumexp(symbol: BoundSymbol, a: Array) -> Array:
    """Compute the log of the sum of exp(x), shifted by the largest x.

    All -inf gives -inf, any +inf gives +inf.
    """
    x = double(a)
    axes = _axes(symbol)
    top = np.max(x, axes, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0.0)
    total = np.log(np.sum(np.exp(x - shift), axes, keepdims=True)) + shift
    return to_dtype(total.reshape(symbol.shape), symbol.dtype)


@row("mean")
def mean(symbol: BoundSymbol, a: Array) -> Array:
    """Compute the sum over the count; the mean of no elements is NaN."""
    return to_dtype(_mean(double(a), _axes(symbol), symbol.dtype).reshape(symbol.shape), symbol.dtype)


def _mean(x: Array, axes: tuple[int, ...], dtype: DType) -> Array:
    count = math.prod(x.shape[axis] for axis in axes)
    return in_range(in_range(np.sum(x, axes, keepdims=True) + 0.0, dtype) / np.float64(count), dtype)


def _distances(x: Array, axes: tuple[int, ...], dtype: DType) -> tuple[Array, Array]:
    """Return distances from the mean, and their squares."""
    centred = in_range(x - _mean(x, axes, dtype), dtype)
    return centred, in_range(np.square(centred), dtype)


@row("var")
def variance(symbol: BoundSymbol, a: Array) -> Array:
    """Compute the sum of squared distances from the mean, divided by max(count - correction, 0)."""
    x = double(a)
    axes = _axes(symbol)
    total = in_range(np.sum(_distances(x, axes, symbol.dtype)[1], axes), symbol.dtype)
    divisor = max(math.prod(x.shape[axis] for axis in axes) - symbol.attrs.get("correction", 0), 0)
    return to_dtype((total / np.float64(divisor)).reshape(symbol.shape), symbol.dtype)


@row("gelu")
def gelu(symbol: BoundSymbol, a: Array) -> Array:
    """Compute x Φ(x) ("none"), its tanh approximation ("tanh"), or x sigmoid(1.702 x) ("quick")."""
    approximate = symbol.attrs.get("approximate", "none")
    if approximate not in GELU:
        raise UnsupportedError(f'gelu: approximate={approximate!r}; known: "none", "tanh", "quick"')
    return to_dtype(without_denormals(GELU[approximate], double(a), symbol.dtype), symbol.dtype)


@row("silu")
def silu(symbol: BoundSymbol, a: Array) -> Array:
    return to_dtype(without_denormals("x_sigmoid", double(a), symbol.dtype), symbol.dtype)


@row("layer_norm")
def layer_norm(symbol: BoundSymbol, a: Array, *parameters: Array) -> Array:
    """Compute (x - mean) / sqrt(variance + epsilon) over the last axis, times any scale, plus any bias."""
    x = double(a)
    last = (x.ndim - 1,)
    centred, squares = _distances(x, last, symbol.dtype)
    scaled = _normalized(centred, _mean(squares, last, symbol.dtype), symbol)
    rest = list(parameters)
    if symbol.attrs.get("has_scale", False):
        scaled = in_range(scaled * double(rest.pop(0)), symbol.dtype)
    if symbol.attrs.get("has_bias", False):
        scaled = scaled + double(rest.pop(0))
    return to_dtype(scaled, symbol.dtype)


def _normalized(x: Array, square: Array, symbol: BoundSymbol) -> Array:
    """Compute x · (1 / √(square + epsilon)): infinity over infinity is NaN, and so is 0 over 0."""
    root = np.sqrt(in_range(square + symbol.attrs["epsilon"], symbol.dtype))
    return in_range(np.where(np.isfinite(x) & (root > 0), x / root, x * (1 / root)), symbol.dtype)


@row("rms_norm")
def rms_norm(symbol: BoundSymbol, a: Array, *parameters: Array) -> Array:
    """Compute x / sqrt(mean of x² + epsilon) over the last axis, times scale where the row has one."""
    x = double(a)
    squares = in_range(np.square(x), symbol.dtype)
    scaled = _normalized(x, _mean(squares, (x.ndim - 1,), symbol.dtype), symbol)
    if symbol.attrs.get("has_scale", False):
        scaled = scaled * double(parameters[0])
    return to_dtype(scaled, symbol.dtype)


# -- Fourier transforms ------------------------------------------------------------------------------------------------


@row("fft_lines")
def fft_lines(symbol: BoundSymbol, a: Array) -> Array:
    return _transformed(a.astype(np.complex128), symbol.attrs["inverse"]).astype(symbol.dtype.numpy)


def _transformed(lines: Array, inverse: bool) -> Array:
    return np.asarray(np.fft.ifft(lines) * lines.shape[-1] if inverse else np.fft.fft(lines))


@row("rfft_lines")
def rfft_lines(symbol: BoundSymbol, a: Array) -> Array:
    return np.asarray(np.fft.rfft(a.astype(np.float64)), symbol.dtype.numpy)


@row("irfft_lines")
def irfft_lines(symbol: BoundSymbol, a: Array) -> Array:
    length = symbol.attrs["length"]
    return np.asarray(np.fft.irfft(a.astype(np.complex128), length) * length, symbol.dtype.numpy)


@row("fft_block", "fft_pairs")
def fft_block(symbol: BoundSymbol, a: Array) -> Array:
    """Transforms complex numbers, or float64 as the parts of complex128; what is beyond the results is 0."""
    kind = symbol.attrs["kind"]
    wide = np.ascontiguousarray(a).view(np.complex128) if a.dtype == np.float64 else a.astype(np.complex128)
    length = wide.shape[-1] - kind.startswith("real")
    if kind == "real":
        found = np.fft.rfft(np.ascontiguousarray(wide[..., :length]).view(np.float64))
    elif kind == "real_inverse":
        real = np.ascontiguousarray(np.fft.irfft(wide, 2 * length) * (2 * length))
        found = np.concatenate([real.view(np.complex128), np.zeros_like(wide[..., length:])], -1)
    else:
        found = _transformed(wide, kind == "inverse")
    if a.dtype == np.float64:
        return np.ascontiguousarray(found).view(np.float64)
    return np.asarray(found.astype(symbol.dtype.numpy))
