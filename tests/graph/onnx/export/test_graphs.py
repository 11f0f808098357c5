"""Whole graphs as models: a transformer with published weights, attention, a step of training, a decoder's cache."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ....support.onnx_export.agreement import by_onnxruntime, by_reference, difference, exported, outputs
from ....support.onnx_export.structure import structure

F = np.float32
ROOT = Path(__file__).resolve().parents[4]
has_onnxruntime = pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="onnxruntime is not installed")
RUNTIMES = [
    pytest.param(by_reference, id="reference"),
    pytest.param(by_onnxruntime, id="onnxruntime", marks=[pytest.mark.slow, has_onnxruntime]),
]


def attention(dtype: Any) -> Any:
    """Causal attention over a cache: all of batch, new tokens and length of the cache are symbolic."""
    graph = jn.Graph(
        "attention",
        [
            jn.TensorType(dtype, ("batch", 4, "new", 16), "q"),
            jn.TensorType(dtype, ("batch", 4, "new", 16), "k"),
            jn.TensorType(dtype, ("batch", 4, "new", 16), "v"),
            jn.TensorType(dtype, ("batch", 4, "past", 16), "keys"),
            jn.TensorType(dtype, ("batch", 4, "past", 16), "values"),
        ],
    )
    q, k, v, keys, values = graph.inputs
    keys, values = jn.concat([keys, k], axis=2), jn.concat([values, v], axis=2)
    scores = q @ jn.transpose(keys, -1, -2) * (1 / math.sqrt(16))
    ones = jn.broadcast_to(graph.scalar(1, jn.int32), scores.shape)
    row = jn.cumsum(ones, axis=2) + graph.dim_value(keys.shape[2] - q.shape[2])
    scores = jn.where(jn.cumsum(ones, axis=3) <= row, scores, -math.inf)
    graph.output(jn.softmax(scores, axis=-1) @ values, keys, values, names=["out", "keys_out", "values_out"])
    return graph


def training_step() -> Any:
    """Loss, gradients and updated weights of a classifier, with a batch whose size is symbolic."""
    types = [
        jn.TensorType(jn.float32, ("n", 8), "x"), jn.TensorType(jn.int64, ("n",), "labels"),
        jn.TensorType(jn.float32, (8, 16), "w1"), jn.TensorType(jn.float32, (16, 5), "w2"),
        jn.TensorType(jn.float32, (5,), "bias"),
    ]  # fmt: skip
    graph = jn.Graph("step", types)
    x, labels, w1, w2, bias = graph.inputs
    hidden = x @ w1
    active = jn.relu(hidden)
    logits = active @ w2 + bias
    target = jn.equal(labels[:, None], graph.constant(np.arange(5))).cast(jn.float32)
    loss = -jn.mean(jn.sum(jn.logsoftmax(logits, axis=1) * target, axis=1))
    slope = (jn.softmax(logits, axis=1) - target) / graph.dim_value(x.shape[0])
    back = jn.where(hidden > 0, slope @ w2.T, 0)
    graph.output(loss, w1 - 0.1 * (x.T @ back), w2 - 0.1 * (active.T @ slope), bias - 0.1 * jn.sum(slope, axis=0))
    return graph


def mixed_precision() -> Any:
    """Layers in bfloat16 with float32 statistics, integers and bools that promote, and positions from data."""
    graph = jn.Graph("mixed", [jn.TensorType(jn.float32, ("n", 12), "x"), jn.TensorType(jn.int32, ("n",), "which")])
    x, which = graph.inputs
    small = x.cast(jn.bfloat16) * graph.weight("scale", np.linspace(0.5, 1.5, 12).astype(jn.bfloat16.numpy))
    norm = jn.rms_norm(small) + jn.layer_norm(small)
    table = graph.weight("table", np.arange(60, dtype=F).reshape(5, 12) / 30)
    found = jn.gather(table, which, axis=0)
    count = jn.sum(found > 1, axis=1) // 2 + which % 3
    graph.output(jn.silu(norm).cast(jn.float32) + found, count, jn.argmax(found, axis=1), jn.sigmoid(x) ** 2)
    return graph


def arrays_of(graph: Any, seed: int, **sizes: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    found = []
    for symbol in graph.inputs:
        shape = [extent if isinstance(extent, int) else extent.evaluate(sizes) for extent in symbol.shape]
        is_float = symbol.dtype.is_float
        found.append((rng.normal(size=shape) if is_float else rng.integers(0, 5, shape)).astype(symbol.dtype.numpy))
    return found


CASES = [
    pytest.param(
        lambda: attention(jn.float32), [{"batch": 2, "new": 1, "past": 5}, {"batch": 1, "new": 4, "past": 0}], "float32",
        id="attention",
    ),
    pytest.param(lambda: attention(jn.float16), [{"batch": 1, "new": 3, "past": 2}], "float16", id="attention-float16"),
    pytest.param(training_step, [{"n": 6}, {"n": 1}], "float32", id="training"),
    pytest.param(mixed_precision, [{"n": 4}, {"n": 1}], "bfloat16", id="mixed"),
]  # fmt: skip


@pytest.mark.parametrize("run", RUNTIMES)
@pytest.mark.parametrize(("build", "sizes", "dtype"), CASES)
def test_a_graph_computes_the_same_for_all_sizes(run: Any, build: Any, sizes: Any, dtype: str) -> None:
    graph = build()
    model = exported(graph)
    for number, chosen in enumerate(sizes):
        arrays = arrays_of(graph, number, **chosen)
        for got, want in zip(run(model, graph, arrays), outputs(graph, arrays), strict=True):
            assert not difference(got, want, dtype)


@pytest.mark.parametrize(("build", "sizes", "dtype"), CASES)
def test_a_graph_that_is_read_back_computes_the_same(build: Any, sizes: Any, dtype: str) -> None:
    graph = build()
    again = jn.from_onnx(jn.to_onnx(graph))
    assert again.casts() == ()
    for number, chosen in enumerate(sizes):
        arrays = arrays_of(graph, number, **chosen)
        for got, want in zip(outputs(again, arrays), outputs(graph, arrays), strict=True):
            assert not difference(got, want, dtype, factor=0.25)


def test_whole_graphs_are_read_back_as_they_were() -> None:
    for graph in (attention(jn.float32), mixed_precision()):
        assert structure(jn.from_onnx(jn.to_onnx(graph))) == structure(graph)


def minilm() -> Any:
    spec = importlib.util.spec_from_file_location("minilm", ROOT / "examples" / "minilm.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@has_onnxruntime
def test_the_demo_transformer_computes_the_same_in_onnxruntime(tmp_path: Path) -> None:
    example = minilm()
    if importlib.util.find_spec(example.PACKAGE) is None:
        pytest.skip(f"the weights are not installed: {example.INSTALL}")
    graph = example.build(example.model_dir())
    ids, mask = example.encode(["a short one", "a sentence that is longer than the other"], example.model_dir())
    path = tmp_path / "minilm.onnx"
    jn.to_onnx(graph, path, external_data=True)
    assert path.stat().st_size < 1 << 20
    for arrays in ((ids, mask), (ids[:1, :3], mask[:1, :3])):
        for got, want in zip(by_onnxruntime(str(path), graph, arrays), outputs(graph, arrays), strict=True):
            np.testing.assert_allclose(got, want, rtol=0, atol=2e-6)
