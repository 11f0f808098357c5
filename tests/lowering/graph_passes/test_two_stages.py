"""Long reductions to few values in two stages, beside NumPy."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.graph_passes.expand import expand

CASES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((32, 28, 28, 64), (0, 1, 2)), ((40, 20, 30, 100), (0, 1, 2)), ((50, 50, 50), (0, 1, 2)), ((60, 60, 60, 3), (0, 1, 2)),
    ((1031, 63, 63, 2), (0, 1, 2)), ((32, 48, 48, 3), (0, 1, 2)), ((63, 2, 63, 63), (0, 2, 3)), ((16384, 2047), (0,)),
    ((16383, 70), (0,)), ((16411, 64), (0,)), ((3, 65537), (1,)), ((1, 20000, 1, 65), (0, 1)), ((70, 1500), (0, 1)),
    ((2, 1201, 63), (0, 1, 2)), ((5, 1030, 70), (0, 1)), ((16, 3, 65, 67), (0, 1, 2, 3)), ((5, 7, 3, 9, 80), (0, 1, 2, 4)),
]  # fmt: skip


@pytest.mark.one_in(64)
@pytest.mark.parametrize(("shape", "axes"), CASES)
@pytest.mark.parametrize("keepdims", [False, True])
def test_every_element_counts_once(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.int32, shape, "x")])
    (x,) = graph.inputs
    graph.output(jn.sum(x, axes, keepdims=keepdims), jn.max(x, axis=axes, keepdims=keepdims), names=["sum", "max"])
    value = np.random.default_rng(len(shape)).integers(-1000, 1000, shape, dtype=np.int32)
    total, most = _run(graph, value)
    np.testing.assert_array_equal(total, value.sum(axes, keepdims=keepdims))
    np.testing.assert_array_equal(most, value.max(axes, keepdims=keepdims))


@pytest.mark.parametrize(
    ("shape", "permuted", "first"),
    [
        ((4096, 16384), None, (1, 2)),  # rows that lie together, though there are more columns
        ((300, 2000), None, (1,)),
        ((2, 70, 2000), None, (2,)),
        ((16, 3, 128, 128), None, (1, 2, 3)),  # images: partial results lie along short outer axes
        ((128, 128, 3, 16), (3, 2, 0, 1), (0, 1, 3)),
        ((2, 8, 100000), None, (0, 1, 3)),  # what is long is cut
        ((3, 2000, 100), None, (0, 2, 3)),  # 2000 is cut into parts
        ((16384, 4096), (1, 0), (0, 2)),
        ((2000, 300), (1, 0), (0, 2)),
    ],
)
def test_the_first_stage_reads_what_lies_together(shape: Any, permuted: Any, first: Any) -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, shape, "x")])
    (x,) = graph.inputs
    graph.output(jn.sum(jn.abs(x if permuted is None else jn.permute(x, permuted))))
    reductions = [symbol.attrs["axes"] for symbol in expand(graph).symbols if symbol.op.name == "reduce_sum"]
    assert reductions[0] == first


def _run(graph: Any, value: Any) -> Any:
    model = jn.compile(graph, device="cpu", cache=False)
    return model(value)
