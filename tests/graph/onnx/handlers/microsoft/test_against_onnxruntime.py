"""Operators of com.microsoft against the results that onnxruntime gave (tests/conformance/onnxruntime records them)."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from .....conformance.onnxruntime.cases import RECORD, cases
from .....support.onnx_models import model, node

CASES = cases()


@pytest.fixture(scope="module")
def record() -> Any:
    with np.load(RECORD, allow_pickle=False) as found:
        return dict(found)


@pytest.mark.parametrize("name", CASES)
def test_what_onnxruntime_computes(name: str, record: Any) -> None:
    case = CASES[name]
    names = " ".join(key if array is not None else "_" for key, array in case.inputs.items())
    arrays = {key: record[f"{name}/{key}"] for key, array in case.inputs.items() if array is not None}
    fixed = {"t": arrays["t"]} if case.op == "GroupQueryAttention" else {}
    made = model(
        [node(case.op, names, case.outputs, domain="com.microsoft", **case.attributes)],
        {key: (array.dtype, array.shape) for key, array in arrays.items()}, case.outputs, domains={"com.microsoft": 1},
    )  # fmt: skip
    graph = jn.from_onnx(made, constants=fixed)
    assert graph.casts() == ()
    found = jn.evaluate(graph, *[array for key, array in arrays.items() if key not in fixed])
    ragged = "rows of their own length" in name  # what a cache holds behind the last position of a row is open
    for output, one in zip(case.outputs.split(), found if isinstance(found, tuple) else (found,), strict=True):
        expected = record[f"{name}/= {output}"]
        assert (one.dtype, one.shape) == (expected.dtype, expected.shape)
        if ragged and output != "y":
            continue
        if one.dtype == np.uint8:  # a tie may go to either neighbour, because scales are folded in another order
            assert np.abs(one.astype(int) - expected.astype(int)).max() <= 1
        else:
            np.testing.assert_allclose(one, expected, rtol=2e-4, atol=2e-5)


X = np.ones((2, 3, 8), np.float32)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "message"),
    [
        ("MultiHeadAttention", {"q": X}, {"num_heads": 2}, "packed queries"),
        ("MultiHeadAttention", {"q": X, "k": X, "v": X}, {"num_heads": 0}, "num_heads is 0"),
        ("Attention", {"x": X, "w": np.ones((8, 24), np.float32)}, {"num_heads": 2, "do_rotary": 1}, "do_rotary"),
        ("Attention", {"x": X, "w": np.ones((8, 24), np.float32)}, {"num_heads": 2, "qkv_hidden_sizes": [1, 2, 3]}, "of 24"),
        ("RotaryEmbedding", {"x": X, "p": np.zeros((2, 3), np.int64), "c": X[0], "s": X[0]}, {"scale": 2.0}, "scale of angles"),
        ("QLinearConcat", {"s": X[0, 0, :1], "z": np.zeros(1, np.uint8)}, {"axis": 0}, "2 inputs"),
        ("FusedGemm", {"a": X[0], "b": X[0].T}, {"activation": "Softmax"}, "the activation Softmax"),
        ("QLinearSoftmax", {"x": np.zeros(3, np.uint8), "s": X[0, 0, :1]}, {"opset": 11}, "opset below 13"),
    ],
)
def test_what_is_refused(op: str, inputs: dict[str, Any], attributes: dict[str, Any], message: str) -> None:
    made = model(
        [node(op, " ".join(inputs), domain="com.microsoft", **attributes)],
        {key: (array.dtype, array.shape) for key, array in inputs.items()}, domains={"com.microsoft": 1},
    )  # fmt: skip
    with pytest.raises(jn.JoineryError, match=message):
        jn.from_onnx(made)


def test_heads_of_symbolic_length_attend_compiled() -> None:
    made = model(
        [node("MultiHeadAttention", "q k v", domain="com.microsoft", num_heads=2)],
        {name: (np.float32, ("batch", length, 8)) for name, length in (("q", "n"), ("k", "m"), ("v", "m"))},
        domains={"com.microsoft": 1},
    )  # fmt: skip
    graph = jn.from_onnx(made)
    compiled = jn.compile(graph, device="cpu", cache=False)
    rng = np.random.default_rng(0)
    for batch, n, m in ((1, 1, 1), (2, 5, 7)):
        q, k, v = (rng.standard_normal((batch, length, 8)).astype(np.float32) for length in (n, m, m))
        np.testing.assert_allclose(compiled(q, k, v), jn.evaluate(graph, q, k, v), rtol=1e-4, atol=1e-5)
