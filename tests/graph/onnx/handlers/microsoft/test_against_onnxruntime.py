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


TOTALS = [name for name, case in CASES.items() if case.op == "GroupQueryAttention"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "is_fixed"), [*((name, True) for name in CASES), *((name, False) for name in TOTALS)])
def test_what_onnxruntime_computes(name: str, is_fixed: bool, record: Any) -> None:
    case = CASES[name]
    names = " ".join(key if array is not None else "_" for key, array in case.inputs.items())
    arrays = {key: record[f"{name}/{key}"] for key, array in case.inputs.items() if array is not None}
    fixed = {"t": arrays["t"]} if name in TOTALS and is_fixed else {}
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
LSTM = {"x": X, "w": np.ones((1, 8, 20), np.int8), "r": np.ones((1, 5, 20), np.int8), "_": None, "_ ": None, "_  ": None,
        "_   ": None, "_    ": None, "ws": np.ones(1, np.float32), "wz": np.ones(1, np.int8), "rs": np.ones(1, np.float32),
        "rz": np.ones(1, np.int8)}  # fmt: skip


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "message"),
    [
        ("MultiHeadAttention", {"q": X}, {"num_heads": 2}, r"size\), has shape \(2, 3, 8\); \(any, any, 2, 3, any\) is"),
        ("MultiHeadAttention", {"q": X, "k": X}, {"num_heads": 2}, r"input 1, .* has shape .*; \(any, any, 2, 2, any\) is"),
        ("MultiHeadAttention", {"q": X, "k": X[0], "v": X}, {"num_heads": 2}, "keys of 2 axes; "),
        ("DynamicQuantizeLSTM", {**LSTM, "w": np.ones((1, 8, 20), np.int16)}, {"hidden_size": 5}, "weights of int16; int8 or"),
        ("DynamicQuantizeLSTM", {**LSTM, "ws": np.ones(7, np.float32)}, {"hidden_size": 5}, r"zero point of shape \(7,\); one"),
        ("DynamicQuantizeLSTM", {**LSTM, "r": np.ones((1, 5, 12), np.int8)}, {"hidden_size": 5}, r"shape \(1, 5, 12\)"),
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
        {key: (array.dtype, array.shape) for key, array in inputs.items() if array is not None}, domains={"com.microsoft": 1},
    )  # fmt: skip
    with pytest.raises(jn.JoineryError, match=message):
        jn.from_onnx(made)


def test_packed_heads_are_those_of_three_tensors() -> None:
    rng = np.random.default_rng(4)
    q, k, v = (rng.standard_normal((2, 3, 8)).astype(np.float32) for _ in range(3))
    bias, mask = rng.standard_normal(24).astype(np.float32), np.array([2, 3], np.int32)

    def found(names: str, **arrays: Any) -> Any:
        made = model(
            [node("MultiHeadAttention", names, domain="com.microsoft", num_heads=2)],
            {name: (array.dtype, array.shape) for name, array in arrays.items()}, domains={"com.microsoft": 1},
        )  # fmt: skip
        return jn.evaluate(jn.from_onnx(made), *arrays.values())

    whole = found("q k v b m", q=q, k=k, v=v, b=bias, m=mask)
    split = [each.reshape(2, 3, 2, 4) for each in (q, k, v)]
    np.testing.assert_array_equal(found("p _ _ b m", p=np.stack(split, 3), b=bias, m=mask), whole)
    np.testing.assert_array_equal(found("q p _ b m", q=q, p=np.stack(split[1:], 3), b=bias, m=mask), whole)


def test_caches_of_any_length_need_one_model() -> None:
    made = model(
        [node("GroupQueryAttention", "q k v pk pv n t", "y keys values", domain="com.microsoft", num_heads=4, kv_num_heads=2),
         node("Shape", "mask", "sizes"), node("Gather", "sizes one", "t64", axis=0), node("Cast", "t64", "t", to=6)],
        {"q": (np.float32, ("b", "s", 64)), "k": (np.float32, ("b", "s", 32)), "v": (np.float32, ("b", "s", 32)),
         "pk": (np.float32, ("b", 2, "past", 16)), "pv": (np.float32, ("b", 2, "past", 16)), "n": (np.int32, ("b",)),
         "mask": (np.int64, ("b", "total"))},
        "y keys values", constants={"one": np.array(1)}, domains={"com.microsoft": 1},
    )  # fmt: skip
    graph = jn.from_onnx(made)
    compiled = jn.compile(graph, device="cpu", cache=False)
    with np.load(RECORD, allow_pickle=False) as record:
        for name in ("groups, a prompt", "groups, a cache made once is full"):
            given = [record[f"{name}/{key}"] for key in ("q", "k", "v", "pk", "pv", "n")]
            if name == "groups, a prompt":
                given[3:5] = [np.zeros((2, 2, 0, 16), np.float32)] * 2
            mask = np.ones((2, int(record[f"{name}/t"])), np.int64)
            for found in (compiled(*given, mask), jn.evaluate(graph, *given, mask)):
                for output, one in zip(("y", "keys", "values"), found, strict=True):
                    np.testing.assert_allclose(one, record[f"{name}/= {output}"], rtol=2e-4, atol=2e-5)


TYPES = {"q": (np.float32, ("b", "s", 64)), "k": (np.float32, ("b", "s", 32)), "v": (np.float32, ("b", "s", 32)),
         "pk": (np.float32, ("b", 2, "past", 16)), "pv": (np.float32, ("b", 2, "past", 16)), "n": (np.int32, ("b",)),
         "t": (np.int32, ())}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("is_made_once", [False, True])
def test_one_model_generates_all_tokens(is_made_once: bool) -> None:
    """How many positions there are is an input. Two layers read it: a cache grows, or is made once, as long as it ever gets."""
    ort = pytest.importorskip("onnxruntime")
    attributes: dict[str, Any] = {"domain": "com.microsoft", "num_heads": 4, "kv_num_heads": 2}
    made = model(
        [node("GroupQueryAttention", "q k v pk pv n t", "a keys values", **attributes),
         node("GroupQueryAttention", "a k v pk pv n t", "y keys2 values2", **attributes)],
        TYPES, "y keys values", domains={"com.microsoft": 1}, opset=20,
    )  # fmt: skip
    for output in made.graph.output:
        output.type.tensor_type.elem_type = 1
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    compiled: Any = jn.compile_onnx(made, device="cpu", threads=1, cache=False)
    assert not hasattr(compiled, "models")
    assert compiled.inputs[-1].name == "t"
    rng = np.random.default_rng(2)
    caches = [np.zeros((1, 2, 12 if is_made_once else 0, 16), np.float32)] * 2
    for total, new in ((3, 3), (4, 1), (5, 1), (8, 3), (9, 1)):
        given = [rng.standard_normal((1, new, width)).astype(np.float32) for width in (64, 32, 32)]
        given += [*caches, np.array([total - 1], np.int32), np.array(total, np.int32)]
        expected = session.run(None, dict(zip(TYPES, given, strict=True)))
        found = compiled(*given)
        np.testing.assert_allclose(found[0], expected[0], rtol=2e-4, atol=2e-5)
        for one, other in zip(found[1:], expected[1:], strict=True):
            assert one.shape == other.shape == (1, 2, 12 if is_made_once else total, 16)
            np.testing.assert_array_equal(one[:, :, :total], other[:, :, :total])
        caches = [*found[1:]]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("total", [0, 2, 7, -1])
def test_totals_that_no_cache_holds_end_the_run(total: int) -> None:
    made = model([node("GroupQueryAttention", "q k v pk pv n t", "y keys values", domain="com.microsoft", num_heads=4,
                       kv_num_heads=2)], TYPES, "y keys values", domains={"com.microsoft": 1})  # fmt: skip
    given = [np.ones((1, size, width), np.float32) for size, width in ((3, 64), (3, 32), (3, 32))]
    given += [np.ones((1, 2, 3, 16), np.float32)] * 2 + [np.array([5], np.int32), np.array(total, np.int32)]
    graph = jn.from_onnx(made)
    for run in (lambda: jn.evaluate(graph, *given), lambda: jn.compile(graph, device="cpu")(*given)):
        with pytest.raises(jn.UserError, match=r"total_sequence_length .* counts the s new positions"):
            run()


@pytest.mark.slow
def test_devices_without_a_host_get_a_model_for_each_total() -> None:
    made = model([node("GroupQueryAttention", "q k v pk pv n t", "y keys values", domain="com.microsoft", num_heads=4,
                       kv_num_heads=2)], TYPES, "y keys values", domains={"com.microsoft": 1})  # fmt: skip
    given = [np.ones((1, 1, width), np.float32) for width in (64, 32, 32)]
    given += [np.ones((1, 2, 3, 16), np.float32)] * 2 + [np.array([3], np.int32), np.array(4, np.int32)]
    compiled: Any = jn.compile_onnx(made, device="ptxsim", cache=False)
    found, graph = compiled(*given), jn.from_onnx(made)
    assert compiled.constants == ("t",)
    for one, other in zip(found, jn.evaluate(graph, *given), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


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
