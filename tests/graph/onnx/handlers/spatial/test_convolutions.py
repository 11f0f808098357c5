"""Convolutions against their definition, tap by tap: random kernels, strides, dilations, paddings and groups."""

from __future__ import annotations

import random
from typing import Any

import joinery as jn
import numpy as np
import pytest

from .....support.convolutions import convolved
from .....support.onnx_models import model, node
from .....support.tiers import both_tiers

F = np.float32


def described(seed: int) -> tuple[Any, Any, dict[str, Any]]:
    """A random image, weights and attributes."""
    choose = random.Random(seed)
    rank = choose.choice([1, 2, 2, 2, 3])
    kernel = [choose.randint(1, 3) for _ in range(rank)]
    group, each, filters = choose.choice([(1, 3, 5), (1, 16, 8), (2, 4, 3), (6, 1, 1), (4, 1, 2), (3, 8, 2)])
    options = {
        "strides": [choose.randint(1, 3) for _ in range(rank)], "dilations": [choose.randint(1, 2) for _ in range(rank)],
        "pads": [choose.randint(0, 2) for _ in range(2 * rank)], "group": group,
    }  # fmt: skip
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((choose.choice([1, 3]), group * each, *[choose.randint(5, 9) for _ in range(rank)]))
    return x.astype(F), rng.standard_normal((group * filters, each, *kernel)).astype(F), options


@pytest.mark.one_in(9)
@pytest.mark.parametrize("seed", range(40))
@both_tiers
def test_convolutions_are_what_their_definition_says(seed: int, in_full: bool) -> None:
    x, w, options = described(seed)
    bias = np.arange(w.shape[0], dtype=F)
    expected = convolved(x, w, options) + bias.reshape(-1, *(1,) * (x.ndim - 2))
    known = seed % 2
    inputs: dict[str, Any] = {"x": (F, ["n", *x.shape[1:]])} | ({} if known else {"w": (F, w.shape)})
    graph = jn.from_onnx(model([node("Conv", "x w b", **options)], inputs, constants={"b": bias} | ({"w": w} if known else {})))
    arrays = (x,) if known else (x, w)
    np.testing.assert_allclose(jn.evaluate(graph, *arrays), expected, rtol=1e-4, atol=1e-4)
    if in_full or seed % 4 == 1:
        np.testing.assert_allclose(jn.compile(graph, "cpu", cache=False)(*arrays), expected, rtol=1e-4, atol=1e-4)
    if in_full:
        found = jn.compile(graph, "ptxsim", cache=False)(*arrays)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_a_small_network_runs_with_channels_last() -> None:
    """Between convolutions there is no kernel that only moves: the input is padded and turned, the rest is fused."""
    rng = np.random.default_rng(0)
    one, two, last = (rng.standard_normal(s).astype(F) * 0.2 for s in ((16, 3, 3, 3), (16, 16, 3, 3), (8, 16, 1, 1)))
    norm = {name: rng.random(16).astype(F) + 0.5 for name in ("s", "t", "m", "v")}
    nodes = [
        node("Conv", "x w1", "a", pads=[1] * 4, strides=[2, 2]), node("BatchNormalization", "a s t m v", "b"),
        node("Relu", "b", "c"), node("Conv", "c w2", "d", pads=[1] * 4), node("Add", "d c", "e"), node("Relu", "e", "f"),
        node("Conv", "f w3", "g"), node("GlobalAveragePool", "g", "h"), node("Flatten", "h", "y"),
    ]  # fmt: skip
    made = model(nodes, {"x": (F, ["n", 3, 21, 18])}, constants={"w1": one, "w2": two, "w3": last, **norm})
    graph = jn.from_onnx(made)
    assert not graph.casts()
    compiled = jn.compile(graph, "cpu", cache=False)
    fused = [kernel.fused for kernel in compiled.kernels]
    assert [kernel.template for kernel in compiled.kernels] == ["map", "contract", "map", "contract", "contract", "row"]
    assert fused[0] == fused[2] == ("pad",)
    x = rng.standard_normal((2, 3, 21, 18)).astype(F)
    plain = {"group": 1, "dilations": [1, 1], "strides": [1, 1], "pads": [1] * 4}
    a = convolved(x, one, {**plain, "strides": [2, 2]})
    s, t, m, v = (norm[name].astype(np.float64).reshape(-1, 1, 1) for name in "stmv")
    c = np.maximum((a - m) / np.sqrt(v + 1e-5) * s + t, 0)
    f = np.maximum(convolved(c, two, plain) + c, 0)
    expected = convolved(f, last, {**plain, "pads": [0] * 4}).mean((2, 3))
    np.testing.assert_allclose(compiled(x), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(jn.evaluate(graph, x), expected, rtol=1e-4, atol=1e-5)


def test_weights_of_integer_convolutions_are_folded() -> None:
    x, w = np.arange(75, dtype=np.uint8).reshape(1, 3, 5, 5), np.arange(54, dtype=np.uint8).reshape(2, 3, 3, 3)
    made = model([node("ConvInteger", "x w zx zw", pads=[1] * 4)], {"x": (np.uint8, x.shape)},
                 constants={"w": w, "zx": np.uint8(7), "zw": np.uint8(20)})  # fmt: skip
    graph = jn.from_onnx(made)
    options = {"group": 1, "dilations": [1, 1], "strides": [1, 1], "pads": [1] * 4}
    expected = convolved(x.astype(int) - 7, w.astype(int) - 20, options)
    np.testing.assert_array_equal(jn.evaluate(graph, x), expected)
    compiled = jn.compile(graph, "cpu", cache=False)
    np.testing.assert_array_equal(compiled(x), expected)
    assert not any("reshape" in kernel.fused or len(kernel.fused) > 8 for kernel in compiled.kernels)
