"""Random operators: distributions, seeds, and that each node draws its own numbers."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from ....support.onnx_models import TensorProto, evaluated, model, node

F = np.float32
X = np.zeros((50, 40), F)


def test_tensors_of_given_shape_and_type() -> None:
    made = model([node("RandomUniform", "", "y", shape=[30, 50], low=-1.0, high=1.0, seed=3.0),
                  node("RandomNormal", "", "z", shape=[3000], mean=1.0, scale=2.0, dtype=TensorProto.DOUBLE)],
                 {}, "y z")  # fmt: skip
    uniform, normal = evaluated(made)
    assert (uniform.shape, uniform.dtype, normal.dtype) == ((30, 50), F, np.float64)
    np.testing.assert_allclose([uniform.mean(), uniform.std(), normal.mean(), normal.std()], [0, 0.577, 1, 2], atol=0.12)
    np.testing.assert_array_equal(evaluated(made)[1], normal)


def test_nodes_without_a_seed_draw_their_own_numbers() -> None:
    made = model([node("RandomUniformLike", "x", name) for name in "yz"], {"x": (F, ("n", 40))}, "y z")
    one, other = evaluated(made, X)
    assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.1
    made = model([node("RandomUniformLike", "x", name, seed=1.0) for name in "yz"], {"x": (F, ("n", 40))}, "y z")
    np.testing.assert_array_equal(*evaluated(made, X))


def test_chances() -> None:
    made = model([node("Bernoulli", "x", dtype=TensorProto.INT32)], {"x": (F, ("n", 40))}, opset=22)
    assert abs(evaluated(made, X + F(0.3))[0].mean() - 0.3) < 0.05
    assert [evaluated(made, X + F(chance))[0].max() for chance in (0, 1)] == [0, 1]


def test_classes_are_drawn_by_their_weights() -> None:
    made = model([node("Multinomial", "x", sample_size=2000)], {"x": (F, ("n", 3))})
    (found,) = evaluated(made, np.log(np.array([[0.2, 0.3, 0.5], [1e-30, 1.0, 1e-30]], F)))
    assert (found.shape, found.dtype) == ((2, 2000), np.int32)
    np.testing.assert_allclose(np.bincount(found[0], minlength=3) / 2000, [0.2, 0.3, 0.5], atol=0.05)
    assert set(found[1].tolist()) == {1}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("ratio", [0.0, 0.25, 1.0])
def test_dropout_in_training_keeps_the_mean(ratio: float) -> None:
    constants: dict[str, Any] = {"r": F(ratio), "t": np.array(True)}
    made = model([node("Dropout", "x r t", "y m", seed=7)], {"x": (F, ("n", 40))}, "y m", constants=constants)
    value, mask = evaluated(made, X + 1)
    assert abs(1 - ratio - mask.mean()) < 0.05
    np.testing.assert_allclose(value, mask / max(1 - ratio, 1e-9) * (ratio < 1), rtol=1e-6)
    compiled = jn.compile(jn.from_onnx(made), device="cpu", cache=False)(X + 1)
    np.testing.assert_array_equal(compiled[1], mask)


def test_shapes_and_ratios_that_are_refused() -> None:
    with pytest.raises(jn.UserError, match=r"a shape of \[-1\]"):
        jn.from_onnx(model([node("RandomNormal", "", "y", shape=[-1])], {}))
    made = model([node("Dropout", "x r t")], {"x": (F, (3,))}, constants={"r": F(1.5), "t": np.array(True)})
    with pytest.raises(jn.UserError, match=r"a ratio of 1\.5"):
        jn.from_onnx(made)
