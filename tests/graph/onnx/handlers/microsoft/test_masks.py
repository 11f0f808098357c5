"""Masks of keys in the attention of com.microsoft, as onnxruntime reads them: ends of rows, beginnings, single keys."""

from __future__ import annotations

import importlib.util
from typing import Any

import joinery as jn
import numpy as np
import pytest

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


@pytest.mark.parametrize(("kind", "named", "batch"), pairs(KINDS, ["numbers", "names", "none"], [1, 2, 3]))
def test_attention_by_one_matrix(kind: str, named: str, batch: int) -> None:
    mask = mask_of(kind, batch)
    x = f"[{batch}, {LENGTH}, {WIDTH}]" if named == "numbers" else f"[b, s, {WIDTH}]"
    body = "y = com.microsoft.Attention<num_heads=2>(x, w, b, m)"
    made = model(f"(float{x} x, {declared(mask, named)}) => (float y)", body, w=floats(WIDTH, 24), b=floats(24))
    serves(made, {"x": floats(batch, LENGTH, WIDTH), "m": mask}, tolerance=2e-4)


@pytest.mark.parametrize("kind", ["ends", "ends and begins", "packed"])
def test_attention_of_codes(kind: str) -> None:
    mask = mask_of(kind, 2)
    body = "y = com.microsoft.QAttention<num_heads=2>(x, w, b, s, t, m, z, o)"
    made = model(
        f"(uint8[b, s, 8] x, {declared(mask, 'names')}) => (float y)", body, w=RNG.integers(-99, 99, (8, 24), np.int8),
        b=floats(24), s=np.float32(0.02), t=np.float32(0.01), z=np.uint8(120), o=np.int8(3),
    )  # fmt: skip
    serves(made, {"x": RNG.integers(0, 255, (2, LENGTH, 8), np.uint8), "m": mask}, tolerance=2e-4)


@pytest.mark.parametrize("kind", ["ends", "ends and begins"])
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_masks_reach_over_cached_keys(kind: str, unidirectional: int) -> None:
    body = f"y, p = com.microsoft.Attention<num_heads=2, unidirectional={unidirectional}>(x, w, b, m, c)"
    signature = "(float[b, s, 8] x, int32[m] m, float[2, b, 2, past, 4] c) => (float y, float p)"
    made = model(signature, body, w=floats(WIDTH, 24), b=floats(24))
    serves(made, {"x": floats(3, 2, 8), "m": mask_of(kind, 3), "c": floats(2, 3, 2, 3, 4)}, tolerance=2e-4)


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
