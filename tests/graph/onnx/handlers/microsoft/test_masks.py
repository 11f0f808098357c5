"""Masks of keys in the attention of com.microsoft, as onnxruntime reads them: ends of rows, beginnings, single keys."""

from __future__ import annotations

import importlib.util
from typing import Any

import joinery as jn
import numpy as np
import pytest

from .....support.code_weights import code_weights
from .....support.onnx_texts import model, serves
from .....support.tiers import pairs

pytestmark = pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="onnxruntime is not installed")
RNG = np.random.default_rng(44)
LENGTH, WIDTH = 5, 8


def floats(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def mask_of(kind: str, batch: int) -> Any:
    """A mask: of `ends` (B,), of `ends and begins` (2B,), `packed` (3B + 2,), of `keys` (B, 5), of `queries` (B, 5, 5)."""
    ends = np.array([4, 2, 5, 9][:batch], np.int32)
    if kind == "ends":
        return ends
    if kind == "ends and begins":
        return np.concatenate([ends, np.array([1, 0, 3, 2][:batch], np.int32)])
    if kind == "packed":
        sums = np.concatenate([[0], np.cumsum(ends)]).astype(np.int32)
        return np.concatenate([ends, sums, sums])
    shape = (batch, LENGTH) if kind == "keys" else (batch, LENGTH, LENGTH)
    return RNG.integers(-1, 3, shape, np.int32)


def declared(mask: Any, named: str) -> str:
    """The mask's declaration, with sizes as numbers, all of them named, or without names."""
    sizes = {"numbers": mask.shape, "names": [f"m{axis}" for axis in range(mask.ndim)], "none": ["?"] * mask.ndim}[named]
    return f"int32[{', '.join(map(str, sizes))}] m"


KINDS = ["ends", "ends and begins", "packed", "keys", "queries"]


@pytest.mark.one_in(24)
@pytest.mark.parametrize(("kind", "named", "batch"), pairs(KINDS, ["numbers", "names", "none"], [1, 2, 3]))
def test_attention_by_one_matrix(kind: str, named: str, batch: int) -> None:
    mask = mask_of(kind, batch)
    x = f"[{batch}, {LENGTH}, {WIDTH}]" if named == "numbers" else f"[b, s, {WIDTH}]"
    body = "y = com.microsoft.Attention<num_heads=2>(x, w, b, m)"
    made = model(f"(float{x} x, {declared(mask, named)}) => (float y)", body, w=floats(WIDTH, 24), b=floats(24))
    serves(made, {"x": floats(batch, LENGTH, WIDTH), "m": mask}, tolerance=2e-4)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", ["ends", "ends and begins", "packed"])
def test_attention_of_codes(kind: str) -> None:
    mask = mask_of(kind, 2)
    body = "y = com.microsoft.QAttention<num_heads=2>(x, w, b, s, t, m, z, o)"
    made = model(
        f"(uint8[b, s, 8] x, {declared(mask, 'names')}) => (float y)", body, w=code_weights(RNG, np.int8, 8, 24),
        b=floats(24), s=np.float32(0.02), t=np.float32(0.01), z=np.uint8(120), o=np.int8(3),
    )  # fmt: skip
    serves(made, {"x": RNG.integers(0, 255, (2, LENGTH, 8), np.uint8), "m": mask}, tolerance=2e-4)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", ["ends", "ends and begins"])
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_masks_reach_over_cached_keys(kind: str, unidirectional: int) -> None:
    body = f"y, p = com.microsoft.Attention<num_heads=2, unidirectional={unidirectional}>(x, w, b, m, c)"
    signature = "(float[b, s, 8] x, int32[m] m, float[2, b, 2, past, 4] c) => (float y, float p)"
    made = model(signature, body, w=floats(WIDTH, 24), b=floats(24))
    serves(made, {"x": floats(3, 2, 8), "m": mask_of(kind, 3), "c": floats(2, 3, 2, 3, 4)}, tolerance=2e-4)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("named", ["numbers", "names", "none"])
@pytest.mark.parametrize("kind", ["ends", "packed", "keys", "queries"])
def test_attention_with_several_heads(kind: str, named: str) -> None:
    mask = mask_of(kind, 2)
    shape = f"[2, {LENGTH}, 8]" if named == "numbers" else "[b, s, 8]"
    body = "y = com.microsoft.MultiHeadAttention<num_heads=2>(q, k, v, , m)"
    made = model(f"(float{shape} q, float{shape} k, float{shape} v, {declared(mask, named)}) => (float y)", body)
    serves(made, {**{name: floats(2, LENGTH, 8) for name in "qkv"}, "m": mask}, tolerance=2e-4)


def test_ends_of_the_same_batch_need_no_number() -> None:
    body = "y = com.microsoft.Attention<num_heads=2>(x, w, b, m)"
    made = model("(float[b, s, 8] x, int32[b] m) => (float y)", body, w=floats(8, 24), b=floats(24))
    graph = jn.from_onnx(made)
    assert sorted(graph.dim_names) == ["b", "s"]


def test_other_vectors_are_refused() -> None:
    body = "y = com.microsoft.Attention<num_heads=2>(x, w, b, m)"
    for count in (1, 3, 5, 9):
        made = model(f"(float[2, 5, 8] x, int32[{count}] m) => (float y)", body, w=floats(8, 24), b=floats(24))
        with pytest.raises(jn.UserError, match=rf"a mask of {count} elements for a batch of 2; fix: a mask of \(batch,\), \(2"):
            jn.from_onnx(made)
    heads = "y = com.microsoft.MultiHeadAttention<num_heads=2>(q, q, q, , m)"
    with pytest.raises(jn.UserError, match="a mask of 4 elements for a batch of 2"):
        jn.from_onnx(model("(float[2, 5, 8] q, int32[4] m) => (float y)", heads))


BACK = {
    "keys": np.array([[0, 0, 0, 1, 1], [0, 1, 0, 1, 1]], np.int32), "nothing": np.zeros((2, LENGTH), np.int32),
    "begins": np.array([5, 4, 3, 1], np.int32),
    "queries": np.tril(np.ones((2, LENGTH, LENGTH), np.int32)) * np.array([0, 0, 1, 1, 0], np.int32),
}  # fmt: skip
"""Masks with padding before the keys: ends and beginnings, or which keys count."""


@pytest.mark.one_in(12)
@pytest.mark.parametrize("filler", ["", ", mask_filter_value=-3.5"])
@pytest.mark.parametrize("kind", list(BACK))
def test_padding_before_the_keys_lets_no_query_see_later_keys(kind: str, filler: str) -> None:
    mask, arrays = BACK[kind], {"w": floats(WIDTH, 24), "b": floats(24)}
    body = f"y = com.microsoft.Attention<num_heads=2, unidirectional=1{filler}>(x, w, b, m)"
    made = model(f"(float[b, s, 8] x, {declared(mask, 'numbers')}) => (float y)", body, **arrays)
    feeds = {"x": floats(2, LENGTH, 8), "m": mask}
    compiled = serves(made, feeds, tolerance=2e-3)  # scores beside -10000 are rounded to a thousandth
    later = {**feeds, "x": feeds["x"].copy()}
    later["x"][:, -1] += 1
    np.testing.assert_array_equal(compiled.run(later)["y"][:, :-1], compiled.run(feeds)["y"][:, :-1])


@pytest.mark.one_in(12)
@pytest.mark.parametrize("filler", ["", ", mask_filter_value=-3.5"])
@pytest.mark.parametrize("kind", ["keys", "nothing", "queries"])
@pytest.mark.parametrize("biased", [False, True])
def test_padding_before_the_keys_of_several_heads(kind: str, filler: str, biased: bool) -> None:
    mask, bias = BACK[kind], floats(2, 2, LENGTH, LENGTH)
    body = f"y = com.microsoft.MultiHeadAttention<num_heads=2, unidirectional=1{filler}>(q, k, v, , m{', a' if biased else ''})"
    given = f"float[b, s, 8] q, float[b, s, 8] k, float[b, s, 8] v, {declared(mask, 'numbers')}"
    made = model(f"({given}{', float[b, 2, s, s] a' if biased else ''}) => (float y)", body)
    extra = {"a": bias} if biased else {}
    serves(made, {**{name: floats(2, LENGTH, 8) for name in "qkv"}, "m": mask, **extra}, tolerance=2e-3)


def test_padding_before_the_keys_of_codes() -> None:
    body = "y = com.microsoft.QAttention<num_heads=2, unidirectional=1>(x, w, b, s, t, m, z, o)"
    made = model(
        f"(uint8[b, s, 8] x, {declared(BACK['keys'], 'names')}) => (float y)", body, w=code_weights(RNG, np.int8, 8, 24),
        b=floats(24), s=np.float32(0.02), t=np.float32(0.01), z=np.uint8(120), o=np.int8(3),
    )  # fmt: skip
    serves(made, {"x": RNG.integers(0, 255, (2, LENGTH, 8), np.uint8), "m": BACK["keys"]}, tolerance=2e-3)


@pytest.mark.one_in(18)
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(("queries", "keys", "past"), [(3, 5, 0), (5, 3, 0), (1, 5, 0), (2, 2, 3), (3, 5, 2), (1, 1, 3)])
def test_causal_heads_with_other_numbers_of_queries_and_keys(queries: int, keys: int, past: int, named: bool) -> None:
    q, k, p = f"[2, {queries}, 8]", f"[2, {keys}, 8]", f"[2, 2, {past}, 4]"
    if named:
        q, k, p = "[b, s, 8]", "[b, t, 8]", "[b, 2, p, 4]"
    attributes = "num_heads=2, unidirectional=1"
    feeds = {"q": floats(2, queries, 8), "k": floats(2, keys, 8), "v": floats(2, keys, 8)}
    if past:
        body = f"y, pk, pv = com.microsoft.MultiHeadAttention<{attributes}>(q, k, v, , , , c, d)"
        made = model(f"(float{q} q, float{k} k, float{k} v, float{p} c, float{p} d) => (float y, float pk, float pv)", body)
        feeds |= {"c": floats(2, 2, past, 4), "d": floats(2, 2, past, 4)}
    else:
        body = f"y = com.microsoft.MultiHeadAttention<{attributes}>(q, k, v)"
        made = model(f"(float{q} q, float{k} k, float{k} v) => (float y)", body)
    serves(made, feeds, tolerance=2e-4)
