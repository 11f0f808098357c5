"""Defines composites by primitive ops.

`expand(symbol, *operands)` builds the value of the composite `symbol` from `operands` (its inputs, or their
counterparts in another graph) on the operands' graph. Numerics: the work is done in `accumulator(dtype)`,
that is float32 for 16-bit floats and tensor_float32, and rounded once at the end; softmax and logsumexp
subtract the maximum; variances take two passes.
"""

from __future__ import annotations

import math
from typing import Unpack

from ...promotion.dtype import DType
from ..dims.dim import Extent, maximum, product
from ..protocols import SymbolLike, TensorLike
from .attributes import Attributes
from .opdef import accumulator


def _apply(name: str, /, *operands: TensorLike, **attrs: Unpack[Attributes]) -> SymbolLike:
    graph = next(operand.graph for operand in operands if hasattr(operand, "graph"))
    result: SymbolLike = graph.apply(name, operands, attrs, attrs.get("dtype"))
    return result


def _cast(x: SymbolLike, dtype: DType) -> SymbolLike:
    return x if x.dtype is dtype else _apply("cast", x, dtype=dtype, rounding="nearest", saturate=True)


def _reduce(name: str, x: SymbolLike, axes: tuple[int, ...], keepdims: bool = True) -> SymbolLike:
    return _apply(name, x, axes=axes, keepdims=keepdims) if axes else x


def _count(x: SymbolLike, axes: tuple[int, ...], correction: int | float = 0) -> float | SymbolLike:
    """Return the number of elements over `axes` less `correction`, at least 0, as a divisor for `x`."""
    extent: Extent = product(x.shape[axis] for axis in axes)
    if isinstance(extent, int):
        return float(max(extent - correction, 0))
    if isinstance(correction, int):
        return _cast(_apply_source(x, maximum(extent - correction, 0)), x.dtype)
    count = _cast(_apply_source(x, extent), x.dtype)
    return _apply("maximum", _apply("sub", count, float(correction)), 0.0)


def _apply_source(x: SymbolLike, extent: Extent) -> SymbolLike:
    result: SymbolLike = x.graph.dim_value(extent)
    return result


def _mean(x: SymbolLike, axes: tuple[int, ...], keepdims: bool) -> SymbolLike:
    return _apply("div", _reduce("reduce_sum", x, axes, keepdims), _count(x, axes))


def softmax(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    x = _cast(x, accumulator(symbol.dtype))
    axes = (symbol.attrs["axis"],)
    powers = _apply("exp_shifted", x, _reduce("reduce_max", x, axes))
    return _cast(_apply("div_approximate", powers, _reduce("reduce_sum", powers, axes)), symbol.dtype)


def logsoftmax(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    """Compute x - max - log(count of max + sum of the others' weights), whose two terms have one sign.

    log1p keeps the weights of the others where the largest element stands alone.
    """
    x = _cast(x, accumulator(symbol.dtype))
    axes = (symbol.attrs["axis"],)
    top = _reduce("reduce_max", x, axes)
    scale = _apply("div", 1.0, _apply("exp_shifted", top, top))
    weights = _apply("exp_shifted_unchecked", x, top)
    others = _reduce("reduce_sum", _apply("where_below", weights, x, top), axes)
    count = _reduce("reduce_sum", _apply("one_unless_below", x, top), axes)
    beyond_one = _apply("add", _apply("mul", others, scale), _apply("sub", count, 1.0))
    return _cast(_apply("sub", _apply("sub", x, top), _apply("log1p", beyond_one)), symbol.dtype)


def logsumexp(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    """Compute log(sum(exp(x - max))) + max.

    An infinite or NaN maximum is not subtracted: exp and log then give -inf, inf and NaN by themselves.
    """
    x = _cast(x, accumulator(symbol.dtype))
    axes = symbol.attrs["axes"]
    largest = _reduce("reduce_max", x, axes)
    finite = _apply("less", _apply("abs", largest), math.inf)
    shift = _apply("where", finite, largest, 0.0)
    total = _reduce("reduce_sum", _apply("exp", _apply("sub", x, shift)), axes)
    result = _cast(_apply("add", _apply("log", total), shift), symbol.dtype)
    return result if symbol.attrs["keepdims"] else _apply("reshape", result, shape=symbol.shape)


def mean(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    x = _cast(x, accumulator(symbol.dtype))
    return _cast(_mean(x, symbol.attrs["axes"], symbol.attrs["keepdims"]), symbol.dtype)


def var(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    x = _cast(x, accumulator(symbol.dtype))
    axes = symbol.attrs["axes"]
    centred = _apply("sub", x, _mean(x, axes, True))
    total = _reduce("reduce_sum", _apply("mul", centred, centred), axes, symbol.attrs["keepdims"])
    return _cast(_apply("div", total, _count(x, axes, symbol.attrs["correction"])), symbol.dtype)


_GELU = {"none": "x_phi", "tanh": "x_sigmoid_tanh", "quick": "x_sigmoid_quick"}


def gelu(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    x = _cast(x, accumulator(symbol.dtype))
    return _cast(_apply(_GELU[symbol.attrs["approximate"]], x), symbol.dtype)


def silu(symbol: SymbolLike, x: SymbolLike) -> SymbolLike:
    return _cast(_apply("x_sigmoid", _cast(x, accumulator(symbol.dtype))), symbol.dtype)


def layer_norm(symbol: SymbolLike, x: SymbolLike, *vectors: SymbolLike) -> SymbolLike:
    work = accumulator(symbol.dtype)
    x = _cast(x, work)
    axes = (len(x.shape) - 1,)
    centred = _apply("sub", x, _mean(x, axes, True))
    variance = _mean(_apply("mul", centred, centred), axes, True)
    result = _apply("mul", centred, _apply("rsqrt", _apply("add", variance, float(symbol.attrs["epsilon"]))))
    remaining = list(vectors)
    if symbol.attrs["has_scale"]:
        result = _apply("mul", result, _cast(remaining.pop(0), work))
    if symbol.attrs["has_bias"]:
        result = _apply("add", result, _cast(remaining.pop(0), work))
    return _cast(result, symbol.dtype)


def rms_norm(symbol: SymbolLike, x: SymbolLike, *vectors: SymbolLike) -> SymbolLike:
    work = accumulator(symbol.dtype)
    x = _cast(x, work)
    square = _mean(_apply("mul", x, x), (len(x.shape) - 1,), True)
    result = _apply("mul", x, _apply("rsqrt", _apply("add", square, float(symbol.attrs["epsilon"]))))
    if symbol.attrs["has_scale"]:
        result = _apply("mul", result, _cast(vectors[0], work))
    return _cast(result, symbol.dtype)
