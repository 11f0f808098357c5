"""Support vector machines, linear models and label maps of ai.onnx.ml against onnxruntime."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import onnxruntime
import pytest

from .....support.onnx_models import evaluated, helper, model, node

F = np.float32
ML = "ai.onnx.ml"
onnxruntime.set_default_logger_severity(4)
KERNELS = ["LINEAR", "POLY", "RBF", "SIGMOID"]


def one(op: str, outputs: str, inputs: Any = None, **attributes: Any) -> Any:
    inputs = inputs or {"x": (F, ["n", 3])}
    attributes = {name: value for name, value in attributes.items() if value != []}
    return model([node(op, " ".join(inputs), outputs, domain=ML, **attributes)], inputs, outputs, domains={ML: 3}, opset=18)


def expected(made: Any, *arrays: Any) -> list[Any]:
    for output in made.graph.output:
        output.type.CopyFrom(helper.make_empty_tensor_value_info("").type)
    options = {"providers": ["CPUExecutionProvider"]}
    session = onnxruntime.InferenceSession(made.SerializeToString(), **options)
    return list(session.run(None, dict(zip([each.name for each in made.graph.input], arrays, strict=True))))


def agree(made: Any, *arrays: Any, atol: float = 1e-5) -> list[Any]:
    """Compare the evaluator and compiled code with onnxruntime."""
    wanted, found = expected(made, *arrays), evaluated(made, *arrays)
    compiled = jn.compile(jn.from_onnx(made), device="cpu", cache=False)(*arrays)
    for want, one_, other in zip(wanted, found, compiled if isinstance(compiled, tuple) else [compiled], strict=True):
        if want.dtype.kind in "OU":
            assert one_.tolist() == other.tolist() == want.tolist()
            continue
        for result in (one_, other):
            assert (result.dtype, result.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(result, want, rtol=1e-5, atol=atol)
    return found


def machine(classes: int, kernel: str = "RBF", probable: bool = False, seed: int = 1, **attributes: Any) -> dict[str, Any]:
    """Attributes of a classifier with random vectors."""
    rng = np.random.default_rng(seed)
    per_class = [2 + number % 2 for number in range(classes)]
    total, pairs = sum(per_class), classes * (classes - 1) // 2

    def numbers(*shape: int) -> list[float]:
        return rng.standard_normal(shape).astype(F).ravel().tolist()

    made = {"coefficients": numbers(classes - 1, total), "support_vectors": numbers(total, 3), "vectors_per_class": per_class,
            "rho": numbers(pairs), "kernel_type": kernel, "kernel_params": [0.3, 0.5, 2.0],
            "classlabels_ints": [10 * number + 3 for number in range(classes)]}  # fmt: skip
    return {**made, **({"prob_a": numbers(pairs), "prob_b": numbers(pairs)} if probable else {}), **attributes}


def rows(count: int = 9) -> Any:
    return np.random.default_rng(7).standard_normal((count, 3)).astype(F)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kernel", KERNELS)
def test_classifiers_of_each_kernel(kernel: str) -> None:
    found = agree(one("SVMClassifier", "label scores", **machine(3, kernel)), rows())
    assert len(set(found[0].tolist())) > 1


@pytest.mark.one_in(4)
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("classes", [2, 4])
def test_classifiers_with_scores_transformed(classes: int, transform: str) -> None:
    made = one("SVMClassifier", "label scores", **machine(classes, post_transform=transform))
    if classes == 2 and transform.startswith("SOFTMAX"):  # onnxruntime returns 1 - s and s, without a transform
        plain = evaluated(one("SVMClassifier", "label scores", **machine(classes)), rows())[1]
        want = np.exp(plain) / np.exp(plain).sum(1, keepdims=True)
        np.testing.assert_allclose(evaluated(made, rows())[1], want, rtol=1e-5)
    else:
        agree(made, rows())


def coupled(given: Any) -> Any:
    """libsvm's `multiclass_probability` for one row, in NumPy. given: r of each pair, in order."""
    pairs = len(given)
    classes = int((1 + np.sqrt(1 + 8 * pairs)) / 2)
    r = np.zeros((classes, classes))
    r[np.triu_indices(classes, 1)] = given
    r += np.tril(1 - r.T, -1)
    q = -r.T * r + np.diag((r**2).sum(0))
    p = np.full(classes, 1 / classes)
    for _ in range(max(100, classes)):
        products = q @ p
        total = p @ products
        if np.abs(products - total).max() < 0.005 / classes:
            break
        for t in range(classes):
            step = (total - products[t]) / q[t, t]
            p[t] += step
            total = (total + step * (step * q[t, t] + 2 * products[t])) / (1 + step) ** 2
            products = (products + step * q[t]) / (1 + step)
            p /= 1 + step
    return p


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("classes", "seed"), [(2, 1), (2, 2), (3, 1), (3, 2), (5, 3), (12, 4)])
def test_probabilities_are_those_of_libsvm_and_onnxruntime(classes: int, seed: int) -> None:
    settings = machine(classes, probable=True, seed=seed)
    _, scores = agree(one("SVMClassifier", "label scores", **settings), rows(40), atol=1e-6)
    plain = {**settings, "prob_a": [], "prob_b": [], "rho": settings["rho"]}
    sums = evaluated(one("SVMClassifier", "label scores", **plain), rows(40))[1].astype(np.float64)
    sums = sums[:, 1:] if classes == 2 else sums
    given = 1 / (1 + np.exp(sums * settings["prob_a"] + settings["prob_b"]))
    wanted = np.array([coupled(row) for row in given.clip(1e-7, 1 - 1e-7)])
    np.testing.assert_allclose(scores, wanted, atol=1e-6)


@pytest.mark.slow
def test_probabilities_of_rows_end_apart_and_at_extremes() -> None:
    settings = machine(3, probable=True, prob_a=[-60.0, 40.0, -50.0])  # sigmoids at the ends of their range
    made = one("SVMClassifier", "label scores", **settings)
    _, all_ = agree(made, rows(200), atol=1e-6)
    for count in (0, 1):
        _, first = agree(made, rows(200)[:count], atol=1e-6)
        np.testing.assert_array_equal(first, all_[:count])
    broken = rows(3)
    broken[1] = np.nan
    assert np.isnan(evaluated(made, broken)[1]).any(1).tolist() == [False, True, False]


@pytest.mark.slow
def test_probabilities_are_computed_on_a_gpu_and_in_a_file_that_is_not_trusted(tmp_path: Any) -> None:
    made = one("SVMClassifier", "label scores", **machine(3, probable=True))
    wanted = evaluated(made, rows())[1]
    compiled = jn.compile(jn.from_onnx(made), device="cpu", cache=False)
    compiled.save(tmp_path / "m.joinery")
    for run in (jn.load(tmp_path / "m.joinery", device="cpu"), jn.compile(jn.from_onnx(made), device="ptxsim", cache=False)):
        np.testing.assert_allclose(run(rows())[1], wanted, atol=1e-6)


def test_sums_of_many_vectors_keep_their_digits() -> None:
    rng = np.random.default_rng(0)
    count = 2000
    settings = machine(2, coefficients=rng.standard_normal(count).astype(F).tolist(), vectors_per_class=[count // 2] * 2,
                       support_vectors=rng.standard_normal((count, 3)).astype(F).ravel().tolist())  # fmt: skip
    found = agree(one("SVMClassifier", "label scores", **settings), rows())[1][:, 1]
    vectors = np.array(settings["support_vectors"]).reshape(-1, 3)
    kernel = np.exp(-settings["kernel_params"][0] * ((rows().astype(np.float64)[:, None] - vectors) ** 2).sum(2))
    np.testing.assert_allclose(found, kernel @ settings["coefficients"] + settings["rho"][0], atol=3e-6)


@pytest.mark.slow
def test_classifiers_with_names_and_without_support_vectors() -> None:
    names = machine(3)
    del names["classlabels_ints"]
    agree(one("SVMClassifier", "label scores", **names, classlabels_strings=["a", "b", "c"]), rows())
    linear = {"coefficients": rows(3).ravel().tolist(), "rho": [0.25], "kernel_type": "LINEAR", "kernel_params": [0.0] * 3}
    agree(one("SVMClassifier", "label scores", **linear, classlabels_ints=[4, 5, 6], post_transform="SOFTMAX"), rows())
    for dtype in (np.int64, np.float64):
        made = one("SVMClassifier", "label scores", {"x": (dtype, ["n", 3])}, **machine(3))
        agree(made, (rows() * 3).astype(dtype))


@pytest.mark.one_in(9)
@pytest.mark.parametrize("one_class", [0, 1])
@pytest.mark.parametrize("kernel", KERNELS)
def test_regressors(kernel: str, one_class: int) -> None:
    made = one("SVMRegressor", "y", coefficients=[0.5, -1.0, 2.0, 0.25], support_vectors=rows(4).ravel().tolist(), n_supports=4,
               rho=[0.3], kernel_type=kernel, kernel_params=[0.3, 0.5, 3.0], one_class=one_class)  # fmt: skip
    agree(made, rows())


def test_regressors_without_support_vectors_and_rows() -> None:
    made = one("SVMRegressor", "y", coefficients=[0.5, -1.0, 2.0], rho=[0.3], kernel_params=[0.0] * 3)
    agree(made, rows())
    assert evaluated(made, rows(0))[0].shape == (0, 1)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("transform", ["LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"])
def test_linear_regressors_with_several_targets(transform: str) -> None:
    made = one("LinearRegressor", "y", coefficients=(rows(2) / 9).ravel().tolist(), targets=2, intercepts=[0.5, 0.4],
               post_transform=transform)  # fmt: skip
    agree(made, rows() / 3, atol=1e-4)


def test_linear_classifiers_with_one_score_for_two_classes() -> None:
    made = one("LinearClassifier", "label scores", coefficients=[0.5, -1.0, 2.0], intercepts=[0.1], classlabels_ints=[7, 9],
               post_transform="LOGISTIC")  # fmt: skip
    agree(made, rows())


def test_category_mappers() -> None:
    lists = {"cats_strings": ["a", "b", "c"], "cats_int64s": [5, 6, 7], "default_int64": -3, "default_string": "none"}
    agree(one("CategoryMapper", "y", {"x": (object, ["n"])}, **lists), np.array(["c", "z", "a"], dtype=object))
    agree(one("CategoryMapper", "y", {"x": (np.int64, ["n"])}, **lists), np.array([6, 9, 5]))


@pytest.mark.parametrize(
    ("op", "attributes", "message"),
    [
        ("SVMClassifier", machine(3, rho=[1.0]), "1 numbers in rho for 3 pairs of classes; fix: "),
        ("SVMClassifier", machine(3, coefficients=[1.0]), "1 coefficients for 7 vectors of 3 classes; fix: "),
        ("SVMClassifier", machine(3, support_vectors=[1.0]), "1 numbers in support_vectors for 7 of 3 features; fix: "),
        ("SVMClassifier", machine(3, vectors_per_class=[7]), r"vectors_per_class \[7\] for 3 classes; fix: "),
        ("SVMClassifier", machine(3, vectors_per_class=[9, -1, -1]), r"vectors_per_class \[9, -1, -1\] for 3 classes; fix: "),
        ("SVMClassifier", machine(3, classlabels_ints=[]), "classlabels_strings or classlabels_ints, and not both"),
        ("SVMClassifier", machine(3, kernel_type="COSINE"), "kernel_type 'COSINE', which is not supported; fix: LINEAR"),
        ("SVMClassifier", machine(3, kernel_params=[1.0]), "1 kernel_params; gamma, coef0 and degree are expected; fix: "),
        ("SVMClassifier", machine(3, prob_a=[1.0]), "1 and 0 numbers in prob_a and prob_b for 3 pairs; fix: "),
        ("SVMRegressor", {"coefficients": [1.0], "n_supports": 3, "rho": [1.0]}, "1 coefficients for 3 support vectors; fix: "),
        ("SVMRegressor", {"coefficients": [1.0], "rho": [1.0]}, "1 coefficients for 3 features; fix: "),
        ("SVMRegressor", {"coefficients": [1.0] * 3, "rho": []}, "0 numbers in rho; one is expected; fix: "),
        ("SVMRegressor", {"coefficients": [1.0] * 3, "rho": [1.0], "post_transform": "LOGISTIC"}, "a post_transform, which"),
        ("LinearRegressor", {"coefficients": [1.0] * 3, "post_transform": "LOGISTIC"}, "post_transform LOGISTIC of one target"),
        ("ZipMap", {"classlabels_int64s": [1, 2]}, r"scores for 2 labels has shape .*; \(any, 2\) is expected; fix: "),
        ("ZipMap", {}, "classlabels_strings or classlabels_int64s, and not both"),
        ("DictVectorizer", {"int64_vocabulary": [1, 2]}, "a dictionary as an operand, which is not supported; fix: "),
    ],
)  # fmt: skip
def test_mistakes(op: str, attributes: Any, message: str) -> None:
    outputs = "y scores" if op == "SVMClassifier" else "y"
    with pytest.raises((jn.UserError, jn.UnsupportedError), match=message):
        jn.from_onnx(one(op, outputs, **attributes))


@pytest.mark.parametrize("labels", [{"classlabels_int64s": [4, 5, 6]}, {"classlabels_strings": ["a", "b", "c"]}])
def test_probabilities_by_label_are_dictionaries(labels: Any) -> None:
    made, x = one("ZipMap", "y", **labels), np.random.default_rng(5).random((4, 3), np.float32)
    kind = 7 if "classlabels_int64s" in labels else 8
    entry = helper.make_map_type_proto(kind, helper.make_tensor_type_proto(1, []))
    made.graph.output[0].type.CopyFrom(helper.make_sequence_type_proto(entry))
    (wanted,) = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})
    model = jn.compile_onnx(made, device="cpu", threads=1)
    assert model.run({"x": x})["y"] == wanted
    assert model.outputs[0].dtype == "seq(map(float32))"
    np.testing.assert_array_equal(jn.evaluate(jn.from_onnx(made), x), x)  # a graph has the matrix


@pytest.mark.one_in(3)
@pytest.mark.parametrize("values", ["values_int64s", "values_floats", "values_strings"])
@pytest.mark.parametrize("keys", [1, 3, 80])
@pytest.mark.parametrize("opset", [2, 3, 4])
def test_nan_is_a_key_since_opset_4(opset: int, keys: int, values: str) -> None:
    given = [float("nan"), *range(1, keys)]
    label = {"values_strings": "label {}".format, "values_int64s": int, "values_floats": float}[values]
    labels = [label(number + 20) for number in range(keys)]
    x = np.array([np.nan, 0, 1, 2, 79, -np.nan, np.inf], F)
    encoder = node("LabelEncoder", "x", "y", domain=ML, keys_floats=given, **{values: labels})
    made = model([encoder], {"x": (F, ["n"])}, "y", domains={ML: opset}, opset=18)
    agree(made, x)
