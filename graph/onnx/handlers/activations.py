"""Handles activations, softmax and dropout."""

from __future__ import annotations

import numpy as np

from ....promotion.dtype import bool_, float64
from ...dims.dim import product
from ...functions import activations
from ...functions.building import apply
from ...functions.creation import full
from ...functions.positions import positions
from ...symbol import Symbol
from ..node import Node, Result
from ..registry import handles
from ..values import Known
from .random import dropped

_PLAIN = {
    "HardSwish": activations.hard_swish, "Mish": activations.mish, "Softplus": activations.softplus,
    "Softsign": activations.softsign,
}  # fmt: skip
_WITH_ALPHA = {
    "LeakyRelu": activations.leaky_relu, "Elu": activations.elu, "Celu": activations.celu,
    "ThresholdedRelu": activations.thresholded_relu,
}  # fmt: skip


def _hardmax(x: Symbol, axis: int) -> Symbol:
    """Return 1 at the first largest element, 0 elsewhere, of an axis that may be empty: one more element ends it."""
    extent = x.shape[axis]
    if isinstance(extent, int):
        return activations.hardmax(x, axis) if extent else x
    low = (0,) * len(x.shape)
    high = tuple([int(each == axis) for each in range(len(x.shape))])
    longer = apply("pad", x, low=low, high=high, mode="constant", value=float("-inf"))
    best = apply("argmax", longer, axes=(axis,), keepdims=True)
    return apply("equal", positions(x, axis), best).cast(x.dtype)


_ALONG_AXIS = {"Softmax": activations.softmax, "LogSoftmax": activations.logsoftmax, "Hardmax": _hardmax}


@handles(*_PLAIN)
def plain(node: Node) -> Result:
    """Apply an activation without parameters."""
    return _PLAIN[node.op](node[0])


@handles(*_WITH_ALPHA)
def with_alpha(node: Node) -> Result:
    """Apply an activation with one parameter."""
    node.ignore("consumed_inputs")
    return _WITH_ALPHA[node.op](node[0], float(node.attr("alpha")))


@handles("Selu")
def selu(node: Node) -> Result:
    """Apply the scaled exponential linear unit."""
    node.ignore("consumed_inputs")
    return activations.selu(node[0], float(node.attr("alpha")), float(node.attr("gamma")))


@handles("HardSigmoid")
def hard_sigmoid(node: Node) -> Result:
    """Apply the piecewise linear sigmoid."""
    node.ignore("consumed_inputs")
    return activations.hard_sigmoid(node[0], float(node.attr("alpha")), float(node.attr("beta")))


@handles("Shrink")
def shrink(node: Node) -> Result:
    """Shrink towards 0; integers are computed as floats, whose fractions are cut off."""
    x = node[0]
    wide = x if x.dtype.is_float else x.cast(float64)
    return activations.shrink(wide, float(node.attr("lambd")), float(node.attr("bias"))).cast(x.dtype)


@handles("Gelu")
def gelu(node: Node) -> Result:
    """Apply the Gaussian error linear unit."""
    approximate = node.attr("approximate")
    node.require(approximate in ("none", "tanh"), f"approximate={approximate!r}")
    return activations.gelu(node[0], approximate)


@handles("Swish")
def swish(node: Node) -> Result:
    """Compute x · sigmoid(alpha x)."""
    x, alpha = node[0], float(node.attr("alpha"))
    return activations.silu(x) if alpha == 1 else apply("mul", x, apply("sigmoid", apply("mul", x, alpha)))


@handles("PRelu")
def prelu(node: Node) -> Result:
    """Scale what is negative by a slope, which before opset 7 is one per channel."""
    x, slope = node[0], node[1]
    node.ignore("consumed_inputs")
    if node.version < 7 and len(slope.shape) == 1 and len(x.shape) > 1:
        slope = slope.reshape((*slope.shape, *(1,) * (len(x.shape) - 2)))
    return activations.prelu(x, slope)


@handles(*_ALONG_AXIS)
def along_axis(node: Node) -> Result:
    """Normalise along an axis; before opset 13 along all axes from it on, as if they were one."""
    x = node[0]
    rank = len(x.shape)
    function = _ALONG_AXIS[node.op]
    if node.version >= 13:
        return function(x, node.axis(node.attr("axis"), rank))
    start = node.attr("axis")
    start = rank if start == rank else node.axis(start, rank)
    matrix = x.reshape((product(x.shape[:start]), product(x.shape[start:])))
    return function(matrix, 1).reshape(x.shape)


@handles("Dropout", structural=True)
def dropout(node: Node) -> Result:
    """Return the operand and a mask that keeps everything; in training, a share of the elements is 0.

    From opset 7 to 11, which do not say what a mask outside of training is, it is 0, as in onnxruntime.
    """
    node.ignore("consumed_inputs", "seed")
    x = node[0]
    training = node.version < 7 and not node.attr("is_test", 0)
    ratio = float(node.attr("ratio", 0.5))
    if node.version >= 12:
        ratio = node.number(1, "the ratio of Dropout") if node.has(1) else 0.5
        training = node.has(2) and bool(node.number(2, "the training_mode of Dropout"))
    if training and ratio:
        node.require(0 < ratio <= 1, f"a ratio of {ratio}", "a number from 0 to 1")
        value, mask = dropped(node, x, ratio)
        return value, mask if node.version >= 10 else mask.cast(x.dtype)
    return x, _mask(node, x) if node.wants(1) else None


def _mask(node: Node, x: Symbol) -> Symbol | Known:
    dtype, value = bool_ if node.version >= 10 else x.dtype, 0 if 7 <= node.version < 12 else 1
    if all(isinstance(extent, int) for extent in x.shape):
        return Known(np.broadcast_to(np.array(value, dtype.numpy), tuple(map(int, x.shape))))  # type: ignore[arg-type]
    return full(x, x.shape, bool(value) if dtype is bool_ else value, dtype)
