"""Blocks of keys that a mask excludes are left out, and change no bit of a result: beside a walk over all keys, and NumPy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.tile.templates import attention as template

INF = float("inf")
Mask = Callable[[Any, Any], Any]
MASKS: dict[str, Mask] = {
    "causal": lambda rows, keys: keys <= rows,
    "strictly causal": lambda rows, keys: keys < rows,  # nothing is left of the first row
    "turned": lambda rows, keys: rows >= keys,
    "from the end": lambda rows, keys: keys >= rows,
    "after": lambda rows, keys: keys > rows,
    "window": lambda rows, keys: (keys <= rows) & (keys > rows - 40),
    "narrow window": lambda rows, keys: (keys <= rows) & (keys >= rows),
    "nothing": lambda rows, keys: keys > rows + 10_000,
    "everything": lambda rows, keys: keys < rows + 10_000,
    "of moved rows": lambda rows, keys: keys <= rows + 300,
}


def _graph(
    shapes: Any, mask: Mask, added: bool, dtype: str = "float32", factor: float = 0.125, long: str = "int64"
) -> jn.Graph:
    """softmax(q kᵀ · factor, masked) v, with the mask added as -inf, or in place of scores."""
    graph = jn.Graph("g", [jn.TensorType(dtype, shape, name) for name, shape in zip("qkv", shapes, strict=True)])
    q, k, v = graph.inputs
    rows, keys = (jn.arange(graph, 0, each.shape[-2]).cast(long) for each in (q, k))
    condition = mask(rows.reshape((-1, 1)), keys.reshape((1, -1)))
    scores = q @ jn.transpose(k, -1, -2) * np.float64(factor).astype(dtype)
    nothing, excluded = graph.scalar(0.0, dtype), graph.scalar(-INF, dtype)
    logits = scores + jn.where(condition, nothing, excluded) if added else jn.where(condition, scores, excluded)
    graph.output(jn.softmax(logits, axis=-1) @ v)
    return graph


def _expected(q: Any, k: Any, v: Any, mask: Mask, added: bool, factor: float = 0.125) -> Any:
    q, k, v = (each.astype(np.float64) for each in (q, k, v))
    condition = mask(np.arange(q.shape[-2])[:, None], np.arange(k.shape[-2])[None])
    with np.errstate(all="ignore"):
        scores = q @ np.swapaxes(k, -1, -2) * factor
        logits = scores + np.where(condition, 0, -INF) if added else np.where(condition, scores, -INF)
        powers = np.exp(logits - logits.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True) @ v


def _models(graph: jn.Graph, threads: int = 1) -> tuple[Any, Any]:
    """A graph compiled to walk all keys, and to leave out the excluded ones."""
    found = jn.compile(graph, "cpu", cache=False, threads=threads)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(template, "key_mask", lambda *_: None)
        return jn.compile(graph, "cpu", cache=False, threads=threads), found


@functools.lru_cache(maxsize=6)
def _of_300(mask: str, added: bool) -> tuple[Any, Any]:
    return _models(_graph([(2, 300, 16)] * 3, MASKS[mask], added))


def _both(graph: jn.Graph, *arrays: Any, threads: int = 1) -> tuple[Any, Any]:
    """What a graph computes with all keys, and without the excluded ones."""
    whole, found = _models(graph, threads)
    return whole(*arrays), found(*arrays)


def _arrays(rng: Any, rows: int, keys: int, width: int = 16, dtype: str = "float32") -> list[Any]:
    shapes = (2, rows, width), (2, keys, width), (2, keys, width)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


@pytest.mark.slow
@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("mask", MASKS)
def test_masks(mask: str, added: bool) -> None:
    for rows, keys, symbolic in ((300, 300, False), (1000, 130, True)) if added else ((300, 300, True), (70, 1000, False)):
        arrays = _arrays(np.random.default_rng(rows), rows, keys)
        names = ("m", "n", "n")
        shapes = [(2, name if symbolic else each.shape[1], 16) for name, each in zip(names, arrays, strict=True)]
        whole, found = _both(_graph(shapes, MASKS[mask], added), *arrays, threads=1 + symbolic)
        np.testing.assert_array_equal(found, whole)
        np.testing.assert_allclose(found, _expected(*arrays, MASKS[mask], added), 1e-4, 1e-5)


@pytest.mark.one_in(24)
@pytest.mark.parametrize("operand", [0, 1, 2])
@pytest.mark.parametrize("number", [INF, -INF, np.nan, 1e30])
@pytest.mark.parametrize("added", [False, True])
def test_what_is_not_finite_counts_among_excluded_keys(
    operand: int, number: float, added: bool
) -> None:
    """0 · inf and inf - inf are NaN, in rows that exclude a key, too; huge scores overflow."""
    for place in (0, 150, 299):
        arrays = _arrays(np.random.default_rng(place), 300, 300)
        arrays[operand][0, place, 3] = number
        if number == 1e30:  # times this it is infinite
            arrays[1 - min(operand, 1)][0, :, 3] = 1e30
        for mask in ("causal", "from the end", "window"):
            whole, found = (model(*arrays) for model in _of_300(mask, added))
            np.testing.assert_array_equal(found, whole)
            if number != 1e30:
                expected = _expected(*arrays, MASKS[mask], added)
                np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float16", 2e-2)])
def test_other_floats(dtype: str, tolerance: float) -> None:
    arrays = _arrays(np.random.default_rng(3), 257, 257, dtype=dtype)
    graph = _graph([each.shape for each in arrays], MASKS["causal"], True, dtype)
    whole, found = _both(graph, *arrays)
    np.testing.assert_array_equal(found, whole)
    np.testing.assert_allclose(found.astype(np.float64), _expected(*arrays, MASKS["causal"], True), tolerance, tolerance)


def test_scores_that_overflow_in_float16_alone() -> None:
    """Where -inf is added to inf: a key that is excluded makes its row NaN."""
    arrays = [np.clip(array, -2, 2) for array in _arrays(np.random.default_rng(4), 257, 257, dtype="float16")]
    arrays[0][:, 3], arrays[1][:, 250] = 100, 100  # 160,000 is more than a float16 has
    whole, found = _both(_graph([each.shape for each in arrays], MASKS["causal"], True, "float16"), *arrays)
    assert np.isnan(whole[:, 3]).all()
    np.testing.assert_array_equal(found, whole)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("factor", [0.0, 1e6, -2.0])
def test_factors_of_scores(factor: float) -> None:
    arrays = _arrays(np.random.default_rng(5), 200, 200)
    graph = _graph([each.shape for each in arrays], MASKS["causal"], True, factor=factor)
    whole, found = _both(graph, *arrays)
    np.testing.assert_array_equal(found, whole)


def test_positions_of_int32() -> None:
    arrays = _arrays(np.random.default_rng(6), 200, 200)
    whole, found = _both(_graph([each.shape for each in arrays], MASKS["window"], True, long="int32"), *arrays)
    np.testing.assert_array_equal(found, whole)


def _loops(model: Any) -> int:
    return max(str(kernel.ttir).count("scf.for") for kernel in model.kernels)


@pytest.mark.slow
def test_which_attentions_leave_keys_out() -> None:
    shapes = [(2, 512, 32)] * 3
    for name, mask in MASKS.items():
        assert _loops(jn.compile(_graph(shapes, mask, True), "cpu", cache=False)) > 1, name
    ordered = jn.compile(_graph(shapes, MASKS["causal"], True), "cpu", cache=False, numerics="reproducible")
    assert _loops(ordered) == 1  # the bits of GPUs, which walk all keys
    for other in (lambda rows, keys: keys != rows, lambda rows, keys: (keys <= rows) | (keys < 5)):
        assert _loops(jn.compile(_graph(shapes, other, True), "cpu", cache=False)) == 1


@pytest.mark.one_in(3)
@pytest.mark.parametrize("extent", [512, 500, "n"])
def test_positions_are_not_loaded(extent: int | str) -> None:
    """What is beyond the last key of a partial block would count as key 0, and no block were excluded."""
    graph = jn.Graph("g", [jn.TensorType("float32", (1, 2, extent, 32), name) for name in "qkv"])
    graph.output(jn.attention(*graph.inputs, is_causal=True))
    model = jn.compile(graph, "cpu", cache=False)
    assert _loops(model) > 1
    assert not any("!tt.ptr<i64>" in str(kernel.ttir) for kernel in model.kernels)


def test_lanes_beyond_the_last_key_exclude_nothing() -> None:
    """Positions that are loaded, as of packed sequences: 257 keys are three blocks, the last one of a single key."""
    rng = np.random.default_rng(0)
    graph = jn.Graph("g", [jn.TensorType("float32", (1, 257, 16), name) for name in "qkv"])
    q, k, v = graph.inputs
    order = graph.constant(np.sort(rng.integers(0, 1000, 257)))
    seen = order.reshape((1, -1)) <= order.reshape((-1, 1))
    logits = q @ jn.transpose(k, -1, -2) + jn.where(seen, graph.scalar(0.0, "float32"), graph.scalar(-INF, "float32"))
    graph.output(jn.softmax(logits, axis=-1) @ v)
    arrays = [rng.standard_normal((1, 257, 16)).astype(np.float32) for _ in range(3)]
    whole, found = _both(graph, *arrays)
    np.testing.assert_array_equal(found, whole)
