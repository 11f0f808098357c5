"""Handlers against ONNX's reference evaluator where the conformance suite has no case: older opsets, edges, rare options."""

from __future__ import annotations

from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest

from ....support.onnx_models import agrees, evaluated, model, node

F, INT = np.float32, np.int64
RNG = np.random.default_rng(1)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(F)


def integers(low: int, high: int, *shape: int, dtype: Any = INT) -> Any:
    return RNG.integers(low, high, shape).astype(dtype)


NAN = np.array([[np.nan, 1.0, -np.inf, -0.0], [2.0, np.nan, np.inf, 0.0]], F)
CASES: dict[str, tuple[Any, int, list[Any], dict[str, Any]]] = {
    "reduce sum of integers wraps": (node("ReduceSum", "x", keepdims=0), 13, [np.full(3, 100, np.int8)], {}),
    "reduce mean of integers": (node("ReduceMean", "x", axes=[1]), 11, [integers(-9, 9, 3, 5, dtype=np.int32)], {}),
    "reduce max propagates NaN": (node("ReduceMax", "x", axes=[1]), 11, [NAN], {}),
    "reduce axes unsorted": (node("ReduceSum", "x a", keepdims=0), 18, [floats(2, 3, 4)], {"a": [2, -3]}),
    "reduce sum square without axes": (node("ReduceSumSquare", "x", noop_with_empty_axes=1), 18, [floats(2, 3)], {}),
    "arg max of NaN": (node("ArgMin", "x", axis=-1, select_last_index=1), 13, [floats(3, 4)], {}),
    "cumulative sum": (node("CumSum", "x a", exclusive=1, reverse=1), 14, [integers(-5, 5, 3, 4, dtype=np.int32)], {"a": -1}),
    "power of an integer": (node("Pow", "x z"), 15, [integers(0, 4, 5, dtype=np.int32), integers(0, 4, 5)], {}),
    "power of a float": (node("Pow", "x z"), 15, [np.abs(floats(5)), integers(-3, 4, 5)], {}),
    "mod of negatives": (node("Mod", "x z"), 13, [integers(-9, 9, 20), integers(1, 5, 20)], {}),
    "fmod": (node("Mod", "x z", fmod=1), 13, [floats(20), floats(20)], {}),
    "shift": (node("BitShift", "x z", direction="RIGHT"), 11, [integers(0, 250, 9, dtype=np.uint8),
                                                            integers(0, 7, 9, dtype=np.uint8)], {}),
    "infinities of one sign": (node("IsInf", "x", detect_negative=0), 20, [NAN], {}),
    "infinities of no sign": (node("IsInf", "x", detect_negative=0, detect_positive=0), 20, [NAN], {}),
    "clip where low is above high": (node("Clip", "x l h"), 13, [floats(6)], {"l": np.array(1, F), "h": np.array(-1, F)}),
    "flatten at the end": (node("Flatten", "x", axis=3), 13, [floats(2, 3, 4)], {}),
    "squeeze all": (node("Squeeze", "x"), 13, [floats(1, 3, 1)], {}),
    "unsqueeze unsorted": (node("Unsqueeze", "x a"), 13, [floats(2, 3)], {"a": [3, 0]}),
    "transpose by default": (node("Transpose", "x"), 13, [floats(2, 3, 4)], {}),
    "slice unsorted axes": (node("Slice", "x a b c d"), 13, [floats(6, 7)],
                            {"a": [5, 1], "b": [0, 6], "c": [1, 0], "d": [-2, 3]}),
    "slice far beyond": (node("Slice", "x a b"), 13, [floats(6, 7)], {"a": [-(2**63), -3], "b": [2**63 - 1, 100]}),
    "pad reflect": (node("Pad", "x p", mode="reflect"), 13, [floats(4, 5)], {"p": [1, 2, 3, 0]}),
    "pad edge of some axes": (node("Pad", "x p _ a", mode="edge"), 18, [floats(4, 5)], {"p": [1, 2], "a": [-1]}),
    "pad by a value of the run": (node("Pad", "x p v"), 13, [floats(2, 3), np.array(7, F)], {"p": [1, 0, 0, 2]}),
    "gather negative": (node("Gather", "x i", axis=1), 13, [floats(3, 4)], {"i": [[-1, 0], [2, -4]]}),
    "gather nd of a batch": (node("GatherND", "x i", batch_dims=1), 13, [floats(2, 3, 4, 5), integers(-3, 3, 2, 6, 2)], {}),
    "scatter elements": (node("ScatterElements", "x i u", axis=1, reduction="add"), 18, [floats(3, 4), floats(3, 3)],
                         {"i": [[0, 0, -1], [1, 1, 1], [3, 2, 0]]}),
    "scatter nd": (node("ScatterND", "x i u", reduction="mul"), 18, [floats(3, 4), floats(3, 4)], {"i": [[0], [2], [0]]}),
    "one hot": (node("OneHot", "i d v", axis=0), 11, [integers(-5, 8, 3, 2)], {"d": 4, "v": np.array([-1, 3], F)}),
    "compress flat": (node("Compress", "x c"), 11, [floats(2, 3)], {"c": [False, True, True, False, True]}),
    "reverse sequence": (node("ReverseSequence", "x n", time_axis=1, batch_axis=0), 10,
                         [floats(3, 4, 2), np.array([1, 4, 2])], {}),
    "top k with equal ones": (node("TopK", "x k", "y i", largest=0), 11, [integers(0, 3, 2, 9).astype(F)], {"k": [4]}),
    "top k of integers": (node("TopK", "x k", "y i", axis=0), 11, [integers(-99, 99, 7, 2)], {"k": [3]}),
    "trilu above": (node("Trilu", "x k", upper=1), 14, [floats(2, 4, 5)], {"k": -1}),
    "eye like": (node("EyeLike", "x", k=-1, dtype=7), 22, [floats(3, 4)], {}),
    "gemm without c": (node("Gemm", "a b", transA=1, alpha=0.5), 11, [floats(3, 2), floats(3, 4)], {}),
    "gemm with a column": (node("Gemm", "a b c", beta=0.5), 11, [floats(2, 3), floats(3, 4), floats(2, 1)], {}),
    "einsum": (node("Einsum", "a b", equation="bij, bjk -> bik"), 12, [floats(2, 3, 4), floats(2, 4, 5)], {}),
    "batch normalisation": (node("BatchNormalization", "x s b m v", epsilon=0.1), 15,
                            [floats(2, 3, 4), floats(3), floats(3), floats(3), np.abs(floats(3))], {}),
    "instance normalisation": (node("InstanceNormalization", "x s b"), 6, [floats(2, 3, 4, 5), floats(3), floats(3)], {}),
    "layer normalisation": (node("LayerNormalization", "x s b", "y m d", axis=1), 17,
                            [floats(2, 3, 4), floats(3, 4), floats(3, 4)], {}),
    "norm of nothing": (node("LpNormalization", "x", p=1), 22, [np.array([[0, 0], [1, 3]], F)], {}),
    "quantise": (node("QuantizeLinear", "x s z"), 19, [floats(20) * 40], {"s": np.array(0.3, F), "z": np.array(-7, np.int8)}),
    "quantise by axis": (node("QuantizeLinear", "x s z", axis=0), 19, [floats(2, 9) * 40],
                         {"s": np.array([0.3, 0.5], F), "z": np.array([3, 200], np.uint8)}),
    "dequantise": (node("DequantizeLinear", "x s z", axis=1), 19, [integers(-128, 128, 3, 2, dtype=np.int8)],
                   {"s": np.array([0.3, 0.5], F), "z": np.array([3, -4], np.int8)}),
    "dynamic quantisation": (node("DynamicQuantizeLinear", "x", "y s z"), 11, [floats(30)], {}),
    "matmul of integers": (node("MatMulInteger", "a b c d"), 10, [integers(0, 255, 3, 4, dtype=np.uint8),
                                                                integers(-128, 127, 4, 5, dtype=np.int8)],
                           {"c": np.array(7, np.uint8), "d": np.array(-3, np.int8)}),
    "dropout": (node("Dropout", "x", "y m"), 13, [floats(2, 3)], {}),
    "window": (node("HannWindow", "n", periodic=0), 17, [], {"n": np.array(10)}),
    "one element window": (node("BlackmanWindow", "n"), 17, [], {"n": np.array(1)}),
    "sequence of fourier": (node("DFT", "x n", axis=1, onesided=1), 17, [floats(2, 9, 1)], {"n": 12}),
    "normalisation of mean and variance": (node("MeanVarianceNormalization", "x"), 13, [floats(2, 3, 2, 4)], {}),
    "grid of a transform": (node("AffineGrid", "t s"), 20, [floats(2, 2, 3)], {"s": [2, 1, 3, 4]}),
    "binarize": (node("Binarizer", "x", domain="ai.onnx.ml", threshold=0.25), 13, [floats(3, 4)], {}),
    "features": (node("ArrayFeatureExtractor", "x i", domain="ai.onnx.ml"), 13, [floats(3, 4)], {"i": [2, 0]}),
    "scaler": (node("Scaler", "x", domain="ai.onnx.ml", offset=[1.0, 2.0], scale=[0.5, 3.0]), 13, [floats(3, 2)], {}),
    "normaliser": (node("Normalizer", "x", domain="ai.onnx.ml", norm="L2"), 13, [floats(3, 4)], {}),
    "normaliser by sums": (node("Normalizer", "x", domain="ai.onnx.ml", norm="L1"), 13, [floats(3, 4)], {}),
    "linear regression": (node("LinearRegressor", "x", domain="ai.onnx.ml", coefficients=[1.0, -2.0, 0.5, 3.0], targets=2,
                               intercepts=[0.1, 0.2]), 13, [floats(5, 2)], {}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_handlers_agree_with_the_reference(name: str) -> None:
    made, opset, arrays, constants = CASES[name]
    names = [each for each in dict.fromkeys(made.input) if each and each not in constants]
    inputs = {each: (array.dtype, array.shape) for each, array in zip(names, arrays, strict=True)}
    fixed = {each: np.asarray(value) for each, value in constants.items()}
    agrees(model([made], inputs, " ".join(made.output), constants=fixed, opset=opset, domains={"ai.onnx.ml": 3}), *arrays)


# -- forms of older opsets, whose meaning is written out here -----------------------------------------------------------


def old(made: Any, opset: int, *arrays: Any) -> Any:
    names = [name for name in dict.fromkeys(made.input) if name]
    inputs = {each: (array.dtype, array.shape) for each, array in zip(names, arrays, strict=True)}
    return evaluated(model([made], inputs, " ".join(made.output), opset=opset), *arrays)[0]


def test_operands_were_aligned_at_an_axis() -> None:
    x, y = floats(2, 3, 4), floats(3)
    np.testing.assert_array_equal(old(node("Add", "x z", broadcast=1, axis=1), 6, x, y), x + y[:, None])
    np.testing.assert_array_equal(old(node("Mul", "x z", broadcast=1), 6, x, y4 := floats(4)), x * y4)
    with pytest.raises(jn.UserError, match="without broadcast=1, has shape"):
        old(node("Add", "x z"), 6, x, y)


def test_slopes_were_per_channel() -> None:
    x, slope = floats(2, 3, 4), floats(3)
    expected = np.where(x < 0, x * slope[:, None], x)
    np.testing.assert_array_equal(old(node("PRelu", "x s"), 6, x, slope), expected)


def test_softmax_was_over_all_axes_from_one_on() -> None:
    """ONNX's reference evaluator takes one axis for every opset."""
    x = floats(2, 3, 4)
    powers = np.exp(x - x.max(axis=(1, 2), keepdims=True))
    expected = powers / powers.sum(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(old(node("Softmax", "x"), 11, x), expected, rtol=1e-5)
    np.testing.assert_allclose(old(node("LogSoftmax", "x", axis=-2), 11, x), np.log(expected), rtol=1e-5, atol=1e-6)
    wide = floats(3, 4) * 50
    stable = wide.astype(np.float64) - wide.max(axis=0)
    expected = stable - np.log(np.exp(stable).sum(axis=0))
    np.testing.assert_allclose(old(node("LogSoftmax", "x", axis=0), 13, wide), expected, rtol=1e-5, atol=1e-6)


def test_local_responses_of_an_even_number_of_channels() -> None:
    """The window reaches one channel further up than down."""
    x = floats(2, 6, 3)
    squares = np.array([(x[:, max(c - 1, 0) : c + 3] ** 2).sum(axis=1) for c in range(6)]).swapaxes(0, 1)
    np.testing.assert_allclose(old(node("LRN", "x", size=4, alpha=0.1), 13, x), x / (1 + 0.1 / 4 * squares) ** 0.75, rtol=1e-5)


def test_negative_pads_remove_elements() -> None:
    x = floats(4, 5)
    made = model([node("Pad", "x p")], {"x": (F, ["n", 5])}, constants={"p": np.array([-1, 2, 1, -2])}, opset=13)
    np.testing.assert_array_equal(evaluated(made, x)[0], np.pad(x[1:, :-2], [(0, 1), (2, 0)]))


def test_single_elements_of_fewer_rows_than_the_data_has() -> None:
    x, positions = floats(3, 4), integers(-4, 4, 2, 5)
    expected = np.take_along_axis(x[:2], positions, axis=1)
    np.testing.assert_array_equal(old(node("GatherElements", "x i", axis=1), 13, x, positions), expected)


def test_norms_are_of_absolute_values() -> None:
    x = np.array([[0, 0], [1, -3]], F)
    np.testing.assert_array_equal(old(node("LpNormalization", "x", p=1), 1, x), np.array([[0, 0], [0.25, -0.75]], F))


def test_bounds_and_axes_were_attributes() -> None:
    x = floats(3, 4)
    np.testing.assert_array_equal(old(node("Clip", "x", min=-0.5), 6, x), np.maximum(x, F(-0.5)))
    np.testing.assert_array_equal(old(node("Clip", "x"), 6, x), x)
    np.testing.assert_array_equal(old(node("Slice", "x", starts=[1], ends=[3], axes=[1]), 9, x), x[:, 1:3])
    np.testing.assert_array_equal(
        old(node("Pad", "x", pads=[1, 0, 0, 2], value=3.0), 2, x), np.pad(x, [(1, 0), (0, 2)], constant_values=3)
    )
    np.testing.assert_array_equal(old(node("Reshape", "x", shape=[0, 2, -1]), 1, x), x.reshape(3, 2, 2))
    np.testing.assert_array_equal(old(node("Unsqueeze", "x", axes=[0]), 11, x), x[None])
    np.testing.assert_array_equal(old(node("Cast", "x", to="INT32"), 1, x), x.astype(np.int32))
    values, positions = evaluated(model([node("TopK", "x", "y i", k=2)], {"x": (F, [3, 4])}, "y i", opset=1), x)
    np.testing.assert_array_equal(positions, np.argsort(-x, axis=1, kind="stable")[:, :2])
    np.testing.assert_array_equal(values, -np.sort(-x, axis=1)[:, :2])


def test_upsampling_took_the_pixel_before() -> None:
    x = floats(1, 1, 2, 3)
    made = node("Upsample", "x", scales=[1.0, 1.0, 2.0, 2.0])
    np.testing.assert_array_equal(old(made, 7, x), x.repeat(2, axis=2).repeat(2, axis=3))
    made = node("Upsample", "x", height_scale=2.0, width_scale=1.0)
    np.testing.assert_array_equal(old(made, 1, x), x.repeat(2, axis=2))


@pytest.mark.parametrize(("dtype", "low", "high"), [(F, -np.inf, np.inf), (np.int8, -128, 127), (np.bool_, False, True)])
def test_extremes_of_nothing_are_the_ends_of_the_range(dtype: Any, low: Any, high: Any) -> None:
    for op, end in (("ReduceMax", low), ("ReduceMin", high)):
        made = model([node(op, "x a", keepdims=0)], {"x": (dtype, ["n", "m"])}, constants={"a": np.array([1])}, opset=20)
        made.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 0
        assert evaluated(made, np.zeros((2, 0), dtype))[0].tolist() == [end] * 2


def test_floats_become_small_integers_by_their_low_bits() -> None:
    x = np.array([-9, 7.9, 8, -8, 0.5], F)
    made = model([node("Cast", "x", to=22)], {"x": (F, [5])}, opset=23)
    np.testing.assert_array_equal(evaluated(made, x)[0].astype(int), [7, 7, -8, -8, 0])


@pytest.mark.parametrize(("saturate", "expected"), [(1, [448, -448, 448, 1]), (0, [np.nan, np.nan, np.nan, 1])])
def test_floats_of_8_bits_saturate_on_request(saturate: int, expected: list[float]) -> None:
    x = np.array([np.inf, -1e6, 500, 1], F)
    made = model([node("Cast", "x", to=17, saturate=saturate)], {"x": (F, [4])}, opset=23)
    found = evaluated(made, x)[0]
    assert found.dtype == ml_dtypes.float8_e4m3fn
    np.testing.assert_array_equal(found.astype(F), np.array(expected, F))


def test_top_k_orders_zeros_nan_and_infinities() -> None:
    x = np.array([0.0, -0.0, np.nan, -np.inf, np.inf, -1.0], F)
    for dtype in (np.float16, F, np.float64):
        made = model([node("TopK", "x k", "y i")], {"x": (dtype, [6])}, "y i", constants={"k": np.array([6])})
        assert evaluated(made, x.astype(dtype))[1].tolist() == [2, 4, 0, 1, 5, 3]


def test_a_mean_over_symbolic_integers() -> None:
    made = model([node("ReduceMean", "x", keepdims=0)], {"x": (np.int32, ["n"])}, opset=13)
    assert evaluated(made, np.array([-7, 2, 1], np.int32))[0] == -1


RECURRENT = {
    "LSTM": ({"clip": 0.4, "input_forget": 1}, 4, ("Y", "h", "c")),
    "GRU": ({"linear_before_reset": 1, "clip": 0.5}, 3, ("Y", "h")),
    "RNN": (
        {"activations": ["Affine", "HardSigmoid"], "activation_alpha": [0.5, 0.3], "activation_beta": [0.1, 0.4]},
        1,
        ("Y", "h"),
    ),
}


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def recurrent(op: str, x: Any, w: Any, r: Any, b: Any, lengths: Any) -> list[Any]:
    """The definition, step by step and row by row, of what `RECURRENT` asks for, in both directions."""
    steps, batch, _ = x.shape
    hidden = r.shape[-1]
    output = np.zeros((steps, 2, batch, hidden))
    finals = np.zeros((2, 2, batch, hidden))
    wb, rb = b[:, : b.shape[1] // 2], b[:, b.shape[1] // 2 :]
    for direction in range(2):
        for row in range(batch):
            h = c = np.zeros(hidden)
            order = range(lengths[row]) if direction == 0 else range(lengths[row] - 1, -1, -1)
            for time in order:
                a, p = w[direction] @ x[time, row] + wb[direction], r[direction] @ h + rb[direction]
                if op == "RNN":
                    v = a + p
                    h = 0.5 * v + 0.1 if direction == 0 else np.clip(0.3 * v + 0.4, 0, 1)
                elif op == "GRU":
                    (az, ar, ah), (pz, pr, ph) = np.split(a, 3), np.split(p, 3)
                    z, s = (sigmoid(np.clip(v, -0.5, 0.5)) for v in (az + pz, ar + pr))
                    h = (1 - z) * np.tanh(np.clip(ah + s * ph, -0.5, 0.5)) + z * h
                else:
                    i, o, _, g = np.split(np.clip(a + p, -0.4, 0.4), 4)
                    i, o = sigmoid(i), sigmoid(o)
                    c = (1 - i) * c + i * np.tanh(g)
                    h = o * np.tanh(c)
                output[time, direction, row] = h
            finals[0, direction, row], finals[1, direction, row] = h, c
    return [output, finals[0], finals[1]]


@pytest.mark.parametrize("op", RECURRENT)
def test_recurrent_networks_of_rows_of_several_lengths(op: str) -> None:
    options, gates, outputs = RECURRENT[op]
    x, w, r = floats(4, 3, 2), floats(2, gates * 5, 2), floats(2, gates * 5, 5)
    b, lengths = floats(2, 2 * gates * 5), np.array([4, 2, 1], np.int32)
    made = node(op, "x w r b n", " ".join(outputs), direction="bidirectional", hidden_size=5, **options)
    shapes = {name: (array.dtype, array.shape) for name, array in zip("xwrbn", (x, w, r, b, lengths), strict=True)}
    found = evaluated(model([made], shapes, " ".join(outputs), opset=14), x, w, r, b, lengths)
    for one, other in zip(found, recurrent(op, x, w, r, b, lengths), strict=False):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bias", [0.0, 1.0, 0.75, -1.5])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_shrink_of_integers(dtype: str, bias: float) -> None:
    largest = (1 << 52) + 1 if dtype.endswith("64") else np.iinfo(dtype).max - 2
    x = np.array([0, 1, 2, 3, 100, largest], dtype)
    x = np.concatenate([x, -x]) if dtype.startswith("int") else x
    made = model([node("Shrink", "x", lambd=1.5, bias=bias)], {"x": (dtype, ["n"])}, opset=9)
    agrees(made, x, rtol=0, atol=0)
