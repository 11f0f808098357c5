"""Opsets before the newest, and rarely used attributes and outputs, against onnxruntime, or NumPy where it has no kernel."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from ....support.onnx_models import evaluated, model, node
from ....support.onnx_texts import by_onnxruntime
from ....support.tiers import each

RNG = np.random.default_rng(12)


def floats(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def agrees(made: Any, feeds: dict[str, Any], tolerance: float = 1e-5) -> list[Any]:
    """Compare what the evaluator and compiled code compute with onnxruntime."""
    made.ir_version = 8
    want = by_onnxruntime(made, feeds)
    compiled: Any = jn.compile_onnx(made, device="cpu", cache=False)
    for found in (evaluated(made, *feeds.values()), list(compiled.run(feeds).values())):
        for one, other in zip(found, want, strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(one, other, tolerance, tolerance)
    return want


@pytest.mark.one_in(2)
@pytest.mark.parametrize("beta", [{}, {"beta": 1.0}, {"beta": 0.5}])
def test_a_fused_product_needs_no_third_matrix(beta: dict[str, float]) -> None:
    pytest.importorskip("onnxruntime")
    feeds = {"a": floats(3, 4), "b": floats(4, 5)}
    shapes = {name: (array.dtype, [f"{name}{axis}" for axis in range(2)]) for name, array in feeds.items()}
    fused = node("FusedGemm", "a b", domain="com.microsoft", activation="Relu", alpha=2.0, **beta)
    agrees(model([fused], shapes, domains={"com.microsoft": 1}, opset=17), feeds)
    agrees(model([node("Gemm", "a b", alpha=2.0, **beta)], shapes, opset=13), feeds)


@pytest.mark.parametrize(("dtype", "bias", "axis"), each(["float32", "float64"], [False, True], [1, -1]))
def test_statistics_of_layers_are_float32(dtype: str, bias: bool, axis: int) -> None:
    pytest.importorskip("onnxruntime")
    shape = (3, 4) if axis == 1 else (4,)
    feeds = {"x": floats(2, 3, 4).astype(dtype), "s": floats(*shape).astype(dtype)}
    feeds |= {"b": floats(*shape).astype(dtype)} if bias else {}
    layer = node("LayerNormalization", " ".join(feeds), "y mean deviation", axis=axis)
    shapes = {name: (array.dtype, array.shape) for name, array in feeds.items()}
    found = agrees(model([layer], shapes, "y mean deviation", opset=17), feeds)
    assert [array.dtype.name for array in found] == [dtype, "float32", "float32"]


@pytest.mark.parametrize("constants", [False, True])
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (4, 2, 3, 2)])
def test_normalisation_of_each_element_of_a_batch(shape: tuple[int, ...], constants: bool) -> None:
    pytest.importorskip("onnxruntime")
    parameters = {name: floats(*shape[1:]) for name in "sbm"} | {"v": np.abs(floats(*shape[1:]))}
    feeds = {"x": floats(*shape)}
    shapes = {"x": (np.float32, ["n", *shape[1:]])}
    if not constants:
        feeds |= parameters
        shapes |= {name: (np.float32, list(shape[1:])) for name in parameters}
    layer = node("BatchNormalization", "x s b m v", spatial=0, epsilon=0.01)
    made = model([layer], shapes, opset=7, constants=parameters if constants else {})
    agrees(made, feeds)


def test_training_normalises_each_element_over_the_batch() -> None:
    """onnxruntime has no training of opset 7: the witness is NumPy."""
    x, scale, bias = floats(5, 2, 3), floats(2, 3), floats(2, 3)
    made = model(
        [node("BatchNormalization", "x s b m v", "y m2 v2", spatial=0, epsilon=0.01, momentum=0.75)],
        {"x": (np.float32, ["n", 2, 3]), **{name: (np.float32, [2, 3]) for name in "sbmv"}}, "y m2 v2", opset=7,
    )  # fmt: skip
    mean, spread = floats(2, 3), np.abs(floats(2, 3))
    y, new_mean, new_spread = evaluated(made, x, scale, bias, mean, spread)
    centre, variance = x.mean(0), x.var(0)
    np.testing.assert_allclose(y, (x - centre) / np.sqrt(variance + 0.01) * scale + bias, 1e-4, 1e-5)
    np.testing.assert_allclose(new_mean, mean * 0.75 + centre * 0.25, 1e-5, 1e-6)
    np.testing.assert_allclose(new_spread, spread * 0.75 + variance * 0.25, 1e-5, 1e-6)


def test_parameters_of_each_element_have_the_shape_of_one_example() -> None:
    shapes = {"x": (np.float32, [2, 3, 4]), **{name: (np.float32, [3]) for name in "sbmv"}}
    layer = node("BatchNormalization", "x s b m v", spatial=0)
    with pytest.raises(jn.UserError, match=r"a parameter of spatial=0 has shape \(3,\); \(3, 4\) is expected"):
        jn.from_onnx(model([layer], shapes, opset=7))
    with pytest.raises(jn.UnsupportedError, match="spatial=0 before opset 7"):
        jn.from_onnx(model([node("BatchNormalization", "x s b m v", spatial=0, is_test=1)], shapes, opset=6))


def test_the_first_concatenation_joins_along_axis_1() -> None:
    a, b = floats(2, 3), floats(2, 1)
    shapes = {"a": (np.float32, ["n", 3]), "b": (np.float32, ["n", 1])}
    np.testing.assert_array_equal(evaluated(model([node("Concat", "a b")], shapes, opset=1), a, b)[0], np.hstack([a, b]))
    with pytest.raises(jn.UserError, match="attribute 'axis' is missing"):
        jn.from_onnx(model([node("Concat", "a b")], shapes, opset=4))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", [(2, 3), ("n", "m")])
@pytest.mark.parametrize("opset", [7, 8, 9, 10, 11, 12, 13, 22])
def test_masks_of_dropout(opset: int, shape: tuple[Any, ...]) -> None:
    pytest.importorskip("onnxruntime")
    agrees(model([node("Dropout", "x", "y mask")], {"x": (np.float32, shape)}, "y mask", opset=opset), {"x": floats(2, 3)})


@pytest.mark.parametrize("text", ["1_0", "1_0.5", "٣", "１", "", "one", "0x10", "1e", "--1"])
@pytest.mark.parametrize("dtype", [1, 11, 7])
def test_what_writes_no_number_is_refused(text: str, dtype: int) -> None:
    """ONNX: numbers in plain and scientific notation. Python's own ways to write them are none of these."""
    made = model([node("Cast", "x", to=dtype)], {"x": (np.float32, ["n"])}, opset=13)
    made.graph.input[0].type.tensor_type.elem_type = 8
    with pytest.raises(jn.UserError, match="a string is no number"):
        evaluated(made, np.array(["1", text], object))


def test_numbers_in_plain_and_scientific_notation() -> None:
    pytest.importorskip("onnxruntime")
    texts = np.array(["3.14", "1000", "1e-5", "1E8", "-0.5", "INF", "-inf", "NaN", "+5", ".5", "5."], object)
    made = model([node("Cast", "x", to=1)], {"x": (np.float32, ["n"])}, opset=13)
    made.graph.input[0].type.tensor_type.elem_type = 8
    agrees(made, {"x": texts})
