"""Ensembles of trees against ONNX's reference evaluator and against walks down by hand; label encoders."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from .....support.onnx_models import agrees, evaluated, model, node, numpy_helper

F = np.float32
RNG = np.random.default_rng(3)
ML = {"ai.onnx.ml": 5}
OLD = {"ai.onnx.ml": 3}
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def forest(prefix: str, trees: int, depth: int, targets: int, features: int) -> dict[str, Any]:
    """Attributes of full binary trees with random comparisons, in the form before TreeEnsemble."""
    made: dict[str, list[Any]] = {name: [] for name in (
        "nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_values", "nodes_modes", "nodes_truenodeids",
        "nodes_falsenodeids", "nodes_missing_value_tracks_true", f"{prefix}_treeids", f"{prefix}_nodeids", f"{prefix}_ids",
        f"{prefix}_weights",
    )}  # fmt: skip
    inner, count = 2**depth - 1, 2 ** (depth + 1) - 1
    for tree in range(trees):
        for number in range(count):
            leaf = number >= inner
            mode, yes, no = ("LEAF", 0, 0) if leaf else (str(RNG.choice(MODES)), 2 * number + 1, 2 * number + 2)
            entry = (tree, number, int(RNG.integers(features)), float(F(RNG.normal())), mode, yes, no, int(RNG.integers(2)))
            for name, value in zip(list(made)[:8], entry, strict=True):
                made[name].append(value)
            if leaf:
                weight = (tree, number, int(RNG.integers(targets)), float(F(RNG.normal())))
                for name, value in zip(list(made)[8:], weight, strict=True):
                    made[name].append(value)
    return made


def walk(attributes: dict[str, Any], prefix: str, x: Any, targets: int) -> Any:
    """The sums of leaves that each row reaches, one step after the other."""
    compare = {"BRANCH_LEQ": np.less_equal, "BRANCH_LT": np.less, "BRANCH_GTE": np.greater_equal, "BRANCH_GT": np.greater,
               "BRANCH_EQ": np.equal, "BRANCH_NEQ": np.not_equal}  # fmt: skip
    keys = zip(attributes["nodes_treeids"], attributes["nodes_nodeids"], strict=True)
    nodes = {key: number for number, key in enumerate(keys)}
    leaves: dict[Any, list[tuple[int, float]]] = {}
    columns = [attributes[f"{prefix}_{what}"] for what in ("treeids", "nodeids", "ids", "weights")]
    for tree, number, target, weight in zip(*columns, strict=True):
        leaves.setdefault((tree, number), []).append((target, weight))
    scores = np.zeros((len(x), targets))
    for row, values in enumerate(x):
        for tree in sorted(set(attributes["nodes_treeids"])):
            at = nodes[tree, 0]
            while attributes["nodes_modes"][at] != "LEAF":
                value = values[attributes["nodes_featureids"][at]]
                passes = compare[attributes["nodes_modes"][at]](value, F(attributes["nodes_values"][at]))
                if np.isnan(value):
                    passes = bool(attributes["nodes_missing_value_tracks_true"][at])
                at = nodes[tree, attributes["nodes_truenodeids" if passes else "nodes_falsenodeids"][at]]
            for target, weight in leaves.get((tree, attributes["nodes_nodeids"][at]), ()):
                scores[row, target] += weight
    return scores


@pytest.mark.parametrize("depth", [1, 3])
def test_regressors_walk_down_their_trees(depth: int) -> None:
    attributes = forest("target", 4, depth, 3, 5)
    attributes |= {"n_targets": 3, "base_values": [1.0, 0.0, -1.0]}
    made = model([node("TreeEnsembleRegressor", "x", domain="ai.onnx.ml", **attributes)], {"x": (F, ("n", 5))}, domains=OLD)
    x = RNG.standard_normal((20, 5)).astype(F)
    x[3, :] = np.nan
    (found,) = evaluated(made, x)
    np.testing.assert_allclose(found, walk(attributes, "target", x, 3) + np.array([1, 0, -1]), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(jn.compile(jn.from_onnx(made), device="cpu", cache=False)(x), found)
    assert evaluated(made, x[:0])[0].shape == (0, 3)


@pytest.mark.parametrize("aggregate", ["AVERAGE", "MIN", "MAX"])
def test_other_aggregates(aggregate: str) -> None:
    attributes = forest("target", 5, 2, 1, 3)
    attributes |= {"n_targets": 1, "aggregate_function": aggregate}
    made = model([node("TreeEnsembleRegressor", "x", domain="ai.onnx.ml", **attributes)], {"x": (F, ("n", 3))}, domains=OLD)
    agrees(made, RNG.standard_normal((10, 3)).astype(F))


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("names", [{"classlabels_int64s": [7, 9, 11]}, {"classlabels_strings": ["a", "b", "c"]}])
def test_classifiers(transform: str, names: dict[str, Any]) -> None:
    attributes = forest("class", 3, 2, 3, 4)
    attributes["class_weights"] = [abs(weight) for weight in attributes["class_weights"]]
    attributes |= {"post_transform": transform, **names}
    classifier = node("TreeEnsembleClassifier", "x", "y z", domain="ai.onnx.ml", **attributes)
    made = model([classifier], {"x": (F, ("n", 4))}, "y z", domains=OLD)
    x = RNG.standard_normal((12, 4)).astype(F)
    labels, scores = evaluated(made, x)
    raw = walk(attributes, "class", x, 3)
    given = next(iter(names.values()))
    assert labels.tolist() == [given[number] for number in raw.argmax(1)]
    if transform == "SOFTMAX":
        raised = np.exp(raw - raw.max(1, keepdims=True))
        raw = raised / raised.sum(1, keepdims=True)
    elif transform == "LOGISTIC":
        raw = 1 / (1 + np.exp(-raw))
    elif transform == "SOFTMAX_ZERO":
        raised = np.where(raw == 0, 0, np.exp(raw - raw.max(1, keepdims=True)))
        raw = raised / raised.sum(1, keepdims=True)
    np.testing.assert_allclose(scores, raw, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("negative", [False, True])
def test_one_score_decides_between_two_classes(transform: str, negative: bool) -> None:
    attributes = forest("class", 3, 2, 1, 4)
    if not negative:
        attributes["class_weights"] = [abs(weight) / 3 for weight in attributes["class_weights"]]
    made = model([node("TreeEnsembleClassifier", "x", "y z", domain="ai.onnx.ml", post_transform=transform,
                       classlabels_int64s=[4, 5], **attributes)], {"x": (F, ("n", 4))}, "y z", domains=OLD)  # fmt: skip
    x = RNG.standard_normal((30, 4)).astype(F)
    if not negative or transform == "LOGISTIC":
        agrees(made, x)
        return
    labels, scores = evaluated(made, x)  # runtimes and the reference differ; runtimes give the score and its opposite
    raw = walk(attributes, "class", x, 1)
    assert labels.tolist() == np.where(raw[:, 0] > 0, 5, 4).tolist()
    np.testing.assert_allclose(scores, np.concatenate([-raw, raw], 1), rtol=1e-5, atol=1e-6)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("trees", [1, 10])
def test_two_classes_compiled(trees: int) -> None:
    """Labels and probabilities of one score, as converters write two classes: scheduling them did not end."""
    attributes = forest("class", trees, 2, 1, 4)
    attributes["class_weights"] = [abs(weight) / 8 for weight in attributes["class_weights"]]
    made = model([node("TreeEnsembleClassifier", "x", "y z", domain="ai.onnx.ml", classlabels_int64s=[4, 5], **attributes)],
                 {"x": (F, ("n", 4))}, "y z", domains=OLD)  # fmt: skip
    x = RNG.standard_normal((30, 4)).astype(F)
    graph = jn.from_onnx(made)
    expected = jn.evaluate(graph, x)
    labels, scores = jn.compile(graph, "cpu", cache=False)(x)
    np.testing.assert_array_equal(labels, expected[0])
    np.testing.assert_allclose(scores, expected[1], rtol=1e-6, atol=1e-6)


CHANGES: dict[str, Any] = {
    "a node that is not there": {"nodes_truenodeids": [9, 0, 0]},
    "a node that leads back": {"nodes_truenodeids": [0, 0, 0]},
    "a feature that is not there": {"nodes_featureids": [5, 0, 0]},
    "an unknown mode": {"nodes_modes": ["BRANCH_LEQ", "LEAF", "NODE"]},
    "too few modes": {"nodes_modes": ["BRANCH_LEQ", "LEAF"]},
    "a weight of an inner node": {"target_nodeids": [0, 2]},
    "a target that is not there": {"target_ids": [0, 3]},
    "two nodes of one name": {"nodes_nodeids": [0, 1, 1]},
}


@pytest.mark.parametrize("name", CHANGES)
def test_trees_that_do_not_fit(name: str) -> None:
    attributes = {"n_targets": 1, **forest("target", 1, 1, 1, 2), **CHANGES[name]}
    made = model([node("TreeEnsembleRegressor", "x", domain="ai.onnx.ml", **attributes)], {"x": (F, ("n", 2))}, domains=OLD)
    with pytest.raises(jn.UserError):
        jn.from_onnx(made)


def test_labels_of_every_pair_of_types() -> None:
    x = np.array([1, 5, 2, 1])
    table: dict[str, Any] = {"keys_int64s": [1, 2], "values_floats": [0.5, 1.5], "default_float": 9.0}
    encoder = node("LabelEncoder", "x", domain="ai.onnx.ml", **table)
    made = model([encoder], {"x": (np.int64, ("n",))}, domains={"ai.onnx.ml": 4})
    graph = jn.from_onnx(made)
    assert jn.evaluate(graph, x).tolist() == [0.5, 9, 1.5, 0.5]
    assert not any(symbol.op.kind == "host" for symbol in graph.symbols)
    given = {"keys_tensor": [1.0, np.nan], "values_tensor": [3.0, 4.0], "default_tensor": [-1.0]}
    tensors = {name: numpy_helper.from_array(np.array(values, np.float64), name) for name, values in given.items()}
    made = model([node("LabelEncoder", "x", domain="ai.onnx.ml", **tensors)], {"x": (np.float64, ("n",))}, domains=ML)
    assert evaluated(made, np.array([np.nan, 1, 2]))[0].tolist() == [4, 3, -1]
    made = model([node("LabelEncoder", "x", domain="ai.onnx.ml", classes_strings=["a", "b"], default_string="?")],
                 {"x": (np.int64, ("n",))}, domains={"ai.onnx.ml": 1})  # fmt: skip
    assert evaluated(made, np.array([1, 3, 0]))[0].tolist() == ["b", "?", "a"]
