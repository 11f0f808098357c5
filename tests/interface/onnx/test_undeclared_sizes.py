"""Sizes that must be numbers, of axes that declare none: a call shows them, and gets the model that is compiled for them."""

from __future__ import annotations

import importlib.util
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ...support.onnx_texts import by_onnxruntime, model, serves

pytestmark = pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="onnxruntime is not installed")
RNG = np.random.default_rng(7)
TYPES = {"float32": "float", "float64": "double", "int64": "int64", "int32": "int32", "uint8": "uint8", "int8": "int8"}


def floats(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def codes(*shape: int, dtype: Any = np.uint8) -> Any:
    return RNG.integers(0, 99, shape, dtype)


def undeclared(body: str, arrays: dict[str, Any], opset: int, **constants: Any) -> Any:
    """A model whose inputs declare nothing but how many axes they have."""
    inputs = [f"{TYPES[array.dtype.name]}[{', '.join('?' * array.ndim)}] {name}" for name, array in arrays.items()]
    results = ", ".join(f"float {name}" for name in body.rpartition(";")[2].partition(" = ")[0].split(", "))
    made = model(f"({', '.join(inputs)}) => ({results})", body.replace(";", ""), opset, **constants)
    for output in made.graph.output:
        output.ClearField("type")
    return made


IMAGE, WORDS = floats(1, 2, 6, 6), RNG.integers(1, 9, (3, 5), np.int32)
CASES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "GridSample": ("y = GridSample(x, g)", 18, {"x": IMAGE, "g": floats(1, 3, 3, 2)}),
    "AffineGrid": ("s = Constant<value_ints=[2, 1, 3, 4]>(); y = AffineGrid(t, s)", 20, {"t": floats(2, 2, 3)}),
    "AffineGrid of volumes": ("s = Constant<value_ints=[2, 1, 3, 4, 2]>(); y = AffineGrid(t, s)", 20, {"t": floats(2, 3, 4)}),
    "RoiAlign": ("y = RoiAlign<output_height=2, output_width=2, sampling_ratio=2>(x, r, i)", 18,
                 {"x": IMAGE, "r": np.float32([[0, 0, 3, 3], [1, 1, 5, 4]]), "i": np.array([0, 0])}),
    "MaxRoiPool": ("y = MaxRoiPool<pooled_shape=[2, 2]>(x, r)", 18, {"x": IMAGE, "r": np.float32([[0, 0, 0, 3, 3]])}),
    "GatherND": ("y = GatherND(x, i)", 18, {"x": floats(3, 2), "i": np.array([[0, 1], [2, 0]])}),
    "GatherND of slices": ("y = GatherND<batch_dims=1>(x, i)", 18, {"x": floats(2, 3, 4), "i": np.array([[[1]], [[2]]])}),
    "ScatterND": ("y = ScatterND(x, i, u)", 18, {"x": floats(3, 2), "i": np.array([[0, 1], [2, 0]]), "u": floats(2)}),
    "ScatterND of slices": ("y = ScatterND(x, i, u)", 18, {"x": floats(3, 2), "i": np.array([[2], [0]]), "u": floats(2, 2)}),
    "DFT": ("y = DFT<axis=1>(x)", 18, {"x": floats(2, 4, 1)}),
    "DFT of complex numbers": ("y = DFT<axis=1, inverse=1>(x)", 18, {"x": floats(2, 4, 2)}),
    "STFT": ("s = Constant<value_int=2>(); y = STFT(x, s, w)", 18, {"x": floats(1, 12, 1), "w": floats(4)}),
    "STFT of frames": ("s = Constant<value_int=2>() n = Constant<value_int=4>(); y = STFT(x, s, , n)", 18,
                       {"x": floats(1, 12, 1)}),
    "Conv": ("y = Conv<kernel_shape=[3, 3]>(x, w)", 18, {"x": IMAGE, "w": floats(3, 2, 3, 3)}),
    "Conv with groups and a bias": ("y = Conv<group=2, pads=[1, 1, 1, 1]>(x, w, b)", 18,
                                    {"x": IMAGE, "w": floats(4, 1, 3, 3), "b": floats(4)}),
    "ConvTranspose": ("y = ConvTranspose<strides=[2, 2]>(x, w, b)", 18,
                      {"x": IMAGE, "w": floats(2, 3, 3, 3), "b": floats(3)}),
    "FusedConv": ("y = com.microsoft.FusedConv<activation=\"Relu\">(x, w, b)", 18,
                  {"x": IMAGE, "w": floats(3, 2, 3, 3), "b": floats(3)}),
    "NonMaxSuppression": ("m = Constant<value_ints=[3]>(); y = NonMaxSuppression(b, s, m)", 18,
                          {"b": np.abs(floats(1, 6, 4)), "s": np.abs(floats(1, 2, 6))}),
    "Det": ("y = Det(x)", 18, {"x": floats(3, 2, 2)}),
    "RotaryEmbedding": ("y = com.microsoft.RotaryEmbedding(x, p, c, s)", 18,
                        {"x": floats(2, 3, 2, 4), "p": np.array([2]), "c": floats(9, 2), "s": floats(9, 2)}),
    "RotaryEmbedding of rows": ("y = com.microsoft.RotaryEmbedding(x, p, c, s)", 18,
                                {"x": floats(2, 3, 8), "p": np.array([[1, 2, 3], [0, 4, 8]]), "c": floats(9, 4),
                                 "s": floats(9, 4)}),
    "MultiHeadAttention": ("y = com.microsoft.MultiHeadAttention<num_heads=2>(q, k, v)", 18,
                           {"q": floats(2, 3, 8), "k": floats(2, 5, 8), "v": floats(2, 5, 8)}),
    "Attention": ("y = com.microsoft.Attention<num_heads=2>(x, w, b)", 18,
                  {"x": floats(2, 3, 8), "w": floats(8, 24), "b": floats(24)}),
    "WordConvEmbedding": ("y = com.microsoft.WordConvEmbedding(x, w, b, t)", 18,
                          {"x": WORDS, "w": floats(4, 1, 3, 2), "b": floats(4), "t": floats(9, 2)}),
    "MoE": ("y = com.microsoft.MoE<k=2>(x, p, a, , b)", 18,
            {"x": floats(5, 4), "p": floats(5, 3), "a": floats(3, 6, 4), "b": floats(3, 4, 6)}),
    "Scaler": ("y = ai.onnx.ml.Scaler<offset=[1.0, 2.0, 3.0], scale=[0.5, 1.0, 2.0]>(x)", 18, {"x": floats(2, 3)}),
    "Imputer": ("y = ai.onnx.ml.Imputer<imputed_value_floats=[1.0, 2.0], replaced_value_float=0.0>(x)", 18,
                {"x": np.float32([[0, 1], [2, 0]])}),
    "FeatureVectorizer": ("y = ai.onnx.ml.FeatureVectorizer<inputdimensions=[2, 3]>(a, b)", 18,
                          {"a": floats(4, 2), "b": floats(4, 3)}),
}  # fmt: skip

# onnxruntime wants these to be declared, or has no kernel
OTHERS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "packed MultiHeadAttention": ("y = com.microsoft.MultiHeadAttention<num_heads=2>(q)", 18, {"q": floats(2, 3, 2, 3, 4)}),
    "QLinearAdd": ("y = com.microsoft.QLinearAdd(a, s, z, b, s, z, t, z)", 18,
                   {"a": codes(2, 3), "s": np.float32([0.1]), "z": np.uint8([7]), "b": codes(2, 3), "t": np.float32([0.2])}),
    "without broadcasting": ("y = Add(a, b)", 6, {"a": floats(2, 3), "b": floats(2, 3)}),
}  # fmt: skip


@pytest.mark.one_in(16)
@pytest.mark.parametrize("name", CASES)
def test_sizes_that_a_call_shows(name: str) -> None:
    body, opset, arrays = CASES[name]
    serves(undeclared(body, arrays, opset), arrays, tolerance=2e-4)


def test_packed_heads_are_those_of_three_tensors() -> None:
    body, opset, arrays = OTHERS["packed MultiHeadAttention"]
    found: Any = jn.compile_onnx(undeclared(body, arrays, opset), device="cpu", cache=False)
    apart = {name: np.ascontiguousarray(arrays["q"][:, :, :, number]).reshape(2, 3, 8) for number, name in enumerate("qkv")}
    separate = undeclared("y = com.microsoft.MultiHeadAttention<num_heads=2>(q, k, v)", apart, 18)
    (want,) = by_onnxruntime(separate, apart)
    np.testing.assert_allclose(found(arrays["q"]), want, 2e-4, 2e-4)


def test_scales_of_undeclared_size_are_one_number() -> None:
    body, opset, arrays = OTHERS["QLinearAdd"]
    found: Any = jn.compile_onnx(undeclared(body, arrays, opset), device="cpu", cache=False)
    declared = model("(uint8[2, 3] a, float s, uint8 z, uint8[2, 3] b, float t) => (uint8[2, 3] y)", body, opset)
    (want,) = by_onnxruntime(declared, {key: np.array(each[0]) if each.ndim == 1 else each for key, each in arrays.items()})
    assert np.abs(found.run(arrays)["y"].astype(int) - want.astype(int)).max() <= 1


def test_operands_of_undeclared_sizes_are_not_broadcast() -> None:
    body, opset, arrays = OTHERS["without broadcasting"]
    found: Any = jn.compile_onnx(undeclared(body, arrays, opset), device="cpu", cache=False)
    np.testing.assert_array_equal(found.run(arrays)["y"], arrays["a"] + arrays["b"])


def test_integer_convolutions_of_undeclared_weights() -> None:
    arrays = {"x": codes(1, 2, 5, 5), "w": codes(3, 2, 3, 3, dtype=np.int8)}
    made = undeclared("i = ConvInteger(x, w); y = Cast<to=1>(i)", arrays, 18)
    serves(made, arrays)


def test_trees_over_rows_of_undeclared_length() -> None:
    """No row is too short for a feature that a tree reads."""
    body = """y = ai.onnx.ml.TreeEnsembleRegressor<n_targets=1, nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2],
        nodes_featureids=[2, 0, 0], nodes_values=[0.5, 0.0, 0.0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], target_treeids=[0, 0], target_nodeids=[1, 2],
        target_ids=[0, 0], target_weights=[10.0, 20.0]>(x)"""
    made = undeclared(body, {"x": floats(4, 3)}, 18)
    served = serves(made, {"x": floats(4, 3)}, {"x": floats(2, 5)})
    with pytest.raises(jn.UserError, match="a feature outside 2"):
        served.run({"x": floats(4, 2)})


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("name", "argument", "shape", "message"),
    [
        ("GridSample", "g", (1, 3, 3, 3), "must equal"),
        ("AffineGrid", "t", (2, 3, 3), "must equal"),
        ("MaxRoiPool", "r", (1, 4), "must equal"),
        ("GatherND", "i", (2, 3), "3 positions after 0 batch axes, the data has 2 axes"),
        ("ScatterND", "i", (2, 3), "3 positions for 2 axes"),
        ("DFT", "x", (2, 4, 3), "the last axis has 3 elements; 1 or 2 are expected"),
        ("STFT", "x", (1, 12, 3), "the last axis has 3 elements; 1 or 2 are expected"),
        ("Conv", "w", (3, 2, 2, 3), r"kernel_shape \[3, 3\] and weights of \[2, 3\]"),
        ("NonMaxSuppression", "b", (1, 6, 5), "must equal"),
        ("Det", "x", (3, 2, 3), "must equal"),
        ("RotaryEmbedding", "p", (2,), "must equal"),
        ("QLinearAdd", "s", (2,), "must equal"),
        ("MoE", "a", (2, 6, 4), "must equal"),
        ("without broadcasting", "b", (1, 3), "must equal|never|is expected"),
        ("Scaler", "x", (2, 4), "must equal"),
        ("Imputer", "x", (2, 4), "must equal"),
        ("FeatureVectorizer", "b", (4, 2), "must equal"),
    ],
)  # fmt: skip
def test_sizes_that_do_not_fit_are_refused(name: str, argument: str, shape: tuple[int, ...], message: str) -> None:
    body, opset, arrays = {**CASES, **OTHERS}[name]
    compiled: Any = jn.compile_onnx(undeclared(body, arrays, opset), device="cpu", cache=False)
    wrong = np.zeros(shape, arrays[argument].dtype)
    with pytest.raises(jn.UserError, match=message):
        compiled.run({**arrays, argument: wrong})


def test_the_error_of_an_import_names_the_sizes() -> None:
    body, opset, arrays = CASES["GatherND"]
    with pytest.raises(jn.UnsupportedError, match=r"tuples of i_1 positions, .*; fix: from_onnx\(…, sizes=\{'i_1': number\}"):
        jn.from_onnx(undeclared(body, arrays, opset))


LOOPS = {
    "a loop": """go = Constant<value = bool {1}>()  y = Loop(trips, go, x)<body = b(int64 i, bool more, float[?, ?] a) =>
        (bool on, float[?, ?] c) { g = GatherND(a, p)  t = Tanh(g)  c = ScatterND(a, p, t)  on = Identity(more) }>""",
    "a scan": """y = Scan<num_scan_inputs=1, body = b(float[?, ?] a, float[?] s) => (float[?, ?] c) {
        g = GatherND(a, p)  t = Tanh(g)  u = Add(t, s)  c = ScatterND(a, p, u) }>(x, seq)""",
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("trips", [3, 5000])
@pytest.mark.parametrize("name", LOOPS)
def test_sizes_that_the_body_of_a_loop_needs(name: str, trips: int) -> None:
    arrays = {"x": floats(3, 2), "p": np.array([[0, 1], [2, 0]])}
    constants = {"trips": np.array(trips)} if name == "a loop" else {}
    if name == "a scan":
        arrays["seq"] = floats(trips, 2) / 10
    served = serves(undeclared(LOOPS[name], arrays, 18, **constants), arrays, tolerance=1e-4)
    assert len(served.models) == 1
    assert "p_1" in served.sizes
