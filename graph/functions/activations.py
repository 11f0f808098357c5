"""Defines activation functions.

16-bit floats are computed in float32 and rounded once; bools and integers become the default float.
"""

from __future__ import annotations

from ..construction import primitives
from ..errors import describing, mistake
from ..graph import graph_of
from ..ops.shape import normalize_axis
from ..protocols import TensorLike
from ..symbol import Symbol
from .building import apply, as_floats, in_float, symbol_of
from .elementwise import clip
from .positions import positions
from .reductions import require_elements


def softmax(x: TensorLike, axis: int = -1) -> Symbol:
    """Compute exp(x - max(x)) / sum(exp(x - max(x))) along `axis`. A row of -inf only gives NaN."""
    return _along("softmax", x, axis)


def logsoftmax(x: TensorLike, axis: int = -1) -> Symbol:
    """Compute log(softmax(x)) along `axis`, accurately also where it is close to 0.

    It is x - max(x) - log(sum(exp(x - max(x)))).
    """
    return _along("logsoftmax", x, axis)


def _along(op: str, x: TensorLike, axis: int) -> Symbol:
    symbol = symbol_of(op, x)
    with describing(op, symbol):
        axis_index = normalize_axis(axis, len(symbol.shape))
    return apply(op, symbol, axis=axis_index)


def gelu(x: TensorLike, approximate: str = "none") -> Symbol:
    """Compute x · Φ(x), where Φ is the normal distribution function (Hendrycks and Gimpel, 2016).

    approximate: "none" is this definition, "tanh" is x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))), "quick" is
    x · sigmoid(1.702 x). All keep their relative accuracy down to the least normal results of float32 (of
    float64), and are -0 for larger negative x, whose results would be denormal.
    """
    if approximate not in ("none", "tanh", "quick"):
        raise mistake(
            "gelu",
            f"unknown approximation {approximate!r}",
            (x,),
            '"none", "tanh" or "quick"',
            'approximate="none"',
        )
    return apply("gelu", x, approximate=approximate)


def silu(x: TensorLike) -> Symbol:
    """Compute x · sigmoid(x), also called swish; -0 for large negative x, whose results would be denormal."""
    return apply("silu", x)


def prelu(x: TensorLike, slope: TensorLike) -> Symbol:
    """Compute x where x >= 0, else slope · x; `slope` broadcasts against `x`."""
    value, factor = graph_of("prelu", x, slope).promoted("prelu", (x, slope), "mul")
    return apply("where", apply("greater_equal", value, 0), value, apply("mul", value, factor))


@in_float
def leaky_relu(x: Symbol, alpha: float = 0.01) -> Symbol:
    """Compute x where x >= 0, else alpha · x."""
    return apply("where", apply("greater_equal", x, 0.0), x, apply("mul", x, alpha))


@in_float
def elu(x: Symbol, alpha: float = 1.0) -> Symbol:
    """Compute x where x > 0, else alpha · (exp(x) - 1) (Clevert et al., 2015)."""
    return apply("where", apply("greater", x, 0.0), x, apply("mul", apply("expm1", x), alpha))


@in_float
def selu(x: Symbol, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Symbol:
    """Compute gamma · elu(x, alpha) with the fixed-point constants of Klambauer et al. (2017)."""
    negative = apply("mul", apply("expm1", x), alpha)
    return apply("mul", apply("where", apply("greater", x, 0.0), x, negative), gamma)


@in_float
def celu(x: Symbol, alpha: float = 1.0) -> Symbol:
    """Compute max(0, x) + min(0, alpha · (exp(x / alpha) - 1)) (Barron, 2017)."""
    negative = apply("mul", apply("expm1", apply("div", x, alpha)), alpha)
    return apply("where", apply("greater", x, 0.0), x, negative)


@in_float
def softplus(x: Symbol) -> Symbol:
    """Compute log(1 + exp(x)), as max(x, 0) + log1p(exp(-|x|))."""
    tail = apply("log1p", apply("exp", apply("negate", apply("abs", x))))
    return apply("add", apply("maximum", x, 0.0), tail)


@in_float
def mish(x: Symbol) -> Symbol:
    """Compute x · tanh(softplus(x)) (Misra, 2019); -0 for large negative x, whose results would be denormal.

    The formula is x · n / (n + 2) with n = e^x (e^x + 2), and x · sigmoid(x) for x < -40.
    """
    power = apply("exp", apply("minimum", x, 20.0))
    n = apply("mul", power, apply("add", power, 2.0))
    result = apply("mul", x, apply("div", n, apply("add", n, 2.0)))
    return apply("where", apply("less", x, -40.0), apply("silu", x), result)


@in_float
def softsign(x: Symbol) -> Symbol:
    """Compute x / (1 + |x|)."""
    return apply("div", x, apply("add", apply("abs", x), 1.0))


@in_float
def hard_sigmoid(x: Symbol, alpha: float = 0.2, beta: float = 0.5) -> Symbol:
    """Compute max(0, min(1, alpha · x + beta))."""
    return clip(apply("add", apply("mul", x, alpha), beta), 0.0, 1.0)


@in_float
def hard_swish(x: Symbol) -> Symbol:
    """Compute x · max(0, min(1, x / 6 + 0.5)) (Howard et al., 2019)."""
    return apply("mul", x, clip(apply("add", apply("mul", x, 1 / 6), 0.5), 0.0, 1.0))


def swiglu(gate: TensorLike, value: TensorLike) -> Symbol:
    """Compute silu(gate) · value (Shazeer, 2020)."""
    result, (first, second) = as_floats("swiglu", gate, value)
    return primitives.cast(apply("mul", silu(first), second), result)


@in_float
def shrink(x: Symbol, threshold: float = 0.5, bias: float = 0.0) -> Symbol:
    """Compute x + bias where x < -threshold, x - bias where x > threshold, else 0 (ONNX Shrink)."""
    above = apply("where", apply("greater", x, threshold), apply("sub", x, bias), 0.0)
    return apply("where", apply("less", x, -threshold), apply("add", x, bias), above)


@in_float
def thresholded_relu(x: Symbol, alpha: float = 1.0) -> Symbol:
    """Compute x where x > alpha, else 0."""
    return apply("where", apply("greater", x, alpha), x, 0.0)


def hardmax(x: TensorLike, axis: int = -1) -> Symbol:
    """Return 1 at the first largest element along `axis`, 0 elsewhere, in the dtype of `x` (bools stay bool).

    Raises `UserError` for an empty axis, as `max` does; whether a symbolic one is empty is checked at launch.
    """
    symbol = symbol_of("hardmax", x)
    with describing("hardmax", symbol):
        axis_index = normalize_axis(axis, len(symbol.shape))
    require_elements("hardmax", symbol, (axis_index,))
    best = apply("argmax", symbol, axes=(axis_index,), keepdims=True)
    return apply("equal", positions(symbol, axis_index), best).cast(symbol.dtype)
