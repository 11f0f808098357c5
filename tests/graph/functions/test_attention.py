"""Attention against its formula in float64: masks, causal ones, shared heads, dtypes, and rows that see nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest

RNG = np.random.default_rng(21)


def formula(q: Any, k: Any, v: Any, mask: Any = None, causal: bool = False, scale: float | None = None, cap: float = 0) -> Any:
    q, k, v = (each.astype(np.float64) for each in (q, k, v))
    if k.ndim > 2 and k.shape[-3] != q.shape[-3]:
        k, v = (np.repeat(each, q.shape[-3] // each.shape[-3], -3) for each in (k, v))
    scores = q @ np.swapaxes(k, -1, -2) * (scale or 1 / np.sqrt(q.shape[-1]))
    scores = cap * np.tanh(scores / cap) if cap else scores
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        found = (weights / weights.sum(-1, keepdims=True)) @ v
    return np.where(np.isneginf(scores).all(-1, keepdims=True), 0, found)


def operands(dtype: Any = np.float32, heads: int = 4, shared: int = 4, rows: int = 5, keys: int = 7, batch: Any = (2,)) -> Any:
    shapes = (*batch, heads, rows, 8), (*batch, shared, keys, 8), (*batch, shared, keys, 6)
    return [RNG.normal(size=shape).astype(dtype) for shape in shapes]


def check(arrays: Any, want: Any, rtol: float = 2e-5, devices: Any = ("cpu",), names: bool = False, **options: Any) -> None:
    graph = jn.Graph("g")
    for x, rows in zip(arrays, ("rows", "keys", "keys"), strict=False):
        graph.input(jn.DType.from_numpy(x.dtype), (*x.shape[:-2], rows if names else x.shape[-2], x.shape[-1]))
    graph.output(jn.attention(*graph.inputs, **options))
    for found in (jn.evaluate(graph, *arrays), *[jn.compile(graph, device=each, cache=False)(*arrays) for each in devices]):
        assert found.dtype == arrays[0].dtype
        np.testing.assert_allclose(found, want, rtol=rtol, atol=rtol)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("shared", [4, 2, 1])
def test_heads_of_keys_are_shared(shared: int) -> None:
    arrays = operands(shared=shared)
    check(arrays, formula(*arrays), names=shared == 2)
    check(arrays, formula(*arrays, causal=True, scale=0.3), is_causal=True, scale=0.3, names=shared == 4)


def test_masks_add_or_choose() -> None:
    arrays = operands()
    chosen, added = RNG.random((5, 7)) > 0.4, RNG.normal(size=(2, 1, 5, 7)).astype(np.float32)
    chosen[2] = False
    check(arrays, formula(*arrays, mask=chosen), mask=chosen)
    check(arrays, formula(*arrays, mask=added, cap=2), mask=added, softcap=2)


@pytest.mark.slow
def test_on_a_simulated_gpu() -> None:
    arrays = operands(heads=2, shared=1, batch=())
    check(arrays, formula(*arrays, causal=True), is_causal=True, devices=("cpu", "ptxsim"))
    check(arrays, formula(*arrays), devices=("cpu", "ptxsim"), names=True)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("rows", "keys"), [(1, 1), (0, 3), (65, 1), (3, 130)])
def test_sizes_that_hurt(rows: int, keys: int) -> None:
    arrays = operands(np.float16, 2, 2, rows, keys, ())
    check(arrays, formula(*arrays), 4e-3)
    plain = [x[0] for x in arrays]
    check(plain, formula(*plain), 4e-3)


REFUSED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "heads": (lambda q, n: jn.attention(q, q[:3], q[:3]), "4 heads of queries, 3 of keys"),
    "axes": (lambda q, n: jn.attention(q[0, 0], q, q), "1 axes"),
    "scale": (lambda q, n: jn.attention(n, n, n), "heads of d numbers and no scale"),
    "softcap": (lambda q, n: jn.attention(q, q, q, softcap=0), "softcap is 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_names_a_fix(name: str) -> None:
    build, told = REFUSED[name]
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (4, 5, 8), "q"), jn.TensorType(jn.float32, (4, 5, "d"), "n")])
    with pytest.raises(jn.UserError, match=told) as caught:
        build(*graph.inputs)
    assert "fix" in str(caught.value)
