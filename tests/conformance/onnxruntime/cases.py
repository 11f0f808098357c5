"""Nodes of com.microsoft whose results onnxruntime has computed: `python -m tests.conformance.onnxruntime` records them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

RECORD = Path(__file__).resolve().parents[2] / "data" / "onnxruntime" / "microsoft.npz"
"""Inputs and results: arrays by "case/name"."""


class Case(NamedTuple):
    """A node: its operator, inputs by name in order (None: left out), outputs, attributes."""

    op: str
    inputs: dict[str, Any]
    outputs: str
    attributes: dict[str, Any]


def cases() -> dict[str, Case]:
    """All cases, with inputs made from one seed."""
    rng = np.random.default_rng(22)

    def floats(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    def codes(*shape: int) -> Any:
        return rng.integers(0, 256, shape).astype(np.uint8)

    def number(value: float) -> Any:
        return np.array(value, np.float32)

    def zero(value: int) -> Any:
        return np.array(value, np.uint8)

    found: dict[str, Case] = {}

    def add(name: str, op: str, outputs: str = "y", inputs: dict[str, Any] | None = None, **attributes: Any) -> None:
        found[name] = Case(op, inputs or {}, outputs, attributes)

    q, k, v = floats(2, 3, 8), floats(2, 5, 8), floats(2, 5, 8)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    add("heads", "MultiHeadAttention", inputs={"q": q, "k": k, "v": v}, num_heads=2)
    add("heads, bias and mask", "MultiHeadAttention", inputs={"q": q, "k": k, "v": v, "b": floats(24), "m": mask}, num_heads=2)
    add("heads, lengths", "MultiHeadAttention", num_heads=2, scale=0.3,
        inputs={"q": q, "k": k, "v": v, "b": None, "m": np.array([2, 5], np.int32)})
    add("heads, causal with a past", "MultiHeadAttention", "y pk pv", num_heads=2, unidirectional=1,
        inputs={"q": q, "k": floats(2, 3, 8), "v": floats(2, 3, 8), "b": None, "m": None, "a": floats(1, 2, 3, 7),
                "p": floats(2, 2, 4, 4), "r": floats(2, 2, 4, 4)})  # fmt: skip
    x, weights, bias = floats(2, 4, 6), floats(6, 24), floats(24)
    add("attention", "Attention", inputs={"x": x, "w": weights, "b": bias}, num_heads=2)
    add("attention, causal", "Attention", inputs={"x": x, "w": weights, "b": bias}, num_heads=4, unidirectional=1)
    add("attention, mask and past", "Attention", "y present", num_heads=2,
        inputs={"x": x, "w": weights, "b": bias, "m": rng.integers(0, 2, (2, 7)).astype(np.int32),
                "past": floats(2, 2, 2, 3, 4)})  # fmt: skip
    angles = rng.random((10, 2)).astype(np.float32)
    cos, sin = np.cos(angles), np.sin(angles)
    places = np.array([[0, 1, 2], [4, 5, 6]], np.int64)
    add("rotary", "RotaryEmbedding", inputs={"x": floats(2, 3, 8), "p": places, "c": cos, "s": sin})
    add("rotary, interleaved from a position", "RotaryEmbedding", interleaved=1,
        inputs={"x": floats(2, 2, 3, 4), "p": np.array([3], np.int64), "c": cos, "s": sin})
    add("rotary, partial", "RotaryEmbedding", num_heads=2, rotary_embedding_dim=4,
        inputs={"x": floats(2, 3, 16), "p": places, "c": cos, "s": sin})
    turns = rng.random((10, 8)).astype(np.float32)
    cos, sin = np.cos(turns), np.sin(turns)
    prompt = {"q": floats(2, 4, 64), "k": floats(2, 4, 32), "v": floats(2, 4, 32), "pk": floats(2, 2, 0, 16),
              "pv": floats(2, 2, 0, 16),
              "n": np.array([3, 3], np.int32), "t": np.array(4, np.int32)}  # fmt: skip
    add("groups, a prompt", "GroupQueryAttention", "y keys values", inputs=prompt, num_heads=4, kv_num_heads=2)
    add("groups, rotated prompt", "GroupQueryAttention", "y keys values", num_heads=4, kv_num_heads=2, do_rotary=1, softcap=5.0,
        inputs={**prompt, "c": cos, "s": sin})
    step = {"q": floats(2, 1, 64), "k": floats(2, 1, 32), "v": floats(2, 1, 32), "pk": floats(2, 2, 5, 16),
            "pv": floats(2, 2, 5, 16),
            "n": np.array([5, 5], np.int32), "t": np.array(6, np.int32), "c": cos, "s": sin}  # fmt: skip
    add("groups, a step", "GroupQueryAttention", "y keys values", inputs=step, num_heads=4, kv_num_heads=2, do_rotary=1)
    add("groups, a step in a window", "GroupQueryAttention", "y keys values", inputs=step, num_heads=4, kv_num_heads=2,
        do_rotary=1, rotary_interleaved=1, local_window_size=3)
    add("groups, rows of their own length", "GroupQueryAttention", "y keys values", num_heads=4, kv_num_heads=2, do_rotary=1,
        inputs={**step, "n": np.array([3, 5], np.int32)})
    packed = {**step, "q": floats(2, 1, 128), "k": None, "v": None}
    add("groups, packed", "GroupQueryAttention", "y keys values", inputs=packed, num_heads=4, kv_num_heads=2, do_rotary=1)
    ids, words = rng.integers(0, 9, (2, 4)).astype(np.int32), floats(9, 8)
    tables = {"i": ids, "g": ids % 2, "w": words, "p": floats(6, 8), "t": floats(2, 8), "gamma": floats(8), "beta": floats(8)}
    add("embedding", "EmbedLayerNormalization", "y m", inputs=tables, epsilon=1e-5)
    add("embedding, mask", "EmbedLayerNormalization", "y m", inputs={**tables, "mask": (ids > 3).astype(np.int32)})
    picture, filters = floats(1, 3, 6, 6), floats(4, 3, 3, 3)
    add("conv and relu", "FusedConv", inputs={"x": picture, "w": filters, "b": floats(4)}, activation="Relu", pads=[1] * 4)
    add("conv and leaky relu", "FusedConv", inputs={"x": picture, "w": filters}, activation="LeakyRelu", strides=[2, 2],
        activation_params=[0.2])
    add("gemm and relu", "FusedGemm", inputs={"a": floats(3, 4), "b": floats(5, 4), "c": floats(5)}, activation="Relu",
        transB=1, alpha=0.5, beta=2.0)
    a, b = codes(2, 3, 4), codes(3, 1)
    pair = {"a": a, "as": number(0.1), "az": zero(100), "b": b, "bs": number(0.2), "bz": zero(120)}
    add("quantised sum", "QLinearAdd", inputs={**pair, "ys": number(0.4), "yz": zero(130)})
    add("quantised product", "QLinearMul", inputs={**pair, "ys": number(5.0), "yz": zero(130)})
    add("quantised sigmoid", "QLinearSigmoid",
        inputs={"x": a, "s": number(0.05), "z": zero(128), "ys": number(1 / 256), "yz": zero(0)})
    add("quantised leaky relu", "QLinearLeakyRelu", alpha=0.1,
        inputs={"x": a, "s": number(0.05), "z": zero(128), "ys": number(0.04), "yz": zero(60)})
    add("quantised parts", "QLinearConcat", axis=2,
        inputs={"ys": number(0.2), "yz": zero(10), "a": a, "as": number(0.1), "az": zero(100), "b": codes(2, 3, 2),
                "bs": number(0.2), "bz": zero(120)})  # fmt: skip
    add("quantised average", "QLinearGlobalAveragePool",
        inputs={"x": codes(1, 3, 4, 4), "s": number(0.1), "z": zero(7), "ys": number(0.05), "yz": zero(3)})
    product = {"a": codes(3, 4), "as": number(0.02), "az": zero(120), "b": codes(4, 5), "bs": number(0.03), "bz": zero(110)}
    add("quantised gemm", "QGemm",
        inputs={**product, "c": rng.integers(-999, 999, 5).astype(np.int32), "ys": number(0.2), "yz": zero(128)})
    add("quantised gemm to floats", "QGemm", inputs={**product, "b": codes(5, 4)}, transB=1, alpha=0.5)
    scaled = {"a": codes(2, 3, 4), "b": codes(4, 5), "as": number(0.02), "bs": number(0.03)}
    add("integers to floats", "MatMulIntegerToFloat", inputs={**scaled, "az": zero(120), "bz": zero(110), "c": floats(5)})
    add("integers to floats by column", "MatMulIntegerToFloat",
        inputs={**scaled, "b": codes(4, 5).view(np.int8), "bs": np.abs(floats(5)) + np.float32(0.01)})
    add("a matrix quantised by its range", "DynamicQuantizeMatMul",
        inputs={"a": floats(2, 3, 4), "b": codes(4, 5), "bs": number(0.03), "bz": zero(110), "c": floats(5)})
    add("a matrix quantised by its range, by column", "DynamicQuantizeMatMul",
        inputs={"a": floats(3, 4), "b": codes(4, 5).view(np.int8), "bs": np.abs(floats(5)) + np.float32(0.01)})
    cache = {"q": floats(2, 1, 64), "k": floats(2, 1, 32), "v": floats(2, 1, 32), "pk": floats(2, 2, 8, 16),
             "pv": floats(2, 2, 8, 16),
             "n": np.array([3, 5], np.int32), "t": np.array(6, np.int32), "c": cos, "s": sin}  # fmt: skip
    groups = {"num_heads": 4, "kv_num_heads": 2}
    add("groups, a cache made once", "GroupQueryAttention", "y keys values", inputs=cache, do_rotary=1, **groups)
    add("groups, a cache made once is full", "GroupQueryAttention", "y keys values", **groups,
        inputs={**cache, "n": np.array([6, 7], np.int32), "t": np.array(8, np.int32), "c": None, "s": None})
    add("groups, a prompt into a cache made once", "GroupQueryAttention", "y keys values", local_window_size=2, **groups,
        inputs={**cache, "q": floats(2, 4, 64), "k": floats(2, 4, 32), "v": floats(2, 4, 32),
                "n": np.array([3, 3], np.int32), "t": np.array(4, np.int32), "c": None, "s": None})
    add("groups, several new in a cache made once", "GroupQueryAttention", "y keys values", do_rotary=1, **groups,
        inputs={"q": floats(1, 3, 64), "k": floats(1, 3, 32), "v": floats(1, 3, 32), "pk": floats(1, 2, 8, 16),
                "pv": floats(1, 2, 8, 16), "n": np.array([5], np.int32), "t": np.array(6, np.int32), "c": cos, "s": sin})
    for name, kind, directions, batch in (("forward", np.int8, 1, 1), ("bidirectional", np.uint8, 2, 3)):
        sizes = np.iinfo(kind)
        w, r = (rng.integers(sizes.min, sizes.max, (directions, rows, 20)).astype(kind) for rows in (4, 5))
        middle = np.full(directions, (sizes.max + sizes.min) // 2, kind)
        scale = np.full(directions, 0.01, np.float32)
        network = {"x": floats(6, batch, 4), "w": w, "r": r, "b": floats(directions, 40),
                   "l": None, "h": None, "c": None, "p": None,
                   "ws": scale, "wz": middle, "rs": scale / 2, "rz": middle}  # fmt: skip
        add(f"quantised lstm, {name}", "DynamicQuantizeLSTM", "y yh yc", inputs=network, hidden_size=5, direction=name)
        started = {**network, "h": floats(directions, batch, 5), "c": floats(directions, batch, 5), "p": floats(directions, 15),
                   "ws": rng.random((directions, 20)).astype(np.float32) / 50,
                   "wz": np.tile(middle[:, None] * 0, (1, 20)), "rs": rng.random((directions, 20)).astype(np.float32) / 50,
                   "rz": np.tile(middle[:, None] * 0, (1, 20))}  # fmt: skip
        add(f"quantised lstm by column, {name}", "DynamicQuantizeLSTM", "y yh yc", inputs=started, hidden_size=5, clip=3.0,
            direction=name)
    return found
