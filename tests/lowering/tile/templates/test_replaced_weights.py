"""Attention whose weights are 0 where a softmax is NaN, as exporters of PyTorch write it: one kernel, and NumPy's numbers."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

INF = float("inf")


def _graph(shapes: Any, dtype: str = "float32", number: float = 0.0, causal: bool = False) -> jn.Graph:
    graph = jn.Graph("g", [jn.TensorType(dtype, shape, name) for name, shape in zip("qkvb", shapes, strict=True)])
    q, k, v, bias = graph.inputs
    logits = q @ jn.transpose(k, -1, -2) * np.float64(0.25).astype(dtype) + bias
    if causal:
        rows, keys = (jn.arange(graph, 0, each.shape[-2]) for each in (q, k))
        logits = jn.where(keys.reshape((1, -1)) < rows.reshape((-1, 1)), logits, graph.scalar(-INF, dtype))
    weights = jn.softmax(logits, axis=-1)
    graph.output(jn.where(jn.is_nan(weights), graph.constant(np.array(number, dtype)), weights) @ v)
    return graph


def _expected(q: Any, k: Any, v: Any, bias: Any, number: float = 0.0, causal: bool = False) -> Any:
    q, k, v, bias = (each.astype(np.float64) for each in (q, k, v, bias))
    with np.errstate(all="ignore"):
        logits = q @ np.swapaxes(k, -1, -2) * 0.25 + bias
        if causal:
            logits = np.where(np.arange(k.shape[-2])[None] < np.arange(q.shape[-2])[:, None], logits, -INF)
        powers = np.exp(logits - logits.max(-1, keepdims=True))
        weights = powers / powers.sum(-1, keepdims=True)
        return np.where(np.isnan(weights), number, weights) @ v


def _arrays(rows: int, keys: int, dtype: str = "float32") -> list[Any]:
    rng = np.random.default_rng(keys)
    shapes = (2, rows, 16), (2, keys, 16), (2, keys, 16), (rows, keys)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def _attentions(model: Any) -> int:
    return sum("attention" in kernel.name for kernel in model.kernels)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("rows", "keys"), [(40, 40), (200, 200), (33, 500), (300, 129)])
def test_rows_without_weights_are_zero(rows: int, keys: int, causal: bool) -> None:
    arrays = _arrays(rows, keys)
    arrays[3][3] = -INF
    arrays[3][rows - 1] = -INF
    arrays[3][7, 1:] = -INF
    for sizes in ((rows, keys), ("m", "n")):
        m, n = sizes
        model = jn.compile(_graph([(2, m, 16), (2, n, 16), (2, n, 16), (m, n)], causal=causal), "cpu", cache=False)
        assert _attentions(model) == 1
        found = model(*arrays)
        assert not found[:, 3].any()
        np.testing.assert_allclose(found, _expected(*arrays, causal=causal), 1e-4, 1e-5)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("number", [np.nan, INF, -INF])
@pytest.mark.parametrize("operand", [0, 1, 2, 3])
def test_what_is_not_finite(operand: int, number: float) -> None:
    """A score that is NaN makes all weights of its row 0; 0 times a value that is not finite is NaN."""
    model = jn.compile(_graph([(2, 200, 16), (2, 300, 16), (2, 300, 16), (200, 300)]), "cpu", cache=False)
    for place in (0, 150, 199):
        arrays = _arrays(200, 300)
        arrays[operand][..., place, 3] = number
        arrays[3][5] = -INF
        found, expected = model(*arrays), _expected(*arrays)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        np.testing.assert_allclose(found, expected, 1e-4, 1e-5)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float16", 2e-2)])
def test_other_floats(dtype: str, tolerance: float) -> None:
    arrays = _arrays(200, 300, dtype)
    arrays[3][5] = -INF
    model = jn.compile(_graph([each.shape for each in arrays], dtype), "cpu", cache=False)
    np.testing.assert_allclose(model(*arrays).astype(np.float64), _expected(*arrays), tolerance, tolerance)


def test_another_number_in_place_of_nan_is_no_attention() -> None:
    arrays = _arrays(40, 60)
    arrays[3][5] = -INF
    model = jn.compile(_graph([each.shape for each in arrays], number=0.5), "cpu", cache=False)
    assert _attentions(model) == 0
    np.testing.assert_allclose(model(*arrays), _expected(*arrays, number=0.5), 1e-4, 1e-4)


@pytest.mark.slow
def test_on_a_simulated_gpu() -> None:
    arrays = [array[:, :, :] if array.ndim == 3 else array for array in _arrays(17, 300)]
    arrays[3][5] = -INF
    found = jn.compile(_graph([each.shape for each in arrays]), "ptxsim", target="sm_80", cache=False)(*arrays)
    np.testing.assert_allclose(found, _expected(*arrays), 1e-4, 1e-5)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("rows", "keys"), [(3, 0), (0, 4), (3, 5)])
def test_attention_of_no_keys_is_zero(rows: int, keys: int, dtype: str) -> None:
    """With a mask, too, whose row has no largest number then."""
    shapes = (1, rows, 8), (1, keys, 8), (1, keys, 8), (rows, keys)
    arrays = [np.ones(shape, dtype) for shape in shapes]
    for m, n in ((rows, keys), ("m", "n")):
        names = (1, m, 8), (1, n, 8), (1, n, 8), (m, n)
        graph = jn.Graph("g", [jn.TensorType(dtype, shape, name) for name, shape in zip("qkvb", names, strict=True)])
        graph.output(jn.attention(*graph.inputs))
        np.testing.assert_array_equal(jn.compile(graph, "cpu", cache=False)(*arrays), np.full((1, rows, 8), keys > 0, dtype))


def test_nan_in_a_mask_is_nan_for_known_and_unknown_sizes() -> None:
    """Only a row that is -inf everywhere has no keys."""
    arrays = _arrays(6, 9)
    arrays[3][1, 2], arrays[3][2] = np.nan, -INF
    for m, n in ((6, 9), ("m", "n")):
        shapes = (2, m, 16), (2, n, 16), (2, n, 16), (m, n)
        graph = jn.Graph("g", [jn.TensorType("float32", shape, name) for name, shape in zip("qkvb", shapes, strict=True)])
        graph.output(jn.attention(*graph.inputs))
        found = jn.compile(graph, "cpu", cache=False)(*arrays)
        assert np.isnan(found[:, 1]).all()
        assert not found[:, 2].any()
        assert np.isfinite(np.delete(found, 1, axis=1)).all()
