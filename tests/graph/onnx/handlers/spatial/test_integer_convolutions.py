"""Convolutions of codes in their three forms: ConvInteger, QLinearConv, and floats between QuantizeLinear and DequantizeLinear.

Witnesses are a convolution of int64, tap by tap, and onnxruntime.
"""

from __future__ import annotations

import random
from typing import Any

import joinery as jn
import numpy as np
import onnxruntime
import pytest
from joinery.lowering.graph_passes.products.integer_products import with_integer_products

from .....support.convolutions import convolved
from .....support.onnx_models import model, node, value
from .....support.tiers import both_tiers

F = np.float32


class Case:
    """A random convolution of codes: arrays, zero points at the ends of their range, and attributes."""

    def __init__(self, seed: int) -> None:
        choose, rng = random.Random(seed), np.random.default_rng(seed)
        rank = choose.choice([1, 2, 2, 2, 3])
        kernel = [choose.randint(1, 3) for _ in range(rank)]
        group, each, filters = choose.choice([(1, 3, 5), (1, 16, 8), (1, 7, 65), (2, 4, 3), (6, 1, 1), (3, 8, 2), (1, 33, 17)])
        self.options = {
            "strides": [choose.randint(1, 3) for _ in range(rank)], "dilations": [choose.randint(1, 2) for _ in range(rank)],
            "pads": [choose.randint(0, 2) for _ in range(2 * rank)], "group": group,
        }  # fmt: skip
        self.dtype = choose.choice([np.uint8, np.uint8, np.int8])
        limits = np.iinfo(self.dtype)
        self.zero = self.dtype(choose.choice([limits.min, limits.max, 0, 77]))
        shape = (choose.choice([1, 3]), group * each, *[choose.randint(5, 9) for _ in range(rank)])
        self.x = rng.integers(limits.min, limits.max + 1, shape).astype(self.dtype)
        self.w = rng.integers(-128, 128, (group * filters, each, *kernel)).astype(np.int8)
        self.filters = group * filters
        self.rng, self.choose = rng, choose

    @property
    def sums(self) -> Any:
        return convolved(self.x.astype(np.int64) - int(self.zero), self.w, self.options, np.int64)

    @property
    def inputs(self) -> dict[str, Any]:
        return {"x": (self.dtype, ["n", *self.x.shape[1:]])}

    def along(self, values: Any) -> Any:
        return np.asarray(values).reshape(-1, *(1,) * (self.x.ndim - 2))


def _compiled(made: Any, *arrays: Any, numerics: str = "strict") -> Any:
    return jn.compile(jn.from_onnx(made), "cpu", cache=False, numerics=numerics)(*arrays)


def _is_integer(made: Any) -> bool:
    """Whether all products of a model are of int8."""
    found = with_integer_products(jn.from_onnx(made)).symbols
    return all(symbol.inputs[0].dtype is jn.int8 for symbol in found if symbol.op.name == "matmul")


def _codes(wide: Any, zero: Any) -> Any:
    """Rounds half to even, adds a zero point and saturates."""
    limits = np.iinfo(zero.dtype)
    return np.clip(np.rint(wide) + zero.astype(np.float64), limits.min, limits.max).astype(zero.dtype)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("seed", range(32))
@both_tiers
def test_conv_integer(seed: int, in_full: bool) -> None:
    if not in_full and seed % 4:
        pytest.skip("one of four in the fast tier")
    case = Case(seed)
    known = seed % 8 < 4
    zeros = {"z": np.array(case.zero)}
    inputs = case.inputs | ({} if known else {"z": (case.dtype, ())})
    constants = {"w": case.w} | (zeros if known else {})
    made = model([node("ConvInteger", "x w z", **case.options)], inputs, constants=constants)
    assert _is_integer(made)
    found = _compiled(made, case.x, *(() if known else zeros.values()), numerics=("strict", "reproducible")[seed % 2])
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, case.sums)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("seed", range(32, 64))
@both_tiers
def test_qlinear_conv(seed: int, in_full: bool) -> None:
    if not in_full and seed % 4:
        pytest.skip("one of four in the fast tier")
    case = Case(seed)
    y_zero = case.dtype(case.choose.choice([np.iinfo(case.dtype).min, 5, np.iinfo(case.dtype).max]))
    scales = (case.rng.random(case.filters) / 64).astype(F)
    bias = case.rng.integers(-5000, 5000, case.filters).astype(np.int32)
    constants = {"xs": F(0.037), "xz": np.array(case.zero), "w": case.w, "ws": scales, "wz": np.zeros(case.filters, np.int8),
                 "ys": F(0.9), "yz": np.array(y_zero), "b": bias}  # fmt: skip
    made = model([node("QLinearConv", "x xs xz w ws wz ys yz b", **case.options)], case.inputs, constants=constants, opset=20)
    assert _is_integer(made)
    found = _compiled(made, case.x)
    wide = (case.sums + case.along(bias)) * case.along(F(0.037) * scales / F(0.9)).astype(np.float64)
    expected = _codes(wide, y_zero)
    far = np.abs(wide - np.rint(wide)) < 0.499  # nearer to a half, the rounding of float32 decides
    np.testing.assert_array_equal(found[far], expected[far])
    assert np.abs(found.astype(np.int64) - expected).max(initial=0) <= 1
    np.testing.assert_array_equal(found, jn.evaluate(jn.from_onnx(made), case.x))


def _quantised_layer(case: Case, power: bool) -> tuple[Any, dict[str, Any]]:
    """A convolution in floats between codes, with bias, residual and activation, as quantisers write it."""
    rng, exact = case.rng, (lambda n: 2.0 ** rng.integers(-6, -2, n))
    scales = (exact(case.filters) if power else rng.random(case.filters) / 64 + 1e-3).astype(F)
    x_scale, y_scale = (F(0.25), F(4.0)) if power else (F(0.0413), F(0.77))
    y_zero = case.dtype(case.choose.choice([np.iinfo(case.dtype).min, 5, np.iinfo(case.dtype).max]))
    constants = {"xs": x_scale, "xz": np.array(case.zero), "w": case.w, "ws": scales, "wz": np.zeros(case.filters, np.int8),
                 "ys": y_scale, "yz": np.array(y_zero), "rs": F(0.5), "rz": np.array(case.dtype(3)),
                 "b": rng.integers(-5000, 5000, case.filters).astype(np.int32), "bs": scales * x_scale,
                 "bz": np.zeros(case.filters, np.int32)}  # fmt: skip
    nodes = [
        node("DequantizeLinear", "x xs xz", "xf"), node("DequantizeLinear", "w ws wz", "wf", axis=0),
        node("DequantizeLinear", "b bs bz", "bf", axis=0), node("Conv", "xf wf bf", "c", **case.options),
    ]  # fmt: skip
    inputs, last = case.inputs, "c"
    if case.choose.random() < 0.5:
        inputs = inputs | {"r": (case.dtype, ["n", *case.sums.shape[1:]])}
        nodes += [node("DequantizeLinear", "r rs rz", "rf"), node("Add", "c rf", "s")]
        last = "s"
    activation = case.choose.choice(["", "Relu", "Clip"])
    if activation:
        constants |= {"low": F(-3.0), "high": F(200.0)}
        nodes.append(node(activation, f"{last} low high" if activation == "Clip" else last, "a"))
        last = "a"
    nodes.append(node("QuantizeLinear", f"{last} ys yz", "y"))
    return model(nodes, inputs, constants=constants, opset=20), inputs


def _arrays(case: Case, inputs: dict[str, Any]) -> list[Any]:
    limits = np.iinfo(case.dtype)
    residual = case.rng.integers(limits.min, limits.max + 1, case.sums.shape).astype(case.dtype)
    return [case.x, residual][: len(inputs)]


@pytest.mark.one_in(16)
@pytest.mark.parametrize("seed", range(64, 104))
@both_tiers
def test_floats_between_codes_have_the_codes_of_the_evaluator(seed: int, in_full: bool) -> None:
    """Scales are powers of two and sums are short, so that floats are exact in any order."""
    if not in_full and seed % 4:
        pytest.skip("one of four in the fast tier")
    case = Case(seed)
    made, inputs = _quantised_layer(case, power=True)
    assert _is_integer(made)
    arrays = _arrays(case, inputs)
    np.testing.assert_array_equal(_compiled(made, *arrays), jn.evaluate(jn.from_onnx(made), *arrays))


@pytest.mark.one_in(36)
@pytest.mark.parametrize("seed", range(104, 136))
@both_tiers
def test_floats_between_codes_are_those_of_onnxruntime(seed: int, in_full: bool) -> None:
    """Other scales: where the sum of floats lies so near to a half that its rounding decides, codes may differ by 1."""
    if not in_full and seed % 4:
        pytest.skip("one of four in the fast tier")
    case = Case(seed)
    made, inputs = _quantised_layer(case, power=False)
    assert _is_integer(made)
    arrays = _arrays(case, inputs)
    made.graph.output[0].CopyFrom(value("y", case.dtype, None))
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, dict(zip(inputs, arrays, strict=True)))[0]
    found = _compiled(made, *arrays)
    assert found.dtype == case.dtype
    assert found.shape == expected.shape
    difference = np.abs(found.astype(np.int64) - expected.astype(np.int64))
    assert difference.max(initial=0) <= 1
    assert (difference > 0).mean() < 0.01


def test_a_matrix_product_with_codes_of_the_data() -> None:
    """DynamicQuantizeLinear, MatMulInteger, and the scales: the zero point is known when the model runs."""
    rng = np.random.default_rng(1)
    w = rng.integers(-128, 128, (70, 45)).astype(np.int8)
    nodes = [node("DynamicQuantizeLinear", "x", "q s z"), node("MatMulInteger", "q w z", "t"), node("Cast", "t", "f", to=1),
             node("Mul", "f s", "y")]  # fmt: skip
    made = model(nodes, {"x": (F, ["n", 70])}, constants={"w": w})
    assert _is_integer(made)
    for rows in (1, 13):
        x = rng.standard_normal((rows, 70)).astype(F)
        np.testing.assert_array_equal(_compiled(made, x), jn.evaluate(jn.from_onnx(made), x))
