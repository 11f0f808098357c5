"""Operators of ai.onnx.ml around models, against ONNX's reference evaluator."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from .....support.onnx_models import agrees, evaluated, model, node

F = np.float32
ML = "ai.onnx.ml"
X = np.array([[0.5, -1, 2], [1, 1, 1], [-3, 0.25, 0], [0, 0, 0]], F)


def one(op: str, inputs: Any, outputs: str = "y", **attributes: Any) -> Any:
    return model([node(op, " ".join(inputs), outputs, domain=ML, **attributes)], inputs, outputs, domains={ML: 3})


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_linear_classifier(transform: str) -> None:
    made = one("LinearClassifier", {"x": (F, ["n", 3])}, "label scores", coefficients=[0.5, -1, 2, 1, 1, -1, 0, 0.5, 0.25],
               intercepts=[0.1, 0, -0.2], classlabels_ints=[3, 5, 9], post_transform=transform)  # fmt: skip
    agrees(made, X)


def test_linear_classifier_with_names() -> None:
    made = one("LinearClassifier", {"x": (F, ["n", 3])}, "label scores", coefficients=[1.0, 0.0, 0.0, 0.0, 1.0, 0.0],
               classlabels_strings=["a", "b"])  # fmt: skip
    assert evaluated(made, X)[0].tolist() == ["a", "a", "b", "a"]


@pytest.mark.parametrize("replaced", [0.0, 1.0, float("nan")])
def test_imputer(replaced: float) -> None:
    x = np.where(X == 2, F(np.nan), X)
    made = one("Imputer", {"x": (F, ["n", 3])}, imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=replaced)
    agrees(made, x)


def test_one_hot_encoder() -> None:
    made = one("OneHotEncoder", {"x": (np.int64, ["n"])}, cats_int64s=[2, 5, 7], zeros=1)
    agrees(made, np.array([5, 7, 2, 1, 5]))
    made = one("OneHotEncoder", {"x": (object, ["n"])}, cats_strings=["b", "a"], zeros=1)
    assert evaluated(made, np.array(["a", "c", "b"], dtype=object))[0].tolist() == [[0, 1], [0, 0], [1, 0]]


def test_feature_vectorizer() -> None:
    made = one("FeatureVectorizer", {"x": (F, ["n", 3]), "z": (F, ["n", 1])}, inputdimensions=[3, 1])
    agrees(made, X, X[:, :1])


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (one("LinearClassifier", {"x": (F, [4, 3])}, "a b", coefficients=[1.0] * 3, classlabels_ints=[0, 1]), "3 coefficients"),
        (one("OneHotEncoder", {"x": (np.int64, [3])}, cats_int64s=[1], zeros=0), "zeros=0, which refuses unknown categories"),
        (one("Imputer", {"x": (F, [4, 3])}, imputed_value_floats=[1.0, 2.0]), r"2 imputed values has .*\(any, 2\) is"),
        (one("FeatureVectorizer", {"x": (F, [4, 3])}, inputdimensions=[2]), r"inputdimensions, has .*\(any, 2\)"),
    ],
)  # fmt: skip
def test_mistakes(made: Any, message: str) -> None:
    with pytest.raises((jn.UserError, jn.UnsupportedError), match=message):
        jn.from_onnx(made)
