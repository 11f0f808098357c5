"""Attention: whole-row and online softmax against the plain formula, masks, infinities, runtime lengths,
element types."""

import ml_dtypes
import numpy as np
import pytest
from joinery.graph.dims.dim import dim
from joinery.lowering.tile.schedule import Schedule
from joinery.promotion.dtype import DType, float32, float64
from joinery.promotion.errors import UnsupportedError

SCHEDULES = {
    "default": None,
    "online": Schedule(((2, 16), (3, 16))),
    "one key block": Schedule(((2, 8), (3, 1024))),
}


def reference(q, k, v, scale, bias=0.0):
    scores = q.astype(np.float64) @ np.swapaxes(k, -1, -2).astype(np.float64) * scale + bias
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
        return powers / powers.sum(-1, keepdims=True) @ v.astype(np.float64)


def attention(body, q, k, v, scale, bias=None, bias_dims=(), env=None, sizes=None, dtype=float64):
    """Axes b, h, m, keys, n, k; `sizes` overrides extents with dims."""
    batch, heads, m, width = q.shape
    extents = {
        "b": batch,
        "h": heads,
        "m": m,
        "keys": k.shape[2],
        "n": v.shape[3],
        "k": width,
        **(sizes or {}),
    }
    b = body(env, **extents)
    narrow = dtype if q.dtype.itemsize >= 4 else DType.from_numpy(q.dtype)

    def load(array, dims):
        return b.load(array, dims, shape=[extents[d] for d in dims])

    scores = b.contract(load(q, ["b", "h", "m", "k"]), load(k, ["b", "h", "keys", "k"]), "k", dtype)
    logits = b.op("mul", scores, b.const(scale, dtype))
    if bias is not None:
        logits = b.op("add", logits, b.load(bias, bias_dims, shape=[extents[d] for d in bias_dims]))
    powers = b.op("exp", b.op("sub", logits, b.reduce("max", logits, "keys")))
    weights = b.op("div", powers, b.reduce("sum", powers, "keys"))
    if narrow is not dtype:
        weights = b.op("cast", weights, dtype=narrow)
    b.store(b.contract(weights, load(v, ["b", "h", "keys", "n"]), "keys", dtype), ["b", "m", "h", "n"])
    return b


def tensors(rng, batch, heads, m, keys, width, value_width=None, dtype=np.float64):
    shapes = [
        (batch, heads, m, width),
        (batch, heads, keys, width),
        (batch, heads, keys, value_width or width),
    ]
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
@pytest.mark.parametrize(
    ("m", "keys", "width"), [(1, 1, 1), (3, 31, 8), (33, 33, 16), (17, 257, 5), (64, 16, 32)]
)
def test_against_the_formula(body, rng, m, keys, width, schedule):
    q, k, v = tensors(rng, 2, 3, m, keys, width, width + 1)
    b = attention(body, q, k, v, 0.3)
    expected = reference(q, k, v, 0.3).transpose(0, 2, 1, 3)
    np.testing.assert_allclose(b.run(schedule)[0], expected, rtol=1e-11, atol=1e-13)
    assert b.program.template == "attention"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
@pytest.mark.parametrize(
    "dims", [("keys",), ("b", "keys"), ("m", "keys"), ("h", "m", "keys"), ("b", "h", "m", "keys")]
)
def test_biases_of_every_broadcast_shape(body, rng, dims, schedule):
    q, k, v = tensors(rng, 2, 3, 18, 37, 8)
    sizes = {"b": 2, "h": 3, "m": 18, "keys": 37}
    bias = rng.standard_normal([sizes[d] for d in dims])
    b = attention(body, q, k, v, 0.5, bias, dims)
    full = bias.reshape([sizes[d] if d in dims else 1 for d in ("b", "h", "m", "keys")])
    expected = reference(q, k, v, 0.5, full).transpose(0, 2, 1, 3)
    np.testing.assert_allclose(b.run(schedule)[0], expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_masked_rows(body, rng, schedule):
    """Row 0: every score -1e9 lower; row 1: the first keys -inf; row 2: all -inf (NaN); row 3: a NaN; row 4:
    +inf (NaN)."""
    q, k, v = tensors(rng, 1, 1, 6, 40, 4)
    bias = np.zeros((6, 40))
    bias[0] = -1e9
    bias[1, :33] = -np.inf
    bias[2] = -np.inf
    bias[3, 20] = np.nan
    bias[4, 5] = np.inf
    result = attention(body, q, k, v, 1.0, bias, ("m", "keys")).run(schedule)[0]
    expected = reference(q, k, v, 1.0, bias).transpose(0, 2, 1, 3)
    assert np.isnan(expected[0, 2:5]).all()
    assert np.isfinite(expected[0, [0, 1, 5]]).all()
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("keys", [0, 1, 100, 300])
@pytest.mark.parametrize("m", [1, 70])
def test_lengths_known_at_launch(body, rng, keys, m):
    q, k, v = tensors(rng, 2, 2, m, keys, 8, dtype=np.float32)
    sizes = {"m": dim("m"), "keys": dim("keys")}
    b = attention(body, q, k, v, 0.4, env={"m": m, "keys": keys}, sizes=sizes, dtype=float32)
    expected = reference(q, k, v, 0.4).transpose(0, 2, 1, 3)
    np.testing.assert_allclose(b.run()[0], expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("source", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_narrow_operands(body, rng, source, schedule):
    q, k, v = tensors(rng, 1, 2, 20, 50, 16, dtype=source)
    b = attention(body, q, k, v, 0.25, dtype=float32)
    expected = reference(q, k, v, 0.25).transpose(0, 2, 1, 3)
    np.testing.assert_allclose(b.run(schedule)[0], expected, rtol=2e-2, atol=2e-2)


def test_online_softmax_wants_a_softmax(body, rng):
    q, k, v = tensors(rng, 1, 1, 8, 40, 4)
    b = body(b=1, h=1, m=8, keys=40, n=4, k=4)
    scores = b.contract(b.load(q, ["b", "h", "m", "k"]), b.load(k, ["b", "h", "keys", "k"]), "k", float64)
    weights = b.op("div", scores, b.reduce("sum", scores, "keys"))
    b.store(b.contract(weights, b.load(v, ["b", "h", "keys", "n"]), "keys", float64), ["b", "h", "m", "n"])
    plain = np.swapaxes(k, -1, -2)
    expected = (q @ plain) / (q @ plain).sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(b.run()[0], expected, rtol=1e-9)
    with pytest.raises(UnsupportedError, match="not one softmax"):
        b.run(Schedule(((2, 8), (3, 16))))
