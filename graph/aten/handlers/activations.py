"""Handles activation functions; 16-bit floats are computed in float32 and rounded once."""

from __future__ import annotations

from ....promotion.dtype import float32
from ...functions import activations
from ...functions.building import apply
from ...symbol import Symbol
from ..node import Node, Number
from ..registry import handles

_ROWS = {"relu": "relu", "sigmoid": "sigmoid", "tanh": "tanh", "silu": "silu"}


@handles(*[f"{kind}.default" for kind in _ROWS])
def plain(node: Node, x: Symbol) -> Symbol:
    """Apply the row of a function without parameters."""
    return apply(_ROWS[node.kind], x)


@handles("gelu.default")
def gelu(node: Node, x: Symbol, approximate: str = "none") -> Symbol:
    """Compute x · Φ(x), or its approximation by tanh."""
    return activations.gelu(x, approximate)


@handles("leaky_relu.default")
def leaky_relu(node: Node, x: Symbol, negative_slope: Number = 0.01) -> Symbol:
    """Compute x where it is positive, else `negative_slope` · x."""
    return activations.leaky_relu(x, float(negative_slope))


@handles("_prelu_kernel.default")
def prelu(node: Node, x: Symbol, weight: Symbol) -> Symbol:
    """Compute x where it is positive, else weight · x."""
    return apply("where", apply("greater", x, node.number(0, x.dtype)), x, apply("mul", x, weight))


@handles("elu.default")
def elu(node: Node, x: Symbol, alpha: Number = 1, scale: Number = 1, input_scale: Number = 1) -> Symbol:
    """Compute scale · x where x is positive, else scale · alpha · (exp(input_scale · x) - 1)."""
    wide = _wide(x)

    def number(value: Number) -> Symbol:
        return node.number(float(value), wide.dtype)

    inner = wide if input_scale == 1 else apply("mul", wide, number(input_scale))
    negative = apply("mul", apply("expm1", inner), number(alpha * scale))
    positive = wide if scale == 1 else apply("mul", wide, number(scale))
    return apply("where", apply("greater", wide, number(0)), positive, negative).cast(x.dtype)


@handles("hardtanh.default")
def hardtanh(node: Node, x: Symbol, min_val: Number = -1, max_val: Number = 1) -> Symbol:
    """Limit to two numbers."""
    return apply("minimum", apply("maximum", x, node.number(min_val, x.dtype)), node.number(max_val, x.dtype))


def _gate(x: Symbol) -> Symbol:
    """Return max(0, min(6, x + 3)), of a float32 or float64."""
    three, nothing, six = (x.graph.scalar(number, x.dtype) for number in (3.0, 0.0, 6.0))
    return apply("minimum", apply("maximum", apply("add", x, three), nothing), six)


def _wide(x: Symbol) -> Symbol:
    return x.cast(float32) if x.dtype.bits == 16 else x


@handles("hardsigmoid.default")
def hardsigmoid(node: Node, x: Symbol) -> Symbol:
    """Compute max(0, min(6, x + 3)) / 6."""
    wide = _wide(x)
    return apply("div", _gate(wide), node.number(6.0, wide.dtype)).cast(x.dtype)


@handles("hardswish.default")
def hardswish(node: Node, x: Symbol) -> Symbol:
    """Compute x · max(0, min(6, x + 3)) / 6."""
    wide = _wide(x)
    return apply("div", apply("mul", wide, _gate(wide)), node.number(6.0, wide.dtype)).cast(x.dtype)


@handles("softplus.default")
def softplus(node: Node, x: Symbol, beta: Number = 1, threshold: Number = 20) -> Symbol:
    """Compute log(1 + exp(beta · x)) / beta, and x itself where beta · x is beyond the threshold."""
    wide = _wide(x)
    scaled = wide if beta == 1 else apply("mul", wide, node.number(beta, wide.dtype))
    curve = activations.softplus(scaled)
    curve = curve if beta == 1 else apply("div", curve, node.number(beta, wide.dtype))
    return apply("where", apply("greater", scaled, node.number(threshold, wide.dtype)), wide, curve).cast(x.dtype)


@handles("mish.default")
def mish(node: Node, x: Symbol) -> Symbol:
    """Compute x · tanh(softplus(x))."""
    return activations.mish(x)


@handles("log_sigmoid_forward.default")
def log_sigmoid_forward(node: Node, x: Symbol) -> tuple[Symbol, Symbol]:
    """Compute log(sigmoid(x)), and exp(-|x|), which ATen keeps for the backward pass where that is not empty."""
    kept = node.broadcast(node.number(0.0, x.dtype), node.result(1).shape)
    if node.result(1).shape == x.shape:
        kept = apply("exp", apply("negate", apply("abs", x)))
    return apply("negate", activations.softplus(apply("negate", x))), kept
