"""Reductions over every set of axes of x ∘ y, where y lacks any set of axes: what a block has along one dimension only is read
where it lies, turned, or spread, and reduced along others."""

from __future__ import annotations

import itertools
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ..support.tiers import both_tiers, share

SHAPES = ((5, 3, 8), (8, 16, 32), (4, 6, 5, 8))


def subsets(rank: int) -> list[tuple[int, ...]]:
    return [axes for count in range(1, rank + 1) for axes in itertools.combinations(range(rank), count)]


def results(x: Any, y: Any, library: Any, axes: tuple[int, ...]) -> list[Any]:
    return [library.sum(x * y, axis=axes), library.max(x + y, axis=axes), library.sum((x - y) * (x - y), axis=axes)]


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "ptxsim"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@both_tiers
def test_of_operands_that_lack_axes(shape: tuple[int, ...], device: str, in_full: bool) -> None:
    rng = np.random.default_rng(3)
    lacking = subsets(len(shape))
    if device == "ptxsim":
        lacking = lacking[:: 2 if len(shape) == 3 else 6]
    for missing in share(lacking, SHAPES.index(shape), 5 if device == "cpu" else 2, in_full):
        x = rng.standard_normal(shape, dtype=np.float32)
        y = rng.standard_normal([1 if d in missing else n for d, n in enumerate(shape)], dtype=np.float32)
        graph = jn.Graph("g", [jn.TensorType("float32", a.shape) for a in (x, y)])
        reduced = subsets(len(shape))
        graph.output(*[result for axes in reduced for result in results(*graph.inputs, jn, axes)])
        found = iter(jn.compile(graph, device, cache=False, threads=2 if device == "cpu" else None)(x, y))
        wide = x.astype(np.float64), y.astype(np.float64)
        for axes in reduced:
            for wanted in results(*wide, np, axes):
                np.testing.assert_allclose(next(found), wanted, rtol=1e-4, atol=1e-3, err_msg=f"y lacks {missing}, over {axes}")
