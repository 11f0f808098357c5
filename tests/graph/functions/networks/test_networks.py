"""Recurrent networks, losses, rotated positions and windows of signals: against PyTorch, ONNX and NumPy."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from ....support.functions import agrees, built, recorded
from ....support.onnx_models import ReferenceEvaluator, model, node

F = np.float32
ORDER = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn": (0,)}
"""Where each gate of ONNX stands among those of PyTorch."""


def weights(kind: str, given: dict[str, Any], both: bool) -> tuple[Any, Any, Any]:
    """PyTorch's parameters as w, r and b."""
    size, order = 4, ORDER[kind]
    found = []
    for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
        rows = [given[name + suffix] for suffix in (("", "_reverse") if both else ("",))]
        found.append(np.stack([np.concatenate([row[g * size : (g + 1) * size] for g in order]) for row in rows]))
    return found[0], found[1], np.concatenate(found[2:], 1)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_networks(kind: str, both: bool) -> None:
    given, (steps, *lasts) = recorded(f"{kind} {both}")
    w, r, b = weights(kind, given, both)
    arrays = [given["x"], given["s0"], *([given["s1"]] if kind == "lstm" else [])]
    options: dict[str, Any] = {"direction": "bidirectional" if both else "forward"}
    if kind == "gru":
        options["linear_before_reset"] = True

    def build(x: Any, h: Any, *c: Any) -> Any:
        if kind == "lstm":
            return jn.lstm(x, w, r, b, None, h, *c, **options)
        return getattr(jn, kind)(x, w, r, b, None, h, **options)

    count = 2 if both else 1
    apart = steps.reshape(6, 2, count, 4).transpose(0, 2, 1, 3)
    agrees(built(build, arrays), arrays, [apart, *lasts], devices=())
    devices = ["cpu"] if both and kind != "rnn" else []
    agrees(built(build, arrays, [(2,), (0, 2), (0, 2)]), arrays, [apart, *lasts], devices=devices)


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_networks_as_onnx_has_them(op: str) -> None:
    """Batches first, rows of different lengths, peepholes, other activations, clipped, and 16 bits."""
    rng = np.random.default_rng(5)
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    shapes = ((3, 2, 2), (1, 4 * gates, 2), (1, 4 * gates, 4), (1, 8 * gates))
    x, w, r, b = (rng.normal(size=shape).astype(F) for shape in shapes)
    names = {"LSTM": ["Tanh", "Sigmoid", "Relu"], "GRU": ["HardSigmoid", "Tanh"], "RNN": ["Relu"]}[op]
    peeps = rng.normal(size=(1, 12)).astype(F)
    inputs = "x w r b _ _ _ p" if op == "LSTM" else "x w r b"
    outputs = "y h c" if op == "LSTM" else "y h"
    arrays = {"x": x, "w": w, "r": r, "b": b, **({"p": peeps} if op == "LSTM" else {})}
    runtime = pytest.importorskip("onnxruntime")
    made = model([node(op, inputs, outputs, hidden_size=4, clip=0.5, activations=names)],
                 {name: (F, each.shape) for name, each in arrays.items()}, outputs, opset=17)  # fmt: skip
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, arrays)

    def build(v: Any) -> Any:
        options = {"activations": names, "clip": 0.5, "batch_first": True}
        return jn.lstm(v, w, r, b, p=peeps, **options) if op == "LSTM" else getattr(jn, op.lower())(v, w, r, b, **options)

    first = np.ascontiguousarray(x.transpose(1, 0, 2))
    wanted = [np.moveaxis(expected[0], 2, 0), *[np.moveaxis(each, 1, 0) for each in expected[1:]]]
    agrees(built(build, [first], [(2,)]), [first], wanted, devices=())
    half = jn.Graph("g", [jn.TensorType(jn.float16, first.shape)])
    half.output(*build(half.inputs[0].cast(jn.float16)))
    assert {each.dtype.name for each in half.outputs} == {"float32"}  # the join with float32 weights


def test_rows_of_different_lengths() -> None:
    """Each row alone, cut, gives what it gives among longer ones; behind its end the output is 0."""
    rng = np.random.default_rng(6)
    x, w, r = (rng.normal(size=shape).astype(F) for shape in ((7, 3, 2), (2, 16, 2), (2, 16, 4)))
    lengths = np.array([7, 2, 0], np.int32)
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("t", "n", 2)), jn.TensorType(jn.int32, ("n",))])
    graph.output(*jn.lstm(graph.inputs[0], w, r, sequence_lens=graph.inputs[1], direction="bidirectional"))
    alone = jn.Graph("g", [jn.TensorType(jn.float32, ("t", "n", 2))])
    alone.output(*jn.lstm(alone.inputs[0], w, r, direction="bidirectional"))
    steps, h, c = np.zeros((7, 2, 3, 4), F), np.zeros((2, 3, 4), F), np.zeros((2, 3, 4), F)
    for row, length in enumerate(lengths):
        if length:
            cut = jn.evaluate(alone, np.ascontiguousarray(x[:length, row : row + 1]))
            steps[:length, :, row], h[:, row], c[:, row] = cut[0][:, :, 0], cut[1][:, 0], cut[2][:, 0]
    agrees(graph, [x, lengths], [steps, h, c])


def test_losses() -> None:
    given = recorded("cross_entropy none")[0]
    arrays = [given["x"], given["target"], recorded("nll_loss none")[0]["x"]]
    expected = []
    for reduction in ("none", "sum", "mean"):
        expected += [recorded(f"{name} {reduction}")[1][0] for name in ("cross_entropy", "nll_loss")]

    def build(x: Any, target: Any, y: Any) -> Any:
        found = []
        for reduction in ("none", "sum", "mean"):
            found.append(jn.cross_entropy(x, target, given["weight"], -100, reduction))
            found.append(jn.nll_loss(y, target, None, -100, reduction))
        return found

    agrees(built(build, arrays), arrays, expected, devices=())
    agrees(built(build, arrays, [(1, 2), (1,), (1, 2)]), arrays, expected)


def test_losses_of_few_bits_and_of_integers() -> None:
    scores = np.array([[3, 0, 1], [0, 0, 9]])
    plain = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    for dtype, tolerance in (("int32", 1e-6), ("float16", 1e-3), ("bfloat16", 1e-2), ("float64", 1e-12)):
        graph = jn.Graph("g", [jn.TensorType(dtype, (2, 3)), jn.TensorType(jn.uint8, (2,))])
        x, target = graph.inputs
        loss = jn.cross_entropy(x, target)
        assert loss.dtype.name == ("float32" if dtype == "int32" else dtype)
        graph.output(loss, jn.cross_entropy(x.T, target, axis=0, reduction="none"), jn.nll_loss(x, target, reduction="sum"))
        value = scores.astype(x.dtype.numpy)
        mean, each, total = (found.astype(np.float64) for found in jn.evaluate(graph, value, np.array([0, 2], np.uint8)))
        want = -plain[[0, 1], [0, 2]]
        np.testing.assert_allclose(mean, want.mean(), rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(each, want, rtol=tolerance, atol=tolerance)
        assert total == -12


@pytest.mark.one_in(2)
@pytest.mark.parametrize("interleaved", [False, True])
def test_rotated_positions(interleaved: bool) -> None:
    """With NumPy's complex numbers as the witness: a pair is one, and the rotation a product."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(2, 3, 5, 10)).astype(F)
    angles = np.arange(20)[:, None] / 10.0 ** np.arange(4)
    where = np.array([[0, 1, 2, 3, 4], [9, 3, 3, 19, 0]])
    pairs = x[..., :8].astype(np.float64)
    pairs = pairs[..., ::2] + 1j * pairs[..., 1::2] if interleaved else pairs[..., :4] + 1j * pairs[..., 4:]
    turned = pairs * np.exp(1j * angles[where])[:, None]
    parts = [turned.real, turned.imag]
    rotated = np.stack(parts, -1).reshape(2, 3, 5, 8) if interleaved else np.concatenate(parts, -1)
    expected = np.concatenate([rotated, x[..., 8:]], -1).astype(F)
    cos, sin = np.cos(angles).astype(F), np.sin(angles).astype(F)

    def build(v: Any, at: Any) -> Any:
        return (
            jn.rotary_embedding(v, cos, sin, at, interleaved),
            jn.rotary_embedding(v, cos[where], sin[where], None, interleaved),
            jn.rotary_embedding(v[:1], cos[:5], sin[:5], None, interleaved),
        )  # fmt: skip

    agrees(built(build, [x, where]), [x, where], [expected, expected, expected[:1]])

    def by_positions(v: Any, at: Any) -> Any:
        return jn.rotary_embedding(v, cos, sin, at, interleaved)

    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n", 3, "t", 10)), jn.TensorType(jn.int64, ("n", "t"))])
    graph.output(by_positions(*graph.inputs))
    agrees(graph, [x, where], [expected])
    half = jn.Graph("g", [jn.TensorType(jn.float16, x.shape)])
    half.output(jn.rotary_embedding(half.inputs[0], cos.astype(np.float16), sin.astype(np.float16), where, interleaved))
    np.testing.assert_allclose(jn.evaluate(half, x.astype(np.float16)), expected, rtol=5e-3, atol=5e-3)


def test_windows_of_signals() -> None:
    numpy = {"hann": np.hanning, "hamming": np.hamming, "blackman": np.blackman}
    for name, witness in numpy.items():
        window = getattr(jn, f"{name}_window")
        graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n",))])
        graph.output(*[window(graph, "n", periodic, dtype=jn.float64) for periodic in (True, False)], window(graph, 9, False),
                     window(graph.inputs[0], 0))  # fmt: skip
        run = jn.compile(graph, device="cpu", cache=False)
        for size in (2, 9, 16):
            for found in (jn.evaluate(graph, np.zeros(size, F)), run(np.zeros(size, F))):
                for one, periodic in zip(found, (True, False), strict=False):
                    np.testing.assert_allclose(one, recorded(f"{name}_window {size} {periodic}")[1][0], rtol=0, atol=1e-15)
                np.testing.assert_allclose(found[2], witness(9), rtol=0, atol=1e-7)
                assert (found[2].dtype, found[3].shape) == (np.float32, (0,))
        np.testing.assert_allclose(run(np.zeros(1, F))[1], witness(1))
    made = model([node("HammingWindow", "n")], {}, constants={"n": np.int64(11)}, opset=17)
    graph = jn.Graph("g", [])
    graph.output(jn.hamming_window(graph, 11, alpha=25 / 46))
    np.testing.assert_allclose(jn.evaluate(graph), ReferenceEvaluator(made).run(None, {})[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [1, 4, 5])
def test_neighbouring_channels(size: int) -> None:
    given, (expected,) = recorded(f"lrn {size}")
    x = given["x"]
    if size == 4:  # PyTorch has one more channel before, ONNX after
        x, expected = x[:, ::-1].copy(), expected[:, ::-1]
    agrees(built(lambda v: jn.lrn(v, size, 0.3, 0.6, 1.5), [x], [()]), [x], [expected])


def test_norms() -> None:
    given = recorded("lp_norm 1")[0]["x"]
    expected = [recorded(f"lp_norm {order}")[1][0] for order in (1, 2)]
    zeros = np.zeros_like(given)
    graph = built(lambda v: (jn.lp_norm(v, 1, 1), jn.lp_norm(v, 2, axis=1)), [given], [()])
    agrees(graph, [given], expected)
    agrees(graph, [zeros], [zeros, zeros], devices=())


@pytest.mark.slow
def test_on_a_simulated_gpu() -> None:
    rng = np.random.default_rng(0)
    x, w, r = (rng.normal(size=shape).astype(F) for shape in ((3, 2, 4), (1, 16, 4), (1, 16, 4)))
    target = np.array([[1, 0], [3, 3], [2, 1]])

    def build(v: Any, t: Any) -> Any:
        cos = np.ones((2, 2), F) / 2
        return [*jn.lstm(v, w, r), jn.cross_entropy(v, t, axis=-1), jn.rotary_embedding(v[None], cos, cos),
                jn.hann_window(v, 4) * v]  # fmt: skip

    graph = built(build, [x, target])
    agrees(graph, [x, target], jn.evaluate(graph, x, target), devices=["ptxsim"], rtol=1e-4, atol=1e-5)


G = jn.Graph("g", [jn.TensorType(jn.float32, (3, 2, 4), "x"), jn.TensorType(jn.int64, (3, 2), "which")])
X, WHICH = G.inputs


def ones(*shape: int, dtype: Any = F) -> Any:
    return np.ones(shape, dtype)


REFUSED = {
    "lstm: w has shape": lambda: jn.lstm(X, ones(1, 12, 4), ones(1, 16, 4)),
    "lstm: x .*, w": lambda: jn.lstm(X[0], ones(1, 16, 4), ones(1, 16, 4)),
    "lstm: initial_c has shape": lambda: jn.lstm(X, ones(1, 16, 4), ones(1, 16, 4), initial_c=ones(2, 2, 4)),
    "lstm: p has shape": lambda: jn.lstm(X, ones(1, 16, 4), ones(1, 16, 4), p=ones(1, 4)),
    "gru: direction is 'both'": lambda: jn.gru(X, ones(1, 12, 4), ones(1, 12, 4), direction="both"),
    "gru: sequence_lens float32": lambda: jn.gru(X, ones(1, 12, 4), ones(1, 12, 4), sequence_lens=ones(2)),
    "rnn: 2 activations": lambda: jn.rnn(X, ones(1, 4, 4), ones(1, 4, 4), activations=["Tanh", "Relu"]),
    "rnn: activation 'Swish'": lambda: jn.rnn(X, ones(1, 4, 4), ones(1, 4, 4), activations=["Swish"]),
    "rnn: clip is -1": lambda: jn.rnn(X, ones(1, 4, 4), ones(1, 4, 4), clip=-1),
    "cross_entropy: targets": lambda: jn.cross_entropy(X, WHICH),
    "cross_entropy: weights": lambda: jn.cross_entropy(X, WHICH, ones(3), axis=2),
    "nll_loss: targets float32": lambda: jn.nll_loss(X, X[:, :, 0], axis=2),
    "nll_loss: reduction is 'max'": lambda: jn.nll_loss(X, WHICH, axis=-1, reduction="max"),
    "nll_loss: ignore_index is 1.5": lambda: jn.nll_loss(X, WHICH, axis=-1, ignore_index=1.5),
    "rotary_embedding: x": lambda: jn.rotary_embedding(X, ones(2, 2), ones(2, 2)),
    "rotary_embedding: 5 rows": lambda: jn.rotary_embedding(X[None], ones(5, 2), ones(5, 2)),
    "rotary_embedding: positions float32": lambda: jn.rotary_embedding(X[None], ones(5, 2), ones(5, 2), ones(2)),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message: str) -> None:
    with pytest.raises(jn.UserError, match=f"^{message}") as caught:
        REFUSED[message]()
    text = str(caught.value)
    assert "operand 0: " in text
    assert "test_networks.py:" in text
    assert "fix: " in text


def test_refused_windows() -> None:
    for call in (lambda: jn.hann_window(3, 4), lambda: jn.hann_window(G, 4, dtype=jn.int32),
                 lambda: jn.hamming_window(G, 4, alpha=np.inf), lambda: jn.blackman_window(G, -1)):  # fmt: skip
        with pytest.raises(jn.UserError, match=r"^(hann|hamming|blackman)_window: .*fix: "):
            call()
