"""Bounds the error of composite operations: (node, (operand, its error), …) → error, before the result is rounded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import joinery as jn
import numpy as np

from .nodes import Array, Node, unit

Bound = tuple[Array, Array]


def axes_of(node: Node) -> tuple[int, ...]:
    return tuple(node.attrs["axes"])


def count_of(node: Node, axes: Sequence[int]) -> int:
    return math.prod(node.inputs[0].value.shape[axis] for axis in axes)


def softmax(node: Node, x: Bound) -> Any:
    value, e = x
    axis = node.attrs["axis"]
    if value.shape[axis] == 0:
        return 0.0
    u, count = unit(node.dtype), value.shape[axis]
    shifted = np.abs(value - np.max(value, axis, keepdims=True))
    own = u * (2 * np.where(np.isfinite(shifted), shifted, 0.0) + 2 * count + 32)
    farthest = np.max(e, axis, keepdims=True)
    error = np.abs(node.wide) * (np.expm1(4 * farthest) + own) + 1e-37
    return np.where(
        np.isfinite(farthest), np.minimum(error, 1.0 + 4 * u), np.inf
    )  # results are between 0 and 1


def logsoftmax(node: Node, x: Bound) -> Any:
    value, e = x
    axis = node.attrs["axis"]
    if value.shape[axis] == 0:
        return 0.0
    shifted = np.abs(value - np.max(value, axis, keepdims=True))
    own = 2 * shifted + 4 * np.abs(node.wide) + 2 * value.shape[axis] + 32
    return 4 * np.max(e, axis, keepdims=True) + unit(node.dtype) * np.where(np.isfinite(own), own, 0.0)


def logsumexp(node: Node, x: Bound) -> Any:
    value, e = x
    axes, keep = axes_of(node), node.attrs["keepdims"]
    largest = np.max(np.abs(np.where(np.isfinite(value), value, 0.0)), axes, keepdims=keep, initial=0.0)
    own = (
        2 * count_of(node, axes)
        + 32
        + 4 * np.where(np.isfinite(node.wide), np.abs(node.wide), 0.0)
        + 2 * largest
    )
    return 2 * np.max(e, axes, keepdims=keep, initial=0.0) + unit(node.dtype) * own


def mean_bound(node: Node, value: Array, e: Array, axes: tuple[int, ...]) -> Array:
    count = max(count_of(node, axes), 1)
    finite = np.where(np.isfinite(value), np.abs(value), 0.0)
    own = unit(node.dtype) * (count + 4) * np.sum(finite, axes, keepdims=True) / count
    return np.asarray(np.sum(e, axes, keepdims=True) / count + own)


def sum_may_overflow(node: Node) -> Any:
    """Returns where the sum in a mean may be infinite in one order and finite in another: the sum of
    magnitudes is too large."""
    if node.op.name not in ("mean", "var", "layer_norm"):
        return False
    value = node.inputs[0].wide
    axes = (value.ndim - 1,) if node.op.name == "layer_norm" else axes_of(node)
    total = np.sum(np.where(np.isfinite(value), np.abs(value), 0.0) + np.nan_to_num(node.inputs[0].error), axes, keepdims=True)
    large = ~(total < 0.999 * (jn.float64 if node.dtype.name == "float64" else jn.float32).max_value)
    return large if node.op.name == "layer_norm" else large.reshape(node.value.shape)


def mean(node: Node, x: Bound) -> Any:
    return mean_bound(node, *x, axes_of(node)).reshape(node.value.shape)


def centred(node: Node, value: Array, e: Array, axes: tuple[int, ...]) -> Bound:
    """Returns value - mean, and its error."""
    middle = np.sum(value, axes, keepdims=True) / max(count_of(node, axes), 1)
    distance = value - middle
    error = e + mean_bound(node, value, e, axes) + 2 * unit(node.dtype) * np.abs(distance)
    return distance, np.nan_to_num(error, posinf=np.inf)


def squares(node: Node, distance: Array, error: Array, axes: tuple[int, ...]) -> Bound:
    """Returns Σ distance² over the axes, and its error."""
    total = np.sum(distance * distance, axes, keepdims=True)
    own = unit(node.dtype) * (2 * count_of(node, axes) + 8) * total
    if node.dtype.name != "float64":
        own = own + 1e-37
    return total, np.sum(2 * np.abs(distance) * error + error * error, axes, keepdims=True) + own


def var(node: Node, x: Bound) -> Any:
    axes = axes_of(node)
    _, error = squares(node, *centred(node, *x, axes), axes)
    divisor = max(count_of(node, axes) - node.attrs["correction"], 0)
    return (error / np.float64(divisor)).reshape(node.value.shape)


def normalized(node: Node, distance: Array, error: Array, factors: Sequence[Bound]) -> Any:
    """Bounds distance / sqrt(mean of squares + epsilon), times a scale, plus a bias."""
    axes = (distance.ndim - 1,)
    count = max(distance.shape[-1], 1)
    total, off = squares(node, distance, error, axes)
    level = total / count + node.attrs["epsilon"]
    relative = off / count / level + 8 * unit(node.dtype)
    inverse = 1 / np.sqrt(level)
    value = distance * inverse
    result = inverse * error + np.abs(value) * relative
    most = np.abs(value) + 1.01 * np.sqrt(count)  # no element is larger than √count
    result = np.where(
        relative < 0.25, np.minimum(2 * result, most), np.where(np.isfinite(relative), most, np.inf)
    )
    for position, (factor, e) in enumerate(factors):
        if position == 0:
            result = np.abs(factor) * result + np.abs(value) * e + e * result
        else:
            result = result + e + 2 * unit(node.dtype) * np.abs(factor)
    return result + 8 * unit(node.dtype) * np.abs(node.wide) + 1e-37


def layer_norm(node: Node, x: Bound, *factors: Bound) -> Any:
    if node.attrs["has_bias"] and not node.attrs["has_scale"]:
        factors = ((np.ones(()), np.zeros(())), *factors)
    return normalized(node, *centred(node, *x, (x[0].ndim - 1,)), factors)


def rms_norm(node: Node, x: Bound, *factors: Bound) -> Any:
    return normalized(node, *x, factors)


DENORMAL = 2.0**-126
"""Results below this are 0 in float32; those of float64 well below it."""


def gelu(node: Node, x: Bound) -> Any:
    return 2 * x[1] + np.abs(node.wide) * unit(node.dtype) * 16 + DENORMAL


def silu(node: Node, x: Bound) -> Any:
    return 2 * x[1] + np.abs(node.wide) * unit(node.dtype) * 12 + DENORMAL


PLACED = frozenset(("sort", "argsort", "top_positions", "searchsorted", "gather_nd", "scatter"))
"""Operations that move elements to where others say, or find such positions: exact of exact operands."""

COMPOSITES: dict[str, Callable[..., Any]] = {
    "softmax": softmax, "logsoftmax": logsoftmax, "logsumexp": logsumexp, "mean": mean, "var": var, "gelu": gelu,
    "silu": silu, "layer_norm": layer_norm, "rms_norm": rms_norm,
}  # fmt: skip
