"""Handles operators of ai.onnx.ml that are arithmetic: scalers, normalisers, linear models."""

from __future__ import annotations

import numpy as np

from .....promotion.dtype import float32
from ....functions.building import apply
from ....functions.linalg import matmul
from ....functions.reductions import max_, reduce_l2, sum_
from ...node import Node, Result
from ...registry import handles
from .trees import transformed_scores

_DOMAIN = "ai.onnx.ml"


@handles("ArrayFeatureExtractor", domain=_DOMAIN)
def array_feature_extractor(node: Node) -> Result:
    """Select elements of the last axis; of a vector, as a matrix with one row."""
    x, positions = node[0], node[1].reshape((-1,))
    result = apply("gather", x, positions, axis=len(x.shape) - 1)
    return result.reshape((1, *result.shape)) if len(x.shape) == 1 else result


@handles("Binarizer", domain=_DOMAIN)
def binarizer(node: Node) -> Result:
    """Return 1 above a threshold, else 0."""
    x = node[0]
    return apply("greater", x, node.constant(float(node.attr("threshold")), x.dtype)).cast(x.dtype)


@handles("Scaler", domain=_DOMAIN)
def scaler(node: Node) -> Result:
    """Subtract an offset and multiply by a scale, one for all features or one for each, in float32."""
    x = node[0].cast(float32)
    offset, scale = (np.array(node.attr(name), np.float32) for name in ("offset", "scale"))
    for given, name in ((offset, "offset"), (scale, "scale")):
        if given.size != 1:
            x = node.agreeing(x, (*(None,) * (len(x.shape) - 1), given.size), f"a tensor with {given.size} numbers in {name}")
    return apply("mul", apply("sub", x, node.graph.constant(offset)), node.graph.constant(scale))


@handles("Normalizer", domain=_DOMAIN)
def normalizer(node: Node) -> Result:
    """Divide each row by its largest element, or its norm; a row whose norm is 0 stays."""
    x, kind = node[0].cast(float32), node.attr("norm")
    node.require(kind in ("MAX", "L1", "L2"), f"norm {kind!r}")
    if kind == "MAX":
        size = max_(x, axis=-1, keepdims=True)
    else:
        size = sum_(apply("abs", x), -1, True) if kind == "L1" else reduce_l2(x, -1, True)
    return apply("div", x, apply("where", apply("equal", size, 0.0), 1.0, size))


@handles("LinearRegressor", domain=_DOMAIN)
def linear_regressor(node: Node) -> Result:
    """Compute linear functions of the features of each row."""
    x, targets = node[0].cast(float32), node.attr("targets")
    transform = node.attr("post_transform")
    if targets == 1 and transform != "NONE":  # onnxruntime leaves a single target as it is
        node.unsupported(f"post_transform {transform} of one target", "apply it outside the model")
    node.require(len(x.shape) == 2 and targets > 0, f"{len(x.shape)} axes, {targets} targets")
    weights = np.array(node.attr("coefficients"), np.float32)
    node.require(weights.size % targets == 0, f"{weights.size} coefficients of {targets} targets")
    result = matmul(x, node.graph.constant(np.ascontiguousarray(weights.reshape(targets, -1).T)))
    shifts = node.attr("intercepts", None)
    if shifts is not None:
        node.require(len(shifts) == targets, f"{len(shifts)} intercepts of {targets} targets")
        result = apply("add", result, node.graph.constant(np.array(shifts, np.float32)))
    return transformed_scores(node, result, transform)
