"""Handles support vector machines: kernels of rows with the support vectors, and sums of them for pairs of classes."""

from __future__ import annotations

import itertools

import numpy as np

from .....promotion.arrays import Array
from .....promotion.dtype import bool_, float32, float64, int64
from ....dims.dim import Extent
from ....functions.building import apply
from ....functions.control.loops import build_loop, results_of
from ....functions.joining import concat
from ....functions.linalg import matmul
from ....functions.reductions import any_, argmax, max_, sum_
from ....region import Region, traced
from ....symbol import Symbol
from ....types import TensorType
from ...node import Node, Result
from ...registry import handles
from .pipelines import class_labels, labelled
from .trees import transformed_scores

_DOMAIN = "ai.onnx.ml"
_MIN_PAIR, _MAX_PAIR = 1e-7, 1 - 1e-7
"""Range of what one class is given against another, as libsvm has it."""
_CLOSE, _STEPS = 0.005, 100
"""How far the classes together may be off when libsvm ends its steps, and how many steps it takes for up to so many classes."""
_INDEX = TensorType(int64, (), "index")


def _numbers(node: Node, name: str) -> Array:
    return np.array(node.attr(name, None) or (), np.float32)


def _kernel(node: Node, x: Symbol, vectors: Array, kind: str) -> Symbol:
    """Return the kernel of each row with each vector, (rows, vectors)."""
    parameters = _numbers(node, "kernel_params")
    complete = kind == "LINEAR" or len(parameters) == 3
    node.require(complete, f"{len(parameters)} kernel_params; gamma, coef0 and degree are expected")
    gamma, shift, degree = map(float, parameters) if len(parameters) == 3 else (0.0, 0.0, 0.0)
    if kind == "RBF":
        wide = apply("sub", x.reshape((x.shape[0], 1, x.shape[1])), node.graph.constant(vectors[None]))
        return apply("exp", apply("mul", sum_(apply("mul", wide, wide), 2), -gamma))
    product = matmul(x, node.graph.constant(np.ascontiguousarray(vectors.T)))
    match kind:
        case "LINEAR":
            return product
        case "POLY":
            return apply("pow", apply("add", apply("mul", product, gamma), shift), degree)
        case "SIGMOID":
            return apply("tanh", apply("add", apply("mul", product, gamma), shift))
    node.unsupported(f"kernel_type {kind!r}", "LINEAR, POLY, RBF or SIGMOID")
    return product


def _rows(node: Node) -> tuple[Symbol, int]:
    """Return the input in float32, and how many features it has."""
    x = node[0].cast(float32)
    node.require(len(x.shape) in (1, 2), f"an input of {len(x.shape)} axes; rows of features are expected")
    x = x.reshape((1, *x.shape)) if len(x.shape) == 1 else x
    (features,) = node.static_sizes(x.shape[1:], "a row of features")
    node.require(features > 0, "rows without features")
    return x, features


def _vectors(node: Node, count: int, features: int) -> Array:
    given = _numbers(node, "support_vectors")
    node.require(given.size == count * features, f"{given.size} numbers in support_vectors for {count} of {features} features")
    return given.reshape(count, features)


@handles("SVMRegressor", domain=_DOMAIN)
def svm_regressor(node: Node) -> Result:
    """Add up the kernels of each row with the support vectors; with one_class only the sign of the sum is returned."""
    x, features = _rows(node)
    if node.attr("post_transform", "NONE") != "NONE":
        node.unsupported("a post_transform", "apply it outside the model")
    count, weights, shift = node.attr("n_supports", 0), _numbers(node, "coefficients"), _numbers(node, "rho")
    node.require(shift.size == 1, f"{shift.size} numbers in rho; one is expected")
    if count:
        node.require(weights.size == count > 0, f"{weights.size} coefficients for {count} support vectors")
        values = _kernel(node, x, _vectors(node, count, features), node.attr("kernel_type", "LINEAR"))
    else:
        node.require(weights.size == features, f"{weights.size} coefficients for {features} features")
        node.ignore("support_vectors", "kernel_type", "kernel_params")
        values = x
    score = apply("add", matmul(values, node.graph.constant(weights.reshape(-1, 1))), float(shift[0]))
    if node.attr("one_class", 0):
        return apply("where", apply("greater", score, 0.0), node.constant(1.0, float32), -1.0)
    return score


@handles("SVMClassifier", domain=_DOMAIN)
def svm_classifier(node: Node) -> Result:
    """Return the class that wins most comparisons, and scores: probabilities of classes, or the sums of each pair."""
    x, features = _rows(node)
    labels, dtype = class_labels(node)
    classes, per_class = len(labels), node.attr("vectors_per_class", None) or []
    transform = node.attr("post_transform", "NONE")
    if not sum(per_class):  # one linear function for each class
        node.ignore("support_vectors", "kernel_type", "kernel_params", "prob_a", "prob_b", "vectors_per_class")
        scores = _linear(node, x, classes, features)
        return labelled(node, argmax(scores, 1), labels, dtype), transformed_scores(node, scores, transform)
    counts = len(per_class) == classes > 1 and min(per_class) >= 0
    node.require(counts, f"vectors_per_class {per_class[:20]} for {classes} classes")
    pairs = list(itertools.combinations(range(classes), 2))
    vectors, total = _vectors(node, sum(per_class), features), sum(per_class)
    node.require_few(total * len(pairs), "the sums of pairs of classes")
    shifts = _numbers(node, "rho")
    node.require(shifts.size == len(pairs), f"{shifts.size} numbers in rho for {len(pairs)} pairs of classes")
    weights = np.zeros((total, len(pairs)), np.float32)
    given = _numbers(node, "coefficients")
    node.require(given.size == (classes - 1) * total, f"{given.size} coefficients for {total} vectors of {classes} classes")
    given, ends = given.reshape(classes - 1, total), np.cumsum([0, *per_class])
    for pair, (one, other) in enumerate(pairs):
        first, second = slice(ends[one], ends[one + 1]), slice(ends[other], ends[other + 1])
        weights[first, pair], weights[second, pair] = given[other - 1, first], given[one, second]
    kernels = _kernel(node, x, vectors, node.attr("kernel_type", "LINEAR"))
    # Hundreds of terms of both signs nearly cancel: in float32 the sums lose digits that probabilities show.
    wide_sums = apply("add", matmul(kernels.cast(float64), node.constant(weights, float64)), node.constant(shifts, float64))
    sums = wide_sums.cast(float32)
    which = argmax(_votes(node, sums, pairs, classes), 1)
    a, b = _numbers(node, "prob_a"), _numbers(node, "prob_b")
    if a.size:
        numbers = f"{a.size} and {b.size} numbers in prob_a and prob_b for {len(pairs)} pairs"
        node.require(a.size == b.size == len(pairs), numbers)
        steps = classes * 16 <= node.limits.unrolled_nodes
        node.require(steps, f"equations of {classes} classes to unroll", "limits=OnnxLimits(unrolled_nodes=…)")
        scores = _probabilities(node, wide_sums, a, b, classes)
    else:
        scores = concat([apply("negate", sums), sums], 1) if classes == 2 else sums
    return labelled(node, which, labels, dtype), transformed_scores(node, scores, transform)


def _linear(node: Node, x: Symbol, classes: int, features: int) -> Symbol:
    weights, shifts = _numbers(node, "coefficients"), _numbers(node, "rho")
    fits = weights.size == classes * features
    node.require(fits, f"{weights.size} coefficients for {classes} classes of {features} features")
    node.require(shifts.size >= 1, "rho without a number")  # the first one counts for all classes, as in onnxruntime
    product = matmul(x, node.graph.constant(np.ascontiguousarray(weights.reshape(classes, features).T)))
    return apply("add", product, float(shifts[0]))


def _votes(node: Node, sums: Symbol, pairs: list[tuple[int, int]], classes: int) -> Symbol:
    """Return how many comparisons each class wins, (rows, classes): the first of a pair wins with a sum above 0."""
    wins, losses = np.zeros((2, len(pairs), classes), np.float32)
    for pair, (one, other) in enumerate(pairs):
        wins[pair, one] = losses[pair, other] = 1.0
    won = apply("greater", sums, 0.0)
    first = matmul(won.cast(float32), node.graph.constant(wins))
    return apply("add", first, matmul(apply("logical_not", won).cast(float32), node.graph.constant(losses)))


def _probabilities(node: Node, sums: Symbol, a: Array, b: Array, classes: int) -> Symbol:
    """Return the probability of each class: those p for which all p_i · r_ji - p_j · r_ij are small, as sum of squares.

    r_ij is what class i is given against class j, a sigmoid of their sum. p is what libsvm's steps come to, not the minimum:
    they end as soon as no class is off by more than 0.005 / classes, which shows in the third digit of p. All is float64, as
    in libsvm.

    Source: T.-F. Wu, C.-J. Lin, R. C. Weng, "Probability estimates for multi-class classification by pairwise coupling",
    JMLR 5 (2004), algorithm 2; `multiclass_probability` of libsvm, which fixes where it begins and ends.
    """
    scaled = apply("add", apply("mul", sums, node.constant(a, float64)), node.constant(b, float64))
    given = apply("minimum", apply("maximum", apply("sigmoid", apply("negate", scaled)), _MIN_PAIR), _MAX_PAIR)
    rows: Extent = sums.shape[0]
    number = {pair: at for at, pair in enumerate(itertools.combinations(range(classes), 2))}
    cells = np.zeros((classes, classes), np.int64)
    for one, other in number:
        cells[one, other], cells[other, one] = number[one, other], number[one, other] + len(number)
    both = concat([given, apply("sub", 1.0, given)], 1)
    diagonal = node.constant(np.eye(classes, dtype=np.bool_), bool_)
    table = apply("where", diagonal, 0.0, apply("gather", both, node.constant(cells, int64), axis=1))
    mirrored = table.permute((0, 2, 1))
    squares = sum_(apply("mul", mirrored, mirrored), 2).reshape((rows, classes, 1))
    matrix = apply("where", diagonal, squares, apply("negate", apply("mul", table, mirrored)))
    first = apply("broadcast_to", node.constant(np.full((1, 1), 1 / classes), float64), shape=(rows, classes))
    moving = apply("broadcast_to", node.constant(np.ones((1, 1), np.bool_), bool_), shape=(rows, 1))
    types = (_INDEX, TensorType(float64, first.shape, "p"), TensorType(bool_, moving.shape, "moving"))

    def step(_: Region, inputs: tuple[Symbol, ...]) -> list[Symbol]:
        p, moves = inputs[1:]
        products = sum_(apply("mul", matrix, p.reshape((rows, 1, classes))), 2)
        total = sum_(apply("mul", p, products), 1, True)
        error = max_(apply("abs", apply("sub", products, total)), axis=1, keepdims=True)
        moves = apply("logical_and", moves, apply("logical_not", apply("less", error, _CLOSE / classes)))
        moved = p
        for at in range(classes):
            here = matrix[:, at, :]
            scale, product = here[:, at : at + 1], products[:, at : at + 1]
            change = apply("div", apply("sub", total, product), scale)
            rest = apply("add", change, 1.0)
            grown = apply("mul", change, apply("add", apply("mul", change, scale), apply("mul", product, 2.0)))
            total = apply("div", apply("div", apply("add", total, grown), rest), rest)
            products = apply("div", apply("add", products, apply("mul", change, here)), rest)
            unit = node.constant(np.eye(classes)[at : at + 1], float64)
            moved = apply("div", apply("add", moved, apply("mul", change, unit)), rest)
        return [apply("where", moves, moved, p), moves]

    graph = sums.graph
    body = traced(graph, f"{node.op} coupling", types, step)
    goes_on = traced(graph, f"{node.op} condition", types, lambda _, inputs: [any_(inputs[2])])
    loop = build_loop(graph, node.op, (first, moving), body, goes_on, length=max(_STEPS, classes))
    return results_of(loop)[0].cast(float32)
