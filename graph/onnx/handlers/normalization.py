"""Handles normalisations: over the batch, channels, the last axes, and neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dtype import float32
from ...dims.dim import exact_quotient, product
from ...functions import normalization as functions
from ...functions.building import apply
from ...functions.normalization import layer_norm, rms_norm
from ...functions.reductions import max_, mean, var
from ...symbol import Symbol
from ..node import LeftToDefinition, Node, Result
from ..registry import handles
from ..values import Known


def per_channel(vector: Symbol, rank: int) -> Symbol:
    """Return a vector over channels in a form that broadcasts against (N, C, …)."""
    return vector.reshape((*vector.shape, *(1,) * max(rank - 2, 0))) if rank > 1 else vector


def _wide(x: Symbol) -> Symbol:
    return x.cast(float32) if x.dtype.bits < 32 else x


def _folded(parameters: Sequence[object], epsilon: float) -> tuple[Array, Array] | None:
    """Return factor and shift of a batch normalisation by constants scale, bias, mean, variance; None where they are not."""
    arrays = [each.array.astype(np.float64) for each in parameters if isinstance(each, Known)]
    if len(arrays) != len(parameters):
        return None
    scale, bias, centre, spread = arrays
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(spread + epsilon)
        return factor, bias - centre * factor


@handles("BatchNormalization")
def batch_normalization(node: Node) -> Result:
    """Normalise each channel, by given statistics or in training by those of the batch."""
    x = node[0]
    rank = len(x.shape)
    node.ignore("consumed_inputs")
    epsilon, momentum = float(node.attr("epsilon")), float(node.attr("momentum"))
    node.require(bool(node.attr("spatial", 1)), "spatial=0", "export the model for opset 9 or newer")
    training = bool(node.attr("training_mode", 0)) if node.version >= 14 else node.version < 7 and not node.attr("is_test", 0)
    if node.version < 14 and len(node.definition.outputs) == 1:
        training = False
    if 7 <= node.version < 14 and any(node.wants(position) for position in range(1, 5)):
        training = True
    value = _wide(x)
    parameters = [node.value(position) for position in range(1, 5)]
    if not training and (folded := _folded(parameters, epsilon)) is not None:
        factor, shift = (per_channel(node.constant(each, value.dtype), rank) for each in folded)
        return apply("add", apply("mul", value, factor), shift).cast(x.dtype)
    scale, bias, running_mean, running_var = (_wide(node[position]) for position in range(1, 5))
    axes = tuple([axis for axis in range(rank) if axis != 1])
    used_mean, used_var = (mean(value, axes), var(value, axes)) if training else (running_mean, running_var)
    centred = apply("sub", value, per_channel(used_mean, rank).cast(value.dtype))
    factor = apply("div", scale, apply("sqrt", apply("add", used_var.cast(scale.dtype), epsilon)))
    result = apply(
        "add", apply("mul", centred, per_channel(factor, rank).cast(value.dtype)), per_channel(bias, rank).cast(value.dtype)
    )
    if not training:
        return result.cast(x.dtype)
    node.require(node.version >= 14 or not node.wants(3), "saved statistics of training", "export the model for inference")
    moved = [
        apply("add", apply("mul", old, momentum), apply("mul", new.cast(old.dtype), 1 - momentum)).cast(node.dtype(position))
        for position, old, new in ((3, running_mean, used_mean), (4, running_var, used_var))
    ]
    return result.cast(x.dtype), moved[0], moved[1]


@handles("InstanceNormalization")
def instance_normalization(node: Node) -> Result:
    """Normalise each channel of each example over space."""
    x = node[0]
    rank = len(x.shape)
    node.ignore("consumed_inputs")
    node.require(rank >= 2, f"{rank} axes; (N, C, …) is expected")
    return functions.instance_norm(x, node[1], node[2], float(node.attr("epsilon")))


def as_vectors(x: Symbol, axis: int, *parameters: Symbol | None) -> tuple[Symbol, list[Symbol | None]] | None:
    """Return the tensor with its axes from `axis` on as one, and parameters of just these axes likewise; None for others."""
    shape = x.shape[axis:]
    flat: list[Symbol | None] = []
    for parameter in parameters:
        if parameter is not None and parameter.shape != shape:
            return None
        flat.append(None if parameter is None else parameter.reshape((product(shape),)))
    return x.reshape((*x.shape[:axis], product(shape))), flat


@handles("GroupNormalization", since=21)
def group_normalization(node: Node) -> Result:
    """Normalise groups of channels over space; older versions, which scale groups, are left to the definition."""
    x, groups = node[0], node.attr("num_groups")
    stash = node.attr("stash_type")
    node.require(len(x.shape) >= 2 and groups > 0, f"{groups} groups of {len(x.shape)} axes; (N, C, …) is expected")
    scale, bias = node[1], node[2]
    is_plain = all([len(each.shape) == 1 and each.dtype is x.dtype for each in (scale, bias)])
    if stash != 1 or x.dtype.bits > 32 or not is_plain or exact_quotient(x.shape[1], groups) is None:
        raise LeftToDefinition
    return functions.group_norm(x, groups, scale, bias, float(node.attr("epsilon")))


@handles("LayerNormalization")
def layer_normalization(node: Node) -> Result:
    """Normalise over the axes from `axis` on."""
    x, scale, bias = node[0], node[1], node.get(2)
    # The defaults count where an optimiser put the operation into a model of an opset that does not have it.
    axis, epsilon = node.axis(node.attr("axis", -1), len(x.shape)), float(node.attr("epsilon", 1e-5))
    node.require(node.attr("stash_type", 1) == 1, "stash_type is not float32", "leave it out")
    vectors = as_vectors(x, axis, scale, bias)
    if vectors is not None and scale.dtype is x.dtype:
        flat, (weight, shift) = vectors
        result = layer_norm(flat, weight, shift, epsilon).reshape(x.shape)
    else:
        axes = tuple(range(axis, len(x.shape)))
        value = _wide(x)
        spread = apply("sqrt", apply("add", var(value, axes, True), epsilon))
        normal = apply("div", apply("sub", value, mean(value, axes, True)), spread).cast(x.dtype)
        result = apply("mul", normal.cast(scale.dtype), scale)
        result = result if bias is None else apply("add", result, bias)
    if not (node.wants(1) or node.wants(2)):
        return result
    axes = tuple(range(axis, len(x.shape)))
    value = _wide(x)
    deviation = apply("sqrt", apply("add", var(value, axes, True), epsilon))
    return result, mean(value, axes, True), apply("div", 1.0, deviation)


@handles("RMSNormalization")
def rms_normalization(node: Node) -> Result:
    """Divide by the root of the mean square over the axes from `axis` on."""
    x, scale = node[0], node[1]
    axis, epsilon = node.axis(node.attr("axis"), len(x.shape)), float(node.attr("epsilon"))
    node.require(node.attr("stash_type") == 1, "stash_type is not float32", "leave it out")
    vectors = as_vectors(x, axis, scale)
    if vectors is not None and scale.dtype is x.dtype:
        flat, (weight,) = vectors
        return rms_norm(flat, weight, epsilon).reshape(x.shape)
    value = _wide(x)
    power = mean(apply("mul", value, value), tuple(range(axis, len(x.shape))), True)
    normal = apply("div", value, apply("sqrt", apply("add", power, epsilon))).cast(x.dtype)
    return apply("mul", normal.cast(scale.dtype), scale)


@handles("LpNormalization")
def lp_normalization(node: Node) -> Result:
    """Divide by the norm along an axis; 0/0 is 0."""
    x = node[0]
    axis, order = node.axis(node.attr("axis"), len(x.shape)), node.attr("p")
    node.require(order in (1, 2), f"p is {order}; 1 or 2 is expected")
    return functions.lp_norm(x, order, axis)


@handles("LRN")
def lrn(node: Node) -> Result:
    """Divide by a power of the squares of neighbouring channels."""
    x = node[0]
    size = node.attr("size")
    node.require(0 < size <= node.limits.unrolled_nodes and len(x.shape) >= 2, f"size {size} on {len(x.shape)} axes")
    alpha, beta, bias = (float(node.attr(name)) for name in ("alpha", "beta", "bias"))
    return functions.lrn(x, size, alpha, beta, bias)


@handles("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: Node) -> Result:
    """Reduce all of space."""
    x = node[0]
    axes = tuple(range(2, len(x.shape)))
    return mean(x, axes, True) if node.op == "GlobalAveragePool" else max_(x, axis=axes, keepdims=True)
