"""Products whose left operand lies column by column in memory, as x.T @ y reads it."""

from __future__ import annotations

import functools
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.llvm.compile import host_target

from .....support.tiers import pairs


@functools.lru_cache(maxsize=16)
def _model(dtype: str, columns: int) -> Any:
    graph = jn.Graph("g", [jn.TensorType(dtype, ("k", "m"), "a"), jn.TensorType(dtype, ("k", columns), "b")])
    graph.output(graph.inputs[0].transpose() @ graph.inputs[1])
    return jn.compile(graph, "cpu", cache=False)


@pytest.mark.one_in(48)
@pytest.mark.parametrize(
    ("dtype", "m", "k", "columns"),
    pairs(["float32", "float64"], [0, 1, 5, 6, 7, 13, 24, 25, 67, 300], [0, 1, 3, 4, 5, 66, 517], [1, 15, 64, 70, 130]),
)
def test_sums_are_exact(dtype: str, m: int, k: int, columns: int) -> None:
    rng = np.random.default_rng(m + k)
    a, b = rng.integers(-9, 10, (k, m)).astype(dtype), rng.integers(-9, 10, (k, columns)).astype(dtype)
    np.testing.assert_array_equal(_model(dtype, columns)(a, b), a.T.astype(np.int64) @ b.astype(np.int64))


def test_a_whole_block_reads_columns_where_they_lie() -> None:
    graph = jn.Graph("g", [jn.TensorType("float32", (64, 128), "a"), jn.TensorType("float32", (64, 128), "b")])
    graph.output(graph.inputs[0].transpose() @ graph.inputs[1])
    model = jn.compile(graph, "cpu", cache=False)
    if not host_target().has_short_vectors:  # others copy it first
        assert "_adjacent" in model.kernels[-1].llvm_ir
    a, b = np.random.default_rng(1).standard_normal((2, 64, 128)).astype(np.float32)
    a[5, 7], b[6, 9] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(model(a, b), a.T @ b, rtol=2e-4, atol=1e-4)
