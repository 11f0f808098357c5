"""Scales that float32 cannot hold: sizes and pixels are those of onnxruntime, for known and for symbolic sizes."""

from __future__ import annotations

import itertools
from typing import Any

import joinery as jn
import numpy as np
import pytest

from .....support.onnx_models import ReferenceEvaluator, model, node
from .....support.tiers import both_tiers, share

ort = pytest.importorskip("onnxruntime")

F = np.float32
COORDINATES = (
    "half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric", "tf_half_pixel_for_nn",
)  # fmt: skip
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
SCALES = (0.1, 0.3, 1 / 3, 0.6, 0.7, 1.1, 1.2, 1.6, 2.2)
SIZES = (7, 10, 20, 33, 50)


def resized(scale: float, size: int | str, opset: int = 13, op: str = "Resize", **options: Any) -> Any:
    """A model that resizes the last axis by a scale."""
    inputs = "x _ s" if opset > 10 else "x s"
    made = model([node(op, inputs, **options)], {"x": (F, [1, 1, 1, size])}, opset=opset,
                 constants={"s": np.array([1, 1, 1, scale], F)})  # fmt: skip
    made.ir_version = 8
    made.graph.output[0].type.tensor_type.elem_type = 1
    return made


def require_same(made: Any, fixed: Any, size: int, *, exactly: bool) -> None:
    """Compare a model for all sizes and one for a size with onnxruntime."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    x = np.random.default_rng(size).permutation(size).astype(F).reshape(1, 1, 1, size)
    (want,) = ort.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    if want.size == 0 or want.shape == x.shape:
        return  # onnxruntime copies what keeps its size, whatever the scale
    for each in (made, fixed):
        got = jn.evaluate(jn.from_onnx(each), x)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=0 if exactly else 1e-4, atol=0 if exactly else 1e-4)


CASES = [(mode, coordinates, rounding) for coordinates in COORDINATES
         for mode, roundings in (("nearest", ROUNDINGS), ("linear", ROUNDINGS[:1]), ("cubic", ROUNDINGS[:1]))
         for rounding in roundings]  # fmt: skip


@both_tiers
def test_scales(in_full: bool) -> None:
    cases = [(*case, scale, size) for case in CASES for scale in SCALES for size in SIZES]
    for mode, coordinates, rounding, scale, size in share(cases, 3, 41, in_full):
        if coordinates == "align_corners" and F(scale) * F(size) % 1:
            continue  # onnxruntime takes the rounded size there, ONNX's own suite the exact one: see below
        options = {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
        require_same(resized(scale, "n", **options), resized(scale, size, **options), size, exactly=mode == "nearest")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_corners_of_models_from_pytorch_are_those_of_the_result(mode: str) -> None:
    """As onnxruntime always computes them, and PyTorch did; of other models those of the product, as in ONNX's suite."""
    fractional = 0
    for scale, size in itertools.product(SCALES, SIZES):
        options = {"mode": mode, "coordinate_transformation_mode": "align_corners", "nearest_mode": "floor"}
        made = [resized(scale, each, **options) for each in ("n", size)]
        exact = float(F(scale) * F(size))
        for each in made:
            each.producer_name = "pytorch"
        require_same(*made, size, exactly=mode == "nearest")
        if mode != "linear" or exact == int(exact) or exact < 2:
            continue
        fractional += 1
        x = np.random.default_rng(size).permutation(size).astype(F).reshape(1, 1, 1, size)
        whole = np.interp(np.arange(int(exact)) * (size - 1) / (int(exact) - 1), np.arange(size), x.reshape(-1))
        for each in made:
            np.testing.assert_allclose(jn.evaluate(jn.from_onnx(each), x).reshape(-1), whole, rtol=1e-4, atol=1e-4)
            each.producer_name = ""
            found = np.interp(np.arange(int(exact)) * (size - 1) / (exact - 1), np.arange(size), x.reshape(-1))
            np.testing.assert_allclose(jn.evaluate(jn.from_onnx(each), x).reshape(-1), found, rtol=1e-4, atol=1e-4)
            (wanted,) = ReferenceEvaluator(made[1]).run(None, {"x": x})
            np.testing.assert_allclose(found, wanted.reshape(-1), rtol=1e-4, atol=1e-4)
            each.producer_name = "pytorch"
    assert fractional > 10 or mode != "linear"


def test_before_opset_11_smaller_scales_round_up() -> None:
    for op, opset in (("Upsample", 9), ("Resize", 10)):
        for scale in (1.6, 2.2, 1.1) if opset == 9 else (1.6, 0.7, 0.6, 0.3):
            for size in (7, 10, 20):
                made = [resized(scale, each, opset, op, mode="nearest") for each in ("n", size)]
                require_same(*made, size, exactly=True)


def test_a_scale_whose_products_float32_rounds_unevenly_needs_the_size() -> None:
    made = resized(1.3, "n", mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    with pytest.raises(jn.UnsupportedError, match=r"a scale 1.29999995 of axis 3, .* from_onnx\(…, sizes=\{'n': number\}\)"):
        jn.from_onnx(made)
    for size, count in ((80, 104), (90, 116)):  # the float32 below 117 is their product
        x = np.arange(size, dtype=F).reshape(1, 1, 1, size)
        assert jn.evaluate(jn.from_onnx(made, sizes={"n": size}), x).shape[-1] == count


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_a_kept_aspect_ratio_is_computed_in_float32(policy: str) -> None:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    for height, width, sizes in ((10, 30, [7, 22]), (3, 9, [5, 16]), (49, 7, [20, 3])):
        resize = node("Resize", "x _ _ s", mode="linear", keep_aspect_ratio_policy=policy, axes=[2, 3])
        made = model([resize], {"x": (F, [1, 1, height, width])}, opset=19, constants={"s": np.array(sizes)})
        made.graph.output[0].type.tensor_type.elem_type = 1
        x = np.random.default_rng(0).normal(size=(1, 1, height, width)).astype(F)
        session = ort.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
        (want,) = session.run(None, {"x": x})
        np.testing.assert_allclose(jn.evaluate(jn.from_onnx(made), x), want, rtol=1e-4, atol=1e-5)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("scale", "is_exact"), [(0.7, False), (0.5, True), (1.5, True)])
def test_sizes_that_were_not_tried_are_refused_or_specialised_to(scale: float, is_exact: bool) -> None:
    """Beyond the table the floats may round in another way."""
    made = resized(scale, "n", mode="nearest")
    x = np.arange(140_001, dtype=F).reshape(1, 1, 1, -1)
    (want,) = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    general: Any = jn.compile(jn.from_onnx(made), "cpu", threads=1, cache=False)
    assert general(x[..., :131_072]).shape[-1] == int(F(131_072) * F(scale))
    if is_exact:
        np.testing.assert_array_equal(general(x), want)
    else:
        with pytest.raises(jn.UserError, match=r"a size n that is scaled in floats is at most 131072; fix: the number itself"):
            general(x)
    specialised: Any = jn.compile_onnx(made, "cpu", threads=1, cache=False)
    np.testing.assert_array_equal(specialised(x), want)


@pytest.mark.one_in(18)
@pytest.mark.parametrize("scale", [0.15, 0.3, 0.5, 1 / 3, 0.75, 1.0, 1.5])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_filters_of_symbolic_sizes(mode: str, scale: float) -> None:
    for excludes in (0, 1):
        options = {"mode": mode, "antialias": 1, "cubic_coeff_a": -0.5, "exclude_outside": excludes, "opset": 18}
        made = resized(scale, "n", **options)
        for size in (1, 2, 7, 10, 33):
            if int(F(scale) * F(size)):
                require_same(made, resized(scale, size, **options), size, exactly=False)
    compiled = jn.compile_onnx(made, device="cpu")
    x = np.random.default_rng(0).random((1, 1, 1, 20), F)
    np.testing.assert_allclose(compiled(x), jn.evaluate(jn.from_onnx(resized(scale, 20, **options)), x), rtol=1e-4, atol=1e-5)


def test_filters_of_many_taps_need_the_size() -> None:
    options = {"mode": "linear", "antialias": 1, "opset": 18}
    made = resized(0.01, "n", **options)
    with pytest.raises(jn.UnsupportedError, match=r"antialias or crops on axis 3, .*--size n=NUMBER"):
        jn.from_onnx(made)
    x = np.random.default_rng(0).random((1, 1, 1, 300), F)
    wanted = jn.evaluate(jn.from_onnx(resized(0.01, 300, **options)), x)
    np.testing.assert_allclose(jn.compile_onnx(made, device="cpu")(x), wanted, 1e-4)
