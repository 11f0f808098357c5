"""Experts, inverses, weights of 4 bits, hashes and words of com.microsoft, against onnxruntime."""

from __future__ import annotations

import importlib.util
from typing import Any

import joinery as jn
import numpy as np
import pytest

from .....support.onnx_texts import agrees, by_onnxruntime, model

pytestmark = pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="onnxruntime is not installed")
RNG = np.random.default_rng(7)
TOKENS, WIDTH, INNER, EXPERTS = 5, 8, 6, 4


def floats(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def experts(inner: int = INNER) -> dict[str, Any]:
    return {"w1": floats(EXPERTS, inner, WIDTH), "b1": floats(EXPERTS, inner), "w2": floats(EXPERTS, WIDTH, INNER),
            "b2": floats(EXPERTS, WIDTH)}  # fmt: skip


@pytest.mark.one_in(36)
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("normalised", [0, 1])
@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "identity"])
def test_the_best_experts_of_each_token(count: int, normalised: int, activation: str) -> None:
    attributes = f'k={count}, normalize_routing_weights={normalised}, activation_type="{activation}"'
    body = f"y = com.microsoft.MoE<{attributes}>(x, r, w1, b1, w2, b2)"
    made = model("(float[n, 8] x, float[n, 4] r) => (float[n, 8] y)", body, **experts())
    equal = np.array([[0, 1, 1, 1], [2, 2, 2, 2], [1, 0, 0, 0]], np.float32)
    agrees(made, {"x": floats(TOKENS, WIDTH), "r": floats(TOKENS, EXPERTS)}, {"x": floats(3, WIDTH), "r": equal},
           {"x": floats(1, WIDTH), "r": floats(1, EXPERTS)})  # fmt: skip


NUMBERS = ["", ", activation_alpha=1.7, activation_beta=1.0", ", activation_alpha=1.7, swiglu_limit=0.5"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("numbers", NUMBERS)
def test_gated_experts(numbers: str) -> None:
    body = f'y = com.microsoft.MoE<k=2, activation_type="swiglu", swiglu_fusion=1{numbers}>(x, r, w1, b1, w2, b2)'
    made = model("(float[b, n, 8] x, float[t, 4] r) => (float[b, n, 8] y)", body, **experts(2 * INNER))
    agrees(made, {"x": floats(2, 3, WIDTH), "r": floats(6, EXPERTS)})


def test_gates_beside_the_values() -> None:
    """onnxruntime has no kernel for the CPU: the same weights in another order."""
    given = experts(2 * INNER)
    halves = {name: np.concatenate([given[name][:, 0::2], given[name][:, 1::2]], 1) for name in ("w1", "b1")}
    feeds = {"x": floats(TOKENS, WIDTH), "r": floats(TOKENS, EXPERTS)}
    results = [
        jn.evaluate(jn.from_onnx(model(
            "(float[n, 8] x, float[n, 4] r) => (float[n, 8] y)",
            f'y = com.microsoft.MoE<k=2, activation_type="swiglu", swiglu_fusion={fusion}>(x, r, w1, b1, w2, b2)', **arrays,
        )), *feeds.values())
        for fusion, arrays in ((1, given), (2, {**given, **halves}))
    ]  # fmt: skip
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("option", ["use_sparse_mixer=1", 'activation_type="swiglu"', 'activation_type="relu2"', "k=5", "k=0"])
def test_experts_that_are_refused(option: str) -> None:
    body = f"y = com.microsoft.MoE<{option}>(x, r, w1, b1, w2, b2)"
    with pytest.raises((jn.UserError, jn.UnsupportedError), match=r"MoE(.|\n)*fix:"):
        jn.from_onnx(model("(float[n, 8] x, float[n, 4] r) => (float[n, 8] y)", body, **experts()))


@pytest.mark.one_in(8)
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block", [0, 16])
@pytest.mark.parametrize("has_zero", [False, True])
def test_experts_of_codes(bits: int, block: int, has_zero: bool) -> None:
    size, per = 32, 8 // bits

    def packed(shape: tuple[int, ...]) -> Any:
        values = RNG.integers(0, 1 << bits, shape)
        return sum((values[..., number::per] << (bits * number)) for number in range(per)).astype(np.uint8)  # type: ignore[union-attr]

    scales = (EXPERTS, size, size // block) if block else (EXPERTS, size)
    arrays = {
        "w1": packed((EXPERTS, size, size)), "w2": packed((EXPERTS, size, size)),
        "s1": (RNG.random(scales) * 0.02).astype(np.float32), "s2": (RNG.random(scales) * 0.02).astype(np.float32),
    }  # fmt: skip
    zeros = ""
    if has_zero:
        arrays |= {"z1": packed(scales), "z2": packed(scales)}
        zeros = ", , , , z1, z2"
    attributes = f'k=2, normalize_routing_weights=1, expert_weight_bits={bits}, activation_type="silu"'
    attributes += f", block_size={block}" if block else ""
    body = f"y = com.microsoft.QMoE<{attributes}>(x, r, w1, s1, , w2, s2, {zeros})"
    made = model("(float[n, 32] x, float[n, 4] r) => (float[n, 32] y)", body, **arrays)
    feeds = {"x": floats(TOKENS, size), "r": floats(TOKENS, EXPERTS)}
    if block and bits == 8:  # onnxruntime rounds what enters these products to 8 bits
        (want,) = by_onnxruntime(made, feeds)
        found = jn.evaluate(jn.from_onnx(made), *feeds.values())
        assert np.abs(found - want).max() <= 0.02 * np.abs(want).max()
    else:
        agrees(made, feeds, tolerance=1e-4)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16])
def test_inverses(size: int) -> None:
    made = model("(float[a, b, n, n] x) => (float[a, b, n, n] y)", "y = com.microsoft.Inverse(x)")
    x = floats(2, 3, size, size)
    x[0, 0] = np.eye(size)[::-1]  # zeros on the diagonal
    found = jn.compile(jn.from_onnx(made), device="cpu")(x)
    np.testing.assert_allclose(found, np.linalg.inv(x.astype(np.float64)), 2e-3, 2e-3)
    np.testing.assert_array_equal(found[0, 0], x[0, 0])
    (want,) = by_onnxruntime(made, {"x": x})
    wrong = np.abs(found @ x - np.eye(size)).max()
    assert wrong <= 4 * np.abs(want @ x - np.eye(size)).max() + 1e-5


def test_inverses_of_other_dtypes() -> None:
    for name, dtype, tolerance in (("double", np.float64, 1e-12), ("float16", np.float16, 2e-2)):
        x = (np.eye(4) * 3 + RNG.normal(size=(2, 4, 4))).astype(dtype)
        graph = jn.from_onnx(model(f"({name}[n, 4, 4] x) => ({name}[n, 4, 4] y)", "y = com.microsoft.Inverse(x)"))
        found = jn.evaluate(graph, x)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, np.linalg.inv(x.astype(np.float64)), tolerance, tolerance)
    with pytest.raises(jn.UserError, match="Inverse"):
        jn.from_onnx(model("(float[2, 3] x) => (float[2, 3] y)", "y = com.microsoft.Inverse(x)"))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("block", [16, 64])
def test_weights_of_tables(kind: int, block: int) -> None:
    rows, columns = 32, 9
    count = rows * columns
    packed = RNG.integers(0, 256, (count + 1) // 2).astype(np.uint8)
    arrays = {"w": packed, "s": RNG.random(-(-count // block)).astype(np.float32)}
    body = f"y = com.microsoft.MatMulBnb4<K={rows}, N={columns}, block_size={block}, quant_type={kind}>(x, w, s)"
    made = model(f"(float[m, {rows}] x) => (float[m, {columns}] y)", body, **arrays)
    agrees(made, {"x": floats(3, rows)}, {"x": np.eye(rows, dtype=np.float32)}, tolerance=1e-5)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("name", ["int32", "uint32", "int64", "uint64", "float", "double", "string"])
def test_hashes(name: str, positive: int) -> None:
    if name == "string":
        x: Any = np.array(["", "a", "ab", "abc", "abcd", "ä€😀 and more", "x" * 99], object)
    else:
        dtype = np.dtype({"float": "f4", "double": "f8"}.get(name, name))
        x = np.concatenate([RNG.integers(0, 256, 30 * dtype.itemsize).astype(np.uint8).view(dtype), np.array([0, 1], dtype)])
    kind = "uint32" if positive else "int32"
    body = f"y = com.microsoft.MurmurHash3<positive={positive}, seed=7>(x)"
    agrees(model(f"({name}[n] x) => ({kind}[n] y)", body), {"x": x}, {"x": x[:1]}, {"x": x[:0]})


@pytest.mark.one_in(3)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 6])
def test_repeated_ngrams(size: int) -> None:
    body = f"y = com.microsoft.NGramRepeatBlock<ngram_size={size}>(ids, scores)"
    made = model("(int64[b, n] ids, float[b, v] scores) => (float[b, v] y)", body)
    runs = [{"ids": RNG.integers(0, 4, (3, length)), "scores": floats(3, 6)} for length in (20, 5, 1)]
    agrees(made, *runs)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("window", [1, 2, 3])
def test_words_of_characters(window: int) -> None:
    arrays = {"w": floats(4, 1, window, 3), "b": floats(4), "c": floats(6, 3)}
    made = model("(int32[n, 5] s) => (float[n, 4] y)", "y = com.microsoft.WordConvEmbedding(s, w, b, c)", **arrays)
    words = RNG.integers(0, 6, (80, 5)).astype(np.int32)
    words[:, 0] = np.maximum(words[:, 0], 1)
    agrees(made, {"s": words})
    assert not jn.evaluate(jn.from_onnx(made), np.zeros((2, 5), np.int32)).any()  # onnxruntime leaves memory as it was


@pytest.mark.parametrize("axes", [[1], [0, 2], [-1], [0, 1, 2]])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_means_of_codes_over_axes(axes: list[int], keepdims: int) -> None:
    """onnxruntime has a schema, and no kernel for it."""
    body = f"y = com.microsoft.QLinearReduceMean<axes={axes}, keepdims={keepdims}>(x, s, z, t, o)"
    arrays = {"s": np.float32(0.1), "z": np.uint8(120), "t": np.float32(0.04), "o": np.uint8(110)}
    x = RNG.integers(0, 256, (3, 4, 5)).astype(np.uint8)
    found = jn.evaluate(jn.from_onnx(model("(uint8[a, b, c] x) => (uint8 y)", body, **arrays)), x)
    mean = ((x.astype(np.float32) - 120) * np.float32(0.1)).mean(tuple(axes), keepdims=bool(keepdims))
    want = np.clip(np.rint(mean / np.float32(0.04)) + 110, 0, 255)
    assert (found.dtype, found.shape) == (np.uint8, want.shape)
    assert np.abs(found - want).max() <= 1  # a tie may go to either neighbour
    assert (found == want).mean() > 0.7
