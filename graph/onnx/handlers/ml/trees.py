"""Handles ensembles of decision trees: all rows go down all trees at once, one level at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .....promotion.arrays import Array
from .....promotion.dataclass import dataclass
from .....promotion.dtype import DType, float32, int64, string
from ....functions.activations import softmax
from ....functions.building import apply
from ....functions.host.strings import encode_labels
from ....functions.reductions import any_, argmax, max_, min_, sum_
from ....symbol import Symbol
from ...node import Node, Result
from ...registry import handles
from ...values import Known

_DOMAIN = "ai.onnx.ml"
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
_ROWS = ("less_equal", "less", "greater_equal", "greater", "equal", "not_equal")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """Decision trees. Inner nodes come first, then leaves, which lead to themselves.

    Attributes:
        roots: the node that each tree begins with.
        modes, features, splits, missing: of each inner node how it compares, which feature, with what, and whether NaN is true.
        yes, no: where each node leads.
        leaves: (leaf, target) → what reaching the leaf adds to the target.
        reached: (leaf, target) → whether the leaf has a weight for the target.
        members: the set of each inner node that tests membership, filled up with NaN; None without such nodes.
        depth: most inner nodes on a way.
    """

    roots: Array
    modes: Array
    features: Array
    splits: Array
    missing: Array
    yes: Array
    no: Array
    leaves: Array
    reached: Array
    members: Array | None
    depth: int


def _depth(node: Node, roots: Array, yes: Array, no: Array, inner: int) -> int:
    """Return the most inner nodes from a root to a leaf. Raises `UserError` for nodes that lead back."""
    level = np.unique(roots)
    for depth in range(inner + 1):
        level = level[level < inner]
        if not level.size:
            return depth
        level = np.unique(np.concatenate([yes[level], no[level]]))
    node.require(False, "a tree leads back to one of its nodes")
    return 0


def _checked(node: Node, trees: Trees, features: Any) -> Trees:
    inner, count = len(trees.modes), len(trees.modes) + len(trees.leaves)
    ends = np.concatenate([trees.roots, trees.yes, trees.no])
    node.require(bool((ends >= 0).all() and (ends < count).all()), "a tree leads to a node that is not there")
    node.require(len({len(each) for each in (trees.modes, trees.features, trees.splits, trees.missing)}) == 1, "uneven trees")
    if not isinstance(features, int):
        raise node.size_needed((features,), f"rows of {features} features")
    known = bool((trees.features >= 0).all()) and bool((trees.features < features).all())
    node.require(known, f"a feature outside {features}")
    depth = _depth(node, trees.roots, trees.yes, trees.no, inner)
    node.require(depth <= node.limits.unrolled_nodes, f"trees of {depth} levels", "limits=OnnxLimits(unrolled_nodes=…)")
    return replace(trees, depth=depth)


def _scores(node: Node, x: Symbol, trees: Trees, aggregate: str) -> Symbol:
    """Return what the leaves that each row reaches add up to: (rows, targets)."""
    graph, rows, count = node.graph, x.shape[0], len(trees.roots)
    at = apply("broadcast_to", graph.constant(trees.roots), shape=(rows, count))
    inner = len(trees.modes)

    def pick(table: Array, dtype: DType | None = None) -> Symbol:
        return apply("gather", graph.constant(table.astype(dtype.numpy) if dtype else table), here, axis=0)

    for _ in range(trees.depth):
        here = apply("minimum", at, max(inner - 1, 0))
        value = apply("take_along_axis", x, pick(trees.features), axis=1)
        split = pick(trees.splits, x.dtype)
        passes = pick(trees.missing)
        nan = apply("is_nan", value) if x.dtype.is_float else None
        test: Symbol | None = None
        for mode in np.unique(trees.modes).tolist():
            if mode == len(_ROWS):
                sets = pick(trees.members if trees.members is not None else np.zeros((inner, 0)), x.dtype)
                found = any_(apply("equal", value.reshape((*value.shape, 1)), sets), -1)
            else:
                found = apply(_ROWS[mode], value, split)
            test = found if test is None else apply("where", apply("equal", pick(trees.modes), mode), found, test)
        if test is None:
            break
        if nan is not None:
            test = apply("where", nan, passes, test)
        next_ = apply("where", test, pick(trees.yes), pick(trees.no))
        at = apply("where", apply("less", at, inner), next_, at)
    leaf = apply("sub", at, inner)
    weights = apply("gather", graph.constant(trees.leaves.astype(x.dtype.numpy)), leaf, axis=0)
    if aggregate in ("SUM", "AVERAGE"):
        total = sum_(weights, 1)
        return total if aggregate == "SUM" else apply("div", total, float(count))
    reached = apply("gather", graph.constant(trees.reached), leaf, axis=0)
    neutral = float("inf") if aggregate == "MIN" else float("-inf")
    weights = apply("where", reached, weights, neutral)
    best = min_(weights, axis=1) if aggregate == "MIN" else max_(weights, axis=1)
    return apply("where", any_(reached, 1), best, 0.0)


def transformed_scores(node: Node, scores: Symbol, transform: str) -> Symbol:
    """Return scores after a post_transform."""
    match transform:
        case "NONE":
            return scores
        case "SOFTMAX":
            return softmax(scores, -1)
        case "LOGISTIC":
            return apply("sigmoid", scores)
        case "SOFTMAX_ZERO":  # zeros stay, and add nothing to the sum
            zero = apply("equal", scores, 0.0)
            raised = apply("exp", apply("sub", scores, max_(scores, axis=-1, keepdims=True)))
            kept = apply("where", zero, 0.0, raised)
            return apply("div", kept, apply("maximum", sum_(kept, -1, True), float(np.finfo(np.float32).tiny)))
        case "PROBIT":
            return _probit(scores)
    node.unsupported(f"post_transform {transform}", "apply it outside the model")
    return scores


def _probit(x: Symbol) -> Symbol:
    """Return the quantile of the normal distribution in the approximation that onnxruntime and ONNX's reference share.

    It is Winitzki's of the inverse error function, √(√(v² - w) - v) with v = 2 / (π a) + log(1 - y²) / 2 and a = 0.147.
    """
    y = apply("sub", apply("mul", x, 2.0), 1.0)
    logarithm = apply("log", apply("mul", apply("sub", 1.0, y), apply("add", 1.0, y)))
    v = apply("add", apply("mul", logarithm, 0.5), 2 / (3.14159 * 0.147))
    root = apply("sqrt", apply("sub", apply("mul", v, v), apply("mul", logarithm, 1 / 0.147)))
    size = apply("sqrt", apply("sub", root, v))
    return apply("mul", apply("where", apply("less", y, 0.0), apply("negate", size), size), 1.41421356)


def _array(node: Node, name: str, default: Any = None) -> Array:
    value = node.attr(name, default)
    return value.array.reshape(-1) if isinstance(value, Known) else np.array(value if value is not None else [])


@handles("TreeEnsemble", domain=_DOMAIN)
def tree_ensemble(node: Node) -> Result:
    """Add up the leaves that each row reaches, one target for each."""
    node.ignore("nodes_hitrates")
    x, targets = node[0], node.attr("n_targets", 1)
    node.require(len(x.shape) == 2 and x.dtype.is_float, f"an input of {x.dtype} with {len(x.shape)} axes")
    modes = _array(node, "nodes_modes").astype(np.int64)
    inner = len(modes)
    node.require(bool(((modes >= 0) & (modes < len(_MODES))).all()), "an unknown mode of a node")
    weights, owners = _array(node, "leaf_weights"), _array(node, "leaf_targetids").astype(np.int64)
    owned = targets > 0 and bool(((owners >= 0) & (owners < targets)).all())
    node.require(len(weights) == len(owners) and owned, "uneven leaves")
    node.require_few(len(weights) * targets, "the leaves of an ensemble")
    leaves, reached = np.zeros((len(weights), targets)), np.zeros((len(weights), targets), np.bool_)
    leaves[np.arange(len(weights)), owners] = weights
    reached[np.arange(len(weights)), owners] = True
    ends: list[Array] = []
    for side in ("true", "false"):
        to, leaf = (_array(node, f"nodes_{side}{what}").astype(np.int64) for what in ("nodeids", "leafs"))
        node.require(len(to) == len(leaf) == inner, f"{len(to)} ends of {inner} nodes")
        ends.append(np.where(leaf != 0, to + inner, to))
    missing = _array(node, "nodes_missing_value_tracks_true").astype(np.bool_)
    members = _sets(node, modes) if (modes == len(_ROWS)).any() else None
    if members is None:
        node.ignore("membership_values")
    trees = Trees(
        _array(node, "tree_roots").astype(np.int64), modes, _array(node, "nodes_featureids").astype(np.int64),
        _array(node, "nodes_splits"), missing if missing.size else np.zeros(inner, np.bool_), ends[0], ends[1],
        leaves, reached, members, 0,
    )  # fmt: skip
    aggregate, transform = node.attr("aggregate_function", 1), node.attr("post_transform", 0)
    node.require(0 <= aggregate < len(_AGGREGATES) and 0 <= transform < len(_TRANSFORMS), "an unknown function")
    scores = _scores(node, x, _checked(node, trees, x.shape[1]), _AGGREGATES[aggregate])
    return transformed_scores(node, scores, _TRANSFORMS[transform])


def _sets(node: Node, modes: Array) -> Array:
    """Return the members of the set of each node, in rows of equal length; NaN, which ends a set, is no member."""
    values = _array(node, "membership_values").astype(np.float64)
    (ends,) = np.nonzero(np.isnan(values))
    (testing,) = np.nonzero(modes == len(_ROWS))
    node.require(len(ends) >= len(testing), f"{len(ends)} sets for {len(testing)} nodes")
    starts = [0, *(ends[:-1] + 1).tolist()]
    longest = max(int(end) - start for start, end in zip(starts, ends.tolist(), strict=True))
    node.require_few(len(modes) * longest, "the sets of an ensemble")
    table = np.full((len(modes), longest), np.nan)
    for which, start, end in zip(testing.tolist(), starts, ends.tolist(), strict=False):
        table[which, : end - start] = values[start:end]
    return table


# -- the older form, whose nodes are named by tree and number ------------------------------------------------------------


def _legacy(node: Node, x: Symbol, prefix: str, targets: int) -> Trees:
    """Return the trees of attributes that name nodes by (tree, node), and weights by (tree, node, target)."""
    node.ignore("nodes_hitrates", "nodes_hitrates_as_tensor")
    names = list(zip(_array(node, "nodes_treeids").tolist(), _array(node, "nodes_nodeids").tolist(), strict=True))
    modes: list[str] = node.attr("nodes_modes", None) or []
    node.require(len(names) == len(modes) == len(set(names)), f"{len(names)} nodes, {len(modes)} modes")
    node.require(set(modes) <= {*_MODES, "LEAF"}, f"an unknown mode among {sorted(set(modes))[:8]}")
    inner = [number for number, mode in enumerate(modes) if mode != "LEAF"]
    outer = [number for number, mode in enumerate(modes) if mode == "LEAF"]
    position = {names[number]: index for index, number in enumerate([*inner, *outer])}

    def of_inner(name: str, kind: Any) -> Array:
        given = _array(node, name)
        node.require(len(given) in (0, len(names)), f"{len(given)} numbers in {name} for {len(names)} nodes")
        return (given if len(given) else np.zeros(len(names)))[inner].astype(kind)

    splits = "nodes_values_as_tensor" if node.attr("nodes_values_as_tensor", None) is not None else "nodes_values"
    ends: list[Array] = []
    led_to: set[tuple[int, int]] = set()
    for side in ("true", "false"):
        to = of_inner(f"nodes_{side}nodeids", np.int64).tolist()
        named = [(names[number][0], end) for number, end in zip(inner, to, strict=True)]
        ends.append(np.array([position.get(name, -1) for name in named], np.int64))
        led_to.update(named)
    roots = [position[name] for name in names if name not in led_to]
    found = {*roots}
    pending = [root for root in roots if root < len(inner)]
    while pending:
        at = pending.pop()
        below = {int(end[at]) for end in ends} - found
        found |= below
        pending += [end for end in below if 0 <= end < len(inner)]
    node.require(found >= {*range(len(names))}, "a node of a tree that its root does not lead to")
    tensor = node.attr(f"{prefix}_weights_as_tensor", None)
    weights = f"{prefix}_weights" if tensor is None else f"{prefix}_weights_as_tensor"
    node.require_few(len(outer) * targets, "the leaves of an ensemble")
    leaves, reached = np.zeros((len(outer), targets)), np.zeros((len(outer), targets), np.bool_)
    owners = zip(*(_array(node, f"{prefix}_{what}").tolist() for what in ("treeids", "nodeids", "ids")), strict=True)
    for (tree, number, target), weight in zip(owners, _array(node, weights).tolist(), strict=True):
        leaf = position.get((tree, number), -1) - len(inner)
        node.require(leaf >= 0 and 0 <= target < targets, f"a weight of node {number} of tree {tree}, which is no leaf")
        leaves[leaf, target] += weight
        reached[leaf, target] = True
    trees = Trees(
        np.array(roots, np.int64), np.array([_MODES.index(modes[number]) for number in inner], np.int64),
        of_inner("nodes_featureids", np.int64), of_inner(splits, np.float64),
        of_inner("nodes_missing_value_tracks_true", np.bool_), ends[0], ends[1], leaves, reached, None, 0,
    )  # fmt: skip
    node.require(len(_ROWS) not in trees.modes, "BRANCH_MEMBER needs TreeEnsemble")
    return _checked(node, trees, x.shape[1])


def _base(node: Node, scores: Symbol) -> Symbol:
    tensor = node.attr("base_values_as_tensor", None)
    given = _array(node, "base_values_as_tensor" if tensor is not None else "base_values")
    return scores if not given.size else apply("add", scores, node.constant(given, scores.dtype))


def _features(node: Node) -> Symbol:
    x = node[0]
    node.require(len(x.shape) == 2, f"an input with {len(x.shape)} axes; (rows, features) is expected")
    return x if x.dtype.is_float and x.dtype.bits >= 32 else x.cast(float32)


@handles("TreeEnsembleRegressor", domain=_DOMAIN)
def tree_regressor(node: Node) -> Result:
    """Aggregate the leaves that each row reaches, in the form before TreeEnsemble."""
    x, targets = _features(node), node.attr("n_targets", 1)
    trees = _legacy(node, x, "target", targets)
    scores = _base(node, _scores(node, x, trees, node.attr("aggregate_function", "SUM")))
    return transformed_scores(node, scores, node.attr("post_transform", "NONE")).cast(float32)


@handles("TreeEnsembleClassifier", domain=_DOMAIN)
def tree_classifier(node: Node) -> Result:
    """Return the class with the highest score, and all scores."""
    x = _features(node)
    names, numbers = node.attr("classlabels_strings", None), node.attr("classlabels_int64s", None)
    labels = numbers if names is None else names
    node.require(bool(labels), "no class labels")
    ids = set(_array(node, "class_ids").tolist())
    transform = node.attr("post_transform", "NONE")
    if len(labels) == 2 and len(ids) == 1:  # one score decides between two classes
        trees = _legacy(node, x, "class", max(ids) + 1)
        score = _base(node, _scores(node, x, trees, "SUM")[:, max(ids) : max(ids) + 1])
        positive = bool((trees.leaves >= 0).all())
        node.require(transform in ("NONE", "LOGISTIC"), f"post_transform {transform} of one score")
        limit = 0.5 if positive and transform == "NONE" else 0.0
        which = apply("greater", score, limit)[:, 0].cast(int64)
        high = apply("sigmoid", score) if transform == "LOGISTIC" else score
        low = apply("sub", 1.0, high) if transform == "LOGISTIC" or positive else apply("negate", score)
        scores = apply("concat", low, high, axis=1)
    else:
        trees = _legacy(node, x, "class", len(labels))
        raw = _base(node, _scores(node, x, trees, "SUM"))
        which = argmax(raw, 1)
        scores = transformed_scores(node, raw, transform)
    if names is not None:
        return encode_labels(which, list(range(len(names))), names, "", string), scores.cast(float32)
    return apply("gather", node.constant(labels, int64), which, axis=0), scores.cast(float32)
