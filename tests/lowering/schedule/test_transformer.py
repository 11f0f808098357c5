"""A BERT encoder, written as models are exported: which kernels it becomes, and that they compute it."""

import math

import numpy as np
import pytest
from joinery.graph.dims.dim import Dim
from joinery.lowering.graph_passes.expand import expand
from joinery.lowering.schedule.plan import schedule


def encoder(
    harness,
    layers,
    hidden=24,
    heads=3,
    vocabulary=50,
    batch="batch",
    seq="seq",
    softmax="composite",
    mask="sub",
):
    graph = harness.graph(*[("int64", (batch, seq))] * 3, name="encoder")
    ids, attention_mask, types = graph.inputs
    batch, seq = ids.shape
    width = hidden // heads
    random = np.random.default_rng(1)
    count = iter(range(1000))

    def weight(*shape):
        return graph.weight(
            f"w{next(count)}", (random.standard_normal(shape) / math.sqrt(shape[0])).astype(np.float32)
        )

    def linear(x, features):
        return x @ weight(x.shape[-1], features) + weight(features)

    def norm(x):
        return harness.layer_norm(x, weight(hidden), weight(hidden))

    def split_heads(x):
        return x.reshape(batch, seq, heads, width).permute(0, 2, 1, 3)

    words = harness.op("gather", weight(vocabulary, hidden), ids, axis=0)
    kinds = harness.op("gather", weight(2, hidden), types, axis=0)
    x = norm(words + kinds + weight(64, hidden)[:seq])
    keep = attention_mask.cast("float32")
    if mask == "sub":
        bias = (1.0 - keep.reshape(batch, 1, 1, seq)) * -1e9
    else:
        bias = harness.op(
            "where", attention_mask.reshape(batch, 1, 1, seq) == 0, -1e9, graph.scalar(0.0, "float32")
        )
    for _ in range(layers):
        query, key, value = (split_heads(linear(x, hidden)) for _ in range(3))
        scores = (query @ key.permute(0, 1, 3, 2)) * (1 / math.sqrt(width)) + bias
        weights = harness.op("softmax", scores, axis=3) if softmax == "composite" else harness.softmax(scores)
        context = (weights @ value).permute(0, 2, 1, 3).reshape(batch, seq, hidden)
        x = norm(linear(context, hidden) + x)
        x = norm(linear(harness.op("gelu", linear(x, 4 * hidden), approximate="none"), hidden) + x)
    keep = keep.reshape(batch, seq, 1)
    total = harness.reduce("reduce_sum", x * keep, 1, keepdims=False)
    mean = total / harness.op("maximum", harness.reduce("reduce_sum", keep, 1, keepdims=False), 1e-9)
    length = harness.op("sqrt", harness.reduce("reduce_sum", mean * mean, 1))
    graph.output(mean / harness.op("maximum", length, 1e-12))
    return graph


def arguments(batch, seq):
    random = np.random.default_rng(2)
    mask = random.integers(0, 2, (batch, seq))
    mask[:, 0] = 1
    return random.integers(0, 50, (batch, seq)), mask, random.integers(0, 2, (batch, seq))


LAYER = ["contract", "contract", "contract", "attention", "contract", "row", "contract", "contract", "row"]


@pytest.mark.parametrize("softmax", ["composite", "primitive"])
@pytest.mark.parametrize("mask", ["sub", "where"])
def test_kernels_of_an_encoder(harness, softmax, mask):
    graph = encoder(harness, 2, softmax=softmax, mask=mask)
    plan = schedule(expand(graph))
    assert [nest.template for nest in plan.nests] == ["row", *LAYER, *LAYER, "row", "row"]
    embeddings, query = plan.nests[0], plan.nests[1]
    assert embeddings.fused.count("gather") == 2
    assert embeddings.fused.count("reduce_sum") == 2
    batch, seq = Dim("batch"), Dim("seq")
    assert [(axis.name, axis.extent) for axis in query.axes] == [("m", batch * seq), ("n", 24), ("k", 24)]
    attention = plan.nests[4]
    assert [(axis.name, axis.extent) for axis in attention.axes] == [
        ("b0", batch), ("b1", 3), ("m", seq), ("n", 8), ("keys", seq), ("k", 8),
    ]  # fmt: skip
    assert [axis.iterator for axis in attention.axes] == ["parallel"] * 4 + ["reduction"] * 2
    (store,) = attention.stores
    assert store.at.terms == (
        (0, seq * 24),
        (1, 8),
        (2, 24),
        (3, 1),
    )  # heads are merged again by the store itself
    residual = plan.nests[5]
    assert residual.fused.count("add") == 2
    feed_forward = plan.nests[7]
    assert any(name.startswith("x_phi") for name in feed_forward.fused)
    assert [axis.extent for axis in feed_forward.axes] == [batch * seq, 96, 24]


@pytest.mark.parametrize(("batch", "seq"), [(3, 5), (1, 1), (2, 7)])
def test_an_encoder_computes_what_the_reference_does(harness, batch, seq):
    harness.check(encoder(harness, 2), *arguments(batch, seq), tolerance=3e-5)


def test_an_encoder_of_static_shape(harness):
    plan = harness.check(encoder(harness, 1, batch=2, seq=6), *arguments(2, 6), tolerance=3e-5)
    assert [nest.template for nest in plan.nests] == ["row", *LAYER, "row", "row"]
    assert type(plan.memory.size) is int


def test_memory_is_reused_between_layers(harness):
    batch, seq = Dim("batch"), Dim("seq")
    sizes = [
        schedule(expand(encoder(harness, layers, hidden=384, heads=12))).memory.size for layers in (1, 4)
    ]
    assert sizes[0] == sizes[1]
    # the widest moment: the hidden activation of the feed-forward block, the residual and its result
    assert sizes[0] == 4 * (1536 + 384 + 384) * batch * seq + 4 * 384 * batch
