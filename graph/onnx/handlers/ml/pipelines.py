"""Handles operators of ai.onnx.ml that stand before and behind models in pipelines: imputers, encoders, linear classifiers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .....promotion.dtype import DType, float32, int64, string
from .....promotion.errors import UnsupportedError
from ....functions.building import apply
from ....functions.host.strings import encode_labels, string_equal
from ....functions.joining import concat
from ....functions.linalg import matmul
from ....functions.reductions import argmax
from ....symbol import Symbol
from ...node import Node, Result
from ...registry import handles
from ...values import Maps
from .trees import transformed_scores

_DOMAIN = "ai.onnx.ml"


@handles("LinearClassifier", domain=_DOMAIN)
def linear_classifier(node: Node) -> Result:
    """Return the class with the highest score, and all scores; of two classes one score may be given, that of the second."""
    x = node[0].cast(float32)
    labels, dtype = class_labels(node)
    node.ignore("multi_class")
    node.require(len(x.shape) == 2, f"{len(x.shape)} axes; rows of features are expected")
    weights = np.array(node.attr("coefficients"), np.float32)
    shifts = node.attr("intercepts", None)
    (features,) = node.static_sizes(x.shape[1:], "a row of features")
    transform = node.attr("post_transform", "NONE")
    single = len(labels) == 2 and weights.size == features > 0 and transform == "LOGISTIC"
    count = 1 if single else len(labels)
    if weights.size != count * features:
        node.unsupported(f"{weights.size} coefficients for {len(labels)} labels", "a score for each label")
    scores = matmul(x, node.graph.constant(np.ascontiguousarray(weights.reshape(count, -1).T)))
    if shifts is not None:
        node.require(len(shifts) == count, f"{len(shifts)} intercepts for {count} scores")
        scores = apply("add", scores, node.graph.constant(np.array(shifts, np.float32)))
    scores = concat([apply("negate", scores), scores], 1) if single else scores
    return labelled(node, argmax(scores, 1), labels, dtype), transformed_scores(node, scores, transform)


def class_labels(
    node: Node, texts: str = "classlabels_strings", integers: str = "classlabels_ints"
) -> tuple[list[Any], DType]:
    """Return the names or numbers of classes, which attributes have, and their dtype."""
    names, numbers = node.attr(texts, None), node.attr(integers, None)
    labels: list[Any] = numbers or [] if names is None else names
    given = bool(labels) and (names is None or numbers is None)
    node.require(given, f"{texts} or {integers}, and not both, must be given")
    return labels, int64 if names is None else string


def labelled(node: Node, which: Symbol, labels: list[Any], dtype: DType) -> Symbol:
    """Return the labels of classes."""
    if dtype is string:
        return encode_labels(which, list(range(len(labels))), labels, "", string)
    return apply("gather", node.constant(labels, int64), which, axis=0)


@handles("ZipMap", domain=_DOMAIN, structural=True)
def zip_map(node: Node) -> Result:
    """Make a dictionary of each row of scores; only outputs of a model are dictionaries."""
    keys, _ = class_labels(node, "classlabels_strings", "classlabels_int64s")
    rows = node[0] if len(node.shape(0)) > 1 else node[0].reshape((1, -1))
    rows = node.agreeing(rows, (None, len(keys)), f"a matrix of scores for {len(keys)} labels")
    return Maps(rows, tuple(keys))


@handles("CastMap", "DictVectorizer", domain=_DOMAIN)
def maps(node: Node) -> Result:
    """Refuse values that are dictionaries: graphs have tensors."""
    raise UnsupportedError(
        "a dictionary as an operand, which is not supported; fix: pass a tensor with a column for each key"
    )


@handles("Imputer", domain=_DOMAIN)
def imputer(node: Node) -> Result:
    """Replace one value, which may be NaN, by one number for all features or by one for each."""
    x = node[0]
    kind = "float" if x.dtype.is_float else "int64"
    values, replaced = node.attr(f"imputed_value_{kind}s"), node.attr(f"replaced_value_{kind}", 0)
    node.ignore("replaced_value_float", "replaced_value_int64")
    if len(values) != 1:
        x = node.agreeing(x, (*(None,) * (len(x.shape) - 1), len(values)), f"a tensor with {len(values)} imputed values")
    is_nan = x.dtype.is_float and math.isnan(replaced)
    found = apply("is_nan", x) if is_nan else apply("equal", x, node.constant(replaced, x.dtype))
    return apply("where", found, node.constant(values, x.dtype), x)


@handles("OneHotEncoder", domain=_DOMAIN)
def one_hot_encoder(node: Node) -> Result:
    """Compare each element with each category, along a new last axis; others are all 0."""
    x = node[0]
    names, numbers = node.attr("cats_strings", None), node.attr("cats_int64s", None)
    node.require((names is None) != (numbers is None), "cats_strings or cats_int64s, and not both, must be given")
    if not node.attr("zeros"):
        node.unsupported("zeros=0, which refuses unknown categories at a run", "zeros=1")
    wide = x.reshape((*x.shape, 1))
    if names is not None:
        node.require(x.dtype is string, f"categories of strings for {x.dtype}")
        return string_equal(wide, node.graph.constant(np.array(names, dtype=object))).cast(float32)
    node.require(x.dtype is not string, "categories of numbers for strings")
    return apply("equal", wide.cast(int64), node.constant(numbers, int64)).cast(float32)


@handles("FeatureVectorizer", domain=_DOMAIN)
def feature_vectorizer(node: Node) -> Result:
    """Put the features of several tensors side by side, in float32."""
    given = node.attr("inputdimensions", None)
    parts: list[Symbol] = []
    for position in range(len(node)):
        part = node[position].cast(float32)
        part = part.reshape((1, -1)) if len(part.shape) == 1 else part
        wanted = None if given is None else given[position]
        parts.append(node.agreeing(part, (None, wanted), f"input {position}, whose features are those of inputdimensions,"))
    return concat(parts, 1)
